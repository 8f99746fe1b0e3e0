/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: examples, and its rule held against every order that there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fs/notice/plan.h"

#define MB UINT64_C(1000000)

/* n moments that will be good, 10 MB/s of which 1 may be wrong, so many seconds. */
static struct plan_input input(unsigned n, uint64_t left_s)
{
	struct plan_input in = {.n = n,
				.rate_bps = 10 * MB,
				.spread_bps = MB,
				.left_ns = left_s * NS_PER_S};

	for (unsigned i = 0; i < n; i++)
		in.will_be_good[i] = true;
	return in;
}

static struct plan plan_of(const struct plan_input *in)
{
	struct plan p;

	plan_make(in, &p);
	return p;
}

static void assert_steps(const struct plan *p, unsigned n, const unsigned moments[])
{
	assert_int_equal(p->n, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(p->steps[i].moment, moments[i]);
}

#define STEPS(p, ...)                                                         \
	assert_steps(p, sizeof((unsigned[]){__VA_ARGS__}) / sizeof(unsigned), \
		     (unsigned[]){__VA_ARGS__})

static void nothing_to_send_is_no_step(void **state)
{
	struct plan_input in = input(0, 100);
	struct plan p = plan_of(&in);

	assert_int_equal(p.n, 0);
	assert_int_equal(p.safe, -1);
	assert_int_equal(p.lost, -1);
}

static void the_newest_goes_first_where_it_fits(void **state)
{
	struct plan_input in = input(2, 100);
	struct plan p;

	plan_count(&in, 0, 0, 100 * MB);
	plan_count(&in, 0, 1, 300 * MB);
	plan_count(&in, 1, 1, 200 * MB);
	p = plan_of(&in);
	STEPS(&p, 1);
	assert_int_equal(p.steps[0].bytes, 500 * MB);
	assert_int_equal(p.steps[0].ends_ns, 50 * NS_PER_S);
	assert_int_equal(p.steps[0].chance, PLAN_SURE);
	assert_int_equal(p.safe, 1);
	assert_int_equal(p.lost, -1);
	assert_int_equal(p.salvage_n, 0);
}

static void what_cannot_fit_waits_for_what_can(void **state)
{
	struct plan_input in = input(2, 100);
	struct plan p;

	plan_count(&in, 0, 0, 500 * MB);
	plan_count(&in, 1, 1, 1500 * MB);
	p = plan_of(&in);
	STEPS(&p, 0);
	assert_int_equal(p.safe, 0);
	assert_int_equal(p.lost, 1);
	assert_int_equal(p.short_ns, 100 * NS_PER_S); /* 200 s for both */
	assert_int_equal(p.salvage_n, 1);
	assert_int_equal(p.salvage[0], 1);
}

static void shared_bytes_are_sent_once(void **state)
{
	struct plan_input in = input(2, 100);
	struct plan p;

	plan_count(&in, 0, 1, 700 * MB);
	plan_count(&in, 1, 1, 250 * MB); /* 95 s in all: likely, but not sure */
	p = plan_of(&in);
	STEPS(&p, 0, 1);
	assert_int_equal(p.steps[1].bytes, 250 * MB);
	assert_int_equal(p.steps[0].chance, PLAN_SURE);
	assert_int_equal(p.steps[1].chance, PLAN_LIKELY);
	assert_int_equal(p.safe, 0);
	assert_int_equal(p.lost, -1);
}

static void what_will_not_be_good_is_salvage(void **state)
{
	struct plan_input in = input(3, 100);
	struct plan p;

	in.commit_ns = 2 * NS_PER_S;
	in.will_be_good[1] = in.will_be_good[2] = false;
	plan_count(&in, 0, 2, 100 * MB);
	plan_count(&in, 1, 1, 100 * MB);
	plan_count(&in, 2, 2, 100 * MB);
	p = plan_of(&in);
	STEPS(&p, 0);
	assert_int_equal(p.lost, -1);
	assert_int_equal(p.salvage_n, 2);
	assert_int_equal(p.salvage[0], 2);
	assert_int_equal(p.salvage[1], 1);
	assert_int_equal(p.salvage_ns, 98 * NS_PER_S);
}

static void where_nothing_fits_the_nearest_is_tried(void **state)
{
	struct plan_input in = input(3, 10);
	struct plan p;

	plan_count(&in, 0, 0, 3000 * MB);
	plan_count(&in, 1, 1, 2000 * MB);
	plan_count(&in, 2, 2, 4000 * MB);
	p = plan_of(&in);
	STEPS(&p, 1);
	assert_int_equal(p.steps[0].chance, PLAN_HARDLY);
	assert_int_equal(p.safe, -1);
	assert_int_equal(p.lost, 2);
}

static void of_two_that_are_as_near_the_newer_is_tried(void **state)
{
	struct plan_input in = input(2, 10);
	struct plan p;

	plan_count(&in, 0, 1, 2000 * MB);
	p = plan_of(&in);
	STEPS(&p, 1);
}

static void what_only_may_fit_counts_as_lost(void **state)
{
	struct plan_input in = input(1, 100);
	struct plan p;

	plan_count(&in, 0, 0, 1050 * MB);
	p = plan_of(&in);
	STEPS(&p, 0);
	assert_int_equal(p.steps[0].chance, PLAN_MAYBE);
	assert_int_equal(p.lost, 0);
	assert_int_equal(p.short_ns, 5 * NS_PER_S);
	assert_int_equal(p.salvage_n, 0);
}

static void without_a_rate_the_nearest_goes_first(void **state)
{
	struct plan_input in = input(2, 100);
	struct plan p;

	in.rate_bps = in.spread_bps = 0;
	plan_count(&in, 0, 0, 10 * MB);
	plan_count(&in, 1, 1, 20 * MB);
	p = plan_of(&in);
	STEPS(&p, 0);
	assert_int_equal(p.steps[0].chance, PLAN_HARDLY);
	assert_int_equal(p.steps[0].ends_ns, PLAN_UNKNOWN);
	assert_int_equal(p.short_ns, PLAN_UNKNOWN);
}

static void a_moment_that_lacks_nothing_needs_no_rate(void **state)
{
	struct plan_input in = input(1, 100);
	struct plan p;

	in.rate_bps = 0;
	p = plan_of(&in);
	STEPS(&p, 0);
	assert_int_equal(p.steps[0].chance, PLAN_SURE);
}

static void a_commit_costs_time_too(void **state)
{
	struct plan_input in = input(1, 10);
	struct plan p;

	plan_count(&in, 0, 0, 79 * MB); /* 9.9 s at the least rate */
	p = plan_of(&in);
	assert_int_equal(p.steps[0].chance, PLAN_SURE);
	in.commit_ns = NS_PER_S;
	p = plan_of(&in);
	assert_int_equal(p.steps[0].chance, PLAN_LIKELY);
}

static void what_the_plan_needs_least_is_spared(void **state)
{
	struct plan_input in = input(3, 100);
	struct plan p;

	p = plan_of(&in);
	assert_int_equal(p.safe, 2);
	assert_int_equal(plan_spare(&in, &p), 0);
	plan_count(&in, 1, 2, 1500 * MB); /* only the first fits */
	p = plan_of(&in);
	assert_int_equal(p.safe, 0);
	assert_int_equal(plan_spare(&in, &p), 1);
	in.n = 2;
	in.bytes[1][2] = 0;
	plan_count(&in, 1, 1, 950 * MB); /* both are steps */
	p = plan_of(&in);
	assert_int_equal(p.n, 2);
	assert_int_equal(plan_spare(&in, &p), 1);
}

/* ---- against every order ---- */

enum { FEW = 4 }; /* moments: 65 orders of their subsets */

struct world {
	struct plan_input in;
	/* contents, each of an unbroken run of moments: what plan_count() adds up */
	struct {
		unsigned from, to;
		uint64_t bytes;
	} contents[10];
	unsigned contents_n;
};

static uint64_t dice(unsigned *seed, uint64_t below)
{
	return (uint64_t)rand_r(seed) % below;
}

static void make_world(unsigned *seed, struct world *w)
{
	*w = (struct world){.in = {.n = 1 + (unsigned)dice(seed, FEW)}};
	w->in.rate_bps = (1 + dice(seed, 20)) * MB;
	w->in.spread_bps = dice(seed, w->in.rate_bps);
	w->in.left_ns = dice(seed, 100) * NS_PER_S;
	w->in.commit_ns = dice(seed, 3) * NS_PER_S;
	w->contents_n = (unsigned)dice(seed, 11);
	for (unsigned i = 0; i < w->in.n; i++)
		w->in.will_be_good[i] = dice(seed, 4) > 0;
	for (unsigned k = 0; k < w->contents_n; k++) {
		unsigned from = (unsigned)dice(seed, w->in.n);

		w->contents[k].from = from;
		w->contents[k].to = from + (unsigned)dice(seed, w->in.n - from);
		w->contents[k].bytes = dice(seed, 300) * MB;
		plan_count(&w->in, from, w->contents[k].to, w->contents[k].bytes);
	}
}

/* The newest that is good in time at this rate, if they are made durable in this order, content
 * by content. */
static int outcome(const struct world *w, const unsigned order[], unsigned n, double bps)
{
	bool sent[10] = {false};
	double ns = 0;
	int best = -1;

	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < w->contents_n; k++) {
			if (w->contents[k].from > order[i] || w->contents[k].to < order[i] ||
			    sent[k])
				continue;
			sent[k] = true;
			ns += (double)w->contents[k].bytes / bps * 1e9;
		}
		ns += (double)w->in.commit_ns;
		if (ns <= (double)w->in.left_ns + 1 && w->in.will_be_good[order[i]] &&
		    (int)order[i] > best)
			best = (int)order[i];
	}
	return best;
}

