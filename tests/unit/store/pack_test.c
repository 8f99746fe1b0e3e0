/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: what was added is found again by the pack's own index, and damage is seen. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/crc32c.h"
#include "store/pack.h"
#include "tests/unit/store/helpers.h"

static const uint8_t secret[STORE_SECRET_BYTES] = {3, 1, 4, 1, 5, 9, 2, 6};

/* Adds `len` bytes of pseudo-random content made from seed, raw. */
static bool add(struct pack_builder *p, size_t len, uint64_t seed, struct place *out)
{
	scoped(free) uint8_t *data = malloc(len);
	struct hash128 hash;

	fill_random(data, len, seed);
	chunk_hash(secret, data, len, &hash);
	return pack_add(p, CODEC_RAW, data, len, &hash, len, out);
}

struct seen {
	const uint8_t *data;
	uint8_t *scratch;
	size_t n;
	uint32_t first_offset;
};

static int check_each(void *arg, const struct pack_entry *e, struct fault *f)
{
	struct seen *s = arg;

	if (s->n++ == 0)
		s->first_offset = e->offset;
	return pack_check(secret, s->data, e, s->scratch, f);
}

static int scan(const uint8_t *data, size_t len, struct pack_info *info, size_t *n, struct fault *f)
{
	scoped(free) uint8_t *scratch = malloc(PACK_MAX);
	struct seen s = {.data = data, .scratch = scratch};
	int rc = pack_scan(secret, data, len, info, check_each, &s, f);

	*n = s.n;
	return rc;
}

static void a_pack_says_what_it_holds(void **state)
{
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	struct place at[3];
	size_t len, n;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, UINT64_C(0x123456789abcdef0));
	assert_true(pack_is_empty(&p));
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(add(&p, 1000 * (i + 1), i, &at[i]));
		assert_true(at[i].pack == UINT64_C(0x123456789abcdef0));
		assert_int_equal(at[i].stored, 1000 * (i + 1));
	}
	assert_int_equal(at[0].offset, PACK_HEADER);
	assert_int_equal(at[1].offset, PACK_HEADER + 1000);
	assert_int_equal(at[2].offset, PACK_HEADER + 3000);
	len = pack_end(&p, secret);
	assert_int_equal(len, PACK_HEADER + 6000 + 3 * PACK_ENTRY + PACK_TRAILER);
	assert_int_equal(p.crc, crc32c_add(0, p.data, len));

	assert_int_equal(scan(p.data, len, &info, &n, &f), 0);
	assert_int_equal(n, 3);
	assert_int_equal(info.chunks, 3);
	assert_int_equal(info.kind, PACK_CHUNKS);
	assert_true(info.name == UINT64_C(0x123456789abcdef0));
}

static void chunks_may_be_compressed_straight_into_the_pack(void **state)
{
	scoped(free) uint8_t *data = calloc(1, CHUNK_MAX);
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	struct hash128 hash;
	struct place at;
	size_t stored, n;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, 1);
	chunk_hash(secret, data, CHUNK_MAX, &hash);
	stored = chunk_compress(data, CHUNK_MAX, pack_at(&p), pack_room(&p));
	assert_in_range(stored, 1, 4096);
	pack_commit(&p, CODEC_ZSTD, stored, &hash, CHUNK_MAX, &at);
	assert_int_equal(scan(p.data, pack_end(&p, secret), &info, &n, &f), 0);
	assert_int_equal(n, 1);
	assert_int_equal(p.crc, crc32c_add(0, p.data, p.len));
}

