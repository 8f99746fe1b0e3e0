/* SPDX-License-Identifier: Apache-2.0 */
/* See attempt.h. */
#include "fs/slot/attempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/log.h"

#define BATCH 1024
#define READ_DEADLINE_NS (60 * NS_PER_S)

void roll_fini(struct roll *r)
{
	free(r->v);
	*r = ROLL_EMPTY;
}

struct reading {
	const struct store_format *fmt;
	struct roll *roll;
};

static int each_record(void *arg, uint64_t number, const struct buf *raw, struct fault *f)
{
	struct reading *x = arg;
	struct roll *r = x->roll;
	int rc;

	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : BATCH;
		struct record_head *v = realloc(r->v, cap * sizeof(*v));

		if (!v)
			return fault_errno(f, -ENOMEM, "records");
		r->v = v;
		r->cap = cap;
	}
	rc = record_decode(x->fmt, raw->data, raw->len, &r->v[r->n], NULL, f);
	if (rc < 0)
		return fault_in(f, "record %llu", (unsigned long long)number);
	r->n++;
	return 0;
}

/* Puts what was read later, which is older, in front. */
static int prepend(struct roll *r, const struct roll *older, struct fault *f)
{
	struct record_head *v = malloc((r->n + older->n) * sizeof(*v));

	if (!v)
		return fault_errno(f, -ENOMEM, "records");
	memcpy(v, older->v, older->n * sizeof(*v));
	if (r->n)
		memcpy(v + older->n, r->v, r->n * sizeof(*v));
	free(r->v);
	*r = (struct roll){.v = v, .n = r->n + older->n, .cap = r->n + older->n};
	return 0;
}

/* Cuts what lies before the last reset; false: there is none yet. */
static bool cut_at_reset(struct roll *r)
{
	for (size_t i = r->n; i-- > 0;) {
		if (r->v[i].kind != RECORD_RESET)
			continue;
		memmove(r->v, r->v + i, (r->n - i) * sizeof(*r->v));
		r->n -= i;
		return true;
	}
	return false;
}

int roll_read(struct objects *o, const struct store_format *fmt, uint64_t newest, struct roll *out, struct fault *f)
{
	scoped(roll_fini) struct roll all = ROLL_EMPTY;

	for (uint64_t last = newest; last > 0;) {
		uint64_t first = last > BATCH ? last - BATCH + 1 : 1;
		scoped(roll_fini) struct roll older = ROLL_EMPTY;
		struct reading x = {.fmt = fmt, .roll = &older};
		int rc = log_read_range(o, "log", first, last, clock_mono(&clock_system) + READ_DEADLINE_NS, each_record, &x, f);
		bool found;

		if (rc < 0)
			return rc;
		found = cut_at_reset(&older);
		rc = prepend(&all, &older, f);
		if (rc < 0)
			return rc;
		if (found) {
			*out = all;
			all = ROLL_EMPTY;
			return 0;
		}
		last = first - 1;
	}
	*out = ROLL_EMPTY;
	return 0;
}

int roll_group(const struct roll *r, uint64_t upto, struct group **out, struct fault *f)
{
	struct group *g = group_new(&r->v[0]);

	if (!g)
		return fault_errno(f, -ENOMEM, "group");
	for (size_t i = 1; i < r->n && r->v[i].number <= upto; i++)
		group_see(g, &r->v[i]);
	*out = g;
	return 0;
}

/* The slot's newest fence in this attempt, and whether its writer has released it. */
static const struct record_head *writer_of(const struct roll *r, unsigned slot, bool *released)
{
	const struct record_head *fence = NULL;

	*released = false;
	for (size_t i = 0; i < r->n; i++) {
		const struct record_head *h = &r->v[i];

		if (h->slot != slot)
			continue;
		if (h->kind == RECORD_RESET || h->kind == RECORD_JOIN) {
			fence = h;
			*released = false;
		} else if (h->kind == RECORD_COMMIT && fence && h->fence == fence->number) {
			*released = h->flags & RECORD_RELEASE;
		}
	}
	return fence;
}

static int may_join(const struct mount_opts *o, const struct roll *r, struct fault *f)
{
	const struct record_head *begin = &r->v[0], *had;
	bool released;

	if (begin->slots != o->slots)
		return fault_set(f, -EBUSY, FAULT_FINAL, "attempt %u has of=%u slots, as record %llu (%s) says, not of=%u", o->attempt,
				 begin->slots, (unsigned long long)begin->number, begin->host, o->slots);
	had = writer_of(r, o->slot, &released);
	if (!had || released)
		return 0;
	return fault_set(f, -EBUSY, FAULT_FINAL,
			 "slot %u of attempt %u has had a writer (record %llu, %s), and what that one had not sent is missing here: "
			 "the whole group goes on as attempt=%u",
			 o->slot, o->attempt, (unsigned long long)had->number, had->host, o->attempt + 1);
}

int attempt_begin(const struct mount_opts *o, const struct newest *newest, const struct roll *r, enum attempt_how *how,
		  struct fault *f)
{
	const struct record_head *h = &newest->head;

	*how = ATTEMPT_RESET;
	if (h->number == 0)
		return 0;
	if (o->attempt < h->attempt)
		return fault_set(f, -EBUSY, FAULT_FINAL, "attempt %u is over: record %llu (%s) is of attempt %u", o->attempt,
				 (unsigned long long)h->number, h->host, h->attempt);
	if (o->attempt > h->attempt)
		return 0;
	if (r->n == 0 || h->slots <= 1)
		return fault_set(f, -EBUSY, FAULT_FINAL, "attempt %u was the one of a mount without slots (record %llu, %s): the group begins "
				 "with attempt=%u", o->attempt, (unsigned long long)h->number, h->host, o->attempt + 1);
	*how = ATTEMPT_JOIN;
	return may_join(o, r, f);
}

bool attempt_is_on(const struct roll *r, unsigned slot, uint64_t fence)
{
	bool released;
	const struct record_head *had = writer_of(r, slot, &released);

	return had && had->number == fence && !released;
}

int attempt_is_over(const struct newest *newest, const struct roll *r, struct fault *f)
{
	for (unsigned slot = 0; slot < newest->head.slots; slot++) {
		bool released;
		const struct record_head *had = writer_of(r, slot, &released);

		if (had && !released)
			return fault_set(f, -EBUSY, FAULT_FINAL,
					 "slot %u of %u is written by %s, not released; -o ro to look, -o takeover to replace the whole group",
					 slot, newest->head.slots, had->host);
	}
	return 0;
}
