/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to make durable in the seconds that are left, in which order, and what will not fit.  Pure;
 * asked anew about once a second while a notice runs, since what is left, and the rate, are
 * measured and not known.
 *
 * The rule, in this order:
 *   1. the newest moment that will be good and surely fits goes first;
 *   2. then newer ones, the newest that is likely to fit beside what goes before it, then one that
 *      may;
 *   3. if nothing fits at all, the one that is nearest to it;
 *   4. when nothing more can be made durable, what is left is stored for salvage, newest first, and
 *      `good` does not move.
 * So what cannot fit never keeps from the store what can; and nothing older than a first step that
 * is sure is of any use: it may be let go.
 *
 * Moments share bytes.  Each is the whole namespace of an instant, so a content (a version of a
 * file) belongs to an unbroken run of moments: from the first that was frozen after it was sealed
 * to the last before it was replaced or removed.  Hence bytes are counted by such runs, and what a
 * set of moments costs together is exact.
 *
 * How the mount fills it: for each content, or piece of one, that is named by a frozen moment and
 * not in the store, one plan_count() with the oldest and the newest moment that name it.  A base's
 * contents cost nothing.
 */
#ifndef HOLDFAST_FS_NOTICE_PLAN_H
#define HOLDFAST_FS_NOTICE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_MOST    8          /* moments */
#define PLAN_UNKNOWN UINT64_MAX /* a time that no rate says */

struct plan_input {
	unsigned n;                           /* moments, oldest first */
	bool will_be_good[PLAN_MOST];         /* quiet, and vouch() has no objection */
	uint64_t bytes[PLAN_MOST][PLAN_MOST]; /* [i][j]: unsent, of moments i to j and no other */
	uint64_t rate_bps, spread_bps;        /* measured (meter.h); rate 0: unknown */
	uint64_t left_ns;   /* until the flush has to be through, its margin taken off */
	uint64_t commit_ns; /* what a commit takes beside its bytes */
};

/* Bytes that moments oldest to newest need, and no other. */
static inline void plan_count(struct plan_input *in, unsigned oldest, unsigned newest,
			      uint64_t bytes)
{
	in->bytes[oldest][newest] += bytes;
}

enum plan_chance {
	PLAN_SURE,   /* fits even at rate - 2 spread */
	PLAN_LIKELY, /* at the rate as measured */
	PLAN_MAYBE,  /* at rate + spread */
	PLAN_HARDLY, /* not even so; or the rate is unknown */
};

struct plan_step {
	unsigned moment;
	enum plan_chance chance;
	uint64_t bytes;   /* to send for it, beyond those of the steps before */
	uint64_t ends_ns; /* from now, at the rate as measured */
};

struct plan {
	struct plan_step steps[PLAN_MOST]; /* make these durable, each with a commit of its own */
	unsigned n;
	unsigned salvage[PLAN_MOST]; /* then send what these lack, and store it, not good */
	unsigned salvage_n;
	uint64_t salvage_ns; /* from now: when to stop sending and store what there is */
	int safe;            /* the newest moment that will surely be good in time; -1: none */
	int lost;            /* the newest that would be good but does not likely fit; -1: all do */
	uint64_t short_ns;   /* lost: how many more ns it would take; PLAN_UNKNOWN without a rate */
};
void plan_make(const struct plan_input *in, struct plan *out);

/*
 * One more is to be frozen than there is room for: which to let go.  What is older than the safe
 * one first, then the oldest that is neither a step nor the newest, and else the least likely step.
 */
unsigned plan_spare(const struct plan_input *in, const struct plan *p);

/* Unsent bytes of a moment, all it needs; of all of them together. */
uint64_t plan_bytes(const struct plan_input *in, unsigned moment);
uint64_t plan_all_bytes(const struct plan_input *in);

#endif
