/* SPDX-License-Identifier: Apache-2.0 */
/* Byte buffers.  All integers are little-endian, whatever the machine is. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = BUF_EMPTY;
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t cap = b->cap < 64 ? 64 : b->cap;
	uint8_t *data;

	if (b->failed)
		return -ENOMEM;
	if (more <= b->cap - b->len)
		return 0;
	while (cap - b->len < more && cap <= SIZE_MAX / 2)
		cap *= 2;
	data = cap - b->len < more ? NULL : realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return -ENOMEM;
	}
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (len == 0 || buf_reserve(b, len) < 0)
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		b->failed = true;
	if (len <= 0 || buf_reserve(b, (size_t)len + 1) < 0)
		return;
	va_start(ap, fmt);
	(void)vsnprintf((char *)b->data + b->len, (size_t)len + 1, fmt, ap); /* measured above */
	va_end(ap);
	b->len += (size_t)len;
}

static void add_le(struct buf *b, uint64_t v, size_t bytes)
{
	uint8_t le[8];

	for (size_t i = 0; i < bytes; i++)
		le[i] = (uint8_t)(v >> (8 * i));
	buf_add(b, le, bytes);
}

void buf_u8(struct buf *b, uint8_t v)
{
	add_le(b, v, 1);
}

void buf_u16(struct buf *b, uint16_t v)
{
	add_le(b, v, 2);
}

void buf_u32(struct buf *b, uint32_t v)
{
	add_le(b, v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
	add_le(b, v, 8);
}

const char *buf_str(struct buf *b)
{
	if (buf_reserve(b, 1) < 0)
		return "";
	b->data[b->len] = '\0';
	return (const char *)b->data;
}

const uint8_t *read_bytes(struct reader *r, size_t len)
{
	const uint8_t *at = r->at;

	if (r->bad || len > read_left(r)) {
		r->bad = true;
		return NULL;
	}
	if (len > 0)
		r->at += len;
	return at;
}

static uint64_t read_le(struct reader *r, size_t bytes)
{
	const uint8_t *le = read_bytes(r, bytes);
	uint64_t v = 0;

	for (size_t i = 0; le && i < bytes; i++)
		v |= (uint64_t)le[i] << (8 * i);
	return v;
}

uint8_t read_u8(struct reader *r)
{
	return (uint8_t)read_le(r, 1);
}

uint16_t read_u16(struct reader *r)
{
	return (uint16_t)read_le(r, 2);
}

uint32_t read_u32(struct reader *r)
{
	return (uint32_t)read_le(r, 4);
}

uint64_t read_u64(struct reader *r)
{
	return read_le(r, 8);
}

void hex_of(const void *data, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *in = data;

	for (size_t i = 0; i < len; i++) {
		*out++ = digits[in[i] >> 4];
		*out++ = digits[in[i] & 15];
	}
	*out = '\0';
}
