/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches of one lane.  Thread: the lane's. */
#ifndef HOLDFAST_FS_LANE_IN_H
#define HOLDFAST_FS_LANE_IN_H

#include "fs/lane/lane.h"
#include "fs/lane/pace.h"

struct lane;
struct get;

#define IN_SLOTS 8 /* GETs at once; a prefetch leaves one of them free for who waits */
#define IN_TWINS 2 /* more, where some of them are late: those who queue do not take the place of a twin */

struct gets {
	struct get *first, **end; /* end NULL: not used yet */
};
void gets_push(struct gets *q, struct get *g);
struct get *gets_pop(struct gets *q); /* NULL: empty */

struct in {
	/* fixed */
	struct lane *lane;
	/* the lane's thread */
	struct gets queued[2]; /* by enum fetch_rank */
	struct get *active;    /* list */
	unsigned in_flight;
	uint8_t *buffers[IN_SLOTS]; /* spare, PLAN_GET_MAX bytes each */
	uint8_t *scratch;           /* CHUNK_MAX bytes to decode into */
	struct loop_timer idle;
	struct pace pace;
	struct loop_timer late; /* looks while a GET is under way */
	bool stopped;
};

void in_init(struct in *in, struct lane *lane);
void in_fini(struct in *in); /* after in_stop() */
/* Plan a fetch and deal its GETs out over all lanes. */
void in_plan(struct in *in, struct fetch *x);
void in_take(struct in *in, struct get *g);
/* Something may have changed: cancelled fetches. */
void in_wake(struct in *in);
void in_stop(struct in *in); /* ends everything with -ECANCELED */

#endif
