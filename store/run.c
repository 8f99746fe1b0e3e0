/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in memory are their own encoding plus the offset of each item, so a record's body is checked
 * once and then used where it lies.
 *
 *     count(4)  { key length(2)  value length(4), ff*4: removal  key  value } ...
 */
#include "store/run.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "store/run_out.h"

#define COUNT_BYTES 4
#define ITEM_HEAD   6
#define REMOVAL     UINT32_MAX

struct run {
	int refs; /* atomic */
	/* fixed */
	uint8_t *data;
	size_t len;
	uint32_t *at;
	size_t n;
};

static struct run *run_new(struct buf *data, uint32_t *at, size_t n)
{
	struct run *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct run){.refs = 1, .data = data->data, .len = data->len, .at = at, .n = n};
	*data = BUF_EMPTY;
	return r;
}

struct run *run_ref(struct run *r)
{
	if (r)
		__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	return r;
}

void run_unref(struct run *r)
{
	if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	free(r->data);
	free(r->at);
	free(r);
}

size_t run_count(const struct run *r)
{
	return r->n;
}

size_t run_bytes(const struct run *r)
{
	return r->len;
}

/* The item at a place that was checked when the run was made. */
static void item_at(const uint8_t *at, struct run_item *out)
{
	struct reader r = reader_of(at, ITEM_HEAD);
	size_t key_len = read_u16(&r);
	uint32_t value_len = read_u32(&r);
	bool removal = value_len == REMOVAL;

	*out = (struct run_item){
		.key = at + ITEM_HEAD,
		.key_len = key_len,
		.value = removal ? NULL : at + ITEM_HEAD + key_len,
		.value_len = removal ? 0 : value_len,
	};
}

void run_at(const struct run *r, size_t i, struct run_item *out)
{
	item_at(r->data + r->at[i], out);
}

size_t run_seek(const struct run *r, const void *key, size_t key_len)
{
	size_t from = 0, to = r->n;
	struct run_item item;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		run_at(r, middle, &item);
		if (key_compare(item.key, item.key_len, key, key_len) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

bool run_find(const struct run *r, const void *key, size_t key_len, struct run_item *out)
{
	size_t i = run_seek(r, key, key_len);
	struct run_item item;

	if (i == r->n)
		return false;
	run_at(r, i, &item);
	if (key_compare(item.key, item.key_len, key, key_len) != 0)
		return false;
	*out = item;
	return true;
}

/* ---- making ---- */

void run_out_fini(struct run_out *o)
{
	buf_fini(&o->data);
	free(o->at);
	*o = RUN_OUT_EMPTY;
}

static int at_grow(uint32_t **at, size_t *cap)
{
	size_t n = *cap ? *cap * 2 : 16;
	uint32_t *more = realloc(*at, n * sizeof(**at));

	if (!more)
		return -ENOMEM;
	*at = more;
	*cap = n;
	return 0;
}

int run_out_add(struct run_out *o, const struct run_item *item)
{
	if (o->data.len == 0)
		buf_u32(&o->data, 0); /* the count, set at the end */
	if (o->n == o->cap && at_grow(&o->at, &o->cap) < 0)
		return -ENOMEM;
	if (run_item_bytes(item) > RUN_BYTES_MAX - o->data.len)
		return -EFBIG;
	o->at[o->n] = (uint32_t)o->data.len;
	buf_u16(&o->data, (uint16_t)item->key_len);
	buf_u32(&o->data, item->value ? (uint32_t)item->value_len : REMOVAL);
	buf_add(&o->data, item->key, item->key_len);
	if (item->value)
		buf_add(&o->data, item->value, item->value_len);
	if (!buf_ok(&o->data))
		return -ENOMEM;
	o->n++;
	return 0;
}

int run_out_finish(struct run_out *o, struct run **out)
{
	struct run *r;

	if (o->data.len == 0)
		buf_u32(&o->data, 0);
	if (!buf_ok(&o->data))
		return -ENOMEM;
	for (size_t i = 0; i < COUNT_BYTES; i++)
		o->data.data[i] = (uint8_t)(o->n >> (8 * i));
	r = run_new(&o->data, o->at, o->n);
	if (!r)
		return -ENOMEM;
	*o = RUN_OUT_EMPTY;
	*out = r;
	return 0;
}

/* ---- the encoding ---- */

int run_encode(const struct run *r, struct buf *out)
{
	buf_add(out, r->data, r->len);
	return buf_ok(out) ? 0 : -ENOMEM;
}

/* A name as a message may show it. */
static void name_for_people(const uint8_t *name, size_t len, char out[64])
{
	size_t n = len < 63 ? len : 63;

	for (size_t i = 0; i < n; i++)
		out[i] = name[i] < 0x20 || name[i] == 0x7f ? '?' : (char)name[i];
	out[n] = '\0';
}

static int check_key(const struct run_item *item, struct fault *f)
{
	enum key_kind kind = key_kind(item->key, item->key_len);
	const char *why;
	char name[64];

	if (kind == KEY_BAD)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "a key of %zu bytes that is of no kind",
				 item->key_len);
	if (kind != KEY_NAME)
		return 0;
	why = name_refused(item->key + 9, item->key_len - 9);
	if (!why)
		return 0;
	name_for_people(item->key + 9, item->key_len - 9, name);
	return fault_set(f, -EBADMSG, FAULT_FINAL, "name \"%s\" is refused: it %s", name, why);
}

/* Take one item off the input and check all of it but its value. */
static int check_item(struct reader *r, const struct run_item *before, struct run_item *out,
		      struct fault *f)
{
	const uint8_t *at = r->at;
	size_t key_len = read_u16(r);
	uint32_t value_len = read_u32(r);

	(void)read_bytes(r, key_len); /* bad is looked at below */
	if (value_len != REMOVAL)
		(void)read_bytes(r, value_len);
	if (r->bad)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "it is cut short");
	if (value_len != REMOVAL && value_len > RUN_VALUE_MAX)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "a value of %u bytes", value_len);
	item_at(at, out);
	if (before->key && key_compare(before->key, before->key_len, out->key, out->key_len) >= 0)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "its key is not behind the one before");
	return check_key(out, f);
}

