/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer: how a request becomes libcurl options, how bytes move, what a result means. */
#include "base/http_xfer.h"

#include <ctype.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"

enum {
	CONNECT_MS = 5000,
	STALL_MS = 20000,
	BUFFER_BYTES = 256 << 10, /* measured: 64 KiB to 512 KiB move a GB at the same cost */
	MOST_HEAD = 256 << 10,
	MOST_BODY = 64 << 20,
};

/* ---- results ---- */

static const struct answer {
	CURLcode code;
	int err;
	enum fault_retry retry;
} answers[] = {
	{CURLE_URL_MALFORMAT, -EINVAL, FAULT_FINAL},
	{CURLE_BAD_FUNCTION_ARGUMENT, -EINVAL, FAULT_FINAL},
	{CURLE_PEER_FAILED_VERIFICATION, -EACCES, FAULT_FINAL},
	{CURLE_SSL_CACERT_BADFILE, -EINVAL, FAULT_FINAL},
	{CURLE_SSL_CERTPROBLEM, -EINVAL, FAULT_FINAL},
	{CURLE_SSL_ISSUER_ERROR, -EACCES, FAULT_FINAL},
	{CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH, FAULT_SOON},
	{CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH, FAULT_SOON},
	{CURLE_COULDNT_CONNECT, -ECONNREFUSED, FAULT_SOON},
	{CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, FAULT_SOON},
	{CURLE_SSL_CONNECT_ERROR, -ECONNRESET, FAULT_SOON},
	{CURLE_SEND_ERROR, -ECONNRESET, FAULT_SOON},
	{CURLE_RECV_ERROR, -ECONNRESET, FAULT_SOON},
	{CURLE_GOT_NOTHING, -ECONNRESET, FAULT_SOON},
	{CURLE_PARTIAL_FILE, -ECONNRESET, FAULT_SOON},
	{CURLE_OUT_OF_MEMORY, -ENOMEM, FAULT_SOON},
	{CURLE_WEIRD_SERVER_REPLY, -EPROTO, FAULT_SOON},
	{CURLE_UNSUPPORTED_PROTOCOL, -EPROTO, FAULT_SOON}, /* theirs: a status line that is none */
};

static const struct answer *answer_to(CURLcode code)
{
	static const struct answer other = {.err = -EIO, .retry = FAULT_SOON};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i].code == code)
			return &answers[i];
	return &other;
}

int xfer_failed(struct http_req *r, int code, enum fault_retry retry, const char *text)
{
	int shown = (int)strcspn(r->url, "?");

	/* The reason has to fit behind a key of a kilobyte. */
	r->rc = fault_set(&r->fault, code, retry, "%s %.*s%s: %s", r->method,
			  shown < 120 ? shown : 120, r->url, shown < 120 ? "" : "…", text);
	return r->rc;
}

/* ---- bytes ---- */

static void sent(struct xfer *x)
{
	x->moved_ns = clock_mono(&clock_system);
	if (x->req->pulse)
		x->req->pulse->sent_ns = x->moved_ns;
}

static void heard(struct xfer *x)
{
	x->moved_ns = clock_mono(&clock_system);
	if (x->req->pulse)
		x->req->pulse->heard_ns = x->moved_ns;
}

/* For callbacks: the return value that makes libcurl give up. */
static size_t give_up(struct xfer *x, int code, enum fault_retry retry, const char *text)
{
	(void)fault_set(&x->fault, code, retry, "%s", text);
	return 0;
}

static size_t send_body(char *out, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;
	const struct http_req *r = x->req;
	size_t room = size * n;
	size_t done = 0;

	sent(x);
	while (done < room && x->body_part < r->bodies) {
		const struct iovec *part = &r->body[x->body_part];
		size_t len = part->iov_len - x->body_at;

		if (len > room - done)
			len = room - done;
		if (len > 0)
			memcpy(out + done, (const char *)part->iov_base + x->body_at, len);
		done += len;
		x->body_at += len;
		if (x->body_at < part->iov_len)
			break;
		x->body_part++;
		x->body_at = 0;
	}
	return done;
}

