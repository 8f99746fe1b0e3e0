/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are in the store and not here yet.  A reader waits for what it needs; a prefetch does
 * not.  A range is fetched once, however many ask (file->fetching).  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_HYDRATE_H
#define HOLDFAST_FS_HYDRATE_H

#include "fs/mount.h"

/*
 * Fetch what [off, off+len) of c, a content of n, lacks, and wait.  for_write: only what a write there
 * would leave half absent.  -EIO with a log line naming file and chunk; the node is open meanwhile.
 */
int hydrate(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write);
/* The same without waiting; failures are left to whoever reads. */
void hydrate_ahead(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len);
/* After a read of [off, off+len): forward windows while reads are sequential. */
void hydrate_window(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len);

#endif
