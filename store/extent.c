/* SPDX-License-Identifier: Apache-2.0 */
/* Extents in memory: a growing array that owns inline content. */
#include "store/extent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void extents_fini(struct extents *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->v[i].data);
	free(x->v);
	*x = EXTENTS_EMPTY;
}

static int grow(struct extents *x, size_t n)
{
	size_t cap = x->cap ? x->cap : 4;
	struct extent *v;

	while (cap < n)
		cap *= 2;
	v = realloc(x->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	x->v = v;
	x->cap = cap;
	return 0;
}

int extents_add(struct extents *x, const struct extent *e)
{
	struct extent *last = x->n > 0 ? &x->v[x->n - 1] : NULL;

	if (e->length == 0) {
		free(e->data);
		return 0;
	}
	if (e->kind == EXTENT_ZERO && last && last->kind == EXTENT_ZERO) {
		last->length += e->length;
		return 0;
	}
	if (x->n == x->cap && grow(x, x->n + 1) < 0) {
		free(e->data);
		return -ENOMEM;
	}
	x->v[x->n++] = *e;
	return 0;
}

int extents_copy(const struct extents *from, struct extents *out)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;

	if (from->n > 0 && grow(&x, from->n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		struct extent e = from->v[i];

		if (e.data) {
			e.data = malloc(e.length);
			if (!e.data)
				return -ENOMEM;
			memcpy(e.data, from->v[i].data, e.length);
		}
		x.v[x.n++] = e;
	}
	*out = x;
	x = EXTENTS_EMPTY;
	return 0;
}

uint64_t extents_bytes(const struct extents *x)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < x->n; i++)
		bytes += x->v[i].length;
	return bytes;
}

void pack_key(uint64_t pack, char out[PACK_KEY_MAX])
{
	/* The counter's low byte leads: S3 spreads load by prefix. */
	(void)snprintf(out, PACK_KEY_MAX, "packs/%02x/%016" PRIx64, (unsigned)(pack & 0xff), pack);
}
