/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a try: a success looked at closely, or a refusal understood.  Thread: the loop's. */
#ifndef HOLDFAST_STORE_S3_REPLY_H
#define HOLDFAST_STORE_S3_REPLY_H

#include "base/http.h"
#include "store/s3_request.h"

/*
 * What h, an ended HTTP request, means for r.  Fills r's results or r->fault; learns for s what
 * the next try needs.  Returns what r->rc is to be.
 */
int s3_reply(struct s3_site *s, const struct s3_request *q, struct http_req *h,
	     struct object_req *r);

#endif
