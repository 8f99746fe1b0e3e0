/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a run as blocks into packs, item by item in key order, in bounded memory.  Inside store/. */
#ifndef HOLDFAST_STORE_PACKER_H
#define HOLDFAST_STORE_PACKER_H

#include "store/pack.h"
#include "store/run_out.h"
#include "store/state.h"

struct packer {
	/* fixed after packer_init() */
	const struct store_format *fmt;
	struct pack_sink *sink;
	/* since then */
	struct pack_builder pack;
	struct run_out block; /* the block being filled */
	size_t block_bytes;
	struct buf index; /* as it will be stored; as block.h says */
	size_t blocks;
	uint32_t unnamed[PACK_CHUNKS_MAX]; /* where in the index the open pack's name is to go */
	size_t unnamed_n;
	uint64_t bytes; /* of the whole run, encoded */
};

int packer_init(struct packer *p, const struct store_format *fmt, struct pack_sink *sink,
		struct fault *f);
void packer_fini(struct packer *p);
SCOPE_VAL(struct packer, packer_fini)
int packer_add(struct packer *p, const struct run_item *item, struct fault *f);
/* The last block, then the index.  -EFBIG: the index does not fit in a pack. */
int packer_end(struct packer *p, struct run_ref *out, struct fault *f);

#endif
