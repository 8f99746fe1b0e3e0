/* SPDX-License-Identifier: Apache-2.0 */
/* The rate: what went through while something was under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/lane/rate.h"

#define MB 1000000u

/* n transfers one after the other, each of `bytes` in `ns`; returns when the last ended. */
static uint64_t transfers(struct rate *r, uint64_t now, unsigned n, uint64_t bytes, uint64_t ns)
{
	for (unsigned i = 0; i < n; i++) {
		rate_start(r, now);
		now += ns;
		rate_stop(r, now, bytes);
	}
	return now;
}

static void nothing_sent_is_unknown(void **state)
{
	struct rate r = {.busy = 0};

	assert_int_equal(rate_bps(&r, NS_PER_S), 0);
	rate_start(&r, NS_PER_S);
	assert_int_equal(rate_bps(&r, 2 * NS_PER_S), 0);
}

static void the_first_transfer_already_tells_the_rate(void **state)
{
	struct rate r = {.busy = 0};
	uint64_t now = transfers(&r, NS_PER_S, 1, 16 * MB, NS_PER_S / 10);

	assert_in_range(rate_bps(&r, now), 159 * MB, 161 * MB);
}

static void pauses_do_not_count(void **state)
{
	struct rate r = {.busy = 0};
	uint64_t now = transfers(&r, NS_PER_S, 10, 16 * MB, NS_PER_S / 10);

	now = transfers(&r, now + 3600 * NS_PER_S, 1, 16 * MB, NS_PER_S / 10);
	assert_in_range(rate_bps(&r, now + 60 * NS_PER_S), 159 * MB, 161 * MB);
}

static void transfers_side_by_side_add_up(void **state)
{
	struct rate r = {.busy = 0};

	rate_start(&r, NS_PER_S);
	rate_start(&r, NS_PER_S);
	rate_stop(&r, 2 * NS_PER_S, 50 * MB);
	rate_stop(&r, 2 * NS_PER_S, 50 * MB);
	assert_in_range(rate_bps(&r, 2 * NS_PER_S), 99 * MB, 101 * MB);
}

static void a_new_rate_is_seen_within_seconds(void **state)
{
	struct rate r = {.busy = 0};
	uint64_t now = transfers(&r, NS_PER_S, 100, 16 * MB, NS_PER_S / 10);

	now = transfers(&r, now, 60, 2 * MB, NS_PER_S / 10); /* 160 MB/s became 20 for 6 s */
	assert_in_range(rate_bps(&r, now), 20 * MB, 75 * MB);
}

static void a_link_that_hangs_gets_slower_and_never_unknown(void **state)
{
	struct rate r = {.busy = 0};
	uint64_t now = transfers(&r, NS_PER_S, 10, 16 * MB, NS_PER_S / 10);

	rate_start(&r, now);
	assert_in_range(rate_bps(&r, now + 60 * NS_PER_S), 1, 10 * MB);
	assert_in_range(rate_bps(&r, now + 1000000 * NS_PER_S), 1, MB);
}

static void a_clock_that_stands_still_does_no_harm(void **state)
{
	struct rate r = {.busy = 0};
	uint64_t now = transfers(&r, NS_PER_S, 5, MB, 0);

	assert_int_equal(rate_bps(&r, now), 0); /* no time passed: nothing can be said */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_sent_is_unknown),
		cmocka_unit_test(the_first_transfer_already_tells_the_rate),
		cmocka_unit_test(pauses_do_not_count),
		cmocka_unit_test(transfers_side_by_side_add_up),
		cmocka_unit_test(a_new_rate_is_seen_within_seconds),
		cmocka_unit_test(a_link_that_hangs_gets_slower_and_never_unknown),
		cmocka_unit_test(a_clock_that_stands_still_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