/* The best of all orders that begin with the given ones. */
static int best_of_all(const struct world *w, unsigned order[], unsigned n, double bps)
{
	int best = outcome(w, order, n, bps);

	for (unsigned i = 0; i < w->in.n; i++) {
		bool used = false;
		int found;

		for (unsigned k = 0; k < n; k++)
			used |= order[k] == i;
		if (used)
			continue;
		order[n] = i;
		found = best_of_all(w, order, n + 1, bps);
		best = found > best ? found : best;
	}
	return best;
}

/* Rates that each chance stands for; what is planned for one is reached at any that is no lower. */
static double rate_of(const struct plan_input *in, enum plan_chance chance)
{
	double r = (double)in->rate_bps, s = (double)in->spread_bps;

	if (chance == PLAN_SURE)
		return r - 2 * s > r / 8 ? r - 2 * s : (double)(in->rate_bps / 8);
	return chance == PLAN_LIKELY ? r : r + s;
}

static void check_world(const struct world *w)
{
	struct plan p = plan_of(&w->in);
	unsigned order[FEW + 1], plan[FEW + 1], firm = 0;

	for (unsigned i = 0; i < p.n; i++) {
		plan[i] = p.steps[i].moment;
		assert_true(w->in.will_be_good[plan[i]]);
		assert_true(i == 0 || plan[i] > plan[i - 1]); /* then newer ones */
		assert_true(i == 0 ||
			    p.steps[i].chance >= p.steps[i - 1].chance); /* the surer first */
	}
	for (enum plan_chance c = PLAN_SURE; c < PLAN_HARDLY; c++) {
		double bps = rate_of(&w->in, c);
		int best;

		/* Of all orders that keep what is surer, none reaches more at the rate that is
		 * counted on. */
		memcpy(order, plan, sizeof(order));
		best = best_of_all(w, order, firm, bps);
		assert_int_equal(outcome(w, plan, p.n, bps), best);
		/* Faster is never worse. */
		assert_true(outcome(w, plan, p.n, bps * 1.5) >= best);
		while (firm < p.n && p.steps[firm].chance <= c)
			firm++;
		if (c == PLAN_SURE)
			assert_int_equal(p.safe, best);
	}
	assert_true(p.n > 0 || best_of_all(w, order, 0, 1e15) < 0 ||
		    w->in.left_ns < w->in.commit_ns);
}

static void no_order_does_better(void **state)
{
	unsigned seed = 20;

	for (int round = 0; round < 20000; round++) {
		struct world w;

		make_world(&seed, &w);
		check_world(&w);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_send_is_no_step),
		cmocka_unit_test(the_newest_goes_first_where_it_fits),
		cmocka_unit_test(what_cannot_fit_waits_for_what_can),
		cmocka_unit_test(shared_bytes_are_sent_once),
		cmocka_unit_test(what_will_not_be_good_is_salvage),
		cmocka_unit_test(where_nothing_fits_the_nearest_is_tried),
		cmocka_unit_test(of_two_that_are_as_near_the_newer_is_tried),
		cmocka_unit_test(what_only_may_fit_counts_as_lost),
		cmocka_unit_test(without_a_rate_the_nearest_goes_first),
		cmocka_unit_test(a_moment_that_lacks_nothing_needs_no_rate),
		cmocka_unit_test(a_commit_costs_time_too),
		cmocka_unit_test(what_the_plan_needs_least_is_spared),
		cmocka_unit_test(no_order_does_better),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
