/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a directory busy: this process will do. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "tools/holders.h"

static void an_open_file_names_its_process_and_a_namesake_directory_does_not(void **state)
{
	scoped(buf_fini) struct buf none = BUF_EMPTY, held = BUF_EMPTY, beside = BUF_EMPTY;
	char dir[] = "/tmp/holdfast-test-XXXXXX", path[64], part[64], me[32];
	int fd;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/f", dir);
	(void)snprintf(me, sizeof(me), "(%ld)", (long)getpid());
	holders_name(dir, NULL, &none);
	assert_int_equal(none.len, 0);

	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	holders_name(dir, NULL, &held);
	/* "/tmp/holdfast-test-abcde" is not the directory of "/tmp/holdfast-test-abcdef/f". */
	(void)snprintf(part, sizeof(part), "%.*s", (int)strlen(dir) - 1, dir);
	holders_name(part, NULL, &beside);
	fd_close(fd);
	(void)unlink(path);
	(void)rmdir(dir);
	assert_non_null(strstr(buf_str(&held), "holders_test"));
	assert_non_null(strstr(buf_str(&held), me));
	assert_int_equal(beside.len, 0);
}

static void an_open_file_is_found_by_its_file_system_under_any_name(void **state)
{
	scoped(buf_fini) struct buf held = BUF_EMPTY;
	scoped(fd_close) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct mounts_fs proc;
	char me[32];

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	proc = (struct mounts_fs){.major = major(st.st_dev), .minor = minor(st.st_dev)};
	(void)snprintf(me, sizeof(me), "(%ld)", (long)getpid());
	holders_name("/no/such/directory", &proc, &held);
	assert_non_null(strstr(buf_str(&held), me));
}

static void only_holdfast_mounts_are_found_in_the_table(void **state)
{
	struct mounts_fs fs = {.minor = 7};

	assert_false(mounts_find("self", "/proc", &fs));
	assert_int_equal(fs.minor, 7);
	assert_false(mounts_find("none", "/proc", &fs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_file_names_its_process_and_a_namesake_directory_does_not),
		cmocka_unit_test(an_open_file_is_found_by_its_file_system_under_any_name),
		cmocka_unit_test(only_holdfast_mounts_are_found_in_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
