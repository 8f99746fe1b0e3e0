/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache keeps to its size: contents that the store has and nobody has open are dropped, oldest
 * first, and come back when they are read.  What the store lacks is never dropped; with a cache full of
 * that, writers wait (P1).  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_EVICT_H
#define HOLDFAST_FS_EVICT_H

#include "fs/mount.h"

/* Drop until the cache is within cache_size, or nothing may be dropped. */
void evict_to_size(struct mount *m);
/*
 * Before a write: with the cache over its size, wait until a commit has made contents droppable.  Returns at
 * once if there is no such commit to wait for: a file larger than the cache must still be written.
 */
void evict_wait_room(struct mount *m);

#endif
