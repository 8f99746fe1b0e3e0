/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments: what the namespace was at one instant, as the difference to the base.
 *
 *   freeze    takes the dirty names and nodes, O(changes), under lock: attributes are copied, contents
 *             are named by views
 *   promote   the moment becomes the commit in flight: its values are the base from then on
 *   encode    once every view's bytes are in the store: the run
 *   settle    the record is on the log: contents are clean where nothing came since
 *
 * What a moment says of a name or file that is not finished (holdfast-mount(8), "Sealed"):
 *   - a file is committed as last sealed; a log at its length; absent if it never was either;
 *   - a name that now leads to such a never-sealed inode keeps what it led to in the base, unless that
 *     name was unlinked or moved away in between (name->cut).
 *
 * I1: a moment's values never change after the freeze.  I2: names and nodes of a frozen moment stay in memory
 * (they are dirty, or pinned from promote to settle).
 * Thread: the committer's; freeze, promote, settle under lock.
 */
#ifndef HOLDFAST_FS_MOMENT_H
#define HOLDFAST_FS_MOMENT_H

#include "fs/mount.h"

struct moment_name {
	struct name *name; /* until promote, which may free it */
	uint64_t dir;
	char *text;
	struct name_rec was, is; /* id 0: absent */
	uint64_t since_ns;       /* monotonic: when the live name got its present inode, or lost it */
};

struct moment_node {
	struct node *node;
	bool removed;          /* no name in the base leads to it any more */
	unsigned links;
	struct inode_rec rec;  /* attributes, symlink, xattrs; extents come with encode */
	struct view *view;     /* NULL: content as the base has it */
	uint64_t old_size;     /* of the base's content */
};

/* What keeps an instant from being quiet. */
struct holder {
	char name[NAME_MAX_BYTES + 1]; /* the file, or "" */
	const char *torn;              /* it is closed, and lacks this by its own header; NULL: it is written */
};

struct moment {
	uint64_t seq; /* changes up to here are in it */
	uint64_t frozen_ns;
	bool quiet;
	struct holder holder; /* where it is not quiet */
	struct moment_name *names;
	size_t name_n;
	struct moment_node *nodes;
	size_t node_n;
};

/* Is this instant quiet?  If not, *holder (may be NULL) says what holds it. */
bool moment_quiet(struct mount *m, uint64_t now, struct holder *holder);
/* -EAGAIN: nothing differs from the base (what was on the lists for nothing has left them). */
int moment_freeze(struct mount *m, uint64_t now, struct moment **out);
void moment_promote(struct mount *m, struct moment *x);
/* Fills rec.extents and makes the run.  No lock needed: views and recs are the moment's own. */
int moment_encode(struct moment *x, struct run **out);
void moment_settle(struct mount *m, struct moment *x);
/* Bytes of changed files that are on no list of a promoted moment and not in the store yet; under lock. */
uint64_t moment_dirty_bytes(struct mount *m);
/* Bytes that the store lacks, of one content and of all. */
uint64_t moment_unsent_of(const struct moment_node *n);
uint64_t moment_unsent(const struct moment *x);
/* Also of one that was never promoted. */
void moment_free(struct moment *x);
SCOPE_PTR(struct moment, moment_free)

#endif
