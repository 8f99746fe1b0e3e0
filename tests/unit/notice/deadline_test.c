/* SPDX-License-Identifier: Apache-2.0 */
/* The deadline rule: stories, told second by second. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/notice/deadline.h"

/* Seconds of a story, on a clock that has run for a while. */
#define AT(s) ((uint64_t)((s) * 1000 + 5000000) * NS_PER_MS)

#define CALM(n)                 {NOTICE_CALM, (n), 0, 0, 0, false}
#define HINT(n, hints)          {NOTICE_HINT, (n), (hints), 0, 0, false}
#define RUNS(n, end, by)        {NOTICE_RUNS, (n), 0, (end), (by), false}
#define ONCE(n, end, by)        {NOTICE_RUNS, (n), 0, (end), (by), true}

struct expect {
	enum notice_phase phase;
	uint64_t number, hints;
	double end_s, by_s; /* RUNS: the deadline, and when the flush has to be through */
	bool at_once;
};

struct step {
	double at_s;
	enum { ENDS, LOOK, TERM, STOP, HIBER, NONE, REBAL } says; /* LOOK: nobody says anything */
	enum notice_voice by;
	double end_s; /* 0: no time */
	struct expect then;
};

enum { STEPS = 12 };

static const struct story {
	const char *name;
	double margin_s, promised_s;
	struct step steps[STEPS];
} stories[] = {
	{"nothing was ever heard", 0, 0, {{0, LOOK, 0, 0, CALM(0)}}},
	{"two minutes are a hundred seconds",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)}}},
	{"a third of thirty seconds is the margin",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 30, RUNS(1, 30, 20)}}},
	{"the margin is a second at least",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 1.5, RUNS(1, 1.5, 0.5)}}},
	{"the option bounds the margin",
	 5, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 115)}}},
	{"EC2 without a time gives a hundred seconds",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 0, RUNS(1, 100, 80)}}},
	{"GCP says no time and gives thirty",
	 0, 0, {{0, TERM, NOTICE_GCP, 0, RUNS(1, 30, 20)}}},
	{"the option says what GCP gives",
	 0, 120, {{0, TERM, NOTICE_GCP, 0, RUNS(1, 120, 100)}}},
	{"the same notice at each poll is one notice",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{1, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{99, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{121, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)}}},
	{"a time that moves along does not put the deadline off",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{1, TERM, NOTICE_EC2_ACTION, 121, RUNS(1, 120, 100)},
		{100, TERM, NOTICE_EC2_ACTION, 220, RUNS(1, 120, 100)}}},
	{"... and is a new notice only when the first is over",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{179, TERM, NOTICE_EC2_ACTION, 299, RUNS(1, 120, 100)},
		{180, TERM, NOTICE_EC2_ACTION, 300, RUNS(2, 300, 280)}}},
	{"a later word shortens the deadline, with a margin of its own",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{20, TERM, NOTICE_TOLD, 32, RUNS(1, 32, 28)}}},
	{"a deadline that comes nearer bit by bit never puts the flush off",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{70, TERM, NOTICE_EC2_ACTION, 119.5, RUNS(1, 119.5, 100)}}},
	{"being told twice is one notice",
	 0, 0, {{0, TERM, NOTICE_TOLD, 0, RUNS(1, 30, 20)},
		{5, TERM, NOTICE_TOLD, 0, RUNS(1, 30, 20)}}},
	{"being told again when it is over is a new one",
	 0, 0, {{0, TERM, NOTICE_TOLD, 0, RUNS(1, 30, 20)},
		{89, LOOK, 0, 0, RUNS(1, 30, 20)},
		{90, LOOK, 0, 0, CALM(1)},
		{91, TERM, NOTICE_TOLD, 0, RUNS(2, 121, 111)}}},
	{"a cloud that goes on saying it after the end is not heard",
	 0, 0, {{0, TERM, NOTICE_GCP, 0, RUNS(1, 30, 20)},
		{90, TERM, NOTICE_GCP, 0, CALM(1)},
		{3600, TERM, NOTICE_GCP, 0, CALM(1)}}},
	{"... until it has been silent",
	 0, 0, {{0, TERM, NOTICE_GCP, 0, RUNS(1, 30, 20)},
		{90, TERM, NOTICE_GCP, 0, CALM(1)},
		{91, NONE, NOTICE_GCP, 0, CALM(1)},
		{92, TERM, NOTICE_GCP, 0, RUNS(2, 122, 112)}}},
	{"EC2 gave up: the old time is no news, another one is",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{180, TERM, NOTICE_EC2_ACTION, 120, CALM(1)},
		{9000, TERM, NOTICE_EC2_ACTION, 8000, CALM(1)},
		{9001, TERM, NOTICE_EC2_ACTION, 9121, RUNS(2, 9121, 9101)}}},
	{"a time in the past promises nothing, and ends like any other",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, -4000, ONCE(1, 10, 10 - 10 / 3.)},
		{1, TERM, NOTICE_EC2_ACTION, -4000, ONCE(1, 10, 10 - 10 / 3.)},
		{69, TERM, NOTICE_EC2_ACTION, -4000, ONCE(1, 10, 10 - 10 / 3.)},
		{70, TERM, NOTICE_EC2_ACTION, -4000, CALM(1)},
		{71, TERM, NOTICE_EC2_ACTION, -4000, CALM(1)}}},
	{"withdrawn is over",
	 0, 0, {{0, TERM, NOTICE_AZURE, 600, RUNS(1, 600, 580)},
		{9, NONE, NOTICE_AZURE, 0, CALM(1)}}},
	{"withdrawn and announced again is a new notice",
	 0, 0, {{0, TERM, NOTICE_AZURE, 600, RUNS(1, 600, 580)},
		{9, NONE, NOTICE_AZURE, 0, CALM(1)},
		{10, TERM, NOTICE_AZURE, 600, RUNS(2, 600, 580)}}},
	{"who withdraws takes back his own word only",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{1, TERM, NOTICE_TOLD, 200, RUNS(1, 120, 100)},
		{2, NONE, NOTICE_TOLD, 0, RUNS(1, 120, 100)},
		{3, NONE, NOTICE_EC2_ACTION, 0, CALM(1)}}},
	{"a voice that never spoke withdraws nothing",
	 0, 0, {{0, TERM, NOTICE_TOLD, 60, RUNS(1, 60, 40)},
		{1, NONE, NOTICE_EC2_ACTION, 0, RUNS(1, 60, 40)}}},
	{"stop has its two minutes, and does not wait for the trainer",
	 0, 0, {{0, STOP, NOTICE_EC2_ACTION, 120, ONCE(1, 120, 100)}}},
	{"hibernation has no two minutes",
	 0, 0, {{0, HIBER, NOTICE_EC2_ACTION, 120, ONCE(1, 10, 10 - 10 / 3.)}}},
	{"terminate that turns into hibernate is at once",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{9, HIBER, NOTICE_EC2_ACTION, 120, ONCE(1, 19, 19 - 10 / 3.)}}},
	{"... and so is one that turns into stop, at its time",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{9, STOP, NOTICE_EC2_ACTION, 120, ONCE(1, 120, 100)},
		{10, TERM, NOTICE_EC2_ACTION, 120, ONCE(1, 120, 100)}}},
	{"a voice that is not heard any more holds no notice up",
	 0, 0, {{0, TERM, NOTICE_GCP, 0, RUNS(1, 30, 20)},
		{95, TERM, NOTICE_GCP, 0, CALM(1)},
		{96, TERM, NOTICE_EC2_ACTION, 200, RUNS(2, 200, 180)},
		{97, TERM, NOTICE_GCP, 0, RUNS(2, 200, 180)},
		{98, NONE, NOTICE_EC2_ACTION, 0, CALM(2)}}},
	{"a voice of a new notice holds it up as one of the first did",
	 0, 0, {{0, TERM, NOTICE_EC2_ACTION, 120, RUNS(1, 120, 100)},
		{180, TERM, NOTICE_EC2_ACTION, 300, RUNS(2, 300, 280)},
		{181, TERM, NOTICE_TOLD, 400, RUNS(2, 300, 280)},
		{182, NONE, NOTICE_TOLD, 0, RUNS(2, 300, 280)}}},
	{"a rebalance recommendation is a hint, once",
	 0, 0, {{0, REBAL, NOTICE_EC2_REBALANCE, 0, HINT(0, 1)},
		{5, REBAL, NOTICE_EC2_REBALANCE, 0, HINT(0, 1)},
		{10, NONE, NOTICE_EC2_REBALANCE, 0, {NOTICE_CALM, 0, 1, 0, 0, false}}}},
	{"a notice wins over the hint, which stays when it is over",
	 0, 0, {{0, REBAL, NOTICE_EC2_REBALANCE, 0, HINT(0, 1)},
		{0, TERM, NOTICE_EC2_ACTION, 120, {NOTICE_RUNS, 1, 1, 120, 100, false}},
		{180, LOOK, 0, 0, HINT(1, 1)}}},
	{"a far end is still to come when a nearer one was false",
	 0, 0, {{0, TERM, NOTICE_AZURE, 600, RUNS(1, 600, 580)},
		{1, TERM, NOTICE_TOLD, 31, RUNS(1, 31, 21)},
		{91, LOOK, 0, 0, CALM(1)},
		{91, TERM, NOTICE_AZURE, 600, RUNS(2, 600, 580)}}},
	{"an end that has started without a time is near",
	 0, 0, {{0, TERM, NOTICE_AZURE, 600, RUNS(1, 600, 580)},
		{9, TERM, NOTICE_AZURE, 0, RUNS(1, 39, 29)}}},
};

