/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a state: from its record down the chain of `from` to what holds all that came before, the
 * cumulative run, a reset or the base; then the runs of that chain are laid one below the other.
 *
 * I1: every record on the chain is the number that was asked for, and older than the one before it.
 * I2: the chain ends at a cumulative run that starts at or before the base, at the base, or at 0.
 * Whether the records' fences were valid is the caller's to know.
 */
#include "store/state.h"

#include <errno.h>
#include <inttypes.h>

#include "store/gather.h"
#include "store/layers.h"
#include "store/log.h"

#define LOG_DIR "log"
#define BATCH   4096 /* log_read_range() takes no more */

/* A record that was read. */
struct link {
	struct record_head head;
	struct buf body;
};

struct links {
	struct link *v;
	size_t n, cap;
};

static void links_fini(struct links *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_fini(&l->v[i].body);
	free(l->v);
	*l = (struct links){.v = NULL};
}

static int no_memory(struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to load a state");
}

/* Takes the body of *x over, even on failure. */
static int links_add(struct links *l, struct link *x, struct fault *f)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 16;
		struct link *v = realloc(l->v, cap * sizeof(*v));

		if (!v) {
			buf_fini(&x->body);
			return no_memory(f);
		}
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = *x;
	x->body = BUF_EMPTY;
	return 0;
}

struct load {
	struct objects *o;
	const struct store_format *fmt;
	uint64_t number;                 /* what was asked for */
	struct links chain;              /* newest first */
	struct record_head newest, last; /* of the chain */
	struct links batch; /* records read, in order of number, and perhaps on no chain of ours */
};

/* ---- the chain ---- */

static int link_decode(const struct store_format *fmt, uint64_t number, const struct buf *raw,
		       struct link *out, struct fault *f)
{
	struct link x = {.body = BUF_EMPTY};
	int rc = record_decode(fmt, raw->data, raw->len, &x.head, &x.body, f);

	if (rc == 0 && x.head.number != number) {
		buf_fini(&x.body);
		rc = fault_set(f, -EBADMSG, FAULT_FINAL, "it says that it is record %" PRIu64,
			       x.head.number);
	}
	if (rc < 0)
		return f ? fault_in(f, "record %" PRIu64, number) : rc;
	*out = x;
	return 0;
}

static int each_record(void *arg, uint64_t number, const struct buf *raw, struct fault *f)
{
	struct load *l = arg;
	struct link x;
	int rc = link_decode(l->fmt, number, raw, &x, f);

	return rc < 0 ? rc : links_add(&l->batch, &x, f);
}

/* The record whose state the chain still needs, 0 if it has come to its end. */
static uint64_t wanted(const struct load *l)
{
	if (l->last.flags & RECORD_CUMULATIVE || l->last.from <= l->newest.base_upto)
		return 0;
	return l->last.from;
}

/* The oldest record that the chain can come to. */
static uint64_t lowest(const struct load *l)
{
	const struct record_head *h = &l->newest;

	return h->cumulative > h->base_upto ? h->cumulative : h->base_upto + 1;
}

/* I2 of the record that was added last. */
static int check_last(const struct load *l, struct fault *f)
{
	const struct record_head *h = &l->last;

	if (h->kind == RECORD_STUB)
		return fault_set(f, -ESTALE, FAULT_FINAL,
				 "record %" PRIu64 " is a stub: its state is no longer kept",
				 h->number);
	if (h->flags & RECORD_CUMULATIVE && h->base_upto > l->newest.base_upto)
		return fault_set(f, -EBADMSG, FAULT_FINAL,
				 "record %" PRIu64 ": its run starts at %" PRIu64
				 ", behind the base of %" PRIu64 ", (0, %" PRIu64 "]",
				 h->number, h->base_upto, l->number, l->newest.base_upto);
	if (wanted(l) > 0 && wanted(l) < lowest(l))
		return fault_set(f, -EBADMSG, FAULT_FINAL,
				 "record %" PRIu64 " extends %" PRIu64
				 ", which passes the cumulative run of %" PRIu64 " by",
				 h->number, wanted(l), lowest(l));
	return 0;
}

/* Takes the body of *x over, even on failure. */
static int chain_add(struct load *l, struct link *x, struct fault *f)
{
	l->last = x->head;
	if (l->chain.n == 0)
		l->newest = x->head;
	if (links_add(&l->chain, x, f) < 0)
		return -ENOMEM;
	return check_last(l, f);
}

/* Move what the chain wants from the batch, which starts at record `first`, to the chain. */
static int follow(struct load *l, uint64_t first, struct fault *f)
{
	int rc = 0;

	while (rc == 0 && wanted(l) >= first)
		rc = chain_add(l, &l->batch.v[wanted(l) - first], f);
	return rc;
}

static int read_chain(struct load *l, struct fault *f)
{
	int rc = 0;

	while (rc == 0 && wanted(l) > 0) {
		uint64_t last = wanted(l), first = lowest(l);

		if (last - first >= BATCH)
			first = last - BATCH + 1;
		rc = log_read_range(l->o, LOG_DIR, first, last, 0, each_record, l, f);
		if (rc == 0)
			rc = follow(l, first, f);
		links_fini(&l->batch);
	}
	return rc;
}

/* ---- the runs ---- */

static bool has_run(const struct link *x)
{
	return (x->head.kind == RECORD_COMMIT || x->head.kind == RECORD_RESET) && x->body.len > 0;
}

static bool is_packed(const struct link *x)
{
	return has_run(x) && x->head.flags & RECORD_PACKED;
}

