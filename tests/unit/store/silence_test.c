/* SPDX-License-Identifier: Apache-2.0 */
/* When a store counts as silent, and what is said of it. */
#include "store/silence.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LEAST (2 * NS_PER_S)

struct scene {
	struct silence s;
	struct object_req put, get;
};

static uint64_t at(double s)
{
	return 1000 * NS_PER_S + (uint64_t)(s * 1e9);
}

static int set_up(void **state)
{
	static struct scene x;

	x = (struct scene){.put = {.op = OBJECT_PUT, .key = "packs/ab/1"},
			   .get = {.op = OBJECT_GET, .key = "packs/cd/2"}};
	silence_init(&x.s);
	*state = &x;
	return 0;
}

static int tear_down(void **state)
{
	silence_fini(&((struct scene *)*state)->s);
	return 0;
}

static void assert_speaks(struct scene *x, double s)
{
	struct store_silence out;

	assert_false(silence_look(&x->s, at(s), LEAST, &out));
}

static void assert_silent(struct scene *x, double s, double since, const char *text)
{
	struct store_silence out;

	assert_true(silence_look(&x->s, at(s), LEAST, &out));
	assert_int_equal(out.since_ns, at(since));
	assert_non_null(strstr(out.text, text));
}

static void end(struct scene *x, struct object_req *r, int code, double s)
{
	r->rc = code;
	(void)fault_set(&r->fault, code, FAULT_SOON, "%s: code %d", r->key, code);
	silence_tried(&x->s, r, at(s));
}

static void nothing_asked_is_no_silence(void **state)
{
	assert_speaks(*state, 100);
}

static void a_request_that_nobody_answers_is_named_after_a_while(void **state)
{
	struct scene *x = *state;

	silence_begins(&x->s, &x->put, at(0));
	assert_speaks(x, 1.9);
	silence_begins(&x->s, &x->get, at(1.5));
	assert_silent(x, 3, 0, "the store does not answer: PUT packs/ab/1");
}

static void bytes_on_their_way_are_no_silence(void **state)
{
	struct scene *x = *state;

	silence_begins(&x->s, &x->put, at(0));
	x->s.pulse.sent_ns = at(9);
	assert_speaks(x, 10);
	assert_silent(x, 12, 0, "PUT"); /* what was heard counts, not what was said */
	x->s.pulse.heard_ns = at(12);
	assert_speaks(x, 13);
	assert_silent(x, 15, 12, "PUT");
}

static void an_answer_ends_it(void **state)
{
	struct scene *x = *state;

	silence_begins(&x->s, &x->put, at(0));
	silence_begins(&x->s, &x->get, at(0));
	end(x, &x->get, 0, 5);
	silence_ends(&x->s, &x->get, true);
	assert_speaks(x, 6);
	assert_silent(x, 8, 5, "PUT");
	end(x, &x->put, -EACCES, 9); /* a refusal is an answer */
	assert_speaks(x, 10);
	silence_ends(&x->s, &x->put, false);
	silence_begins(&x->s, &x->put, at(50)); /* idle meanwhile */
	assert_speaks(x, 51);
}

static void a_network_that_refuses_is_quoted_and_lasts(void **state)
{
	struct scene *x = *state;

	silence_begins(&x->s, &x->put, at(0));
	end(x, &x->put, -ECONNREFUSED, 0.1);
	assert_speaks(x, 1);
	assert_silent(x, 3, 0, "does not answer: packs/ab/1: code");
	silence_ends(&x->s, &x->put, false); /* given up */
	assert_speaks(x, 4);
	silence_begins(&x->s, &x->get, at(5));
	assert_silent(x, 5.1, 0, "does not answer: packs/ab/1: code");
}

static void what_was_called_off_says_nothing(void **state)
{
	struct scene *x = *state;

	silence_begins(&x->s, &x->put, at(0));
	silence_ends(&x->s, &x->put, false);
	silence_begins(&x->s, &x->get, at(100));
	assert_speaks(x, 101);
}

static void requests_may_end_in_any_order(void **state)
{
	struct scene *x = *state;
	struct object_req more[3] = {{.op = OBJECT_LIST, .key = "a"}, {.key = "b"}, {.key = "c"}};

	for (size_t i = 0; i < 3; i++)
		silence_begins(&x->s, &more[i], at(0));
	silence_ends(&x->s, &more[1], false);
	assert_silent(x, 3, 0, "LIST a");
	silence_ends(&x->s, &more[0], false);
	assert_silent(x, 3, 0, "GET c");
	silence_ends(&x->s, &more[2], false);
	assert_null(x->s.oldest);
	assert_null(x->s.newest);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(nothing_asked_is_no_silence),
		TEST(a_request_that_nobody_answers_is_named_after_a_while),
		TEST(bytes_on_their_way_are_no_silence),
		TEST(an_answer_ends_it),
		TEST(a_network_that_refuses_is_quoted_and_lasts),
		TEST(what_was_called_off_says_nothing),
		TEST(requests_may_end_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
