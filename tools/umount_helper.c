/* SPDX-License-Identifier: Apache-2.0 */
/* See umount_helper.h. */
#include "tools/umount_helper.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "tools/ending.h"
#include "tools/helper.h"
#include "tools/mounts.h"
#include "tools/tools.h"

static int parse_flags(int argc, char **argv, struct umount_helper *out, struct fault *f)
{
	int opt;

	optind = 0; /* glibc: start anew, whoever parsed before */
	while ((opt = getopt(argc, argv, "flnrvN:t:")) != -1) {
		switch (opt) {
		case 'f':
			out->force = true;
			break;
		case 'l':
			out->lazy = true;
			break;
		case 'N':
			out->space = optarg;
			break;
		case 'n':
		case 'r': /* a mount that is busy stays as it is */
		case 't':
		case 'v':
			break;
		default:
			return fault_set(f, -EINVAL, FAULT_FINAL, "unknown option -%c", optopt);
		}
	}
	return 0;
}

int umount_helper_parse(int argc, char **argv, struct umount_helper *out, struct fault *f)
{
	int rc;

	*out = (struct umount_helper){.lazy = false};
	opterr = 0;
	rc = parse_flags(argc, argv, out, f);
	opterr = 1;
	if (rc < 0)
		return rc;
	if (argc - optind != 1)
		return fault_set(f, -EINVAL, FAULT_FINAL, "wanted: DIR [-fl]");
	out->dir = argv[optind];
	return 0;
}

static int complain(const struct umount_helper *u, const char *text)
{
	fprintf(stderr, "umount.holdfast: %s: %s\n", u->dir, text);
	return VERB_FAILED;
}

static int unmount_now(const struct umount_helper *u, const char *dir)
{
	struct fault f = FAULT_NONE;
	int flags = (u->lazy ? MNT_DETACH : 0) | (u->force ? MNT_FORCE : 0);

	return ending_unmount(dir, flags, &f) < 0 ? complain(u, f.text) : VERB_DONE;
}

/* Of several bind mounts one may go without a word: the mount lives on in the others. */
static bool is_one_of_several(const char *dir)
{
	struct mounts_fs fs;

	return mounts_find("self", dir, &fs) && mounts_show("self", &fs, dir);
}

int umount_helper_run(const struct umount_helper *u)
{
	char real[PATH_MAX];
	char *end[] = {"umount", "--", real, NULL};
	struct fault f = FAULT_NONE;

	if (helper_enter(u->space, &f) < 0)
		return complain(u, f.text);
	if (!realpath(u->dir, real))
		return complain(u, strerror(errno));
	if (u->lazy || u->force || is_one_of_several(real))
		return unmount_now(u, real);
	return cmd_umount(3, end);
}
