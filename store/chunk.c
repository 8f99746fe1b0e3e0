/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: cut by content, named by a keyed hash, stored raw or as zstd-1.
 *
 * The cut rolls a gear hash, h = 2h + gear[byte]: after 64 bytes older ones are shifted out, so a
 * place is judged by the 64 bytes before it alone.  A chunk ends behind the first byte at which
 * the masked bits of h are zero.  The mask is hard before the aim of 1 MiB and easy behind it
 * (FastCDC's normalisation), which keeps most chunks near the aim.
 */
#include "store/chunk.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "store/gear.h"
#include "store/zctx.h"

#define GEAR_WINDOW 64
/* The high bits have seen the whole window. */
#define MASK_HARD (~UINT64_C(0) << (64 - 22))
#define MASK_EASY (~UINT64_C(0) << (64 - 18))

/* Four stripes are searched side by side, 3.3 GB/s: one alone waits for its own additions, 1.4. */
#define STRIPE  ((size_t)4096)
#define STRIPES 4

#define SAMPLE     ((size_t)16 << 10)
#define ZSTD_LEVEL 1

static uint64_t gear_at(const uint8_t *data, size_t pos)
{
	uint64_t h = 0;

	for (size_t i = pos - GEAR_WINDOW; i < pos; i++)
		h = (h << 1) + gear[data[i]];
	return h;
}

/* Length of the data up to the first hit in [from, to), 0 if there is none.  from >= GEAR_WINDOW. */
static size_t scan(const uint8_t *data, size_t from, size_t to, uint64_t mask)
{
	uint64_t h = gear_at(data, from);

	for (size_t i = from; i < to; i++) {
		h = (h << 1) + gear[data[i]];
		if (!(h & mask))
			return i + 1;
	}
	return 0;
}

/* Is there a hit in the four stripes from `from`? */
static bool stripes_hit(const uint8_t *data, size_t from, uint64_t mask)
{
	const uint8_t *at = data + from;
	uint64_t a = gear_at(data, from), b = gear_at(data, from + STRIPE);
	uint64_t c = gear_at(data, from + 2 * STRIPE), d = gear_at(data, from + 3 * STRIPE);

	for (size_t i = 0; i < STRIPE; i++) {
		a = (a << 1) + gear[at[i]];
		b = (b << 1) + gear[at[i + STRIPE]];
		c = (c << 1) + gear[at[i + 2 * STRIPE]];
		d = (d << 1) + gear[at[i + 3 * STRIPE]];
		if (__builtin_expect(!(a & mask) | !(b & mask) | !(c & mask) | !(d & mask), 0))
			return true;
	}
	return false;
}

/* As scan(), in rounds of four stripes; which stripe was hit first is asked once a chunk. */
static size_t scan_fast(const uint8_t *data, size_t from, size_t to, uint64_t mask)
{
	while (to - from >= STRIPES * STRIPE && !stripes_hit(data, from, mask))
		from += STRIPES * STRIPE;
	return scan(data, from, to, mask);
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t chunk_cut_on(const uint8_t *data, size_t len, bool end, size_t *seen)
{
	size_t most = min_size(len, CHUNK_MAX);
	size_t hard = min_size(most, CHUNK_GRID);
	size_t from = max_size(CHUNK_MIN, *seen);
	size_t cut = 0;

	if (hard > from)
		cut = scan_fast(data, from, hard, MASK_HARD);
	from = max_size(from, CHUNK_GRID);
	if (!cut && most > from)
		cut = scan_fast(data, from, most, MASK_EASY);
	if (!cut && (len >= CHUNK_MAX || end))
		cut = most;
	*seen = cut ? 0 : most;
	return cut;
}

size_t chunk_cut(const uint8_t *data, size_t len, bool end)
{
	size_t seen = 0;

	return chunk_cut_on(data, len, end, &seen);
}

static void canonical_hash(XXH128_hash_t hash, struct hash128 *out)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, hash);
	memcpy(out->b, canonical.digest, sizeof(out->b));
}

void chunk_hash(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
		struct hash128 *out)
{
	canonical_hash(XXH3_128bits_withSecret(data, len, secret, STORE_SECRET_BYTES), out);
}

struct chunk_hasher {
	XXH3_state_t *state;
};

