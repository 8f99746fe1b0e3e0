/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranges against an array with a bool for each byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/cache/range.h"
#include "tests/unit/cache/folder.h"

#define SPACE 64

static void compare(const struct ranges *r, const bool *model, uint64_t seed)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->n; i++) {
		assert_true(r->v[i].from < r->v[i].to);
		if (i)
			assert_true(r->v[i - 1].to < r->v[i].from); /* joined where they touch */
	}
	for (uint64_t at = 0; at < SPACE; at++) {
		bytes += model[at];
		if (ranges_has(r, at, at + 1) != model[at] ||
		    ranges_meets(r, at, at + 1) != model[at])
			fail_msg("seed %llu: byte %llu", (unsigned long long)seed,
				 (unsigned long long)at);
	}
	assert_int_equal(ranges_bytes(r), bytes);
}

static void compare_next(const struct ranges *r, const bool *model, uint64_t from, uint64_t to)
{
	for (int want = 0; want < 2; want++) {
		uint64_t first = from, end;
		struct range out = {.from = 999};
		bool found =
			want ? ranges_next(r, from, to, &out) : ranges_next_gap(r, from, to, &out);

		while (first < to && model[first] != want)
			first++;
		for (end = first; end < to && model[end] == want;)
			end++;
		assert_int_equal(found, first < to);
		assert_int_equal(out.from, found ? first : 999);
		if (found)
			assert_int_equal(out.to, end);
	}
}

static void a_set_of_ranges_is_a_set_of_bytes(void **state)
{
	uint64_t seed = dice_seed(20240229), d = seed;

	for (int run = 0; run < 200; run++) {
		scoped(ranges_fini) struct ranges r = RANGES_EMPTY, copy = RANGES_EMPTY;
		bool model[SPACE] = {false};

		for (int step = 0; step < 60; step++) {
			uint64_t from = dice(&d, SPACE), to = from + dice(&d, SPACE - from + 1);
			bool add = dice(&d, 2);

			assert_int_equal(add ? ranges_add(&r, from, to)
					     : ranges_remove(&r, from, to),
					 0);
			for (uint64_t at = from; at < to; at++)
				model[at] = add;
			compare(&r, model, seed);
			compare_next(&r, model, dice(&d, SPACE), dice(&d, SPACE));
		}
		assert_int_equal(ranges_copy(&r, &copy), 0);
		compare(&copy, model, seed);
	}
}

static void the_ends_of_the_number_line_can_be_in_a_set(void **state)
{
	scoped(ranges_fini) struct ranges r = RANGES_EMPTY;
	struct range out;

	assert_int_equal(ranges_add(&r, 5, UINT64_MAX), 0);
	assert_int_equal(ranges_add(&r, 0, 2), 0);
	assert_true(ranges_next_gap(&r, 0, UINT64_MAX, &out));
	assert_int_equal(out.from, 2);
	assert_int_equal(out.to, 5);
	assert_int_equal(ranges_remove(&r, 7, UINT64_MAX), 0);
	assert_true(ranges_next_gap(&r, 5, UINT64_MAX, &out));
	assert_int_equal(out.from, 7);
	assert_true(out.to == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_of_ranges_is_a_set_of_bytes),
		cmocka_unit_test(the_ends_of_the_number_line_can_be_in_a_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
