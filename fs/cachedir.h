/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache directory: where it is, whose it is, that nobody else uses it, that it is still there.
 * Thread: main, unless it says another.
 */
#ifndef HOLDFAST_FS_CACHEDIR_H
#define HOLDFAST_FS_CACHEDIR_H

#include "fs/mount.h"

/*
 * Opens m->opts.cache (made if absent; chosen from the store's id where it is NULL), locks it, checks or
 * writes whose store it caches, holds ballast back: fills cache_fd, lock_fd and ballast.
 * Fails: -EBUSY another mount uses it; -ESTALE it is another store's; -ELOOP it lies in the mount point or
 * in the store, or they in it.
 */
int cachedir_open(struct mount *m, struct fault *f);
/*
 * Was the directory, or what holds the mount up in it, deleted?  The first time that it is seen: says so in the
 * log, and refuses changes with EIO from then on, since nothing could keep them.  Thread: any, under the mount's lock.
 */
bool cachedir_deleted(struct mount *m);

#endif
