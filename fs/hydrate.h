/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are in the store and not here yet.  A reader waits for what it needs; a prefetch does
 * not.  A range is fetched once, however many ask (file->fetching).  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_HYDRATE_H
#define HOLDFAST_FS_HYDRATE_H

#include "fs/mount.h"

#define READ_AHEAD_BYTES (8u << 20) /* what the kernel is to ask for at once */

/*
 * Fetch what [off, off+len) of c, a content of n, lacks, and wait.  for_write: only what a write there
 * would leave half absent.  -EIO with a log line naming file and chunk; the node is open meanwhile.
 */
int hydrate(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write);
/* The same without waiting; failures are left to whoever reads. */
void hydrate_ahead(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len);

/* Where one open file is read, as prefetch sees it.  Zeros at open; under the mount's lock. */
struct reading {
	uint64_t end;    /* of what was read since the last jump */
	uint64_t ahead;  /* prefetch has been asked for up to here */
	uint64_t window; /* what the next step asks for, past end; 0: the least */
};
/*
 * After a read of [off, off+len): a window ahead while reads are sequential, twice as long each time.
 * The kernel's read-ahead asks for several ranges at once, and they come here in any order.
 */
void hydrate_window(struct mount *m, struct node *n, struct content *c, struct reading *r, uint64_t off, uint64_t len);

#endif
