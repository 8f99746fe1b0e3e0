/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache keeps to its size: what the store has goes, and comes back when it is read.  Contents that nobody has
 * open go first, oldest first: a whole one where so much must go, else chunks of it; then chunks of open ones, but
 * for those that their readers want next.  Mapped or not is all the same: pages are the kernel's, and it reads what
 * it lacks through us.  What no commit names is never dropped; with a cache full of that, writers wait
 * (fs/room.h) and reads keep nothing (fs/past.h).  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_EVICT_H
#define HOLDFAST_FS_EVICT_H

#include "fs/mount.h"

/* Drop until the cache is a little below cache_size, or nothing may be dropped. */
void evict_to_size(struct mount *m);
bool evict_due(const struct mount *m); /* would that do anything? */
/* Drop at least so much, if that may go, whatever the cache's size; false: nothing went. */
bool evict_some(struct mount *m, uint64_t bytes);
bool evict_over(const struct mount *m); /* is the cache over its size? */
/* Is there a closed and finished file whose commit will make it droppable?  Under lock. */
bool evict_will_help(const struct mount *m);

#endif
