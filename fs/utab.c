/* SPDX-License-Identifier: Apache-2.0 */
/* See utab.h.  A line that cannot be written costs umount(8) its helper, no more: nothing fails. */
#include "fs/utab.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/oom.h"

#define TYPE "fuse.holdfast"

/* As a shell would start it: nothing of ours but the environment. */
static int spawn(pid_t *pid, char *const argv[])
{
	extern char **environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc;

	(void)sigemptyset(&none);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	(void)posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd < 3; fd++)
		(void)posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	rc = -posix_spawn(pid, argv[0], &files, &attr, argv, environ);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	return rc;
}

static void run(char *const argv[])
{
	pid_t pid;
	int status = 0, rc;

	if (geteuid() != 0)
		return;
	rc = spawn(&pid, argv);
	if (rc == 0)
		oom_not_for(pid);
	if (rc == 0 && waitpid(pid, &status, 0) < 0)
		return;
	if (rc < 0)
		log_debug("%s: %s; umount(8) will not wait for the store", argv[0], strerror(-rc));
}

void utab_add(const char *uri, const char *dir)
{
	/* -i: it must not call us; -f: it is mounted. */
	char *const argv[] = {"/bin/mount", "-i",      "-f",        "--no-canonicalize", "-t", TYPE,
			      "-o",         "_netdev", (char *)uri, (char *)dir,         NULL};

	run(argv);
}

void utab_remove(const char *dir)
{
	char *const argv[] = {"/bin/umount",       "-i",        "--fake",
			      "--no-canonicalize", (char *)dir, NULL};

	/* mount(8) may have added one of its own; each call removes one. */
	run(argv);
	run(argv);
}
