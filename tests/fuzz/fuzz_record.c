/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: whatever the bytes, the decoder refuses them or gives a header that it would also write.
 * The first byte says whether the hash is made right, so that what lies behind it is reached.
 */
#include <string.h>

#include "store/record.h"
#include "store/run.h"
#include "tests/fuzz/fuzz.h"

static const struct store_format format = {.format = 1, .id = {{1, 2, 3}}, .secret = {42}};

static void check_body(const struct record_head *h, const struct buf *body)
{
	scoped(run_unref) struct run *run = NULL;
	struct reader r = reader_of(body->data, body->len);
	struct run_ref ref;

	if (h->flags & RECORD_PACKED)
		(void)run_ref_decode(&r, &ref); /* no overrun is all */
	else
		(void)run_decode(body->data, body->len, &run, NULL);
}

static void check(const uint8_t *data, size_t len)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY, again = BUF_EMPTY, body_again = BUF_EMPTY;
	struct record_head h, h_again;
	struct fault f = FAULT_NONE;

	if (record_decode(&format, data, len, &h, &body, &f) < 0) {
		FUZZ_CHECK(f.code < 0 && f.text[0]);
		return;
	}
	FUZZ_CHECK(record_encode(format.secret, &h, body.data, body.len, &again) == 0);
	FUZZ_CHECK(record_decode(&format, again.data, again.len, &h_again, &body_again, &f) == 0);
	FUZZ_CHECK(h.number == h_again.number && h.cumulative == h_again.cumulative);
	FUZZ_CHECK(strcmp(h.host, h_again.host) == 0);
	FUZZ_CHECK(body.len == body_again.len);
	FUZZ_CHECK(body.len == 0 || memcmp(body.data, body_again.data, body.len) == 0);
	check_body(&h, &body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct hash128 hash;

	if (len == 0)
		return 0;
	buf_add(&raw, data + 1, len - 1);
	if (data[0] & 1) {
		record_hash(format.secret, raw.data, raw.len, &hash);
		buf_add(&raw, hash.b, sizeof(hash.b));
	}
	check(raw.data, raw.len);
	return 0;
}

static void seed_of(struct record_head *h, const struct buf *body, bool seal, struct buf *out)
{
	buf_u8(out, seal);
	FUZZ_CHECK(record_encode(format.secret, h, body->data, body->len, out) == 0);
	if (seal)
		out->len -= sizeof(struct hash128);
}

bool fuzz_seed(size_t i, struct buf *out)
{
	struct record_head h = {.store = format.id,
				.number = 9,
				.kind = RECORD_COMMIT,
				.slots = 1,
				.fence = 3,
				.from = 8,
				.good = 8,
				.base_upto = 4,
				.cumulative = 7,
				.host = "host-1"};
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	h.base = (struct run_ref){.index = {.pack = 1, .offset = 16, .stored = 100},
				  .index_raw = 300,
				  .bytes = 9999};
	switch (i) {
	case 0:
		seed_of(&h, &body, false, out);
		return true;
	case 1:
		seed_of(&h, &body, true, out);
		return true;
	case 2: /* a body that is compressed */
		for (int k = 0; k < 100; k++)
			buf_u32(&body, 7);
		seed_of(&h, &body, true, out);
		return true;
	case 3:
		h.kind = RECORD_RESET;
		h.fence = 9;
		h.flags = RECORD_CUMULATIVE | RECORD_PACKED;
		FUZZ_CHECK(run_ref_encode(&h.base, &body) == 0);
		seed_of(&h, &body, true, out);
		return true;
	default:
		return false;
	}
}
