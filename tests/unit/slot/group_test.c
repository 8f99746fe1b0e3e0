/* SPDX-License-Identifier: Apache-2.0 */
/* The joint good moment of a group, and who may begin, join and go on: logs told in one line each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/slot/attempt.h"
#include "fs/slot/group.h"

#define MOST 32

/*
 * A log: R reset (by slot 0, unless it is followed by a digit), and of slot n: jn joins, cn a commit, wn a word that it
 * is calm up to the record before, en an early word: two less; rn a release.
 */
struct told {
	struct record_head v[MOST];
	size_t n;
};

static void tell(struct told *t, const char *log, unsigned slots, uint32_t attempt)
{
	uint64_t fence[10] = {0};

	for (t->n = 0; *log; log++) {
		char what = *log;
		unsigned slot = log[1] >= '0' && log[1] <= '9' ? (unsigned)(*++log - '0') : 0;
		uint64_t number = t->n + 1;
		struct record_head *h = &t->v[t->n++];

		*h = (struct record_head){.number = number, .slot = (uint16_t)slot, .slots = (uint16_t)slots, .attempt = attempt,
					  .kind = RECORD_COMMIT};
		(void)strcpy(h->host, "node");
		if (what == 'R' || what == 'j') {
			h->kind = what == 'R' ? RECORD_RESET : RECORD_JOIN;
			fence[slot] = number;
		}
		h->fence = fence[slot];
		h->calm = what == 'w' ? number - 1 : what == 'e' ? number - 3 : 0;
		h->flags = what == 'r' ? RECORD_RELEASE : 0;
	}
}

static struct group *group_of(const struct told *t)
{
	struct group *g = group_new(&t->v[0]);

	assert_non_null(g);
	for (size_t i = 1; i < t->n; i++)
		group_see(g, &t->v[i]);
	return g;
}

static void the_good_moment_is_what_all_slots_vouch_for(void **state)
{
	static const struct {
		const char *log;
		unsigned slots;
		uint64_t good;
		int waits_for; /* for the newest commit */
	} cases[] = {
		{"Rj1c0", 2, 0, 0},
		{"Rj1c0w0", 2, 0, 1},
		{"Rj1c0w0w1", 2, 3, -1},                /* 1 has nothing of its own */
		{"Rj1c0c1w0w1", 2, 4, -1},
		{"Rj1c0w0c1w1", 2, 0, 0},               /* 0 has not seen 1's commit */
		{"Rj1c0w0c1w1w0", 2, 5, -1},
		{"Rj1c0c1w1c0w0", 2, 0, 1},
		{"Rj1c0c1w1e0", 2, 0, 0},               /* up to 3: 1's commit came behind it */
		{"Rj1j2c0w0w1", 3, 0, 2},
		{"Rj1c1r1c0w0", 2, 5, -1},              /* released: it changes nothing any more */
		{"Rj1r1c0w0c0w0", 2, 6, -1},
		{"Rj1c0r0c1w1", 2, 5, -1},
		{"Rj1w0w1", 2, 0, -1},                  /* nothing since the reset, which is good by itself */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scoped(group_free) struct group *g = NULL;
		struct told t;
		bool never;

		tell(&t, cases[i].log, cases[i].slots, 1);
		g = group_of(&t);
		if (group_good(g, 0, cases[i].slots, 0) != cases[i].good || group_waits_for(g, group_newest(g), &never) != cases[i].waits_for)
			fail_msg("%s: good %llu, waits for %d", cases[i].log, (unsigned long long)group_good(g, 0, cases[i].slots, 0),
				 group_waits_for(g, group_newest(g), &never));
	}
}

static void the_word_that_is_being_written_counts(void **state)
{
	scoped(group_free) struct group *g = NULL;
	struct told t;

	(void)state;
	tell(&t, "Rj1c0c1w1", 2, 1);
	g = group_of(&t);
	assert_int_equal(group_good(g, 1, 0, 5), 4);
	assert_int_equal(group_good(g, 1, 0, 3), 1); /* looked before 1 committed */
	assert_int_equal(group_good(g, 9, 0, 5), 9); /* never back */
}

static void a_writer_is_fenced_by_its_slot_or_by_a_reset(void **state)
{
	scoped(group_free) struct group *g = NULL, *h = NULL;
	struct told t;

	(void)state;
	tell(&t, "Rj1c0c1j1c0", 2, 1);
	g = group_of(&t);
	assert_int_equal(group_fenced(g, 0, 1), 0);
	assert_int_equal(group_fenced(g, 1, 2), 5);
	assert_int_equal(group_fenced(g, 1, 5), 0);
	tell(&t, "Rj1c0R1c1", 2, 1);
	h = group_of(&t);
	assert_int_equal(group_fenced(h, 0, 1), 4);
	assert_int_equal(group_fenced(h, 1, 2), 4);
	assert_int_equal(group_last(h, 1), 1); /* what comes behind it is another group's */
}

