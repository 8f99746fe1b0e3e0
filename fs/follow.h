/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read-only mount that follows: one thread reads the log on (1, 2, 4 … 15 s apart while nothing
 * changes), moves the mount to the newest good moment (move.h), and tells the kernel what to forget.
 *
 * I1: what is shown is never older than what was shown, but after a reset, which is a record of its own.
 * How the kernel is told: fs/ears.h.
 *
 * Thread: any, without the mount's lock, unless it is said.  All do nothing in a mount that does not follow.
 */
#ifndef HOLDFAST_FS_FOLLOW_H
#define HOLDFAST_FS_FOLLOW_H

#include "fs/mount.h"

/* How long the kernel believes what it was answered: an answer under way may be older than what it is told. */
#define FOLLOW_CACHE_S 1.0

/* `number`: the log's newest record so far.  Does nothing yet. */
int follow_new(struct mount *m, uint64_t number, struct fault *f);
/* Starts the thread; after a daemon's fork. */
int follow_run(struct mount *m, struct fault *f);
/* Ends the thread, whatever it waits for; after lanes_stop(). */
void follow_free(struct mount *m);

/*
 * Look at the log once: 1 the mount moved, 0 there is nothing newer, or why not; then it shows what it has.
 * Thread: the follower's own, or a test's that runs none.
 */
int follow_look(struct mount *m, struct fault *f);
/* How long until the next look, after `gap_ns` (0: none yet). */
uint64_t follow_gap(uint64_t gap_ns, bool moved);

/* The store lacks something that was to be there: wait until the log was looked at since. */
void follow_read_on(struct mount *m);
/*
 * ... which are bytes of n, a file that is open.  0: try again; -ESTALE: what the mount shows by now has no such
 * version; else follow_lost().
 */
int follow_read_on_for(struct mount *m, const struct node *n);
/* What the caller gets if that was no help. */
int follow_lost(const struct mount *m);

struct follow_status {
	const char *what; /* "good", "newest", "off"; "" in a mount that is not read-only */
	uint64_t looked_ns;        /* since the log was last read to its end */
	uint64_t failing_since_ns; /* monotonic; 0: it does not */
	char error[256];
};
void follow_status(struct mount *m, struct follow_status *out);

#endif
