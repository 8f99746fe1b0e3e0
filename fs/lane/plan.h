/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranges of which packs a fetch asks for.  Pure; thread: any. */
#ifndef HOLDFAST_FS_LANE_PLAN_H
#define HOLDFAST_FS_LANE_PLAN_H

#include "fs/lane/lane.h"

#define PLAN_GAP     (64u << 10) /* bytes nobody wants: cheaper than another request */
#define PLAN_GET_MAX (4u << 20)  /* a longer one is better two: several are under way at once */

struct span {
	uint64_t pack;
	uint32_t off, len;
	size_t n; /* items that lie in it */
};

/* By pack, then by offset. */
void plan_sort(struct fetch_item **items, size_t n);
/* The span that begins with items[0] (sorted, n > 0), at most PLAN_GET_MAX unless one chunk is
 * longer. */
struct span plan_span(struct fetch_item *const *items, size_t n);

#endif
