/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbours become one GET; a fetch of any size is spread over all connections. */
#include "fs/lane/plan.h"

static int by_place(const void *a, const void *b)
{
	const struct place *x = &(*(struct fetch_item *const *)a)->extent->place;
	const struct place *y = &(*(struct fetch_item *const *)b)->extent->place;

	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

void plan_sort(struct fetch_item **items, size_t n)
{
	if (n > 1)
		qsort(items, n, sizeof(*items), by_place);
}

struct span plan_span(struct fetch_item *const *items, size_t n)
{
	const struct place *first = &items[0]->extent->place;
	struct span s = {.pack = first->pack, .off = first->offset, .len = first->stored, .n = 1};

	for (; s.n < n; s.n++) {
		const struct place *p = &items[s.n]->extent->place;
		uint64_t end = (uint64_t)p->offset + p->stored;

		if (p->pack != s.pack || p->offset > (uint64_t)s.off + s.len + PLAN_GAP)
			break;
		if (end <= (uint64_t)s.off + s.len)
			continue; /* the same chunk twice */
		if (end - s.off > PLAN_GET_MAX)
			break;
		s.len = (uint32_t)(end - s.off);
	}
	return s;
}
