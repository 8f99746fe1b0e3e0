/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The committer while a notice runs (m->flushing): nothing matters but what is in the store in time.
 *
 *   - a moment is frozen at each quiet instant, whenever the last one was; at the very end one that is not
 *     quiet, so that what there is is stored, and `good` stays where it is;
 *   - a set of a new shape is whole sooner (vouch.h), tries follow each other closely, lanes hurry;
 *   - what can wait does: prefetch, eviction, compaction of the journal, cumulative records, bases.
 *
 * When the notice is over all is as before.  A hint makes the lanes hurry and changes nothing else.
 * Thread: the committer's, without the lock unless it says so.
 */
#ifndef HOLDFAST_FS_NOTICE_FLUSH_H
#define HOLDFAST_FS_NOTICE_FLUSH_H

#include "fs/commit_priv.h"

/* First in each step: sets c->notice and m->flushing. */
void flush_look(struct committer *c);
/* The mount ends: what came of a notice that runs goes into the store.  Blocks for a few seconds at most. */
void flush_end(struct committer *c);
/* While m->flushing: is it time to freeze?  Under lock. */
bool flush_freezes(const struct committer *c, uint64_t now, bool quiet);
/* From notice to deadline, for vouch(); 0: none runs.  Under lock. */
uint64_t flush_notice_ns(const struct committer *c);
/* What to wait after a fault, where it is usual_ns without a notice. */
uint64_t flush_wait_ns(const struct committer *c, uint64_t usual_ns);
/* Lanes hurry where somebody waits or a notice wants it.  Thread: any, under lock. */
void flush_set_pace(const struct committer *c);

#endif