int chunk_hasher_new(struct chunk_hasher **out)
{
	struct chunk_hasher *h = malloc(sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->state = XXH3_createState();
	if (!h->state) {
		free(h);
		return -ENOMEM;
	}
	*out = h;
	return 0;
}

void chunk_hasher_free(struct chunk_hasher *h)
{
	if (!h)
		return;
	(void)XXH3_freeState(h->state); /* cannot fail */
	free(h);
}

void chunk_hasher_begin(struct chunk_hasher *h, const uint8_t secret[STORE_SECRET_BYTES])
{
	/* It refuses a short secret, and ours is not. */
	(void)XXH3_128bits_reset_withSecret(h->state, secret, STORE_SECRET_BYTES);
}

void chunk_hasher_add(struct chunk_hasher *h, const void *data, size_t len)
{
	if (len > 0)
		(void)XXH3_128bits_update(h->state, data, len); /* it refuses NULL only */
}

void chunk_hasher_end(struct chunk_hasher *h, struct hash128 *out)
{
	canonical_hash(XXH3_128bits_digest(h->state), out);
}

bool chunk_is_zero(const void *data, size_t len)
{
	const uint8_t *b = data;

	/* Bytes that equal their left neighbour all equal the first. */
	return len == 0 || (b[0] == 0 && memcmp(b, b + 1, len - 1) == 0);
}

/* Bytes written, 0 on any failure, "does not fit" included. */
static size_t compress(const void *data, size_t len, void *out, size_t cap)
{
	ZSTD_CCtx *z = zctx_compress();
	size_t got;

	if (!z)
		return 0;
	got = ZSTD_compressCCtx(z, out, cap, data, len, ZSTD_LEVEL);
	return ZSTD_isError(got) ? 0 : got;
}

bool chunk_compressible(const void *data, size_t len)
{
	size_t sample = min_size(len, SAMPLE);
	uint8_t out[SAMPLE];

	return compress((const uint8_t *)data + (len - sample) / 2, sample, out,
			sample - sample / 8) > 0;
}

size_t chunk_compress(const void *data, size_t len, void *out, size_t cap)
{
	size_t worth = len - len / 16; /* less gain than this does not pay for decoding it */
	size_t got = compress(data, len, out, cap);

	return got < worth ? got : 0;
}

size_t chunk_compress_bound(size_t len)
{
	return ZSTD_compressBound(len);
}

static int decode_zstd(const void *stored, size_t stored_len, void *out, size_t length,
		       struct fault *f)
{
	ZSTD_DCtx *z = zctx_decompress();
	size_t got;

	if (!z)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to decode zstd");
	got = ZSTD_decompressDCtx(z, out, length, stored, stored_len);
	if (ZSTD_isError(got))
		return fault_set(f, -EPROTO, FAULT_FINAL, "zstd: %s", ZSTD_getErrorName(got));
	if (got != length)
		return fault_set(f, -EPROTO, FAULT_FINAL, "zstd: %zu bytes, not %zu", got, length);
	return 0;
}

int chunk_unpack(enum codec codec, const void *stored, size_t stored_len, void *out, size_t length,
		 struct fault *f)
{
	switch (codec) {
	case CODEC_RAW:
		if (stored_len != length)
			return fault_set(f, -EPROTO, FAULT_FINAL, "raw: %zu bytes, not %zu",
					 stored_len, length);
		if (length > 0 && out != stored)
			memmove(out, stored, length);
		return 0;
	case CODEC_ZSTD:
		return decode_zstd(stored, stored_len, out, length, f);
	case CODEC_PLANES_ZSTD:
		break;
	}
	return fault_set(f, -EPROTO, FAULT_FINAL, "codec %d is not known to this version",
			 (int)codec);
}

int chunk_decode(const uint8_t secret[STORE_SECRET_BYTES], enum codec codec, const void *stored,
		 size_t stored_len, const struct hash128 *want, void *out, size_t length,
		 struct fault *f)
{
	struct hash128 got;
	char name[33];
	int rc = chunk_unpack(codec, stored, stored_len, out, length, f);

	if (rc == 0) {
		chunk_hash(secret, out, length, &got);
		if (hash_equal(&got, want))
			return 0;
		rc = fault_set(f, -EBADMSG, FAULT_FINAL, "content does not match its hash");
	}
	hex_of(want->b, sizeof(want->b), name);
	return f ? fault_in(f, "chunk %s", name) : rc;
}
