/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running timers of one loop, the next one first.  A pairing heap, threaded through the timers
 * themselves: starting one needs no memory, so it cannot fail.  Thread: the loop's.
 */
#ifndef HOLDFAST_BASE_TIMERS_H
#define HOLDFAST_BASE_TIMERS_H

#include "base/loop.h"

struct timers {
	struct loop_timer *first; /* NULL: none runs */
};

/* t does not run. */
void timers_add(struct timers *ts, struct loop_timer *t, uint64_t at_ns);
/* t runs. */
void timers_remove(struct timers *ts, struct loop_timer *t);

#endif
