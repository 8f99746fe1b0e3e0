/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: what is written reads back, and hostile input never reads past its end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void integers_are_little_endian_and_read_back(void **state)
{
	static const uint8_t want[] = {1, 0x03, 0x02, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8};
	scoped(buf_fini) struct buf b = BUF_EMPTY;
	struct reader r;

	buf_u8(&b, 1);
	buf_u16(&b, 0x0203);
	buf_u32(&b, 0x04050607);
	buf_u64(&b, UINT64_C(0x08090a0b0c0d0e0f));
	assert_true(buf_ok(&b));
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));

	r = reader_of(b.data, b.len);
	assert_int_equal(read_u8(&r), 1);
	assert_int_equal(read_u16(&r), 0x0203);
	assert_int_equal(read_u32(&r), 0x04050607);
	assert_int_equal(read_u64(&r), UINT64_C(0x08090a0b0c0d0e0f));
	assert_int_equal(read_left(&r), 0);
	assert_false(r.bad);
}

static void a_read_past_the_end_gives_zeros_and_stays_bad(void **state)
{
	static const uint8_t three[] = {1, 2, 3};
	struct reader r = reader_of(three, sizeof(three));

	assert_int_equal(read_u32(&r), 0);
	assert_true(r.bad);
	assert_int_equal(read_u8(&r), 0); /* a byte is there, but the input is no longer believed */
	assert_null(read_bytes(&r, 1));
}

static void a_length_near_the_top_of_the_range_is_refused(void **state)
{
	static const uint8_t three[] = {1, 2, 3};
	struct reader r = reader_of(three, sizeof(three));

	assert_null(read_bytes(&r, SIZE_MAX));
	assert_true(r.bad);
}

static void an_empty_input_is_read_without_harm(void **state)
{
	struct reader r = reader_of(NULL, 0);

	assert_int_equal(read_left(&r), 0);
	(void)read_bytes(&r, 0);
	assert_false(r.bad);
	assert_int_equal(read_u8(&r), 0);
	assert_true(r.bad);
}

static void a_buffer_grows_and_keeps_its_content(void **state)
{
	scoped(buf_fini) struct buf b = BUF_EMPTY;

	for (unsigned i = 0; i < 100000; i++)
		buf_u32(&b, i);
	assert_int_equal(b.len, 400000);
	struct reader r = reader_of(b.data, b.len);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(read_u32(&r), i);
}

static void a_failed_reserve_sticks_and_keeps_the_buffer_whole(void **state)
{
	scoped(buf_fini) struct buf b = BUF_EMPTY;

	buf_add(&b, "abc", 3);
	assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), -ENOMEM);
	buf_add(&b, "def", 3);
	assert_false(buf_ok(&b));
	assert_int_equal(b.len, 3);
	assert_string_equal(buf_str(&b), "");
	buf_fini(&b);
	assert_true(buf_ok(&b));
}

static void text_is_ended_without_counting_the_end(void **state)
{
	scoped(buf_fini) struct buf b = BUF_EMPTY;

	assert_string_equal(buf_str(&b), "");
	buf_addf(&b, "%s-%d", "step", 40);
	buf_addf(&b, "%s", "");
	assert_string_equal(buf_str(&b), "step-40");
	assert_int_equal(b.len, 7);
}

static void hex_is_lower_case(void **state)
{
	char out[7];

	hex_of("\x00\xaf\x19", 3, out);
	assert_string_equal(out, "00af19");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_are_little_endian_and_read_back),
		cmocka_unit_test(a_read_past_the_end_gives_zeros_and_stays_bad),
		cmocka_unit_test(a_length_near_the_top_of_the_range_is_refused),
		cmocka_unit_test(an_empty_input_is_read_without_harm),
		cmocka_unit_test(a_buffer_grows_and_keeps_its_content),
		cmocka_unit_test(a_failed_reserve_sticks_and_keeps_the_buffer_whole),
		cmocka_unit_test(text_is_ended_without_counting_the_end),
		cmocka_unit_test(hex_is_lower_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
