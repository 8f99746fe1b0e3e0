/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real S3 server.  Runs where HOLDFAST_TEST_S3 is a store URI whose prefix may be written to and
 * is deleted from; the usual AWS variables say the rest.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/format.h"
#include "store/log.h"

struct live {
	char uri[256];
	struct loop *loop;
	struct store *store;
	struct objects *objects;
	struct fault f;
};

static int make(void **state)
{
	static unsigned number;
	struct live *x = calloc(1, sizeof(*x));

	*state = x;
	snprintf(x->uri, sizeof(x->uri), "%s/%llx-%u", getenv("HOLDFAST_TEST_S3"),
		 (unsigned long long)clock_wall(&clock_system), number++);
	if (loop_new(LOOP_AUTO, &x->loop, &x->f) < 0 || store_new(x->uri, &x->store, &x->f) < 0 ||
	    objects_open(x->store, x->loop, &x->objects, &x->f) < 0) {
		fprintf(stderr, "%s\n", x->f.text);
		return -1;
	}
	return 0;
}

/* A deadline that only what hangs comes to, on a busy machine either. */
static uint64_t hangs(void)
{
	return clock_mono(&clock_system) + 120 * NS_PER_S;
}

static void delete_all(struct live *x)
{
	struct object_req list = {.op = OBJECT_LIST, .key = "", .deadline_ns = hangs()};

	assert_int_equal(objects_do(x->objects, &list, &x->f), 0);
	for (size_t at = 0; at < list.body.len; at += strlen((char *)list.body.data + at) + 1) {
		struct object_req del = {
			.op = OBJECT_DELETE,
			.key = (char *)list.body.data + at,
			.deadline_ns = hangs(),
		};

		assert_int_equal(objects_do(x->objects, &del, &x->f), 0);
		object_req_fini(&del);
	}
	object_req_fini(&list);
}

static int end(void **state)
{
	struct live *x = *state;

	delete_all(x);
	objects_close(x->objects);
	store_free(x->store);
	loop_free(x->loop);
	free(x);
	return 0;
}

static void put(struct live *x, const char *key, const void *data, size_t len)
{
	int rc = objects_put(x->objects, key, data, len, false, hangs(), &x->f);

	if (rc < 0)
		print_error("%s\n", x->f.text);
	assert_int_equal(rc, 0);
}

static void assert_holds(struct live *x, const char *key, const void *want, size_t len)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	int rc = objects_get(x->objects, key, hangs(), &body, &x->f);

	if (rc < 0)
		print_error("%s\n", x->f.text);
	assert_int_equal(rc, 0);
	assert_int_equal(body.len, len);
	assert_true(len == 0 || memcmp(body.data, want, len) == 0);
}

static void what_is_put_is_read(void **state)
{
	struct live *x = *state;
	size_t len = 17 << 20;
	uint8_t *data = malloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 12));
	put(x, "small", "content", 7);
	assert_holds(x, "small", "content", 7);
	put(x, "empty", "", 0);
	assert_holds(x, "empty", "", 0);
	put(x, "large", data, len);
	assert_holds(x, "large", data, len);
	free(data);
}

static void awkward_keys_are_stored_under_their_own_names(void **state)
{
	static const char *const keys[] = {"a b", "a%20b", "a+b", "q?x=1&y#z", "x'(!*)~", "ü"};
	struct live *x = *state;
	struct object_req list = {.op = OBJECT_LIST, .key = "awk/", .deadline_ns = hangs()};
	size_t at = 0;

	for (size_t i = 0; i < 6; i++) {
		char key[32];

		snprintf(key, sizeof(key), "awk/%s", keys[i]);
		put(x, key, keys[i], strlen(keys[i]));
	}
	assert_int_equal(objects_do(x->objects, &list, &x->f), 0);
	for (size_t i = 0; i < 6; i++) {
		char key[32];

		snprintf(key, sizeof(key), "awk/%s", keys[i]);
		assert_holds(x, key, keys[i], strlen(keys[i]));
		assert_string_equal((char *)list.body.data + at, key);
		at += strlen(key) + 1;
	}
	assert_int_equal(list.body.len, at);
	object_req_fini(&list);
}

static void a_missing_key_is_enoent_and_named(void **state)
{
	struct live *x = *state;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	assert_int_equal(objects_get(x->objects, "not/there", hangs(), &body, &x->f), -ENOENT);
	assert_non_null(strstr(x->f.text, "not/there"));
}

static void a_key_is_created_once(void **state)
{
	struct live *x = *state;

	assert_int_equal(objects_put(x->objects, "k", "mine", 4, true, hangs(), &x->f), 0);
	assert_int_equal(objects_put(x->objects, "k", "theirs", 6, true, hangs(), &x->f), -EEXIST);
	assert_int_equal(x->f.retry, FAULT_RELOAD);
	assert_holds(x, "k", "mine", 4);
}

static void ranges_go_into_the_callers_memory(void **state)
{
	struct live *x = *state;
	uint8_t into[4] = {0};
	struct object_req r = {
		.op = OBJECT_GET,
		.key = "k",
		.off = 3,
		.len = 4,
		.dest = into,
		.deadline_ns = hangs(),
	};

	put(x, "k", "0123456789", 10);
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_memory_equal(into, "3456", 4);
	assert_int_equal(r.size, 10);
	r.off = 8; /* two bytes are not there */
	assert_int_equal(objects_do(x->objects, &r, &x->f), -EIO);
	r.off = 100;
	assert_int_equal(objects_do(x->objects, &r, &x->f), -EIO);
	object_req_fini(&r);
}

