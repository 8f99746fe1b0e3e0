/* SPDX-License-Identifier: Apache-2.0 */
/* The merge: a heap of the sources' next items, ordered by key, then by age. */
#include "store/merge.h"

#include <errno.h>
#include <string.h>

#include "store/run_out.h"

static bool comes_before(const struct merge_head *a, const struct merge_head *b)
{
	int order = key_compare(a->item.key, a->item.key_len, b->item.key, b->item.key_len);

	return order != 0 ? order < 0 : a->from < b->from;
}

static void sift_down(struct merge *m, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < m->n; child++) {
			if (comes_before(&m->heap[child], &m->heap[least]))
				least = child;
		}
		if (least == i)
			return;
		struct merge_head moved = m->heap[i];

		m->heap[i] = m->heap[least];
		m->heap[least] = moved;
		i = least;
	}
}

/* The source's next item.  1, 0 if it has ended. */
static int load(struct merge *m, size_t from, struct merge_head *out, struct fault *f)
{
	struct cursor *c = &m->v[from];
	int rc = c->i == c->end && c->more ? c->more(c, f) : 0;

	if (rc < 0 || c->i == c->end)
		return rc;
	run_at(c->run, c->i, &out->item);
	out->from = from;
	return 1;
}

int merge_init(struct merge *m, struct cursor *v, size_t n, struct fault *f)
{
	*m = (struct merge){.v = v, .heap = malloc((n + 1) * sizeof(*m->heap))};
	if (!m->heap)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to merge %zu runs", n);
	for (size_t i = 0; i < n; i++) {
		int rc = load(m, i, &m->heap[m->n], f);

		if (rc < 0) {
			merge_fini(m);
			return rc;
		}
		m->n += (size_t)rc;
	}
	for (size_t i = m->n / 2; i-- > 0;)
		sift_down(m, i);
	return 0;
}

void merge_fini(struct merge *m)
{
	free(m->heap);
	*m = (struct merge){.v = NULL};
}

static int step(struct merge *m, struct fault *f)
{
	struct merge_head *top = &m->heap[0];
	int rc;

	m->v[top->from].i++;
	rc = load(m, top->from, top, f);
	if (rc < 0)
		return rc;
	if (rc == 0)
		*top = m->heap[--m->n];
	sift_down(m, 0);
	return 0;
}

int merge_next(struct merge *m, struct run_item *out, struct fault *f)
{
	while (m->n > 0) {
		const struct run_item *top = &m->heap[0].item;
		int rc;

		if (key_compare(top->key, top->key_len, m->last, m->last_len) != 0)
			break;
		rc = step(m, f);
		if (rc < 0)
			return rc;
	}
	if (m->n == 0)
		return 0;
	*out = m->heap[0].item;
	m->last_len = out->key_len;
	memcpy(m->last, out->key, out->key_len);
	return 1;
}

size_t key_past(const uint8_t *prefix, size_t prefix_len, uint8_t out[RUN_KEY_MAX])
{
	while (prefix_len > 0 && prefix[prefix_len - 1] == 0xff)
		prefix_len--;
	if (prefix_len == 0)
		return 0;
	memcpy(out, prefix, prefix_len);
	out[prefix_len - 1]++;
	return prefix_len;
}

size_t run_seek_past(const struct run *r, const uint8_t *prefix, size_t prefix_len)
{
	uint8_t past[RUN_KEY_MAX];
	size_t past_len = key_past(prefix, prefix_len, past);

	return past_len > 0 ? run_seek(r, past, past_len) : run_count(r);
}

struct cursor cursor_of(const struct run *r, const uint8_t *prefix, size_t prefix_len)
{
	return (struct cursor){
		.run = r,
		.i = run_seek(r, prefix, prefix_len),
		.end = run_seek_past(r, prefix, prefix_len),
	};
}

int run_merge(struct run *const *runs, size_t n, bool drop_removals, struct run **out)
{
	scoped(free) struct cursor *v = malloc((n + 1) * sizeof(*v));
	scoped(run_out_fini) struct run_out o = RUN_OUT_EMPTY;
	scoped(merge_fini) struct merge m = {.v = NULL};
	struct run_item item;
	int rc;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		v[i] = (struct cursor){.run = runs[i], .end = run_count(runs[i])};
	rc = merge_init(&m, v, n, NULL);
	if (rc < 0)
		return rc;
	while ((rc = merge_next(&m, &item, NULL)) > 0) {
		if (!item.value && drop_removals)
			continue;
		rc = run_out_add(&o, &item);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : run_out_finish(&o, out);
}