static int check_items(const struct buf *data, uint32_t **out_at, size_t *out_n, struct fault *f)
{
	struct reader r = reader_of(data->data, data->len);
	size_t n = read_u32(&r);
	scoped(free) uint32_t *at = NULL;
	struct run_item item = {.key = NULL};

	if (r.bad || n > read_left(&r) / ITEM_HEAD || data->len > RUN_BYTES_MAX)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "run: %zu items in %zu bytes", n,
				 data->len);
	at = malloc((n + 1) * sizeof(*at)); /* never of size 0 */
	if (!at)
		return fault_set(f, -ENOMEM, FAULT_SOON, "run: no memory for %zu items", n);
	for (size_t i = 0; i < n; i++) {
		struct run_item before = item;
		int rc;

		at[i] = (uint32_t)(r.at - data->data);
		rc = check_item(&r, &before, &item, f);
		if (rc < 0)
			return f ? fault_in(f, "run: item %zu", i) : rc;
	}
	if (read_left(&r) > 0)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "run: %zu bytes behind its end",
				 read_left(&r));
	*out_at = take(&at);
	*out_n = n;
	return 0;
}

int run_adopt(struct buf *data, struct run **out, struct fault *f)
{
	uint32_t *at = NULL;
	size_t n = 0;
	int rc = check_items(data, &at, &n, f);
	struct run *r;

	if (rc < 0) {
		buf_fini(data);
		return rc;
	}
	r = run_new(data, at, n);
	if (!r) {
		free(at);
		buf_fini(data);
		return fault_set(f, -ENOMEM, FAULT_SOON, "run: no memory");
	}
	*out = r;
	return 0;
}

int run_decode(const void *data, size_t len, struct run **out, struct fault *f)
{
	struct buf copy = BUF_EMPTY;

	if (len > RUN_BYTES_MAX)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "run: %zu bytes", len);
	buf_add(&copy, data, len);
	if (!buf_ok(&copy)) {
		buf_fini(&copy);
		return fault_set(f, -ENOMEM, FAULT_SOON, "run: no memory for %zu bytes", len);
	}
	return run_adopt(&copy, out, f);
}
