/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what was written reads back; what was changed, cut or made for another store is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/record.h"
#include "tests/unit/store/helpers.h"

static const struct store_format format = {
	.format = 1,
	.id = {{1, 2, 3, 4}},
	.secret = {9, 8, 7, 6, 5},
};

static struct record_head example(void)
{
	return (struct record_head){
		.store = format.id,
		.number = 42,
		.prev = {{0xaa, 0xbb}},
		.kind = RECORD_COMMIT,
		.flags = RECORD_QUIET | RECORD_CUMULATIVE,
		.slot = 3,
		.slots = 8,
		.attempt = 2,
		.fence = 17,
		.nonce = UINT64_C(0x0123456789abcdef),
		.time_ns = INT64_C(1760000000123456789),
		.from = 41,
		.good = 40,
		.calm = 39,
		.base_upto = 20,
		.base = {.index = {.pack = 5, .offset = 16, .stored = 900, .codec = CODEC_ZSTD},
			 .index_raw = 4000,
			 .hash = {{7}},
			 .bytes = 123456},
		.cumulative = 42,
		.floor = 12,
		.host = "ip-10-0-0-7",
	};
}

static void encode(const struct record_head *h, const char *body, struct buf *out)
{
	assert_int_equal(record_encode(format.secret, h, body, strlen(body), out), 0);
}

static void a_record_reads_back(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY, body = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	encode(&h, "the body", &raw);
	assert_int_equal(record_decode(&format, raw.data, raw.len, &back, &body, &f), 0);
	assert_int_equal(body.len, 8);
	assert_memory_equal(body.data, "the body", 8);
	assert_memory_equal(back.store.b, h.store.b, 16);
	assert_memory_equal(back.prev.b, h.prev.b, 16);
	assert_int_equal(back.number, 42);
	assert_int_equal(back.kind, RECORD_COMMIT);
	assert_int_equal(back.flags, h.flags);
	assert_int_equal(back.slot, 3);
	assert_int_equal(back.slots, 8);
	assert_int_equal(back.attempt, 2);
	assert_int_equal(back.fence, 17);
	assert_int_equal(back.nonce, h.nonce);
	assert_int_equal(back.time_ns, h.time_ns);
	assert_int_equal(back.from, 41);
	assert_int_equal(back.good, 40);
	assert_int_equal(back.calm, 39);
	assert_int_equal(back.floor, 12);
	assert_int_equal(back.base_upto, 20);
	assert_int_equal(back.base.index.pack, 5);
	assert_int_equal(back.base.index.stored, 900);
	assert_int_equal(back.base.index_raw, 4000);
	assert_int_equal(back.base.bytes, 123456);
	assert_true(hash_equal(&back.base.hash, &h.base.hash));
	assert_int_equal(back.cumulative, 42);
	assert_string_equal(back.host, "ip-10-0-0-7");
}

static void a_body_that_shrinks_is_stored_compressed(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY, body = BUF_EMPTY;
	scoped(free) char *text = malloc(100001);
	struct fault f = FAULT_NONE;

	memset(text, 'x', 100000);
	text[100000] = '\0';
	encode(&h, text, &raw);
	assert_in_range(raw.len, 200, 1000);
	assert_int_equal(record_decode(&format, raw.data, raw.len, &back, &body, &f), 0);
	assert_int_equal(body.len, 100000);
	assert_memory_equal(body.data, text, 100000);
	assert_int_equal(record_decode(&format, raw.data, raw.len, &back, NULL, &f), 0);
}

static void an_empty_body_is_a_body(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY, body = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	h.base_upto = 0; /* then the base is not looked at */
	h.base = (struct run_ref){.bytes = 0};
	assert_int_equal(record_encode(format.secret, &h, NULL, 0, &raw), 0);
	assert_int_equal(record_decode(&format, raw.data, raw.len, &back, &body, &f), 0);
	assert_int_equal(body.len, 0);
}

static void every_truncation_is_refused(void **state)
{
	struct record_head h = example(), back = {.number = 7};
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct buf body = BUF_EMPTY;

	encode(&h, "the body", &raw);
	for (size_t len = 0; len < raw.len; len++) {
		scoped(free) uint8_t *exact = malloc(len + !len);
		struct fault f = FAULT_NONE;

		memcpy(exact, raw.data, len);
		assert_int_equal(record_decode(&format, exact, len, &back, &body, &f), -EBADMSG);
		assert_non_null(strstr(f.text, "record"));
	}
	assert_int_equal(back.number, 7); /* outputs stay untouched */
	assert_null(body.data);
}

static void every_flip_of_a_byte_is_refused(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct buf body = BUF_EMPTY;

	encode(&h, "the body", &raw);
	for (size_t at = 0; at < raw.len; at++) {
		for (unsigned bit = 1; bit < 256; bit <<= 1) {
			struct fault f = FAULT_NONE;
			int rc;

			raw.data[at] ^= (uint8_t)bit;
			rc = record_decode(&format, raw.data, raw.len, &back, &body, &f);
			assert_int_equal(rc, at == 4 || at == 5 ? -EPROTONOSUPPORT : -EBADMSG);
			raw.data[at] ^= (uint8_t)bit;
		}
	}
}

