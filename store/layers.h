/* SPDX-License-Identifier: Apache-2.0 */
/* What a state is made of, for the two files that make one: state.c and state_load.c. */
#ifndef HOLDFAST_STORE_LAYERS_H
#define HOLDFAST_STORE_LAYERS_H

#include "store/packed.h"
#include "store/state.h"

struct layer {
	struct run *run; /* owned reference */
	uint64_t upto;   /* the record it came with */
	bool cumulative; /* covers everything since the base: nothing is below it but that */
};

struct state {
	int refs; /* atomic */
	/* fixed once made */
	struct store_format fmt;
	struct record_head head;
	struct packed *base;  /* NULL: none */
	struct layer *layers; /* newest first */
	size_t n;
};

/* A state with room for n layers and none yet; takes no reference to base.  NULL: no memory. */
struct state *state_new(const struct store_format *fmt, const struct record_head *head, size_t n);
/* Lay a run below those already there.  Takes a reference. */
void state_lay(struct state *s, struct run *run, uint64_t upto, bool cumulative);

#endif
