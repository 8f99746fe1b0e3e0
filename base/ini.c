/* SPDX-License-Identifier: Apache-2.0 */
/* The AWS INI dialect.  Files are small and read once, so a list is searched from its end. */
#include "base/ini.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/wipe.h"

enum { FILE_MOST = 1 << 20 };

/* key NULL: the section itself; sub NULL: not nested. */
struct entry {
	struct entry *older;
	char *section;
	char *key;
	char *sub;
	char *value;
};

struct ini {
	struct entry *newest;
};

/* Where parsing stands. */
struct parse {
	struct ini *ini;
	const char *path;
	unsigned line;
	char *section;       /* NULL before the first */
	struct entry *above; /* the key that an indented line belongs to */
};

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	free(e->section);
	free(e->key);
	free(e->sub);
	str_wipe(e->value);
	free(e);
}
SCOPE_PTR(struct entry, entry_free)

void ini_free(struct ini *ini)
{
	struct entry *e = ini ? ini->newest : NULL;

	while (e) {
		struct entry *older = e->older;

		entry_free(e);
		e = older;
	}
	free(ini);
}

/* --- parsing --- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
	size_t len;

	while (is_blank(*s))
		s++;
	len = strlen(s);
	while (len > 0 && is_blank(s[len - 1]))
		s[--len] = '\0';
	return s;
}

static void lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s += 'a' - 'A';
}

static int complain(const struct parse *p, const char *why, struct fault *f)
{
	return fault_set(f, -EINVAL, FAULT_FINAL, "%s:%u: %s", p->path, p->line, why);
}

static int no_memory(const struct parse *p, struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "%s: out of memory", p->path);
}

static char *copy_or_null(const char *s)
{
	return s ? strdup(s) : NULL;
}

static int add_entry(struct parse *p, const char *key, const char *sub, const char *value,
		     struct fault *f)
{
	scoped(entry_free) struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return no_memory(p, f);
	e->section = copy_or_null(p->section);
	e->key = copy_or_null(key);
	e->sub = copy_or_null(sub);
	e->value = copy_or_null(value);
	if (!e->section || !e->key != !key || !e->sub != !sub || !e->value != !value)
		return no_memory(p, f);
	e->older = p->ini->newest;
	p->ini->newest = take(&e);
	return 0;
}

/* `profile "my name"` and `profile   my name` are the same section. */
static void tidy_section(char *s)
{
	char *to = s;

	for (char *from = s; *from; from++) {
		bool blank = is_blank(*from);

		if (*from == '"' || *from == '\'' || (blank && to > s && to[-1] == ' '))
			continue;
		*to++ = blank ? ' ' : *from;
	}
	*to = '\0';
}

static int parse_section(struct parse *p, char *line, struct fault *f)
{
	char *end = strchr(line, ']');
	char *name;

	if (!end)
		return complain(p, "a section without ']'", f);
	*end = '\0';
	name = trim(line + 1);
	tidy_section(name);
	if (!*name)
		return complain(p, "a section without a name", f);
	free(p->section);
	p->section = strdup(name);
	p->above = NULL;
	if (!p->section)
		return no_memory(p, f);
	return add_entry(p, NULL, NULL, NULL, f);
}

/* Cuts "key = value"; NULL if there is no key or nothing to cut at. */
static char *cut_value(char *line, char **key)
{
	size_t len = strcspn(line, "=:");

	if (line[len] == '\0')
		return NULL;
	line[len] = '\0';
	*key = trim(line);
	lower(*key);
	return **key ? trim(line + len + 1) : NULL;
}

static int parse_key(struct parse *p, char *line, struct fault *f)
{
	char *key;
	char *value;
	int rc;

	if (!p->section)
		return complain(p, "a line before the first [section]", f);
	value = cut_value(line, &key);
	if (!value)
		return complain(p, "neither a [section] nor key = value", f);
	rc = add_entry(p, key, NULL, value, f);
	if (rc == 0)
		p->above = p->ini->newest;
	return rc;
}

