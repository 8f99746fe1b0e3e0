/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed run as a state reads it: its index, loaded once, and a bounded cache of decoded blocks.
 * Shared by all states over one base; reference-counted; thread: any.  Inside store/.
 */
#ifndef HOLDFAST_STORE_PACKED_H
#define HOLDFAST_STORE_PACKED_H

#include "store/block.h"
#include "store/merge.h"
#include "store/state.h"

#define PACKED_CACHE_MAX (16u << 20) /* decoded bytes kept */
#define PACKED_READ_MAX  (8u << 20)  /* one range of neighbour blocks */
#define PACKED_ALONG_MAX (1u << 20)  /* one that is longer than the walk needs */

struct packed;
/* The index is read at first use, or given by packed_set_index(). */
struct packed *packed_new(const struct store_format *fmt,
			  const struct run_ref *ref); /* NULL: no memory */
struct packed *packed_ref(struct packed *p);
void packed_unref(struct packed *p);
SCOPE_PTR(struct packed, packed_unref)
const struct run_ref *packed_where(const struct packed *p);
int packed_set_index(struct packed *p, const uint8_t *stored, struct fault *f);

/* As run_find(); *held keeps *out valid and is the caller's.  1 found, 0 not, or an error. */
int packed_find(struct packed *p, struct block_source *src, const uint8_t *key, size_t key_len,
		struct run **held, struct run_item *out, struct fault *f);

/*
 * The items that start with prefix, as a source for a merge: w->cursor.  Neighbour blocks come in
 * one range; where blocks are read at all, those of the prefix's first near_len bytes come along and
 * stay in the cache.  The struct stays where it is until packed_walk_fini().
 */
struct packed_walk {
	struct cursor cursor;
	/* fixed after packed_walk_init() */
	struct packed *p;
	struct block_source *src;
	uint8_t prefix[RUN_KEY_MAX];
	size_t prefix_len;
	/* the walk's */
	size_t next, end; /* blocks still to come */
	size_t along;     /* blocks [end, along) will be asked for soon */
	struct run *held; /* the block that the cursor is in */
	uint8_t *ahead;   /* stored bytes of blocks [ahead_first, ahead_end) */
	size_t ahead_first, ahead_end;
};
#define PACKED_WALK_EMPTY ((struct packed_walk){.p = NULL})
int packed_walk_init(struct packed_walk *w, struct packed *p, struct block_source *src,
		     const uint8_t *prefix, size_t prefix_len, size_t near_len, struct fault *f);
void packed_walk_fini(struct packed_walk *w);
SCOPE_VAL(struct packed_walk, packed_walk_fini)

#endif
