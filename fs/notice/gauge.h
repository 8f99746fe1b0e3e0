/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gauge: what a notice would lose right now, or loses, in words.  Pure.
 *
 * The mount fills it for status, the log and the metrics: with no notice from a plan for
 * GAUGE_USUAL_NS less its margin, with one from the plan that runs.  A moment's name is that of
 * what it brought ("step-1200/"), the newest set or file that was sealed into it.
 */
#ifndef HOLDFAST_FS_NOTICE_GAUGE_H
#define HOLDFAST_FS_NOTICE_GAUGE_H

#include "base/buf.h"
#include "fs/notice/plan.h"

#define GAUGE_USUAL_NS (100 * NS_PER_S) /* what a Spot notice is good for: 120 s less its margin */

struct gauge {
	const struct plan_input *in;
	const struct plan *plan; /* plan_make(in) */
	bool runs;               /* a notice does */
	const char *names[PLAN_MOST];      /* of in's moments; "" or NULL: "commit data" */
	uint64_t total_bytes[PLAN_MOST]; /* that the moment brought, sent or not; 0: unknown */
	const char *good_name; /* what the good moment brought; NULL: there is none; "": unknown */
};

/*
 * Appends one sentence without its end:
 *   "a notice now: everything is durable"
 *   "a notice now: all durable in 14 s of 100[, if the link holds][, but for what is not finished]"
 *   "a notice now: would lose step-1200/ (3.1 of 9.4 GB sent, 41 s short); step-1100/ is safe"
 *   "a notice runs, 87 s left: …" with "loses" for "would lose"
 */
void gauge_words(const struct gauge *g, struct buf *out);

/*
 * For the log, once a save that cannot fit; appends nothing and says false where all fits, or no
 * rate is known.
 *   "step-1200/ (9.4 GB) does not fit a notice of 100 s at 57 MB/s: 65 s short; what helps: …"
 */
bool gauge_warning(const struct gauge *g, struct buf *out);

#endif
