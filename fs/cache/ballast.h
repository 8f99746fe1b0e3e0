/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ballast: a file that holds back a little of the cache's disk for what must not fail when the disk is
 * full: the journal, and new files' names.  They take it piece by piece; it is made whole again when there
 * is room.  A disk that cannot hold room back (no fallocate) has none.
 *
 * Thread: any; one lock inside, which is innermost.
 */
#ifndef HOLDFAST_FS_CACHE_BALLAST_H
#define HOLDFAST_FS_CACHE_BALLAST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/scope.h"

struct ballast;

/* "ballast" under dirfd, made or found; as much of `bytes` as there is room for. */
int ballast_open(int dirfd, uint64_t bytes, struct ballast **out, struct fault *f);
void ballast_close(struct ballast *b); /* the file stays: the next mount finds it */
SCOPE_PTR(struct ballast, ballast_close)

/*
 * rc is what a call said that needs room.  True: it was for want of room, and there is some more now: try again.
 * False: it was something else, or all has been given.  b may be NULL.
 */
bool ballast_helps(struct ballast *b, int rc);
/* Make it whole again; false: there is no room for all of it. */
bool ballast_fill(struct ballast *b);
bool ballast_is_whole(const struct ballast *b);
uint64_t ballast_bytes(const struct ballast *b); /* held back now */

/* No room on the disk, or none for us. */
static inline bool ballast_is_short(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

#endif
