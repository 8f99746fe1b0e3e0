/* SPDX-License-Identifier: Apache-2.0 */
/* Back-off: how long, how spread, and when no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "store/retry.h"
#include "tests/unit/store/helpers.h"

static uint64_t wait_ms(enum fault_retry class, unsigned tries, uint64_t random)
{
	const struct retry r = {
		.class = class, .tries = tries, .left_ns = UINT64_MAX, .random = random};

	return retry_wait_ns(&r) / NS_PER_MS;
}

static void final_and_reload_end_a_request(void **state)
{
	assert_int_equal(wait_ms(FAULT_FINAL, 1, 7), 0);
	assert_int_equal(wait_ms(FAULT_RELOAD, 1, 7), 0);
}

static void waits_double_up_to_ten_seconds(void **state)
{
	static const struct {
		enum fault_retry class;
		unsigned tries, most_ms;
	} cases[] = {
		{FAULT_SOON, 1, 50},	  {FAULT_SOON, 2, 100},	   {FAULT_SOON, 5, 800},
		{FAULT_SOON, 8, 6400},	  {FAULT_SOON, 9, 10000},  {FAULT_SOON, 4000000000, 10000},
		{FAULT_PACED, 1, 500},	  {FAULT_PACED, 3, 2000},  {FAULT_PACED, 6, 10000},
		{FAULT_PACED, 99, 10000},
	};
	uint64_t seed = 1;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int j = 0; j < 200; j++)
			assert_in_range(wait_ms(cases[i].class, cases[i].tries, random_next(&seed)),
					cases[i].most_ms / 2, cases[i].most_ms);
}

static void waits_are_spread(void **state)
{
	unsigned tenths[10] = {0};
	uint64_t seed = 2;

	for (int i = 0; i < 10000; i++) {
		uint64_t at = (wait_ms(FAULT_SOON, 9, random_next(&seed)) - 5000) / 500;

		assert_true(at < 10);
		tenths[at]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(tenths[i], 800, 1200);
}

static void the_store_is_not_asked_before_the_time_it_names(void **state)
{
	struct retry r = {.class = FAULT_PACED, .tries = 1, .left_ns = UINT64_MAX};
	uint64_t seed = 3;

	r.retry_after_ns = 8 * NS_PER_S;
	for (int i = 0; i < 200; i++) {
		r.random = random_next(&seed);
		assert_in_range(retry_wait_ns(&r), 8 * NS_PER_S, 9 * NS_PER_S);
	}
	r.retry_after_ns = 100000 * NS_PER_S;
	assert_in_range(retry_wait_ns(&r), 300 * NS_PER_S, 338 * NS_PER_S);
	r.retry_after_ns = 8 * NS_PER_S;
	r.left_ns = 7 * NS_PER_S;
	assert_int_equal(retry_wait_ns(&r), 0);
}

static void no_wait_is_longer_than_whoever_is_in_a_hurry_allows(void **state)
{
	struct retry r = {.class = FAULT_SOON, .tries = 20, .left_ns = UINT64_MAX, .most_ns = 400 * NS_PER_MS};
	uint64_t seed = 4;

	for (int i = 0; i < 200; i++) {
		r.random = random_next(&seed);
		assert_in_range(retry_wait_ns(&r), 200 * NS_PER_MS, 400 * NS_PER_MS);
	}
	r.class = FAULT_PACED;
	r.retry_after_ns = 30 * NS_PER_S;
	assert_in_range(retry_wait_ns(&r), 400 * NS_PER_MS, 450 * NS_PER_MS);
}

static void near_a_deadline_tries_come_closer(void **state)
{
	struct retry r = {.class = FAULT_SOON, .tries = 20, .left_ns = 2 * NS_PER_S};
	unsigned tries = 0;

	while (r.left_ns > 0) {
		uint64_t wait = retry_wait_ns(&r);

		assert_true(wait <= r.left_ns / 2);
		if (wait == 0)
			break;
		r.left_ns -= wait;
		tries++;
	}
	assert_in_range(tries, 4, 10);
}

static void a_stall_is_noticed_soon_at_first(void **state)
{
	assert_int_equal(retry_stall_ns(1), 3 * NS_PER_S);
	assert_int_equal(retry_stall_ns(2), 6 * NS_PER_S);
	assert_int_equal(retry_stall_ns(3), 12 * NS_PER_S);
	for (unsigned tries = 4; tries < 100; tries++)
		assert_int_equal(retry_stall_ns(tries), 20 * NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(final_and_reload_end_a_request),
		cmocka_unit_test(waits_double_up_to_ten_seconds),
		cmocka_unit_test(waits_are_spread),
		cmocka_unit_test(the_store_is_not_asked_before_the_time_it_names),
		cmocka_unit_test(no_wait_is_longer_than_whoever_is_in_a_hurry_allows),
		cmocka_unit_test(near_a_deadline_tries_come_closer),
		cmocka_unit_test(a_stall_is_noticed_soon_at_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
