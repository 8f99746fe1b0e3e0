/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts of a group: who may mount as slot R of N in attempt K, and how (tests/model/attempt.pml).
 *
 *   K above the attempt of the last reset    resets to the good moment: all that came before is over
 *   equal                                    joins, if the slot has had no writer in this attempt, or that one released it;
 *                                            a machine that was lost takes its unsent shards along: attempt K + 1
 *   lower                                    is refused
 *
 * A cache of the slot's present writer goes on, whatever the others do.
 */
#ifndef HOLDFAST_FS_SLOT_ATTEMPT_H
#define HOLDFAST_FS_SLOT_ATTEMPT_H

#include "fs/mount.h"
#include "fs/slot/group.h"
#include "store/newest.h"

/* The headers of the records since the last reset, that one first. */
struct roll {
	struct record_head *v;
	size_t n, cap;
};
#define ROLL_EMPTY ((struct roll){.v = NULL})
void roll_fini(struct roll *r);
SCOPE_VAL(struct roll, roll_fini)

/* Reads the log down from `newest`; empty if there was no reset.  Blocks; thread: of the objects' loop. */
int roll_read(struct objects *o, const struct store_format *fmt, uint64_t newest, struct roll *out, struct fault *f);
/* The group as of record `upto`, at or after the reset. */
int roll_group(const struct roll *r, uint64_t upto, struct group **out, struct fault *f);

enum attempt_how { ATTEMPT_RESET, ATTEMPT_JOIN };

/*
 * How this mount, without a cache of its own, begins.  r: as of the newest record, may be empty.  newest: the same log's.
 * Fails: -EBUSY refused, why and what to do.
 */
int attempt_begin(const struct mount_opts *o, const struct newest *newest, const struct roll *r, enum attempt_how *how,
		  struct fault *f);
/* Is the writer with this fence still its slot's? */
bool attempt_is_on(const struct roll *r, unsigned slot, uint64_t fence);
/* May a mount that is no part of a group have the store, whose last writers were one?  -EBUSY: why not. */
int attempt_is_over(const struct newest *newest, const struct roll *r, struct fault *f);

#endif
