/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: code, class and the sentence that callers build up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"

static void a_fault_carries_code_class_and_text(void **state)
{
	struct fault f = FAULT_NONE;

	assert_int_equal(fault_set(&f, -EAGAIN, FAULT_PACED, "PUT %s: %d", "log/7", 503), -EAGAIN);
	assert_int_equal(f.code, -EAGAIN);
	assert_int_equal(f.retry, FAULT_PACED);
	assert_string_equal(f.text, "PUT log/7: 503");
}

static void each_caller_puts_what_it_knows_in_front(void **state)
{
	struct fault f = FAULT_NONE;

	(void)fault_set(&f, -EBUSY, FAULT_RELOAD, "412 Precondition Failed");
	(void)fault_in(&f, "PUT %s", "log/7");
	assert_int_equal(fault_in(&f, "commit %d", 42), -EBUSY);
	assert_string_equal(f.text, "commit 42: PUT log/7: 412 Precondition Failed");
	assert_int_equal(f.retry, FAULT_RELOAD);
}

static void an_errno_fault_is_final_and_says_what_the_system_said(void **state)
{
	struct fault f = FAULT_NONE;

	assert_int_equal(fault_errno(&f, -ENOENT, "open %s", "/x"), -ENOENT);
	assert_int_equal(f.retry, FAULT_FINAL);
	assert_string_equal(f.text, "open /x: No such file or directory");
}

static void a_fault_may_quote_its_own_text(void **state)
{
	struct fault f = FAULT_NONE;

	(void)fault_set(&f, -EIO, FAULT_SOON, "reset");
	(void)fault_set(&f, -EIO, FAULT_FINAL, "gave up: %s", f.text);
	assert_string_equal(f.text, "gave up: reset");
}

static void a_long_text_is_cut_and_ended(void **state)
{
	struct fault f = FAULT_NONE;
	char name[2 * sizeof(f.text)];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)fault_set(&f, -EIO, FAULT_FINAL, "%s", name);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
	(void)fault_in(&f, "%s", name);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
}

static void nobody_has_to_want_the_text(void **state)
{
	assert_int_equal(fault_set(NULL, -EPERM, FAULT_FINAL, "x"), -EPERM);
	assert_int_equal(fault_errno(NULL, -EPERM, "x"), -EPERM);
	assert_true(fault_in(NULL, "x") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_carries_code_class_and_text),
		cmocka_unit_test(each_caller_puts_what_it_knows_in_front),
		cmocka_unit_test(an_errno_fault_is_final_and_says_what_the_system_said),
		cmocka_unit_test(a_fault_may_quote_its_own_text),
		cmocka_unit_test(a_long_text_is_cut_and_ended),
		cmocka_unit_test(nobody_has_to_want_the_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