static void deleting_twice_is_no_fault(void **state)
{
	struct live *x = *state;
	struct object_req r = {.op = OBJECT_DELETE, .key = "k", .deadline_ns = hangs()};
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	put(x, "k", "x", 1);
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_int_equal(objects_get(x->objects, "k", hangs(), &body, &x->f), -ENOENT);
	object_req_fini(&r);
}

static void pages_make_one_list(void **state)
{
	struct live *x = *state;
	struct object_req list = {.op = OBJECT_LIST, .key = "n/"};
	unsigned n = 0;
	char key[16];

	for (unsigned i = 0; i < 1003; i++) {
		snprintf(key, sizeof(key), "n/%04u", i);
		put(x, key, "", 0);
	}
	list.deadline_ns = hangs();
	assert_int_equal(objects_do(x->objects, &list, &x->f), 0);
	for (size_t at = 0; at < list.body.len; at += strlen((char *)list.body.data + at) + 1) {
		snprintf(key, sizeof(key), "n/%04u", n++);
		assert_string_equal((char *)list.body.data + at, key);
	}
	assert_int_equal(n, 1003);
	list.after = "n/1000";
	assert_int_equal(objects_do(x->objects, &list, &x->f), 0);
	assert_int_equal(list.body.len, 14);
	assert_string_equal((char *)list.body.data, "n/1001");
	object_req_fini(&list);
}

static void the_log_works_there(void **state)
{
	struct live *x = *state;
	uint64_t newest = 9;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;

	assert_int_equal(log_newest(x->objects, "log", hangs(), &newest, &x->f), 0);
	assert_int_equal(newest, 0);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(log_append(x->objects, "log", i, "one", 3, hangs(), NULL, &x->f), 0);
	assert_int_equal(log_append(x->objects, "log", 3, "one", 3, hangs(), NULL, &x->f), 0);
	assert_int_equal(log_append(x->objects, "log", 3, "two", 3, hangs(), &theirs, &x->f),
			 -EEXIST);
	assert_int_equal(theirs.len, 3);
	assert_memory_equal(theirs.data, "one", 3);
	assert_int_equal(log_newest(x->objects, "log", hangs(), &newest, &x->f), 0);
	assert_int_equal(newest, 3);
}

static void the_probe_finds_a_whole_store(void **state)
{
	struct live *x = *state;
	struct store_probe p = {.create_only = false};
	int rc = store_probe(x->objects, &p, &x->f);

	if (rc < 0)
		print_error("%s\n", x->f.text);
	assert_int_equal(rc, 0);
	assert_true(p.create_only);
	assert_true(p.read_after_write);
	assert_true(p.ordered_list);
	assert_true(p.ranges);
	assert_true(p.checksums);
}

enum { RACERS = 8 };

static void over(struct object_req *r)
{
	--*(int *)r->arg;
}

static void of_eight_requests_that_create_a_key_exactly_one_wins(void **state)
{
	struct live *x = *state;

	for (int round = 0; round < 20; round++) {
		struct object_req r[RACERS];
		struct iovec iov[RACERS];
		char key[16];
		int left = RACERS, winner = -1;

		snprintf(key, sizeof(key), "race%d", round);
		for (int i = 0; i < RACERS; i++) {
			iov[i] = (struct iovec){(char *)"abcdefgh" + i, 1};
			r[i] = (struct object_req){
				.op = OBJECT_PUT,
				.key = key,
				.iov = &iov[i],
				.iovs = 1,
				.create_only = true,
				.deadline_ns = hangs(),
				.done = over,
				.arg = &left,
			};
			objects_start(x->objects, &r[i]);
		}
		while (left > 0) { /* a request of nothing moves the loop on */
			scoped(buf_fini) struct buf body = BUF_EMPTY;

			(void)objects_get(x->objects, key, hangs(), &body, &x->f);
		}
		for (int i = 0; i < RACERS; i++) {
			if (r[i].rc == 0) {
				assert_int_equal(winner, -1);
				winner = i;
			} else {
				assert_int_equal(r[i].rc, -EEXIST);
			}
		}
		assert_true(winner >= 0);
		assert_holds(x, key, &"abcdefgh"[winner], 1);
	}
}

static void a_store_is_made_and_loaded(void **state)
{
	struct live *x = *state;
	struct store_format made, loaded;

	assert_int_equal(store_make(x->objects, false, &made, &x->f), 0);
	assert_false(made.unfenced);
	assert_int_equal(store_load(x->objects, &loaded, &x->f), 0);
	assert_memory_equal(made.secret, loaded.secret, sizeof(made.secret));
	assert_int_equal(store_make(x->objects, false, &made, &x->f), -EEXIST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

static void no_server(void **state)
{
	skip(); /* HOLDFAST_TEST_S3 names none */
}

int main(void)
{
	const struct CMUnitTest none[] = {cmocka_unit_test(no_server)};
	const struct CMUnitTest tests[] = {
		TEST(what_is_put_is_read),
		TEST(awkward_keys_are_stored_under_their_own_names),
		TEST(a_missing_key_is_enoent_and_named),
		TEST(a_key_is_created_once),
		TEST(ranges_go_into_the_callers_memory),
		TEST(deleting_twice_is_no_fault),
		TEST(pages_make_one_list),
		TEST(the_log_works_there),
		TEST(the_probe_finds_a_whole_store),
		TEST(of_eight_requests_that_create_a_key_exactly_one_wins),
		TEST(a_store_is_made_and_loaded),
	};

	if (!getenv("HOLDFAST_TEST_S3"))
		return cmocka_run_group_tests(none, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
