/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several slots in one store: what the records since the last reset say, and which moment is good for all.
 *
 * Of each slot r: T, the newest number for which it said "having read up to T, my slot is as in my last commit,
 * without objection" (`calm` of its records), and c, its last commit up to T; the reset counts as a commit of each.
 * So r vouches for every state in c ... T, and the good moment is the greatest c, if that is no later than the least T
 * (tests/model/README.md, 4).  A slot that was released changes nothing any more: its T is the newest number.
 *
 * Pure bookkeeping; thread: its owner's.
 */
#ifndef HOLDFAST_FS_SLOT_GROUP_H
#define HOLDFAST_FS_SLOT_GROUP_H

#include "base/scope.h"
#include "store/record.h"

struct group;

/* At the reset that began the attempt.  NULL: no memory. */
struct group *group_new(const struct record_head *reset);
void group_free(struct group *g);
SCOPE_PTR(struct group, group_free)

/* The next record of the log, in order, of whatever kind. */
void group_see(struct group *g, const struct record_head *h);

/* Does a commit have a state of its own?  A word (calm < number) and a release have that of the record before. */
static inline bool group_has_state(const struct record_head *h)
{
	return h->kind == RECORD_COMMIT && !(h->flags & RECORD_RELEASE) && (h->calm == 0 || h->calm == h->number);
}

/*
 * Has the log taken this writer's place: a reset since, or a later fence of its slot?  The record that did, or 0.
 */
uint64_t group_fenced(const struct group *g, unsigned slot, uint64_t fence);
/* Its newest commit in this attempt, the reset if it has none. */
uint64_t group_last(const struct group *g, unsigned slot);
/* ... and the number up to which it has said that it is calm. */
uint64_t group_calm(const struct group *g, unsigned slot);
/* The newest commit of any slot. */
uint64_t group_newest(const struct group *g);

/* The joint good moment, never before `good`.  If `slot` is one of them it is taken to say calm = `calm` as well. */
uint64_t group_good(const struct group *g, uint64_t good, unsigned slot, uint64_t calm);
/*
 * A slot that has not vouched for record `number` yet, or -1.  *never: it has had no writer in this attempt; such a
 * one comes first, since no waiting helps.
 */
int group_waits_for(const struct group *g, uint64_t number, bool *never);

#endif
