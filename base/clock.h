/* SPDX-License-Identifier: Apache-2.0 */
/* Time comes in through a struct clock, so that tests can be their own time. */
#ifndef HOLDFAST_BASE_CLOCK_H
#define HOLDFAST_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

struct clock {
	uint64_t (*mono_ns)(const struct clock *c); /* monotonic; never 0 */
	int64_t (*wall_ns)(const struct clock *c);  /* since 1970, may step */
};

extern const struct clock clock_system;

static inline uint64_t clock_mono(const struct clock *c)
{
	return c->mono_ns(c);
}
static inline int64_t clock_wall(const struct clock *c)
{
	return c->wall_ns(c);
}

#endif
