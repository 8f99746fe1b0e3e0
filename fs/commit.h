/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The committer: freeze → send → one create-only PUT on the log.  One thread.
 *
 * One commit is in flight; the newest quiet instant meanwhile is frozen too (a newer one replaces
 * it), so a slow link lags but never piles up.  Commits are policy.commit_gap apart, but for
 * acknowledgements.  Every record says which commit is good; moving it is vouch()'s decision.
 *
 * I1: a record is encoded once and sent until its number is taken; no second body for one number.
 * I2: a record goes out only after every pack that it names was acknowledged.
 * I3: `good` never goes back, and names a commit of this branch.
 * I4: once fenced, nothing is sent any more and the mount is read-only (EROFS) for good.
 */
#ifndef HOLDFAST_FS_COMMIT_H
#define HOLDFAST_FS_COMMIT_H

#include "fs/mount.h"
#include "fs/notice/report.h"
#include "fs/slot/group.h"
#include "fs/trouble.h"

/* Where mount_start() found or put the log. */
struct commit_start {
	uint64_t number;     /* newest record */
	struct hash128 hash; /* of it */
	uint64_t good;
	uint64_t newest;     /* newest commit or reset on our branch: what m->state is */
	uint64_t floor;      /* of the newest record, which every later one repeats */
	struct state *good_state; /* where good is not newest: its state, lent; NULL: it could not be had */
	struct group *group;      /* of a slot: as of `number`; taken over; NULL: the only writer */
	bool doubtful;            /* what the cache had of changes may not be all of them */
};

int committer_new(struct mount *m, const struct commit_start *at, struct fault *f);
/* Starts the thread; after a daemon's fork. */
int committer_run(struct mount *m, struct fault *f);
void committer_free(struct mount *m); /* after committer_end(), or without: everything unsent stays in the cache */

/*
 * Wait until the good moment holds every change made before the call.  deadline_ns 0: for ever.
 * given_up: once true nobody waits any more, and committer_look() was called; may be NULL.
 * Fails: -ETIMEDOUT; -ECANCELED given up; -EROFS fenced; -ESHUTDOWN the mount ends; the code of a fault that will
 * not go away (denied, no bucket).
 * Thread: any, without the lock.
 */
int committer_sync(struct mount *m, uint64_t deadline_ns, const _Atomic bool *given_up, struct fault *f);
/* Whoever waits in committer_sync() looks at given_up. */
void committer_look(struct mount *m);
/*
 * Whoever waits for an acknowledgement or a release, now or later, gives up at give_up_ns, whatever he was given;
 * in the past: at once, and what still moves is cancelled.  Thread: any, without the lock, before committer_free().
 */
void committer_hurry(struct mount *m, uint64_t give_up_ns);
/*
 * No handle is open any more: sync, write a base if one is due, release the slot, end the thread.  Nothing is
 * lost if it fails: the cache has it.
 */
int committer_end(struct mount *m, uint64_t deadline_ns, bool discard, struct fault *f);
/* Something that the committer waits for may have happened.  Under lock or not. */
void committer_kick(struct mount *m);

struct commit_status {
	uint64_t commit, good, number;
	uint64_t good_age_ns;     /* since good was frozen, or 0 while nothing has changed since */
	char objection[320];      /* why good is not the newest commit; "" if it is */
	struct trouble trouble;   /* that keeps data from the store */
	bool fenced, in_flight, pending, quiet;
	char holder[256];         /* what holds quiet back */
	char torn[320];           /* a file that is not sealed for its header, and what it lacks; "" if none */
	uint64_t dirty_bytes;     /* not in the store yet */
	uint64_t commits;         /* made by this mount */
	char gauge[512];          /* what a notice now would lose, in words; "" where nothing is sent */
	uint64_t lost_bytes, short_ns; /* the same; 0: nothing, or not known */
	struct report report;     /* of the newest notice */
};
void committer_status(struct mount *m, struct commit_status *out);

#endif
