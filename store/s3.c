/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind "s3": one HTTP request a try.  What an answer means is s3_answer.c's table; here a
 * request is built and signed, a success is checked, and what the table wants put right is.
 *
 * Bodies are not hashed for the signature: TLS guards them on the way, and a PUT carries a CRC-32C
 * that the store verifies.  ETags are never looked at: what they are is each server's own affair.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/awsconf.h"
#include "base/creds.h"
#include "base/http.h"
#include "base/sign.h"
#include "store/crc32c.h"
#include "store/objects.h"
#include "store/s3_answer.h"
#include "store/s3_target.h"
#include "store/s3_xml.h"
#include "store/uri.h"

#define REGION_MAX 32
#define REGION_DEFAULT "us-east-1" /* S3 there tells where a bucket is */
#define FIXES_MOST 3
#define PAGE_MOST 1000
#define ERROR_BODY_MOST (64u << 10)

/* What all threads share. */
struct site {
	/* fixed after share() */
	const struct store_uri *uri;
	struct aws_conf *conf;
	struct creds *creds;
	const char *endpoint; /* NULL: AWS */
	/* any thread */
	_Atomic int64_t skew_s; /* the store's clock less ours */
	pthread_mutex_t region_lock;
	char region[REGION_MAX]; /* under region_lock */
};

struct s3 {
	struct site *site;
	struct http_client *http;
	struct signer *signer;
	struct sign_keys keys; /* the last used; large, so not on the stack */
};

/* One try. */
struct attempt {
	struct s3 *s3;
	struct object_req *r; /* NULL: cancelled */
	struct http_req http;
	char region[REGION_MAX];
	uint64_t generation; /* of the credentials */
	/* what http points to */
	struct s3_target target;
	struct buf query;
	struct buf url;
	struct sign_headers signature;
	char range[64];
	char checksum[64];
	const char *headers[12];
};

/* ---- region and clock ---- */

static void region_get(struct site *s, char out[REGION_MAX])
{
	pthread_mutex_lock(&s->region_lock);
	memcpy(out, s->region, REGION_MAX);
	pthread_mutex_unlock(&s->region_lock);
}

/* It becomes part of a host name: nothing else may come in. */
static bool region_is_valid(const char *region)
{
	size_t len = strlen(region);

	return len > 0 && len < REGION_MAX &&
	       strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static void region_set(struct site *s, const char *region)
{
	pthread_mutex_lock(&s->region_lock);
	(void)snprintf(s->region, REGION_MAX, "%s", region); /* fits: it is valid */
	pthread_mutex_unlock(&s->region_lock);
}

static int64_t now_s(void)
{
	return clock_wall(&clock_system) / (int64_t)NS_PER_S;
}

/* ---- building a request ---- */

static void attempt_free(struct attempt *a)
{
	if (!a)
		return;
	http_req_fini(&a->http);
	s3_target_fini(&a->target);
	buf_fini(&a->query);
	buf_fini(&a->url);
	sign_headers_fini(&a->signature);
	free(a);
}
SCOPE_PTR(struct attempt, attempt_free)

static int no_memory(struct object_req *r)
{
	return fault_set(&r->fault, -ENOMEM, FAULT_SOON, "%s %.120s: out of memory",
			 object_op_name(r->op), r->key);
}

static void add_number(struct buf *query, const char *name, unsigned value)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", value); /* fits */
	sign_query_add(query, name, text);
}

static void add_full_key(struct buf *query, const char *name, const char *prefix, const char *key)
{
	scoped(buf_fini) struct buf full = BUF_EMPTY;

	buf_addf(&full, "%s%s", prefix, key);
	sign_query_add(query, name, buf_str(&full));
	if (!buf_ok(&full))
		query->failed = true;
}

static void build_list_query(struct attempt *a)
{
	struct object_req *r = a->r;
	const char *prefix = a->s3->site->uri->prefix;
	const char *after = object_list_after(r);
	unsigned room = object_list_room(r);

	sign_query_add(&a->query, "list-type", "2");
	sign_query_add(&a->query, "encoding-type", "url");
	add_number(&a->query, "max-keys", room < PAGE_MOST ? room : PAGE_MOST);
	add_full_key(&a->query, "prefix", prefix, r->key);
	if (r->priv.token.len > 0)
		sign_query_add(&a->query, "continuation-token", (const char *)r->priv.token.data);
	else if (after)
		add_full_key(&a->query, "start-after", prefix, after);
}