/* Make the hash right again, so that what is behind it is tested. */
static void seal(const struct store_format *s, struct buf *raw)
{
	struct hash128 hash;

	record_hash(s->secret, raw->data, raw->len - 16, &hash);
	memcpy(raw->data + raw->len - 16, hash.b, 16);
}

static void flips_under_a_right_hash_never_overrun(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;

	encode(&h, "the body the body the body the body the body the body", &raw);
	for (size_t at = 0; at < raw.len - 16; at++) {
		scoped(buf_fini) struct buf body = BUF_EMPTY;
		uint8_t was = raw.data[at];

		raw.data[at] ^= 0xff;
		seal(&format, &raw);
		(void)record_decode(&format, raw.data, raw.len, &back, &body, NULL);
		raw.data[at] = was;
	}
}

static void a_record_of_another_store_is_refused(void **state)
{
	struct store_format other = format;
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct buf body = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	encode(&h, "the body", &raw);
	other.id.b[0] ^= 1;
	assert_int_equal(record_decode(&other, raw.data, raw.len, &back, &body, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "another store"));
	other = format;
	other.secret[100] ^= 1;
	assert_int_equal(record_decode(&other, raw.data, raw.len, &back, &body, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "another store"));
}

static void fields_that_a_later_version_appends_are_passed_over(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY, longer = BUF_EMPTY, body = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	size_t header;

	encode(&h, "the body", &raw);
	header = raw.data[6] | (size_t)raw.data[7] << 8;
	buf_add(&longer, raw.data, header);
	buf_add(&longer, "appended", 8);
	buf_add(&longer, raw.data + header, raw.len - header);
	longer.data[6] = (uint8_t)(header + 8);
	longer.data[7] = (uint8_t)((header + 8) >> 8);
	seal(&format, &longer);
	assert_int_equal(record_decode(&format, longer.data, longer.len, &back, &body, &f), 0);
	assert_string_equal(back.host, "ip-10-0-0-7");
	assert_memory_equal(body.data, "the body", 8);
}

static void a_later_version_is_named(void **state)
{
	struct record_head h = example(), back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	encode(&h, "the body", &raw);
	raw.data[4] = 2;
	assert_int_equal(record_decode(&format, raw.data, raw.len, &back, NULL, &f),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(f.text, "version 2"));
}

static void what_no_record_may_say_is_not_written(void **state)
{
	struct record_head cases[14];
	size_t n = sizeof(cases) / sizeof(*cases);

	for (size_t i = 0; i < n; i++)
		cases[i] = example();
	cases[0].number = 0;
	cases[1].kind = 0;
	cases[2].kind = RECORD_STUB + 1;
	cases[3].flags = 1 << 9;
	cases[4].slot = 8;
	cases[5].from = 42;
	cases[6].good = 43;
	cases[7].fence = 43;
	cases[8].base_upto = 42;
	cases[9].cumulative = 43;
	cases[10].kind = RECORD_JOIN; /* fence 17 is not its own number */
	cases[11].kind = RECORD_RESET;
	cases[11].fence = 42;
	cases[11].flags = 0;
	strcpy(cases[12].host, "a\nb");
	cases[13].calm = 43;
	for (size_t i = 0; i < n; i++) {
		scoped(buf_fini) struct buf raw = BUF_EMPTY;

		assert_int_equal(record_encode(format.secret, &cases[i], "", 0, &raw), -EINVAL);
	}
}

static void a_body_out_of_bounds_is_not_written(void **state)
{
	struct record_head h = example();
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	scoped(free) uint8_t *body = calloc(1, RECORD_BODY_MAX + 1);

	assert_int_equal(record_encode(format.secret, &h, body, RECORD_BODY_MAX + 1, &raw), -E2BIG);
	assert_int_equal(record_encode(format.secret, &h, body, RECORD_BODY_MAX, &raw), 0);
}

static void a_reference_to_a_run_reads_back_and_is_bounded(void **state)
{
	struct run_ref ref = example().base, back;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct reader r;

	assert_int_equal(run_ref_encode(&ref, &raw), 0);
	assert_int_equal(raw.len, RUN_REF_BYTES);
	r = reader_of(raw.data, raw.len);
	assert_int_equal(run_ref_decode(&r, &back), 0);
	assert_int_equal(back.index.offset, 16);
	assert_int_equal(back.index.codec, CODEC_ZSTD);
	for (size_t len = 0; len < raw.len; len++) {
		r = reader_of(raw.data, len);
		assert_int_equal(run_ref_decode(&r, &back), -EBADMSG);
	}
	raw.data[11] = 0xff; /* an offset behind any pack's end */
	r = reader_of(raw.data, raw.len);
	assert_int_equal(run_ref_decode(&r, &back), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_reads_back),
		cmocka_unit_test(a_body_that_shrinks_is_stored_compressed),
		cmocka_unit_test(an_empty_body_is_a_body),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_flip_of_a_byte_is_refused),
		cmocka_unit_test(flips_under_a_right_hash_never_overrun),
		cmocka_unit_test(a_record_of_another_store_is_refused),
		cmocka_unit_test(fields_that_a_later_version_appends_are_passed_over),
		cmocka_unit_test(a_later_version_is_named),
		cmocka_unit_test(what_no_record_may_say_is_not_written),
		cmocka_unit_test(a_body_out_of_bounds_is_not_written),
		cmocka_unit_test(a_reference_to_a_run_reads_back_and_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
