/* SPDX-License-Identifier: Apache-2.0 */
/* Everything S3 is known to answer, from a server that does it on purpose. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "store/log.h"
#include "tests/unit/store/fake_s3.h"

/* ---- a client and a script ---- */

enum { SCRIPT_MOST = 16 };

/* Far more than a busy machine needs: only what hangs takes so long. */
enum { HANGS_MS = 60000 };

struct client {
	struct fake_s3 *server;
	const char *script[SCRIPT_MOST]; /* raw answers; the last one is repeated; "": hang up */
	_Atomic bool silent;             /* no answer until it is false */
	struct loop *loop;
	struct store *store;
	struct objects *objects;
	struct fault f;
};

static void play(void *arg, const struct fake_request *r, unsigned number, struct buf *out)
{
	struct client *c = arg;
	const char *answer = NULL;

	for (unsigned i = 0; i <= number && i < SCRIPT_MOST && c->script[i]; i++)
		answer = c->script[i];
	while (c->silent)
		usleep(1000);
	if (answer)
		buf_add(out, answer, strlen(answer));
}

static void connect_to(struct client *c, fake_answer *answer, void *arg)
{
	c->server = fake_s3_start(answer, arg);
	if (loop_new(LOOP_AUTO, &c->loop, &c->f) < 0 ||
	    store_new("s3://bkt/pre", &c->store, &c->f) < 0 ||
	    objects_open(c->store, c->loop, &c->objects, &c->f) < 0) {
		print_error("%s\n", c->f.text);
		fail();
	}
}