static int build_url(struct attempt *a)
{
	const struct site *s = a->s3->site;
	const struct object_req *r = a->r;
	bool list = r->op == OBJECT_LIST;

	if (s3_target_make(s->endpoint, a->region, s->uri->bucket, list ? NULL : s->uri->prefix,
			   list ? NULL : r->key, &a->target) < 0)
		return -ENOMEM;
	if (list)
		build_list_query(a);
	buf_addf(&a->url, "%s%s%s", buf_str(&a->target.url), list ? "?" : "", buf_str(&a->query));
	(void)buf_str(&a->url); /* ends them all: looked at below */
	(void)buf_str(&a->target.host);
	(void)buf_str(&a->target.path);
	return buf_ok(&a->url) && buf_ok(&a->query) && buf_ok(&a->target.host) &&
			       buf_ok(&a->target.path)
		       ? 0
		       : -ENOMEM;
}

/* Base64 of the four bytes, the highest first. */
static void checksum_header(uint32_t crc, char *out, size_t cap)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint64_t bits = (uint64_t)crc << 4; /* 36 bits: six digits */
	char text[7] = "";

	for (int i = 0; i < 6; i++)
		text[i] = digits[bits >> (30 - 6 * i) & 63];
	(void)snprintf(out, cap, "x-amz-checksum-crc32c: %s==", text); /* fits */
}

/* The headers of this operation; returns their number. */
static int build_headers(struct attempt *a)
{
	const struct object_req *r = a->r;
	int n = 0;

	if (r->op == OBJECT_GET && r->len > 0) {
		(void)snprintf(a->range, sizeof(a->range), "Range: bytes=%llu-%llu",
			       (unsigned long long)r->off,
			       (unsigned long long)(r->off + r->len - 1)); /* fits */
		a->headers[n++] = a->range;
	}
	if (r->op == OBJECT_PUT) {
		checksum_header(crc32c(r->iov, r->iovs) ^ r->spoil_checksum, a->checksum,
				sizeof(a->checksum));
		a->headers[n++] = a->checksum;
		a->headers[n++] = "Content-Type: application/octet-stream";
		if (r->create_only)
			a->headers[n++] = "If-None-Match: *";
	}
	a->headers[n] = NULL;
	return n;
}

static const char *method_of(enum object_op op)
{
	return op == OBJECT_LIST ? "GET" : object_op_name(op);
}

/* Adds the signature's headers behind the n there are. */
static int sign(struct attempt *a, int n)
{
	struct s3 *s3 = a->s3;
	struct object_req *r = a->r;
	const struct sign_req req = {
		.method = method_of(r->op),
		.host = (const char *)a->target.host.data,
		.path = (const char *)a->target.path.data,
		.query = a->query.len > 0 ? (const char *)a->query.data : NULL,
		.headers = a->headers,
		.payload = r->op == OBJECT_PUT ? SIGN_UNSIGNED : NULL,
		.region = a->region,
		.service = "s3",
		.at_s = now_s() + s3->site->skew_s,
	};
	int rc = creds_get(s3->site->creds, &s3->keys, &a->generation, &r->fault);

	if (rc == 0)
		rc = sign_headers(s3->signer, &s3->keys, &req, &a->signature, &r->fault);
	if (rc < 0)
		return fault_in(&r->fault, "%s %.80s", object_op_name(r->op), r->key);
	for (int i = 0; a->signature.lines[i]; i++)
		a->headers[n++] = a->signature.lines[i];
	a->headers[n] = NULL;
	return 0;
}

/* The largest body that makes sense; an error's has room in any case. */
static size_t body_most(const struct object_req *r)
{
	if (r->op == OBJECT_LIST || (r->op == OBJECT_GET && r->len == 0))
		return 0; /* the client's own bound */
	if (r->op == OBJECT_GET && !r->dest && r->len > ERROR_BODY_MOST)
		return r->len;
	return ERROR_BODY_MOST;
}

static void answered(struct http_req *h);

