/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packs of one lane: one is being filled, up to four are being sent.  A pack's buffer is sent
 * as it was filled and used again after the reply.
 *
 *     spare -> open -> (full: waits for a slot) -> sent -> spare
 *
 * I1: a pack's end is told as stored only after the store acknowledged it.
 * Thread: the lane's.
 */
#ifndef HOLDFAST_FS_LANE_PACKS_H
#define HOLDFAST_FS_LANE_PACKS_H

#include "base/loop.h"
#include "store/objects.h"
#include "store/pack.h"

#define PACKS_SLOTS   4          /* PUTs at once */
#define PACKS_MINE    2          /* buffers that a lane may always have */
#define PACKS_ALL     10         /* buffers of all lanes together, should those be fewer */
#define PACKS_SMALL   (4u << 20) /* one that nobody waits for stays open until it is that large */
#define PACKS_BUSY    1          /* ... and no more than so many are on their way, */
#define PACKS_HOLD_NS NS_PER_S   /* but no longer than this */
#define PACKS_IDLE_NS (5 * NS_PER_S) /* unused memory goes back after this */

struct lane;
struct pack;

struct packs {
	/* fixed */
	struct lane *lane;
	/* the lane's thread */
	struct pack *open;  /* may be NULL */
	struct pack *sent;  /* list */
	struct pack *spare; /* list */
	unsigned have;      /* buffers, wherever they are */
	unsigned in_flight;
	unsigned slots; /* 1..PACKS_SLOTS: fewer where the store asks for less */
	unsigned calm;  /* packs acknowledged since the store last asked */
	struct loop_timer hold, idle;
	bool stopped;
};

void packs_init(struct packs *p, struct lane *lane);
void packs_fini(struct packs *p); /* after packs_stop() */
/* Nothing is sent any more; what is in flight fails with -ECANCELED. */
void packs_stop(struct packs *p);

/*
 * Lay a chunk into the open pack.  1: *out says where; 0: there is no room until a pack ends;
 * -ENOMEM.  `urgent`: somebody waits.
 */
int packs_add(struct packs *p, const struct hash128 *hash, const uint8_t *data, size_t len,
	      bool urgent, struct place *out);
/* Somebody waits for this pack, should it still be open. */
void packs_want(struct packs *p, uint64_t pack);
/* The lane has nothing to add for now: send the open pack, unless it had better wait for more. */
void packs_rest(struct packs *p);
/* Nobody of this lane needs the pack any more: it is not sent if nobody else does. */
void packs_drop(struct packs *p, uint64_t pack);

#endif
