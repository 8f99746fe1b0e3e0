/* SPDX-License-Identifier: Apache-2.0 */
/* The system's time. */
#include "base/clock.h"

#include <time.h>

static int64_t now_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* fails only for a clock id that does not exist */
	return (int64_t)ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}

static uint64_t system_mono(const struct clock *c)
{
	int64_t now = now_ns(CLOCK_MONOTONIC);

	return now > 0 ? (uint64_t)now : 1; /* 0 means "never" to callers */
}

static int64_t system_wall(const struct clock *c)
{
	return now_ns(CLOCK_REALTIME);
}

const struct clock clock_system = {.mono_ns = system_mono, .wall_ns = system_wall};
