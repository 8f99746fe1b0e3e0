/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The committer of a slot: records of other slots come in between.
 *
 * The log is read on now and then, and whenever a number was lost to another slot.  What they committed is taken into
 * memory when no commit is in flight (meet.h); a commit in flight is made to fit the tree that it will follow
 * (rebase.h).  A commit says nothing of its own good: once the slot has read the log on, is as in its last commit and
 * vouch() has no objection, an empty record says so (`calm`), and whoever completes the joint good moment names it
 * (group.h).
 *
 * I1: m->state is the base of memory; tree, at c->number, is that and `theirs`.
 * I2: `calm` is a look made after c->number was read, written into the record behind it.
 * Thread: the committer's.
 */
#ifndef HOLDFAST_FS_SLOT_COMMIT_GROUP_H
#define HOLDFAST_FS_SLOT_COMMIT_GROUP_H

#include "fs/commit_priv.h"
#include "fs/slot/group.h"

/* group: as of c->number; taken over, even on failure. */
int slots_new(struct committer *c, struct group *group, struct state *good_state, struct fault *f);
void slots_free(struct slots *s);

/*
 * Before anybody uses the mount, whose cache goes on: all that is on the log.  What this slot committed itself is in
 * its memory only then.
 */
int slots_catch_up(struct committer *c, struct fault *f);

struct state *slots_tree(const struct committer *c);
/* Reads all records there are; a random wait.  -EROFS: the attempt, or this writer, is over. */
int slots_read_on(struct committer *c, struct fault *f);
/* Before anything else in a step.  false: memory is not yet what the log says, and nothing may be frozen. */
bool slots_begin_step(struct committer *c);
/* Before a freeze: whatever a name that changes led to or leads to is in memory, for its links are counted there. */
void slots_before_freeze(struct committer *c);
/* Encodes the moment in flight for the tree as it is now. */
int slots_flying_make(struct committer *c, struct fault *f);
/* c->record is on the log; next: the tree with it, taken over. */
void slots_appended(struct committer *c, struct state *next);
/* ... and it was the moment in flight, which memory is to go by from now on. */
void slots_landed(struct committer *c);
/* With nothing in flight: says that this slot is calm, if that is news and it is. */
void slots_say_calm(struct committer *c);
/* Is all that was committed here in the good moment? */
bool slots_all_good(const struct committer *c);
/* Whom the good moment waits for, if it is not this slot; "" else.  Under lock. */
void slots_waits_for(const struct committer *c, char *out, size_t cap);

#endif
