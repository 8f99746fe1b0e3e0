/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranges of which packs a fetch asks for.  Pure; thread: any. */
#ifndef HOLDFAST_FS_LANE_PLAN_H
#define HOLDFAST_FS_LANE_PLAN_H

#include "fs/lane/lane.h"

#define PLAN_GAP     (64u << 10) /* bytes nobody wants: cheaper than another request */
#define PLAN_GET_MIN (4u << 20)  /* a GET this long is worth a connection of its own */
#define PLAN_GET_MAX (8u << 20)  /* and no longer than this: four a lane are held in memory */

struct span {
	uint64_t pack;
	uint32_t off, len;
	size_t n; /* items that lie in it */
};

/* By pack, then by offset. */
void plan_sort(struct fetch_item **items, size_t n);
/* How long a GET may be, so that `total` bytes keep `connections` busy. */
size_t plan_longest(uint64_t total, unsigned connections);
/*
 * The span that begins with items[0] (sorted, n > 0), at most `longest` bytes unless one chunk
 * is longer.
 */
struct span plan_span(struct fetch_item *const *items, size_t n, size_t longest);

#endif