static struct client *new_client(void)
{
	setenv("AWS_ACCESS_KEY_ID", "AKTEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_REGION", "us-west-1", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	setenv("NO_PROXY", "127.0.0.1", 1);
	return calloc(1, sizeof(struct client));
}

static int make(void **state)
{
	struct client *c = new_client();

	*state = c;
	connect_to(c, play, c);
	return 0;
}

static int end(void **state)
{
	struct client *c = *state;

	c->silent = false;
	objects_close(c->objects);
	store_free(c->store);
	loop_free(c->loop);
	fake_s3_stop(c->server);
	free(c);
	return 0;
}

static uint64_t in_ms(unsigned ms)
{
	return clock_mono(&clock_system) + ms * NS_PER_MS;
}

static int put(struct client *c, const char *key, bool create_only)
{
	return objects_put(c->objects, key, "12345", 5, create_only, in_ms(20000), &c->f);
}

static int get(struct client *c, const char *key, struct buf *body)
{
	return objects_get(c->objects, key, in_ms(20000), body, &c->f);
}

static void assert_requests(struct client *c, unsigned n)
{
	assert_int_equal(fake_s3_requests(c->server), n);
}

static bool request_has(struct client *c, unsigned number, const char *text)
{
	struct fake_request r;

	return fake_s3_request(c->server, number, &r) && strstr(r.head, text);
}

static void assert_says(const struct fault *f, const char *what)
{
	if (!strstr(f->text, what))
		print_error("'%s' does not say '%s'\n", f->text, what);
	assert_non_null(strstr(f->text, what));
}

#define EMPTY_200 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#define BODY_200(n, body) \
	"HTTP/1.1 200 OK\r\nContent-Length: " n "\r\nConnection: close\r\n\r\n" body
#define NO_LENGTH_200(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
#define PART_206(range, n, body) \
	"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " range "\r\nContent-Length: " n \
	"\r\nConnection: close\r\n\r\n" body
#define ERROR_DOCUMENT(code, rest) \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" code \
	"</Code><Message>said by the server</Message>" rest "</Error>"
#define ERROR_WITH(status, headers, code, rest) \
	"HTTP/1.1 " status " X\r\n" headers "Connection: close\r\n\r\n" ERROR_DOCUMENT(code, rest)
#define ERROR(status, code) ERROR_WITH(status, "", code, "")

/* ---- the table, row by row ---- */

static const struct {
	enum object_op op;
	const char *answer;
	int rc;
	enum fault_retry retry;
	const char *says; /* beside the key */
} rows[] = {
	{OBJECT_GET, ERROR("400", "ExpiredToken"), -EKEYEXPIRED, FAULT_SOON, "400 ExpiredToken"},
	{OBJECT_GET, ERROR("403", "ExpiredToken"), -EKEYEXPIRED, FAULT_SOON, "AWS_SESSION_TOKEN"},
	{OBJECT_GET, ERROR("400", "TokenRefreshRequired"), -EKEYEXPIRED, FAULT_SOON, "400"},
	{OBJECT_GET, ERROR("400", "InvalidToken"), -EACCES, FAULT_FINAL, "AWS_SESSION_TOKEN"},
	{OBJECT_GET, ERROR("400", "RequestTimeout"), -ETIMEDOUT, FAULT_SOON, "RequestTimeout"},
	{OBJECT_PUT, ERROR("400", "IncompleteBody"), -EBADMSG, FAULT_SOON, "IncompleteBody"},
	{OBJECT_PUT, ERROR("400", "BadDigest"), -EBADMSG, FAULT_SOON, "BadDigest"},
	{OBJECT_PUT, ERROR("400", "XAmzContentChecksumMismatch"), -EBADMSG, FAULT_SOON, "400"},
	{OBJECT_PUT, ERROR("400", "SomethingNew"), -EINVAL, FAULT_FINAL, "said by the server"},
	{OBJECT_PUT, ERROR("401", "Unauthorized"), -EACCES, FAULT_FINAL, "401 Unauthorized"},
	{OBJECT_PUT, ERROR("403", "AccessDenied"), -EACCES, FAULT_FINAL,
	 "403 AccessDenied (said by the server); its policy"},
	{OBJECT_GET, ERROR("403", "AccessDenied"), -EACCES, FAULT_FINAL, "(credentials: environment)"},
	{OBJECT_GET, ERROR("403", "InvalidAccessKeyId"), -EACCES, FAULT_FINAL, "AWS_ACCESS_KEY_ID"},
	{OBJECT_GET, ERROR("403", "SignatureDoesNotMatch"), -EACCES, FAULT_FINAL,
	 "AWS_SECRET_ACCESS_KEY"},
	{OBJECT_GET, ERROR("404", "NoSuchKey"), -ENOENT, FAULT_FINAL, "404 NoSuchKey"},
	{OBJECT_GET, ERROR("404", "NoSuchBucket"), -ENODEV, FAULT_FINAL, "check the bucket's name"},
	{OBJECT_PUT, ERROR("404", "NoSuchBucket"), -ENODEV, FAULT_FINAL, "s3://bkt/"},
	{OBJECT_LIST, ERROR("404", "NoSuchBucket"), -ENODEV, FAULT_FINAL, "check the bucket's name"},
	{OBJECT_LIST, "HTTP/1.1 404 X\r\nConnection: close\r\n\r\n", -ENODEV, FAULT_FINAL, "404"},
	{OBJECT_GET, ERROR("404", "Whatever"), -EINVAL, FAULT_FINAL, "404 Whatever"},
	{OBJECT_DELETE, ERROR("404", "Whatever"), -EINVAL, FAULT_FINAL, "404 Whatever"},
	{OBJECT_GET, ERROR("404", "XAdminUserNotFound"), -EACCES, FAULT_FINAL, "AWS_ACCESS_KEY_ID"},
	{OBJECT_DELETE, ERROR("404", "NoSuchKey"), 0, FAULT_FINAL, NULL},
	{OBJECT_DELETE, ERROR("404", "NoSuchBucket"), -ENODEV, FAULT_FINAL, "NoSuchBucket"},
	{OBJECT_DELETE, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 0, FAULT_FINAL, NULL},
	{OBJECT_GET, "HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", -ENOENT,
	 FAULT_FINAL, "404"},
	{OBJECT_PUT, ERROR("405", "MethodNotAllowed"), -ENOTSUP, FAULT_FINAL, "AWS_ENDPOINT_URL"},
	{OBJECT_PUT, ERROR("408", ""), -ETIMEDOUT, FAULT_SOON, "408"},
	{OBJECT_PUT, ERROR("409", "ConditionalRequestConflict"), -EAGAIN, FAULT_SOON, "409"},
	{OBJECT_PUT, ERROR("409", "OperationAborted"), -EAGAIN, FAULT_SOON, "409"},
	{OBJECT_PUT, ERROR("412", "PreconditionFailed"), -EEXIST, FAULT_RELOAD, "412"},
	{OBJECT_PUT, "HTTP/1.1 304 X\r\nConnection: close\r\n\r\n", -EEXIST, FAULT_RELOAD, "304"},
	{OBJECT_GET, ERROR("416", "InvalidRange"), -EIO, FAULT_FINAL, "shorter than it should be"},
	{OBJECT_GET, ERROR("429", "TooManyRequests"), -EBUSY, FAULT_PACED, "429"},
	{OBJECT_GET, ERROR("503", "SlowDown"), -EBUSY, FAULT_PACED, "503 SlowDown"},
	{OBJECT_GET, ERROR("503", "ServiceUnavailable"), -EBUSY, FAULT_PACED, "503"},
	{OBJECT_GET, ERROR("500", "SlowDown"), -EBUSY, FAULT_PACED, "SlowDown"},
	{OBJECT_PUT, ERROR("500", "InternalError"), -EREMOTEIO, FAULT_SOON, "500 InternalError"},
	{OBJECT_PUT, ERROR("501", "NotImplemented"), -ENOTSUP, FAULT_FINAL, "501"},
	{OBJECT_PUT, "HTTP/1.1 502 X\r\nConnection: close\r\n\r\n<html>bad gateway</html>", -EREMOTEIO,
	 FAULT_SOON, "502"},
	{OBJECT_PUT, ERROR("507", "InsufficientStorage"), -ENOSPC, FAULT_FINAL, "free some space"},
	{OBJECT_PUT, ERROR("400", "QuotaExceeded"), -EDQUOT, FAULT_FINAL, "free some space"},
	{OBJECT_PUT, ERROR("200", "InternalError"), -EREMOTEIO, FAULT_SOON, "200 InternalError"},
	{OBJECT_PUT, ERROR("200", "SlowDown"), -EBUSY, FAULT_PACED, "200 SlowDown"},
	{OBJECT_LIST, ERROR("200", "InternalError"), -EREMOTEIO, FAULT_SOON, "200 InternalError"},
	{OBJECT_GET, ERROR("301", "PermanentRedirect"), -ELOOP, FAULT_FINAL, "AWS_REGION"},
	{OBJECT_GET, ERROR("999", "WhatIsThis"), -EPROTO, FAULT_FINAL, "does not speak S3"},
	{OBJECT_GET, "HTTP/1.1 407 X\r\nConnection: close\r\n\r\n", -EACCES, FAULT_FINAL, "proxy"},
	{OBJECT_GET, "", -ECONNRESET, FAULT_SOON, "GET"},
};

static void each_answer_has_its_code_class_and_words(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct client *c;
		const struct iovec iov = {(char *)"12345", 5};
		struct object_req r = {.op = rows[i].op, .key = "log/7", .once = true};

		assert_int_equal(make((void **)&c), 0);
		c->script[0] = rows[i].answer;
		if (rows[i].op == OBJECT_PUT) {
			r.iov = &iov;
			r.iovs = 1;
		}
		objects_do(c->objects, &r, &c->f);
		if (r.rc != rows[i].rc || (r.rc < 0 && r.fault.retry != rows[i].retry))
			print_error("row %zu: %d, class %d: %s\n", i, r.rc, r.fault.retry,
				    r.fault.text);
		assert_int_equal(r.rc, rows[i].rc);
		assert_int_equal(r.fault.code, rows[i].rc);
		if (r.rc < 0) {
			assert_int_equal(r.fault.retry, rows[i].retry);
			assert_says(&r.fault, rows[i].says);
			assert_says(&r.fault, "log/7");
		}
		assert_requests(c, 1);
		object_req_fini(&r);
		assert_int_equal(end((void **)&c), 0);
	}
}

