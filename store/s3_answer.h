/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer of S3 means: one table from status and code to a fault.  Pure; thread: any. */
#ifndef HOLDFAST_STORE_S3_ANSWER_H
#define HOLDFAST_STORE_S3_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/objects.h"

/* What to put right before the next try; each helps a few times a request at most, the last
 * excepted. */
enum s3_fix {
	S3_FIX_NONE,
	S3_FIX_REGION, /* ask where the answer points to */
	S3_FIX_CLOCK,  /* learn from its Date */
	S3_FIX_BODY,   /* it was damaged on the way: send it again */
	S3_FIX_KEYS,   /* get new credentials */
};

struct s3_verdict {
	int code; /* 0: it is a success all the same */
	enum fault_retry retry;
	enum s3_fix fix;
	const char *cure; /* what to do, for people; may be "" */
};

/* status: not a plain success.  code: S3's, "" if it gave none. */
const struct s3_verdict *s3_judge(enum object_op op, long status, const char *code);

/* "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970; -1 if it is none. */
int64_t s3_date(const char *text);

/* "bytes FIRST-LAST/TOTAL"; *total is 0 for "*". */
bool s3_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *total);

#endif
