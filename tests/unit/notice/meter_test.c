/* SPDX-License-Identifier: Apache-2.0 */
/* The meter: a mean of busy time, and how far to trust it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fs/notice/meter.h"

#define MB   UINT64_C(1000000)
#define PACK (UINT64_C(16) << 20)

struct link {
	struct meter meter;
	uint64_t now_ns, sent, under_way;
};

static struct link link_new(void)
{
	return (struct link){.now_ns = 77 * NS_PER_S};
}

/* Ten ticks a second, at bps, told in whole packs. */
static void run(struct link *l, double seconds, uint64_t bps, bool busy)
{
	for (uint64_t end = l->now_ns + (uint64_t)(seconds * 1e9); l->now_ns < end;
	     l->now_ns += NS_PER_S / 10) {
		meter_tick(&l->meter, l->now_ns, l->sent, busy);
		if (!busy)
			continue;
		l->under_way += bps / 10;
		l->sent += l->under_way / PACK * PACK;
		l->under_way %= PACK;
	}
}

static void nothing_sent_is_unknown(void **state)
{
	struct link l = link_new();

	run(&l, 100, 0, false);
	assert_int_equal(meter_rate(&l.meter), 0);
}

static void little_seen_is_little_trusted(void **state)
{
	struct link l = link_new();

	run(&l, 1.1, 100 * MB, true);
	assert_in_range(meter_rate(&l.meter), 80 * MB, 101 * MB);
	assert_in_range(meter_spread(&l.meter), 20 * MB, 30 * MB);
}

static void packs_do_not_make_a_steady_link_look_unsteady(void **state)
{
	static const uint64_t rates[] = {5, 20, 100, 1000};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct link l = link_new();

		run(&l, 70, rates[i] * MB, true);
		assert_in_range(meter_rate(&l.meter), rates[i] * MB * 95 / 100,
				rates[i] * MB * 105 / 100);
		assert_true(meter_spread(&l.meter) <= rates[i] * MB / 10);
	}
}

static void pauses_do_not_count(void **state)
{
	struct link l = link_new();

	for (int i = 0; i < 20; i++) {
		run(&l, 3, 100 * MB, true);
		run(&l, 30, 0, false);
	}
	assert_in_range(meter_rate(&l.meter), 90 * MB, 105 * MB);
}

static void a_link_that_jumps_has_a_spread(void **state)
{
	struct link l = link_new();

	for (int i = 0; i < 10; i++) {
		run(&l, 4, 150 * MB, true);
		run(&l, 4, 50 * MB, true);
	}
	assert_in_range(meter_rate(&l.meter), 80 * MB, 120 * MB);
	assert_in_range(meter_spread(&l.meter), 30 * MB, 70 * MB);
}

static void a_link_that_breaks_down_is_seen_before_its_stretch_ends(void **state)
{
	struct link l = link_new();
	uint64_t was;

	run(&l, 60, 100 * MB, true);
	was = meter_rate(&l.meter);
	run(&l, 15, 0, true);
	assert_true(meter_rate(&l.meter) < was * 6 / 10);
}

static void an_old_rate_is_forgotten(void **state)
{
	struct link l = link_new();

	run(&l, 60, 1000 * MB, true);
	run(&l, 90, 20 * MB, true);
	assert_in_range(meter_rate(&l.meter), 18 * MB, 22 * MB);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_sent_is_unknown),
		cmocka_unit_test(little_seen_is_little_trusted),
		cmocka_unit_test(packs_do_not_make_a_steady_link_look_unsteady),
		cmocka_unit_test(pauses_do_not_count),
		cmocka_unit_test(a_link_that_jumps_has_a_spread),
		cmocka_unit_test(a_link_that_breaks_down_is_seen_before_its_stretch_ends),
		cmocka_unit_test(an_old_rate_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