static void of_a_long_key_the_end_is_told(void **state)
{
	struct client *c = *state;
	char key[300];
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	memset(key, 'x', sizeof(key));
	strcpy(key + 250, "/the-end");
	c->script[0] = ERROR("404", "NoSuchKey");
	assert_int_equal(get(c, key, &body), -ENOENT);
	assert_says(&c->f, "s3://bkt/…xxx");
	assert_says(&c->f, "xxx/the-end: 404 NoSuchKey");
}

/* ---- what is tried again ---- */

static void a_conflict_twice_is_tried_a_third_time(void **state)
{
	struct client *c = *state;
	struct store_counts n;

	c->script[0] = c->script[1] = ERROR("409", "ConditionalRequestConflict");
	c->script[2] = EMPTY_200;
	assert_int_equal(put(c, "k", true), 0);
	assert_int_equal(c->f.code, 0);
	assert_requests(c, 3);
	store_counts(c->store, &n);
	assert_int_equal(n.put, 3);
	assert_int_equal(n.retries, 2);
	assert_int_equal(n.errors, 2);
	assert_int_equal(n.bytes_out, 15);
}

static void an_error_in_a_200_is_no_success(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR("200", "InternalError");
	c->script[1] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n \n \n" /* kept alive by blanks */
		ERROR_DOCUMENT("InternalError", "");
	c->script[2] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_requests(c, 3);
}

static void denied_is_asked_once(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR("403", "AccessDenied");
	assert_int_equal(put(c, "k", false), -EACCES);
	assert_requests(c, 1);
}

static void once_means_once(void **state)
{
	struct client *c = *state;
	struct object_req r = {.op = OBJECT_GET, .key = "k", .once = true};

	c->script[0] = ERROR("500", "InternalError");
	assert_int_equal(objects_do(c->objects, &r, &c->f), -EREMOTEIO);
	assert_requests(c, 1);
	object_req_fini(&r);
}

static uint64_t ms_between(struct client *c, unsigned from, unsigned to)
{
	struct fake_request a, b;

	assert_true(fake_s3_request(c->server, from, &a));
	assert_true(fake_s3_request(c->server, to, &b));
	return (b.at_ns - a.at_ns) / NS_PER_MS;
}

static void slow_down_waits_as_long_as_it_is_told(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR_WITH("503", "Retry-After: 1\r\n", "SlowDown", "");
	c->script[1] = ERROR("503", "SlowDown");
	c->script[2] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_requests(c, 3);
	assert_in_range(ms_between(c, 0, 1), 1000, HANGS_MS);
	assert_in_range(ms_between(c, 1, 2), 500, HANGS_MS); /* the second wait of its own */
}

