/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client against a real server on loopback, on both backends of the loop. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/http.h"
#include "tests/unit/base/http_server.h"

struct bench {
	struct server *server;
	struct loop *loop;
	struct http_client *client;
	char url[256];
};

static int set_up(struct bench *b, enum loop_backend backend)
{
	struct fault f = FAULT_NONE;

	*b = (struct bench){.server = server_start()};
	if (loop_new(backend, &b->loop, &f) < 0) {
		print_message("%s\n", f.text);
		server_stop(b->server);
		assert_null(getenv("REQUIRE_ALL"));
		return -1;
	}
	assert_int_equal(http_client_new(b->loop, NULL, &b->client, &f), 0);
	return 0;
}

/* Every test starts with this; it leaves a test whose backend this kernel refuses. */
#define BENCH(b, state)                                             \
	struct bench b;                                             \
	if (set_up(&(b), *(const enum loop_backend *)*(state)) < 0) \
	skip()

static void tear_down(struct bench *b)
{
	http_client_free(b->client);
	loop_free(b->loop);
	server_stop(b->server);
}

static const char *url_of(struct bench *b, const char *path)
{
	(void)snprintf(b->url, sizeof(b->url), "http://127.0.0.1:%d%s", b->server->port, path);
	return b->url;
}

static struct http_req request(struct bench *b, const char *method, const char *path)
{
	return (struct http_req){.method = method, .url = url_of(b, path), .no_proxy = true};
}

static void last_head(struct bench *b, char *out)
{
	pthread_mutex_lock(&b->server->lock);
	memcpy(out, b->server->last_head, sizeof(b->server->last_head));
	pthread_mutex_unlock(&b->server->lock);
}

static void assert_fault(const struct http_req *r, int code, enum fault_retry retry,
			 const char *path)
{
	if (r->rc != code || r->fault.retry != retry)
		print_message("rc %d, class %d: %s\n", r->rc, (int)r->fault.retry, r->fault.text);
	assert_int_equal(r->rc, code);
	assert_int_equal(r->fault.code, code);
	assert_int_equal(r->fault.retry, retry);
	assert_non_null(strstr(r->fault.text, path));
	assert_memory_equal(r->fault.text, r->method, strlen(r->method));
}

static uint8_t *pattern_new(size_t len)
{
	uint8_t *data = malloc(len);

	assert_non_null(data);
	pattern_fill(data, 0, len);
	return data;
}

/* ---- whole replies ---- */

static void a_reply_comes_with_status_headers_and_body(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/ok");
	char value[32];
	char tight[10];

	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(r.got, 5);
	assert_string_equal(buf_str(&r.body_in), "hello");
	assert_true(http_header(&r, "x-mixed-case", value, sizeof(value)));
	assert_string_equal(value, "some Value");
	assert_false(http_header(&r, "x-mixed", value, sizeof(value)));
	assert_false(http_header(&r, "x-mixed-case", tight, sizeof(tight)));
	http_req_fini(&r);
	tear_down(&b);
}

static void a_status_of_refusal_is_a_whole_reply(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/missing");
	uint8_t dest[4] = "1234";

	r.dest = dest;
	r.dest_cap = sizeof(dest);
	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	assert_int_equal(r.status, 404);
	assert_string_equal(buf_str(&r.body_in), "no such thing");
	assert_memory_equal(dest, "1234", 4); /* only what was asked for goes there */
	http_req_fini(&r);
	tear_down(&b);
}

static void requests_reuse_one_connection(void **state)
{
	BENCH(b, state);

	for (int i = 0; i < 20; i++) {
		struct http_req r = request(&b, i % 2 ? "GET" : "HEAD", "/ok");

		assert_int_equal(http_do(b.client, b.loop, &r), 0);
		assert_int_equal(r.got, i % 2 ? 5 : 0);
		http_req_fini(&r);
	}
	assert_int_equal(atomic_load(&b.server->accepted), 1);
	tear_down(&b);
}

