/* SPDX-License-Identifier: Apache-2.0 */
/* See ending.h. */
#include "tools/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define KEPT_EACH_MS 1000

/* ---- the conversation ---- */

static bool says(const json_t *answer, const char *what)
{
	return json_is_true(json_object_get(answer, what));
}

static void tell_progress(const struct ending *e, const json_t *answer)
{
	const json_t *left = json_object_get(answer, "left");
	const char *why = json_string_value(json_object_get(answer, "why"));

	if (e->progress && json_is_integer(left) && json_integer_value(left) >= 0)
		e->progress(e->arg, (uint64_t)json_integer_value(left), why ? why : "");
}

/*
 * The mount keeps the time.  But once it is unmounted here it may live on in another place, for as
 * long as that is there, and has nothing more to say.
 */
static int hear(struct client *c, struct ending *e, json_t **answer, struct fault *f)
{
	int rc;

	if (!e->unmounted || !e->kept)
		return client_answer(c, CLIENT_FOREVER, answer, f);
	for (;;) {
		rc = client_answer(c, KEPT_EACH_MS, answer, f);
		if (rc != -ETIMEDOUT)
			return rc;
		*f = FAULT_NONE;
		rc = e->kept(e->arg, f);
		if (rc < 0)
			return rc;
	}
}

/* One answer.  1: there is more to come. */
static int step(struct client *c, struct ending *e, struct fault *f)
{
	scoped(json_unref) json_t *answer = NULL;
	int rc = hear(c, e, &answer, f);

	if (rc == 0)
		rc = client_error(answer, f);
	if (rc < 0)
		return rc;
	if (says(answer, "done"))
		return 0;
	if (says(answer, "ready") && !e->unmounted) {
		rc = e->unmount(e->arg, f);
		e->unmounted = rc == 0;
	} else {
		tell_progress(e, answer);
	}
	return rc < 0 ? rc : 1;
}

int ending_run(struct client *c, struct ending *e, struct fault *f)
{
	int rc = client_ask(c, f, "end %.3f %s", e->timeout_s, e->discard ? "discard" : "keep");

	e->unmounted = false;
	if (rc < 0)
		return rc;
	do {
		rc = step(c, e, f);
	} while (rc == 1);
	return rc;
}

/* ---- unmounting ---- */

/* Start fusermount3; *err is where its complaints can be read. */
static int start_helper(const char *dir, bool lazy, pid_t *pid, int *err, struct fault *f)
{
	extern char **environ;
	char *const argv[] = {"fusermount3", lazy ? "-uz" : "-u", "--", (char *)dir, NULL};
	posix_spawn_file_actions_t files;
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fault_errno(f, -errno, "pipe");
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
	rc = -posix_spawnp(pid, argv[0], &files, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&files);
	fd_close(ends[1]);
	if (rc < 0) {
		fd_close(ends[0]);
		return fault_errno(f, rc, "fusermount3");
	}
	*err = ends[0];
	return 0;
}

static void read_complaint(int fd, char *text, size_t cap)
{
	size_t n = 0;
	ssize_t got;

	while (n + 1 < cap && (got = read(fd, text + n, cap - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

static int helper_unmount(const char *dir, bool lazy, struct fault *f)
{
	scoped(fd_close) int err = -1;
	char text[200];
	int status = 0, rc;
	pid_t pid;

	rc = start_helper(dir, lazy, &pid, &err, f);
	if (rc < 0)
		return rc;
	read_complaint(err, text, sizeof(text));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fault_errno(f, -errno, "fusermount3");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (strstr(text, strerror(EBUSY)))
		return fault_errno(f, -EBUSY, "unmount");
	return fault_set(f, -EPERM, FAULT_FINAL, "%s",
			 *text ? text : "fusermount3 failed without a word");
}

int ending_unmount(const char *dir, int flags, struct fault *f)
{
	if (umount2(dir, flags | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM || flags & MNT_FORCE)
		return fault_errno(f, -errno, "unmount");
	return helper_unmount(dir, flags & MNT_DETACH, f);
}
