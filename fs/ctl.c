/* SPDX-License-Identifier: Apache-2.0 */
/* See ctl.h. */
#include "fs/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cond.h"
#include "base/jsontext.h"
#include "fs/commit.h"
#include "fs/notice/heed.h"
#include "fs/status.h"

#define CONNECTIONS_MOST 16
#define LINE_MOST 128
#define PROGRESS_MS 500
#define ASK_WITHIN_S 5 /* who connects and says nothing must not keep us from ending */

struct ctl {
	struct mount *m;
	int fd;
	int wake[2]; /* a byte in it ends the thread */
	pthread_t thread;
	bool running;
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned connections;
	bool ending, discard, ended;
	uint64_t deadline_ns;
	int rc;
	struct fault fault;
};

struct connection {
	struct ctl *ctl;
	int fd;
};

/* ---- answers ---- */

static void say(int fd, json_t *j)
{
	scoped(free) char *text = json_dumps(j, JSON_COMPACT);
	scoped(free) char *line = NULL;

	json_decref(j);
	if (text && asprintf(&line, "%s\n", text) > 0)
		(void)!send(fd, line, strlen(line), MSG_NOSIGNAL); /* who went away needs no answer */
}

static void say_done(int fd, int rc, const struct fault *f)
{
	if (rc == 0)
		say(fd, json_pack("{s:b}", "done", 1));
	else
		say(fd, json_pack("{s:o,s:i}", "error", json_text(f->text), "code", -rc));
}

static void answer_status(struct connection *c)
{
	scoped(free) char *text = status_json(c->ctl->m);

	if (text && send(c->fd, text, strlen(text), MSG_NOSIGNAL) >= 0)
		(void)!send(c->fd, "\n", 1, MSG_NOSIGNAL);
}

static uint64_t deadline_of(struct mount *m, double seconds)
{
	return seconds > 0 ? mount_now(m) + (uint64_t)(seconds * 1e9) : 0;
}

/* ---- waiting for an acknowledgement ---- */

struct syncing {
	struct mount *m;
	uint64_t deadline_ns;
	int rc;
	struct fault fault;
	_Atomic bool done, given_up;
};

static void *sync_main(void *arg)
{
	struct syncing *s = arg;

	s->rc = committer_sync(s->m, s->deadline_ns, &s->given_up, &s->fault);
	s->done = true;
	return NULL;
}

static void say_progress(struct connection *c)
{
	struct commit_status st;

	committer_status(c->ctl->m, &st);
	say(c->fd, json_pack("{s:I,s:o}", "left", (json_int_t)st.dirty_bytes, "why",
			     json_text(st.trouble.text[0] ? st.trouble.text : st.holder)));
}

