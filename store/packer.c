/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs into packs: blocks are filled, compressed straight into the pack, and named in the index.
 * A pack's name is known only once the sink has stored it; until then its blocks' entries say 0, and
 * in the pack that holds the index itself they stay so: "the pack you read this in".
 */
#include "store/packer.h"

#include <errno.h>
#include <string.h>

#include "store/block.h"

#define COUNT_BYTES 4

static int no_memory(struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to pack a run");
}

int packer_init(struct packer *p, const struct store_format *fmt, struct pack_sink *sink,
		struct fault *f)
{
	*p = (struct packer){.fmt = fmt, .sink = sink, .bytes = COUNT_BYTES};
	if (pack_init(&p->pack, NULL) < 0)
		return no_memory(f);
	pack_begin(&p->pack, PACK_RUN, 0);
	buf_add(&p->index, fmt->id.b, sizeof(fmt->id.b));
	buf_add(&p->index, fmt->secret, sizeof(fmt->secret));
	buf_u32(&p->index, 0); /* the count, set at the end */
	return 0;
}

void packer_fini(struct packer *p)
{
	pack_fini(&p->pack);
	run_out_fini(&p->block);
	buf_fini(&p->index);
}

static int send_pack(struct packer *p, uint64_t *name, struct fault *f)
{
	size_t len = pack_end(&p->pack, p->fmt->secret);

	return p->sink->put(p->sink, p->pack.data, len, name, f);
}

/* The open pack is full: store it, write its name where its blocks are named, open the next. */
static int next_pack(struct packer *p, struct fault *f)
{
	uint64_t name = 0;
	int rc = send_pack(p, &name, f);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < p->unnamed_n; i++) {
		uint8_t *at = p->index.data + p->unnamed[i];

		for (size_t k = 0; k < sizeof(name); k++)
			at[k] = (uint8_t)(name >> (8 * k));
	}
	p->unnamed_n = 0;
	pack_begin(&p->pack, PACK_RUN, 0);
	return 0;
}

/* Lay bytes into the open pack, or into the next one if they do not fit.  -EFBIG: into no pack. */
static int lay(struct packer *p, const void *data, size_t len, struct hash128 *hash,
	       struct place *out, struct fault *f)
{
	size_t room, stored;

	if (pack_room(&p->pack) < chunk_compress_bound(len) && !pack_is_empty(&p->pack)) {
		int rc = next_pack(p, f);

		if (rc < 0)
			return rc;
	}
	room = pack_room(&p->pack);
	chunk_hash(p->fmt->secret, data, len, hash);
	stored = chunk_compress(data, len, pack_at(&p->pack), room);
	if (stored > 0)
		pack_commit(&p->pack, CODEC_ZSTD, stored, hash, len, out);
	else if (!pack_add(&p->pack, CODEC_RAW, data, len, hash, len, out))
		return fault_set(f, -EFBIG, FAULT_FINAL,
				 "%zu bytes of a run's index fit in no pack", len);
	return 0;
}

static void index_add(struct packer *p, const struct run *block, const struct place *at, size_t raw,
		      const struct hash128 *hash)
{
	struct run_item first;

	run_at(block, 0, &first);
	buf_u16(&p->index, (uint16_t)first.key_len);
	buf_add(&p->index, first.key, first.key_len);
	p->unnamed[p->unnamed_n++] =
		(uint32_t)p->index.len; /* no pack holds more than PACK_CHUNKS_MAX */
	buf_u64(&p->index, 0);
	buf_u32(&p->index, at->offset);
	buf_u32(&p->index, at->stored);
	buf_u8(&p->index, at->codec);
	buf_u32(&p->index, (uint32_t)raw);
	buf_add(&p->index, hash->b, sizeof(hash->b));
	p->blocks++;
}

static int end_block(struct packer *p, struct fault *f)
{
	scoped(run_unref) struct run *block = NULL;
	scoped(buf_fini) struct buf data = BUF_EMPTY;
	struct hash128 hash;
	struct place at;
	int rc;

	if (p->block.n == 0)
		return 0;
	p->block_bytes = 0;
	if (run_out_finish(&p->block, &block) < 0 || run_encode(block, &data) < 0)
		return no_memory(f);
	rc = lay(p, data.data, data.len, &hash, &at, f);
	if (rc < 0)
		return rc;
	index_add(p, block, &at, data.len, &hash);
	return buf_ok(&p->index) ? 0 : no_memory(f);
}

int packer_add(struct packer *p, const struct run_item *item, struct fault *f)
{
	size_t bytes = run_item_bytes(item);
	int rc = COUNT_BYTES + p->block_bytes + bytes > BLOCK_AIM ? end_block(p, f) : 0;

	if (rc < 0)
		return rc;
	if (run_out_add(&p->block, item) < 0)
		return no_memory(f);
	p->block_bytes += bytes;
	p->bytes += bytes;
	return 0;
}

int packer_end(struct packer *p, struct run_ref *out, struct fault *f)
{
	struct run_ref ref = {.bytes = p->bytes};
	uint64_t name = 0;
	int rc = end_block(p, f);

	if (rc < 0)
		return rc;
	if (!buf_ok(&p->index) || p->index.len > PACK_MAX)
		return fault_set(f, -EFBIG, FAULT_FINAL,
				 "a run of %zu blocks is too large for its index", p->blocks);
	for (size_t i = 0; i < COUNT_BYTES; i++)
		p->index.data[BLOCK_INDEX_COUNT_AT + i] = (uint8_t)(p->blocks >> (8 * i));
	/* If this opens a pack, the last blocks get their pack's name before the index is hashed. */
	rc = lay(p, p->index.data, p->index.len, &ref.hash, &ref.index, f);
	if (rc == 0)
		rc = send_pack(p, &name, f);
	if (rc < 0)
		return rc;
	ref.index.pack = name;
	ref.index_raw = (uint32_t)p->index.len;
	*out = ref;
	return 0;
}

int run_pack(const struct store_format *fmt, struct pack_sink *sink, struct run *r,
	     struct run_ref *out, struct fault *f)
{
	scoped(packer_fini) struct packer p;
	int rc = packer_init(&p, fmt, sink, f);

	for (size_t i = 0; rc == 0 && i < run_count(r); i++) {
		struct run_item item;

		run_at(r, i, &item);
		rc = packer_add(&p, &item, f);
	}
	return rc < 0 ? rc : packer_end(&p, out, f);
}

int run_body(const struct store_format *fmt, struct pack_sink *sink, struct run *r, uint16_t *flags,
	     struct buf *body, struct fault *f)
{
	struct run_ref ref;
	int rc;

	if (!r)
		return 0;
	if (run_bytes(r) <= RUN_IN_RECORD_MOST)
		return run_encode(r, body);
	rc = run_pack(fmt, sink, r, &ref, f);
	if (rc < 0)
		return rc;
	*flags |= RECORD_PACKED;
	return run_ref_encode(&ref, body);
}
