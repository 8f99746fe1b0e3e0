/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are in the store and not here yet.  Who reads them waits, in a thread or without one
 * (struct awaited); a prefetch does not.  A range is fetched once, however many ask (file->fetching), and
 * what comes wakes those who asked for it.  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_HYDRATE_H
#define HOLDFAST_FS_HYDRATE_H

#include "fs/mount.h"

#define READ_AHEAD_BYTES (512u << 10) /* what the kernel is to ask for at once: session.c */

/* Somebody who waits for bytes of a file, which stays open meanwhile. */
struct awaited {
	struct list on; /* the file's; under lock, as all here */
	uint32_t version; /* of the content that lacks them */
	uint64_t off, len;
	int rc;         /* what he asked for cannot be had; the next hydrate_start() says so */
	bool keeps;     /* he wants it in the content, room or not */
	struct past_held held; /* what has come for him and is not kept; the owner lets it go */
	void (*came)(struct awaited *w); /* once for each -EAGAIN, under lock */
};
#define awaited_of(l) ((struct awaited *)((char *)(l) - offsetof(struct awaited, on)))

/*
 * Fetch what [off, off+len) of c, a content of n, lacks.  for_write: only what a write there would leave half
 * absent.  0: nothing is lacking; -EAGAIN: it is on its way, and w->came() says when to look again (it may have
 * done so already); -EIO, with a log line naming file and chunk; in a read-only mount -ESTALE
 * with one, if the store has no such pack.  What comes for a reader while there is no room is in m->past then;
 * for a writer it is -ENOSPC.  -EUCLEAN: the content has lost its file.
 */
int hydrate_start(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write,
		  struct awaited *w);
void hydrate_leave(struct awaited *w); /* under lock: he does not wait any more; no harm if he does not */
/* The same, and wait in this thread. */
int hydrate(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write);
/*
 * Fetch without waiting, unless a notice runs; failures are left to whoever reads.  -EAGAIN: it is on its way, and w,
 * where it is not NULL, is told when it has come, or will not.  0: all is here, or nobody is told.
 */
int hydrate_ahead(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, struct awaited *w);

/* Where one open file is read, as prefetch sees it.  Zeros at open; under the mount's lock. */
struct reading {
	uint64_t end;    /* of what was read since the last jump */
	uint64_t bytes;  /* ... and how many that were */
	uint64_t ahead;  /* prefetch has been asked for up to here */
	uint64_t window; /* what the next step asks for, past end; 0: the least */
};
/*
 * After a read of [off, off+len): a window ahead while reads are sequential, twice as long each time.  From the start
 * of a file at once; after a jump not before some have come in sequence, since one read of a mapping, or of more than
 * the kernel asks for at once, comes as several.  These come here in any order.
 */
void hydrate_window(struct mount *m, struct node *n, struct content *c, struct reading *r, uint64_t off, uint64_t len);
/* Adds what this reader is likely to want next, which is not to be given up.  Under lock.  0 or -ENOMEM. */
int hydrate_wanted(const struct mount *m, const struct reading *r, struct ranges *out);

#endif