/* An indented line nests below an empty value and continues any other. */
static int parse_indented(struct parse *p, char *line, struct fault *f)
{
	char *key;
	char *value;
	char *longer;

	if (!*p->above->value) {
		value = cut_value(line, &key);
		if (!value)
			return complain(p, "an indented line that is not key = value", f);
		return add_entry(p, p->above->key, key, value, f);
	}
	if (asprintf(&longer, "%s\n%s", p->above->value, line) < 0)
		return no_memory(p, f);
	str_wipe(p->above->value);
	p->above->value = longer;
	return 0;
}

static int parse_line(struct parse *p, char *line, struct fault *f)
{
	bool indented = is_blank(*line);

	line = trim(line);
	if (!*line || *line == '#' || *line == ';')
		return 0;
	if (indented && p->above)
		return parse_indented(p, line, f);
	if (*line == '[')
		return parse_section(p, line, f);
	return parse_key(p, line, f);
}

static int parse_text(struct parse *p, char *text, struct fault *f)
{
	static const char byte_order_mark[] = "\xef\xbb\xbf";

	if (strncmp(text, byte_order_mark, 3) == 0)
		text += 3;
	while (*text) {
		size_t len = strcspn(text, "\n");
		bool last = text[len] == '\0';
		int rc;

		text[len] = '\0';
		p->line++;
		rc = parse_line(p, text, f);
		if (rc < 0)
			return rc;
		text += len + !last;
	}
	return 0;
}

/* --- loading --- */

/* Into memory taken at once, so that no reallocation leaves a secret behind. */
static int read_file(const char *path, struct buf *out, struct fault *f)
{
	scoped(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t got = 1;
	size_t most;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fault_errno(f, -errno, "%s", path);
	if (st.st_size > FILE_MOST)
		return fault_set(f, -EFBIG, FAULT_FINAL, "%s: %lld bytes are no configuration",
				 path, (long long)st.st_size);
	most = S_ISREG(st.st_mode) ? (size_t)st.st_size : FILE_MOST;
	if (buf_reserve(out, most + 1) < 0)
		return fault_set(f, -ENOMEM, FAULT_SOON, "%s: out of memory", path);
	while (got > 0 && out->len < most) {
		got = read(fd, out->data + out->len, most - out->len);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got < 0)
			return fault_errno(f, -errno, "%s", path);
		else
			out->len += (size_t)got;
	}
	return 0;
}

int ini_load(const char *path, struct ini **out, struct fault *f)
{
	scoped(ini_free) struct ini *ini = calloc(1, sizeof(*ini));
	scoped(buf_wipe) struct buf text = BUF_EMPTY;
	struct parse p = {.ini = ini, .path = path};
	int rc;

	if (!ini)
		return no_memory(&p, f);
	rc = read_file(path, &text, f);
	if (rc < 0)
		return rc;
	if (text.len > 0) {
		text.data[text.len] = '\0'; /* read_file() left room */
		rc = parse_text(&p, (char *)text.data, f);
	}
	free(p.section);
	if (rc < 0)
		return rc;
	*out = take(&ini);
	return 0;
}

/* --- looking --- */

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static const struct entry *find(const struct ini *ini, const char *section, const char *key,
				const char *sub)
{
	const struct entry *e = ini->newest;

	while (e && !(same(e->section, section) && same(e->key, key) && same(e->sub, sub)))
		e = e->older;
	return e;
}

bool ini_has(const struct ini *ini, const char *section)
{
	return find(ini, section, NULL, NULL) != NULL;
}

const char *ini_get(const struct ini *ini, const char *section, const char *key)
{
	return ini_get_nested(ini, section, key, NULL);
}

const char *ini_get_nested(const struct ini *ini, const char *section, const char *key,
			   const char *sub)
{
	const struct entry *e = find(ini, section, key, sub);

	return e ? e->value : NULL;
}
