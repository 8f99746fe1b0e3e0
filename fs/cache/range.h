/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of byte ranges [from, to), sorted, disjoint, touching ones joined.  No locking. */
#ifndef HOLDFAST_FS_CACHE_RANGE_H
#define HOLDFAST_FS_CACHE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"

struct range {
	uint64_t from, to;
};
struct ranges {
	struct range *v;
	size_t n, cap;
};
#define RANGES_EMPTY ((struct ranges){.v = NULL})

void ranges_fini(struct ranges *r);
SCOPE_VAL(struct ranges, ranges_fini)
/* 0 or -ENOMEM (a hole splits a range in two).  from >= to: nothing. */
int ranges_add(struct ranges *r, uint64_t from, uint64_t to);
int ranges_remove(struct ranges *r, uint64_t from, uint64_t to);
bool ranges_has(const struct ranges *r, uint64_t from, uint64_t to);   /* all of it */
bool ranges_meets(const struct ranges *r, uint64_t from, uint64_t to); /* any of it */
/*
 * The first range that is inside [from, to) and in the set (or, `next_gap`, not in it), cut to
 * it; false if none.
 */
bool ranges_next(const struct ranges *r, uint64_t from, uint64_t to, struct range *out);
bool ranges_next_gap(const struct ranges *r, uint64_t from, uint64_t to, struct range *out);
uint64_t ranges_bytes(const struct ranges *r);
int ranges_copy(const struct ranges *from, struct ranges *out);

#endif
