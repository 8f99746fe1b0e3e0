/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a temporary directory, whose log is written by hand. */
#ifndef HOLDFAST_TESTS_UNIT_STORE_BUCKET_H
#define HOLDFAST_TESTS_UNIT_STORE_BUCKET_H

#include "store/log.h"
#include "store/objects.h"
#include "store/state.h"

struct bucket {
	char dir[64];
	struct store *store;
	struct loop *loop;
	struct objects *objects;
	struct store_format format;
	uint64_t last_pack; /* name of the pack written last */
	/* sources and sinks over it */
	struct block_source source;
	size_t reads; /* through source */
	size_t bytes;
	struct pack_sink sink;
};

/* Fails the test if it cannot. */
void bucket_open(struct bucket *b);
void bucket_open_at(struct bucket *b,
		    const char *dir); /* an existing store, left alone at the end */
void bucket_close(struct bucket *b);  /* and removes a temporary directory */
/* Encode and append a record; `body` may be NULL. */
void bucket_append(struct bucket *b, const struct record_head *h, const struct buf *body);

#endif