static void a_store_that_asks_for_more_time_than_there_is_ends_the_request(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR_WITH("503", "Retry-After: 100\r\n", "SlowDown", "");
	assert_int_equal(put(c, "k", false), -EBUSY);
	assert_int_equal(c->f.retry, FAULT_PACED);
	assert_requests(c, 1);
}

static void at_the_deadline_the_last_reason_is_told(void **state)
{
	struct client *c = *state;
	uint64_t begin = clock_mono(&clock_system), took;

	c->script[0] = ERROR("500", "InternalError");
	assert_int_equal(objects_put(c->objects, "k", "", 0, false, in_ms(1500), &c->f), -EREMOTEIO);
	took = (clock_mono(&clock_system) - begin) / NS_PER_MS;
	assert_in_range(took, 400, HANGS_MS);
	assert_says(&c->f, "gave up after");
	assert_says(&c->f, "500 InternalError");
	assert_in_range(fake_s3_requests(c->server), 2, 20);
}

static void a_server_that_never_answers_meets_the_deadline(void **state)
{
	struct client *c = *state;
	uint64_t deadline_ns = in_ms(200);

	c->silent = true;
	c->script[0] = EMPTY_200;
	assert_int_equal(objects_put(c->objects, "k", "", 0, false, deadline_ns, &c->f),
			 -ETIMEDOUT);
	assert_true(clock_mono(&clock_system) >= deadline_ns);
	assert_says(&c->f, "PUT k");
}

static void over(struct object_req *r)
{
	++*(int *)r->arg;
}

static void a_request_under_way_can_be_cancelled(void **state)
{
	struct client *c = *state;
	int calls = 0;
	uint8_t *into = malloc(4);
	struct object_req r = {
		.op = OBJECT_GET,
		.key = "k",
		.len = 4,
		.dest = into,
		.done = over,
		.arg = &calls,
	};
	struct object_req waits = {.op = OBJECT_GET, .key = "k", .deadline_ns = in_ms(150)};

	c->silent = true;
	c->script[0] = PART_206("0-3/4", "4", "1234");
	objects_start(c->objects, &r);
	assert_int_equal(calls, 0);
	assert_int_equal(objects_do(c->objects, &waits, &c->f), -ETIMEDOUT);
	objects_cancel(c->objects, &r);
	free(into);
	assert_int_equal(calls, 1);
	assert_int_equal(r.rc, -ECANCELED);
	object_req_fini(&r);
	object_req_fini(&waits);
}

static void closing_cancels_what_is_under_way_and_what_waits(void **state)
{
	struct client *c = *state;
	int calls = 0;
	struct object_req r[2];
	struct object_req waits = {.op = OBJECT_GET, .key = "k", .deadline_ns = in_ms(150)};

	c->script[0] = ERROR_WITH("503", "Retry-After: 9\r\n", "SlowDown", "");
	for (int i = 0; i < 2; i++) {
		r[i] = (struct object_req){
			.op = OBJECT_GET, .key = "k", .done = over, .arg = &calls};
		objects_start(c->objects, &r[i]);
	}
	(void)objects_do(c->objects, &waits, &c->f);
	objects_close(c->objects);
	c->objects = NULL;
	assert_int_equal(calls, 2);
	assert_int_equal(r[0].rc, -ECANCELED);
	assert_int_equal(r[1].rc, -ECANCELED);
	for (int i = 0; i < 2; i++)
		object_req_fini(&r[i]);
	object_req_fini(&waits);
}

/* ---- bodies ---- */

static void a_cut_body_is_fetched_again(void **state)
{
	struct client *c = *state;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	c->script[0] = BODY_200("10", "01234");
	c->script[1] = BODY_200("10", "0123456789");
	assert_int_equal(get(c, "k", &body), 0);
	assert_int_equal(body.len, 10);
	assert_memory_equal(body.data, "0123456789", 10);
	assert_requests(c, 2);
}

static void a_whole_object_without_a_length_is_not_believed(void **state)
{
	struct client *c = *state;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	c->script[0] = NO_LENGTH_200("01234");
	c->script[1] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
		       "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n";
	assert_int_equal(get(c, "k", &body), 0);
	assert_int_equal(body.len, 10);
	assert_requests(c, 2);
}