static int start(void *me, struct object_req *r)
{
	scoped(attempt_free) struct attempt *a = calloc(1, sizeof(*a));
	struct s3 *s3 = me;
	int rc;

	if (!a)
		return no_memory(r);
	a->s3 = s3;
	a->r = r;
	region_get(s3->site, a->region);
	if (build_url(a) < 0)
		return no_memory(r);
	rc = sign(a, build_headers(a));
	if (rc < 0)
		return rc;
	a->http = (struct http_req){
		.method = method_of(r->op),
		.url = (const char *)a->url.data,
		.headers = a->headers,
		.body = r->op == OBJECT_PUT ? r->iov : NULL,
		.bodies = r->op == OBJECT_PUT ? r->iovs : 0,
		.dest = r->op == OBJECT_GET ? r->dest : NULL,
		.dest_cap = r->len,
		.most = body_most(r),
		.done = answered,
		.arg = a,
	};
	r->priv.run = a;
	http_start(s3->http, &a->http);
	(void)take(&a); /* answered() frees it */
	return 0;
}

/* ---- a success, looked at closely ---- */

/* For a range: is it the one we asked for? */
static int check_range(struct attempt *a)
{
	struct object_req *r = a->r;
	char text[96];
	uint64_t first, last;

	if (a->http.status == 200) /* a server may send the whole, if that is what we want */
		return r->off == 0 && a->http.got == r->len
			       ? 0
			       : object_cut(r, "the store ignored the range");
	if (!http_header(&a->http, "content-range", text, sizeof(text)) ||
	    !s3_content_range(text, &first, &last, &r->size))
		return object_cut(r, "the answer names no range");
	if (first != r->off || last != r->off + r->len - 1)
		return object_cut(r, "the answer is another range, or the object too short");
	return a->http.got == r->len ? 0 : object_cut(r, "the body is not as long as its range");
}

/* For a whole object: without a length, an end is no different from a cut. */
static int check_whole(struct attempt *a)
{
	struct object_req *r = a->r;
	char text[64];

	if (a->http.status != 200)
		return object_cut(r, "the answer is a part");
	if (!http_header(&a->http, "content-length", text, sizeof(text)) &&
	    !(http_header(&a->http, "transfer-encoding", text, sizeof(text)) &&
	      strcasecmp(text, "chunked") == 0))
		return object_cut(r, "the answer does not say how long it is");
	r->size = a->http.got;
	return 0;
}

static int take_object(struct attempt *a)
{
	struct object_req *r = a->r;
	int rc = r->len > 0 ? check_range(a) : check_whole(a);

	if (rc < 0)
		return rc;
	if (!r->dest) {
		buf_fini(&r->body);
		r->body = a->http.body_in;
		a->http.body_in = BUF_EMPTY;
	}
	return 0;
}

static int bad_list(struct object_req *r, const char *why)
{
	return fault_set(&r->fault, -EPROTO, FAULT_FINAL, "LIST %.120s: the store %s", r->key, why);
}

static int take_keys(struct attempt *a, const struct s3_page *p)
{
	struct object_req *r = a->r;
	const char *prefix = a->s3->site->uri->prefix;
	size_t skip = strlen(prefix);
	const char *keys = (const char *)p->keys.data;

	for (size_t at = 0; at < p->keys.len && object_list_room(r) > 0;) {
		const char *key = keys + at;
		size_t len = strlen(key);
		int rc;

		if (strncmp(key, prefix, skip) != 0 || strncmp(key + skip, r->key, strlen(r->key)) != 0)
			return bad_list(r, "lists keys that it was not asked for");
		rc = object_listed(r, key + skip, len - skip);
		if (rc == -ENOMEM)
			return no_memory(r);
		if (rc < 0)
			return bad_list(r, "does not list keys in order");
		at += len + 1;
	}
	return 0;
}

/* Where the next page begins: behind this token, or behind the newest key. */
static int keep_token(struct object_req *r, struct s3_page *p)
{
	bool stuck = p->keys.len == 0 && p->token.len == r->priv.token.len &&
		     (p->token.len == 0 ||
		      memcmp(p->token.data, r->priv.token.data, p->token.len) == 0);

	if (p->truncated && stuck)
		return bad_list(r, "promises more keys and sends none");
	buf_fini(&r->priv.token);
	r->priv.token = p->token;
	p->token = BUF_EMPTY;
	r->priv.more = p->truncated;
	return 0;
}

