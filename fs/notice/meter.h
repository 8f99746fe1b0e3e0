/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast it goes out, and how far that can be trusted: the mean and the spread of the last busy
 * stretches. Time in which nothing was under way does not count.  Pure; the caller brings the clock
 * and the lock.
 *
 * lane/rate.h has the newest mean, for people; a plan needs to know how wrong it may be.  What is
 * sent is counted when a whole pack is acknowledged, so a stretch is as long as it takes for some
 * packs: otherwise the spread would be that of counting.
 *
 * The mount ticks it from the committer, ten times a second, with lanes_counts(): sent_bytes,
 * queued_bytes > 0.
 */
#ifndef HOLDFAST_FS_NOTICE_METER_H
#define HOLDFAST_FS_NOTICE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define METER_STRETCHES   6
#define METER_LEAST_NS    (2 * NS_PER_S)
#define METER_LEAST_BYTES (UINT64_C(128) << 20) /* eight packs */
#define METER_MOST_NS     (20 * NS_PER_S)       /* a stretch ends then, whatever went through */

struct meter {
	uint64_t seen_ns, seen_bytes;
	bool busy;
	struct meter_stretch {
		uint64_t bytes, ns;
	} open, closed[METER_STRETCHES];
	unsigned n; /* stretches ever closed */
};

/* sent_bytes: in all, never less than before; busy: there is something to send now. */
void meter_tick(struct meter *m, uint64_t now_ns, uint64_t sent_bytes, bool busy);
/* Bytes a second; 0: unknown. */
uint64_t meter_rate(const struct meter *m);
/* About one standard deviation of a stretch's rate; a quarter of the rate while little is known. */
uint64_t meter_spread(const struct meter *m);

#endif