static void the_request_says_what_it_was_told_and_never_expects(void **state)
{
	static const char *const headers[] = {"X-Amz-Date: today", "Content-Type: a/b", NULL};
	BENCH(b, state);
	size_t len = 2 << 20; /* libcurl asks for a 100 Continue above 1 MiB if it may */
	uint8_t *data = pattern_new(len);
	struct iovec body = {.iov_base = data, .iov_len = len};
	struct http_req r = request(&b, "PUT", "/count");
	char head[8192];

	r.headers = headers;
	r.body = &body;
	r.bodies = 1;
	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	last_head(&b, head);
	assert_non_null(strstr(head, "PUT /count HTTP/1.1\r\n"));
	assert_non_null(strstr(head, "\r\nX-Amz-Date: today\r\n"));
	assert_non_null(strstr(head, "\r\nContent-Length: 2097152\r\n"));
	assert_null(strcasestr(head, "Expect:"));
	assert_null(strcasestr(head, "Transfer-Encoding:"));
	http_req_fini(&r);
	free(data);
	tear_down(&b);
}

static void what_one_request_set_does_not_stick_to_the_next(void **state)
{
	static const char *const headers[] = {"X-First: 1", NULL};
	BENCH(b, state);
	struct iovec body = {.iov_base = "abc", .iov_len = 3};
	struct http_req put = request(&b, "PUT", "/count");
	char head[8192];

	put.headers = headers;
	put.body = &body;
	put.bodies = 1;
	assert_int_equal(http_do(b.client, b.loop, &put), 0);
	http_req_fini(&put);
	struct http_req del = request(&b, "DELETE", "/ok");
	assert_int_equal(http_do(b.client, b.loop, &del), 0);
	last_head(&b, head);
	assert_memory_equal(head, "DELETE /ok ", 11);
	assert_null(strstr(head, "X-First"));
	assert_null(strcasestr(head, "Content-Length"));
	http_req_fini(&del);
	tear_down(&b);
}

static void an_empty_post_says_that_it_is_empty(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "POST", "/count");
	char head[8192];

	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	last_head(&b, head);
	assert_non_null(strstr(head, "\r\nContent-Length: 0\r\n"));
	http_req_fini(&r);
	tear_down(&b);
}

static void dots_in_a_path_stay_as_they_were_signed(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/a/../b/./missing");
	char head[8192];

	(void)http_do(b.client, b.loop, &r); /* how that path is answered is of no interest */
	last_head(&b, head);
	assert_memory_equal(head, "GET /a/../b/./missing ", 22);
	http_req_fini(&r);
	tear_down(&b);
}

/* ---- bodies ---- */

static void a_large_body_lands_in_the_callers_memory(void **state)
{
	enum { LEN = 48 << 20 };
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/bytes/50331648");
	uint8_t *want = pattern_new(LEN);

	r.dest = malloc(LEN);
	r.dest_cap = LEN;
	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	assert_int_equal(r.got, LEN);
	assert_int_equal(memcmp(r.dest, want, LEN), 0);
	assert_int_equal(r.body_in.len, 0);
	free(r.dest);
	free(want);
	http_req_fini(&r);
	tear_down(&b);
}

static void a_body_longer_than_its_place_is_refused(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/bytes/100001");

	r.dest = malloc(100000);
	r.dest_cap = 100000;
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -EMSGSIZE, FAULT_FINAL, "/bytes/100001");
	free(r.dest);
	http_req_fini(&r);
	tear_down(&b);
}

static void a_body_without_a_place_is_bounded(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/bytes/1001");

	r.most = 1000;
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -EMSGSIZE, FAULT_FINAL, "/bytes/1001");
	http_req_fini(&r);
	tear_down(&b);
}

/* A body in uneven pieces, one of them empty. */
static int cut_up(uint8_t *data, size_t len, struct iovec *out)
{
	out[0] = (struct iovec){.iov_base = data, .iov_len = 1};
	out[1] = (struct iovec){.iov_base = data + 1, .iov_len = 0};
	out[2] = (struct iovec){.iov_base = data + 1, .iov_len = len / 3};
	out[3] = (struct iovec){.iov_base = data + 1 + len / 3, .iov_len = len - 1 - len / 3};
	return 4;
}

