/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of byte ranges: one sorted array, searched by halves. */
#include "fs/cache/range.h"

#include <errno.h>
#include <string.h>

void ranges_fini(struct ranges *r)
{
	free(r->v);
	*r = RANGES_EMPTY;
}

/* First range that ends behind `at`; n if none does. */
static size_t find(const struct ranges *r, uint64_t at)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (r->v[mid].to > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Replace v[i..j) by `k` ranges. */
static int splice(struct ranges *r, size_t i, size_t j, const struct range *by, size_t k)
{
	size_t n = r->n - (j - i) + k;

	if (n > r->cap) {
		size_t cap = n < 4 ? 4 : 2 * n;
		struct range *v = realloc(r->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	if (r->n > j)
		memmove(r->v + i + k, r->v + j, (r->n - j) * sizeof(*r->v));
	if (k)
		memcpy(r->v + i, by, k * sizeof(*by));
	r->n = n;
	return 0;
}

int ranges_add(struct ranges *r, uint64_t from, uint64_t to)
{
	struct range all = {.from = from, .to = to};
	size_t i, j;

	if (from >= to)
		return 0;
	i = j = find(r, from ? from - 1 : 0); /* one that ends at `from` is joined */
	while (j < r->n && r->v[j].from <= to)
		j++;
	if (i < j) {
		if (r->v[i].from < from)
			all.from = r->v[i].from;
		if (r->v[j - 1].to > to)
			all.to = r->v[j - 1].to;
	}
	return splice(r, i, j, &all, 1);
}

int ranges_remove(struct ranges *r, uint64_t from, uint64_t to)
{
	struct range left[2];
	size_t i, j, k = 0;

	if (from >= to)
		return 0;
	i = j = find(r, from);
	while (j < r->n && r->v[j].from < to)
		j++;
	if (i == j)
		return 0;
	if (r->v[i].from < from)
		left[k++] = (struct range){.from = r->v[i].from, .to = from};
	if (r->v[j - 1].to > to)
		left[k++] = (struct range){.from = to, .to = r->v[j - 1].to};
	return splice(r, i, j, left, k);
}

bool ranges_has(const struct ranges *r, uint64_t from, uint64_t to)
{
	struct range gap;

	return !ranges_next_gap(r, from, to, &gap);
}

bool ranges_meets(const struct ranges *r, uint64_t from, uint64_t to)
{
	struct range hit;

	return ranges_next(r, from, to, &hit);
}

bool ranges_next(const struct ranges *r, uint64_t from, uint64_t to, struct range *out)
{
	size_t i = find(r, from);

	if (from >= to || i == r->n || r->v[i].from >= to)
		return false;
	out->from = r->v[i].from > from ? r->v[i].from : from;
	out->to = r->v[i].to < to ? r->v[i].to : to;
	return true;
}

bool ranges_next_gap(const struct ranges *r, uint64_t from, uint64_t to, struct range *out)
{
	size_t i = find(r, from);

	if (i < r->n && r->v[i].from <= from)
		from = r->v[i++].to; /* what touches is joined: a gap follows */
	if (from >= to)
		return false;
	out->from = from;
	out->to = i < r->n && r->v[i].from < to ? r->v[i].from : to;
	return true;
}

uint64_t ranges_bytes(const struct ranges *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->n; i++)
		sum += r->v[i].to - r->v[i].from;
	return sum;
}

int ranges_copy(const struct ranges *from, struct ranges *out)
{
	struct ranges r = RANGES_EMPTY;
	int rc = splice(&r, 0, 0, from->v, from->n);

	if (rc == 0)
		*out = r;
	return rc;
}
