/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast ls: what a store holds at one of its moments, as ls(1) would show it; without a mount. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tools/look.h"
#include "tools/tools.h"

#define DEPTH_MOST 512 /* directories in each other, in a store that nobody has damaged */

struct ls {
	bool is_long, recursive;
	bool terminal; /* stdout is one: names must not move its cursor */
	const char *ref;
	struct look look;
	bool headed; /* a directory was shown already */
};

struct entry {
	char *name;
	struct target at;
};

struct entries {
	struct entry *v;
	size_t n, cap;
};

static void entries_fini(struct entries *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i].name);
	free(e->v);
}
SCOPE_VAL(struct entries, entries_fini)

static int usage(void)
{
	fputs("holdfast ls: usage: holdfast ls [-l] [-R] URI[@COMMIT][:PATH]\n", stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct ls *out)
{
	static const struct option options[] = {{NULL, 0, NULL, 0}};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "lR", options, NULL)) != -1) {
		if (c == 'l')
			out->is_long = true;
		else if (c == 'R')
			out->recursive = true;
		else
			return usage();
	}
	if (argc - optind != 1)
		return usage();
	out->ref = argv[optind];
	out->terminal = isatty(STDOUT_FILENO);
	return 0;
}

/* ---- lines ---- */

static void put_name(const struct ls *ls, const char *name)
{
	for (const char *c = name; *c; c++) {
		bool control = (unsigned char)*c < ' ' || *c == 0x7f;

		putchar(ls->terminal && control ? '?' : *c);
	}
}

static void mode_string(uint32_t mode, char out[11])
{
	static const char types[] = "?pc?d?b?-?l?s???", bits[] = "rwxrwxrwx";

	out[0] = types[(mode & S_IFMT) >> 12];
	for (int i = 0; i < 9; i++)
		out[1 + i] = mode & (0400u >> i) ? bits[i] : '-';
	if (mode & S_ISUID)
		out[3] = mode & 0100 ? 's' : 'S';
	if (mode & S_ISGID)
		out[6] = mode & 0010 ? 's' : 'S';
	if (mode & S_ISVTX)
		out[9] = mode & 0001 ? 't' : 'T';
	out[10] = '\0';
}

static void time_string(int64_t ns, char out[32])
{
	time_t s = (time_t)(ns / (int64_t)NS_PER_S);
	struct tm tm;

	if (!localtime_r(&s, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		(void)strcpy(out, "?");
}

static int put_long(struct ls *ls, const char *name, const struct target *at, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec i = {.id = 0};
	char mode[11], time[32];
	int rc = state_inode(ls->look.state, &ls->look.source, at->home, at->id, &i, f);

	if (rc < 0)
		return fault_in(f, "%s", name);
	mode_string(i.attr.mode, mode);
	time_string(i.attr.mtime_ns, time);
	printf("%s %3" PRIu32 " %5" PRIu32 " %5" PRIu32 " %12" PRIu64 " %s ", mode, i.attr.nlink,
	       i.attr.uid, i.attr.gid, i.attr.size, time);
	put_name(ls, name);
	if (i.symlink) {
		fputs(" -> ", stdout);
		put_name(ls, i.symlink);
	}
	putchar('\n');
	return 0;
}

static int put_entry(struct ls *ls, const char *name, const struct target *at, struct fault *f)
{
	if (ls->is_long)
		return put_long(ls, name, at, f);
	put_name(ls, name);
	putchar('\n');
	return 0;
}

/* ---- directories ---- */

static int collect(void *arg, const char *name, size_t len, const struct name_rec *n)
{
	struct entries *e = arg;

	if (e->n == e->cap) {
		size_t cap = e->cap ? 2 * e->cap : 64;
		struct entry *v = realloc(e->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		e->v = v;
		e->cap = cap;
	}
	e->v[e->n] = (struct entry){.name = strndup(name, len),
				    .at = {.id = n->id, .home = n->home, .type = n->type}};
	return e->v[e->n].name ? (e->n++, 0) : -ENOMEM;
}

/* As `ls -R` does: each directory under its name. */
static void put_heading(struct ls *ls, const char *path)
{
	if (!ls->recursive)
		return;
	if (ls->headed)
		putchar('\n');
	putchar('/');
	put_name(ls, path);
	puts(":");
	ls->headed = true;
}

static int list_dir(struct ls *ls, const char *path, uint64_t id, unsigned depth, struct fault *f);

static int list_below(struct ls *ls, const char *path, const struct entries *e, unsigned depth,
		      struct fault *f)
{
	for (size_t i = 0; i < e->n; i++) {
		scoped(free) char *below = NULL;
		int rc;

		if (e->v[i].at.type != DT_DIR)
			continue;
		if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", e->v[i].name) < 0) {
			below = NULL;
			return fault_errno(f, -ENOMEM, "%s", path);
		}
		rc = list_dir(ls, below, e->v[i].at.id, depth + 1, f);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int list_dir(struct ls *ls, const char *path, uint64_t id, unsigned depth, struct fault *f)
{
	scoped(entries_fini) struct entries e = {.v = NULL};
	int rc;

	if (depth > DEPTH_MOST)
		return fault_set(f, -ELOOP, FAULT_FINAL, "/%.100s...: directories without end",
				 path);
	rc = state_names(ls->look.state, &ls->look.source, id, collect, &e, f);
	if (rc == -ENOMEM)
		return fault_errno(f, rc, "/%s", path);
	if (rc < 0)
		return fault_in(f, "/%s", path);
	put_heading(ls, path);
	for (size_t i = 0; rc == 0 && i < e.n; i++)
		rc = put_entry(ls, e.v[i].name, &e.v[i].at, f);
	return rc == 0 && ls->recursive ? list_below(ls, path, &e, depth, f) : rc;
}

static int list(struct ls *ls, const struct ref *ref, struct fault *f)
{
	struct target at;
	int rc = look_up(&ls->look, ref->path, &at, f);

	if (rc == 0 && at.type == DT_DIR)
		rc = list_dir(ls, ref->path, at.id, 0, f);
	else if (rc == 0)
		rc = put_entry(ls, ref->path, &at, f);
	if (rc == 0 && fflush(stdout) != 0)
		return fault_errno(f, -errno, "standard output");
	return rc < 0 ? fault_in(f, "%s@%" PRIu64, ref->uri, ls->look.number) : 0;
}

int cmd_ls(int argc, char **argv)
{
	scoped(ref_fini) struct ref ref = REF_EMPTY;
	struct ls ls = {.look = LOOK_EMPTY};
	struct fault f = FAULT_NONE;
	int rc = parse(argc, argv, &ls);

	if (rc != 0)
		return rc;
	rc = ref_parse(ls.ref, &ref, &f);
	if (rc == 0)
		rc = look_open(&ref, &ls.look, &f);
	if (rc == 0)
		rc = list(&ls, &ref, &f);
	look_close(&ls.look);
	if (rc == 0)
		return VERB_DONE;
	fflush(stdout);
	fprintf(stderr, "holdfast ls: %s\n", f.text);
	return VERB_FAILED;
}
