/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on 127.0.0.1 that answers wrongly on purpose.  One connection at a time, one request a
 * connection; each is handed to a function that writes the raw answer.
 */
#ifndef HOLDFAST_TESTS_UNIT_STORE_FAKE_S3_H
#define HOLDFAST_TESTS_UNIT_STORE_FAKE_S3_H

#include <stdbool.h>

#include "base/buf.h"

enum { FAKE_REQUESTS_MOST = 64 };

struct fake_request {
	uint64_t at_ns; /* monotonic */
	char head[2048];
	size_t body; /* bytes that came behind the head */
	char text[64]; /* the first of them */
};

struct fake_s3;
/* Thread: the server's.  An empty answer closes the connection without a word. */
typedef void fake_answer(void *arg, const struct fake_request *r, unsigned number, struct buf *out);

/* Starts listening and sets AWS_ENDPOINT_URL_S3. */
struct fake_s3 *fake_s3_start(fake_answer *answer, void *arg);
void fake_s3_stop(struct fake_s3 *s);

/* What came so far. */
unsigned fake_s3_requests(struct fake_s3 *s);
/* Copies; false: there was none. */
bool fake_s3_request(struct fake_s3 *s, unsigned number, struct fake_request *out);

#endif
