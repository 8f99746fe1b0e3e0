/* SPDX-License-Identifier: Apache-2.0 */
/* A packed run, whole. */
#include "store/gather.h"

#include <errno.h>

#include "store/pack.h"
#include "store/run_out.h"

void gather_fini(struct gather *x)
{
	block_index_fini(&x->index);
	free(x->parts);
	*x = GATHER_EMPTY;
}

static int no_memory(struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to read a packed run");
}

int gather_start(struct gather *x, const struct store_format *fmt, const struct run_ref *ref,
		 struct gets *g, struct fault *f)
{
	size_t end = (size_t)ref->index.offset + ref->index.stored;

	*x = (struct gather){.fmt = fmt, .ref = *ref};
	if (ref->bytes > RUN_BYTES_MAX || ref->index.offset < PACK_HEADER)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "a packed run that is out of bounds");
	x->tail = gets_start(g, ref->index.pack, PACK_HEADER, end - PACK_HEADER);
	return x->tail ? 0 : no_memory(f);
}

/* Do blocks [first, end) lie before the index, in its pack?  Then they are here already. */
static bool is_in_tail(const struct gather *x, size_t first, size_t end)
{
	const struct place *a = &x->index.v[first].place, *z = &x->index.v[end - 1].place;

	return a->pack == x->ref.index.pack && a->offset >= PACK_HEADER &&
	       (size_t)z->offset + z->stored <= x->ref.index.offset;
}

/* Its blocks may claim no more together than the run is said to have. */
static int check_sum(const struct gather *x, struct fault *f)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < x->index.n; i++)
		bytes += x->index.v[i].raw;
	if (bytes <= x->ref.bytes + 4 * x->index.n) /* each block has a count of its own */
		return 0;
	return fault_set(f, -EBADMSG, FAULT_FINAL, "index of a run: more bytes than the run has");
}

int gather_index(struct gather *x, struct gets *g, struct fault *f)
{
	const uint8_t *stored = x->tail->data + (x->ref.index.offset - PACK_HEADER);
	int rc = block_index_decode(x->fmt->secret, &x->ref, stored, &x->index, f);

	if (rc == 0)
		rc = check_sum(x, f);
	if (rc < 0)
		return rc;
	x->parts = calloc(x->index.n + 1, sizeof(*x->parts));
	if (!x->parts)
		return no_memory(f);
	for (size_t first = 0, end; first < x->index.n; first = end) {
		const struct place *at = &x->index.v[first].place;
		struct part *p = &x->parts[x->n++];

		end = block_stretch(&x->index, first, x->index.n, PACK_MAX);
		*p = (struct part){.get = x->tail, .first = first, .end = end};
		if (!is_in_tail(x, first, end))
			p->get = gets_start(g, at->pack, at->offset,
					    block_span(&x->index, first, end));
		if (!p->get)
			return no_memory(f);
	}
	return 0;
}

static int append_block(struct gather *x, const struct part *p, size_t i, struct run_out *o,
			struct fault *f)
{
	scoped(run_unref) struct run *block = NULL;
	const uint8_t *stored = p->get->data + (x->index.v[i].place.offset - p->get->req.off);
	int rc = block_decode(x->fmt->secret, &x->index, i, stored, &block, f);

	if (rc < 0)
		return f ? fault_in(f, "%s", p->get->key) : rc;
	for (size_t k = 0; k < run_count(block); k++) {
		struct run_item item;

		run_at(block, k, &item);
		if (run_out_add(o, &item) < 0)
			return no_memory(f);
	}
	return 0;
}

int gather_end(struct gather *x, struct run **out, struct fault *f)
{
	scoped(run_out_fini) struct run_out o = RUN_OUT_EMPTY;

	for (size_t p = 0; p < x->n; p++) {
		for (size_t i = x->parts[p].first; i < x->parts[p].end; i++) {
			int rc = append_block(x, &x->parts[p], i, &o, f);

			if (rc < 0)
				return rc;
		}
	}
	return run_out_finish(&o, out) < 0 ? no_memory(f) : 0;
}
