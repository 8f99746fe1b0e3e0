/* SPDX-License-Identifier: Apache-2.0 */
/* See ref.h. */
#include "tools/ref.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

void ref_fini(struct ref *r)
{
	free(r->uri);
	free(r->path);
	*r = REF_EMPTY;
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* Is text[0..len) a commit? */
static bool is_commit(const char *text, size_t len)
{
	if (is_word(text, len, "good") || is_word(text, len, "newest"))
		return true;
	return len > 0 && strspn(text, "0123456789") == len;
}

/* The '@' of the commit, NULL if there is none; *len is the length of what stands behind it. */
static const char *find_commit(const char *text, size_t *len)
{
	for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
		*len = strcspn(at + 1, ":@");
		if (at[1 + *len] != '@' && is_commit(at + 1, *len))
			return at;
	}
	return NULL;
}

static int read_commit(const char *text, size_t len, struct ref *out, struct fault *f)
{
	if (is_word(text, len, "good"))
		return 0;
	if (is_word(text, len, "newest")) {
		out->which = REF_NEWEST;
		return 0;
	}
	errno = 0;
	out->which = REF_NUMBER;
	out->number = strtoull(text, NULL, 10);
	if (errno || out->number == 0)
		return fault_set(f, -EINVAL, FAULT_FINAL, "'@%.*s' is no commit: they count from 1",
				 (int)len, text);
	return 0;
}

/* A copy with one '/' between names and none around them. */
static int read_path(const char *text, char **out, struct fault *f)
{
	scoped(free) char *path = malloc(strlen(text) + 2);
	size_t len = 0;

	if (!path)
		return fault_errno(f, -ENOMEM, "path");
	for (text += strspn(text, "/"); *text; text += strspn(text, "/")) {
		size_t name = strcspn(text, "/");

		if (is_word(text, name, ".") || is_word(text, name, ".."))
			return fault_set(f, -EINVAL, FAULT_FINAL,
					 "'%.100s': a path in a store has no '.' or '..'", text);
		if (len > 0)
			path[len++] = '/';
		memcpy(path + len, text, name);
		len += name;
		text += name;
	}
	path[len] = '\0';
	*out = take(&path);
	return 0;
}

int ref_parse(const char *text, struct ref *out, struct fault *f)
{
	const char *scheme = strstr(text, "://"), *rest = scheme ? scheme + 3 : text;
	scoped(ref_fini) struct ref r = REF_EMPTY;
	size_t commit_len = 0;
	const char *commit = find_commit(rest, &commit_len);
	const char *uri_end = commit ? commit : rest + strcspn(rest, ":");
	const char *path = commit ? commit + 1 + commit_len : uri_end;
	int rc = 0;

	r.uri = strndup(text, (size_t)(uri_end - text));
	if (!r.uri)
		return fault_errno(f, -ENOMEM, "path");
	if (commit)
		rc = read_commit(commit + 1, commit_len, &r, f);
	if (rc == 0)
		rc = read_path(*path == ':' ? path + 1 : path, &r.path, f);
	if (rc < 0)
		return rc;
	*out = r;
	r = REF_EMPTY;
	return 0;
}
