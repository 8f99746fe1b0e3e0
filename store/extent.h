/* SPDX-License-Identifier: Apache-2.0 */
/* Extents: what a file's bytes are, in order from offset 0; and where in which pack they lie. */
#ifndef HOLDFAST_STORE_EXTENT_H
#define HOLDFAST_STORE_EXTENT_H

#include "store/chunk.h"

enum extent_kind { EXTENT_ZERO = 0, EXTENT_CHUNK = 1, EXTENT_INLINE = 2 };

struct place {
	uint64_t pack; /* unique: fence number (30 bits) << 34 | counter */
	uint32_t offset;
	uint32_t stored; /* bytes in the pack */
	uint8_t codec;   /* enum codec */
};

struct extent {
	uint64_t length; /* bytes of the file; at most CHUNK_MAX unless ZERO */
	uint8_t kind;
	struct hash128 hash; /* CHUNK and INLINE: of the content */
	struct place place;  /* CHUNK */
	uint8_t *data;       /* INLINE: length bytes, owned */
};

/* Sorted by offset, no gap: offset of v[i] is the sum of the lengths before it. */
struct extents {
	struct extent *v;
	size_t n, cap;
};
#define EXTENTS_EMPTY ((struct extents){.v = NULL})

void extents_fini(struct extents *x);
SCOPE_VAL(struct extents, extents_fini)
/* Append; zero runs that touch are joined.  Takes e->data over, even on failure.  0 or -ENOMEM. */
int extents_add(struct extents *x, const struct extent *e);
int extents_copy(const struct extents *from, struct extents *out);
uint64_t extents_bytes(const struct extents *x);

/* Object key of a pack: "packs/<2 hex>/<16 hex>". */
#define PACK_KEY_MAX 32
void pack_key(uint64_t pack, char out[PACK_KEY_MAX]);
#define PACK_MAX (16u << 20)

#endif
