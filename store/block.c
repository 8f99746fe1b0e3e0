/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and their index, from bytes that are believed only once they match their hashes. */
#include "store/block.h"

#include <errno.h>
#include <string.h>

#include "store/merge.h"
#include "store/run_out.h"

#define ENTRY_LEAST (2 + 10 + 8 + 4 + 4 + 1 + 4 + 16)

void block_index_fini(struct block_index *ix)
{
	buf_fini(&ix->data);
	free(ix->v);
	*ix = BLOCK_INDEX_EMPTY;
}

static int bad(struct fault *f, size_t i, const char *why)
{
	return fault_set(f, -EBADMSG, FAULT_FINAL, "index of a run: block %zu %s", i, why);
}

static int entry_decode(struct reader *r, const struct run_ref *ref, struct block *out)
{
	const uint8_t *hash;

	out->key_len = read_u16(r);
	out->key = read_bytes(r, out->key_len);
	out->place.pack = read_u64(r);
	out->place.offset = read_u32(r);
	out->place.stored = read_u32(r);
	out->place.codec = read_u8(r);
	out->raw = read_u32(r);
	hash = read_bytes(r, sizeof(out->hash.b));
	if (r->bad)
		return -EBADMSG;
	memcpy(out->hash.b, hash, sizeof(out->hash.b));
	if (out->place.pack == 0)
		out->place.pack = ref->index.pack;
	return 0;
}

static int check_entry(const struct block_index *ix, size_t i, struct fault *f)
{
	const struct block *b = &ix->v[i];
	const struct block *before = i > 0 ? b - 1 : NULL;

	if (key_kind(b->key, b->key_len) == KEY_BAD)
		return bad(f, i, "starts with no key");
	if (before && key_compare(before->key, before->key_len, b->key, b->key_len) >= 0)
		return bad(f, i, "is not behind the one before");
	if (b->place.stored == 0 || b->place.stored > PACK_MAX ||
	    b->place.offset > PACK_MAX - b->place.stored)
		return bad(f, i, "lies outside its pack");
	if (b->raw > BLOCK_RAW_MAX)
		return bad(f, i, "is too long");
	return 0;
}

static int entries_decode(struct block_index *ix, const struct run_ref *ref, struct fault *f)
{
	struct reader r = reader_of(ix->data.data, ix->data.len);
	size_t n;

	(void)read_bytes(&r, BLOCK_INDEX_COUNT_AT); /* for whoever has lost store.json */
	n = read_u32(&r);
	if (r.bad || n > read_left(&r) / ENTRY_LEAST)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "index of a run: more blocks than fit");
	ix->v = calloc(n + 1, sizeof(*ix->v));
	if (!ix->v)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for an index of %zu blocks", n);
	for (ix->n = 0; ix->n < n; ix->n++) {
		int rc = entry_decode(&r, ref, &ix->v[ix->n]);

		rc = rc < 0 ? bad(f, ix->n, "is cut short") : check_entry(ix, ix->n, f);
		if (rc < 0)
			return rc;
	}
	if (read_left(&r) > 0)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "index of a run: bytes behind its end");
	return 0;
}

int block_index_decode(const uint8_t secret[STORE_SECRET_BYTES], const struct run_ref *ref,
		       const uint8_t *stored, struct block_index *out, struct fault *f)
{
	scoped(block_index_fini) struct block_index ix = BLOCK_INDEX_EMPTY;
	int rc;

	if (buf_reserve(&ix.data, ref->index_raw) < 0)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for an index of %u bytes",
				 ref->index_raw);
	rc = chunk_decode(secret, ref->index.codec, stored, ref->index.stored, &ref->hash,
			  ix.data.data, ref->index_raw, f);
	if (rc < 0)
		return f ? fault_in(f, "index of a run") : rc;
	ix.data.len = ref->index_raw;
	rc = entries_decode(&ix, ref, f);
	if (rc < 0)
		return rc;
	*out = ix;
	ix = BLOCK_INDEX_EMPTY;
	return 0;
}

/* Blocks whose first key is before key (or equals it, if `equal_too`). */
static size_t count_before(const struct block_index *ix, const uint8_t *key, size_t key_len,
			   bool equal_too)
{
	size_t from = 0, to = ix->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = key_compare(ix->v[middle].key, ix->v[middle].key_len, key, key_len);

		if (order < 0 || (order == 0 && equal_too))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

size_t block_index_seek(const struct block_index *ix, const uint8_t *key, size_t key_len)
{
	size_t n = count_before(ix, key, key_len, true);

	return n > 0 ? n - 1 : 0;
}

size_t block_index_seek_past(const struct block_index *ix, const uint8_t *prefix, size_t prefix_len)
{
	uint8_t past[RUN_KEY_MAX];
	size_t past_len = key_past(prefix, prefix_len, past);

	return past_len > 0 ? count_before(ix, past, past_len, false) : ix->n;
}

static int check_ends(const struct block_index *ix, size_t i, const struct run *r, struct fault *f)
{
	const struct block *b = &ix->v[i];
	struct run_item item;

	if (run_count(r) == 0)
		return bad(f, i, "is empty");
	run_at(r, 0, &item);
	if (key_compare(item.key, item.key_len, b->key, b->key_len) != 0)
		return bad(f, i, "starts with another key than the index says");
	run_at(r, run_count(r) - 1, &item);
	if (i + 1 < ix->n && key_compare(item.key, item.key_len, b[1].key, b[1].key_len) >= 0)
		return bad(f, i, "reaches into the next one");
	return 0;
}

int block_decode(const uint8_t secret[STORE_SECRET_BYTES], const struct block_index *ix, size_t i,
		 const uint8_t *stored, struct run **out, struct fault *f)
{
	const struct block *b = &ix->v[i];
	struct buf data = BUF_EMPTY; /* run_adopt()'s */
	scoped(run_unref) struct run *r = NULL;
	int rc;

	if (buf_reserve(&data, b->raw) < 0) {
		buf_fini(&data);
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for a block of %u bytes",
				 b->raw);
	}
	rc = chunk_decode(secret, b->place.codec, stored, b->place.stored, &b->hash, data.data,
			  b->raw, f);
	if (rc < 0) {
		buf_fini(&data);
	} else {
		data.len = b->raw;
		rc = run_adopt(&data, &r, f);
	}
	if (rc < 0)
		return f ? fault_in(f, "block %zu of a run", i) : rc;
	rc = check_ends(ix, i, r, f);
	if (rc == 0)
		*out = take(&r);
	return rc;
}

size_t block_stretch(const struct block_index *ix, size_t first, size_t end, size_t most)
{
	const struct place *a = &ix->v[first].place;
	size_t i = first + 1;

	for (; i < end; i++) {
		const struct place *before = &ix->v[i - 1].place, *p = &ix->v[i].place;

		if (p->pack != a->pack || p->offset != before->offset + before->stored ||
		    (size_t)p->offset + p->stored - a->offset > most)
			break;
	}
	return i;
}
