/* SPDX-License-Identifier: Apache-2.0 */
/* A request to S3, built and signed.  Thread: the signer's. */
#ifndef HOLDFAST_STORE_S3_REQUEST_H
#define HOLDFAST_STORE_S3_REQUEST_H

#include "base/sign.h"
#include "store/objects.h"
#include "store/s3_site.h"
#include "store/s3_target.h"

struct s3_request {
	/* what it was made with: an answer may say that it is out of date */
	char region[S3_REGION_MAX];
	uint64_t generation; /* of the credentials */
	/* what to send */
	const char *method;
	struct buf url;          /* NUL-ended */
	const char *headers[12]; /* NULL-ended; point into what follows */
	char range[64];
	char checksum[64];
	struct sign_headers signature;
	struct s3_target target;
	struct buf query;
};

/*
 * q: zeros.  scratch: room for keys, which are large.
 * Fails:  -ENOMEM (SOON), as creds_get() and sign_headers() do; r->fault says why.
 */
int s3_request_build(struct s3_request *q, struct s3_site *s, struct signer *signer,
		     struct sign_keys *scratch, struct object_req *r);
void s3_request_fini(struct s3_request *q);

/* r->fault, and its code: out of memory, SOON. */
int s3_no_memory(struct object_req *r);

#endif
