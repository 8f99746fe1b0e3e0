/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps: which ranges of a file the store has, as extents at offsets; ranges between them it
 * lacks.  Shared by count and copied when one of several holders changes it, so naming a version
 * is free.
 *
 * A chunk has one hash and cannot be cut: what takes a part of it out takes it all out.  A run
 * of zeros can.  NULL is the empty map.  Searches are by halves; a removal also moves what lies
 * before or behind, whichever is less (80 bytes per MiB of file or so).  No locking but of the
 * count.
 */
#ifndef HOLDFAST_FS_CACHE_MAP_H
#define HOLDFAST_FS_CACHE_MAP_H

#include <stdatomic.h>

#include "fs/cache/range.h"
#include "store/extent.h"

struct map_entry {
	uint64_t off;
	struct extent e;
};
struct map {
	atomic_uint refs;
	size_t n, cap;
	struct map_entry *v;   /* sorted, disjoint; inside `all` */
	struct map_entry *all; /* cap of them */
};

static inline uint64_t map_entry_end(const struct map_entry *e)
{
	return e->off + e->e.length;
}

struct map *map_ref(struct map *m);
void map_unref(struct map *m);
SCOPE_PTR(struct map, map_unref)

static inline size_t map_count(const struct map *m)
{
	return m ? m->n : 0;
}
/* Where the last one ends; 0: there is none. */
static inline uint64_t map_end(const struct map *m)
{
	return map_count(m) ? map_entry_end(&m->v[m->n - 1]) : 0;
}
/* First entry that ends behind `off`; map_count() if none does. */
size_t map_find(const struct map *m, uint64_t off);
bool map_meets(const struct map *m, uint64_t from, uint64_t to);
/* The first range inside [from, to) that no entry covers; false: all of it is covered. */
bool map_next_gap(const struct map *m, uint64_t from, uint64_t to, struct range *out);

/*
 * From here on *m is ours alone, with room for `removals` calls of map_remove(): they cannot
 * fail.  0 or -ENOMEM.
 */
int map_own(struct map **m, size_t removals);
/* After map_own().  Returns the lowest offset that is not covered any more, UINT64_MAX if none. */
uint64_t map_remove(struct map *m, uint64_t from, uint64_t to);
/*
 * Put a copy of e at `off`.  Never leaves a byte uncovered that was covered: entries inside e
 * go, runs of zeros are cut, but a chunk that sticks out stays and e is left out; so is an e
 * that brings nothing.  Of a run of zeros the gaps are filled.  0 or -ENOMEM (then nothing or
 * less was put).
 */
int map_put(struct map **m, uint64_t off, const struct extent *e);

#endif
