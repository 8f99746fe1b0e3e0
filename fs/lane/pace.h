/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When is a GET late?  One connection in some hundreds stalls at a real store, and a reader would wait
 * for it as long as all the rest takes; so what is late is asked for a second time, and what comes
 * first is used.  Pure: the caller brings the clock.
 */
#ifndef HOLDFAST_FS_LANE_PACE_H
#define HOLDFAST_FS_LANE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define PACE_TIMES    4                     /* as long as is usual is late, */
#define PACE_LEAST_NS (300 * NS_PER_MS)     /* ... but nothing sooner than this, */
#define PACE_NEW_NS   (2 * NS_PER_S)        /* nor than this while little is known */
#define PACE_KNOWN    4                     /* answers that make it known */
#define PACE_SHARE    20                    /* one second request for so many, */
#define PACE_SPARE    4                     /* and a few at once */

struct pace {
	uint64_t usual_ns; /* of an answer; newer ones count more */
	uint64_t answers, seconds;
};

void pace_answer(struct pace *p, uint64_t took_ns);
/* Is one that has been under way for so long late? */
bool pace_is_late(const struct pace *p, uint64_t ns);
/* May one be asked for again?  A store that is slow as a whole gets little more to do. */
bool pace_may_ask(const struct pace *p);
void pace_asked(struct pace *p);

#endif