/* A kept connection may turn out dead when the body is under way; libcurl then starts over. */
static int rewind_body(void *arg, curl_off_t offset, int origin)
{
	struct xfer *x = arg;

	if (origin != SEEK_SET || offset != 0)
		return CURL_SEEKFUNC_CANTSEEK;
	x->body_part = 0;
	x->body_at = 0;
	return CURL_SEEKFUNC_OK;
}

static void trim(const char **from, const char **end)
{
	while (*from < *end && isspace((unsigned char)**from))
		(*from)++;
	while (*from < *end && isspace((unsigned char)(*end)[-1]))
		(*end)--;
}

/* "Name: value\r\n" becomes "name: value\n". */
static void add_header_in(struct buf *head, const char *line, const char *colon, const char *end)
{
	const char *value = colon + 1;

	trim(&value, &end);
	for (; line < colon; line++)
		buf_u8(head, (uint8_t)tolower((unsigned char)*line));
	buf_addf(head, ": %.*s\n", (int)(end - value), value);
}

/* A status line begins a new reply: one comes after "100 Continue", say. */
static size_t take_header(char *line, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;
	struct buf *head = &x->req->head;
	size_t len = size * n;
	const char *colon = memchr(line, ':', len);

	heard(x);
	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
		head->len = 0;
	else if (colon)
		add_header_in(head, line, colon, line + len);
	if (!buf_ok(head))
		return give_up(x, -ENOMEM, FAULT_SOON, "out of memory for its headers");
	if (head->len > MOST_HEAD)
		return give_up(x, -EMSGSIZE, FAULT_FINAL, "headers without end");
	return len;
}

/* One allocation for a body whose length is known. */
static void expect_body(struct xfer *x, size_t most)
{
	curl_off_t len = -1;

	/* An unknown length stays -1; a failed reserve is told by the buffer itself. */
	(void)curl_easy_getinfo(x->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &len);
	if (len > 0 && (uint64_t)len <= most)
		(void)buf_reserve(&x->req->body_in, (size_t)len + 1);
}

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;
	struct http_req *r = x->req;
	size_t len = size * n;
	bool direct;
	size_t most;

	heard(x);
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &r->status); /* cannot fail */
	direct = r->dest && r->status / 100 == 2;
	most = direct ? r->dest_cap : r->most ? r->most : MOST_BODY;
	if (len > most - r->got)
		return give_up(x, -EMSGSIZE, FAULT_FINAL, "the response is longer than it may be");
	if (direct) {
		memcpy(r->dest + r->got, data, len);
	} else {
		if (r->got == 0)
			expect_body(x, most);
		buf_add(&r->body_in, data, len);
		if (!buf_ok(&r->body_in))
			return give_up(x, -ENOMEM, FAULT_SOON, "out of memory for its response");
	}
	r->got += len;
	return len;
}

/* ---- stalls ---- */

uint64_t xfer_stalls_at_ns(const struct xfer *x)
{
	return x->moved_ns + (x->req->stall_ms ? x->req->stall_ms : STALL_MS) * NS_PER_MS;
}

bool xfer_drains(struct xfer *x)
{
	curl_socket_t s = CURL_SOCKET_BAD;
	int left = 0;
	bool drains;

	(void)curl_easy_getinfo(x->easy, CURLINFO_ACTIVESOCKET, &s); /* or still bad */
	if (s == CURL_SOCKET_BAD || ioctl(s, SIOCOUTQ, &left) < 0)
		return false;
	drains = left != x->unsent;
	x->unsent = left;
	if (drains)
		sent(x);
	return drains;
}

/* ---- options ---- */

/* What no request changes.  Non-zero if libcurl is out of memory, or knows one of these no more. */
static int set_fixed(struct xfer *x, const char *ca_bundle)
{
	CURL *e = x->easy;
	int bad = 0;

	bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, x);
	bad |= curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->said);
	bad |= curl_easy_setopt(e, CURLOPT_USERAGENT, "holdfast");
	/* A path is signed as it is, dots and all. */
	bad |= curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	/* HTTP/2 would put all of a lane's transfers into one connection, and S3 has none. */
	bad |= curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	bad |= curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	bad |= curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
	bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 15L);
	bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 15L);
	bad |= curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	bad |= curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
	bad |= curl_easy_setopt(e, CURLOPT_READFUNCTION, send_body);
	bad |= curl_easy_setopt(e, CURLOPT_READDATA, x);
	bad |= curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, rewind_body);
	bad |= curl_easy_setopt(e, CURLOPT_SEEKDATA, x);
	bad |= curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
	bad |= curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
	bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
	bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
	if (ca_bundle)
		bad |= curl_easy_setopt(e, CURLOPT_CAINFO, ca_bundle);
	return bad;
}

