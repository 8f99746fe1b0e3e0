/* SPDX-License-Identifier: Apache-2.0 */
/* What is read past a full cache: how much of it stands in memory, and whose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "fs/past.h"

#define LENGTH (UINT64_C(4) << 20)
#define MOST   (PAST_MOST / LENGTH)

static uint8_t data[LENGTH];

static struct extent chunk(uint8_t i)
{
	return (struct extent){.kind = EXTENT_CHUNK, .length = LENGTH, .hash.b = {i}};
}

static void put(struct past *p, uint8_t i, bool spare)
{
	const struct extent e = chunk(i);

	memset(data, i, sizeof(data));
	assert_int_equal(past_put(p, &e, data, spare), 0);
}

static bool has(struct past *p, uint8_t i)
{
	const struct extent e = chunk(i);

	return past_has(p, &e);
}

static int make(void **state)
{
	return (*state = past_new()) ? 0 : -1;
}

static int end(void **state)
{
	past_free(*state);
	return 0;
}

static void the_oldest_goes_where_there_is_no_more_room(void **state)
{
	for (uint8_t i = 0; i <= MOST; i++)
		put(*state, i, false);
	assert_false(has(*state, 0));
	assert_true(has(*state, 1) && has(*state, MOST));
}

static void what_was_asked_for_is_not_the_oldest(void **state)
{
	const struct extent e = chunk(0);
	uint8_t byte;

	for (uint8_t i = 0; i < MOST; i++)
		put(*state, i, false);
	assert_int_equal(past_get(*state, &e, LENGTH - 1, &byte, 1), 0);
	put(*state, MOST, false);
	assert_true(has(*state, 0));
	assert_false(has(*state, 1));
}

static void what_was_fetched_ahead_displaces_nothing(void **state)
{
	for (uint8_t i = 0; i < MOST; i++)
		put(*state, i, true);
	put(*state, MOST, true);
	assert_true(has(*state, 0));
	assert_false(has(*state, MOST));
}

static void what_a_reader_waits_for_stays_until_he_lets_it_go(void **state)
{
	struct past_held held = {.n = 0};
	const struct extent e = chunk(0);

	put(*state, 0, false);
	past_hold(*state, &held, &e);
	for (uint8_t i = 1; i < 3 * MOST; i++)
		put(*state, i, false);
	assert_true(has(*state, 0));
	past_let_go(*state, &held);
	put(*state, 3 * MOST, false);
	assert_false(has(*state, 0));
}

static void what_nobody_asks_for_any_more_goes(void **state)
{
	put(*state, 0, false);
	past_age(*state, 1, false);
	assert_true(past_any(*state));
	past_age(*state, UINT64_MAX, false);
	assert_false(past_any(*state));
}

static void another_length_is_another_chunk(void **state)
{
	struct extent e = chunk(0);
	uint8_t byte;

	put(*state, 0, false);
	e.length--;
	assert_int_equal(past_get(*state, &e, 0, &byte, 1), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_oldest_goes_where_there_is_no_more_room, make,
						end),
		cmocka_unit_test_setup_teardown(what_was_asked_for_is_not_the_oldest, make, end),
		cmocka_unit_test_setup_teardown(what_was_fetched_ahead_displaces_nothing, make,
						end),
		cmocka_unit_test_setup_teardown(what_a_reader_waits_for_stays_until_he_lets_it_go,
						make, end),
		cmocka_unit_test_setup_teardown(what_nobody_asks_for_any_more_goes, make, end),
		cmocka_unit_test_setup_teardown(another_length_is_another_chunk, make, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
