/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes a second while there is something to send.  Time in which nothing was under way does not
 * count, so a pause does not make the link look slow.  What was seen fades with a time constant of
 * RATE_FADE_NS of busy time.  Pure: the caller brings the clock and the lock.
 */
#ifndef HOLDFAST_FS_LANE_RATE_H
#define HOLDFAST_FS_LANE_RATE_H

#include <stdint.h>

#include "base/clock.h"

#define RATE_FADE_NS (5 * NS_PER_S)

struct rate {
	unsigned busy;    /* transfers under way */
	uint64_t seen_ns; /* up to when busy time was counted */
	double bytes, ns; /* both faded */
};

/* A transfer begins; it ends, with so many bytes through. */
void rate_start(struct rate *r, uint64_t now_ns);
void rate_stop(struct rate *r, uint64_t now_ns, uint64_t bytes);
/* 0: unknown.  Never 0 once something got through. */
uint64_t rate_bps(const struct rate *r, uint64_t now_ns);

#endif
