/* SPDX-License-Identifier: Apache-2.0 */
/* The rate is one faded sum over another, so that it has no bias while it is young. */
#include "fs/lane/rate.h"

static void count_time(struct rate *r, uint64_t now_ns)
{
	double passed = now_ns > r->seen_ns ? (double)(now_ns - r->seen_ns) : 0;
	double keep = RATE_FADE_NS /
		      (RATE_FADE_NS + passed); /* near exp(-passed / fade), and needs no libm */

	if (r->busy > 0) {
		r->bytes *= keep;
		r->ns = r->ns * keep + passed;
	}
	if (now_ns > r->seen_ns)
		r->seen_ns = now_ns;
}

void rate_start(struct rate *r, uint64_t now_ns)
{
	count_time(r, now_ns);
	r->busy++;
}

void rate_stop(struct rate *r, uint64_t now_ns, uint64_t bytes)
{
	count_time(r, now_ns);
	r->busy--;
	r->bytes += (double)bytes;
}

uint64_t rate_bps(const struct rate *r, uint64_t now_ns)
{
	struct rate at = *r;
	uint64_t bps;

	count_time(&at, now_ns);
	if (at.bytes <= 0 || at.ns <= 0)
		return 0;
	bps = (uint64_t)(at.bytes / at.ns * NS_PER_S);
	return bps > 0 ? bps : 1;
}
