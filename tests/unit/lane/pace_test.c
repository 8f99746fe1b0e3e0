/* SPDX-License-Identifier: Apache-2.0 */
/* Which GETs are late, and how many second ones there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/lane/pace.h"

#define MS NS_PER_MS

static struct pace after(unsigned answers, uint64_t took_ns)
{
	struct pace p = {.usual_ns = 0};

	for (unsigned i = 0; i < answers; i++)
		pace_answer(&p, took_ns);
	return p;
}

static void four_times_the_usual_is_late(void **state)
{
	struct pace p = after(20, 200 * MS);

	assert_false(pace_is_late(&p, 700 * MS));
	assert_true(pace_is_late(&p, 800 * MS));
}

static void a_fast_store_is_given_three_tenths_of_a_second(void **state)
{
	struct pace p = after(20, MS);

	assert_false(pace_is_late(&p, 299 * MS));
	assert_true(pace_is_late(&p, 300 * MS));
}

static void while_little_is_known_two_seconds_are_not_late(void **state)
{
	struct pace p = after(PACE_KNOWN - 1, MS);

	assert_false(pace_is_late(&p, PACE_NEW_NS - 1));
	assert_true(pace_is_late(&p, PACE_NEW_NS));
}

static void the_usual_follows_a_store_that_slows_down(void **state)
{
	struct pace p = after(100, 10 * MS);

	assert_true(pace_is_late(&p, 1000 * MS));
	for (int i = 0; i < 20; i++)
		pace_answer(&p, 1000 * MS);
	assert_false(pace_is_late(&p, 2000 * MS));
}

static void a_store_that_is_slow_as_a_whole_gets_little_more_to_do(void **state)
{
	struct pace p = after(500, MS);
	unsigned asked = 0;

	while (pace_may_ask(&p)) {
		pace_asked(&p);
		asked++;
	}
	assert_int_equal(asked, PACE_SPARE + 500 / PACE_SHARE);
	for (int i = 0; i < PACE_SHARE; i++)
		pace_answer(&p, MS);
	assert_true(pace_may_ask(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_times_the_usual_is_late),
		cmocka_unit_test(a_fast_store_is_given_three_tenths_of_a_second),
		cmocka_unit_test(while_little_is_known_two_seconds_are_not_late),
		cmocka_unit_test(the_usual_follows_a_store_that_slows_down),
		cmocka_unit_test(a_store_that_is_slow_as_a_whole_gets_little_more_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
