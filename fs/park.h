/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait, for room in the cache or for bytes from the store, hold no thread and no lock: they stand
 * here, and a few threads try them again when there is something to try.  A writer that is killed ends at once
 * (FUSE INTERRUPT → EINTR): unanswered, its request would leave it unkillable.
 *
 * A request is in one state:
 *   BUSY    a thread tries it             -> answered, ROOM, BYTES
 *   ROOM    there is no room              -> READY when there is, after `full=` seconds, interrupted
 *   BYTES   hydrate.h tells when to look  -> READY then, interrupted
 *   READY   the next free thread tries it -> BUSY
 * What happens to one that is BUSY (bytes came, interrupted) is noted, and looked at when it would wait again.
 *
 * Thread: any, without the lock, unless said otherwise.
 */
#ifndef HOLDFAST_FS_PARK_H
#define HOLDFAST_FS_PARK_H

#include "fs/fuse.h"
#include "fs/hydrate.h"
#include "fs/mount.h"

struct park;

enum park_state { PARK_BUSY, PARK_ROOM, PARK_BYTES, PARK_READY };

/* Embedded in what the request is about. */
struct parked {
	/* the owner's, fixed */
	fuse_req_t req;
	bool mapped; /* a write of a mapping: see room_gives_up() */
	/*
	 * Try.  -EAGAIN: `bytes` waits; -ENOSPC or -EDQUOT: there is no room; all else is the answer.  Nothing
	 * that was lent by the call itself may be used after keep().
	 */
	ssize_t (*run)(struct parked *p);
	int (*keep)(struct parked *p);              /* copy what was lent; NULL: nothing was */
	void (*answer)(struct parked *p, ssize_t rc); /* reply, free; by the thread that ran it, or tried to */
	struct awaited bytes;
	/* the park's */
	struct park *park;
	/* under the mount's lock */
	enum park_state state;
	struct list on, all;
	bool again, interrupted, gave_up;
	uint64_t since_ns; /* when there first was no room */
};

/* Starts the threads. */
int park_new(struct mount *m, struct fault *f);
/* Everything that waits is answered with ENOTCONN; joins the threads.  After the session's loop has ended. */
void park_stop(struct mount *m);

/* Runs a request for the first time, in this thread; answers it now or later. */
void park_run(struct mount *m, struct parked *p);
/* There may be room, or no reason to wait any more.  Under lock. */
void park_look(struct mount *m);
/* The same at the next tick: somebody who had no room to wait for saw that the cache is over its size.  Under lock. */
void park_look_later(struct mount *m);

struct park_counts {
	unsigned for_room, for_bytes;
};
struct park_counts park_counts(const struct mount *m); /* under lock */

#endif
