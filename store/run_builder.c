/* SPDX-License-Identifier: Apache-2.0 */
/* Builders: items in any order, sorted once at the end; of two with one key the later wins. */
#include <errno.h>
#include <string.h>

#include "store/run.h"
#include "store/run_out.h"

struct added {
	size_t at; /* key, then value, in the arena */
	uint32_t key_len;
	uint32_t value_len;
	bool removal;
};

struct run_builder {
	struct buf arena;
	struct added *v;
	size_t n, cap;
};

struct run_builder *run_builder_new(void)
{
	return calloc(1, sizeof(struct run_builder));
}

static void builder_empty(struct run_builder *b)
{
	buf_fini(&b->arena);
	free(b->v);
	*b = (struct run_builder){.v = NULL};
}

void run_builder_free(struct run_builder *b)
{
	if (!b)
		return;
	builder_empty(b);
	free(b);
}

static int room(struct run_builder *b, size_t bytes)
{
	size_t cap = b->cap ? b->cap * 2 : 32;
	struct added *v;

	if (buf_reserve(&b->arena, bytes) < 0) {
		b->arena.failed =
			false; /* what is in it is whole: the item is refused, not the run */
		return -ENOMEM;
	}
	if (b->n < b->cap)
		return 0;
	v = realloc(b->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	b->v = v;
	b->cap = cap;
	return 0;
}

/* What run_decode() would refuse is refused here already, while its writer can be told. */
static bool is_key(const uint8_t *key, size_t len)
{
	enum key_kind kind = key_kind(key, len);

	if (kind == KEY_NAME)
		return !name_refused(key + 9, len - 9);
	return kind != KEY_BAD;
}

int run_builder_add(struct run_builder *b, const void *key, size_t key_len, const void *value,
		    size_t value_len)
{
	struct added a = {.at = b->arena.len, .key_len = (uint32_t)key_len, .removal = !value};

	if (!is_key(key, key_len))
		return -EINVAL;
	if (value && value_len > RUN_VALUE_MAX)
		return -E2BIG;
	if (value)
		a.value_len = (uint32_t)value_len;
	if (room(b, key_len + a.value_len) < 0)
		return -ENOMEM;
	buf_add(&b->arena, key, key_len);
	buf_add(&b->arena, value, a.value_len);
	b->v[b->n++] = a;
	return 0;
}

static int by_key(const void *a, const void *b, void *arg)
{
	const uint8_t *arena = arg;
	const struct added *x = a, *y = b;
	int order = key_compare(arena + x->at, x->key_len, arena + y->at, y->key_len);

	if (order != 0)
		return order;
	return x->at < y->at ? -1 : 1; /* added later: behind */
}

static bool same_key(const struct run_builder *b, const struct added *x, const struct added *y)
{
	return x->key_len == y->key_len &&
	       memcmp(b->arena.data + x->at, b->arena.data + y->at, x->key_len) == 0;
}

int run_builder_finish(struct run_builder *b, struct run **out)
{
	scoped(run_out_fini) struct run_out o = RUN_OUT_EMPTY;
	int rc = 0;

	if (b->n > 1)
		qsort_r(b->v, b->n, sizeof(*b->v), by_key, b->arena.data);
	for (size_t i = 0; i < b->n && rc == 0; i++) {
		const struct added *a = &b->v[i];
		struct run_item item = {
			.key = b->arena.data + a->at,
			.key_len = a->key_len,
			.value = a->removal ? NULL : b->arena.data + a->at + a->key_len,
			.value_len = a->value_len,
		};

		if (i + 1 < b->n && same_key(b, a, a + 1))
			continue;
		rc = run_out_add(&o, &item);
	}
	if (rc == 0)
		rc = run_out_finish(&o, out);
	builder_empty(b);
	return rc;
}
