/* SPDX-License-Identifier: Apache-2.0 */
/* Store URIs: what is taken, what is refused and with which words. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/uri.h"

static void a_valid_uri_is_taken_apart(void **state)
{
	static const struct {
		const char *in, *text, *bucket, *prefix, *dir;
	} cases[] = {
		{"s3://bkt", "s3://bkt", "bkt", "", NULL},
		{"s3://bkt/", "s3://bkt", "bkt", "", NULL},
		{"s3://b.k-t_9/a", "s3://b.k-t_9/a", "b.k-t_9", "a/", NULL},
		{"s3://bkt//runs//7/", "s3://bkt/runs/7", "bkt", "runs/7/", NULL},
		{"s3://bkt/a b%20+ü/x", "s3://bkt/a b%20+ü/x", "bkt", "a b%20+ü/x/", NULL},
		{"s3://bkt/.hidden", "s3://bkt/.hidden", "bkt", ".hidden/", NULL},
		{"file:///srv/store", "file:///srv/store", NULL, NULL, "/srv/store"},
		{"file:////srv//a b/", "file:///srv/a b", NULL, NULL, "/srv/a b"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scoped(store_uri_fini) struct store_uri u = STORE_URI_EMPTY;
		struct fault f = FAULT_NONE;

		assert_int_equal(store_uri_parse(cases[i].in, &u, &f), 0);
		assert_string_equal(u.text, cases[i].text);
		if (cases[i].bucket) {
			assert_string_equal(u.bucket, cases[i].bucket);
			assert_string_equal(u.prefix, cases[i].prefix);
			assert_null(u.dir);
		} else {
			assert_string_equal(u.dir, cases[i].dir);
			assert_null(u.bucket);
		}
	}
}

static void a_wrong_uri_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *in, *says;
	} cases[] = {
		{"", "not a store URI"},
		{"bkt/prefix", "not a store URI"},
		{"gs://bkt", "not a store URI"},
		{"/srv/store", "write file:///srv/store"},
		{"s3://", "names no bucket"},
		{"s3:///prefix", "names no bucket"},
		{"s3://ab", "no valid bucket name"},
		{"s3://has space/x", "no valid bucket name"},
		{"s3://arn:aws:s3:::x", "no valid bucket name"},
		{"s3://bkt/a/../b", "'.' or '..'"},
		{"s3://bkt/./a", "'.' or '..'"},
		{"s3://bkt/a?region=x", "'?' or '#'"},
		{"s3://bkt/a\nb", "control characters"},
		{"file://srv/store", "not absolute"},
		{"file:///", "root directory"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct store_uri u = STORE_URI_EMPTY;
		struct fault f = FAULT_NONE;

		assert_int_equal(store_uri_parse(cases[i].in, &u, &f), -EINVAL);
		assert_int_equal(f.retry, FAULT_FINAL);
		assert_non_null(strstr(f.text, cases[i].says));
		assert_null(u.text);
	}
}

static void the_refusal_shows_the_right_forms(void **state)
{
	struct store_uri u = STORE_URI_EMPTY;
	struct fault f = FAULT_NONE;

	assert_int_equal(store_uri_parse("swift://bkt", &u, &f), -EINVAL);
	assert_non_null(strstr(f.text, "swift://bkt"));
	assert_non_null(strstr(f.text, "s3://BUCKET[/PREFIX]"));
	assert_non_null(strstr(f.text, "file:///DIRECTORY"));
}

static void a_prefix_that_leaves_no_room_for_keys_is_refused(void **state)
{
	struct store_uri u = STORE_URI_EMPTY;
	struct fault f = FAULT_NONE;
	char text[700] = "s3://bkt/";

	memset(text + 9, 'x', 513);
	assert_int_equal(store_uri_parse(text, &u, &f), -EINVAL);
	assert_non_null(strstr(f.text, "over 512 bytes"));
	text[9 + 512] = '\0';
	assert_int_equal(store_uri_parse(text, &u, &f), 0);
	store_uri_fini(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_valid_uri_is_taken_apart),
		cmocka_unit_test(a_wrong_uri_is_refused_with_the_reason),
		cmocka_unit_test(the_refusal_shows_the_right_forms),
		cmocka_unit_test(a_prefix_that_leaves_no_room_for_keys_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
