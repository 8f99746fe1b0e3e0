/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging sorted sources, newest first: of items with one key the newest source's is seen, the
 * others are passed over.  Inside store/; thread: the caller's.
 */
#ifndef HOLDFAST_STORE_MERGE_H
#define HOLDFAST_STORE_MERGE_H

#include "store/run.h"

/* A source: what is left of a run, and how to get the next one where the source is several. */
struct cursor {
	const struct run *run;
	size_t i, end; /* items [i, end) are left */
	/* The next run into run, i, end; i == end: there is none.  NULL: never.  The run before is no
	 * longer needed.  0 or a negative errno. */
	int (*more)(struct cursor *c, struct fault *f);
	void *arg;
};

struct merge_head {
	struct run_item item;
	size_t from;
};

struct merge {
	struct cursor *v; /* the caller's, newest first */
	struct merge_head *heap;
	size_t n;
	uint8_t last[RUN_KEY_MAX]; /* key of the item given out last */
	size_t last_len;
};

int merge_init(struct merge *m, struct cursor *v, size_t n, struct fault *f);
void merge_fini(struct merge *m);
SCOPE_VAL(struct merge, merge_fini)
/* 1: *out is the next item (removals too), valid until the next call.  0: the end. */
int merge_next(struct merge *m, struct run_item *out, struct fault *f);

/* The least key behind all that start with prefix.  0: there is none, all keys do or are before. */
size_t key_past(const uint8_t *prefix, size_t prefix_len, uint8_t out[RUN_KEY_MAX]);
/* Behind the last item that starts with prefix. */
size_t run_seek_past(const struct run *r, const uint8_t *prefix, size_t prefix_len);
/* The items of a run that start with prefix. */
struct cursor cursor_of(const struct run *r, const uint8_t *prefix, size_t prefix_len);

#endif
