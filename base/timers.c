/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairing heap.  A timer's children are a list through `next`; `prev` of the first of them is
 * the parent, of the others the one before.
 */
#include "base/timers.h"

/* Of two trees one; either may be NULL. */
static struct loop_timer *merge(struct loop_timer *a, struct loop_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->priv.at_ns < a->priv.at_ns) {
		struct loop_timer *t = a;

		a = b;
		b = t;
	}
	b->priv.prev = a;
	b->priv.next = a->priv.child;
	if (b->priv.next)
		b->priv.next->priv.prev = b;
	a->priv.child = b;
	a->priv.next = a->priv.prev = NULL;
	return a;
}

/* Of a list of trees one: neighbours first, then the pairs from the last to the first, which is
 * what keeps the heap flat. */
static struct loop_timer *merge_list(struct loop_timer *list)
{
	struct loop_timer *pairs = NULL;
	struct loop_timer *all = NULL;

	while (list) {
		struct loop_timer *a = list;
		struct loop_timer *b = a->priv.next;

		list = b ? b->priv.next : NULL;
		a->priv.next = NULL;
		a = merge(a, b);
		a->priv.next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct loop_timer *a = pairs;

		pairs = a->priv.next;
		a->priv.next = NULL;
		all = merge(all, a);
	}
	if (all)
		all->priv.prev = NULL;
	return all;
}

void timers_add(struct timers *ts, struct loop_timer *t, uint64_t at_ns)
{
	t->priv.at_ns = at_ns;
	t->priv.running = true;
	t->priv.child = t->priv.next = t->priv.prev = NULL;
	ts->first = merge(ts->first, t);
}

void timers_remove(struct timers *ts, struct loop_timer *t)
{
	struct loop_timer *children = merge_list(t->priv.child);
	struct loop_timer *prev = t->priv.prev;

	t->priv.running = false;
	if (!prev) {
		ts->first = children;
		return;
	}
	if (prev->priv.child == t)
		prev->priv.child = t->priv.next;
	else
		prev->priv.next = t->priv.next;
	if (t->priv.next)
		t->priv.next->priv.prev = prev;
	ts->first = merge(ts->first, children);
}