static bool hung_up(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/*
 * Sync beside saying how much is left, if that is wanted.  Who hangs up (Ctrl-C) waits no more: his wait would hurry
 * commits for ever, and hold one of few connections.
 */
static int sync_for(struct connection *c, uint64_t deadline_ns, bool progress, struct fault *f)
{
	struct syncing s = {.m = c->ctl->m, .deadline_ns = deadline_ns};
	pthread_t t;

	if (pthread_create(&t, NULL, sync_main, &s) != 0)
		return committer_sync(s.m, deadline_ns, NULL, f);
	for (unsigned waited_ms = 0; !s.done; waited_ms += 20) {
		if (progress && waited_ms && waited_ms % PROGRESS_MS == 0)
			say_progress(c);
		if (!s.given_up && hung_up(c->fd)) {
			s.given_up = true;
			committer_look(s.m);
		}
		(void)poll(NULL, 0, 20);
	}
	(void)pthread_join(t, NULL);
	*f = s.fault;
	return s.rc;
}

static void answer_sync(struct connection *c, double seconds)
{
	struct fault f = FAULT_NONE;
	int rc = sync_for(c, deadline_of(c->ctl->m, seconds), false, &f);

	say_done(c->fd, rc, &f);
}

/* ---- notices ---- */

static void answer_notice(struct connection *c, const char *what, double seconds)
{
	struct mount *m = c->ctl->m;
	struct fault f = FAULT_NONE;
	int rc;

	if (strcmp(what, "cancel") == 0)
		rc = heed_cancel(m);
	else if (strcmp(what, "answered") == 0)
		rc = heed_answered(m);
	else
		rc = heed_tell(m, (uint64_t)(seconds * 1e9));
	if (rc == -ESRCH)
		(void)fault_set(&f, rc, FAULT_FINAL, "no notice runs: nobody was asked to save");
	else if (rc < 0)
		(void)fault_set(&f, rc, FAULT_FINAL, "the mount only looks: there is nothing to flush");
	say_done(c->fd, rc, &f);
}

/* ---- the end ---- */

static void answer_end(struct connection *c, double seconds, bool discard)
{
	struct ctl *ctl = c->ctl;
	struct fault f = FAULT_NONE;
	uint64_t deadline_ns = deadline_of(ctl->m, seconds);
	int rc = discard ? 0 : sync_for(c, deadline_ns, true, &f);

	if (rc < 0) {
		say_done(c->fd, rc, &f);
		return;
	}
	pthread_mutex_lock(&ctl->lock);
	ctl->ending = true;
	ctl->discard = discard;
	ctl->deadline_ns = deadline_ns;
	pthread_mutex_unlock(&ctl->lock);
	say(c->fd, json_pack("{s:b}", "ready", 1));

	/* The other side unmounts; if that fails (busy) it hangs up, and the mount goes on. */
	pthread_mutex_lock(&ctl->lock);
	while (!ctl->ended) {
		(void)cond_wait_until(&ctl->changed, &ctl->lock, mount_now(ctl->m) + NS_PER_S);
		if (!ctl->ended && hung_up(c->fd)) {
			ctl->ending = false;
			break;
		}
	}
	rc = ctl->rc;
	f = ctl->fault;
	pthread_mutex_unlock(&ctl->lock);
	say_done(c->fd, rc, &f);
}

/* ---- connections ---- */

static bool read_line(int fd, char *line, size_t cap)
{
	size_t n = 0;

	while (n + 1 < cap) {
		ssize_t got = recv(fd, line + n, 1, 0);

		if (got <= 0)
			return false;
		if (line[n] == '\n') {
			line[n] = '\0';
			return true;
		}
		n++;
	}
	return false;
}

static void answer(struct connection *c, const char *line)
{
	double seconds = 0;
	char how[16] = "";

	if (strcmp(line, "status") == 0)
		answer_status(c);
	else if (sscanf(line, "sync %lf", &seconds) == 1)
		answer_sync(c, seconds);
	else if (sscanf(line, "end %lf %15s", &seconds, how) == 2)
		answer_end(c, seconds, strcmp(how, "discard") == 0);
	else if (sscanf(line, "notice %15s %lf", how, &seconds) == 2)
		answer_notice(c, how, seconds);
	else
		say(c->fd, json_pack("{s:s,s:i}", "error", "not a request", "code", EINVAL));
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;
	struct ctl *ctl = c->ctl;
	char line[LINE_MOST];

	if (read_line(c->fd, line, sizeof(line)))
		answer(c, line);
	fd_close(c->fd);
	free(c);
	pthread_mutex_lock(&ctl->lock);
	ctl->connections--;
	pthread_cond_broadcast(&ctl->changed);
	pthread_mutex_unlock(&ctl->lock);
	return NULL;
}

static void accept_one(struct ctl *ctl)
{
	scoped(fd_close) int fd = accept4(ctl->fd, NULL, NULL, SOCK_CLOEXEC);
	struct connection *c;
	pthread_t t;
	bool room;

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = ASK_WITHIN_S}, sizeof(struct timeval));
	pthread_mutex_lock(&ctl->lock);
	room = ctl->connections < CONNECTIONS_MOST;
	ctl->connections += room;
	pthread_mutex_unlock(&ctl->lock);
	c = room ? calloc(1, sizeof(*c)) : NULL;
	if (c) {
		*c = (struct connection){.ctl = ctl, .fd = fd};
		if (pthread_create(&t, NULL, connection_main, c) == 0) {
			(void)pthread_detach(t);
			(void)take_fd(&fd);
			return;
		}
		free(c);
	}
	if (room) {
		pthread_mutex_lock(&ctl->lock);
		ctl->connections--;
		pthread_mutex_unlock(&ctl->lock);
	}
}

