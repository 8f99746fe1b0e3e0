/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on 127.0.0.1 for tests of the HTTP client, that misbehaves on request.  Header-only: it
 * is compiled into one test.  The path says what it does:
 *
 *	/ok                  200, "hello"
 *	/missing             404, "no such thing"
 *	/bytes/N             200, N bytes of the pattern
 *	/count               200, "LENGTH SUM" of the body that came
 *	/cut                 200, promises 100000 bytes, sends 1000, closes
 *	/cut-chunk           the same in chunks
 *	/hang                200, sends 10 of 100 bytes, then nothing
 *	/silent              reads and says nothing
 *	/slow                200, ten bytes, one each 150 ms
 *	/die-when-kept       as /count on a new connection; a kept one ends without an answer
 *	/reset               resets the connection
 *	/garbage             does not speak HTTP
 */
#ifndef HOLDFAST_TESTS_HTTP_SERVER_H
#define HOLDFAST_TESTS_HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVER_MOST = 64, SERVER_CHUNK = 1 << 20 };

struct server_conn {
	pthread_t thread;
	struct server *server;
	int fd;
	int requests;
};

struct server {
	int fd;
	int port;
	pthread_t thread;
	atomic_int accepted;
	struct server_conn conns[SERVER_MOST];
	pthread_mutex_t lock;
	char last_head[8192]; /* under lock: the last request as it came */
};

struct server_request {
	char head[8192];
	char path[256];
	size_t length;
	uint64_t sum; /* of the body */
};

static inline uint8_t pattern_at(uint64_t i)
{
	return (uint8_t)(i * 131 + (i >> 12));
}

static inline void pattern_fill(uint8_t *out, uint64_t from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		out[i] = pattern_at(from + i);
}

/* Depends on the order of bytes, however they are cut. */
static inline uint64_t pattern_sum(uint64_t sum, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + data[i];
	return sum;
}

static bool server_send(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static bool server_text(int fd, const char *status, const char *text)
{
	char reply[512];
	int len = snprintf(
		reply, sizeof(reply),
		"HTTP/1.1 %s\r\nContent-Length: %zu\r\nX-Mixed-CASE:  some Value \r\n\r\n%s",
		status, strlen(text), text);

	return server_send(fd, reply, (size_t)len);
}

static bool server_bytes(int fd, size_t len)
{
	static const char form[] = "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n";
	uint8_t *chunk = malloc(SERVER_CHUNK);
	char head[128];
	bool ok = server_send(fd, head, (size_t)snprintf(head, sizeof(head), form, len));

	for (size_t at = 0; ok && at < len; at += SERVER_CHUNK) {
		size_t n = len - at < SERVER_CHUNK ? len - at : SERVER_CHUNK;

		pattern_fill(chunk, at, n);
		ok = server_send(fd, chunk, n);
	}
	free(chunk);
	return ok;
}

/* Until the client closes. */
static void server_wait_closed(int fd)
{
	char drop[4096];

	while (recv(fd, drop, sizeof(drop), 0) > 0)
		continue;
}

static bool server_read_head(struct server_conn *c, struct server_request *q)
{
	size_t len = 0;
	const char *field;

	q->length = 0;
	while (len < sizeof(q->head) - 1) {
		if (recv(c->fd, q->head + len, 1, 0) != 1)
			return false;
		q->head[++len] = '\0';
		if (len >= 4 && memcmp(q->head + len - 4, "\r\n\r\n", 4) == 0)
			break;
	}
	if (sscanf(q->head, "%*s %255s", q->path) != 1)
		return false;
	field = strcasestr(q->head, "\r\nContent-Length:");
	if (field)
		q->length = strtoull(field + 17, NULL, 10);
	pthread_mutex_lock(&c->server->lock);
	memcpy(c->server->last_head, q->head, sizeof(q->head));
	pthread_mutex_unlock(&c->server->lock);
	return true;
}

static bool server_read_body(struct server_conn *c, struct server_request *q, size_t most)
{
	uint8_t *chunk = malloc(SERVER_CHUNK);
	size_t left = q->length < most ? q->length : most;
	bool ok = true;

	q->sum = 0;
	while (ok && left > 0) {
		ssize_t n = recv(c->fd, chunk, left < SERVER_CHUNK ? left : SERVER_CHUNK, 0);

		ok = n > 0;
		if (ok) {
			q->sum = pattern_sum(q->sum, chunk, (size_t)n);
			left -= (size_t)n;
		}
	}
	free(chunk);
	return ok;
}

static bool server_count(struct server_conn *c, struct server_request *q)
{
	char text[64];

	if (!server_read_body(c, q, SIZE_MAX))
		return false;
	(void)snprintf(text, sizeof(text), "%zu %llu", q->length, (unsigned long long)q->sum);
	return server_text(c->fd, "200 OK", text);
}

static void server_slow(int fd)
{
	(void)server_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 39);
	for (int i = 0; i < 10; i++) {
		(void)poll(NULL, 0, 150);
		(void)server_send(fd, "s", 1);
	}
}

