/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a directory busy: processes that this test forks, and this test. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tools/holders.h"

struct place {
	char dir[32], file[64];
};

static int set_up(void **state)
{
	static struct place p;

	(void)snprintf(p.dir, sizeof(p.dir), "/tmp/holdfast-test-XXXXXX");
	assert_non_null(mkdtemp(p.dir));
	(void)snprintf(p.file, sizeof(p.file), "%s/f", p.dir);
	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	const struct place *p = *state;

	(void)unlink(p->file);
	(void)rmdir(p->dir);
	return 0;
}

static int hold(const struct place *p)
{
	int fd = open(p->file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static bool names(struct buf *who, pid_t pid)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "(%ld)", (long)pid);
	return strstr(buf_str(who), text) != NULL;
}

static void an_open_file_names_its_process_and_a_namesake_directory_does_not(void **state)
{
	scoped(buf_fini) struct buf none = BUF_EMPTY, held = BUF_EMPTY, beside = BUF_EMPTY;
	const struct place *p = *state;
	char part[32];
	pid_t child;
	int fd;

	holders_name(p->dir, NULL, &none);
	assert_int_equal(none.len, 0);

	fd = hold(p);
	child = fork();
	if (child == 0)
		for (;;)
			(void)pause();
	fd_close(fd);
	holders_name(p->dir, NULL, &held);
	/* "/tmp/holdfast-test-abcde" is not the directory of "/tmp/holdfast-test-abcdef/f". */
	(void)snprintf(part, sizeof(part), "%.*s", (int)strlen(p->dir) - 1, p->dir);
	holders_name(part, NULL, &beside);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_non_null(strstr(buf_str(&held), "holders_test"));
	assert_true(names(&held, child));
	assert_int_equal(beside.len, 0);
}

static void an_open_file_is_found_by_its_file_system_under_any_name(void **state)
{
	scoped(buf_fini) struct buf held = BUF_EMPTY;
	scoped(fd_close) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct mounts_fs proc;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	proc = (struct mounts_fs){.major = major(st.st_dev), .minor = minor(st.st_dev)};
	holders_name("/no/such/directory", &proc, &held);
	assert_string_equal(buf_str(&held), "this command (its input or output lies there)");
}

static void only_holdfast_mounts_are_found_in_the_table(void **state)
{
	struct mounts_fs fs = {.minor = 7};

	assert_false(mounts_find("self", "/proc", &fs));
	assert_int_equal(fs.minor, 7);
	assert_false(mounts_find("none", "/proc", &fs));
}

/* As a shell, `timeout` and the command that it starts: all have what the shell had. */
static void of_those_who_started_us_the_first_is_named(void **state)
{
	const struct place *p = *state;
	pid_t shell = getpid(), wrapper;
	int fd = hold(p), status = 0;

	wrapper = fork();
	if (wrapper == 0) {
		pid_t command = fork();

		if (command == 0) {
			struct buf who = BUF_EMPTY;
			bool right;

			holders_name(p->dir, NULL, &who);
			right = names(&who, shell) && !names(&who, getppid()) && !names(&who, getpid());
			buf_fini(&who);
			_exit(right ? 0 : 1);
		}
		(void)waitpid(command, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	(void)waitpid(wrapper, &status, 0);
	fd_close(fd);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void we_are_named_if_nobody_else_is(void **state)
{
	scoped(buf_fini) struct buf who = BUF_EMPTY;
	const struct place *p = *state;
	int fd = hold(p);

	holders_name(p->dir, NULL, &who);
	fd_close(fd);
	assert_string_equal(buf_str(&who), "this command (its input or output lies there)");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(an_open_file_names_its_process_and_a_namesake_directory_does_not),
		TEST(of_those_who_started_us_the_first_is_named),
		TEST(we_are_named_if_nobody_else_is),
		cmocka_unit_test(an_open_file_is_found_by_its_file_system_under_any_name),
		cmocka_unit_test(only_holdfast_mounts_are_found_in_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
