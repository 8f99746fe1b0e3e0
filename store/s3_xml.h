/* SPDX-License-Identifier: Apache-2.0 */
/* The two documents that S3 sends: an error, and a page of a list.  Pure; input may be hostile. */
#ifndef HOLDFAST_STORE_S3_XML_H
#define HOLDFAST_STORE_S3_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Strings are cut to fit, "" where the document has none. */
struct s3_error {
	char code[64];
	char message[128];
	char region[32];
};

/* Is it an <Error> document?  Fills *out either way. */
bool s3_xml_error(const void *data, size_t len, struct s3_error *out);

struct s3_page {
	struct buf keys;  /* as stored, each NUL-ended */
	struct buf token; /* NextContinuationToken, NUL-ended; empty: none */
	bool truncated;
};

#define S3_PAGE_EMPTY ((struct s3_page){.truncated = false})

/* Fails: -EPROTO not a <ListBucketResult>; -ENOMEM. */
int s3_xml_page(const void *data, size_t len, struct s3_page *out);
void s3_page_fini(struct s3_page *p);
SCOPE_VAL(struct s3_page, s3_page_fini)

#endif