/* Disconnecting a TCP socket sends a reset. */
static void server_reset(int fd)
{
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	(void)connect(fd, &nowhere, sizeof(nowhere));
}

static bool server_misbehave(struct server_conn *c, struct server_request *q)
{
	static const char cut[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
	static const char hang[] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";
	static const char chunks[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";

	if (strcmp(q->path, "/cut") == 0) {
		(void)server_send(c->fd, cut, sizeof(cut) - 1);
		(void)server_send(c->fd, q->head, strlen(q->head));
	} else if (strcmp(q->path, "/cut-chunk") == 0) {
		(void)server_send(c->fd, chunks, sizeof(chunks) - 1);
	} else if (strcmp(q->path, "/hang") == 0) {
		(void)server_send(c->fd, hang, sizeof(hang) - 1);
		server_wait_closed(c->fd);
	} else if (strcmp(q->path, "/silent") == 0) {
		server_wait_closed(c->fd);
	} else if (strcmp(q->path, "/slow") == 0) {
		server_slow(c->fd);
	} else if (strcmp(q->path, "/reset") == 0) {
		server_reset(c->fd);
	} else if (strcmp(q->path, "/garbage") == 0) {
		(void)server_send(c->fd, "\x01\x02\x03 what?\r\n\r\n", 14);
	}
	return false;
}

/* false: the connection ends here. */
static bool server_answer(struct server_conn *c, struct server_request *q)
{
	if (strcmp(q->path, "/die-when-kept") == 0 && c->requests > 1) {
		(void)server_read_body(c, q, q->length / 2);
		(void)shutdown(c->fd, SHUT_WR);
		server_wait_closed(c->fd); /* not a reset: it could end the client in its send */
		return false;
	}
	if (strcmp(q->path, "/count") == 0 || strcmp(q->path, "/die-when-kept") == 0)
		return server_count(c, q);
	if (strcmp(q->path, "/ok") == 0)
		return server_text(c->fd, "200 OK", memcmp(q->head, "HEAD", 4) == 0 ? "" : "hello");
	if (strcmp(q->path, "/missing") == 0)
		return server_text(c->fd, "404 Not Found", "no such thing");
	if (strncmp(q->path, "/bytes/", 7) == 0)
		return server_bytes(c->fd, strtoull(q->path + 7, NULL, 10));
	return server_misbehave(c, q);
}

static void *server_serve(void *arg)
{
	struct server_conn *c = arg;
	struct server_request *q = malloc(sizeof(*q));

	do {
		if (!server_read_head(c, q))
			break;
		c->requests++;
	} while (server_answer(c, q));
	free(q);
	(void)shutdown(c->fd, SHUT_WR); /* server_stop() closes it: the number must stay ours */
	return NULL;
}

static void *server_accept(void *arg)
{
	struct server *s = arg;

	for (int n = 0; n < SERVER_MOST; n++) {
		struct server_conn *c = &s->conns[n];
		int fd = accept(s->fd, NULL, NULL);

		if (fd < 0)
			break;
		*c = (struct server_conn){.server = s, .fd = fd};
		if (pthread_create(&c->thread, NULL, server_serve, c) != 0)
			abort();
		atomic_store(&s->accepted, n + 1);
	}
	return NULL;
}

static struct server *server_start(void)
{
	struct server *s = calloc(1, sizeof(*s));
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_mutex_init(&s->lock, NULL);
	if (bind(s->fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(s->fd, 64) < 0 ||
	    getsockname(s->fd, (struct sockaddr *)&at, &len) < 0 ||
	    pthread_create(&s->thread, NULL, server_accept, s) != 0)
		abort();
	s->port = ntohs(at.sin_port);
	return s;
}

static void server_stop(struct server *s)
{
	int n;

	(void)shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	n = atomic_load(&s->accepted);
	for (int i = 0; i < n; i++) {
		(void)shutdown(s->conns[i].fd, SHUT_RDWR);
		pthread_join(s->conns[i].thread, NULL);
		close(s->conns[i].fd);
	}
	close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

#endif
