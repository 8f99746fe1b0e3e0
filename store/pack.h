/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs: objects of up to 16 MiB that hold chunks, or the blocks of a run.  holdfast-store(5).
 *
 *     header | chunk ... | one index entry a chunk | hash | count | magic
 *
 * A pack says itself what it holds, so fsck needs no record to check one.
 * A struct pack_builder is its caller's alone; memory is fixed, nothing grows while chunks are added.
 */
#ifndef HOLDFAST_STORE_PACK_H
#define HOLDFAST_STORE_PACK_H

#include "store/extent.h"

#define PACK_HEADER     16
#define PACK_ENTRY      32
#define PACK_TRAILER    24
#define PACK_CHUNKS_MAX 4096 /* a pack is full then, too */

enum pack_kind { PACK_CHUNKS = 1, PACK_RUN = 2 };

struct pack_entry {
	uint32_t offset;     /* in the pack */
	uint32_t stored;     /* bytes there */
	uint32_t length;     /* decoded */
	uint8_t codec;       /* enum codec */
	struct hash128 hash; /* of the decoded bytes */
};

struct pack_builder {
	/* fixed after pack_init() */
	uint8_t *data; /* PACK_MAX bytes: the object as it will be sent */
	bool owned;
	struct pack_entry *index;
	/* since pack_begin() */
	uint64_t name;
	size_t len;
	size_t n;
	uint32_t crc; /* CRC-32C of data[0..len): summed while the CPU's cache has what was added */
};

/* buffer: PACK_MAX bytes that outlive the builder, or NULL to allocate them.  -ENOMEM. */
int pack_init(struct pack_builder *p, uint8_t *buffer);
void pack_fini(struct pack_builder *p);
SCOPE_VAL(struct pack_builder, pack_fini)

/* Start an empty pack; what was in the builder is gone.  name 0: not known yet, the key says it. */
void pack_begin(struct pack_builder *p, enum pack_kind kind, uint64_t name);
/* Bytes that one more chunk may take; 0: full.  An empty pack has room for any chunk. */
size_t pack_room(const struct pack_builder *p);
static inline bool pack_is_empty(const struct pack_builder *p)
{
	return p->n == 0;
}

/* Where the next chunk's stored bytes go, pack_room() of them at most: compress straight into it. */
uint8_t *pack_at(const struct pack_builder *p);
/*
 * `stored` bytes lie at pack_at(): make them a chunk of the pack.
 * *out: where it lies; its pack is the name given to pack_begin().  Needs 0 < stored <= pack_room().
 */
void pack_commit(struct pack_builder *p, enum codec codec, size_t stored,
		 const struct hash128 *hash, size_t length, struct place *out);
/* The two for bytes that lie elsewhere.  false: no room, nothing was added. */
bool pack_add(struct pack_builder *p, enum codec codec, const void *stored, size_t stored_len,
	      const struct hash128 *hash, size_t length, struct place *out);

/* Write index and trailer; the whole object is data[0..return), and p->crc its CRC-32C. */
size_t pack_end(struct pack_builder *p, const uint8_t secret[STORE_SECRET_BYTES]);

/* What a pack says of itself. */
struct pack_info {
	enum pack_kind kind;
	uint64_t name; /* 0: not said */
	size_t chunks;
};
/*
 * Walk the index of a whole pack object; each() may be NULL and ends the walk by returning non-zero.
 * Chunks lie inside the object and do not overlap; their content is for each() to check, with
 * pack_check().
 * Fails: -EBADMSG not a pack, cut short, or its index is damaged; -EPROTONOSUPPORT a later version.
 */
int pack_scan(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
	      struct pack_info *out,
	      int (*each)(void *arg, const struct pack_entry *e, struct fault *f), void *arg,
	      struct fault *f);
/* Decode one chunk of it into scratch (PACK_MAX bytes, e->length are used) and check its hash. */
int pack_check(const uint8_t secret[STORE_SECRET_BYTES], const void *data,
	       const struct pack_entry *e, uint8_t *scratch, struct fault *f);

#endif
