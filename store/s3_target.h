/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a request goes: host, path and URL of a bucket and key.  Pure; thread: any.
 * AWS itself is addressed by https://BUCKET.s3.REGION..., everything else by path: a configured
 * endpoint may be an IP address, and a bucket with dots fits no wildcard certificate.
 */
#ifndef HOLDFAST_STORE_S3_TARGET_H
#define HOLDFAST_STORE_S3_TARGET_H

#include "base/buf.h"
#include "base/fault.h"

struct s3_target {
	struct buf host; /* as in the Host header */
	struct buf path; /* as sent, encoded */
	struct buf url;  /* without query */
};

#define S3_TARGET_EMPTY ((struct s3_target){.host = BUF_EMPTY})
void s3_target_fini(struct s3_target *t);
SCOPE_VAL(struct s3_target, s3_target_fini)

/* Fails: -EINVAL not an http:// or https:// URL of a host; the text names it. */
int s3_endpoint_check(const char *endpoint, struct fault *f);

/*
 * endpoint: NULL for AWS, else one that was checked.  key: the two parts are written one behind the
 * other; NULL, NULL for the bucket itself.  out: was empty.  0 or -ENOMEM.
 */
int s3_target_make(const char *endpoint, const char *region, const char *bucket, const char *prefix,
		   const char *key, struct s3_target *out);

#endif
