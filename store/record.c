/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: one header, one body, one hash over both, as holdfast-store(5) lays them out.
 * The header says its own length, so a later version may append fields that this one passes over.
 */
#include "store/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORD_VERSION 1
#define HEADER_MOST    4096
#define LENGTH_AT      6 /* of the header's length, in the header */
#define FLAGS_KNOWN    (RECORD_QUIET | RECORD_RELEASE | RECORD_CUMULATIVE | RECORD_PACKED)
static const char magic[4] = {'H', 'F', 'L', 'G'};

/* ---- a run in packs ---- */

int run_ref_encode(const struct run_ref *r, struct buf *out)
{
	buf_u64(out, r->index.pack);
	buf_u32(out, r->index.offset);
	buf_u32(out, r->index.stored);
	buf_u8(out, r->index.codec);
	buf_u32(out, r->index_raw);
	buf_add(out, r->hash.b, sizeof(r->hash.b));
	buf_u64(out, r->bytes);
	return buf_ok(out) ? 0 : -ENOMEM;
}

int run_ref_decode(struct reader *r, struct run_ref *out)
{
	struct run_ref ref = {.bytes = 0};
	const uint8_t *hash;

	ref.index.pack = read_u64(r);
	ref.index.offset = read_u32(r);
	ref.index.stored = read_u32(r);
	ref.index.codec = read_u8(r);
	ref.index_raw = read_u32(r);
	hash = read_bytes(r, sizeof(ref.hash.b));
	ref.bytes = read_u64(r);
	if (r->bad || ref.index.stored == 0 || ref.index.stored > PACK_MAX ||
	    ref.index.offset > PACK_MAX - ref.index.stored || ref.index_raw > PACK_MAX)
		return -EBADMSG;
	memcpy(ref.hash.b, hash, sizeof(ref.hash.b));
	*out = ref;
	return 0;
}

/* ---- the header ---- */

static bool host_is_plain(const char *host)
{
	for (const char *c = host; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	}
	return true;
}

/* Why no record may say this, or NULL.  The same rules for writing and for reading. */
static const char *head_refused(const struct record_head *h)
{
	if (h->number == 0)
		return "its number is 0";
	if (h->kind < RECORD_COMMIT || h->kind > RECORD_STUB)
		return "it is of no known kind";
	if (h->flags & ~FLAGS_KNOWN)
		return "it has flags of a later version";
	if (h->slot >= h->slots)
		return "its slot is not one of its slots";
	if (h->from >= h->number)
		return "it extends a record that is not before it";
	if (h->good > h->number || h->fence > h->number || h->calm > h->number ||
	    h->floor > h->number)
		return "it names a record that is not before it";
	if (h->base_upto >= h->number || h->cumulative > h->number)
		return "its base or cumulative record is not before it";
	if ((h->kind == RECORD_JOIN || h->kind == RECORD_RESET) && h->fence != h->number)
		return "it is a fence and names another";
	if (h->kind == RECORD_RESET && !(h->flags & RECORD_CUMULATIVE))
		return "it is a reset without the cumulative run";
	if (!host_is_plain(h->host))
		return "its host's name is not printable";
	return NULL;
}

static void head_encode(const struct record_head *h, struct buf *out)
{
	size_t start = out->len;
	size_t host = strnlen(h->host, sizeof(h->host) - 1);

	buf_add(out, magic, sizeof(magic));
	buf_u16(out, RECORD_VERSION);
	buf_u16(out, 0); /* the length, set below */
	buf_add(out, h->store.b, sizeof(h->store.b));
	buf_u64(out, h->number);
	buf_add(out, h->prev.b, sizeof(h->prev.b));
	buf_u8(out, h->kind);
	buf_u8(out, 0);
	buf_u16(out, h->flags);
	buf_u16(out, h->slot);
	buf_u16(out, h->slots);
	buf_u32(out, h->attempt);
	buf_u64(out, h->fence);
	buf_u64(out, h->nonce);
	buf_u64(out, (uint64_t)h->time_ns);
	buf_u64(out, h->from);
	buf_u64(out, h->good);
	buf_u64(out, h->calm);
	buf_u64(out, h->base_upto);
	(void)run_ref_encode(&h->base, out); /* buf_ok() is looked at once, at the end */
	buf_u64(out, h->cumulative);
	buf_u64(out, h->floor);
	buf_u8(out, (uint8_t)host);
	buf_add(out, h->host, host);
	if (!buf_ok(out))
		return;
	out->data[start + LENGTH_AT] = (uint8_t)(out->len - start);
	out->data[start + LENGTH_AT + 1] = (uint8_t)((out->len - start) >> 8);
}

static void read_into(struct reader *r, void *out, size_t len)
{
	const uint8_t *data = read_bytes(r, len);

	if (data)
		memcpy(out, data, len);
}

/* What stands behind the length.  0 or -EBADMSG. */
static int fields_decode(struct reader *r, struct record_head *h)
{
	struct reader base;
	size_t host;

	read_into(r, h->store.b, sizeof(h->store.b));
	h->number = read_u64(r);
	read_into(r, h->prev.b, sizeof(h->prev.b));
	h->kind = read_u8(r);
	(void)read_u8(r); /* reserved */
	h->flags = read_u16(r);
	h->slot = read_u16(r);
	h->slots = read_u16(r);
	h->attempt = read_u32(r);
	h->fence = read_u64(r);
	h->nonce = read_u64(r);
	h->time_ns = (int64_t)read_u64(r);
	h->from = read_u64(r);
	h->good = read_u64(r);
	h->calm = read_u64(r);
	h->base_upto = read_u64(r);
	base = reader_of(r->at, read_left(r));
	(void)read_bytes(r, RUN_REF_BYTES);
	if (h->base_upto > 0 && run_ref_decode(&base, &h->base) < 0)
		return -EBADMSG;
	h->cumulative = read_u64(r);
	h->floor = read_u64(r);
	host = read_u8(r);
	if (host >= sizeof(h->host))
		return -EBADMSG;
	read_into(r, h->host, host);
	return r->bad || strlen(h->host) != host ? -EBADMSG : 0;
}