static const enum notice_kind kinds[] = {
	[TERM] = NOTICE_TERMINATE, [STOP] = NOTICE_STOP, [HIBER] = NOTICE_HIBERNATE,
	[NONE] = NOTICE_NOTHING,   [REBAL] = NOTICE_REBALANCE,
};

static bool near(uint64_t ns, double s)
{
	return s > 0 && llabs((long long)(ns - AT(s))) < (long long)(10 * NS_PER_MS);
}

static bool is_as(const struct notice_view *v, const struct expect *e)
{
	if (v->phase != e->phase || v->number != e->number || v->hints != e->hints)
		return false;
	if (v->phase != NOTICE_RUNS)
		return v->again_ns == 0;
	return near(v->deadline_ns, e->end_s) && near(v->flush_by_ns, e->by_s) &&
	       v->at_once == e->at_once && v->again_ns == v->deadline_ns + NOTICE_OVERDUE_NS;
}

static double story_s(uint64_t ns)
{
	return ns ? (double)(int64_t)(ns - AT(0)) / 1e9 : 0;
}

static void tell(const struct story *y)
{
	struct deadline d = {.margin_most_ns = (uint64_t)(y->margin_s * 1e9),
			     .promised_ns = (uint64_t)(y->promised_s * 1e9)};

	for (const struct step *s = y->steps; s < y->steps + STEPS && s->says != ENDS; s++) {
		struct notice_word w = {.voice = s->by, .kind = kinds[s->says]};
		struct notice_view v;

		if (s->end_s != 0)
			w.deadline_ns = AT(s->end_s);
		if (s->says != LOOK)
			deadline_hear(&d, &w, AT(s->at_s));
		deadline_view(&d, AT(s->at_s), &v);
		if (!is_as(&v, &s->then))
			fail_msg("%s: at %g s phase %d, number %llu, hints %llu, end %g, by %g, at "
				 "once %d",
				 y->name, s->at_s, v.phase, (unsigned long long)v.number,
				 (unsigned long long)v.hints, story_s(v.deadline_ns),
				 story_s(v.flush_by_ns), v.at_once);
	}
}

