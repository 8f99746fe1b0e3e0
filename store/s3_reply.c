/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies.  What a refusal means is s3_answer.c's table; here it is put into words, and what the
 * table wants put right is.  ETags are never looked at: what they are is each server's own affair.
 */
#include "store/s3_reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/s3_answer.h"
#include "store/s3_xml.h"

#define FIXES_MOST 3

struct reply {
	struct s3_site *site;
	const struct s3_request *q;
	struct http_req *h;
	struct object_req *r;
};

/* ---- a success, looked at closely ---- */

/* For a range: is it the one we asked for? */
static int check_range(struct reply *a)
{
	struct object_req *r = a->r;
	char text[96];
	uint64_t first, last;

	if (a->h->status == 200) /* a server may send the whole, if that is what we want */
		return r->off == 0 && a->h->got == r->len
			       ? 0
			       : object_cut(r, "the store ignored the range");
	if (!http_header(a->h, "content-range", text, sizeof(text)) ||
	    !s3_content_range(text, &first, &last, &r->size))
		return object_cut(r, "the answer names no range");
	if (first != r->off || last != r->off + r->len - 1)
		return object_cut(r, "the answer is another range, or the object too short");
	return a->h->got == r->len ? 0 : object_cut(r, "the body is not as long as its range");
}

/* For a whole object: without a length, an end is no different from a cut. */
static int check_whole(struct reply *a)
{
	struct object_req *r = a->r;
	char text[64];

	if (a->h->status != 200)
		return object_cut(r, "the answer is a part");
	if (!http_header(a->h, "content-length", text, sizeof(text)) &&
	    !(http_header(a->h, "transfer-encoding", text, sizeof(text)) &&
	      strcasecmp(text, "chunked") == 0))
		return object_cut(r, "the answer does not say how long it is");
	r->size = a->h->got;
	return 0;
}

static int take_object(struct reply *a)
{
	struct object_req *r = a->r;
	int rc = r->len > 0 ? check_range(a) : check_whole(a);

	if (rc < 0)
		return rc;
	if (!r->dest) {
		buf_fini(&r->body);
		r->body = a->h->body_in;
		a->h->body_in = BUF_EMPTY;
	}
	return 0;
}

static int bad_list(struct object_req *r, const char *why)
{
	return fault_set(&r->fault, -EPROTO, FAULT_FINAL, "LIST %.120s: the store %s", r->key, why);
}

static int take_keys(struct reply *a, const struct s3_page *p)
{
	struct object_req *r = a->r;
	const char *prefix = a->site->uri->prefix;
	size_t skip = strlen(prefix);
	const char *keys = (const char *)p->keys.data;

	for (size_t at = 0; at < p->keys.len && object_list_room(r) > 0;) {
		const char *key = keys + at;
		size_t len = strlen(key);
		int rc;

		if (strncmp(key, prefix, skip) != 0 ||
		    strncmp(key + skip, r->key, strlen(r->key)) != 0)
			return bad_list(r, "lists keys that it was not asked for");
		rc = object_listed(r, key + skip, len - skip);
		if (rc == -ENOMEM)
			return s3_no_memory(r);
		if (rc < 0)
			return bad_list(r, "does not list keys in order");
		at += len + 1;
	}
	return 0;
}

/* Where the next page begins: behind this token, or behind the newest key. */
static int keep_token(struct object_req *r, struct s3_page *p)
{
	bool stuck =
		p->keys.len == 0 && p->token.len == r->priv.token.len &&
		(p->token.len == 0 || memcmp(p->token.data, r->priv.token.data, p->token.len) == 0);

	if (p->truncated && stuck)
		return bad_list(r, "promises more keys and sends none");
	buf_fini(&r->priv.token);
	r->priv.token = p->token;
	p->token = BUF_EMPTY;
	r->priv.more = p->truncated;
	return 0;
}

static int take_page(struct reply *a)
{
	scoped(s3_page_fini) struct s3_page p = S3_PAGE_EMPTY;
	struct object_req *r = a->r;
	int rc = s3_xml_page(a->h->body_in.data, a->h->body_in.len, &p);

	if (rc == -ENOMEM)
		return s3_no_memory(r);
	if (rc < 0)
		return object_cut(r, "the answer is no list of keys");
	rc = take_keys(a, &p);
	if (rc < 0) {
		buf_fini(&r->priv.token); /* some keys were taken: go on behind them */
		return rc;
	}
	return keep_token(r, &p);
}

static int succeeded(struct reply *a)
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

