/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a read-only mount from one state to another: what is in memory and differs is read from the
 * new state, without the lock, and put in place under it, all at once.  What it costs is bounded by what is
 * loaded and by the runs between the two states, not by the store.
 *
 * A version of a file that is open stays what it is, unless the new one only goes on behind its end: then
 * its readers see it grow (fs/node.h, I4).
 */
#ifndef HOLDFAST_FS_MOVE_H
#define HOLDFAST_FS_MOVE_H

#include "fs/mount.h"

#define TELL_ATTRIBUTES (-1)

/* What the kernel knows and should forget. */
struct tell {
	uint64_t id;  /* of an inode; with a name, of the directory that it is in */
	int64_t from; /* of its pages, these and all behind, and its attributes; or TELL_ATTRIBUTES */
	char *name;   /* owned; NULL: the inode itself */
};
struct tells {
	struct tell *v;
	size_t n, cap;
};
void tells_fini(struct tells *t);
SCOPE_VAL(struct tells, tells_fini)

/*
 * The mount shows `to` from now on; *out: what the kernel is to be told, afterwards and without the lock.
 * Fails as reads of the store do, and then nothing has changed.  Thread: one at a time, without the lock.
 */
int move_to(struct mount *m, struct state *to, struct tells *out, struct fault *f);

/* What several slots did at once (slot/meet.h). */
struct meeting {
	/* The slot whose record was the last to say something of a key. */
	unsigned (*slot_of)(void *arg, const void *key, size_t len);
	void *arg;
};

/*
 * The same for a slot of a group, whose own changes stay what they are: m->state is `to`, or becomes it; `keys`: what
 * other slots changed, or what is not as this mount takes the base to be.  The journal is told.
 */
int move_meeting(struct mount *m, struct state *to, struct run *keys, struct meeting *x, struct fault *f);

#endif