static const char *const wrong_ranges[] = {
	PART_206("3-6/10", "4", "34"),	      /* cut, the length says so */
	PART_206("3-6/10", "2", "34"),	      /* cut, the length is wrong too */
	PART_206("3-6/10", "8", "34567890"),  /* longer than asked for */
	PART_206("3-6/10", "99", "3456"),     /* right, but the end is missing */
	PART_206("0-3/10", "4", "0123"),      /* another range */
	PART_206("3-4/5", "2", "34"),	      /* the object is too short */
	PART_206("nonsense", "4", "3456"),
	BODY_200("10", "0123456789"), /* the range was ignored */
	BODY_200("4", "3456"),
	NO_LENGTH_200("34"),
	"HTTP/1.1 206 X\r\nContent-Range: bytes 3-6/10\r\nConnection: close\r\n\r\n34",
	"HTTP/1.1 206 X\r\nContent-Range: bytes 3-6/10\r\nConnection: close\r\n\r\n34567",
};

static void a_wrong_range_is_eio_in_the_end(void **state)
{
	for (size_t i = 0; i < sizeof(wrong_ranges) / sizeof(wrong_ranges[0]); i++) {
		struct client *c;
		uint8_t into[4] = {0};
		struct object_req r = {.op = OBJECT_GET, .key = "k", .off = 3, .len = 4};

		r.dest = i % 2 ? NULL : into;
		assert_int_equal(make((void **)&c), 0);
		c->script[0] = wrong_ranges[i];
		objects_do(c->objects, &r, &c->f);
		if (r.rc != -EIO || r.fault.retry != FAULT_FINAL)
			print_error("case %zu: %d %s\n", i, r.rc, r.fault.text);
		assert_int_equal(r.rc, -EIO);
		assert_int_equal(r.fault.retry, FAULT_FINAL);
		assert_says(&r.fault, "GET k");
		assert_requests(c, 5);
		object_req_fini(&r);
		assert_int_equal(end((void **)&c), 0);
	}
}

static void a_wrong_range_once_does_no_harm(void **state)
{
	struct client *c = *state;
	uint8_t into[5] = "----";
	struct object_req r = {.op = OBJECT_GET, .key = "k", .off = 3, .len = 4, .dest = into};

	c->script[0] = PART_206("3-6/10", "8", "XXXXXXXX");
	c->script[1] = PART_206("3-6/10", "4", "3456");
	assert_int_equal(objects_do(c->objects, &r, &c->f), 0);
	assert_memory_equal(into, "3456", 5);
	assert_int_equal(r.size, 10);
	assert_true(request_has(c, 1, "\r\nRange: bytes=3-6\r\n"));
	object_req_fini(&r);
}

static void a_damaged_put_is_sent_a_few_times_only(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR("400", "BadDigest");
	assert_int_equal(put(c, "k", false), -EBADMSG);
	assert_int_equal(c->f.retry, FAULT_FINAL);
	assert_requests(c, 4);
}

/* ---- what a request looks like ---- */

static void a_put_says_what_it_is(void **state)
{
	struct client *c = *state;

	c->script[0] = EMPTY_200;
	assert_int_equal(objects_put(c->objects, "a b+ü/x", "123456789", 9, true, 0, &c->f), 0);
	assert_true(request_has(c, 0, "PUT /bkt/pre/a%20b%2B%C3%BC/x HTTP/1.1\r\n"));
	assert_true(request_has(c, 0, "\r\nIf-None-Match: *\r\n"));
	assert_true(request_has(c, 0, "\r\nx-amz-checksum-crc32c: 4waSgw==\r\n")); /* e3069283 */
	assert_true(request_has(c, 0, "\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"));
	assert_true(request_has(c, 0, "\r\nContent-Length: 9\r\n"));
	assert_true(request_has(c, 0, "/us-west-1/s3/aws4_request"));
	assert_false(request_has(c, 0, "Expect"));
}

static void an_overwrite_has_no_condition(void **state)
{
	struct client *c = *state;

	c->script[0] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_false(request_has(c, 0, "If-None-Match"));
}

/* ---- what is learned ---- */

#define REDIRECT_TO(region) \
	ERROR_WITH("301", "x-amz-bucket-region: " region "\r\n", "PermanentRedirect", "")

static void the_region_is_learned_once(void **state)
{
	struct client *c = *state;

	c->script[0] = REDIRECT_TO("eu-central-1");
	c->script[1] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_int_equal(put(c, "k", false), 0);
	assert_requests(c, 3);
	assert_true(request_has(c, 0, "/us-west-1/s3/aws4_request"));
	assert_true(request_has(c, 1, "/eu-central-1/s3/aws4_request"));
	assert_true(request_has(c, 2, "/eu-central-1/s3/aws4_request"));
}

static void the_region_in_the_document_will_do(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR_WITH("400", "", "AuthorizationHeaderMalformed",
				  "<Region>ap-south-1</Region>");
	c->script[1] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_true(request_has(c, 1, "/ap-south-1/s3/aws4_request"));
}

static void a_temporary_redirect_is_followed_by_region(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR_WITH("307",
				  "Location: http://127.0.0.2/\r\nx-amz-bucket-region: us-east-2\r\n",
				  "TemporaryRedirect", "");
	c->script[1] = EMPTY_200;
	assert_int_equal(put(c, "k", false), 0);
	assert_requests(c, 2);
	assert_true(request_has(c, 1, "/us-east-2/s3/aws4_request"));
}

