/* SPDX-License-Identifier: Apache-2.0 */
/* The table of watches: slots in an array, free ones in a list. */
#include "base/watches.h"

#include <errno.h>
#include <poll.h>

void watches_fini(struct watches *ws)
{
	free(ws->slots);
	*ws = (struct watches){.slots = NULL};
}

static int grow(struct watches *ws)
{
	uint32_t n = ws->n ? 2 * ws->n : 16;
	struct watch_slot *slots = reallocarray(ws->slots, n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	ws->slots = slots;
	while (ws->n < n) {
		slots[ws->n] = (struct watch_slot){.next = ws->free};
		ws->free = ++ws->n;
	}
	return 0;
}

int watches_add(struct watches *ws, struct loop_watch *w)
{
	struct watch_slot *s;

	if (!ws->free && grow(ws) < 0)
		return -ENOMEM;
	w->priv.slot = ws->free;
	s = watches_at(ws, w->priv.slot);
	ws->free = s->next;
	s->watch = w;
	s->next = 0;
	return 0;
}

void watches_release(struct watches *ws, uint32_t slot)
{
	struct watch_slot *s = watches_at(ws, slot);

	*s = (struct watch_slot){.generation = s->generation + 1, .next = ws->free};
	ws->free = slot;
}

uint64_t watches_name(const struct watches *ws, uint32_t slot)
{
	return (uint64_t)watches_at(ws, slot)->generation << 32 | (uint64_t)slot << 2 | WATCH_TAG;
}

uint32_t watches_find(const struct watches *ws, uint64_t name)
{
	uint32_t slot = (uint32_t)name >> 2;

	if (slot == 0 || slot > ws->n || watches_name(ws, slot) != name)
		return 0;
	return watches_at(ws, slot)->watch ? slot : 0;
}

void watch_ready(struct loop_watch *w, unsigned events)
{
	events &= w->priv.events | POLLERR | POLLHUP;
	if (events)
		w->ready(w, events);
}
