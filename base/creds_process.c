/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credential_process: a command of the user's that prints keys as JSON.  Its standard error stays
 * ours, so that what it has to say reaches the user without passing through our hands.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/creds_source.h"
#include "base/oom.h"
#include "base/wipe.h"

#define TIMEOUT_NS (60 * NS_PER_S)
#define REAP_NS    (10 * NS_PER_MS)
enum { OUTPUT_MOST = 64 * 1024, READ_SIZE = 4096 };

struct child {
	pid_t pid;
	struct buf out;
	bool over; /* reading has ended, for whichever reason */
	bool eof;
};

/* ---- starting ---- */

/* A fresh process: no blocked or ignored signals, a group of its own to be killed by. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
	sigset_t none;
	sigset_t all;

	(void)sigemptyset(&none); /* neither can fail */
	(void)sigfillset(&all);
	posix_spawnattr_setsigmask(attributes, &none);
	posix_spawnattr_setsigdefault(attributes, &all);
	posix_spawnattr_setpgroup(attributes, 0);
	return posix_spawnattr_setflags(attributes, flags);
}

static int spawn(const char *command, int out_fd, pid_t *pid)
{
	char shell[] = "/bin/sh";
	char option[] = "-c";
	char *argv[] = {shell, option, (char *)command, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int rc = posix_spawn_file_actions_init(&files);

	if (rc != 0)
		return -rc;
	rc = posix_spawnattr_init(&attributes);
	if (rc == 0) {
		rc = set_attributes(&attributes);
		if (rc == 0)
			rc = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
							      O_RDONLY, 0);
		if (rc == 0)
			rc = posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
		if (rc == 0)
			rc = posix_spawn(pid, shell, &files, &attributes, argv, environ);
		(void)posix_spawnattr_destroy(&attributes); /* cannot fail */
	}
	(void)posix_spawn_file_actions_destroy(&files); /* cannot fail */
	return -rc;
}

/* ---- reading ---- */

static void child_readable(struct loop_watch *w, unsigned events)
{
	struct child *c = w->arg;
	uint8_t block[READ_SIZE];
	ssize_t got = read(w->fd, block, sizeof(block));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->eof = got <= 0;
	if (got > 0)
		buf_add(&c->out, block, (size_t)got);
	c->over = c->eof || !buf_ok(&c->out) || c->out.len > OUTPUT_MOST;
	OPENSSL_cleanse(block, sizeof(block));
}

static void child_late(struct loop_timer *t)
{
	struct child *c = t->arg;

	c->over = true;
}

static int read_child(struct creds_ask *a, struct child *c, int fd, uint64_t until_ns,
		      struct fault *f)
{
	struct loop_watch w = {.fd = fd, .ready = child_readable, .arg = c};
	struct loop_timer late = {.fire = child_late, .arg = c};
	int rc = loop_watch(a->thread.loop, &w, POLLIN);

	if (rc < 0)
		return fault_errno(f, rc, "reading its output");
	loop_timer_start(a->thread.loop, &late, until_ns);
	(void)ask_wait(&a->thread, &c->over); /* closed: not at its end, which is looked at below */
	loop_timer_stop(a->thread.loop, &late);
	(void)loop_watch(a->thread.loop, &w, 0); /* taking away cannot fail */
	if (c->eof)
		return 0;
	if (a->thread.stopping)
		return fault_set(f, -ECANCELED, FAULT_FINAL, "closed");
	if (c->out.len > OUTPUT_MOST || !buf_ok(&c->out))
		return fault_set(f, -EPROTO, FAULT_FINAL, "prints more than %d bytes", OUTPUT_MOST);
	return fault_set(f, -ETIMEDOUT, FAULT_SOON, "did not end within %d s",
			 (int)(TIMEOUT_NS / NS_PER_S));
}

/* ---- ending ---- */

/* The exit status; a child that has closed its output and runs on is waited for, then killed. */
static int reap(struct creds_ask *a, struct child *c, bool kill_now, uint64_t until_ns)
{
	int status = 0;
	pid_t got = 0;

	while (!kill_now && (got = waitpid(c->pid, &status, WNOHANG)) == 0)
		kill_now = clock_mono(a->clock) > until_ns || !ask_pause(&a->thread, REAP_NS);
	if (kill_now && got == 0) {
		(void)kill(-c->pid, SIGKILL); /* the group may have ended */
		do
			got = waitpid(c->pid, &status, 0);
		while (got < 0 && errno == EINTR);
	}
	return status;
}

static int judge(int status, struct fault *f)
{
	if (WIFSIGNALED(status))
		return fault_set(f, -EACCES, FAULT_FINAL, "was killed by signal %d",
				 WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return fault_set(f, -EACCES, FAULT_FINAL,
				 "ended with status %d (its words are on standard error)",
				 WEXITSTATUS(status));
	return 0;
}

static int run(struct creds_ask *a, const char *command, struct child *c, struct fault *f)
{
	uint64_t until_ns = clock_mono(a->clock) + TIMEOUT_NS;
	scoped(fd_close) int read_fd = -1;
	int fds[2];
	int status;
	int rc;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fault_errno(f, -errno, "pipe");
	read_fd = fds[0];
	rc = spawn(command, fds[1], &c->pid);
	if (rc == 0)
		oom_not_for(c->pid);
	fd_close(fds[1]);
	if (rc < 0)
		return fault_errno(f, rc, "/bin/sh");
	(void)fcntl(read_fd, F_SETFL, O_NONBLOCK); /* a pipe takes it */
	rc = read_child(a, c, read_fd, until_ns, f);
	status = reap(a, c, rc < 0, until_ns);
	return rc < 0 ? rc : judge(status, f);
}

/* ---- the source ---- */

static const char *command_of(const struct aws_conf *c, const char *profile)
{
	return aws_conf_get(c, profile, "credential_process");
}

static bool process_applies(const struct aws_conf *c, const char *profile)
{
	return command_of(c, profile) != NULL;
}

static int process_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
			 struct fault *f)
{
	struct child c = {.out = BUF_EMPTY};
	int rc = run(a, command_of(a->conf, profile), &c, f);

	if (rc == 0)
		rc = creds_set_from_json(out, &c.out, "SessionToken",
					 clock_wall(a->clock) / (int64_t)NS_PER_S, f);
	buf_wipe(&c.out);
	if (rc < 0)
		return fault_in(f, "credential_process of profile %s", profile);
	(void)snprintf(a->source, sizeof(a->source), "credential_process of profile %s",
		       profile); /* may be cut */
	return 0;
}

const struct creds_source creds_process = {
	.name = "credential_process",
	.applies = process_applies,
	.fetch = process_fetch,
};
