/* SPDX-License-Identifier: Apache-2.0 */
/* The wrong server: blocking calls, one thread. */
#include "tests/unit/store/fake_s3.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

struct fake_s3 {
	/* fixed after start */
	int listener;
	pthread_t thread;
	fake_answer *answer;
	void *arg;
	/* any thread, under lock */
	pthread_mutex_t lock;
	struct fake_request requests[FAKE_REQUESTS_MOST];
	unsigned n;
};

static size_t content_length(const char *head)
{
	const char *at = strcasestr(head, "\r\nContent-Length:");

	return at ? strtoul(at + 17, NULL, 10) : 0;
}

static bool read_head(int fd, struct fake_request *r)
{
	size_t len = 0;

	while (!strstr(r->head, "\r\n\r\n")) {
		ssize_t n = len < sizeof(r->head) - 1 ? recv(fd, r->head + len, 1, 0) : 0;

		if (n <= 0)
			return false;
		len += (size_t)n;
	}
	return true;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool read_request(int fd, struct fake_request *r)
{
	size_t want;

	*r = (struct fake_request){.at_ns = 0};
	if (!read_head(fd, r))
		return false;
	r->at_ns = clock_mono(&clock_system);
	want = content_length(r->head);
	while (r->body < want) {
		char piece[4096];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);

		if (n <= 0)
			return false;
		if (r->body < sizeof(r->text))
			memcpy(r->text + r->body, piece,
			       smaller((size_t)n, sizeof(r->text) - r->body));
		r->body += (size_t)n;
	}
	return true;
}

static void serve(struct fake_s3 *s, int fd)
{
	struct fake_request r;
	struct buf out = BUF_EMPTY;
	unsigned number;

	if (!read_request(fd, &r))
		return;
	pthread_mutex_lock(&s->lock);
	number = s->n++;
	if (number < FAKE_REQUESTS_MOST)
		s->requests[number] = r;
	pthread_mutex_unlock(&s->lock);
	s->answer(s->arg, &r, number, &out);
	for (size_t at = 0; at < out.len;) {
		ssize_t n = send(fd, out.data + at, out.len - at, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		at += (size_t)n;
	}
	buf_fini(&out);
}

static void *run(void *arg)
{
	struct fake_s3 *s = arg;
	int fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		serve(s, fd);
		close(fd);
	}
	return NULL;
}

struct fake_s3 *fake_s3_start(fake_answer *answer, void *arg)
{
	struct fake_s3 *s = calloc(1, sizeof(*s));
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	char url[64];

	s->answer = answer;
	s->arg = arg;
	pthread_mutex_init(&s->lock, NULL);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s->listener, 64) < 0 ||
	    getsockname(s->listener, (struct sockaddr *)&a, &len) < 0 ||
	    pthread_create(&s->thread, NULL, run, s) != 0) {
		perror("fake S3");
		abort();
	}
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(a.sin_port));
	setenv("AWS_ENDPOINT_URL_S3", url, 1);
	return s;
}

void fake_s3_stop(struct fake_s3 *s)
{
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

unsigned fake_s3_requests(struct fake_s3 *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

bool fake_s3_request(struct fake_s3 *s, unsigned number, struct fake_request *out)
{
	bool is_there;

	pthread_mutex_lock(&s->lock);
	is_there = number < s->n && number < FAKE_REQUESTS_MOST;
	if (is_there)
		*out = s->requests[number];
	pthread_mutex_unlock(&s->lock);
	return is_there;
}