static bool has_body(const struct http_req *r)
{
	return r->bodies > 0 || strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0;
}

static curl_off_t body_length(const struct http_req *r)
{
	curl_off_t len = 0;

	for (int i = 0; i < r->bodies; i++)
		len += (curl_off_t)r->body[i].iov_len;
	return len;
}

/* A PUT or POST without a body says so: "Content-Length: 0". */
static int set_method(CURL *e, const struct http_req *r)
{
	int bad = 0;

	bad |= curl_easy_setopt(e, CURLOPT_HTTPGET, 1L); /* takes back what the last request set */
	bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
	if (strcmp(r->method, "HEAD") == 0)
		bad |= curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	if (has_body(r)) {
		bad |= curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
		bad |= curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, body_length(r));
	}
	return bad;
}

static int add_header(struct xfer *x, const char *line)
{
	struct curl_slist *more = curl_slist_append(x->headers, line);

	if (!more)
		return -ENOMEM;
	x->headers = more;
	return 0;
}

static int set_headers(struct xfer *x, const struct http_req *r)
{
	int bad = add_header(x, "Expect:"); /* a round trip before each body otherwise */

	for (int i = 0; r->headers && r->headers[i]; i++)
		bad |= add_header(x, r->headers[i]);
	return bad | (int)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
}

static int set_request(struct xfer *x, const struct http_req *r)
{
	CURL *e = x->easy;
	int bad = set_method(e, r) | set_headers(x, r);

	bad |= curl_easy_setopt(e, CURLOPT_URL, r->url);
	bad |= curl_easy_setopt(e, CURLOPT_PROXY, r->no_proxy ? "" : NULL);
	bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
				(long)(r->connect_ms ? r->connect_ms : CONNECT_MS));
	bad |= curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->total_ms);
	return bad;
}

/* ---- life ---- */

int xfer_new(struct http_client *c, const char *ca_bundle, struct xfer **out)
{
	scoped(xfer_free) struct xfer *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->client = c;
	x->easy = curl_easy_init();
	if (!x->easy || set_fixed(x, ca_bundle))
		return -ENOMEM;
	*out = take(&x);
	return 0;
}

void xfer_free(struct xfer *x)
{
	if (!x)
		return;
	if (x->easy)
		curl_easy_cleanup(x->easy);
	free(x);
}

static bool is_http(const char *url)
{
	return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

static void let_go(struct xfer *x)
{
	/* libcurl must not keep a pointer to a list that is gone. */
	(void)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(x->headers);
	x->headers = NULL;
	x->req = NULL;
}

int xfer_open(struct xfer *x, struct http_req *r)
{
	if (!is_http(r->url))
		return xfer_failed(r, -EINVAL, FAULT_FINAL, "not an http:// or https:// URL");
	if (set_request(x, r)) {
		let_go(x);
		return xfer_failed(r, -ENOMEM, FAULT_SOON, "out of memory");
	}
	x->req = r;
	x->body_part = 0;
	x->body_at = 0;
	x->fault = FAULT_NONE;
	x->said[0] = '\0';
	x->unsent = 0;
	x->moved_ns = clock_mono(&clock_system);
	return 0;
}

void xfer_close(struct xfer *x, CURLcode code)
{
	struct http_req *r = x->req;
	const struct answer *a = answer_to(code);

	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &r->status); /* cannot fail */
	if (x->fault.code)
		(void)xfer_failed(r, x->fault.code, x->fault.retry, x->fault.text);
	else if (code != CURLE_OK)
		(void)xfer_failed(r, a->err, a->retry,
				  x->said[0] ? x->said : curl_easy_strerror(code));
	else
		r->rc = 0;
	let_go(x);
}
