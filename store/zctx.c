/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd contexts of the calling thread.  The keys are the one piece of file-scope state here: what
 * hangs from them belongs to one thread each, and a struct could not be passed down to every
 * chunk_decode() without telling all of its callers about zstd.
 */
#include "store/zctx.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t compress_key, decompress_key;

static void end_compress(void *p)
{
	(void)ZSTD_freeCCtx(p); /* always 0 */
}

static void end_decompress(void *p)
{
	(void)ZSTD_freeDCtx(p); /* always 0 */
}

static void make_keys(void)
{
	/* Fails only with 1 024 keys in the process: pthread_setspecific() then fails as well. */
	(void)pthread_key_create(&compress_key, end_compress);
	(void)pthread_key_create(&decompress_key, end_decompress);
}

ZSTD_CCtx *zctx_compress(void)
{
	ZSTD_CCtx *z;

	pthread_once(&once, make_keys);
	z = pthread_getspecific(compress_key);
	if (z)
		return z;
	z = ZSTD_createCCtx();
	if (z && pthread_setspecific(compress_key, z) != 0) {
		end_compress(z);
		return NULL;
	}
	return z;
}

ZSTD_DCtx *zctx_decompress(void)
{
	ZSTD_DCtx *z;

	pthread_once(&once, make_keys);
	z = pthread_getspecific(decompress_key);
	if (z)
		return z;
	z = ZSTD_createDCtx();
	if (z && pthread_setspecific(decompress_key, z) != 0) {
		end_decompress(z);
		return NULL;
	}
	return z;
}
