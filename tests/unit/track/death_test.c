/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of dying processes: texts from a table, and the zombies of real children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/track/death.h"

/* A stat text of 52 fields: only name, flags, pending signals and exit_code matter. */
#define STAT(comm, flags, code) STAT_PENDING(comm, flags, "0", code)
#define STAT_PENDING(comm, flags, pending, code) \
	"4711 (" comm ") R 1 4711 4711 0 -1 " flags " 100 0 0 0 1 2 0 0 20 0 1 0 5000 1000000 " \
	"200 18446744073709551615 1 1 0 0 0 " pending " 0 4096 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 " code "\n"

struct stat_case {
	const char *name;
	const char *text;
	bool code_readable;
	enum close_kind kind;
};

static const struct stat_case stat_cases[] = {
	{"lives", STAT("python", "4194304", "0"), true, CLOSE_CLEAN},
	{"lives, codes hidden", STAT("python", "4194304", "0"), false, CLOSE_CLEAN},
	{"exit(0)", STAT("python", "4194308", "0"), true, CLOSE_CLEAN},
	{"exit(3)", STAT("python", "4194308", "768"), true, CLOSE_DYING},
	{"SIGKILL", STAT("python", "4195332", "9"), true, CLOSE_DYING},
	{"SIGTERM", STAT("python", "4195332", "15"), true, CLOSE_DYING},
	{"SIGSEGV with a core", STAT("python", "4195332", "139"), true, CLOSE_DYING},
	{"exits, codes hidden", STAT("python", "4194308", "0"), false, CLOSE_UNKNOWN},
	{"closes a file, and SIGKILL waits for it", STAT_PENDING("python", "4194304", "256", "0"), true, CLOSE_DYING},
	{"closes a file, and SIGUSR1 waits for it", STAT_PENDING("python", "4194304", "512", "0"), true, CLOSE_CLEAN},
	{"a name with spaces", STAT("my train er", "4194308", "9"), true, CLOSE_DYING},
	{"a name that ends early", STAT("a) R 1 1 1 0 -1 0 (b", "4194308", "9"), true, CLOSE_DYING},
	{"a name of brackets", STAT(")))", "4194308", "0"), true, CLOSE_CLEAN},
	{"empty", "", true, CLOSE_UNKNOWN},
	{"no name", "4711 python R 1", true, CLOSE_UNKNOWN},
	{"cut before the flags", "4711 (python) R 1 4711 4711 0 -1", true, CLOSE_UNKNOWN},
	{"flags are no number", STAT("python", "x4", "0"), true, CLOSE_UNKNOWN},
	{"flags are half a number", STAT("python", "4x", "0"), true, CLOSE_UNKNOWN},
	{"cut before the code", "4711 (python) R 1 4711 4711 0 -1 4194308 100 0", true,
	 CLOSE_UNKNOWN},
	{"a code out of range", STAT("python", "4194308", "99999999999999999999"), true,
	 CLOSE_UNKNOWN},
};

static void stat_texts_follow_their_table(void **state)
{
	for (size_t i = 0; i < sizeof(stat_cases) / sizeof(stat_cases[0]); i++) {
		const struct stat_case *c = &stat_cases[i];
		enum close_kind kind = death_parse_stat(c->text, c->code_readable);

		if (kind != c->kind)
			fail_msg("%s: is %d, should be %d", c->name, kind, c->kind);
	}
}

static void the_tgid_is_read_from_a_status_text(void **state)
{
	assert_int_equal(death_parse_tgid("Name:\tpython\nState:\tR\nTgid:\t4711\n"), 4711);
	assert_int_equal(death_parse_tgid("Name:\tTgid:\\n1\nTgid:\t12\nPid:\t13\n"), 12);
	assert_int_equal(death_parse_tgid("Name:\tpython\n"), 0);
	assert_int_equal(death_parse_tgid("Name:\tp\nTgid:\t-4\n"), 0);
	assert_int_equal(death_parse_tgid("Name:\tp\nTgid:\t99999999999\n"), 0);
	assert_int_equal(death_parse_tgid(""), 0);
}

static void *terminate_the_process(void *unused)
{
	(void)kill(getpid(), SIGTERM);
	for (;;)
		pause();
	return NULL;
}

static void exit_0(void)
{
	_exit(0);
}

static void exit_3(void)
{
	_exit(3);
}

static void die_of_sigkill(void)
{
	(void)raise(SIGKILL);
}

static void die_of_sigterm_from_a_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, terminate_the_process, NULL) == 0)
		(void)pthread_join(thread, NULL);
}

/* A zombie's stat has the flags and the code that its FLUSH in exit() would have shown. */
static enum close_kind death_of_child(void (*die)(void), bool code_readable)
{
	siginfo_t gone;
	enum close_kind kind;
	pid_t pid = fork();

	if (pid == 0) {
		die();
		_exit(99);
	}
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOWAIT), 0);
	kind = death_of(pid, code_readable);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return kind;
}

static void real_children_die_as_they_should_look(void **state)
{
	assert_int_equal(death_of_child(exit_0, true), CLOSE_CLEAN);
	assert_int_equal(death_of_child(exit_3, true), CLOSE_DYING);
	assert_int_equal(death_of_child(die_of_sigkill, true), CLOSE_DYING);
	assert_int_equal(death_of_child(die_of_sigterm_from_a_thread, true), CLOSE_DYING);
	assert_int_equal(death_of_child(exit_0, false), CLOSE_UNKNOWN);
}

static void a_living_process_closes_cleanly(void **state)
{
	assert_int_equal(death_of(getpid(), true), CLOSE_CLEAN);
	assert_int_equal(death_of(getpid(), false), CLOSE_CLEAN);
}

static void a_process_that_cannot_be_seen_is_unknown(void **state)
{
	assert_int_equal(death_of(0, true), CLOSE_UNKNOWN);
	assert_int_equal(death_of(INT32_MAX, true), CLOSE_UNKNOWN);
}

static void *tgid_of_this_thread(void *out)
{
	*(pid_t *)out = death_tgid((pid_t)syscall(SYS_gettid));
	return NULL;
}

static void a_thread_belongs_to_its_process(void **state)
{
	pthread_t thread;
	pid_t tgid = 0;

	assert_int_equal(pthread_create(&thread, NULL, tgid_of_this_thread, &tgid), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(tgid, getpid());
	assert_int_equal(death_tgid(0), 0);
	assert_int_equal(death_tgid(INT32_MAX), INT32_MAX);
}

static void the_probe_says_what_its_own_child_shows(void **state)
{
	/* as root or not: our own child's code is always ours to see, where /proc is there */
	assert_true(death_probe());
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and it left no zombie behind */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_texts_follow_their_table),
		cmocka_unit_test(the_tgid_is_read_from_a_status_text),
		cmocka_unit_test(real_children_die_as_they_should_look),
		cmocka_unit_test(a_living_process_closes_cleanly),
		cmocka_unit_test(a_process_that_cannot_be_seen_is_unknown),
		cmocka_unit_test(a_thread_belongs_to_its_process),
		cmocka_unit_test(the_probe_says_what_its_own_child_shows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
