/* SPDX-License-Identifier: Apache-2.0 */
/* Packs: built in one buffer that is sent as it is, read back by their own index. */
#include "store/pack.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/crc32c.h"

#define PACK_VERSION 1
static const char head_magic[4] = {'H', 'F', 'P', 'K'};
static const char tail_magic[4] = {'H', 'F', 'P', 'E'};

int pack_init(struct pack_builder *p, uint8_t *buffer)
{
	*p = (struct pack_builder){
		.data = buffer ? buffer : malloc(PACK_MAX),
		.owned = !buffer,
		.index = malloc(PACK_CHUNKS_MAX * sizeof(*p->index)),
	};
	if (p->data && p->index)
		return 0;
	pack_fini(p);
	return -ENOMEM;
}

void pack_fini(struct pack_builder *p)
{
	if (p->owned)
		free(p->data);
	free(p->index);
	*p = (struct pack_builder){.data = NULL};
}

/* The builder's memory is fixed, so integers are laid in place and not through a struct buf. */
static uint8_t *put_le(uint8_t *at, uint64_t v, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		*at++ = (uint8_t)(v >> (8 * i));
	return at;
}

void pack_begin(struct pack_builder *p, enum pack_kind kind, uint64_t name)
{
	uint8_t *at = p->data;

	memcpy(at, head_magic, sizeof(head_magic));
	at = put_le(at + sizeof(head_magic), PACK_VERSION, 2);
	at = put_le(at, kind, 2);
	(void)put_le(at, name, 8);
	p->name = name;
	p->len = PACK_HEADER;
	p->n = 0;
	p->crc = crc32c_add(0, p->data, p->len);
}

size_t pack_room(const struct pack_builder *p)
{
	size_t rest = (p->n + 1) * PACK_ENTRY + PACK_TRAILER;

	if (p->n == PACK_CHUNKS_MAX || PACK_MAX - p->len < rest)
		return 0;
	return PACK_MAX - p->len - rest;
}

uint8_t *pack_at(const struct pack_builder *p)
{
	return p->data + p->len;
}

void pack_commit(struct pack_builder *p, enum codec codec, size_t stored,
		 const struct hash128 *hash, size_t length, struct place *out)
{
	assert(stored > 0 && stored <= pack_room(p));
	p->index[p->n++] = (struct pack_entry){
		.offset = (uint32_t)p->len,
		.stored = (uint32_t)stored,
		.length = (uint32_t)length,
		.codec = (uint8_t)codec,
		.hash = *hash,
	};
	*out = (struct place){
		.pack = p->name,
		.offset = (uint32_t)p->len,
		.stored = (uint32_t)stored,
		.codec = (uint8_t)codec,
	};
	p->crc = crc32c_add(p->crc, pack_at(p), stored);
	p->len += stored;
}

bool pack_add(struct pack_builder *p, enum codec codec, const void *stored, size_t stored_len,
	      const struct hash128 *hash, size_t length, struct place *out)
{
	if (stored_len > pack_room(p))
		return false;
	memcpy(pack_at(p), stored, stored_len);
	pack_commit(p, codec, stored_len, hash, length, out);
	return true;
}

/* The hash of a pack keeps what its chunks' hashes do not: header and index. */
static void frame_hash(const uint8_t secret[STORE_SECRET_BYTES], const uint8_t *header,
		       const uint8_t *index, size_t n, struct hash128 *out)
{
	struct {
		struct hash128 header, index;
	} both;

	chunk_hash(secret, header, PACK_HEADER, &both.header);
	chunk_hash(secret, index, n * PACK_ENTRY, &both.index);
	chunk_hash(secret, &both, sizeof(both), out);
}

size_t pack_end(struct pack_builder *p, const uint8_t secret[STORE_SECRET_BYTES])
{
	uint8_t *index = p->data + p->len;
	uint8_t *at = index;
	struct hash128 hash;

	for (size_t i = 0; i < p->n; i++) {
		const struct pack_entry *e = &p->index[i];

		at = put_le(at, e->offset, 4);
		at = put_le(at, e->stored, 4);
		at = put_le(at, e->length, 4);
		at = put_le(at, e->codec, 4);
		memcpy(at, e->hash.b, sizeof(e->hash.b));
		at += sizeof(e->hash.b);
	}
	frame_hash(secret, p->data, index, p->n, &hash);
	memcpy(at, hash.b, sizeof(hash.b));
	at = put_le(at + sizeof(hash.b), p->n, 4);
	memcpy(at, tail_magic, sizeof(tail_magic));
	p->len = (size_t)(at + sizeof(tail_magic) - p->data);
	p->crc = crc32c_add(p->crc, index, (size_t)(p->data + p->len - index));
	return p->len;
}