static int start_packed(struct load *l, struct gather *gathers, struct gets *g, struct fault *f)
{
	for (size_t i = 0; i < l->chain.n; i++) {
		const struct link *x = &l->chain.v[i];
		struct reader r = reader_of(x->body.data, x->body.len);
		struct run_ref ref;
		int rc;

		if (!is_packed(x))
			continue;
		rc = run_ref_decode(&r, &ref);
		if (rc < 0 || read_left(&r) > 0)
			rc = fault_set(f, -EBADMSG, FAULT_FINAL, "its body names no run");
		else
			rc = gather_start(&gathers[i], l->fmt, &ref, g, f);
		if (rc < 0)
			return f ? fault_in(f, "record %" PRIu64, x->head.number) : rc;
	}
	return 0;
}

static int link_run(const struct link *x, struct gather *gather, struct run **out, struct fault *f)
{
	int rc;

	if (is_packed(x))
		rc = gather_end(gather, out, f);
	else
		rc = run_decode(x->body.data, x->body.len, out, f);
	return rc < 0 && f ? fault_in(f, "record %" PRIu64, x->head.number) : rc;
}

static int lay_runs(struct load *l, struct gather *gathers, struct state *s, struct fault *f)
{
	for (size_t i = 0; i < l->chain.n; i++) {
		const struct link *x = &l->chain.v[i];
		bool cumulative = x->head.flags & RECORD_CUMULATIVE;
		scoped(run_unref) struct run *run = NULL;
		int rc;

		if (!has_run(x))
			continue;
		rc = link_run(x, &gathers[i], &run, f);
		if (rc < 0)
			return rc;
		if (run_count(run) > 0 || cumulative)
			state_lay(s, run, x->head.number, cumulative);
	}
	return 0;
}

static int gather_all(struct load *l, struct gather *gathers, struct gets *g, struct fault *f)
{
	int rc = start_packed(l, gathers, g, f);

	if (rc == 0)
		rc = gets_wait(g, f);
	for (size_t i = 0; rc == 0 && i < l->chain.n; i++) {
		if (!is_packed(&l->chain.v[i]))
			continue;
		rc = gather_index(&gathers[i], g, f);
		if (rc < 0 && f)
			rc = fault_in(f, "record %" PRIu64, l->chain.v[i].head.number);
	}
	return rc < 0 ? rc : gets_wait(g, f);
}

int record_run(struct objects *o, const struct store_format *fmt, const struct record_head *head,
	       const struct buf *body, struct run **out, struct fault *f)
{
	scoped(gather_fini) struct gather gather = GATHER_EMPTY;
	scoped(gets_fini) struct gets g = GETS_EMPTY(o);
	struct link x = {.head = *head, .body = *body};
	struct load l = {.o = o, .fmt = fmt, .number = head->number, .chain = {.v = &x, .n = 1}};
	int rc;

	*out = NULL;
	if (!has_run(&x))
		return 0;
	rc = gather_all(&l, &gather, &g, f);
	return rc < 0 ? rc : link_run(&x, &gather, out, f);
}

/* The runs of the chain into s, newest first. */
static int read_runs(struct load *l, struct gets *g, struct state *s, struct fault *f)
{
	struct gather *gathers = calloc(l->chain.n, sizeof(*gathers));
	int rc;

	if (!gathers)
		return no_memory(f);
	rc = gather_all(l, gathers, g, f);
	if (rc == 0)
		rc = lay_runs(l, gathers, s, f);
	for (size_t i = 0; i < l->chain.n; i++)
		gather_fini(&gathers[i]);
	free(gathers);
	return rc;
}

/* ---- the whole ---- */

/* The base's index is asked for first and comes while the chain is read. */
static int read_state(struct load *l, struct state **out, struct fault *f)
{
	const struct record_head *h = &l->newest;
	scoped(state_unref) struct state *s = NULL;
	scoped(gets_fini) struct gets g = GETS_EMPTY(l->o);
	struct get *index = NULL;
	int rc;

	if (h->base_upto > 0) {
		index = gets_start(&g, h->base.index.pack, h->base.index.offset,
				   h->base.index.stored);
		if (!index)
			return no_memory(f);
	}
	rc = read_chain(l, f);
	if (rc < 0)
		return rc;
	s = state_new(l->fmt, h, l->chain.n);
	if (!s || (index && !(s->base = packed_new(l->fmt, &h->base))))
		return no_memory(f);
	rc = read_runs(l, &g, s, f);
	if (rc == 0 && index)
		rc = packed_set_index(s->base, index->data, f);
	if (rc < 0)
		return rc;
	*out = take(&s);
	return 0;
}

static int read_newest(struct load *l, const struct buf *raw, struct fault *f)
{
	scoped(buf_fini) struct buf read = BUF_EMPTY;
	struct link x;
	int rc = 0;

	if (!raw)
		rc = log_read(l->o, LOG_DIR, l->number, 0, &read, f);
	if (rc == 0)
		rc = link_decode(l->fmt, l->number, raw ? raw : &read, &x, f);
	return rc < 0 ? rc : chain_add(l, &x, f);
}

int state_load(struct objects *o, const struct store_format *fmt, uint64_t number,
	       const struct buf *newest_raw, struct state **out, struct fault *f)
{
	struct load l = {.o = o, .fmt = fmt, .number = number};
	int rc;

	if (number == 0)
		return state_empty(fmt, out) < 0 ? no_memory(f) : 0;
	rc = read_newest(&l, newest_raw, f);
	if (rc == 0)
		rc = read_state(&l, out, f);
	if (rc < 0 && f)
		rc = fault_in(f, "state at %" PRIu64, number);
	links_fini(&l.chain);
	links_fini(&l.batch);
	return rc;
}
