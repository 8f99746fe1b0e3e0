/* SPDX-License-Identifier: Apache-2.0 */
/* The gauge's sentences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fs/notice/gauge.h"

#define MB UINT64_C(1000000)

struct scene {
	struct plan_input in;
	struct plan plan;
	struct gauge gauge;
};

/* 100 s at 100 MB/s. */
static void set(struct scene *s, unsigned n)
{
	*s = (struct scene){.in = {.n = n, .rate_bps = 100 * MB, .left_ns = GAUGE_USUAL_NS}};
	for (unsigned i = 0; i < n; i++)
		s->in.will_be_good[i] = true;
	s->gauge.in = &s->in;
	s->gauge.plan = &s->plan;
}

static void assert_words(struct scene *s, const char *text)
{
	scoped(buf_fini) struct buf out = BUF_EMPTY;

	plan_make(&s->in, &s->plan);
	gauge_words(&s->gauge, &out);
	assert_string_equal(buf_str(&out), text);
}

static void nothing_unsent_is_said(void **state)
{
	struct scene s;

	set(&s, 0);
	assert_words(&s, "a notice now: everything is durable");
}

static void what_fits_says_how_long_it_takes(void **state)
{
	struct scene s;

	set(&s, 1);
	plan_count(&s.in, 0, 0, 1400 * MB);
	assert_words(&s, "a notice now: all durable in 14 s of 100");
	s.in.bytes[0][0] = MB;
	assert_words(&s, "a notice now: all durable in 1 s of 100");
	s.gauge.runs = true;
	s.in.left_ns = 87 * NS_PER_S;
	assert_words(&s, "a notice runs, 87 s left: all durable in 1 s");
}

static void what_fits_barely_is_not_promised(void **state)
{
	struct scene s;

	set(&s, 1);
	s.in.spread_bps = 10 * MB;
	plan_count(&s.in, 0, 0, 9500 * MB);
	assert_words(&s, "a notice now: all durable in 95 s of 100, if the link holds");
}

static void what_is_not_finished_is_not_among_all(void **state)
{
	struct scene s;

	set(&s, 2);
	s.in.will_be_good[1] = false;
	plan_count(&s.in, 0, 1, 1400 * MB);
	plan_count(&s.in, 1, 1, 1400 * MB);
	assert_words(&s, "a notice now: all durable in 14 s of 100, but for what is not finished");
}

static void what_would_be_lost_is_named_with_what_is_safe(void **state)
{
	struct scene s;

	set(&s, 2);
	s.gauge.names[0] = "step-1100/";
	s.gauge.names[1] = "step-1200/";
	s.gauge.total_bytes[1] = 17200 * MB;
	plan_count(&s.in, 1, 1, 14100 * MB);
	assert_words(&s, "a notice now: would lose step-1200/ (3.1 of 17 GB sent, 41 s short); "
			 "step-1100/ is safe");
	s.gauge.runs = true;
	assert_words(&s,
		     "a notice runs, 100 s left: loses step-1200/ (3.1 of 17 GB sent, 41 s short); "
		     "step-1100/ is safe");
}

static void the_good_moment_is_safe_where_nothing_else_is(void **state)
{
	struct scene s;

	set(&s, 1);
	plan_count(&s.in, 0, 0, 14100 * MB);
	assert_words(&s, "a notice now: would lose commit data (14 GB unsent, 41 s short); nothing "
			 "is safe yet");
	s.gauge.good_name = "";
	assert_words(&s, "a notice now: would lose commit data (14 GB unsent, 41 s short); the "
			 "good moment is safe");
	s.gauge.good_name = "last.pt";
	assert_words(
		&s,
		"a notice now: would lose commit data (14 GB unsent, 41 s short); last.pt is safe");
}

static void without_a_rate_no_seconds_are_made_up(void **state)
{
	struct scene s;

	set(&s, 1);
	s.in.rate_bps = 0;
	s.gauge.names[0] = "last.pt";
	s.gauge.total_bytes[0] = 1000;
	plan_count(&s.in, 0, 0, 1000);
	assert_words(&s, "a notice now: would lose last.pt (0.0 of 1.0 KB sent, rate not known "
			 "yet); nothing is safe "
			 "yet");
}

static void a_save_that_cannot_fit_is_warned_of(void **state)
{
	scoped(buf_fini) struct buf out = BUF_EMPTY;
	struct scene s;

	set(&s, 1);
	s.gauge.names[0] = "step-1200/";
	plan_count(&s.in, 0, 0, 1400 * MB);
	plan_make(&s.in, &s.plan);
	assert_false(gauge_warning(&s.gauge, &out));
	s.in.bytes[0][0] = 16500 * MB;
	plan_make(&s.in, &s.plan);
	assert_true(gauge_warning(&s.gauge, &out));
	assert_string_equal(buf_str(&out), "step-1200/ (16 GB) does not fit a notice of 100 s at "
					   "100 MB/s: 65 s short; what helps: "
					   "smaller saves (fewer states, sharded, compressed), a "
					   "faster network, or saving so rarely "
					   "that each is sent before the next");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_unsent_is_said),
		cmocka_unit_test(what_fits_says_how_long_it_takes),
		cmocka_unit_test(what_fits_barely_is_not_promised),
		cmocka_unit_test(what_is_not_finished_is_not_among_all),
		cmocka_unit_test(what_would_be_lost_is_named_with_what_is_safe),
		cmocka_unit_test(the_good_moment_is_safe_where_nothing_else_is),
		cmocka_unit_test(without_a_rate_no_seconds_are_made_up),
		cmocka_unit_test(a_save_that_cannot_fit_is_warned_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
