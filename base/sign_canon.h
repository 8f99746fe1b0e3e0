/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical request of Signature Version 4: the text that both sides hash.  sign.c's own, and
 * its test's, which compares it before it compares signatures.
 */
#ifndef HOLDFAST_BASE_SIGN_CANON_H
#define HOLDFAST_BASE_SIGN_CANON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/sign.h"

/* Names and values waiting to be sorted; their text lies in one buffer. */
struct sign_pairs {
	struct buf text;
	struct buf items; /* struct pair */
};

struct sign_canon {
	/* result */
	struct buf text;
	struct buf names; /* the signed headers: "host;x-amz-date" */
	/* scratch, kept for the next request */
	struct sign_pairs pairs;
};

/* A header that signing itself adds. */
struct sign_extra {
	const char *name; /* in lower case; NULL ends a list */
	const char *value;
};

/* Empty a buffer that is used again, and forgive it a failure. */
static inline void sign_buf_restart(struct buf *b)
{
	if (b->failed)
		buf_fini(b);
	b->len = 0;
}

void sign_canon_fini(struct sign_canon *c);

/* Build c->text and c->names anew.  `query` and `payload` are r's, or what stands in for them.
 * 0 or -ENOMEM. */
int sign_canon_make(struct sign_canon *c, const struct sign_req *r, const char *query,
		    const struct sign_extra *extra, const char *payload);
/* The signed header names alone: a presigned query holds them, so they are needed first. */
int sign_canon_names(struct sign_canon *c, const struct sign_req *r,
		     const struct sign_extra *extra);

/* S3 and its kin sign the path as it is sent. */
bool sign_service_is_s3(const char *service);

#endif
