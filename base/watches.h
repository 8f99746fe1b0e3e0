/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches by name.  The kernel knows a watch by slot and generation, never by address: an event
 * that was on its way when the watch was removed finds nobody, whatever lives there now.
 * Thread: the loop's.
 */
#ifndef HOLDFAST_BASE_WATCHES_H
#define HOLDFAST_BASE_WATCHES_H

#include "base/loop.h"

struct watch_slot {
	struct loop_watch *watch; /* NULL: removed, or never used */
	uint32_t generation;      /* a name of another generation is stale */
	unsigned armed;           /* io_uring: events that a poll in the kernel waits for */
	bool due;                 /* io_uring: on the list of slots to look at */
	uint32_t next;            /* free or due list, +1; 0 = end */
};

struct watches {
	struct watch_slot *slots;
	uint32_t n;
	uint32_t free;
};

enum { WATCH_TAG = 1 }; /* in the lowest bits of each name; pointers have zeros there */

void watches_fini(struct watches *ws);
/* Gives w a slot, w->priv.slot.  Fails: -ENOMEM. */
int watches_add(struct watches *ws, struct loop_watch *w);
/* Makes the slot free for others and its names stale. */
void watches_release(struct watches *ws, uint32_t slot);

uint64_t watches_name(const struct watches *ws, uint32_t slot);
/* The slot of that name; 0 if the name is stale. */
uint32_t watches_find(const struct watches *ws, uint64_t name);

/* Slots count from 1, so that 0 is none. */
static inline struct watch_slot *watches_at(const struct watches *ws, uint32_t slot)
{
	return &ws->slots[slot - 1];
}

/* Tell w, if it (still) wants any of this. */
void watch_ready(struct loop_watch *w, unsigned events);

#endif
