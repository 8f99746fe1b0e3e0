/* SPDX-License-Identifier: Apache-2.0 */
/* The log, store.json and the probe, on a file:// store. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/format.h"
#include "store/log.h"
#include "tests/unit/store/scratch.h"

static void append(struct scratch *x, uint64_t number, const char *body)
{
	assert_int_equal(log_append(x->objects, "log", number, body, strlen(body), 0, NULL, &x->f), 0);
}

static void names_count_down_from_ten_to_the_twentieth(void **state)
{
	static const struct {
		uint64_t number;
		const char *key;
	} cases[] = {
		{1, "log/99999999999999999998"},
		{42, "log/99999999999999999957"},
		{UINT64_C(10000000000), "log/99999999989999999999"},
		{UINT64_MAX, "log/81553255926290448384"},
	};
	char key[LOG_KEY_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		log_key("log", cases[i].number, key);
		assert_string_equal(key, cases[i].key);
		assert_int_equal(log_number("log", key), cases[i].number);
	}
}

static void a_key_that_is_no_record_has_no_number(void **state)
{
	static const char *const keys[] = {
		"log/99999999999999999999",  "log/81553255926290448383", "log/00000000000000000000",
		"log/9999999999999999999",   "log/999999999999999999980", "log/9999999999999999999x",
		"logs/99999999999999999998", "99999999999999999998",	  "log/",
		"log",			     "",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_int_equal(log_number("log", keys[i]), 0);
}

static void the_newest_record_is_found(void **state)
{
	struct scratch *x = *state;
	uint64_t newest = 7;

	assert_int_equal(log_newest(x->objects, "log", 0, &newest, &x->f), -ENOENT);
	assert_int_equal(objects_put(x->objects, "store.json", "", 0, false, 0, &x->f), 0);
	assert_int_equal(log_newest(x->objects, "log", 0, &newest, &x->f), 0);
	assert_int_equal(newest, 0);
	for (uint64_t n = 1; n <= 12; n++) {
		append(x, n, "x");
		assert_int_equal(log_newest(x->objects, "log", 0, &newest, &x->f), 0);
		assert_int_equal(newest, n);
	}
}

static void a_strangers_file_does_not_hide_the_newest(void **state)
{
	struct scratch *x = *state;
	uint64_t newest = 0;

	append(x, 1, "x");
	append(x, 2, "x");
	assert_int_equal(objects_put(x->objects, "log/ README", "", 0, false, 0, &x->f), 0);
	assert_int_equal(objects_put(x->objects, "log/0001", "", 0, false, 0, &x->f), 0);
	assert_int_equal(log_newest(x->objects, "log", 0, &newest, &x->f), 0);
	assert_int_equal(newest, 2);
}

static void logs_of_two_directories_do_not_meet(void **state)
{
	struct scratch *x = *state;
	uint64_t newest = 0;

	append(x, 5, "commit");
	assert_int_equal(log_append(x->objects, "jobs/j1/events", 1, "event", 5, 0, NULL, &x->f), 0);
	assert_int_equal(log_newest(x->objects, "jobs/j1/events", 0, &newest, &x->f), 0);
	assert_int_equal(newest, 1);
}

static void a_taken_number_is_refused_and_the_other_record_shown(void **state)
{
	struct scratch *x = *state;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;

	append(x, 3, "first");
	assert_int_equal(log_append(x->objects, "log", 3, "second", 6, 0, &theirs, &x->f), -EEXIST);
	assert_int_equal(x->f.retry, FAULT_RELOAD);
	assert_non_null(strstr(x->f.text, "record 3 of log"));
	assert_int_equal(theirs.len, 5);
	assert_memory_equal(theirs.data, "first", 5);
	assert_int_equal(log_append(x->objects, "log", 3, "firsT", 5, 0, NULL, &x->f), -EEXIST);
}

static void an_earlier_success_of_our_own_is_success(void **state)
{
	struct scratch *x = *state;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;

	append(x, 3, "ours");
	assert_int_equal(log_append(x->objects, "log", 3, "ours", 4, 0, &theirs, &x->f), 0);
	assert_int_equal(x->f.code, 0);
	assert_int_equal(theirs.len, 0);
}

struct seen {
	uint64_t next;
	uint64_t stop; /* each() fails there; 0: nowhere */
};

static int look(void *arg, uint64_t number, const struct buf *data, struct fault *f)
{
	struct seen *s = arg;
	char want[32];

	assert_int_equal(number, s->next);
	snprintf(want, sizeof(want), "body %d", (int)number);
	assert_int_equal(data->len, strlen(want));
	assert_memory_equal(data->data, want, data->len);
	s->next++;
	return number == s->stop ? fault_set(f, -EPROTO, FAULT_FINAL, "no good") : 0;
}

static void append_many(struct scratch *x, uint64_t first, uint64_t last)
{
	char body[32];

	for (uint64_t n = first; n <= last; n++) {
		snprintf(body, sizeof(body), "body %d", (int)n);
		append(x, n, body);
	}
}

static void a_range_of_records_comes_in_order(void **state)
{
	struct scratch *x = *state;
	struct seen s = {.next = 2};

	append_many(x, 1, 100);
	assert_int_equal(log_read_range(x->objects, "log", 2, 99, 0, look, &s, &x->f), 0);
	assert_int_equal(s.next, 100);
	assert_int_equal(log_read_range(x->objects, "log", 5, 4, 0, look, &s, &x->f), 0);
	assert_int_equal(s.next, 100);
}

