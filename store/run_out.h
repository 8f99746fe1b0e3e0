/* SPDX-License-Identifier: Apache-2.0 */
/* How runs are made inside store/: items in key order become a run; encoded bytes become one too. */
#ifndef HOLDFAST_STORE_RUN_OUT_H
#define HOLDFAST_STORE_RUN_OUT_H

#include "store/run.h"

/* Items appended in strictly ascending order of keys. */
struct run_out {
	struct buf data; /* as encoded: count, then items */
	uint32_t *at;    /* where item i starts */
	size_t n, cap;
};
#define RUN_OUT_EMPTY ((struct run_out){.data = {.data = NULL}})

void run_out_fini(struct run_out *o);
SCOPE_VAL(struct run_out, run_out_fini)
/* -ENOMEM; -EFBIG past RUN_BYTES_MAX. */
int run_out_add(struct run_out *o, const struct run_item *item);
/* Leaves o empty. */
int run_out_finish(struct run_out *o, struct run **out);
static inline size_t run_item_bytes(const struct run_item *item)
{
	return 2 + 4 + item->key_len + (item->value ? item->value_len : 0);
}

/* As run_decode(), taking *data over (also on failure) instead of copying it. */
int run_adopt(struct buf *data, struct run **out, struct fault *f);

#endif
