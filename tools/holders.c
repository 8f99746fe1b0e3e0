/* SPDX-License-Identifier: Apache-2.0 */
/* See holders.h. */
#include "tools/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NAMED_MOST 4

static void dir_close(DIR *d)
{
	if (d)
		(void)closedir(d);
}
SCOPE_PTR(DIR, dir_close)

static bool lies_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool link_leads_into(const char *link, const char *dir)
{
	char to[PATH_MAX];
	ssize_t len = readlink(link, to, sizeof(to) - 1);

	if (len < 0)
		return false;
	to[len] = '\0';
	return lies_in(to, dir);
}

/* Any link of the directory /proc/PID/WHAT. */
static bool one_leads_into(const char *pid, const char *what, const char *dir)
{
	char path[PATH_MAX];
	scoped(dir_close) DIR *d = NULL;
	const struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, what);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		(void)snprintf(path, sizeof(path), "/proc/%s/%s/%s", pid, what, e->d_name);
		if (link_leads_into(path, dir))
			return true;
	}
	return false;
}

static bool holds(const char *pid, const char *dir)
{
	static const char *const links[] = {"cwd", "root", "exe"};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, links[i]);
		if (link_leads_into(path, dir))
			return true;
	}
	return one_leads_into(pid, "fd", dir) || one_leads_into(pid, "map_files", dir);
}

static void add_name(const char *pid, struct buf *out)
{
	char path[64], name[32] = "?";
	FILE *comm;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	comm = fopen(path, "re");
	if (comm && fgets(name, sizeof(name), comm))
		name[strcspn(name, "\n")] = '\0';
	if (comm)
		(void)fclose(comm);
	buf_addf(out, "%s%s (%s)", out->len ? ", " : "", name, pid);
}

void holders_name(const char *dir, struct buf *out)
{
	scoped(dir_close) DIR *proc = opendir("/proc");
	const struct dirent *e;
	unsigned found = 0;

	while (proc && found < NAMED_MOST && (e = readdir(proc))) {
		if (!isdigit((unsigned char)e->d_name[0]) || !holds(e->d_name, dir))
			continue;
		add_name(e->d_name, out);
		found++;
	}
	if (found == NAMED_MOST)
		buf_addf(out, " ...");
}
