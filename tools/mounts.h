/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's table of mounts, /proc/PID/mountinfo: where a file system is shown.  Thread: any. */
#ifndef HOLDFAST_TOOLS_MOUNTS_H
#define HOLDFAST_TOOLS_MOUNTS_H

#include <stdbool.h>

/* A file system, whatever shows it: a bind mount, or a container's copy, has the same number. */
struct mounts_fs {
	unsigned major, minor;
};

/*
 * The holdfast mount on top of `dir` (absolute, without links), in the table of `pid` ("self").
 * Returns: false if none is there, or nothing can be read; *out is untouched.
 */
bool mounts_find(const char *pid, const char *dir, struct mounts_fs *out);

/* Is `fs`, a holdfast mount, shown there in any place other than `but` (NULL: in any)? */
bool mounts_show(const char *pid, const struct mounts_fs *fs, const char *but);

#endif
