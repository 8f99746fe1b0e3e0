/* SPDX-License-Identifier: Apache-2.0 */
/* URI[@COMMIT][:PATH], where the marks stand in names as well. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/ref.h"

static const struct row {
	const char *text, *uri;
	enum ref_which which;
	uint64_t number;
	const char *path;
} rows[] = {
	/* the plain ones */
	{"s3://b/run", "s3://b/run", REF_GOOD, 0, ""},
	{"s3://b/run:a/b", "s3://b/run", REF_GOOD, 0, "a/b"},
	{"s3://b/run@newest", "s3://b/run", REF_NEWEST, 0, ""},
	{"s3://b/run@42:a", "s3://b/run", REF_NUMBER, 42, "a"},
	{"file:///srv/x@good:a", "file:///srv/x", REF_GOOD, 0, "a"},
	{"file:///srv/x:", "file:///srv/x", REF_GOOD, 0, ""},
	/* paths are tidied */
	{"s3://b:/a//b/", "s3://b", REF_GOOD, 0, "a/b"},
	{"s3://b@3:/", "s3://b", REF_NUMBER, 3, ""},
	/* ':' in a path; in a URI where the commit is written out */
	{"s3://b/run:12:30:00/m.pt", "s3://b/run", REF_GOOD, 0, "12:30:00/m.pt"},
	{"file:///mnt/c:/x@good", "file:///mnt/c:/x", REF_GOOD, 0, ""},
	{"file:///mnt/c:/x@7:y:z", "file:///mnt/c:/x", REF_NUMBER, 7, "y:z"},
	/* '@' that is no commit, in a URI and in a path */
	{"file:///srv/me@host/x", "file:///srv/me@host/x", REF_GOOD, 0, ""},
	{"file:///srv/x@3/y", "file:///srv/x@3/y", REF_GOOD, 0, ""},
	{"file:///srv/x@3@good", "file:///srv/x@3", REF_GOOD, 0, ""},
	{"s3://b/run:a@x/b", "s3://b/run", REF_GOOD, 0, "a@x/b"},
	{"s3://b/run@newest:ckpt@1000", "s3://b/run", REF_NEWEST, 0, "ckpt@1000"},
	{"s3://b/run@goods:a", "s3://b/run@goods", REF_GOOD, 0, "a"},
	/* no URI at all: for whoever opens it to complain of */
	{"nonsense", "nonsense", REF_GOOD, 0, ""},
	{"", "", REF_GOOD, 0, ""},
};

static void a_reference_splits_at_its_marks_and_no_others(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		scoped(ref_fini) struct ref r = REF_EMPTY;
		struct fault f = FAULT_NONE;

		if (ref_parse(rows[i].text, &r, &f) < 0)
			fail_msg("%s: %s", rows[i].text, f.text);
		if (strcmp(r.uri, rows[i].uri) != 0 || strcmp(r.path, rows[i].path) != 0 ||
		    r.which != rows[i].which || r.number != rows[i].number)
			fail_msg("%s: '%s' which %d number %llu '%s'", rows[i].text, r.uri, r.which,
				 (unsigned long long)r.number, r.path);
	}
}

static void what_no_store_can_hold_is_refused_and_named(void **state)
{
	static const struct {
		const char *text, *says;
	} refused[] = {
		{"s3://b:a/../c", "../c"},
		{"s3://b:.", "'.'"},
		{"s3://b@0", "@0"},
		{"s3://b@99999999999999999999999:x", "@99999999999999999999999"},
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct ref r = REF_EMPTY;
		struct fault f = FAULT_NONE;

		assert_int_equal(ref_parse(refused[i].text, &r, &f), -EINVAL);
		assert_non_null(strstr(f.text, refused[i].says));
		assert_null(r.uri);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reference_splits_at_its_marks_and_no_others),
		cmocka_unit_test(what_no_store_can_hold_is_refused_and_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