static void assert_counted(struct http_req *r, const uint8_t *data, size_t len)
{
	char want[64];

	(void)snprintf(want, sizeof(want), "%zu %llu", len,
		       (unsigned long long)pattern_sum(0, data, len));
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->status, 200);
	assert_string_equal(buf_str(&r->body_in), want);
}

static void a_large_body_is_sent_piece_by_piece(void **state)
{
	enum { LEN = (24 << 20) + 7 };
	BENCH(b, state);
	uint8_t *data = pattern_new(LEN);
	struct iovec body[4];
	struct http_req r = request(&b, "PUT", "/count");

	r.body = body;
	r.bodies = cut_up(data, LEN, body);
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_counted(&r, data, LEN);
	http_req_fini(&r);
	free(data);
	tear_down(&b);
}

static void a_body_is_sent_again_when_a_kept_connection_turns_out_dead(void **state)
{
	enum { LEN = 12 << 20 };
	BENCH(b, state);
	uint8_t *data = pattern_new(LEN);
	struct iovec body[4];

	for (int i = 0; i < 2; i++) { /* the second time the connection is a kept one */
		struct http_req r = request(&b, "PUT", "/die-when-kept");

		r.body = body;
		r.bodies = cut_up(data, LEN, body);
		(void)http_do(b.client, b.loop, &r); /* looked at below */
		assert_counted(&r, data, LEN);
		http_req_fini(&r);
	}
	assert_int_equal(atomic_load(&b.server->accepted), 2);
	free(data);
	tear_down(&b);
}

/* ---- failures ---- */

static void a_body_cut_short_is_a_fault_of_the_network(void **state)
{
	BENCH(b, state);
	uint8_t dest[100000];
	struct http_req r = request(&b, "GET", "/cut");

	r.dest = dest;
	r.dest_cap = sizeof(dest);
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -ECONNRESET, FAULT_SOON, "/cut");
	assert_true(r.got < sizeof(dest));
	http_req_fini(&r);
	tear_down(&b);
}

static void chunks_without_their_end_are_a_fault_too(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/cut-chunk");

	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -ECONNRESET, FAULT_SOON, "/cut-chunk");
	http_req_fini(&r);
	tear_down(&b);
}

static void a_reset_connection_is_worth_another_try(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/reset");

	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -ECONNRESET, FAULT_SOON, "/reset");
	http_req_fini(&r);
	tear_down(&b);
}

static void who_does_not_speak_http_is_not_believed(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/garbage");

	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -EPROTO, FAULT_SOON, "/garbage");
	http_req_fini(&r);
	tear_down(&b);
}

static void assert_stalls(struct bench *b, const char *path)
{
	struct http_req r = request(b, "GET", path);
	uint64_t start_ns = clock_mono(&clock_system);
	uint64_t ms;

	r.stall_ms = 150;
	(void)http_do(b->client, b->loop, &r); /* looked at below */
	ms = (clock_mono(&clock_system) - start_ns) / NS_PER_MS;
	assert_fault(&r, -ETIMEDOUT, FAULT_SOON, path);
	assert_non_null(strstr(r.fault.text, "stalled"));
	assert_in_range(ms, 149, 60000);
	http_req_fini(&r);
}

static void a_body_that_stands_still_ends_as_stalled(void **state)
{
	BENCH(b, state);
	assert_stalls(&b, "/hang");
	tear_down(&b);
}

static void a_server_that_says_nothing_ends_as_stalled(void **state)
{
	BENCH(b, state);
	assert_stalls(&b, "/silent");
	tear_down(&b);
}

static void a_slow_body_is_not_stalled(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/slow");

	r.stall_ms = 1200; /* it takes 1500, one byte each 150 */
	assert_int_equal(http_do(b.client, b.loop, &r), 0);
	assert_string_equal(buf_str(&r.body_in), "ssssssssss");
	http_req_fini(&r);
	tear_down(&b);
}

