/* SPDX-License-Identifier: Apache-2.0 */
/* See plan.h.  A set of moments is a bit for each. */
#include "fs/notice/plan.h"

#include "base/clock.h"

static bool touches(unsigned set, unsigned from, unsigned to)
{
	return set >> from & ((2u << (to - from)) - 1);
}

static uint64_t bytes_of(const struct plan_input *in, unsigned set)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < in->n; i++) {
		for (unsigned j = i; j < in->n; j++)
			bytes += touches(set, i, j) ? in->bytes[i][j] : 0;
	}
	return bytes;
}

uint64_t plan_bytes(const struct plan_input *in, unsigned moment)
{
	return bytes_of(in, 1u << moment);
}

uint64_t plan_all_bytes(const struct plan_input *in)
{
	return bytes_of(in, (1u << in->n) - 1);
}

/* ---- time ---- */

/* What the rate may be, for each chance but the last. */
static uint64_t rate_for(const struct plan_input *in, enum plan_chance chance)
{
	uint64_t least = in->rate_bps /
			 8; /* a spread of half the rate says little, but not that nothing moves */

	if (chance == PLAN_LIKELY)
		return in->rate_bps;
	if (chance == PLAN_MAYBE)
		return in->rate_bps + in->spread_bps;
	return in->rate_bps > least + 2 * in->spread_bps ? in->rate_bps - 2 * in->spread_bps
							 : least;
}

static uint64_t time_for(const struct plan_input *in, uint64_t bytes, unsigned commits,
			 uint64_t rate_bps)
{
	double ns = (double)in->commit_ns * commits;

	if (bytes > 0 && rate_bps == 0)
		return PLAN_UNKNOWN;
	if (bytes > 0)
		ns += (double)bytes / (double)rate_bps * (double)NS_PER_S;
	return ns < 1e18 ? (uint64_t)ns : PLAN_UNKNOWN;
}

/* ---- choosing ---- */

/* The steps so far, and what may still become one. */
struct choice {
	const struct plan_input *in;
	unsigned done; /* set */
	unsigned steps;
	unsigned from; /* the oldest moment that is newer than all steps */
};

static bool fits(const struct choice *c, unsigned moment, enum plan_chance chance)
{
	return time_for(c->in, bytes_of(c->in, c->done | 1u << moment), c->steps + 1,
			rate_for(c->in, chance)) <= c->in->left_ns;
}

static int newest_that_fits(const struct choice *c, enum plan_chance chance)
{
	for (unsigned i = c->in->n; i-- > c->from;) {
		if (c->in->will_be_good[i] && fits(c, i, chance))
			return (int)i;
	}
	return -1;
}

/* Of two that lack the same, the newer. */
static int nearest(const struct plan_input *in)
{
	int best = -1;

	for (unsigned i = 0; i < in->n; i++) {
		if (in->will_be_good[i] &&
		    (best < 0 || plan_bytes(in, i) <= plan_bytes(in, (unsigned)best)))
			best = (int)i;
	}
	return best;
}

static int next_step(const struct choice *c, enum plan_chance *chance)
{
	for (*chance = PLAN_SURE; *chance < PLAN_HARDLY; ++*chance) {
		int i = newest_that_fits(c, *chance);

		if (i >= 0)
			return i;
	}
	return c->steps == 0 ? nearest(c->in) : -1;
}

static void take_step(struct choice *c, unsigned moment, enum plan_chance chance,
		      struct plan_step *out)
{
	uint64_t before = bytes_of(c->in, c->done), after;

	c->done |= 1u << moment;
	c->steps++;
	c->from = moment + 1;
	after = bytes_of(c->in, c->done);
	*out = (struct plan_step){
		.moment = moment,
		.chance = chance,
		.bytes = after - before,
		.ends_ns = time_for(c->in, after, c->steps, c->in->rate_bps),
	};
}

/* ---- what is said of the rest ---- */

/* The steps that are likely go first, and what is lost comes after them. */
static void judge(const struct plan_input *in, struct plan *out)
{
	unsigned set = 0, commits = 0, newer = 0; /* moments newer than those steps begin here */
	uint64_t ns;

	out->safe = out->lost = -1;
	for (unsigned i = 0; i < out->n && out->steps[i].chance <= PLAN_LIKELY; i++) {
		if (out->steps[i].chance == PLAN_SURE)
			out->safe = (int)out->steps[i].moment;
		set |= 1u << out->steps[i].moment;
		commits++;
		newer = out->steps[i].moment + 1;
	}
	for (unsigned i = newer; i < in->n; i++)
		out->lost = in->will_be_good[i] ? (int)i : out->lost;
	if (out->lost < 0)
		return;
	ns = time_for(in, bytes_of(in, set | 1u << out->lost), commits + 1, in->rate_bps);
	out->short_ns =
		ns == PLAN_UNKNOWN ? PLAN_UNKNOWN : ns - in->left_ns; /* it is not likely to fit */
}

/* Of what is newer than the last step nothing is lost that can still be looked at. */
static void list_salvage(const struct choice *c, struct plan *out)
{
	for (unsigned i = c->in->n; i-- > c->from;)
		out->salvage[out->salvage_n++] = i;
	out->salvage_ns = c->in->left_ns > c->in->commit_ns ? c->in->left_ns - c->in->commit_ns : 0;
}

void plan_make(const struct plan_input *in, struct plan *out)
{
	struct choice c = {.in = in};
	enum plan_chance chance;
	int moment;

	*out = (struct plan){.n = 0};
	while ((moment = next_step(&c, &chance)) >= 0)
		take_step(&c, (unsigned)moment, chance, &out->steps[out->n++]);
	list_salvage(&c, out);
	judge(in, out);
}

static bool is_step(const struct plan *p, unsigned moment)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (p->steps[i].moment == moment)
			return true;
	}
	return false;
}

unsigned plan_spare(const struct plan_input *in, const struct plan *p)
{
	if (p->safe > 0)
		return 0;
	for (unsigned i = 0; i + 1 < in->n; i++) {
		if (!is_step(p, i))
			return i;
	}
	return p->n ? p->steps[p->n - 1].moment : 0;
}
