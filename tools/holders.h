/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a mount busy.  Thread: any. */
#ifndef HOLDFAST_TOOLS_HOLDERS_H
#define HOLDFAST_TOOLS_HOLDERS_H

#include "base/buf.h"
#include "tools/mounts.h"

/*
 * Name the processes with a file, a mapping or their working directory in `dir` (absolute, without
 * links), or on the file system `fs` (NULL: not known), wherever they see it:
 * "python (4711), bash (4712)", the first few.  Of those that have started us, one after the other,
 * only the first is named: the others (timeout, sudo) inherited it, and end with us; so do we, who
 * are named if nobody else is.  No file system is asked anything, so that one that does not answer
 * is no trouble; what we may not see is not there.  Empty: nobody found.
 */
void holders_name(const char *dir, const struct mounts_fs *fs, struct buf *out);

/* A process of each mount namespace but ours that shows `fs`, in the same words. */
void holders_elsewhere(const struct mounts_fs *fs, struct buf *out);

#endif