static void a_redirect_to_where_we_are_is_refused(void **state)
{
	struct client *c = *state;

	c->script[0] = REDIRECT_TO("us-west-1");
	assert_int_equal(put(c, "k", false), -ELOOP);
	assert_int_equal(c->f.retry, FAULT_FINAL);
	assert_requests(c, 1);
	assert_says(&c->f, "AWS_REGION");
}

static void a_redirect_loop_is_refused(void **state)
{
	struct client *c = *state;

	for (int i = 0; i < SCRIPT_MOST; i++)
		c->script[i] = i % 2 ? REDIRECT_TO("us-west-2") : REDIRECT_TO("us-east-2");
	assert_int_equal(put(c, "k", false), -ELOOP);
	assert_int_equal(c->f.retry, FAULT_FINAL);
	assert_requests(c, 4);
	assert_says(&c->f, "301 PermanentRedirect");
}

static void a_region_that_is_no_name_is_not_believed(void **state)
{
	struct client *c = *state;

	c->script[0] = REDIRECT_TO("evil.example/");
	assert_int_equal(put(c, "k", false), -ELOOP);
	assert_requests(c, 1);
}

/* An answer of a server whose clock is three hours behind. */
static void skewed(void *arg, const struct fake_request *r, unsigned number, struct buf *out)
{
	time_t then = *(const time_t *)arg;
	struct tm tm;
	char date[64];

	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &tm));
	if (number == 0)
		buf_addf(out, "HTTP/1.1 403 X\r\nDate: %s\r\nConnection: close\r\n\r\n" ERROR_DOCUMENT(
				      "RequestTimeTooSkewed", ""), date);
	else
		buf_addf(out, EMPTY_200);
}

static time_t amz_date(struct client *c, unsigned number)
{
	struct fake_request r;
	struct tm tm = {.tm_isdst = 0};
	const char *at;

	assert_true(fake_s3_request(c->server, number, &r));
	at = strcasestr(r.head, "x-amz-date: ");
	assert_non_null(at);
	assert_non_null(strptime(at + 12, "%Y%m%dT%H%M%SZ", &tm));
	return timegm(&tm);
}

static void a_wrong_clock_is_learned_from_the_answer(void **state)
{
	struct client *c = new_client();
	time_t then = time(NULL) - 3 * 3600;

	connect_to(c, skewed, &then);
	assert_int_equal(put(c, "k", false), 0);
	assert_int_equal(put(c, "k", false), 0);
	assert_requests(c, 3);
	assert_in_range(amz_date(c, 0), then + 3 * 3600 - 5, then + 3 * 3600 + 60);
	assert_in_range(amz_date(c, 1), then - 5, then + 60);
	assert_in_range(amz_date(c, 2), then - 5, then + 60);
	end((void **)&c);
}

static void a_clock_that_stays_wrong_is_said(void **state)
{
	struct client *c = *state;

	c->script[0] = ERROR("403", "RequestTimeTooSkewed"); /* without a Date */
	assert_int_equal(put(c, "k", false), -EACCES);
	assert_int_equal(c->f.retry, FAULT_FINAL);
	assert_says(&c->f, "clock");
	assert_requests(c, 1);
}

