/* SPDX-License-Identifier: Apache-2.0 */
/* Of what does the process die that closes a file?  Read from /proc while its FLUSH waits. */
#include "fs/track/death.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"

#define PF_EXITING 0x4u /* include/linux/sched.h: in do_exit() */

/* Fields of proc(5), counted from the state, which is number 3 and the first behind the name. */
enum { FIELD_STATE = 3, FIELD_FLAGS = 9, FIELD_PENDING = 31, FIELD_EXIT_CODE = 52 };

/* Field number n of a stat text.  The name may hold spaces and brackets: the last ')' ends it. */
static bool stat_field(const char *text, int n, uint64_t *out)
{
	const char *at = strrchr(text, ')');
	char *end;

	if (!at)
		return false;
	at++;
	for (int field = FIELD_STATE; field < n; field++) {
		at += strspn(at, " ");
		at += strcspn(at, " \n");
	}
	at += strspn(at, " ");
	if (*at < '0' || *at > '9')
		return false;
	errno = 0;
	*out = strtoull(at, &end, 10);
	return errno == 0 && (*end == ' ' || *end == '\n' || *end == '\0');
}

enum close_kind death_parse_stat(const char *text, bool code_readable)
{
	uint64_t flags, pending = 0, exit_code;

	if (!stat_field(text, FIELD_FLAGS, &flags))
		return CLOSE_UNKNOWN;
	/* Whatever fatal signal a process gets, the kernel makes it a SIGKILL to each of its threads. */
	if (!(flags & PF_EXITING))
		return stat_field(text, FIELD_PENDING, &pending) && pending & (1u << (SIGKILL - 1)) ? CLOSE_DYING : CLOSE_CLEAN;
	if (!code_readable || !stat_field(text, FIELD_EXIT_CODE, &exit_code))
		return CLOSE_UNKNOWN;
	return exit_code == 0 ? CLOSE_CLEAN : CLOSE_DYING;
}

pid_t death_parse_tgid(const char *text)
{
	const char *at = strstr(text, "\nTgid:");
	long tgid;

	if (!at)
		return 0;
	tgid = strtol(at + strlen("\nTgid:"), NULL, 10);
	return tgid > 0 && tgid <= INT32_MAX ? (pid_t)tgid : 0;
}

/* A whole small file of /proc/PID as text. */
static bool proc_text(pid_t pid, const char *file, char *out, size_t out_size)
{
	char path[64];
	scoped(fd_close) int fd = -1;
	ssize_t got;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file); /* fits */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	do {
		got = read(fd, out, out_size - 1);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		return false;
	out[got] = '\0';
	return true;
}

/*
 * Does the kernel show us the secrets of this task?  The rule for exit_code is the one for the
 * link `cwd`, which a task loses only after its files; what is refused there reads as 0 in stat.
 */
static bool proc_is_open_to_us(pid_t pid)
{
	char path[64], target[1];

	(void)snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid); /* fits */
	return readlink(path, target, sizeof(target)) >= 0 || (errno != EACCES && errno != EPERM);
}

enum close_kind death_of(pid_t pid, bool code_readable)
{
	char text[1024];

	if (pid <= 0 || !proc_text(pid, "stat", text, sizeof(text)))
		return CLOSE_UNKNOWN;
	if (death_parse_stat(text, false) == CLOSE_CLEAN)
		return CLOSE_CLEAN; /* lives: the common case, one file read */
	return death_parse_stat(text, code_readable && proc_is_open_to_us(pid));
}

pid_t death_tgid(pid_t pid)
{
	char text[512]; /* Tgid is the fourth or fifth line */
	pid_t tgid;

	if (pid <= 0 || !proc_text(pid, "status", text, sizeof(text)))
		return pid;
	tgid = death_parse_tgid(text);
	return tgid ? tgid : pid;
}

bool death_probe(void)
{
	siginfo_t gone;
	uint64_t exit_code = 0;
	char text[1024];
	pid_t pid = fork();
	bool read_it;

	if (pid < 0)
		return false;
	if (pid == 0)
		_exit(3);
	while (waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	/* a zombie now: its stat is what a FLUSH in exit() would have seen */
	read_it = proc_text(pid, "stat", text, sizeof(text)) &&
		  stat_field(text, FIELD_EXIT_CODE, &exit_code) && exit_code == 3 << 8;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return read_it;
}