static int take_page(struct attempt *a)
{
	scoped(s3_page_fini) struct s3_page p = S3_PAGE_EMPTY;
	struct object_req *r = a->r;
	int rc = s3_xml_page(a->http.body_in.data, a->http.body_in.len, &p);

	if (rc == -ENOMEM)
		return no_memory(r);
	if (rc < 0)
		return object_cut(r, "the answer is no list of keys");
	rc = take_keys(a, &p);
	if (rc < 0) {
		buf_fini(&r->priv.token); /* some keys were taken: go on behind them */
		return rc;
	}
	return keep_token(r, &p);
}

static int succeeded(struct attempt *a)
{
	switch (a->r->op) {
	case OBJECT_GET:
		return take_object(a);
	case OBJECT_LIST:
		return take_page(a);
	default:
		return 0;
	}
}

/* ---- a refusal ---- */

/* "PUT s3://bucket/key: 403 AccessDenied (Access Denied); what to do" */
static int say(struct attempt *a, const struct s3_verdict *v, const struct s3_error *e)
{
	const struct store_uri *uri = a->s3->site->uri;
	bool denied = v->code == -EACCES && v->retry == FAULT_FINAL;
	char who[80] = "";

	if (denied)
		(void)snprintf(who, sizeof(who), " (credentials: %.50s)",
			       creds_source(a->s3->site->creds)); /* cut */
	return fault_set(&a->r->fault, v->code, v->retry, "%s s3://%s/%s%.90s: %ld%s%.40s%s%.60s%s%s%s%s",
			 object_op_name(a->r->op), uri->bucket, uri->prefix, a->r->key,
			 a->http.status, e->code[0] ? " " : "", e->code, e->message[0] ? " (" : "",
			 e->message, e->message[0] ? ")" : "", v->cure[0] ? "; " : "", v->cure, who);
}

/* False: there is nothing new to learn, another try would end the same way. */
static bool fix_region(struct attempt *a, const struct s3_error *e)
{
	char region[REGION_MAX] = "";

	if (!http_header(&a->http, "x-amz-bucket-region", region, sizeof(region)))
		(void)snprintf(region, sizeof(region), "%s", e->region); /* same size */
	if (region[0] == '\0') /* a new bucket's name is on its way through the DNS */
		return a->http.status == 307;
	if (!region_is_valid(region) || strcmp(region, a->region) == 0)
		return false;
	region_set(a->s3->site, region);
	return true;
}

static bool fix_clock(struct attempt *a)
{
	char text[64];
	int64_t theirs;

	if (!http_header(&a->http, "date", text, sizeof(text)))
		return false;
	theirs = s3_date(text);
	if (theirs < 0)
		return false;
	a->s3->site->skew_s = theirs - now_s();
	return true;
}

static bool fix(struct attempt *a, enum s3_fix what, const struct s3_error *e)
{
	unsigned *fixes = &a->r->priv.fixes;

	switch (what) {
	case S3_FIX_REGION:
		return ++*fixes <= FIXES_MOST && fix_region(a, e);
	case S3_FIX_CLOCK:
		return ++*fixes <= FIXES_MOST && fix_clock(a);
	case S3_FIX_BODY:
		return ++*fixes <= FIXES_MOST;
	case S3_FIX_KEYS:
		creds_expired(a->s3->site->creds, a->generation);
		return true;
	case S3_FIX_NONE:
		break;
	}
	return true;
}

/* Seconds, or a date by the store's own clock. */
static uint64_t retry_after_ns(const struct attempt *a)
{
	char text[64];
	char *end;
	unsigned long s;
	int64_t at;

	if (!http_header(&a->http, "retry-after", text, sizeof(text)))
		return 0;
	s = strtoul(text, &end, 10);
	if (end != text && *end == '\0')
		return s < UINT32_MAX ? s * NS_PER_S : 0;
	at = s3_date(text) - now_s() - a->s3->site->skew_s;
	return at > 0 && at < UINT32_MAX ? (uint64_t)at * NS_PER_S : 0;
}

