/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of lanes: for the files of this folder only.
 *
 *     lane.c    threads, and what is handed to them
 *     out.c     uploads: window -> cut -> known? -> pack
 *     window.c  reads ahead over a file, past its holes
 *     known.c   the dedupe index
 *     packs.c   packs, filled and sent
 *     in.c      fetches: plan -> GET -> verify -> deliver
 *     plan.c    which ranges a fetch asks for
 *     pace.c    which GETs are late
 *     block.c   requests that a thread waits for
 *     health.c  what status shows of the store, with rate.c
 */
#ifndef HOLDFAST_FS_LANE_INSIDE_H
#define HOLDFAST_FS_LANE_INSIDE_H

#include <pthread.h>

#include "fs/lane/health.h"
#include "fs/lane/in.h"
#include "fs/lane/known.h"
#include "fs/lane/lane.h"
#include "fs/lane/out.h"

/* A request of a thread that waits for it. */
struct waiting {
	struct object_req req; /* done and arg are block.c's */
	struct lane *lane;
	struct waiting *next;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done; /* under lock */
};

/*
 * A lane that stops has ended all it had, but its loop still turns until all have stopped: they
 * hand each other work to the last.
 */
enum lane_state {
	LANE_OPENING,
	LANE_FAILED,
	LANE_OPEN,
	LANE_STOPPING,
	LANE_STOPPED,
	LANE_QUITTING
};

struct lane {
	/* fixed after lanes_new() */
	struct lanes *all;
	unsigned index;
	pthread_t thread;
	struct loop *loop;
	struct objects *objects;
	struct loop_call wake;
	pid_t tid;
	bool can_hurry; /* its nice value may go down again */

	/* any thread, under lock: handed in and not looked at; plain lists are newest first */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* of state */
	struct uploads uploads;
	struct gets gets;
	struct fetch *fetches;
	struct waiting *waiting;
	enum lane_state state;
	struct fault fault; /* why it did not open */
	bool waited_for;    /* by a thread of the mount, in a read */

	/* any thread */
	_Atomic bool woken;
	_Atomic bool pressed; /* what is cut is not to wait for more */
	_Atomic uint64_t load_out, load_in; /* bytes handed in and not done */

	/* the lane's thread */
	struct out out;
	struct in in;
	struct waiting *asked; /* started for other threads; list */
	bool closed;
};

struct lanes {
	/* fixed after lanes_new() */
	struct lanes_conf conf;
	struct store_format format;
	struct known *known;
	unsigned n;
	struct lane *lane; /* n of them */

	/* any thread */
	struct health health;
	pthread_mutex_t fetch_lock; /* for rc and fault of a fetch */
	_Atomic uint64_t sent_bytes, deduped_bytes, fetched_bytes, queued_bytes;
	_Atomic bool hurry;        /* somebody waits for all that is unsent */
	_Atomic int extra;         /* pack buffers still to be had; none if negative */
	_Atomic bool extra_wanted; /* a lane asked and got none */
};

/* Look at what was handed in, at what was cancelled, and for room.  Thread: any. */
void lane_wake(struct lane *l);
void lanes_wake_all(struct lanes *all);
/* Hand a planned GET to a lane.  Thread: any lane's. */
void lane_hand_get(struct lane *l, struct get *g, uint64_t bytes);
/* Hand it a request of a thread that waits.  Thread: any. */
void lane_hand_waiting(struct lane *l, struct waiting *w);
/* Something began or ended that a reader may wait for.  Thread: the lane's. */
void lane_look_who_waits(struct lane *l);
/* The lane with the least to do.  Thread: any. */
struct lane *lanes_least_out(struct lanes *all);
struct lane *lanes_least_in(struct lanes *all);

/* What an upload counts for in load_out: a small one is work, too. */
static inline uint64_t upload_load(const struct upload *u)
{
	return u->len + (64u << 10);
}

/* block.c, on the lane's thread. */
void block_start(struct lane *l, struct waiting *w);
void block_cancel(struct waiting *w); /* was never started */
void block_stop(struct lane *l);

/* Pack buffers beyond those every lane may have.  Thread: any. */
bool lanes_take_extra(struct lanes *all);
void lanes_give_extra(struct lanes *all);
bool lanes_want_extra(const struct lanes *all);

#endif