static void write_file(const char *path, mode_t mode, const char *text)
{
	FILE *p = fopen(path, "w");

	assert_non_null(p);
	assert_true(fputs(text, p) >= 0);
	assert_int_equal(fclose(p), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void expired_credentials_are_renewed(void **state)
{
	struct client *c = new_client();
	char dir[] = "/tmp/holdfast-unit-XXXXXX";
	char config[64], script[64], text[512];

	assert_non_null(mkdtemp(dir));
	snprintf(config, sizeof(config), "%s/config", dir);
	snprintf(script, sizeof(script), "%s/keys", dir);
	snprintf(text, sizeof(text), "[default]\nregion = us-west-1\ncredential_process = %s\n", script);
	write_file(config, 0600, text);
	snprintf(text, sizeof(text),
		 "#!/bin/sh\necho x >>%s/calls\n"
		 "echo '{\"Version\":1,\"AccessKeyId\":\"AKGEN'$(wc -l <%s/calls)'\","
		 "\"SecretAccessKey\":\"s\",\"SessionToken\":\"t\","
		 "\"Expiration\":\"2099-01-01T00:00:00Z\"}'\n",
		 dir, dir);
	write_file(script, 0700, text);
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
	setenv("AWS_CONFIG_FILE", config, 1);
	for (int i = 0; i < 2; i++)
		c->script[i] = ERROR("400", "ExpiredToken");
	c->script[2] = EMPTY_200;
	connect_to(c, play, c);
	assert_int_equal(put(c, "k", false), 0);
	assert_true(request_has(c, 0, "Credential=AKGEN1/"));
	assert_false(request_has(c, fake_s3_requests(c->server) - 1, "Credential=AKGEN1/"));
	end((void **)&c);
	snprintf(text, sizeof(text), "rm -r %s", dir);
	assert_int_equal(system(text), 0);
}

/* ---- our own earlier success ---- */

static void a_412_after_our_own_success_is_success(void **state)
{
	struct client *c = *state;

	c->script[0] = ""; /* stored, and then the connection broke */
	c->script[1] = ERROR("412", "PreconditionFailed");
	c->script[2] = BODY_200("4", "ours");
	assert_int_equal(log_append(c->objects, "log", 5, "ours", 4, in_ms(9000), NULL, &c->f), 0);
	assert_requests(c, 3);
	assert_true(request_has(c, 2, "GET /bkt/pre/log/99999999999999999994 "));
}

static void a_412_with_other_bytes_is_another_writers(void **state)
{
	struct client *c = *state;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;

	c->script[0] = "";
	c->script[1] = ERROR("412", "PreconditionFailed");
	c->script[2] = BODY_200("6", "theirs");
	assert_int_equal(log_append(c->objects, "log", 5, "ours", 4, in_ms(9000), &theirs, &c->f),
			 -EEXIST);
	assert_int_equal(c->f.retry, FAULT_RELOAD);
	assert_int_equal(theirs.len, 6);
}

/* ---- lists ---- */

struct bucket {
	unsigned keys;
	bool tokens; /* sends NextContinuationToken */
};

static unsigned number_behind(const char *head, const char *name)
{
	const char *at = strstr(head, name);

	return at ? (unsigned)strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Keys pre/k/00001 and on; what is behind a key or a token is the number in it. */
static void list_page(void *arg, const struct fake_request *r, unsigned number, struct buf *out)
{
	const struct bucket *b = arg;
	unsigned most = number_behind(r->head, "max-keys=");
	unsigned after = number_behind(r->head, "start-after=pre%2Fk%2F") +
			 number_behind(r->head, "continuation-token=t");
	unsigned last = after + most < b->keys ? after + most : b->keys;

	buf_addf(out, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult><Name>bkt</Name>"
		      "<EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>",
		 last < b->keys ? "true" : "false");
	for (unsigned i = after + 1; i <= last; i++)
		buf_addf(out, "<Contents><Key>pre%%2Fk/%05u</Key><Size>1</Size></Contents>", i);
	if (last < b->keys && b->tokens)
		buf_addf(out, "<NextContinuationToken>t%u</NextContinuationToken>", last);
	buf_addf(out, "</ListBucketResult>");
}

static void check_pages(unsigned keys, bool tokens, unsigned most, unsigned want, unsigned requests)
{
	struct client *c = new_client();
	struct bucket b = {.keys = keys, .tokens = tokens};
	struct object_req r = {.op = OBJECT_LIST, .key = "k/", .most = most};
	unsigned n = 0;
	char key[16];

	connect_to(c, list_page, &b);
	assert_int_equal(objects_do(c->objects, &r, &c->f), 0);
	for (size_t at = 0; at < r.body.len; at += strlen((char *)r.body.data + at) + 1) {
		snprintf(key, sizeof(key), "k/%05u", ++n);
		assert_string_equal((char *)r.body.data + at, key);
	}
	assert_int_equal(n, want);
	assert_requests(c, requests);
	object_req_fini(&r);
	end((void **)&c);
}

static void pages_make_one_list_at_every_boundary(void **state)
{
	static const struct {
		unsigned keys, most, want, requests;
	} cases[] = {
		{0, 0, 0, 1},	    {999, 0, 999, 1},	{1000, 0, 1000, 1}, {1001, 0, 1001, 2},
		{2000, 0, 2000, 2}, {2001, 0, 2001, 3}, {2001, 1, 1, 1},    {2001, 1000, 1000, 1},
		{2001, 1500, 1500, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check_pages(cases[i].keys, true, cases[i].most, cases[i].want, cases[i].requests);
		check_pages(cases[i].keys, false, cases[i].most, cases[i].want, cases[i].requests);
	}
}

#define LIST(inner) NO_LENGTH_200("<ListBucketResult>" inner "</ListBucketResult>")
#define KEY(name) "<Contents><Key>" name "</Key></Contents>"

static int list(struct client *c, struct object_req *r)
{
	*r = (struct object_req){.op = OBJECT_LIST, .key = "k/", .deadline_ns = in_ms(20000)};
	return objects_do(c->objects, r, &c->f);
}

static void lists_that_cannot_be_right_are_refused(void **state)
{
	static const struct {
		const char *answer, *says;
	} cases[] = {
		{LIST(KEY("pre/k/2") KEY("pre/k/1")), "in order"},
		{LIST(KEY("pre/k/1") KEY("pre/k/1")), "in order"},
		{LIST(KEY("pre/j")), "not asked for"},
		{LIST(KEY("other/k/1")), "not asked for"},
		{LIST("<EncodingType>url</EncodingType>" KEY("pre/k/1%00")), "not asked for"},
		{LIST("<IsTruncated>true</IsTruncated>"), "promises more"},
		{LIST("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
		 "promises more"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct client *c;
		struct object_req r;

		assert_int_equal(make((void **)&c), 0);
		c->script[0] = cases[i].answer;
		assert_int_equal(list(c, &r), -EPROTO);
		assert_int_equal(c->f.retry, FAULT_FINAL);
		assert_says(&c->f, cases[i].says);
		object_req_fini(&r);
		end((void **)&c);
	}
}

static void a_list_that_is_cut_is_asked_for_again(void **state)
{
	struct client *c = *state;
	struct object_req r;

	c->script[0] = NO_LENGTH_200("<ListBucketResult>" KEY("pre/k/1") "<Conte");
	c->script[1] = LIST(KEY("pre/k/1") KEY("pre/k/2"));
	assert_int_equal(list(c, &r), 0);
	assert_int_equal(r.body.len, 8);
	assert_memory_equal(r.body.data, "k/1\0k/2", 8);
	assert_requests(c, 2);
	object_req_fini(&r);
}

static void awkward_keys_are_decoded_only_if_they_are_encoded(void **state)
{
	struct client *c = *state;
	struct object_req r;

	c->script[0] = LIST("<EncodingType>url</EncodingType>" KEY("pre/k/a%2520b") KEY(
		"pre/k/a%2Bb") KEY("pre/k/a+b%C3%BC"));
	assert_int_equal(list(c, &r), -EPROTO); /* "a%20b", "a+b", "a bü" is not in order */
	object_req_fini(&r);
	c->script[0] = LIST("<EncodingType>url</EncodingType>" KEY("pre/k/a+b%C3%BC") KEY(
		"pre/k/a%2520b") KEY("pre/k/a%2Bb"));
	assert_int_equal(list(c, &r), 0);
	assert_memory_equal(r.body.data, "k/a b\xc3\xbc\0k/a%20b\0k/a+b", r.body.len);
	object_req_fini(&r);
	c->script[0] = LIST(KEY("pre/k/a%20b") KEY("pre/k/a+b") KEY("pre/k/a&amp;b"));
	assert_int_equal(list(c, &r), -EPROTO); /* '&' comes before '+' */
	object_req_fini(&r);
	c->script[0] = LIST(KEY("pre/k/a%20b") KEY("pre/k/a&amp;b") KEY("pre/k/a+b"));
	assert_int_equal(list(c, &r), 0);
	assert_memory_equal(r.body.data, "k/a%20b\0k/a&b\0k/a+b", r.body.len);
	object_req_fini(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_answer_has_its_code_class_and_words),
		TEST(of_a_long_key_the_end_is_told),
		TEST(a_conflict_twice_is_tried_a_third_time),
		TEST(an_error_in_a_200_is_no_success),
		TEST(denied_is_asked_once),
		TEST(once_means_once),
		TEST(slow_down_waits_as_long_as_it_is_told),
		TEST(a_store_that_asks_for_more_time_than_there_is_ends_the_request),
		TEST(at_the_deadline_the_last_reason_is_told),
		TEST(a_server_that_never_answers_meets_the_deadline),
		TEST(a_request_under_way_can_be_cancelled),
		TEST(closing_cancels_what_is_under_way_and_what_waits),
		TEST(a_cut_body_is_fetched_again),
		TEST(a_whole_object_without_a_length_is_not_believed),
		cmocka_unit_test(a_wrong_range_is_eio_in_the_end),
		TEST(a_wrong_range_once_does_no_harm),
		TEST(a_damaged_put_is_sent_a_few_times_only),
		TEST(a_put_says_what_it_is),
		TEST(an_overwrite_has_no_condition),
		TEST(the_region_is_learned_once),
		TEST(the_region_in_the_document_will_do),
		TEST(a_temporary_redirect_is_followed_by_region),
		TEST(a_redirect_to_where_we_are_is_refused),
		TEST(a_redirect_loop_is_refused),
		TEST(a_region_that_is_no_name_is_not_believed),
		cmocka_unit_test(a_wrong_clock_is_learned_from_the_answer),
		TEST(a_clock_that_stays_wrong_is_said),
		cmocka_unit_test(expired_credentials_are_renewed),
		TEST(a_412_after_our_own_success_is_success),
		TEST(a_412_with_other_bytes_is_another_writers),
		cmocka_unit_test(pages_make_one_list_at_every_boundary),
		cmocka_unit_test(lists_that_cannot_be_right_are_refused),
		TEST(a_list_that_is_cut_is_asked_for_again),
		TEST(awkward_keys_are_decoded_only_if_they_are_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
