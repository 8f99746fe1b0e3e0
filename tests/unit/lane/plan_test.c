/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranges a fetch asks for: neighbours together, long ones apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/lane/plan.h"

#define MOST 16
#define MIB  (1u << 20)

struct case_items {
	struct extent extents[MOST];
	struct fetch_item items[MOST];
	struct fetch_item *sorted[MOST];
	size_t n;
};

static void add(struct case_items *c, uint64_t pack, uint32_t offset, uint32_t stored)
{
	c->extents[c->n] = (struct extent){
		.length = stored,
		.kind = EXTENT_CHUNK,
		.place = {.pack = pack, .offset = offset, .stored = stored},
	};
	c->items[c->n].extent = &c->extents[c->n];
	c->sorted[c->n] = &c->items[c->n];
	c->n++;
}

/* All spans, and a look that each item lies in its own. */
static size_t spans_of(struct case_items *c, struct span *out)
{
	size_t spans = 0;

	plan_sort(c->sorted, c->n);
	for (size_t i = 0; i < c->n; spans++) {
		out[spans] = plan_span(c->sorted + i, c->n - i);
		for (size_t k = 0; k < out[spans].n; k++, i++) {
			const struct place *p = &c->sorted[i]->extent->place;

			assert_int_equal(p->pack, out[spans].pack);
			assert_in_range(p->offset, out[spans].off,
					out[spans].off + out[spans].len - p->stored);
		}
	}
	return spans;
}

static void neighbours_become_one_get_in_any_order(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	add(&c, 1, 2000, 1000);
	add(&c, 1, 16, 984);
	add(&c, 1, 1000, 1000);
	assert_int_equal(spans_of(&c, s), 1);
	assert_int_equal(s[0].off, 16);
	assert_int_equal(s[0].len, 2984);
}

static void a_small_gap_is_read_over_and_a_large_one_is_not(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	add(&c, 1, 0, 1000);
	add(&c, 1, 1000 + PLAN_GAP, 1000);
	add(&c, 1, 2000 + 2 * PLAN_GAP + 1, 1000);
	assert_int_equal(spans_of(&c, s), 2);
	assert_int_equal(s[0].n, 2);
	assert_int_equal(s[0].len, 2000 + PLAN_GAP);
	assert_int_equal(s[1].off, 2000 + 2 * PLAN_GAP + 1);
}

static void packs_are_never_mixed(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	add(&c, 2, 0, 1000);
	add(&c, 1, 0, 1000);
	assert_int_equal(spans_of(&c, s), 2);
	assert_int_equal(s[0].pack, 1);
	assert_int_equal(s[1].pack, 2);
}

static void no_get_is_too_long(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	for (uint32_t i = 0; i < 10; i++)
		add(&c, 1, i * MIB, MIB);
	assert_int_equal(spans_of(&c, s), 3);
	assert_int_equal(s[0].len, 4 * MIB);
	assert_int_equal(s[2].len, 2 * MIB);
}

static void a_chunk_wanted_twice_is_asked_for_once(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	add(&c, 1, 100, 1000);
	add(&c, 1, 100, 1000);
	add(&c, 1, 300,
	    200); /* inside: no pack of ours has it, but one that lies must do no harm */
	assert_int_equal(spans_of(&c, s), 1);
	assert_int_equal(s[0].n, 3);
	assert_int_equal(s[0].len, 1000);
}

static void a_place_at_the_end_of_the_range_does_not_wrap(void **state)
{
	struct case_items c = {.n = 0};
	struct span s[MOST];

	add(&c, 1, UINT32_MAX - 10, 10);
	add(&c, 1, UINT32_MAX - 5, UINT32_MAX);
	assert_int_equal(spans_of(&c, s), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_become_one_get_in_any_order),
		cmocka_unit_test(a_small_gap_is_read_over_and_a_large_one_is_not),
		cmocka_unit_test(packs_are_never_mixed),
		cmocka_unit_test(no_get_is_too_long),
		cmocka_unit_test(a_chunk_wanted_twice_is_asked_for_once),
		cmocka_unit_test(a_place_at_the_end_of_the_range_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
