/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffers, little-endian writers, and one bounds-checked reader. */
#ifndef HOLDFAST_BASE_BUF_H
#define HOLDFAST_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	bool failed; /* an allocation failed: content is incomplete; sticky until buf_fini() */
};

#define BUF_EMPTY ((struct buf){.data = NULL})

void buf_fini(struct buf *b); /* leaves BUF_EMPTY */
SCOPE_VAL(struct buf, buf_fini)

/* Room for `more` bytes behind len.  0 or -ENOMEM (also sets b->failed). */
int buf_reserve(struct buf *b, size_t more);
/* Appends never return: many appends, then one look at buf_ok(). */
void buf_add(struct buf *b, const void *data, size_t len);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
/* A NUL behind the content, not counted in len; "" if memory is short.  Valid until the next
 * change. */
const char *buf_str(struct buf *b);

static inline bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

/* A cursor over bytes that may be hostile: reads past the end give zeros and set `bad` for good. */
struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static inline struct reader reader_of(const void *data, size_t len)
{
	return (struct reader){.at = data, .end = (const uint8_t *)data + len};
}

uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
/* A pointer into the input, or NULL (and bad) if fewer than len bytes are left. */
const uint8_t *read_bytes(struct reader *r, size_t len);
static inline size_t read_left(const struct reader *r)
{
	return (size_t)(r->end - r->at);
}

/* Lower-case hex of len bytes into out (2 * len + 1 bytes). */
void hex_of(const void *data, size_t len, char *out);

#endif
