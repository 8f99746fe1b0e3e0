/* SPDX-License-Identifier: Apache-2.0 */
/* zstd contexts, one of each kind a thread: making one costs more than compressing a small chunk. */
#ifndef HOLDFAST_STORE_ZCTX_H
#define HOLDFAST_STORE_ZCTX_H

#include <zstd.h>

/* The calling thread's; ended with the thread.  NULL: no memory. */
ZSTD_CCtx *zctx_compress(void);
ZSTD_DCtx *zctx_decompress(void);

#endif