static void a_full_pack_is_exactly_as_long_as_a_pack_may_be(void **state)
{
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	struct place at;
	size_t n;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, 1);
	assert_true(pack_room(&p) >= CHUNK_MAX);
	while (pack_room(&p) >= CHUNK_MAX)
		assert_true(add(&p, CHUNK_MAX, pack_room(&p), &at));
	n = pack_room(&p);
	assert_false(add(&p, n + 1, 9, &at));
	assert_true(add(&p, n, 9, &at));
	assert_int_equal(pack_room(&p), 0);
	assert_false(add(&p, 1, 9, &at));
	assert_int_equal(pack_end(&p, secret), PACK_MAX);
	assert_int_equal(scan(p.data, PACK_MAX, &info, &n, &f), 0);
	assert_int_equal(n, 4);
}

static void many_tiny_chunks_fill_a_pack_too(void **state)
{
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	struct place at;
	size_t n = 0, seen;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, 1);
	while (add(&p, 1, n, &at))
		n++;
	assert_int_equal(n, PACK_CHUNKS_MAX);
	assert_int_equal(scan(p.data, pack_end(&p, secret), &info, &seen, &f), 0);
	assert_int_equal(seen, n);
}

static void a_builder_is_used_again(void **state)
{
	scoped(free) uint8_t *buffer = malloc(PACK_MAX);
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	struct place at;
	size_t n;

	assert_int_equal(pack_init(&p, buffer), 0);
	pack_begin(&p, PACK_CHUNKS, 1);
	assert_true(add(&p, 5000, 1, &at));
	(void)pack_end(&p, secret);
	pack_begin(&p, PACK_RUN, 0);
	assert_true(add(&p, 70, 2, &at));
	assert_int_equal(scan(buffer, pack_end(&p, secret), &info, &n, &f), 0);
	assert_int_equal(n, 1);
	assert_int_equal(info.kind, PACK_RUN);
	assert_true(info.name == 0);
}

static void every_truncation_and_every_flip_is_seen(void **state)
{
	scoped(pack_fini) struct pack_builder p;
	struct pack_info info;
	struct place at;
	size_t len, n;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, 77);
	assert_true(add(&p, 100, 1, &at));
	assert_true(add(&p, 200, 2, &at));
	len = pack_end(&p, secret);
	for (size_t cut = 0; cut < len; cut++) {
		struct fault f = FAULT_NONE;

		assert_true(scan(p.data, cut, &info, &n, &f) < 0);
		assert_non_null(strstr(f.text, "pack"));
	}
	for (size_t i = 0; i < len; i++) {
		struct fault f = FAULT_NONE;

		p.data[i] ^= 0x10;
		assert_true(scan(p.data, len, &info, &n, &f) < 0);
		assert_true(f.code < 0 && f.text[0]);
		p.data[i] ^= 0x10;
	}
}

static void a_later_version_is_told_from_damage(void **state)
{
	scoped(pack_fini) struct pack_builder p;
	struct fault f = FAULT_NONE;
	struct pack_info info;
	size_t len, n;

	assert_int_equal(pack_init(&p, NULL), 0);
	pack_begin(&p, PACK_CHUNKS, 1);
	len = pack_end(&p, secret);
	p.data[4] = 2;
	assert_int_equal(scan(p.data, len, &info, &n, &f), -EPROTONOSUPPORT);
	assert_non_null(strstr(f.text, "version 2"));
}

static void a_key_names_its_pack(void **state)
{
	char key[PACK_KEY_MAX];

	pack_key(UINT64_C(0x0000001c00000105), key);
	assert_string_equal(key, "packs/05/0000001c00000105");
	pack_key(UINT64_MAX, key);
	assert_string_equal(key, "packs/ff/ffffffffffffffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pack_says_what_it_holds),
		cmocka_unit_test(chunks_may_be_compressed_straight_into_the_pack),
		cmocka_unit_test(a_full_pack_is_exactly_as_long_as_a_pack_may_be),
		cmocka_unit_test(many_tiny_chunks_fill_a_pack_too),
		cmocka_unit_test(a_builder_is_used_again),
		cmocka_unit_test(every_truncation_and_every_flip_is_seen),
		cmocka_unit_test(a_later_version_is_told_from_damage),
		cmocka_unit_test(a_key_names_its_pack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
