/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: cut by content alone, hashed by the store's secret, and never decoded to something else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/chunk.h"
#include "store/gear.h"
#include "tests/unit/store/helpers.h"

static const uint8_t secret[STORE_SECRET_BYTES] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};

/* Cut points of the data, as offsets.  Owned by the caller. */
struct cuts {
	size_t at[512];
	size_t n;
};

static void cut_all(const uint8_t *data, size_t len, struct cuts *out)
{
	size_t off = 0;

	out->n = 0;
	while (off < len) {
		size_t n = chunk_cut(data + off, len - off, true);

		assert_in_range(n, 1, CHUNK_MAX);
		off += n;
		assert_in_range(out->n, 0, 511);
		out->at[out->n++] = off;
	}
}

static bool has_cut(const struct cuts *c, size_t at)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->at[i] == at)
			return true;
	}
	return false;
}

static void the_gear_table_is_splitmix64_of_its_seed(void **state)
{
	uint64_t s = GEAR_SEED;

	for (int i = 0; i < 256; i++) {
		uint64_t z = s += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		assert_true(gear[i] == (z ^ (z >> 31)));
	}
}

/* The definition of holdfast-store(5), byte by byte, without stripes. */
static size_t cut_plainly(const uint8_t *data, size_t len)
{
	uint64_t h = 0;

	if (len <= CHUNK_MIN)
		return len;
	for (size_t i = CHUNK_MIN - 64; i < len && i < CHUNK_MAX; i++) {
		h = 2 * h + gear[data[i]];
		if (i >= CHUNK_MIN && h >> (i < CHUNK_GRID ? 42 : 46) == 0)
			return i + 1;
	}
	return len < CHUNK_MAX ? len : CHUNK_MAX;
}

static void the_cut_is_what_the_manual_defines(void **state)
{
	size_t len = 24u << 20, off = 0;
	scoped(free) uint8_t *data = malloc(len);

	fill_random(data, len, 7);
	while (off < len) {
		size_t n = chunk_cut(data + off, len - off, true);

		assert_int_equal(n, cut_plainly(data + off, len - off));
		off += n;
	}
}

static void chunks_keep_to_their_bounds_and_lie_near_the_aim(void **state)
{
	size_t len = 64u << 20;
	scoped(free) uint8_t *data = malloc(len);
	struct cuts c;
	size_t before = 0;

	fill_random(data, len, 1);
	cut_all(data, len, &c);
	for (size_t i = 0; i + 1 < c.n; i++) {
		assert_in_range(c.at[i] - before, CHUNK_MIN + 1, CHUNK_MAX);
		before = c.at[i];
	}
	assert_in_range(len / c.n, 900u << 10, 1400u << 10);
}

static void a_cut_depends_on_content_not_on_position(void **state)
{
	size_t len = 24u << 20, shift = 12345, shared = 0;
	scoped(free) uint8_t *data = malloc(len + shift);
	struct cuts a, b;

	fill_random(data, len + shift, 2);
	cut_all(data + shift, len, &a);
	cut_all(data, len + shift, &b);
	for (size_t i = 0; i < a.n; i++)
		shared += has_cut(&b, a.at[i] + shift);
	/* The first chunks differ, then the cuts fall into step for good. */
	assert_in_range(shared, a.n * 3 / 4, a.n);
}

static void more_bytes_are_asked_for_until_the_cut_is_certain(void **state)
{
	scoped(free) uint8_t *data = malloc(CHUNK_MAX);
	size_t whole;

	fill_random(data, CHUNK_MAX, 3);
	whole = chunk_cut(data, CHUNK_MAX, false);
	assert_in_range(whole, CHUNK_MIN + 1, CHUNK_MAX - 1);
	assert_int_equal(chunk_cut(data, 0, false), 0);
	assert_int_equal(chunk_cut(data, CHUNK_MIN, false), 0);
	assert_int_equal(chunk_cut(data, whole - 1, false), 0);
	assert_int_equal(chunk_cut(data, whole, false), whole);
	assert_int_equal(chunk_cut(data, whole - 1, true), whole - 1);
	assert_int_equal(chunk_cut(data, 1, true), 1);
	assert_int_equal(chunk_cut(data, 0, true), 0);
}

