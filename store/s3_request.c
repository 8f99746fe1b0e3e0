/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building requests.  Bodies are not hashed for the signature: TLS guards them on the way, and a
 * PUT carries a CRC-32C that the store verifies.
 */
#include "store/s3_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/crc32c.h"

#define PAGE_MOST 1000

int s3_no_memory(struct object_req *r)
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

static void build_list_query(struct s3_request *q, const char *prefix, const struct object_req *r)
{
	const char *after = object_list_after(r);
	unsigned room = object_list_room(r);

	sign_query_add(&q->query, "list-type", "2");
	sign_query_add(&q->query, "encoding-type", "url");
	add_number(&q->query, "max-keys", room < PAGE_MOST ? room : PAGE_MOST);
	add_full_key(&q->query, "prefix", prefix, r->key);
	if (r->priv.token.len > 0)
		sign_query_add(&q->query, "continuation-token", (const char *)r->priv.token.data);
	else if (after)
		add_full_key(&q->query, "start-after", prefix, after);
}

/* Each ends with a NUL, which may need memory too. */
static bool end_texts(struct s3_request *q)
{
	struct buf *const texts[] = {&q->url, &q->query, &q->target.host, &q->target.path};
	bool whole = true;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		(void)buf_str(texts[i]); /* it is where data points to */
		whole = whole && buf_ok(texts[i]);
	}
	return whole;
}

static int build_url(struct s3_request *q, const struct s3_site *s, const struct object_req *r)
{
	bool list = r->op == OBJECT_LIST;

	if (s3_target_make(s->endpoint, q->region, s->uri->bucket, list ? NULL : s->uri->prefix,
			   list ? NULL : r->key, &q->target) < 0)
		return -ENOMEM;
	if (list)
		build_list_query(q, s->uri->prefix, r);
	buf_addf(&q->url, "%s%s%s", buf_str(&q->target.url), list ? "?" : "", buf_str(&q->query));
	return end_texts(q) ? 0 : -ENOMEM;
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

static uint32_t checksum_of(const struct object_req *r)
{
	return r->checksum ? *r->checksum : crc32c(r->iov, r->iovs);
}

/* The headers of this operation; returns their number. */
static int build_headers(struct s3_request *q, const struct object_req *r)
{
	int n = 0;

	if (r->op == OBJECT_GET && r->len > 0) {
		(void)snprintf(q->range, sizeof(q->range), "Range: bytes=%llu-%llu",
			       (unsigned long long)r->off,
			       (unsigned long long)(r->off + r->len - 1)); /* fits */
		q->headers[n++] = q->range;
	}
	if (r->op == OBJECT_PUT) {
		checksum_header(checksum_of(r) ^ r->spoil_checksum, q->checksum,
				sizeof(q->checksum));
		q->headers[n++] = q->checksum;
		q->headers[n++] = "Content-Type: application/octet-stream";
		if (r->create_only)
			q->headers[n++] = "If-None-Match: *";
	}
	q->headers[n] = NULL;
	return n;
}

/* Adds the signature's headers behind the n there are. */
static int sign(struct s3_request *q, int n, struct s3_site *s, struct signer *signer,
		struct sign_keys *keys, struct object_req *r)
{
	const struct sign_req req = {
		.method = q->method,
		.host = (const char *)q->target.host.data,
		.path = (const char *)q->target.path.data,
		.query = q->query.len > 0 ? (const char *)q->query.data : NULL,
		.headers = q->headers,
		.payload = r->op == OBJECT_PUT ? SIGN_UNSIGNED : NULL,
		.region = q->region,
		.service = "s3",
		.at_s = s3_site_now_s(s),
	};
	int rc = creds_get(s->creds, keys, &q->generation, &r->fault);

	if (rc == 0)
		rc = sign_headers(signer, keys, &req, &q->signature, &r->fault);
	if (rc < 0)
		return fault_in(&r->fault, "%s %.80s", object_op_name(r->op), r->key);
	for (int i = 0; q->signature.lines[i]; i++)
		q->headers[n++] = q->signature.lines[i];
	q->headers[n] = NULL;
	return 0;
}

int s3_request_build(struct s3_request *q, struct s3_site *s, struct signer *signer,
		     struct sign_keys *scratch, struct object_req *r)
{
	q->method = r->op == OBJECT_LIST ? "GET" : object_op_name(r->op);
	s3_site_region(s, q->region);
	if (build_url(q, s, r) < 0)
		return s3_no_memory(r);
	return sign(q, build_headers(q, r), s, signer, scratch, r);
}

void s3_request_fini(struct s3_request *q)
{
	buf_fini(&q->url);
	buf_fini(&q->query);
	s3_target_fini(&q->target);
	sign_headers_fini(&q->signature);
}
