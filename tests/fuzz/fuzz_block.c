/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a packed run: refused, or blocks that are in order and within their packs. */
#include <string.h>

#include "store/block.h"
#include "tests/fuzz/fuzz.h"

static const uint8_t secret[STORE_SECRET_BYTES] = {42};

static void check_index(const struct block_index *ix)
{
	for (size_t i = 0, end; i < ix->n; i = end) {
		end = block_stretch(ix, i, ix->n, PACK_MAX);
		FUZZ_CHECK(end > i && end <= ix->n);
		FUZZ_CHECK(block_span(ix, i, end) <= PACK_MAX);
	}
	for (size_t i = 0; i < ix->n; i++) {
		FUZZ_CHECK(block_index_seek(ix, ix->v[i].key, ix->v[i].key_len) == i);
		FUZZ_CHECK(block_index_seek_past(ix, ix->v[i].key, ix->v[i].key_len) > i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	scoped(block_index_fini) struct block_index ix = BLOCK_INDEX_EMPTY;
	struct run_ref ref = {.index = {.pack = 1, .offset = 16, .stored = (uint32_t)len},
			      .index_raw = (uint32_t)len};
	struct fault f = FAULT_NONE;

	if (len == 0 || len > PACK_MAX - 16)
		return 0;
	chunk_hash(secret, data, len, &ref.hash);
	if (block_index_decode(secret, &ref, data, &ix, &f) == 0)
		check_index(&ix);
	else
		FUZZ_CHECK(f.code < 0 && f.text[0]);
	return 0;
}

bool fuzz_seed(size_t i, struct buf *out)
{
	uint8_t key[RUN_KEY_MAX];

	if (i > 1)
		return false;
	buf_add(out, secret, BLOCK_INDEX_COUNT_AT - STORE_SECRET_BYTES);
	buf_add(out, secret, STORE_SECRET_BYTES);
	buf_u32(out, i == 0 ? 0 : 4);
	for (uint64_t k = 1; i == 1 && k <= 4; k++) {
		size_t len = k % 2 ? key_of_name(k, "a", 1, key) : key_of_inode(k, 1, 0, key);

		buf_u16(out, (uint16_t)len);
		buf_add(out, key, len);
		buf_u64(out, k / 3);
		buf_u32(out, (uint32_t)(16 + 100 * k));
		buf_u32(out, 100);
		buf_u8(out, CODEC_RAW);
		buf_u32(out, 100);
		buf_add(out, secret, 16);
	}
	return buf_ok(out);
}