/* "s3://bucket/…key": of a long name the end tells most. */
static void name_of(const struct reply *a, char *out, size_t cap)
{
	const struct store_uri *uri = a->site->uri;
	size_t prefix = strlen(uri->prefix), key = strlen(a->r->key);
	size_t room = cap - strlen("s3:///…") - strlen(uri->bucket) - 1;
	size_t cut = prefix + key > room ? prefix + key - room : 0;
	size_t off_prefix = cut < prefix ? cut : prefix;

	(void)snprintf(out, cap, "s3://%s/%s%s%s", uri->bucket, cut > 0 ? "…" : "",
		       uri->prefix + off_prefix, a->r->key + (cut - off_prefix)); /* fits */
}

/* "PUT s3://bucket/key: 403 AccessDenied (Access Denied); what to do" */
static int say(const struct reply *a, const struct s3_verdict *v, const struct s3_error *e)
{
	bool denied = v->code == -EACCES && v->retry == FAULT_FINAL;
	char name[112], said[72] = "", who[72] = "";

	name_of(a, name, sizeof(name));
	if (e->message[0])
		(void)snprintf(said, sizeof(said), " (%.60s)", e->message); /* cut */
	if (denied)
		(void)snprintf(who, sizeof(who), " (credentials: %.50s)",
			       creds_source(a->site->creds)); /* cut */
	return fault_set(&a->r->fault, v->code, v->retry, "%s %s: %ld%s%.40s%s%s%s%s",
			 object_op_name(a->r->op), name, a->h->status, e->code[0] ? " " : "",
			 e->code, said, v->cure[0] ? "; " : "", v->cure, who);
}

/* False: there is nothing new to learn, another try would end the same way. */
static bool fix_region(struct reply *a, const struct s3_error *e)
{
	char region[S3_REGION_MAX] = "";

	if (!http_header(a->h, "x-amz-bucket-region", region, sizeof(region)))
		(void)snprintf(region, sizeof(region), "%s", e->region); /* same size */
	if (region[0] == '\0') /* a new bucket's name is on its way through the DNS */
		return a->h->status == 307;
	return strcmp(region, a->q->region) != 0 && s3_site_learn_region(a->site, region) == 0;
}

static bool fix_clock(struct reply *a)
{
	char text[64];
	int64_t theirs;

	if (!http_header(a->h, "date", text, sizeof(text)))
		return false;
	theirs = s3_date(text);
	if (theirs < 0)
		return false;
	s3_site_learn_time(a->site, theirs);
	return true;
}

static bool fix(struct reply *a, enum s3_fix what, const struct s3_error *e)
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
		creds_expired(a->site->creds, a->q->generation);
		return true;
	case S3_FIX_NONE:
		break;
	}
	return true;
}

/* Seconds, or a date by the store's own clock. */
static uint64_t retry_after_ns(const struct reply *a)
{
	char text[64];
	char *end;
	unsigned long s;
	int64_t at;

	if (!http_header(a->h, "retry-after", text, sizeof(text)))
		return 0;
	s = strtoul(text, &end, 10);
	if (end != text && *end == '\0')
		return s < UINT32_MAX ? s * NS_PER_S : 0;
	at = s3_date(text) - s3_site_now_s(a->site);
	return at > 0 && at < UINT32_MAX ? (uint64_t)at * NS_PER_S : 0;
}

static int refused(struct reply *a, const struct s3_error *e)
{
	struct object_req *r = a->r;
	const struct s3_verdict *v = s3_judge(r->op, a->h->status, e->code);

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
static int broken(struct reply *a)
{
	struct object_req *r = a->r;
	const struct http_req *h = a->h;

	if (r->op == OBJECT_GET && h->status / 100 == 2 &&
	    (h->rc == -ECONNRESET || h->rc == -EMSGSIZE))
		return object_cut(r, h->rc == -EMSGSIZE ? "the body is longer than its range"
							: "the body ended early");
	r->fault = h->fault;
	return h->rc;
}

int s3_reply(struct s3_site *s, const struct s3_request *q, struct http_req *h,
	     struct object_req *r)
{
	struct reply a = {.site = s, .q = q, .h = h, .r = r};
	struct s3_error e = {.code = ""};
	bool good = h->status / 100 == 2;

	if (h->rc < 0)
		return broken(&a);
	/* An object may be any document; everything else that is one of errors is an error. */
	if (!good || r->op != OBJECT_GET)
		good = !s3_xml_error(h->body_in.data, h->body_in.len, &e) && good;
	return good ? succeeded(&a) : refused(&a, &e);
}
