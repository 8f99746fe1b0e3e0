/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes become a JSON string, and as much as can be of them stays readable. */
#include "base/jsontext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define R "\xef\xbf\xbd" /* what stands for a byte of no character */

static void assert_text(const char *bytes, const char *wanted)
{
	json_t *j = json_text(bytes);

	assert_non_null(j);
	assert_string_equal(json_string_value(j), wanted);
	json_decref(j);
}

static void characters_stay_as_they_are(void **state)
{
	static const char *const texts[] = {"", "step-12/model.pt", "d\xc3\xa9j\xc3\xa0", "\xe6\xa8\xa1",
					    "\xf0\x9f\x98\x80", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_text(texts[i], texts[i]);
}

static void each_byte_of_no_character_is_replaced(void **state)
{
	static const struct {
		const char *bytes, *wanted;
	} cases[] = {
		{"caf\xe9.pt", "caf" R ".pt"},           /* Latin-1 */
		{"\xff", R},
		{"a\x80z", "a" R "z"},                   /* a second byte without a first */
		{"\xc3", R},                             /* cut inside a character */
		{"x\xe6\xa8", "x" R R},
		{"\xf0\x9f\x98", R R R},
		{"\xc0\xaf", R R},                       /* '/' written longer than it is */
		{"\xe0\x80\xaf", R R R},
		{"\xed\xa0\x80", R R R},                 /* half a surrogate pair */
		{"\xf4\x90\x80\x80", R R R R},           /* behind the last one */
		{"\xc3\xa9\xe9\xc3\xa9", "\xc3\xa9" R "\xc3\xa9"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_text(cases[i].bytes, cases[i].wanted);
}

/* Whatever two or three bytes there are, there is an answer, and a reader of JSON takes it. */
static void nothing_is_without_an_answer(void **state)
{
	(void)state;
	for (unsigned i = 1; i < 0x10000; i++) {
		const char bytes[] = {(char)(i >> 8 ? i >> 8 : 'a'), (char)(i & 0xff), (char)0x80, 0};
		json_t *j = json_text(bytes), *again;
		char *dump;

		assert_non_null(j);
		dump = json_dumps(j, JSON_ENCODE_ANY);
		assert_non_null(dump);
		again = json_loads(dump, JSON_DECODE_ANY, NULL);
		assert_true(json_equal(j, again));
		json_decref(again);
		json_decref(j);
		free(dump);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_stay_as_they_are),
		cmocka_unit_test(each_byte_of_no_character_is_replaced),
		cmocka_unit_test(nothing_is_without_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