static void a_gap_in_the_log_is_named(void **state)
{
	struct scratch *x = *state;
	struct seen s = {.next = 1};

	append_many(x, 1, 9);
	append_many(x, 11, 50);
	assert_int_equal(log_read_range(x->objects, "log", 1, 50, 0, look, &s, &x->f), -ENOENT);
	assert_int_equal(s.next, 10);
	assert_non_null(strstr(x->f.text, "record 10 of log"));
}

static void a_reader_that_has_enough_ends_the_range(void **state)
{
	struct scratch *x = *state;
	struct seen s = {.next = 1, .stop = 4};

	append_many(x, 1, 60);
	assert_int_equal(log_read_range(x->objects, "log", 1, 60, 0, look, &s, &x->f), -EPROTO);
	assert_int_equal(s.next, 5);
	assert_string_equal(x->f.text, "no good");
}

/* ---- store.json ---- */

static void a_store_is_made_once_and_loaded(void **state)
{
	struct scratch *x = *state;
	struct store_format made, loaded, again;

	assert_int_equal(store_make(x->objects, false, &made, &x->f), 0);
	assert_false(made.unfenced);
	assert_int_equal(store_load(x->objects, &loaded, &x->f), 0);
	assert_int_equal(loaded.format, STORE_FORMAT);
	assert_memory_equal(loaded.id.b, made.id.b, sizeof(made.id.b));
	assert_memory_equal(loaded.secret, made.secret, sizeof(made.secret));
	assert_int_equal(store_make(x->objects, false, &again, &x->f), -EEXIST);
	assert_non_null(strstr(x->f.text, x->uri));
}

static void where_no_store_is_the_cure_is_named(void **state)
{
	struct scratch *x = *state;
	struct store_format s;

	assert_int_equal(store_load(x->objects, &s, &x->f), -ENOENT);
	assert_non_null(strstr(x->f.text, "holdfast mkfs file://"));
}

static void a_directory_can_do_all_that_is_needed(void **state)
{
	struct scratch *x = *state;
	struct store_probe p;
	struct object_req r = {.op = OBJECT_LIST, .key = ""};

	assert_int_equal(store_probe(x->objects, &p, &x->f), 0);
	assert_true(p.create_only);
	assert_true(p.read_after_write);
	assert_true(p.ordered_list);
	assert_true(p.ranges);
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_int_equal(r.body.len, 0); /* it cleans up */
	object_req_fini(&r);
}

static void damaged_formats_are_refused(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
		{"", -EPROTO, "store.json is damaged"},
		{"{}", -EPROTO, "has no \"format\""},
		{"[1]", -EPROTO, "has no \"format\""},
		{"{\"format\": 2}", -EPROTONOSUPPORT, "format 2"},
		{"{\"format\": 1}", -EPROTO, "\"id\""},
		{"{\"format\": 1, \"format\": 1}", -EPROTO, "damaged"},
		{"{\"format\": 1, \"id\": \"00\"}", -EPROTO, "\"id\""},
		{"{\"format\": 1, \"id\": \"zz000000000000000000000000000000\"}", -EPROTO, "\"id\""},
		{"{\"format\": 1, \"id\": \"00000000000000000000000000000000\"}", -EPROTO,
		 "\"secret\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct store_format s;
		struct fault f = FAULT_NONE;

		assert_int_equal(store_format_decode(cases[i].text, strlen(cases[i].text), &s, &f),
				 cases[i].code);
		assert_non_null(strstr(f.text, cases[i].says));
	}
}

static void the_format_survives_its_encoding(void **state)
{
	struct store_format s = {.format = STORE_FORMAT, .unfenced = true}, t;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct fault f;

	for (size_t i = 0; i < sizeof(s.secret); i++)
		s.secret[i] = (uint8_t)(i * 7);
	s.id.b[15] = 0xfe;
	assert_int_equal(store_format_encode(&s, &raw), 0);
	assert_int_equal(store_format_decode(raw.data, raw.len, &t, &f), 0);
	assert_true(t.unfenced);
	assert_memory_equal(s.secret, t.secret, sizeof(s.secret));
	assert_memory_equal(s.id.b, t.id.b, sizeof(s.id.b));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_count_down_from_ten_to_the_twentieth),
		cmocka_unit_test(a_key_that_is_no_record_has_no_number),
		TEST(the_newest_record_is_found),
		TEST(a_strangers_file_does_not_hide_the_newest),
		TEST(logs_of_two_directories_do_not_meet),
		TEST(a_taken_number_is_refused_and_the_other_record_shown),
		TEST(an_earlier_success_of_our_own_is_success),
		TEST(a_range_of_records_comes_in_order),
		TEST(a_gap_in_the_log_is_named),
		TEST(a_reader_that_has_enough_ends_the_range),
		TEST(a_store_is_made_once_and_loaded),
		TEST(where_no_store_is_the_cure_is_named),
		TEST(a_directory_can_do_all_that_is_needed),
		cmocka_unit_test(damaged_formats_are_refused),
		cmocka_unit_test(the_format_survives_its_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
