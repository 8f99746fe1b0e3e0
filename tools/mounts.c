/* SPDX-License-Identifier: Apache-2.0 */
/* See mounts.h; proc(5) has the format. */
#include "tools/mounts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

/* Numbers of file systems are used again: one of another type may have ours by now. */
#define TYPE "fuse.holdfast"

struct line {
	struct mounts_fs fs;
	char dir[PATH_MAX];
};

/* Blanks, and what else would break a line, stand there as \ and three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++, to++) {
		unsigned c;

		if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
			*to = (char)c;
			s += 3;
		} else {
			*to = *s;
		}
	}
	*to = '\0';
}

static bool parse(const char *text, struct line *out)
{
	char type[64];
	const char *rest = strstr(text, " - ");

	_Static_assert(PATH_MAX == 4096, "the width below");
	if (!rest || sscanf(rest, " - %63s", type) != 1 || strcmp(type, TYPE) != 0)
		return false;
	if (sscanf(text, "%*d %*d %u:%u %*s %4095s", &out->fs.major, &out->fs.minor, out->dir) != 3)
		return false;
	unescape(out->dir);
	return true;
}

/* Calls `see` with each holdfast mount of the table, until it returns true. */
static bool any(const char *pid, bool (*see)(const struct line *l, void *arg), void *arg)
{
	scoped(free) char *text = NULL;
	char path[64];
	struct line l;
	bool seen = false;
	size_t cap = 0;
	FILE *table;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/mountinfo", pid);
	table = fopen(path, "re");
	while (table && !seen && getline(&text, &cap, table) > 0)
		seen = parse(text, &l) && see(&l, arg);
	if (table)
		(void)fclose(table);
	return seen;
}

struct find {
	const char *dir;
	struct mounts_fs fs;
	bool found;
};

/* Never content: of mounts in one place the last is on top. */
static bool find_one(const struct line *l, void *arg)
{
	struct find *x = arg;

	if (strcmp(l->dir, x->dir) == 0) {
		x->fs = l->fs;
		x->found = true;
	}
	return false;
}

bool mounts_find(const char *pid, const char *dir, struct mounts_fs *out)
{
	struct find x = {.dir = dir};

	(void)any(pid, find_one, &x);
	if (x.found)
		*out = x.fs;
	return x.found;
}

struct show {
	const struct mounts_fs *fs;
	const char *but;
};

static bool show_one(const struct line *l, void *arg)
{
	const struct show *x = arg;

	return l->fs.major == x->fs->major && l->fs.minor == x->fs->minor &&
	       !(x->but && strcmp(l->dir, x->but) == 0);
}

bool mounts_show(const char *pid, const struct mounts_fs *fs, const char *but)
{
	struct show x = {.fs = fs, .but = but};

	return any(pid, show_one, &x);
}
