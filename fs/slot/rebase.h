/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one slot wants to commit, made to fit a tree that other slots have changed meanwhile.
 *
 * `ours` is a run over the state `was`; `theirs` lies between that state and `now`.  The result lies over
 * `now`, and is valid there: every name leads to an inode, every inode but the root has a name, no directory
 * has two, none lies in itself, link counts are right.  Nothing that either side made is lost:
 *
 *   same-named directories   are one: they have one id (mount_new_dir()), so their entries meet
 *   file against file        the later (ours) wins, theirs stays beside it as NAME~slotR; of the same bytes,
 *                            or symlinks to one place: no trace
 *   a file changed by both   the same, theirs as a new inode
 *   a removal                loses against a change that was made without knowledge of it: a directory that
 *                            gained entries stays, or comes back with the directories above it; so does a
 *                            file whose content changed; a name that leads elsewhere now stays; a file of
 *                            which each side removed all names but the other's keeps ours
 *   one thing renamed twice  has the later name; but what we just made follows their rename of it
 *   a rename that would put a directory into itself loses
 *   attributes               are ours where we changed them, else theirs; content that only they changed is
 *                            kept; of times the later
 *
 * NAME is cut where it would not fit.  An earlier NAME~slotR is replaced; what either side has just put there
 * is not, nor a directory: then it is NAME~slotR.1, .2 …
 *
 * Both sides put the record of a directory when they name or remove a directory in it (its times change).
 *
 * Thread: any; blocks as the states' blocks do.
 */
#ifndef HOLDFAST_FS_SLOT_REBASE_H
#define HOLDFAST_FS_SLOT_REBASE_H

#include "store/state.h"

/* One commit of another slot. */
struct rebase_theirs {
	struct run *run;
	unsigned slot;
};

struct rebase {
	struct state *was, *now;
	const struct rebase_theirs *theirs; /* oldest first */
	size_t theirs_n;
	struct block_source *src;
	/* A new inode id. */
	uint64_t (*new_id)(void *arg);
	/*
	 * Where to look first, as this mount sees it: the directory that a directory is in (0: not known here);
	 * a name of a file (false: not known).  What has come since ours was made does no harm.
	 * name: NAME_MAX_BYTES + 1.
	 */
	uint64_t (*parent)(void *arg, uint64_t dir);
	bool (*named)(void *arg, uint64_t id, uint64_t *dir, char *name);
	void *arg;
};

/*
 * NAME~slotR, and where that is taken NAME~slotR.1 and so on (again = 1 ...): as much of the name as leaves room for it.
 * Returns its length.
 */
size_t rebase_beside_name(const char *name, size_t len, unsigned slot, unsigned again, char out[NAME_MAX_BYTES + 1]);

/*
 * *out: what is to be committed instead of `ours` (the same run, where they do not touch).
 * Fails: -EBADMSG a run or a record does not decode; -ENOMEM; as reading the states does.
 */
int rebase(const struct rebase *r, struct run *ours, struct run **out, struct fault *f);

/*
 * The keys of which what `ours` had made of the base is not what is there now: all of theirs, of ours and of
 * `out`, but for those that say what `ours` did.  As removals.  ours, out: may be NULL.
 */
int rebase_keys(const struct rebase_theirs *theirs, size_t theirs_n, struct run *ours, struct run *out,
		struct run **keys);

#endif
