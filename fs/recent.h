/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files of a state were saved last?  Directories are looked into from the root down, always the one that
 * changed last, and no more than some; what changed since the base is known by the runs above it, however deep
 * it lies.  Of a directory with very many names those are seen whose inodes are the newest.  Nothing comes
 * into the mount's memory.
 *
 * Thread: any; blocks.
 */
#ifndef HOLDFAST_FS_RECENT_H
#define HOLDFAST_FS_RECENT_H

#include <stdatomic.h>

#include "store/state.h"

#define RECENT_DIRS  32   /* are looked into */
#define RECENT_NAMES 1024 /* of each */

struct recent_file {
	uint64_t dir, home, id;
	uint64_t size; /* not 0 */
	int64_t mtime_ns, dir_ns; /* of it, and of the newest file beside it */
};
struct recent {
	struct recent_file *v;
	size_t n, cap;
};
void recent_fini(struct recent *r);
SCOPE_VAL(struct recent, recent_fini)

/*
 * Regular files, those of the directory with the newest one first, in each the newest first.  Once *stop is set
 * no more is looked into.  Fails as reads of the store do.
 */
int recent_find(struct state *s, struct block_source *src, const _Atomic bool *stop, struct recent *out,
		struct fault *f);

#endif
