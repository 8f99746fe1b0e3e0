/* SPDX-License-Identifier: Apache-2.0 */
/* A server of one thread: accept, read, answer, close. */
#include "tests/unit/base/fake_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { REQUEST_MOST = 65536 };

static size_t body_len(const char *request)
{
	const char *at = strcasestr(request, "\r\ncontent-length:");

	return at ? strtoul(at + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

static bool is_whole(const char *request)
{
	const char *end = strstr(request, "\r\n\r\n");

	return end && strlen(end + 4) >= body_len(request);
}

/* To be freed; NULL if the client went away. */
static char *read_request(int fd)
{
	char *text = calloc(1, REQUEST_MOST);
	size_t len = 0;

	while (text && !is_whole(text)) {
		ssize_t got = read(fd, text + len, REQUEST_MOST - 1 - len);

		if (got <= 0) {
			free(text);
			return NULL;
		}
		len += (size_t)got;
	}
	return text;
}

static void keep_request(struct fake_http *s, char *request)
{
	pthread_mutex_lock(&s->lock);
	if (s->count < FAKE_MOST)
		s->requests[s->count] = request;
	else
		free(request);
	s->count++;
	pthread_mutex_unlock(&s->lock);
}

static void hold(struct fake_http *s, int fd)
{
	pthread_mutex_lock(&s->lock);
	if (s->held < FAKE_MOST)
		s->silent[s->held++] = fd;
	else
		(void)close(fd); /* a test that needs more is wrong */
	pthread_mutex_unlock(&s->lock);
}

static void serve(struct fake_http *s, int fd)
{
	char *request = read_request(fd);
	char *reply;

	if (!request) {
		(void)close(fd); /* gone anyway */
		return;
	}
	reply = s->answer(s->arg, request);
	keep_request(s, request);
	if (!reply) {
		hold(s, fd);
		return;
	}
	(void)!send(fd, reply, strlen(reply),
		    MSG_NOSIGNAL); /* small: whole, or the client is gone */
	free(reply);
	(void)shutdown(fd, SHUT_WR);
	(void)close(fd);
}

static void *server_main(void *arg)
{
	struct fake_http *s = arg;
	struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN},
			       {.fd = s->stop_fd, .events = POLLIN}};

	while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		int fd = accept(s->fd, NULL, NULL);

		if (fd >= 0)
			serve(s, fd);
	}
	return NULL;
}

void fake_http_start(struct fake_http *s, char *(*answer)(void *, const char *), void *arg)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	*s = (struct fake_http){.answer = answer, .arg = arg};
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(s->fd >= 0 && s->stop_fd >= 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	pthread_mutex_init(&s->lock, NULL);
	assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

void fake_http_stop(struct fake_http *s)
{
	uint64_t one = 1;

	assert_int_equal(write(s->stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(s->thread, NULL);
	for (size_t i = 0; i < s->count && i < FAKE_MOST; i++)
		free(s->requests[i]);
	for (size_t i = 0; i < s->held; i++)
		(void)close(s->silent[i]);
	(void)close(s->fd);
	(void)close(s->stop_fd);
	pthread_mutex_destroy(&s->lock);
}

size_t fake_http_count(struct fake_http *s)
{
	size_t count;

	pthread_mutex_lock(&s->lock);
	count = s->count;
	pthread_mutex_unlock(&s->lock);
	return count;
}

char *fake_http_request(struct fake_http *s, size_t i)
{
	char *copy = NULL;

	pthread_mutex_lock(&s->lock);
	if (i < s->count)
		copy = strdup(s->requests[i]);
	pthread_mutex_unlock(&s->lock);
	assert_non_null(copy);
	return copy;
}

char *fake_http_reply(int status, const char *headers, const char *body)
{
	char *out = NULL;

	if (asprintf(&out, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n%s",
		     status, strlen(body), headers, body) < 0)
		abort();
	return out;
}
