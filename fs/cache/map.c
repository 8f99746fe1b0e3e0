/* SPDX-License-Identifier: Apache-2.0 */
/* See map.h. */
#include "fs/cache/map.h"

#include <errno.h>
#include <string.h>

struct map *map_ref(struct map *m)
{
	if (m)
		atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
	return m;
}

void map_unref(struct map *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) > 1)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->v[i].e.data);
	free(m->all);
	free(m);
}

size_t map_find(const struct map *m, uint64_t off)
{
	size_t low = 0, high = map_count(m);

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (map_entry_end(&m->v[mid]) > off)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* First entry at or after i that begins at `to` or behind it. */
static size_t find_behind(const struct map *m, size_t i, uint64_t to)
{
	while (i < map_count(m) && m->v[i].off < to)
		i++;
	return i;
}

bool map_meets(const struct map *m, uint64_t from, uint64_t to)
{
	size_t i = map_find(m, from);

	return i < map_count(m) && m->v[i].off < to;
}

bool map_next_gap(const struct map *m, uint64_t from, uint64_t to, struct range *out)
{
	size_t i = map_find(m, from), n = map_count(m);

	while (from < to && i < n && m->v[i].off <= from)
		from = map_entry_end(&m->v[i++]);
	if (from >= to)
		return false;
	out->from = from;
	out->to = i < n && m->v[i].off < to ? m->v[i].off : to;
	return true;
}

static int entry_copy(const struct extent *e, uint64_t off, struct map_entry *out)
{
	*out = (struct map_entry){.off = off, .e = *e};
	if (e->kind != EXTENT_INLINE)
		return 0;
	out->e.data = malloc(e->length);
	if (!out->e.data)
		return -ENOMEM;
	memcpy(out->e.data, e->data, e->length);
	return 0;
}

static int copy_of(const struct map *from, struct map **out)
{
	scoped(map_unref) struct map *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	atomic_init(&m->refs, 1);
	m->cap = map_count(from) + 8;
	m->v = m->all = malloc(m->cap * sizeof(*m->all));
	if (!m->all)
		return -ENOMEM;
	for (; m->n < map_count(from); m->n++)
		if (entry_copy(&from->v[m->n].e, from->v[m->n].off, &m->v[m->n]) < 0)
			return -ENOMEM;
	*out = take(&m);
	return 0;
}

/* Room for `more` entries behind the last. */
static int reserve(struct map *m, size_t more)
{
	size_t front = (size_t)(m->v - m->all), cap = 2 * m->cap + more;
	struct map_entry *all;

	if (front + m->n + more <= m->cap)
		return 0;
	if (m->n + more > m->cap / 2) {
		all = realloc(m->all, cap * sizeof(*all));
		if (!all)
			return -ENOMEM;
		m->all = all;
		m->cap = cap;
	}
	memmove(m->all, m->all + front, m->n * sizeof(*m->all));
	m->v = m->all;
	return 0;
}

/* Ours alone, with room for `more` entries. */
static int own(struct map **m, size_t more)
{
	struct map *mine = *m;

	if (!mine || atomic_load_explicit(&mine->refs, memory_order_acquire) > 1) {
		if (copy_of(*m, &mine) < 0)
			return -ENOMEM;
		map_unref(*m);
		*m = mine;
	}
	return reserve(mine, more);
}

int map_own(struct map **m, size_t removals)
{
	return own(m, removals);
}

/*
 * Replace v[i..j) by `k` entries; there is room.  What lies before them moves up if it is less
 * than what lies behind: a file that is written over from its start would else move its whole
 * map at each write.
 */
static void splice(struct map *m, size_t i, size_t j, const struct map_entry *by, size_t k)
{
	size_t behind = m->n - j, gone = j - i;

	for (size_t x = i; x < j; x++)
		free(m->v[x].e.data);
	if (k < gone && i < behind) {
		memmove(m->v + (gone - k), m->v, i * sizeof(*m->v));
		m->v += gone - k;
	} else {
		memmove(m->v + i + k, m->v + j, behind * sizeof(*m->v));
	}
	if (k)
		memcpy(m->v + i, by, k * sizeof(*by));
	m->n = m->n - gone + k;
}

static struct map_entry zeros(uint64_t from, uint64_t to)
{
	return (struct map_entry){.off = from, .e = {.kind = EXTENT_ZERO, .length = to - from}};
}

uint64_t map_remove(struct map *m, uint64_t from, uint64_t to)
{
	size_t i = map_find(m, from), j = find_behind(m, i, to), k = 0;
	struct map_entry left[2];
	uint64_t low;

	if (i == j)
		return UINT64_MAX;
	low = m->v[i].off;
	if (m->v[i].e.kind == EXTENT_ZERO && low < from) {
		left[k++] = zeros(low, from);
		low = from;
	}
	if (m->v[j - 1].e.kind == EXTENT_ZERO && map_entry_end(&m->v[j - 1]) > to)
		left[k++] = zeros(to, map_entry_end(&m->v[j - 1]));
	splice(m, i, j, left, k);
	return low;
}

static int put_zeros(struct map **m, uint64_t from, uint64_t to)
{
	struct range gap = {.to = from};

	while (map_next_gap(*m, gap.to, to, &gap)) {
		struct map_entry piece = zeros(gap.from, gap.to);
		size_t at = map_find(*m, gap.from);

		if (own(m, 1) < 0)
			return -ENOMEM;
		splice(*m, at, at, &piece, 1);
	}
	return 0;
}

/* May e, covering [from, to), take the place of v[i..j), which it meets? */
static bool may_replace(const struct map *m, size_t i, size_t j, uint64_t from, uint64_t to)
{
	struct range gap;

	if (j - i == 1 && !map_next_gap(m, from, to, &gap))
		return false; /* brings nothing; several into one does */
	for (; i < j; i++)
		if (m->v[i].e.kind != EXTENT_ZERO &&
		    (m->v[i].off < from || map_entry_end(&m->v[i]) > to))
			return false;
	return true;
}

int map_put(struct map **m, uint64_t off, const struct extent *e)
{
	uint64_t end = off + e->length;
	size_t i = map_find(*m, off), j = find_behind(*m, i, end), k = 0;
	struct map_entry by[3], *first, *last;

	if (e->kind == EXTENT_ZERO)
		return put_zeros(m, off, end);
	if (e->length == 0 || !may_replace(*m, i, j, off, end))
		return 0;
	if (own(m, 2) < 0)
		return -ENOMEM;
	first = &(*m)->v[i];
	last = &(*m)->v[j ? j - 1 : 0];
	if (i < j && first->off < off)
		by[k++] = zeros(first->off, off);
	if (entry_copy(e, off, &by[k++]) < 0)
		return -ENOMEM;
	if (i < j && map_entry_end(last) > end)
		by[k++] = zeros(end, map_entry_end(last));
	splice(*m, i, j, by, k);
	return 0;
}
