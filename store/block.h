/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: a run that is too large for a record, cut into runs of at most 256 KiB that lie in packs,
 * and the index that says where.  Inside store/; pure; thread: any.
 *
 * Index: store id(16)  its secret(192): the copy that survives store.json
 *        count(4)  { key length(2)  first key  pack(8), 0: the index's own  offset(4)  stored(4)
 *        codec(1)  raw length(4)  hash(16) } ...
 */
#ifndef HOLDFAST_STORE_BLOCK_H
#define HOLDFAST_STORE_BLOCK_H

#include "store/record.h"
#include "store/run.h"

#define BLOCK_AIM            (256u << 10) /* a block ends before it, unless it is a single item */
#define BLOCK_INDEX_COUNT_AT (sizeof(struct store_id) + STORE_SECRET_BYTES)
#define BLOCK_RAW_MAX        (RUN_VALUE_MAX + (64u << 10))

struct block {
	const uint8_t *key; /* of its first item */
	size_t key_len;
	struct place place;
	uint32_t raw;
	struct hash128 hash; /* of the decoded block */
};

struct block_index {
	struct buf data; /* keys point into it */
	struct block *v;
	size_t n;
};
#define BLOCK_INDEX_EMPTY ((struct block_index){.v = NULL})
void block_index_fini(struct block_index *ix);
SCOPE_VAL(struct block_index, block_index_fini)

/* `stored`: the ref.index.stored bytes at ref.index.  -EBADMSG, -EPROTO, -ENOMEM. */
int block_index_decode(const uint8_t secret[STORE_SECRET_BYTES], const struct run_ref *ref,
		       const uint8_t *stored, struct block_index *out, struct fault *f);
/* The block that holds key if any does: the last whose first key is not behind it, else 0. */
size_t block_index_seek(const struct block_index *ix, const uint8_t *key, size_t key_len);
/* Behind the last block that can hold keys starting with prefix. */
size_t block_index_seek_past(const struct block_index *ix, const uint8_t *prefix,
			     size_t prefix_len);

/* Block i from its stored bytes: hash, order and the index's word on it are checked. */
int block_decode(const uint8_t secret[STORE_SECRET_BYTES], const struct block_index *ix, size_t i,
		 const uint8_t *stored, struct run **out, struct fault *f);

/* Blocks [first, return) lie side by side in one pack and take at most `most` bytes together (one
 * block may take more).  first < end. */
size_t block_stretch(const struct block_index *ix, size_t first, size_t end, size_t most);
/* Bytes from the start of block first to the end of block end - 1 of one stretch. */
static inline size_t block_span(const struct block_index *ix, size_t first, size_t end)
{
	const struct place *a = &ix->v[first].place, *z = &ix->v[end - 1].place;

	return (size_t)z->offset + z->stored - a->offset;
}

#endif
