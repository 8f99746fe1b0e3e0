/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a directory busy: this process will do. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
	holders_name(dir, &none);
	assert_int_equal(none.len, 0);

	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	holders_name(dir, &held);
	/* "/tmp/holdfast-test-abcde" is not the directory of "/tmp/holdfast-test-abcdef/f". */
	(void)snprintf(part, sizeof(part), "%.*s", (int)strlen(dir) - 1, dir);
	holders_name(part, &beside);
	fd_close(fd);
	(void)unlink(path);
	(void)rmdir(dir);
	assert_non_null(strstr(buf_str(&held), "holders_test"));
	assert_non_null(strstr(buf_str(&held), me));
	assert_int_equal(beside.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_file_names_its_process_and_a_namesake_directory_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
