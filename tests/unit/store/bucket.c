/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a temporary directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/store/bucket.h"

static int count_and_get(struct block_source *src, uint64_t pack, uint64_t off, size_t len,
			 uint8_t *dest, struct fault *f)
{
	struct bucket *b = src->arg;
	struct block_source plain;

	b->reads++;
	b->bytes += len;
	block_source_objects(&plain, b->objects);
	return plain.get(&plain, pack, off, len, dest, f);
}

static int put_pack(struct pack_sink *sink, const void *data, size_t len, uint64_t *out_pack,
		    struct fault *f)
{
	struct bucket *b = sink->arg;
	char key[PACK_KEY_MAX];

	pack_key(++b->last_pack, key);
	*out_pack = b->last_pack;
	return objects_put(b->objects, key, data, len, true, 0, f);
}

void bucket_open_at(struct bucket *b, const char *dir)
{
	struct fault f = FAULT_NONE;
	char uri[4200];

	*b = (struct bucket){.last_pack = UINT64_C(7) << 34};
	b->source = (struct block_source){.get = count_and_get, .arg = b};
	b->sink = (struct pack_sink){.put = put_pack, .arg = b};
	(void)snprintf(uri, sizeof(uri), "file://%s", dir);
	if (store_new(uri, &b->store, &f) < 0 || loop_new(LOOP_AUTO, &b->loop, &f) < 0 ||
	    objects_open(b->store, b->loop, &b->objects, &f) < 0)
		fail_msg("%s", f.text);
}

void bucket_open(struct bucket *b)
{
	char dir[] = "/tmp/holdfast-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	bucket_open_at(b, dir);
	memcpy(b->dir, dir, sizeof(dir));
	b->format = (struct store_format){.format = STORE_FORMAT, .id = {{1, 2, 3}}};
	for (size_t i = 0; i < STORE_SECRET_BYTES; i++)
		b->format.secret[i] = (uint8_t)(i * 37 + 11);
}

void bucket_close(struct bucket *b)
{
	char command[100];

	objects_close(b->objects);
	loop_free(b->loop);
	store_free(b->store);
	if (!b->dir[0])
		return;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
	assert_int_equal(system(command), 0);
}

void bucket_append(struct bucket *b, const struct record_head *h, const struct buf *body)
{
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	assert_int_equal(record_encode(b->format.secret, h, body ? body->data : NULL,
				       body ? body->len : 0, &raw),
			 0);
	if (log_append(b->objects, "log", h->number, raw.data, raw.len, 0, NULL, &f) < 0)
		fail_msg("%s", f.text);
}