static void a_total_time_ends_even_what_moves(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/slow");

	r.total_ms = 100;
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -ETIMEDOUT, FAULT_SOON, "/slow");
	http_req_fini(&r);
	tear_down(&b);
}

static void nobody_listening_is_worth_another_try(void **state)
{
	BENCH(b, state);
	struct server *gone = server_start();
	char url[64];
	struct http_req r = {.method = "GET", .url = url, .no_proxy = true};

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/nobody", gone->port);
	server_stop(gone);
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -ECONNREFUSED, FAULT_SOON, "/nobody");
	http_req_fini(&r);
	tear_down(&b);
}

static void an_unknown_host_is_worth_another_try(void **state)
{
	BENCH(b, state);
	struct http_req r = {.method = "GET",
			     .url = "http://no-such-host.invalid/x",
			     .no_proxy = true};

	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_fault(&r, -EHOSTUNREACH, FAULT_SOON, "no-such-host.invalid");
	http_req_fini(&r);
	tear_down(&b);
}

static void a_wrong_url_is_final(void **state)
{
	static const char *const urls[] = {
		"ftp://127.0.0.1/x", "127.0.0.1/x", "file:///etc/passwd",
		"http://",           "http://a b/", "http://127.0.0.1:99999999/x",
	};
	BENCH(b, state);

	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		struct http_req r = {.method = "GET", .url = urls[i], .no_proxy = true};

		(void)http_do(b.client, b.loop, &r); /* looked at below */
		assert_fault(&r, -EINVAL, FAULT_FINAL, urls[i]);
		http_req_fini(&r);
	}
	tear_down(&b);
}

static void a_fault_never_shows_the_query(void **state)
{
	BENCH(b, state);
	struct http_req r = request(&b, "GET", "/reset?X-Amz-Signature=5ec7e7");

	assert_true(http_do(b.client, b.loop, &r) < 0);
	assert_null(strstr(r.fault.text, "5ec7e7"));
	http_req_fini(&r);
	tear_down(&b);
}

static void a_fault_gives_its_reason_behind_a_long_key(void **state)
{
	BENCH(b, state);
	struct http_req r = {.method = "GET", .no_proxy = true, .stall_ms = 50};
	char url[1200];
	int len = snprintf(url, sizeof(url), "http://127.0.0.1:%d/", b.server->port);

	memset(url + len, 'k', sizeof(url) - (size_t)len - 1);
	url[sizeof(url) - 1] = '\0';
	r.url = url;
	(void)http_do(b.client, b.loop, &r); /* looked at below */
	assert_true(r.rc < 0);
	assert_null(strstr(r.fault.text + strlen(r.fault.text) - 5, "kkkk"));
	http_req_fini(&r);
	tear_down(&b);
}

/* ---- several at once, and their end ---- */

enum { SEVERAL = 24 };

struct several {
	struct http_req r[SEVERAL];
	int open;
	int cancelled;
	bool none_open;
};

static void one_ended(struct http_req *r)
{
	struct several *s = r->arg;

	s->cancelled += r->rc == -ECANCELED;
	s->none_open = --s->open == 0;
}

static void start_several(struct bench *b, struct several *s, const char *path)
{
	*s = (struct several){.open = SEVERAL};
	for (int i = 0; i < SEVERAL; i++) {
		s->r[i] = request(b, "GET", path);
		s->r[i].done = one_ended;
		s->r[i].arg = s;
		http_start(b->client, &s->r[i]);
	}
	assert_int_equal(s->open, SEVERAL); /* never from inside http_start() */
}

static void end_several(struct several *s)
{
	for (int i = 0; i < SEVERAL; i++)
		http_req_fini(&s->r[i]);
}

static void requests_run_side_by_side(void **state)
{
	BENCH(b, state);
	struct several s;

	start_several(&b, &s, "/bytes/300000");
	loop_run_until(b.loop, &s.none_open);
	for (int i = 0; i < SEVERAL; i++) {
		assert_int_equal(s.r[i].rc, 0);
		assert_int_equal(s.r[i].body_in.len, 300000);
		assert_int_equal(s.r[i].body_in.data[299999], pattern_at(299999));
	}
	end_several(&s);
	tear_down(&b);
}