static void coming_back_with_more_bytes_cuts_as_one_look_does(void **state)
{
	const size_t len = 40 * (size_t)CHUNK_GRID;
	scoped(free) uint8_t *data = malloc(len);
	uint64_t seed = 11;
	size_t seen = 0;

	fill_random(data, len, 5);
	for (size_t off = 0, have = 0; off < len;) {
		size_t want = chunk_cut(data + off, len - off, true);
		size_t got = chunk_cut_on(data + off, have, off + have == len, &seen);

		if (got > 0) {
			assert_int_equal(got, want);
			off += got;
			have -= got;
		} else {
			have += random_below(&seed, 700000);
			have = have < len - off ? have : len - off;
		}
	}
}

static void zeros_are_cut_at_the_maximum(void **state)
{
	scoped(free) uint8_t *data = calloc(1, CHUNK_MAX + 1);

	assert_int_equal(chunk_cut(data, CHUNK_MAX + 1, false), CHUNK_MAX);
	assert_int_equal(chunk_cut(data, CHUNK_MAX - 1, false), 0);
}

static void zero_is_told_from_almost_zero(void **state)
{
	uint8_t data[1000] = {0};

	assert_true(chunk_is_zero(data, sizeof(data)));
	assert_true(chunk_is_zero(data, 0));
	assert_true(chunk_is_zero(data, 1));
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 0x80;
		assert_false(chunk_is_zero(data, sizeof(data)));
		data[i] = 0;
	}
	memset(data, 1, sizeof(data));
	assert_false(chunk_is_zero(data, sizeof(data)));
}

static void the_hash_is_keyed_and_canonical(void **state)
{
	uint8_t other[STORE_SECRET_BYTES];
	struct hash128 a, b;
	char hex[33];

	memcpy(other, secret, sizeof(other));
	other[40] ^= 1;
	chunk_hash(secret, "holdfast", 8, &a);
	hex_of(a.b, 16, hex);
	assert_string_equal(hex,
			    "e881713cdc2a46c726636c764bb6010c"); /* the format: never changes */
	chunk_hash(other, "holdfast, longer than the 16 bytes for which few of the key count", 64,
		   &b);
	chunk_hash(secret, "holdfast, longer than the 16 bytes for which few of the key count", 64,
		   &a);
	assert_false(hash_equal(&a, &b));
}

static void a_hash_in_pieces_is_the_hash_of_the_whole(void **state)
{
	static const size_t lens[] = {0, 1, 17, 240, 241, 1023, 1024, 1025, 300000};
	scoped(chunk_hasher_free) struct chunk_hasher *h = NULL;
	static uint8_t data[300000];
	struct hash128 whole, pieces;
	uint64_t seed = 3;

	fill_random(data, sizeof(data), 2);
	assert_int_equal(chunk_hasher_new(&h), 0);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		chunk_hash(secret, data, lens[i], &whole);
		chunk_hasher_begin(h, secret);
		for (size_t at = 0; at < lens[i];) {
			size_t n = 1 + random_below(&seed, lens[i] - at);

			chunk_hasher_add(h, data + at, n);
			at += n;
		}
		chunk_hasher_end(h, &pieces);
		assert_true(hash_equal(&whole, &pieces));
	}
}

static void a_sample_tells_what_shrinks(void **state)
{
	scoped(free) uint8_t *data = malloc(CHUNK_GRID);
	scoped(free) uint8_t *out = malloc(chunk_compress_bound(CHUNK_GRID));
	size_t n;

	fill_random(data, CHUNK_GRID, 4);
	assert_false(chunk_compressible(data, CHUNK_GRID));
	assert_int_equal(chunk_compress(data, CHUNK_GRID, out, chunk_compress_bound(CHUNK_GRID)),
			 0);
	memset(data + CHUNK_GRID / 2 - 8192, 'x', 16384);
	assert_true(chunk_compressible(data, CHUNK_GRID));
	memset(data, 'x', CHUNK_GRID);
	n = chunk_compress(data, CHUNK_GRID, out, chunk_compress_bound(CHUNK_GRID));
	assert_in_range(n, 1, 4096);
	assert_int_equal(chunk_compress(data, CHUNK_GRID, out, n - 1), 0);
	assert_false(chunk_compressible(data, 0));
}

struct stored {
	uint8_t raw[5000], zstd[5000], out[5000];
	size_t zstd_len;
	struct hash128 hash;
};