static int refused(struct attempt *a, const struct s3_error *e)
{
	struct object_req *r = a->r;
	const struct s3_verdict *v = s3_judge(r->op, a->http.status, e->code);

	if (v->code == 0)
		return 0;
	(void)say(a, v, e); /* the code is returned below */
	if (v->retry == FAULT_PACED)
		r->priv.retry_after_ns = retry_after_ns(a);
	if (!fix(a, v->fix, e))
		r->fault.retry = FAULT_FINAL;
	return v->code;
}

/* No whole answer came.  A body that ends early each time is not the network's fault for ever. */
static int broken(struct attempt *a)
{
	struct object_req *r = a->r;
	const struct http_req *h = &a->http;

	if (r->op == OBJECT_GET && h->status / 100 == 2 && (h->rc == -ECONNRESET || h->rc == -EMSGSIZE))
		return object_cut(r, h->rc == -EMSGSIZE ? "the body is longer than its range"
							: "the body ended early");
	r->fault = h->fault;
	return h->rc;
}

static int outcome(struct attempt *a)
{
	const struct http_req *h = &a->http;
	struct s3_error e = {.code = ""};
	bool is_error = false;

	if (h->rc < 0)
		return broken(a);
	if (a->r->op != OBJECT_GET || h->status / 100 != 2)
		is_error = s3_xml_error(h->body_in.data, h->body_in.len, &e);
	return h->status / 100 == 2 && !is_error ? succeeded(a) : refused(a, &e);
}

static void answered(struct http_req *h)
{
	scoped(attempt_free) struct attempt *a = h->arg;
	struct object_req *r = a->r;

	if (!r)
		return;
	r->priv.run = NULL;
	r->got = r->op == OBJECT_GET ? h->got : 0;
	r->rc = outcome(a);
	object_tried(r);
}

static void cancel(void *me, struct object_req *r)
{
	struct s3 *s3 = me;
	struct attempt *a = r->priv.run;

	r->priv.run = NULL;
	a->r = NULL;
	http_cancel(s3->http, &a->http); /* answered() frees it */
}

/* ---- the store, and a thread's way to it ---- */

static void site_free(struct site *s)
{
	if (!s)
		return;
	creds_free(s->creds);
	aws_conf_free(s->conf);
	pthread_mutex_destroy(&s->region_lock);
	free(s);
}
SCOPE_PTR(struct site, site_free)

static void unshare_s3(void *shared)
{
	site_free(shared);
}

static int configure(struct site *s, struct fault *f)
{
	const char *region;
	int rc = aws_conf_load(NULL, &s->conf, f);

	if (rc < 0)
		return rc;
	s->endpoint = aws_conf_endpoint(s->conf, "s3");
	rc = s->endpoint ? s3_endpoint_check(s->endpoint, f) : 0;
	if (rc < 0)
		return rc;
	region = s->conf->region ? s->conf->region : REGION_DEFAULT;
	if (!region_is_valid(region))
		return fault_set(f, -EINVAL, FAULT_FINAL, "'%.60s' is not a region: check AWS_REGION",
				 region);
	region_set(s, region);
	return creds_open(s->conf, &s->creds, f);
}

static int share_s3(const struct store_uri *uri, void **out, struct fault *f)
{
	scoped(site_free) struct site *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	pthread_mutex_init(&s->region_lock, NULL);
	s->uri = uri;
	rc = configure(s, f);
	if (rc < 0)
		return fault_in(f, "%.100s", uri->text);
	*out = take(&s);
	return 0;
}

static void s3_free(struct s3 *s3)
{
	if (!s3)
		return;
	http_client_free(s3->http);
	signer_free(s3->signer);
	sign_keys_fini(&s3->keys);
	free(s3);
}
SCOPE_PTR(struct s3, s3_free)

static void close_s3(void *me)
{
	s3_free(me);
}

static int open_s3(void *shared, struct loop *l, void **out, struct fault *f)
{
	scoped(s3_free) struct s3 *s3 = calloc(1, sizeof(*s3));
	int rc;

	if (!s3)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	s3->site = shared;
	rc = http_client_new(l, &s3->http, f);
	if (rc == 0)
		rc = signer_new(&s3->signer, f);
	if (rc == 0)
		*out = take(&s3);
	return rc;
}

const struct object_ops objects_s3 = {
	.scheme = "s3",
	.share = share_s3,
	.unshare = unshare_s3,
	.open = open_s3,
	.close = close_s3,
	.start = start,
	.cancel = cancel,
};
