/* SPDX-License-Identifier: Apache-2.0 */
/* See deadline.h. */
#include "base/notice/deadline.h"

static const struct {
	const char *name;
	uint64_t usual_ns; /* from the first word to the end, where no time is said */
	bool each_is_news;
} voices[NOTICE_VOICES] = {
	[NOTICE_EC2_ACTION]    = {"EC2 spot/instance-action",              100 * NS_PER_S, false},
	[NOTICE_EC2_REBALANCE] = {"EC2 events/recommendations/rebalance",  0,              false},
	[NOTICE_EC2_SCALING]   = {"EC2 autoscaling/target-lifecycle-state", 30 * NS_PER_S, false},
	[NOTICE_GCP]           = {"GCP instance/preempted",                 30 * NS_PER_S, false},
	[NOTICE_AZURE]         = {"Azure scheduled events",                 30 * NS_PER_S, false},
	[NOTICE_FILE]          = {"notice file",                            30 * NS_PER_S, false},
	[NOTICE_TOLD]          = {"holdfast notice or SIGUSR2",             30 * NS_PER_S, true },
};

static const char *const kinds[] = {
	[NOTICE_NOTHING] = "nothing",     [NOTICE_REBALANCE] = "rebalance",
	[NOTICE_TERMINATE] = "terminate", [NOTICE_STOP] = "stop",
	[NOTICE_HIBERNATE] = "hibernate",
};

const char *notice_voice_name(enum notice_voice v)
{
	return voices[v].name;
}

const char *notice_kind_name(enum notice_kind k)
{
	return kinds[k];
}

static bool is_end(enum notice_kind k)
{
	return k >= NOTICE_TERMINATE;
}

static bool is_overdue(const struct deadline *d, uint64_t now_ns)
{
	return d->running && now_ns >= d->at_ns + NOTICE_OVERDUE_NS;
}

/* ---- hearing ---- */

/* The notice that ran out takes with it all that the voices said of it. */
static void bury_overdue(struct deadline *d, uint64_t now_ns)
{
	if (!is_overdue(d, now_ns))
		return;
	d->running = false;
	for (int v = 0; v < NOTICE_VOICES; v++)
		d->voices[v].spent = is_end(d->voices[v].kind);
}

static void hear_hint(struct deadline *d, const struct notice_word *w)
{
	d->hints += d->voices[w->voice].kind != w->kind;
	d->voices[w->voice].kind = w->kind;
}

static void hear_nothing(struct deadline *d, const struct notice_word *w)
{
	bool any = false;

	d->voices[w->voice].kind = NOTICE_NOTHING;
	d->voices[w->voice].spent = false;
	for (int v = 0; v < NOTICE_VOICES; v++)
		any |= is_end(d->voices[v].kind) && !d->voices[v].spent;
	d->running = d->running && any;
}

/*
 * Does it merely go on saying what belongs to a notice that is over?  A time that is still to come
 * has not been wrong yet.
 */
static bool is_stale(const struct deadline *d, const struct notice_word *w, uint64_t now_ns)
{
	return d->voices[w->voice].spent && !voices[w->voice].each_is_news && w->deadline_ns <= now_ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When the machine goes, by this word alone. */
static uint64_t end_of(const struct deadline *d, const struct notice_word *w, uint64_t now_ns,
		       bool *promised)
{
	uint64_t usual_ns = d->promised_ns ? d->promised_ns : voices[w->voice].usual_ns;
	uint64_t end_ns = w->deadline_ns ? w->deadline_ns : now_ns + usual_ns;

	*promised = end_ns > now_ns;
	if (*promised && w->kind == NOTICE_HIBERNATE)
		return earlier(end_ns, now_ns + NOTICE_UNPROMISED_NS);
	return *promised ? end_ns : now_ns + NOTICE_UNPROMISED_NS;
}

static uint64_t margin_ns(const struct deadline *d, uint64_t left_ns)
{
	uint64_t most_ns = d->margin_most_ns ? d->margin_most_ns : NOTICE_MARGIN_MOST_NS;
	uint64_t ns = earlier(left_ns / 3, most_ns);

	return ns > NOTICE_MARGIN_LEAST_NS ? ns : NOTICE_MARGIN_LEAST_NS;
}

static void hear_end(struct deadline *d, const struct notice_word *w, uint64_t now_ns)
{
	bool promised, first = !d->running;
	uint64_t end_ns = end_of(d, w, now_ns, &promised),
		 flush_by_ns = end_ns - margin_ns(d, end_ns - now_ns);

	d->voices[w->voice].kind = w->kind;
	d->voices[w->voice].spent = false;
	if (first) {
		d->running = true;
		d->number++;
		d->seen_ns = now_ns;
	}
	if (first || w->kind > d->kind)
		d->kind = w->kind;
	if (first || end_ns < d->at_ns) {
		d->voice = w->voice;
		d->promised = promised;
		d->at_ns = end_ns;
		d->flush_by_ns = first ? flush_by_ns : earlier(d->flush_by_ns, flush_by_ns);
	}
}

void deadline_hear(struct deadline *d, const struct notice_word *w, uint64_t now_ns)
{
	bury_overdue(d, now_ns);
	if (w->kind == NOTICE_NOTHING)
		hear_nothing(d, w);
	else if (w->kind == NOTICE_REBALANCE)
		hear_hint(d, w);
	else if (!is_stale(d, w, now_ns))
		hear_end(d, w, now_ns);
}

/* ---- the view ---- */

static bool is_hinted(const struct deadline *d)
{
	for (int v = 0; v < NOTICE_VOICES; v++) {
		if (d->voices[v].kind == NOTICE_REBALANCE)
			return true;
	}
	return false;
}

void deadline_view(const struct deadline *d, uint64_t now_ns, struct notice_view *out)
{
	*out = (struct notice_view){.phase = is_hinted(d) ? NOTICE_HINT : NOTICE_CALM,
				    .number = d->number,
				    .hints = d->hints};
	if (!d->running || is_overdue(d, now_ns))
		return;
	out->phase = NOTICE_RUNS;
	out->again_ns = d->at_ns + NOTICE_OVERDUE_NS;
	out->voice = d->voice;
	out->kind = d->kind;
	out->at_once = !d->promised || d->kind != NOTICE_TERMINATE;
	out->seen_ns = d->seen_ns;
	out->deadline_ns = d->at_ns;
	out->flush_by_ns = d->flush_by_ns;
}