static void store_text(struct stored *s)
{
	for (size_t i = 0; i < sizeof(s->raw); i++)
		s->raw[i] = (uint8_t)(i % 97);
	chunk_hash(secret, s->raw, sizeof(s->raw), &s->hash);
	s->zstd_len = chunk_compress(s->raw, sizeof(s->raw), s->zstd, sizeof(s->zstd));
	assert_in_range(s->zstd_len, 1, 1000);
}

static void both_codecs_give_the_content_back(void **state)
{
	struct stored s;
	struct fault f = FAULT_NONE;

	store_text(&s);
	assert_int_equal(chunk_decode(secret, CODEC_ZSTD, s.zstd, s.zstd_len, &s.hash, s.out, 5000,
				      &f),
			 0);
	assert_memory_equal(s.out, s.raw, 5000);
	memset(s.out, 0, 5000);
	assert_int_equal(chunk_decode(secret, CODEC_RAW, s.raw, 5000, &s.hash, s.out, 5000, &f), 0);
	assert_memory_equal(s.out, s.raw, 5000);
}

static void content_that_is_not_what_the_hash_says_is_refused(void **state)
{
	struct stored s;
	struct fault f = FAULT_NONE;
	char hex[33];

	store_text(&s);
	hex_of(s.hash.b, 16, hex);
	s.raw[4999] ^= 1;
	assert_int_equal(chunk_decode(secret, CODEC_RAW, s.raw, 5000, &s.hash, s.out, 5000, &f),
			 -EBADMSG);
	assert_non_null(strstr(f.text, hex));
	assert_int_equal(f.code, -EBADMSG);
	s.hash.b[15] ^= 1;
	assert_int_equal(chunk_decode(secret, CODEC_ZSTD, s.zstd, s.zstd_len, &s.hash, s.out, 5000,
				      &f),
			 -EBADMSG);
}

static void a_wrong_length_is_refused(void **state)
{
	struct stored s;
	struct fault f = FAULT_NONE;

	store_text(&s);
	assert_int_equal(chunk_decode(secret, CODEC_RAW, s.raw, 4999, &s.hash, s.out, 5000, &f),
			 -EPROTO);
	assert_int_equal(chunk_decode(secret, CODEC_ZSTD, s.zstd, s.zstd_len, &s.hash, s.out, 4999,
				      &f),
			 -EPROTO);
	assert_int_equal(chunk_decode(secret, CODEC_ZSTD, s.zstd, s.zstd_len - 1, &s.hash, s.out,
				      5000, &f),
			 -EPROTO);
	memset(s.out, 0, sizeof(s.out));
	s.zstd_len = chunk_compress(s.raw, 4000, s.zstd, sizeof(s.zstd));
	assert_int_equal(chunk_decode(secret, CODEC_ZSTD, s.zstd, s.zstd_len, &s.hash, s.out, 5000,
				      &f),
			 -EPROTO);
}

static void codecs_of_later_versions_are_named(void **state)
{
	struct stored s;
	struct fault f = FAULT_NONE;

	store_text(&s);
	for (int codec = CODEC_PLANES_ZSTD; codec < 256; codec += 11) {
		assert_int_equal(chunk_decode(secret, codec, s.raw, 5000, &s.hash, s.out, 5000, &f),
				 -EPROTO);
		assert_non_null(strstr(f.text, "codec"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_gear_table_is_splitmix64_of_its_seed),
		cmocka_unit_test(the_cut_is_what_the_manual_defines),
		cmocka_unit_test(chunks_keep_to_their_bounds_and_lie_near_the_aim),
		cmocka_unit_test(a_cut_depends_on_content_not_on_position),
		cmocka_unit_test(more_bytes_are_asked_for_until_the_cut_is_certain),
		cmocka_unit_test(coming_back_with_more_bytes_cuts_as_one_look_does),
		cmocka_unit_test(zeros_are_cut_at_the_maximum),
		cmocka_unit_test(zero_is_told_from_almost_zero),
		cmocka_unit_test(the_hash_is_keyed_and_canonical),
		cmocka_unit_test(a_hash_in_pieces_is_the_hash_of_the_whole),
		cmocka_unit_test(a_sample_tells_what_shrinks),
		cmocka_unit_test(both_codecs_give_the_content_back),
		cmocka_unit_test(content_that_is_not_what_the_hash_says_is_refused),
		cmocka_unit_test(a_wrong_length_is_refused),
		cmocka_unit_test(codecs_of_later_versions_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
