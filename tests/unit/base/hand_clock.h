/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time that a test can stop and move by hand: it stands in for clock_system, which a test that
 * includes this does not link.  Until it is stopped it runs as the system's does; loops go by it,
 * though one that waits for a timer looks at it no later than the system's time says.
 * One a program.  Thread: any.
 */
#ifndef HOLDFAST_TESTS_UNIT_BASE_HAND_CLOCK_H
#define HOLDFAST_TESTS_UNIT_BASE_HAND_CLOCK_H

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"

static _Atomic uint64_t hand_clock_at_ns; /* 0: it runs */

static inline int64_t hand_clock_system(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* fails only for a clock id that does not exist */
	return (int64_t)ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}

static inline uint64_t hand_clock_mono(const struct clock *c)
{
	uint64_t at_ns = hand_clock_at_ns;

	return at_ns ? at_ns : (uint64_t)hand_clock_system(CLOCK_MONOTONIC);
}

static inline int64_t hand_clock_wall(const struct clock *c)
{
	return hand_clock_system(CLOCK_REALTIME);
}

const struct clock clock_system = {.mono_ns = hand_clock_mono, .wall_ns = hand_clock_wall};

static inline void hand_clock_stop(void)
{
	hand_clock_at_ns = (uint64_t)hand_clock_system(CLOCK_MONOTONIC);
}

/* Of a stopped one. */
static inline void hand_clock_move(uint64_t ns)
{
	hand_clock_at_ns += ns;
}

static inline void hand_clock_run(void)
{
	hand_clock_at_ns = 0;
}

#endif
