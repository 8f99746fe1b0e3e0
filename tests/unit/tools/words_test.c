/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/words.h"

static void bytes_have_the_unit_that_leaves_few_digits(void **state)
{
	char out[WORDS_MAX];

	assert_string_equal(words_bytes(0, out), "0 bytes");
	assert_string_equal(words_bytes(1, out), "1 byte");
	assert_string_equal(words_bytes(999, out), "999 bytes");
	assert_string_equal(words_bytes(1000, out), "1.0 KB");
	assert_string_equal(words_bytes(1340000000, out), "1.3 GB");
	assert_string_equal(words_bytes(9960000, out), "10 MB");
	assert_string_equal(words_bytes(999600, out), "1.0 MB");
	assert_string_equal(words_bytes(1e18, out), "1000 PB");
}

static void spans_have_the_unit_that_leaves_few_digits(void **state)
{
	char out[WORDS_MAX];

	assert_string_equal(words_span(0.42, out), "0.4 s");
	assert_string_equal(words_span(119, out), "119 s");
	assert_string_equal(words_span(250, out), "4.2 min");
	assert_string_equal(words_span(9000, out), "2.5 h");
	assert_string_equal(words_span(260000, out), "3.0 days");
}

static void seconds_are_positive_plain_numbers(void **state)
{
	static const char *const refused[] = {"",    "0",    "-1",  "+1",        "1s", " 1",
					      "nan", "0x1p", "inf", "999999999", ".",  "1e99"};
	double s = 7;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_false(words_parse_seconds(refused[i], &s));
	assert_true(s == 7);
	assert_true(words_parse_seconds("90", &s));
	assert_true(s == 90);
	assert_true(words_parse_seconds(".5", &s));
	assert_true(s == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_have_the_unit_that_leaves_few_digits),
		cmocka_unit_test(spans_have_the_unit_that_leaves_few_digits),
		cmocka_unit_test(seconds_are_positive_plain_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
