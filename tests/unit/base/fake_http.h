/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on 127.0.0.1 for what has to misbehave on purpose: it answers one request a
 * connection with whatever the test says, and keeps what was asked.
 */
#ifndef HOLDFAST_TESTS_FAKE_HTTP_H
#define HOLDFAST_TESTS_FAKE_HTTP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { FAKE_MOST = 256 };

struct fake_http {
	/* fixed after fake_http_start() */
	int fd;
	int stop_fd;
	unsigned port;
	pthread_t thread;
	/* The whole reply, to be freed; NULL: take the request, hold the connection, say nothing.
	 * Called on the server's thread, one request at a time. */
	char *(*answer)(void *arg, const char *request);
	void *arg;
	/* under lock */
	pthread_mutex_t lock;
	size_t count;
	char *requests[FAKE_MOST];
	size_t held;
	int silent[FAKE_MOST];
};

void fake_http_start(struct fake_http *s, char *(*answer)(void *, const char *), void *arg);
void fake_http_stop(struct fake_http *s);

size_t fake_http_count(struct fake_http *s);
/* A copy of request i, head and body; fails the test if there is none. */
char *fake_http_request(struct fake_http *s, size_t i);

/* "HTTP/1.1 STATUS X", Content-Length, Connection: close and `headers` (lines with \r\n). */
char *fake_http_reply(int status, const char *headers, const char *body);

#endif
