/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed run read whole into memory: the body of a record that was too large to be in it.
 * Its last pack, blocks and index together, comes in one range; blocks of other packs follow.
 * Inside store/.
 */
#ifndef HOLDFAST_STORE_GATHER_H
#define HOLDFAST_STORE_GATHER_H

#include "store/block.h"
#include "store/gets.h"

struct gather {
	const struct store_format *fmt; /* outlives it */
	struct run_ref ref;
	struct get *tail; /* the pack with the index */
	struct block_index index;
	struct part {
		const struct get *get;
		size_t first, end; /* blocks that lie in it */
	} * parts;
	size_t n;
};
#define GATHER_EMPTY ((struct gather){.fmt = NULL})

void gather_fini(struct gather *x);
SCOPE_VAL(struct gather, gather_fini)
/* The three steps; between them, and before the last, gets_wait(). */
int gather_start(struct gather *x, const struct store_format *fmt, const struct run_ref *ref,
		 struct gets *g, struct fault *f);
int gather_index(struct gather *x, struct gets *g, struct fault *f);
int gather_end(struct gather *x, struct run **out, struct fault *f);

#endif