static int bad(struct fault *f, const char *why)
{
	return fault_set(f, -EBADMSG, FAULT_FINAL, "pack: %s", why);
}

static int scan_header(struct reader *r, struct pack_info *out, struct fault *f)
{
	const uint8_t *magic = read_bytes(r, sizeof(head_magic));
	unsigned version = read_u16(r), kind = read_u16(r);

	out->name = read_u64(r);
	out->kind = kind;
	if (r->bad || memcmp(magic, head_magic, sizeof(head_magic)) != 0)
		return bad(f, "not a pack");
	if (version != PACK_VERSION)
		return fault_set(f, -EPROTONOSUPPORT, FAULT_FINAL,
				 "pack: version %u, this program reads %d", version, PACK_VERSION);
	return kind == PACK_CHUNKS || kind == PACK_RUN ? 0 : bad(f, "neither chunks nor a run");
}

/* Finds the index: *index is at its first entry, and out->chunks of them are there. */
static int scan_trailer(const uint8_t secret[STORE_SECRET_BYTES], const uint8_t *data, size_t len,
			struct pack_info *out, const uint8_t **index, struct fault *f)
{
	struct reader r = reader_of(data + len - PACK_TRAILER, PACK_TRAILER);
	const uint8_t *want = read_bytes(&r, sizeof(struct hash128));
	struct hash128 got;

	out->chunks = read_u32(&r);
	if (memcmp(r.at, tail_magic, sizeof(tail_magic)) != 0)
		return bad(f, "no trailer: cut short?");
	if (out->chunks > PACK_CHUNKS_MAX ||
	    out->chunks * PACK_ENTRY > len - PACK_HEADER - PACK_TRAILER)
		return bad(f, "more chunks than fit");
	*index = data + len - PACK_TRAILER - out->chunks * PACK_ENTRY;
	frame_hash(secret, data, *index, out->chunks, &got);
	return memcmp(got.b, want, sizeof(got.b)) == 0
		       ? 0
		       : bad(f, "header or index does not match its hash");
}

static struct pack_entry read_entry(struct reader *r)
{
	struct pack_entry e;

	e.offset = read_u32(r);
	e.stored = read_u32(r);
	e.length = read_u32(r);
	e.codec = (uint8_t)read_u32(r);
	memcpy(e.hash.b, read_bytes(r, sizeof(e.hash.b)), sizeof(e.hash.b)); /* counted before */
	return e;
}

int pack_scan(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
	      struct pack_info *out,
	      int (*each)(void *arg, const struct pack_entry *e, struct fault *f), void *arg,
	      struct fault *f)
{
	struct pack_info info = {.name = 0};
	struct reader r = reader_of(data, len);
	const uint8_t *index = NULL;
	uint64_t end = PACK_HEADER; /* of the chunk before */
	int rc;

	if (len < PACK_HEADER + PACK_TRAILER || len > PACK_MAX)
		return bad(f, "its size is not that of a pack");
	rc = scan_header(&r, &info, f);
	if (rc == 0)
		rc = scan_trailer(secret, data, len, &info, &index, f);
	if (rc < 0)
		return rc;
	r = reader_of(index, info.chunks * PACK_ENTRY);
	for (size_t i = 0; i < info.chunks; i++) {
		struct pack_entry e = read_entry(&r);

		if (e.offset != end || e.stored > (size_t)(index - (const uint8_t *)data) - end)
			return bad(f, "chunks do not lie side by side");
		end += e.stored;
		rc = each ? each(arg, &e, f) : 0;
		if (rc != 0)
			return rc;
	}
	if (end != (size_t)(index - (const uint8_t *)data))
		return bad(f, "bytes behind the last chunk");
	*out = info;
	return 0;
}

int pack_check(const uint8_t secret[STORE_SECRET_BYTES], const void *data,
	       const struct pack_entry *e, uint8_t *scratch, struct fault *f)
{
	if (e->length > PACK_MAX)
		return bad(f, "a chunk longer than 16 MiB");
	return chunk_decode(secret, e->codec, (const uint8_t *)data + e->offset, e->stored,
			    &e->hash, scratch, e->length, f);
}
