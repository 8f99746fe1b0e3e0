/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: the unit that is cut, hashed and stored.  Pure; thread: any. */
#ifndef HOLDFAST_STORE_CHUNK_H
#define HOLDFAST_STORE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fault.h"
#include "store/format.h"

#define CHUNK_MIN    (256u << 10)
#define CHUNK_GRID   (1u << 20) /* grid size, and the aim of the content cut */
#define CHUNK_MAX    (4u << 20)
#define CHUNK_INLINE (16u << 10) /* content up to here may stay in the record */

struct hash128 {
	uint8_t b[16]; /* canonical (big-endian) XXH3-128 */
};
static inline bool hash_equal(const struct hash128 *a, const struct hash128 *b)
{
	return __builtin_memcmp(a->b, b->b, 16) == 0;
}

enum codec { CODEC_RAW = 0, CODEC_ZSTD = 1, CODEC_PLANES_ZSTD = 2 /* reserved */ };

/*
 * Length of the first chunk of data[0..len).  0: more bytes are needed to tell (len < CHUNK_MAX and
 * !end).  With `end` nothing follows and the rest is the last chunk.  Depends on content alone, so
 * the same bytes are cut alike wherever they lie.
 */
size_t chunk_cut(const uint8_t *data, size_t len, bool end);
/* As above for a reader that comes back with more behind the same start: *seen, 0 at first, keeps what
 * was looked at from being looked at again. */
size_t chunk_cut_on(const uint8_t *data, size_t len, bool end, size_t *seen);

/* XXH3-128 keyed by the store's secret. */
void chunk_hash(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
		struct hash128 *out);

/* The same hash of bytes that come one after the other; a hasher is its owner's alone. */
struct chunk_hasher;
int chunk_hasher_new(struct chunk_hasher **out); /* -ENOMEM */
void chunk_hasher_free(struct chunk_hasher *h);
SCOPE_PTR(struct chunk_hasher, chunk_hasher_free)
/* The secret is looked at until end(). */
void chunk_hasher_begin(struct chunk_hasher *h, const uint8_t secret[STORE_SECRET_BYTES]);
void chunk_hasher_add(struct chunk_hasher *h, const void *data, size_t len);
void chunk_hasher_end(struct chunk_hasher *h, struct hash128 *out);

bool chunk_is_zero(const void *data, size_t len);

/* Does a 16 KiB sample from the middle of the chunk shrink by at least an eighth? */
bool chunk_compressible(const void *data, size_t len);
/* zstd-1 into out[0..cap); bytes written, or 0 where it does not pay (stored raw then). */
size_t chunk_compress(const void *data, size_t len, void *out, size_t cap);
size_t chunk_compress_bound(size_t len);

/* As chunk_decode() without the check, for what has a hash around it.  -EPROTO. */
int chunk_unpack(enum codec codec, const void *stored, size_t stored_len, void *out, size_t length,
		 struct fault *f);

/*
 * Stored bytes back to content: decode into out (exactly `length` bytes) and check the hash.
 * Fails: -EBADMSG content is not what the hash says; -EPROTO codec unknown or does not decode.
 */
int chunk_decode(const uint8_t secret[STORE_SECRET_BYTES], enum codec codec, const void *stored,
		 size_t stored_len, const struct hash128 *want, void *out, size_t length,
		 struct fault *f);

#endif
