/* SPDX-License-Identifier: Apache-2.0 */
/* See client.h. */
#include "tools/client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/clock.h"

#define SOCKET_XATTR     "user.holdfast.socket"
#define FUSE_MAGIC       0x65735546
#define PIECE            4096
#define ANSWER_MOST      (1u << 20) /* a line; statuses are a few KiB */
#define STATUS_WITHIN_MS 10000

/* ---- finding the mount ---- */

/* Why `path` leads to no socket. */
static int no_socket(const char *path, int code, struct fault *f)
{
	switch (code) {
	case -ENODATA:
	case -EOPNOTSUPP:
		return fault_set(f, -ENOTTY, FAULT_FINAL, "%s is not on a holdfast mount", path);
	case -ENOTCONN:
	case -ECONNABORTED:
		return fault_set(f, -ENOTCONN, FAULT_FINAL,
				 "%s: the mount's daemon is gone; unmount it, then mount it again",
				 path);
	default:
		return fault_errno(f, code, "%s", path);
	}
}

static int find_socket(const char *path, char out[sizeof(((struct sockaddr_un *)0)->sun_path)],
		       struct fault *f)
{
	struct statfs fs;
	ssize_t len;

	if (statfs(path, &fs) < 0)
		return no_socket(path, -errno, f);
	/* Elsewhere anybody may set an attribute of that name. */
	if (fs.f_type != FUSE_MAGIC)
		return no_socket(path, -ENODATA, f);
	len = getxattr(path, SOCKET_XATTR, out, sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	if (len < 0)
		return no_socket(path, -errno, f);
	out[len] = '\0';
	return 0;
}

int client_connect(const char *socket_path, struct client *out, struct fault *f)
{
	scoped(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (fd < 0)
		return fault_errno(f, -errno, "socket");
	if (strlen(socket_path) >= sizeof(at.sun_path))
		return fault_errno(f, -ENAMETOOLONG, "%s", socket_path);
	(void)strcpy(at.sun_path, socket_path);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
		if (errno == EACCES || errno == EPERM)
			return fault_set(f, -EACCES, FAULT_FINAL,
					 "%s: only root and the user who mounted may ask",
					 socket_path);
		if (errno == ECONNREFUSED || errno == ENOENT)
			return fault_set(f, -ENOTCONN, FAULT_FINAL,
					 "%s: nobody listens; the mount is ending", socket_path);
		return fault_errno(f, -errno, "%s", socket_path);
	}
	*out = (struct client){.fd = take_fd(&fd), .stop_fd = -1};
	return 0;
}

int client_open(const char *path, struct client *out, struct fault *f)
{
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int rc = find_socket(path, socket_path, f);

	return rc < 0 ? rc : client_connect(socket_path, out, f);
}

void client_close(struct client *c)
{
	fd_close(take_fd(&c->fd));
	buf_fini(&c->got);
}

int client_process(const struct client *c)
{
	struct ucred peer = {.pid = 0};
	socklen_t len = sizeof(peer);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		return -1;
	return (int)syscall(SYS_pidfd_open, peer.pid, 0); /* glibc has a name for it since 2.36 */
}

/* ---- asking ---- */

static int hung_up(struct fault *f)
{
	return fault_set(f, -EPIPE, FAULT_FINAL, "the mount hung up without a word");
}

int client_ask(struct client *c, struct fault *f, const char *fmt, ...)
{
	char line[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line) - 1)
		return fault_errno(f, -E2BIG, "request");
	line[n] = '\n';
	if (send(c->fd, line, (size_t)n + 1, MSG_NOSIGNAL) != n + 1)
		return hung_up(f);
	return 0;
}

/* Wait for more bytes. */
static int receive(struct client *c, uint64_t deadline_ns, struct fault *f)
{
	struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->stop_fd, .events = POLLIN}};
	uint64_t now = clock_mono(&clock_system);
	int wait_ms = -1, ready;
	ssize_t got;

	if (deadline_ns)
		wait_ms = deadline_ns > now ? (int)((deadline_ns - now) / NS_PER_MS) + 1 : 0;
	ready = poll(p, 2, wait_ms);
	if (ready < 0)
		return errno == EINTR ? 0 : fault_errno(f, -errno, "control socket");
	if (ready == 0)
		return fault_set(f, -ETIMEDOUT, FAULT_SOON, "the mount does not answer");
	if (p[1].revents)
		return fault_set(f, -EINTR, FAULT_FINAL, "interrupted");
	if (buf_reserve(&c->got, PIECE) < 0)
		return fault_errno(f, -ENOMEM, "control socket");
	got = recv(c->fd, c->got.data + c->got.len, PIECE, 0);
	if (got <= 0)
		return hung_up(f);
	c->got.len += (size_t)got;
	return c->got.len > ANSWER_MOST
		       ? fault_set(f, -EPROTO, FAULT_FINAL, "the mount's answer has no end")
		       : 0;
}

static int read_line(struct client *c, int timeout_ms, char **out, struct fault *f)
{
	uint64_t deadline_ns =
		timeout_ms < 0 ? 0 : clock_mono(&clock_system) + (uint64_t)timeout_ms * NS_PER_MS;
	const uint8_t *end;
	size_t len;

	while (!c->got.len || !(end = memchr(c->got.data, '\n', c->got.len))) {
		int rc = receive(c, deadline_ns, f);

		if (rc < 0)
			return rc;
	}
	len = (size_t)(end - c->got.data);
	*out = strndup((const char *)c->got.data, len);
	if (!*out)
		return fault_errno(f, -ENOMEM, "control socket");
	c->got.len -= len + 1;
	memmove(c->got.data, end + 1, c->got.len);
	return 0;
}

static int answer(struct client *c, int timeout_ms, char **text, json_t **out, struct fault *f)
{
	scoped(free) char *line = NULL;
	scoped(json_unref) json_t *j = NULL;
	int rc = read_line(c, timeout_ms, &line, f);

	if (rc < 0)
		return rc;
	j = json_loads(line, 0, NULL);
	if (!json_is_object(j))
		return fault_set(f, -EPROTO, FAULT_FINAL, "the mount answered '%.60s'", line);
	*out = take(&j);
	if (text)
		*text = take(&line);
	return 0;
}

int client_answer(struct client *c, int timeout_ms, json_t **out, struct fault *f)
{
	return answer(c, timeout_ms, NULL, out, f);
}

int client_status(const char *path, char **text, json_t **out, struct fault *f)
{
	scoped(client_close) struct client c = CLIENT_NONE;
	int rc = client_open(path, &c, f);

	if (rc < 0)
		return rc;
	rc = client_ask(&c, f, "status");
	if (rc == 0)
		rc = answer(&c, STATUS_WITHIN_MS, text, out, f);
	return rc < 0 ? fault_in(f, "%s", path) : 0;
}

int client_error(const json_t *j, struct fault *f)
{
	const char *text = json_string_value(json_object_get(j, "error"));
	json_int_t code = json_integer_value(json_object_get(j, "code"));

	if (!text)
		return 0;
	return fault_set(f, code > 0 && code < 4096 ? -(int)code : -EIO, FAULT_FINAL, "%s", text);
}