static void a_cancelled_request_is_told_at_once_and_once(void **state)
{
	BENCH(b, state);
	struct several s;
	struct http_req after = request(&b, "GET", "/ok");

	start_several(&b, &s, "/silent");
	http_cancel(b.client, &s.r[3]);
	assert_int_equal(s.cancelled, 1);
	assert_int_equal(s.r[3].rc, -ECANCELED);
	http_cancel(b.client, &s.r[3]);
	assert_int_equal(s.cancelled, 1);

	after.url = "http://127.0.0.1:1/"; /* s's requests share b.url: leave that alone */
	assert_true(http_do(b.client, b.loop, &after) < 0);
	assert_int_equal(s.open, SEVERAL - 1);
	http_req_fini(&after);
	http_client_free(b.client);
	b.client = NULL;
	assert_int_equal(s.cancelled, SEVERAL);
	end_several(&s);
	tear_down(&b);
}

static void a_request_that_could_not_start_can_be_cancelled(void **state)
{
	BENCH(b, state);
	struct several s;

	start_several(&b, &s, "/ok");
	for (int i = 0; i < SEVERAL; i++)
		http_cancel(b.client, &s.r[i]);
	assert_int_equal(s.cancelled, SEVERAL);
	end_several(&s);

	s.open = 2;
	for (int i = 0; i < 2; i++) {
		s.r[i] = (struct http_req){.method = "GET",
					   .url = "nonsense",
					   .done = one_ended,
					   .arg = &s};
		http_start(b.client, &s.r[i]);
	}
	http_cancel(b.client, &s.r[0]);
	assert_int_equal(s.r[0].rc, -ECANCELED);
	loop_run_until(b.loop, &s.none_open);
	assert_int_equal(s.r[1].rc, -EINVAL);
	tear_down(&b);
}

int main(void)
{
	static enum loop_backend backends[] = {LOOP_URING, LOOP_EPOLL};
/* clang-format off */
#define on_both(test) \
	{#test " (io_uring)", test, NULL, NULL, &backends[0]}, \
	{#test " (epoll)", test, NULL, NULL, &backends[1]}
	/* clang-format on */
	const struct CMUnitTest tests[] = {
		on_both(a_reply_comes_with_status_headers_and_body),
		on_both(a_status_of_refusal_is_a_whole_reply),
		on_both(requests_reuse_one_connection),
		on_both(the_request_says_what_it_was_told_and_never_expects),
		on_both(what_one_request_set_does_not_stick_to_the_next),
		on_both(an_empty_post_says_that_it_is_empty),
		on_both(dots_in_a_path_stay_as_they_were_signed),
		on_both(a_large_body_lands_in_the_callers_memory),
		on_both(a_body_longer_than_its_place_is_refused),
		on_both(a_body_without_a_place_is_bounded),
		on_both(a_large_body_is_sent_piece_by_piece),
		on_both(a_body_is_sent_again_when_a_kept_connection_turns_out_dead),
		on_both(a_body_cut_short_is_a_fault_of_the_network),
		on_both(chunks_without_their_end_are_a_fault_too),
		on_both(a_reset_connection_is_worth_another_try),
		on_both(who_does_not_speak_http_is_not_believed),
		on_both(a_body_that_stands_still_ends_as_stalled),
		on_both(a_server_that_says_nothing_ends_as_stalled),
		on_both(a_slow_body_is_not_stalled),
		on_both(a_total_time_ends_even_what_moves),
		on_both(nobody_listening_is_worth_another_try),
		on_both(an_unknown_host_is_worth_another_try),
		on_both(a_wrong_url_is_final),
		on_both(a_fault_never_shows_the_query),
		on_both(a_fault_gives_its_reason_behind_a_long_key),
		on_both(requests_run_side_by_side),
		on_both(a_cancelled_request_is_told_at_once_and_once),
		on_both(a_request_that_could_not_start_can_be_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
