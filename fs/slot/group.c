/* SPDX-License-Identifier: Apache-2.0 */
/* See group.h. */
#include "fs/slot/group.h"

#include <stdlib.h>

struct slot {
	uint64_t fence;
	uint64_t last;   /* its newest commit */
	uint64_t commit; /* c */
	uint64_t calm;   /* T */
	bool released;
};

struct group {
	unsigned n;
	uint64_t reset, next_reset; /* next_reset: the attempt is over; 0: it is not */
	uint64_t number;            /* newest record seen */
	uint64_t newest;            /* newest commit */
	struct slot slots[];
};

struct group *group_new(const struct record_head *reset)
{
	struct group *g = calloc(1, sizeof(*g) + reset->slots * sizeof(g->slots[0]));

	if (!g)
		return NULL;
	g->n = reset->slots;
	g->reset = g->number = g->newest = reset->number;
	for (unsigned i = 0; i < g->n; i++)
		g->slots[i].last = g->slots[i].commit = reset->number;
	g->slots[reset->slot].fence = reset->number;
	return g;
}

void group_free(struct group *g)
{
	free(g);
}

static void see_commit(struct group *g, struct slot *s, const struct record_head *h)
{
	if (h->fence != s->fence)
		return; /* of a writer that was replaced: no writer of ours appends such a one */
	if (group_has_state(h))
		s->last = g->newest = h->number;
	if (h->calm > s->calm) {
		s->calm = h->calm;
		s->commit = s->last;
	}
	s->released = h->flags & RECORD_RELEASE;
}

void group_see(struct group *g, const struct record_head *h)
{
	struct slot *s = h->slot < g->n ? &g->slots[h->slot] : NULL;

	g->number = h->number;
	if (h->kind == RECORD_RESET && h->number > g->reset && !g->next_reset)
		g->next_reset = h->number;
	if (!s || g->next_reset)
		return;
	if (h->kind == RECORD_JOIN && h->number > s->fence) {
		s->fence = h->number;
		s->released = false;
	}
	if (h->kind == RECORD_COMMIT)
		see_commit(g, s, h);
}

uint64_t group_fenced(const struct group *g, unsigned slot, uint64_t fence)
{
	if (g->next_reset)
		return g->next_reset;
	return g->slots[slot].fence > fence ? g->slots[slot].fence : 0;
}

uint64_t group_last(const struct group *g, unsigned slot)
{
	return g->slots[slot].last;
}

uint64_t group_calm(const struct group *g, unsigned slot)
{
	return g->slots[slot].calm;
}

uint64_t group_newest(const struct group *g)
{
	return g->newest;
}

/* What a slot vouches for: from its last commit ... to. */
static void interval(const struct group *g, unsigned i, unsigned slot, uint64_t calm, uint64_t *from, uint64_t *to)
{
	const struct slot *s = &g->slots[i];
	bool also = i == slot && calm > s->calm;

	*from = also ? s->last : s->commit;
	*to = also ? calm : s->calm;
	if (s->released) {
		*from = s->last;
		*to = UINT64_MAX;
	}
}

uint64_t group_good(const struct group *g, uint64_t good, unsigned slot, uint64_t calm)
{
	uint64_t newest = 0, least = UINT64_MAX, from, to;

	for (unsigned i = 0; i < g->n; i++) {
		interval(g, i, slot, calm, &from, &to);
		if (from > newest)
			newest = from;
		if (to < least)
			least = to;
	}
	return newest <= least && newest > good && newest > g->reset ? newest : good;
}

int group_waits_for(const struct group *g, uint64_t number, bool *never)
{
	uint64_t from, to;

	*never = true;
	for (unsigned i = 0; i < g->n; i++)
		if (g->slots[i].fence == 0)
			return (int)i;
	*never = false;
	for (unsigned i = 0; i < g->n; i++) {
		interval(g, i, g->n, 0, &from, &to);
		if (to < number)
			return (int)i;
	}
	return -1;
}
