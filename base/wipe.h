/* SPDX-License-Identifier: Apache-2.0 */
/* Ends for memory that held a secret.  All take NULL and empty. */
#ifndef HOLDFAST_BASE_WIPE_H
#define HOLDFAST_BASE_WIPE_H

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/scope.h"

static inline void buf_wipe(struct buf *b)
{
	if (b->data)
		OPENSSL_cleanse(b->data, b->cap);
	buf_fini(b);
}
SCOPE_VAL(struct buf, buf_wipe)

static inline void str_wipe(char *s)
{
	if (s)
		OPENSSL_cleanse(s, strlen(s));
	free(s);
}
SCOPE_PTR(char, str_wipe)

#endif
