/* SPDX-License-Identifier: Apache-2.0 */
/* See holders.h. */
#include "tools/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAMED_MOST     4
#define ANCESTORS_MOST 32

static void dir_close(DIR *d)
{
	if (d)
		(void)closedir(d);
}
SCOPE_PTR(DIR, dir_close)

static void file_close(FILE *f)
{
	if (f)
		(void)fclose(f);
}
SCOPE_PTR(FILE, file_close)

static bool lies_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* What is held: a directory by its name and, where known, a file system by its number. */
struct held {
	const char *dir;
	const struct mounts_fs *fs;
};

/* In another mount namespace it may have any name; the number is known without asking its server. */
static bool is_on(const char *link, const struct mounts_fs *fs)
{
	struct statx st;

	return fs && statx(AT_FDCWD, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) == 0 &&
	       st.stx_dev_major == fs->major && st.stx_dev_minor == fs->minor;
}

static bool link_leads_into(const char *link, const struct held *h)
{
	char to[PATH_MAX];
	ssize_t len = readlink(link, to, sizeof(to) - 1);

	if (len < 0)
		return false;
	to[len] = '\0';
	return lies_in(to, h->dir) || (to[0] == '/' && is_on(link, h->fs));
}

/* Any link of the directory /proc/PID/WHAT. */
static bool one_leads_into(const char *pid, const char *what, const struct held *h)
{
	char path[PATH_MAX];
	scoped(dir_close) DIR *d = NULL;
	const struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, what);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		(void)snprintf(path, sizeof(path), "/proc/%s/%s/%s", pid, what, e->d_name);
		if (link_leads_into(path, h))
			return true;
	}
	return false;
}

static bool holds(const char *pid, const void *arg)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	const struct held *h = arg;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, links[i]);
		if (link_leads_into(path, h))
			return true;
	}
	return one_leads_into(pid, "fd", h) || one_leads_into(pid, "map_files", h);
}

static void add_name(const char *pid, struct buf *out)
{
	char path[64], name[32] = "?";
	scoped(file_close) FILE *comm = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	comm = fopen(path, "re");
	if (comm && fgets(name, sizeof(name), comm))
		name[strcspn(name, "\n")] = '\0';
	buf_addf(out, "%s%s (%s)", out->len ? ", " : "", name, pid);
}

/* 0: not to be seen. */
static pid_t parent_of(pid_t pid)
{
	char path[64], line[256];
	scoped(file_close) FILE *status = NULL;
	int parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "PPid: %d", &parent) == 1)
			break;
	return parent;
}

/* Us, and those who started us, as far as we know them. */
struct ancestry {
	pid_t pids[ANCESTORS_MOST];
	unsigned n;
};

static void find_ancestry(struct ancestry *a)
{
	a->n = 0;
	for (pid_t pid = getpid(); pid > 0 && a->n < ANCESTORS_MOST; pid = parent_of(pid))
		a->pids[a->n++] = pid;
}

static bool is_of(const struct ancestry *a, const char *pid)
{
	for (unsigned i = 0; i < a->n; i++)
		if (a->pids[i] == atol(pid))
			return true;
	return false;
}

/* The one of them that held it first, and not us; false: none did. */
static bool name_ancestor(const struct ancestry *a, const struct held *h, struct buf *out)
{
	for (unsigned i = a->n; i-- > 1;) {
		char pid[24];

		(void)snprintf(pid, sizeof(pid), "%ld", (long)a->pids[i]);
		if (!holds(pid, h))
			continue;
		add_name(pid, out);
		return true;
	}
	return false;
}

/* Who is what is asked, those of `but` apart (NULL: nobody), behind `found` others. */
static unsigned name_those(bool (*is)(const char *pid, const void *arg), const void *arg, const struct ancestry *but,
			   unsigned found, struct buf *out)
{
	scoped(dir_close) DIR *proc = opendir("/proc");
	const struct dirent *e;

	while (proc && found < NAMED_MOST && (e = readdir(proc))) {
		if (!isdigit((unsigned char)e->d_name[0]) || (but && is_of(but, e->d_name)) || !is(e->d_name, arg))
			continue;
		add_name(e->d_name, out);
		found++;
	}
	if (found == NAMED_MOST)
		buf_addf(out, " ...");
	return found;
}

void holders_name(const char *dir, const struct mounts_fs *fs, struct buf *out)
{
	const struct held h = {.dir = dir, .fs = fs};
	struct ancestry a;

	find_ancestry(&a);
	if (name_those(holds, &h, &a, name_ancestor(&a, &h, out), out) == 0 && holds("self", &h))
		buf_addf(out, "this command (its input or output lies there)");
}

/* ---- other mount namespaces ---- */

struct elsewhere {
	const struct mounts_fs *fs;
	ino_t ours;
	ino_t *seen; /* namespaces that have been named; NAMED_MOST of them */
	unsigned *seen_n;
};

static ino_t namespace_of(const char *pid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/ns/mnt", pid);
	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static bool shows_it_elsewhere(const char *pid, const void *arg)
{
	const struct elsewhere *x = arg;
	ino_t ns = namespace_of(pid);

	if (!ns || ns == x->ours)
		return false;
	for (unsigned i = 0; i < *x->seen_n; i++)
		if (x->seen[i] == ns)
			return false;
	if (!mounts_show(pid, x->fs, NULL))
		return false;
	x->seen[(*x->seen_n)++] = ns;
	return true;
}

void holders_elsewhere(const struct mounts_fs *fs, struct buf *out)
{
	ino_t seen[NAMED_MOST];
	unsigned seen_n = 0;
	const struct elsewhere x = {.fs = fs, .ours = namespace_of("self"), .seen = seen, .seen_n = &seen_n};

	(void)name_those(shows_it_elsewhere, &x, NULL, 0, out);
}
