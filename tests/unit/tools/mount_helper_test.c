/* SPDX-License-Identifier: Apache-2.0 */
/* How mount(8) calls us, and what `holdfast mount` then sees. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tools/mount_helper.h"

#define ARGC(argv) ((int)(sizeof(argv) / sizeof((argv)[0])) - 1)

static void options_of_both_kinds_are_told_apart(void **state)
{
	scoped(mount_helper_fini) struct mount_helper m;
	char *argv[] = {"mount.holdfast", "s3://b/run", "/ck", "-o",
			"rw,noauto,x-systemd.automount,takeover,_netdev,cache=/c,users", NULL};

	assert_int_equal(mount_helper_parse(ARGC(argv), argv, &m, NULL), 0);
	assert_int_equal(m.argc, 5);
	assert_string_equal(m.argv[0], "mount");
	assert_string_equal(m.argv[1], "s3://b/run");
	assert_string_equal(m.argv[2], "/ck");
	assert_string_equal(m.argv[3], "-o");
	assert_string_equal(m.argv[4], "rw,takeover,cache=/c");
	assert_null(m.argv[5]);
	assert_false(m.fake);
}

static void a_word_that_only_begins_like_one_of_fstab_is_kept(void **state)
{
	scoped(mount_helper_fini) struct mount_helper m;
	char *argv[] = {"mount.holdfast", "s3://b/run", "/ck", "-o", "username=x,user", "-o", "automatic", NULL};

	assert_int_equal(mount_helper_parse(ARGC(argv), argv, &m, NULL), 0);
	assert_string_equal(m.argv[4], "username=x,automatic");
}

static void without_options_of_ours_there_is_no_dash_o(void **state)
{
	scoped(mount_helper_fini) struct mount_helper m;
	char *argv[] = {"mount.holdfast", "file:///s", "/ck", "-o", "defaults,,nofail", NULL};

	assert_int_equal(mount_helper_parse(ARGC(argv), argv, &m, NULL), 0);
	assert_int_equal(m.argc, 3);
	assert_null(m.argv[3]);
}

static void flags_of_mount_are_taken_and_f_means_fake(void **state)
{
	scoped(mount_helper_fini) struct mount_helper m;
	char *argv[] = {"mount.holdfast", "file:///s", "/ck", "-s", "-f", "-n", "-v", "-t", "holdfast", NULL};

	assert_int_equal(mount_helper_parse(ARGC(argv), argv, &m, NULL), 0);
	assert_int_equal(m.argc, 3);
	assert_true(m.fake);
}

static void a_wrong_command_line_is_refused_and_named(void **state)
{
	char *unknown[] = {"mount.holdfast", "file:///s", "/ck", "-q", NULL};
	char *no_dir[] = {"mount.holdfast", "file:///s", NULL};
	scoped(mount_helper_fini) struct mount_helper a;
	scoped(mount_helper_fini) struct mount_helper b;
	struct fault f = FAULT_NONE;

	assert_int_equal(mount_helper_parse(ARGC(unknown), unknown, &a, &f), -EINVAL);
	assert_string_equal(f.text, "unknown option -q");
	assert_int_equal(mount_helper_parse(ARGC(no_dir), no_dir, &b, &f), -EINVAL);
	assert_string_equal(f.text, "wanted: URI DIR [-o OPTIONS]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_of_both_kinds_are_told_apart),
		cmocka_unit_test(a_word_that_only_begins_like_one_of_fstab_is_kept),
		cmocka_unit_test(without_options_of_ours_there_is_no_dash_o),
		cmocka_unit_test(flags_of_mount_are_taken_and_f_means_fake),
		cmocka_unit_test(a_wrong_command_line_is_refused_and_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
