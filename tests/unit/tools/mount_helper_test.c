/* SPDX-License-Identifier: Apache-2.0 */
/* How mount(8) calls us, and what `holdfast mount` then sees. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tools/helper.h"
#include "tools/mount_helper.h"
#include "tools/tools.h"
#include "tools/umount_helper.h"

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

static void umount_is_told_from_umount_l_and_f(void **state)
{
	char *plain[] = {"umount.holdfast", "/ck", "-n", "-v", "-r", "-t", "fuse.holdfast", NULL};
	char *at_once[] = {"umount.holdfast", "/ck", "-l", "-f", "-N", "/proc/7/ns/mnt", NULL};
	struct umount_helper u;

	assert_int_equal(umount_helper_parse(ARGC(plain), plain, &u, NULL), 0);
	assert_string_equal(u.dir, "/ck");
	assert_false(u.lazy || u.force);
	assert_null(u.space);
	assert_int_equal(umount_helper_parse(ARGC(at_once), at_once, &u, NULL), 0);
	assert_true(u.lazy && u.force);
	assert_string_equal(u.space, "/proc/7/ns/mnt");
}

static void a_wrong_command_line_of_umount_is_refused_and_named(void **state)
{
	char *unknown[] = {"umount.holdfast", "/ck", "-q", NULL};
	char *two[] = {"umount.holdfast", "/ck", "/other", NULL};
	struct fault f = FAULT_NONE;
	struct umount_helper u;

	assert_int_equal(umount_helper_parse(ARGC(unknown), unknown, &u, &f), -EINVAL);
	assert_string_equal(f.text, "unknown option -q");
	assert_int_equal(umount_helper_parse(ARGC(two), two, &u, &f), -EINVAL);
	assert_string_equal(f.text, "wanted: DIR [-fl]");
}

static void statuses_are_those_of_mount(void **state)
{
	assert_int_equal(helper_status(VERB_DONE), 0);
	assert_int_equal(helper_status(VERB_USAGE), 1);
	assert_int_equal(helper_status(VERB_UNSENT), 2);
	assert_int_equal(helper_status(VERB_FAILED), 32);
	assert_int_equal(helper_status(VERB_ELSEWHERE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_of_both_kinds_are_told_apart),
		cmocka_unit_test(a_word_that_only_begins_like_one_of_fstab_is_kept),
		cmocka_unit_test(without_options_of_ours_there_is_no_dash_o),
		cmocka_unit_test(flags_of_mount_are_taken_and_f_means_fake),
		cmocka_unit_test(a_wrong_command_line_is_refused_and_named),
		cmocka_unit_test(umount_is_told_from_umount_l_and_f),
		cmocka_unit_test(a_wrong_command_line_of_umount_is_refused_and_named),
		cmocka_unit_test(statuses_are_those_of_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