static void every_story_ends_as_it_should(void **state)
{
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		tell(&stories[i]);
}

/* Whatever is said: within a notice the deadline, and when the flush has to be through, only
 * come nearer. */
static void nothing_that_is_said_puts_a_running_notice_off(void **state)
{
	unsigned seed = 5;

	for (int round = 0; round < 2000; round++) {
		struct deadline d = {.margin_most_ns = 0};
		struct notice_view was = {.number = 0};
		uint64_t now = AT(0);

		for (int i = 0; i < 60; i++) {
			struct notice_view v;
			struct notice_word w = {.voice = (enum notice_voice)(rand_r(&seed) %
									     NOTICE_VOICES),
						.kind = (enum notice_kind)(rand_r(&seed) % 5)};

			if (rand_r(&seed) % 3)
				w.deadline_ns = now + (uint64_t)(rand_r(&seed) % 300) * NS_PER_S -
						100 * NS_PER_S;
			deadline_hear(&d, &w, now);
			deadline_view(&d, now, &v);
			assert_true(v.number == was.number || v.number == was.number + 1);
			if (v.phase == NOTICE_RUNS) {
				assert_true(v.seen_ns <= now && v.flush_by_ns < v.deadline_ns);
				assert_true(now < v.deadline_ns + NOTICE_OVERDUE_NS);
			}
			if (v.phase == NOTICE_RUNS && v.number == was.number) {
				assert_true(was.phase == NOTICE_RUNS);
				assert_true(v.deadline_ns <= was.deadline_ns &&
					    v.flush_by_ns <= was.flush_by_ns);
			}
			was = v;
			now += (uint64_t)(rand_r(&seed) % 8000) * NS_PER_MS;
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_story_ends_as_it_should),
		cmocka_unit_test(nothing_that_is_said_puts_a_running_notice_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