/* ---- attempts ---- */

static void who_comes_how(void **state)
{
	static const struct {
		const char *log;
		unsigned log_slots, log_attempt;
		unsigned slot, slots, attempt;
		int rc;
		enum attempt_how how;
		const char *says;
	} cases[] = {
		{"", 1, 0, 0, 2, 1, 0, ATTEMPT_RESET, ""},
		{"R", 2, 1, 1, 2, 1, 0, ATTEMPT_JOIN, ""},
		{"R", 2, 1, 1, 2, 2, 0, ATTEMPT_RESET, ""},
		{"R", 2, 1, 0, 2, 1, -EBUSY, 0, "the whole group goes on as attempt=2"},
		{"Rj1c1", 2, 1, 1, 2, 1, -EBUSY, 0, "slot 1 of attempt 1 has had a writer (record 2, node)"},
		{"Rj1c1r1", 2, 1, 1, 2, 1, 0, ATTEMPT_JOIN, ""},
		{"Rj1c1r1j1", 2, 1, 1, 2, 1, -EBUSY, 0, "record 5"},
		{"Rr0", 2, 1, 0, 2, 1, 0, ATTEMPT_JOIN, ""},
		{"Rj1", 2, 3, 1, 2, 2, -EBUSY, 0, "attempt 2 is over: record 2 (node) is of attempt 3"},
		{"Rj1", 2, 1, 2, 3, 1, -EBUSY, 0, "attempt 1 has of=2 slots"},
		{"Rr0", 1, 1, 0, 2, 1, -EBUSY, 0, "the group begins with attempt=2"},
		{"Rr0", 1, 0, 0, 2, 1, 0, ATTEMPT_RESET, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mount_opts o = {.slot = cases[i].slot, .slots = cases[i].slots, .attempt = cases[i].attempt};
		struct fault f = FAULT_NONE;
		enum attempt_how how;
		struct told t;
		struct roll r = {.v = t.v};
		struct newest newest = NEWEST_EMPTY;
		int rc;

		tell(&t, cases[i].log, cases[i].log_slots, cases[i].log_attempt);
		r.n = t.n;
		if (t.n)
			newest.head = t.v[t.n - 1];
		rc = attempt_begin(&o, &newest, &r, &how, &f);
		if (rc != cases[i].rc || (rc == 0 && how != cases[i].how) || !strstr(f.text, cases[i].says))
			fail_msg("%s slot %u of %u attempt %u: %d, %s", cases[i].log, o.slot, o.slots, o.attempt, rc, f.text);
	}
}

static void a_cache_goes_on_while_its_fence_is_the_slots_newest(void **state)
{
	struct told t;
	struct roll r = {.v = t.v};

	(void)state;
	tell(&t, "Rj1c0c1w0", 2, 1);
	r.n = t.n;
	assert_true(attempt_is_on(&r, 0, 1));
	assert_true(attempt_is_on(&r, 1, 2));
	assert_false(attempt_is_on(&r, 1, 1));
	tell(&t, "Rj1r1", 2, 1);
	r.n = t.n;
	assert_false(attempt_is_on(&r, 1, 2));
}

static void a_group_is_over_when_all_slots_are_released(void **state)
{
	struct fault f = FAULT_NONE;
	struct told t;
	struct roll r = {.v = t.v};
	struct newest newest = NEWEST_EMPTY;

	(void)state;
	tell(&t, "Rj1c0r0", 2, 1);
	r.n = t.n;
	newest.head = t.v[t.n - 1];
	assert_int_equal(attempt_is_over(&newest, &r, &f), -EBUSY);
	assert_non_null(strstr(f.text, "slot 1 of 2 is written by node, not released"));
	tell(&t, "Rj1c0r0r1", 2, 1);
	r.n = t.n;
	newest.head = t.v[t.n - 1];
	assert_int_equal(attempt_is_over(&newest, &r, &f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_good_moment_is_what_all_slots_vouch_for),
		cmocka_unit_test(the_word_that_is_being_written_counts),
		cmocka_unit_test(a_writer_is_fenced_by_its_slot_or_by_a_reset),
		cmocka_unit_test(who_comes_how),
		cmocka_unit_test(a_cache_goes_on_while_its_fence_is_the_slots_newest),
		cmocka_unit_test(a_group_is_over_when_all_slots_are_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
