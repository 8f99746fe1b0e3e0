/* SPDX-License-Identifier: Apache-2.0 */
/* The dedupe index: bounded, and honest about packs that are still under way. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/lane/known.h"

#define SOME 64

static struct hash128 hash_of(uint64_t n)
{
	struct hash128 h;
	uint64_t x = n * UINT64_C(0x9e3779b97f4a7c15);

	memcpy(h.b, &x, 8);
	memcpy(h.b + 8, &n, 8);
	return h;
}

static struct place place_in(uint64_t pack, uint32_t offset)
{
	return (struct place){.pack = pack, .offset = offset, .stored = 100, .codec = CODEC_RAW};
}

static void add(struct known *k, uint64_t n, uint64_t pack)
{
	struct hash128 h = hash_of(n);
	struct place at = place_in(pack, (uint32_t)n);

	known_add(k, &h, 1000, &at);
}

static enum known_state look(struct known *k, unsigned lane, uint64_t n)
{
	struct hash128 h = hash_of(n);
	struct place at = {.pack = 0};
	enum known_state s = known_find(k, lane, &h, 1000, &at);

	if (s != KNOWN_NOT && s != KNOWN_BUSY)
		assert_int_equal(at.offset, n);
	return s;
}

static int make(void **state)
{
	return known_new(SOME, (struct known **)state);
}

static int end(void **state)
{
	known_free(*state);
	return 0;
}

static void what_was_added_is_found_with_its_place(void **state)
{
	struct hash128 h = hash_of(7);
	struct place at;

	assert_int_equal(look(*state, 0, 7), KNOWN_NOT);
	add(*state, 7, 3);
	assert_int_equal(known_find(*state, 0, &h, 1000, &at), KNOWN_STORED);
	assert_int_equal(at.pack, 3);
	assert_int_equal(at.stored, 100);
}

static void the_same_hash_with_another_length_is_another_chunk(void **state)
{
	struct hash128 h = hash_of(7);
	struct place at;

	add(*state, 7, 3);
	assert_int_equal(known_find(*state, 0, &h, 1001, &at), KNOWN_NOT);
}

static void memory_is_bounded_and_the_last_used_stay(void **state)
{
	int kept = 0;

	add(*state, 0, 1);
	for (uint64_t n = 1; n <= 50 * SOME; n++) {
		add(*state, n, 1);
		assert_int_equal(look(*state, 0, 0), KNOWN_STORED); /* used all the time */
	}
	for (uint64_t n = 0; n <= 50 * SOME; n++)
		kept += look(*state, 0, n) == KNOWN_STORED;
	assert_in_range(kept, SOME / 2, SOME);
}

static void a_chunk_that_one_lane_places_is_not_placed_by_another(void **state)
{
	assert_int_equal(look(*state, 0, 7), KNOWN_NOT);
	assert_int_equal(look(*state, 1, 7), KNOWN_BUSY);
	assert_int_equal(look(*state, 1, 8), KNOWN_NOT);
	known_placed(*state, 0); /* it gave up */
	assert_int_equal(look(*state, 1, 7), KNOWN_NOT);
	add(*state, 7, 3);
	known_placed(*state, 1);
	assert_int_equal(look(*state, 0, 7), KNOWN_STORED);
}

static void a_forgotten_pack_takes_its_chunks_along(void **state)
{
	add(*state, 1, 5);
	add(*state, 2, 6);
	known_forget(*state, 5);
	assert_int_equal(look(*state, 0, 1), KNOWN_NOT);
	assert_int_equal(look(*state, 0, 2), KNOWN_STORED);
}

static void a_chunk_of_a_pack_under_way_is_pending_until_it_ends(void **state)
{
	assert_true(known_begin(*state, 1, 5));
	add(*state, 1, 5);
	assert_int_equal(look(*state, 1, 1), KNOWN_PENDING_OWN);
	assert_false(known_end(*state, 5, NULL));
	assert_int_equal(look(*state, 1, 1), KNOWN_STORED);
	assert_int_equal(look(*state, 0, 1), KNOWN_STORED);
}

static void another_lane_hears_how_the_pack_ended(void **state)
{
	struct fault why;

	assert_true(known_begin(*state, 1, 5));
	add(*state, 1, 5);
	assert_int_equal(look(*state, 0, 1), KNOWN_PENDING);
	assert_int_equal(look(*state, 0, 1), KNOWN_PENDING);
	assert_int_equal(known_outcome(*state, 5, 2, &why), 1);
	assert_true(known_end(*state, 5, NULL));
	assert_int_equal(known_outcome(*state, 5, 2, &why), 0);
	assert_true(
		known_begin(*state, 1, 5)); /* the entry is gone, or this would be a second one */
	assert_false(known_end(*state, 5, NULL));
}

static void a_failed_pack_is_forgotten_and_its_fault_is_told(void **state)
{
	struct fault why, heard;

	(void)fault_set(&why, -EACCES, FAULT_FINAL,
			"pack 5: denied"); /* its code is looked at below */
	assert_true(known_begin(*state, 1, 5));
	add(*state, 1, 5);
	assert_int_equal(look(*state, 0, 1), KNOWN_PENDING);
	assert_true(known_end(*state, 5, &why));
	assert_int_equal(look(*state, 0, 1), KNOWN_NOT);
	assert_int_equal(known_outcome(*state, 5, 1, &heard), -EACCES);
	assert_string_equal(heard.text, "pack 5: denied");
}

static void a_pack_is_withdrawn_unless_others_wait_for_it(void **state)
{
	assert_true(known_begin(*state, 1, 5));
	add(*state, 1, 5);
	assert_int_equal(look(*state, 0, 1), KNOWN_PENDING);
	assert_true(known_is_wanted(*state, 5));
	assert_false(known_withdraw(*state, 5));
	known_leave(*state, 5, 1);
	assert_true(known_withdraw(*state, 5));
	assert_int_equal(look(*state, 0, 1), KNOWN_NOT);
}

static void too_many_packs_under_way_are_refused(void **state)
{
	uint64_t n = 1;

	while (n < 10000 && known_begin(*state, 0, n))
		n++;
	assert_in_range(n, 100, 1000);
	assert_false(known_end(*state, 1, NULL));
	assert_true(known_begin(*state, 0, n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_added_is_found_with_its_place, make, end),
		cmocka_unit_test_setup_teardown(the_same_hash_with_another_length_is_another_chunk,
						make, end),
		cmocka_unit_test_setup_teardown(memory_is_bounded_and_the_last_used_stay, make,
						end),
		cmocka_unit_test_setup_teardown(
			a_chunk_that_one_lane_places_is_not_placed_by_another, make, end),
		cmocka_unit_test_setup_teardown(a_forgotten_pack_takes_its_chunks_along, make, end),
		cmocka_unit_test_setup_teardown(
			a_chunk_of_a_pack_under_way_is_pending_until_it_ends, make, end),
		cmocka_unit_test_setup_teardown(another_lane_hears_how_the_pack_ended, make, end),
		cmocka_unit_test_setup_teardown(a_failed_pack_is_forgotten_and_its_fault_is_told,
						make, end),
		cmocka_unit_test_setup_teardown(a_pack_is_withdrawn_unless_others_wait_for_it, make,
						end),
		cmocka_unit_test_setup_teardown(too_many_packs_under_way_are_refused, make, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