static void *ctl_main(void *arg)
{
	struct ctl *ctl = arg;
	struct pollfd p[2] = {{.fd = ctl->fd, .events = POLLIN}, {.fd = ctl->wake[0], .events = POLLIN}};

	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (p[1].revents)
			return NULL;
		if (p[0].revents)
			accept_one(ctl);
	}
}

/* ---- opening, closing ---- */

/* /run/holdfast/PID, or the user's runtime directory. */
static int socket_path(struct mount *m, struct fault *f)
{
	const char *run = geteuid() == 0 ? NULL : getenv("XDG_RUNTIME_DIR");
	char dir[64];
	struct stat st;

	if (geteuid() == 0)
		(void)snprintf(dir, sizeof(dir), "/run/holdfast");
	else if (run && run[0] == '/' && strlen(run) < sizeof(dir) - 10)
		(void)snprintf(dir, sizeof(dir), "%s/holdfast", run);
	else
		(void)snprintf(dir, sizeof(dir), "/tmp/holdfast-%u", geteuid());
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return fault_errno(f, -errno, "%s", dir);
	if (lstat(dir, &st) < 0)
		return fault_errno(f, -errno, "%s", dir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) /* who owns it could put a socket of his there */
		return fault_set(f, -EPERM, FAULT_FINAL, "%s is not a directory of ours", dir);
	(void)snprintf(m->socket, sizeof(m->socket), "%s/%ld", dir, (long)getpid());
	return 0;
}

int ctl_open(struct mount *m, struct ctl **out, struct fault *f)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct ctl *c = calloc(1, sizeof(*c));
	int rc = c ? socket_path(m, f) : fault_errno(f, -ENOMEM, "control socket");

	if (rc < 0) {
		free(c);
		return rc;
	}
	*c = (struct ctl){.m = m, .wake = {-1, -1}};
	(void)pthread_mutex_init(&c->lock, NULL);
	cond_init(&c->changed);
	memcpy(at.sun_path, m->socket, sizeof(at.sun_path));
	(void)unlink(m->socket);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || bind(c->fd, (struct sockaddr *)&at, sizeof(at)) < 0 || chmod(m->socket, 0600) < 0 ||
	    listen(c->fd, CONNECTIONS_MOST) < 0 || pipe2(c->wake, O_CLOEXEC) < 0) {
		rc = fault_errno(f, -errno, "control socket %s", m->socket);
		ctl_close(c, rc, f);
		return rc;
	}
	*out = c;
	return 0;
}

int ctl_run(struct ctl *c, struct fault *f)
{
	int rc = -pthread_create(&c->thread, NULL, ctl_main, c);

	c->running = rc == 0;
	return rc < 0 ? fault_errno(f, rc, "control thread") : 0;
}

bool ctl_ending(struct ctl *c, uint64_t *deadline_ns, bool *discard)
{
	bool ending;

	pthread_mutex_lock(&c->lock);
	ending = c->ending;
	*deadline_ns = c->deadline_ns;
	*discard = c->discard;
	pthread_mutex_unlock(&c->lock);
	return ending;
}

void ctl_close(struct ctl *c, int rc, const struct fault *f)
{
	if (!c)
		return;
	if (c->running) {
		(void)!write(c->wake[1], "", 1);
		(void)pthread_join(c->thread, NULL);
	}
	pthread_mutex_lock(&c->lock);
	c->ended = true;
	c->rc = rc;
	c->fault = *f;
	pthread_cond_broadcast(&c->changed);
	while (c->connections)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	fd_close(c->fd);
	fd_close(c->wake[0]);
	fd_close(c->wake[1]);
	(void)unlink(c->m->socket);
	(void)pthread_cond_destroy(&c->changed);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}
