/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of one lane.  Thread: the lane's. */
#ifndef HOLDFAST_FS_LANE_OUT_H
#define HOLDFAST_FS_LANE_OUT_H

#include "fs/lane/lane.h"
#include "fs/lane/packs.h"

struct lane;
struct job;

struct uploads {
	struct upload *first, **end; /* end NULL: not used yet */
};
void uploads_push(struct uploads *q, struct upload *u);
struct upload *uploads_pop(struct uploads *q); /* NULL: empty */

#define OUT_WINDOWS 2 /* one urgent upload may overtake one that is not */

struct out {
	/* fixed */
	struct lane *lane;
	/* the lane's thread */
	struct packs packs;
	struct uploads queued[2];      /* by urgent; not begun */
	struct job *cutting[2];        /* by urgent */
	struct job *sent;              /* list: all cut, waiting for packs */
	uint8_t *windows[OUT_WINDOWS]; /* spare memory of windows */
	struct loop_call step;
	bool stepping; /* step is posted */
	bool stopped;
};

void out_init(struct out *o, struct lane *lane);
void out_fini(struct out *o); /* after out_stop() */
void out_take(struct out *o, struct upload *u);
/* Something may have changed: cancelled uploads, room, packs of other lanes that ended. */
void out_wake(struct out *o);
/* End everything with -ECANCELED.  false while the kernel still reads: its end wakes the lane. */
bool out_stop(struct out *o);
/* packs.c's: a pack of this lane was stored (NULL) or is lost for good. */
void out_pack_ended(struct out *o, uint64_t pack, const struct fault *why);

#endif
