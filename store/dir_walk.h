/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over the files below a directory, in memcmp order of their paths.  Blocks; thread: any. */
#ifndef HOLDFAST_STORE_DIR_WALK_H
#define HOLDFAST_STORE_DIR_WALK_H

#include "base/buf.h"

/*
 * Paths that begin with prefix, behind `after` (may be NULL), at most `most`, each NUL-ended.
 * Left out: names that begin with '.', and paths longer than a key.  A directory that is not there
 * holds no files.  0 or a negative errno.
 */
int dir_walk(int root, const char *prefix, const char *after, unsigned most, struct buf *out);

#endif
