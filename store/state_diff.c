/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where two states may differ: told by their layers, without reading a base.
 *
 * I1: a record is written once, so two layers of one number are the same run.
 */
#include "store/state.h"

#include <errno.h>

#include "store/layers.h"

static const struct run_ref *base_of(const struct state *s)
{
	return s->base ? packed_where(s->base) : NULL;
}

static bool is_over_one_base(const struct state *a, const struct state *b)
{
	const struct run_ref *x = base_of(a), *y = base_of(b);

	if (!x || !y)
		return x == y;
	return x->index.pack == y->index.pack && x->index.offset == y->index.offset;
}

/* b's base holds a, and all between the two lies above it: one writer's records follow one another. */
static bool is_rebased(const struct state *a, const struct state *b)
{
	return a->head.fence == b->head.fence && a->head.base_upto <= b->head.base_upto &&
	       b->head.base_upto <= a->head.number;
}

static bool has_layer(const struct state *s, uint64_t upto)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->layers[i].upto == upto)
			return true;
	return false;
}

static int add_keys(struct run_builder *keys, const struct run *run)
{
	size_t n = run_count(run);
	struct run_item item;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		run_at(run, i, &item);
		rc = run_builder_add(keys, item.key, item.key_len, NULL, 0);
	}
	return rc;
}

/* Of the layers of s that `other` lacks and that came behind record `after`. */
static int add_layers(struct run_builder *keys, const struct state *s, const struct state *other, uint64_t after)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		const struct layer *l = &s->layers[i];

		if (l->upto > after && !has_layer(other, l->upto))
			rc = add_keys(keys, l->run);
	}
	return rc;
}

int state_differs(const struct state *a, const struct state *b, struct run **keys)
{
	scoped(run_builder_free) struct run_builder *k = NULL;
	bool one_base = is_over_one_base(a, b);
	int rc;

	if (!one_base && !is_rebased(a, b))
		return 1;
	k = run_builder_new();
	if (!k)
		return -ENOMEM;
	rc = add_layers(k, b, a, one_base ? 0 : a->head.number);
	if (rc == 0 && one_base)
		rc = add_layers(k, a, b, 0);
	return rc < 0 ? rc : run_builder_finish(k, keys);
}
