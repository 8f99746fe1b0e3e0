/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache that goes on: what the journal of a killed daemon says, put on top of the newest state.
 *
 * Entries are absolute values in the order in which they happened, so replaying those that a commit holds
 * already changes nothing but some work (I1: replay is idempotent over any own state at or after the
 * journal's start).  Handles are gone: a file that was open for writing and not sealed is a killed
 * writer's, and is committed as last sealed.
 */
#ifndef HOLDFAST_FS_REPLAY_H
#define HOLDFAST_FS_REPLAY_H

#include "fs/mount.h"

struct replay;

/*
 * Opens the journal of m->cache_fd; *out: what it says, which the caller ends.  A damaged one gets a second name,
 * JOURNAL.damaged, and is read as far as it can be; what is none makes way for a new one.  The log says so.
 */
int replay_open(struct mount *m, struct replay **out, struct fault *f);
void replay_free(struct replay *r);
SCOPE_PTR(struct replay, replay_free)

/* Whose cache is it?  False if the journal names no writer. */
struct replay_writer {
	struct store_id store;
	uint8_t boot[16];
	uint64_t fence;
	uint16_t slot;
};
bool replay_writer(const struct replay *r, struct replay_writer *out);

/* In a group: the record over whose tree it has to be put; what came behind it is then met as other slots' is. */
uint64_t replay_tree(const struct replay *r);

/* Is it damaged, or was none there?  Then no file is deleted that it does not know to be in the store. */
bool replay_doubtful(const struct replay *r);

/* Put it on top of m->state; lanes run, nobody else uses the mount yet. */
int replay_apply(struct replay *r, struct mount *m, struct fault *f);
/*
 * The writer was another or is dead: sealed contents that may be unsent are moved to salvage/ in the
 * cache, the rest is deleted, the journal starts anew for m->fence.  *moved: how many.
 */
int replay_discard(struct replay *r, struct mount *m, unsigned *moved, struct fault *f);

/* Write the journal anew if it has grown or failed; with no commit in flight.  Takes the lock. */
void replay_compact(struct mount *m);

#endif