/* ---- writing ---- */

static void body_encode(const void *body, size_t len, struct buf *out)
{
	size_t bound = chunk_compress_bound(len);
	size_t start = out->len, stored = 0;

	if (buf_reserve(out, 12 + bound) < 0)
		return;
	if (len > 0)
		stored = chunk_compress(body, len, out->data + start + 12, bound);
	buf_u32(out, stored ? CODEC_ZSTD : CODEC_RAW);
	buf_u32(out, (uint32_t)(stored ? stored : len));
	buf_u32(out, (uint32_t)len);
	if (stored)
		out->len += stored; /* it lies there already */
	else
		buf_add(out, body, len);
}

int record_encode(const uint8_t secret[STORE_SECRET_BYTES], const struct record_head *h,
		  const void *body, size_t body_len, struct buf *out)
{
	size_t start = out->len;
	struct hash128 hash;

	if (head_refused(h))
		return -EINVAL;
	if (body_len > RECORD_BODY_MAX)
		return -E2BIG;
	head_encode(h, out);
	body_encode(body, body_len, out);
	if (!buf_ok(out))
		return -ENOMEM;
	record_hash(secret, out->data + start, out->len - start, &hash);
	buf_add(out, hash.b, sizeof(hash.b));
	return buf_ok(out) ? 0 : -ENOMEM;
}

void record_hash(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
		 struct hash128 *out)
{
	chunk_hash(secret, data, len, out);
}

/* ---- reading ---- */

static int bad(struct fault *f, const char *why)
{
	return fault_set(f, -EBADMSG, FAULT_FINAL, "record: %s", why);
}

/* Magic, version and hash.  The version first: a later one may hash another way. */
static int check_frame(const uint8_t *secret, const uint8_t *data, size_t len, struct fault *f)
{
	struct reader r = reader_of(data, len);
	const uint8_t *mark = read_bytes(&r, sizeof(magic));
	unsigned version = read_u16(&r);
	struct hash128 hash;

	if (r.bad || memcmp(mark, magic, sizeof(magic)) != 0)
		return bad(f, "not a record");
	if (version != RECORD_VERSION)
		return fault_set(f, -EPROTONOSUPPORT, FAULT_FINAL,
				 "record: version %u, this program reads %d", version,
				 RECORD_VERSION);
	if (read_left(&r) < sizeof(hash.b))
		return bad(f, "cut short");
	record_hash(secret, data, len - sizeof(hash.b), &hash);
	if (memcmp(data + len - sizeof(hash.b), hash.b, sizeof(hash.b)) != 0)
		return bad(f, "does not match its hash: damaged, or of another store");
	return 0;
}

/* Header into *h; *r is left at the body. */
static int decode_head(const struct store_format *s, struct reader *r, struct record_head *h,
		       struct fault *f)
{
	const uint8_t *start = r->at;
	struct reader fields;
	const char *why;
	size_t len;

	(void)read_bytes(r, LENGTH_AT);
	len = read_u16(r);
	if (r->bad || len > HEADER_MOST || len < LENGTH_AT + 2 ||
	    len - (LENGTH_AT + 2) > read_left(r))
		return bad(f, "its header's length is out of bounds");
	fields = reader_of(r->at, len - (LENGTH_AT + 2));
	r->at = start + len;
	if (fields_decode(&fields, h) < 0)
		return bad(f, "its header does not decode");
	if (memcmp(h->store.b, s->id.b, sizeof(s->id.b)) != 0)
		return bad(f, "of another store");
	why = head_refused(h);
	return why ? bad(f, why) : 0;
}

static int decode_body(struct reader *r, struct buf *out, struct fault *f)
{
	uint32_t codec = read_u32(r), stored = read_u32(r), length = read_u32(r);
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	int rc;

	if (r->bad || stored != read_left(r) || length > RECORD_BODY_MAX)
		return bad(f, "its body's length is out of bounds");
	if (!out)
		return 0;
	if (buf_reserve(&body, length) < 0)
		return fault_set(f, -ENOMEM, FAULT_SOON, "record: no memory for a body of %u bytes",
				 length);
	rc = chunk_unpack(codec, r->at, stored, body.data, length, f);
	if (rc < 0)
		return f ? fault_in(f, "record: body") : rc;
	body.len = length;
	*out = body;
	body = BUF_EMPTY;
	return 0;
}

int record_decode(const struct store_format *s, const void *data, size_t len,
		  struct record_head *out, struct buf *body, struct fault *f)
{
	struct record_head h = {.number = 0};
	struct reader r;
	int rc = check_frame(s->secret, data, len, f);

	if (rc < 0)
		return rc;
	r = reader_of(data, len - sizeof(struct hash128));
	rc = decode_head(s, &r, &h, f);
	if (rc == 0)
		rc = decode_body(&r, body, f);
	if (rc == 0)
		*out = h;
	return rc;
}
