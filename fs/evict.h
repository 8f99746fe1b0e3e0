/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache keeps to its size: contents that the store has and nobody has open are dropped, oldest
 * first, and come back when they are read.  What the store lacks is never dropped; with a cache full of
 * that, writers wait (fs/room.h).  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_EVICT_H
#define HOLDFAST_FS_EVICT_H

#include "fs/mount.h"

/* Drop until the cache is within cache_size, or nothing may be dropped. */
void evict_to_size(struct mount *m);
/* Drop at least so much, if that may go, whatever the cache's size; false: nothing went. */
bool evict_some(struct mount *m, uint64_t bytes);
bool evict_over(const struct mount *m); /* is the cache over its size? */
/* Is there a closed and finished file whose commit will make it droppable?  Under lock. */
bool evict_will_help(const struct mount *m);

#endif
