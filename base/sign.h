/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4, for headers and for presigned queries.  Pure computation: no clock, no
 * network, no configuration.  Thread: a struct signer is one thread's at a time.
 * Fails: -ENOMEM (SOON); -EINVAL (FINAL) for a request that cannot be signed.
 */
#ifndef HOLDFAST_BASE_SIGN_H
#define HOLDFAST_BASE_SIGN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/scope.h"

/* Longest values taken.  S3 itself refuses requests whose headers exceed 8 KiB. */
enum { SIGN_ACCESS_MAX = 128, SIGN_SECRET_MAX = 256, SIGN_TOKEN_MAX = 8191 };

struct sign_keys {
	char access[SIGN_ACCESS_MAX + 1];
	char secret[SIGN_SECRET_MAX + 1];
	char token[SIGN_TOKEN_MAX + 1]; /* "" for long-lived keys */
};

/* Copies only what the strings hold, since the token's room is large. */
void sign_keys_copy(struct sign_keys *to, const struct sign_keys *from);
/* 0, or -EINVAL if a value is too long, empty where it must not be, or holds control characters.
 * token may be NULL. */
int sign_keys_set(struct sign_keys *k, const char *access, const char *secret, const char *token);
void sign_keys_fini(struct sign_keys *k); /* wipes */
SCOPE_VAL(struct sign_keys, sign_keys_fini)

/* Holds the fetched algorithms and the last derived key: make one a lane and keep it. */
struct signer;
int signer_new(struct signer **out, struct fault *f);
void signer_free(struct signer *s); /* wipes */
SCOPE_PTR(struct signer, signer_free)

#define SIGN_HEX_LEN  65
#define SIGN_UNSIGNED "UNSIGNED-PAYLOAD"
#define SIGN_EMPTY    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sign_req {
	const char *method;
	const char *host;  /* as in the Host header: port only if it is not the scheme's own */
	const char *path;  /* as sent: begins with '/', made by sign_path_add() */
	const char *query; /* as sent, in any order, made by sign_query_add(); NULL: none */
	/* "Name: value", ended by NULL; may be NULL.  All are signed but those that proxies rewrite
	 * (User-Agent, Expect, Connection, X-Amzn-Trace-Id, ...) and those that signing makes. */
	const char *const *headers;
	const char *payload; /* hex SHA-256 of the body or SIGN_UNSIGNED; NULL: empty body */
	const char *region;
	const char *service; /* "s3": path taken as it is; others: normalised, encoded once more */
	int64_t at_s;        /* wall time since 1970, corrected for skew by the caller */
};

/* What to send beside the request's own headers.  Valid until text ends or signs again. */
struct sign_headers {
	struct buf text;
	/* x-amz-date, x-amz-content-sha256 (S3), x-amz-security-token (if any), Authorization;
	 * NULL ends. */
	const char *lines[5];
};

#define SIGN_HEADERS_EMPTY ((struct sign_headers){.text = BUF_EMPTY})
void sign_headers_fini(struct sign_headers *h);
SCOPE_VAL(struct sign_headers, sign_headers_fini)

/* h is emptied and filled anew; reusing one keeps its memory. */
int sign_headers(struct signer *s, const struct sign_keys *k, const struct sign_req *r,
		 struct sign_headers *h, struct fault *f);

/* Presign: appends the whole query to send, without '?', to out.  payload NULL: SIGN_UNSIGNED for
 * S3, the empty body for others.  expires_s: 1 to 604800. */
int sign_query(struct signer *s, const struct sign_keys *k, const struct sign_req *r,
	       unsigned expires_s, struct buf *out, struct fault *f);

/* Hex SHA-256 of a body, for sign_req.payload. */
int sign_payload(struct signer *s, const struct iovec *body, int bodies, char out[SIGN_HEX_LEN],
		 struct fault *f);

/* Append raw bytes as a path: everything but unreserved characters and '/' becomes %XX. */
void sign_path_add(struct buf *b, const char *raw);
/* Append name=value to a query, encoded, with '&' if b is not empty.  value NULL: "". */
void sign_query_add(struct buf *b, const char *name, const char *value);

#endif
