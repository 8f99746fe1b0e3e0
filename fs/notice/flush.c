/* SPDX-License-Identifier: Apache-2.0 */
/* See flush.h. */
#include "fs/notice/flush.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fs/notice/heed.h"

#define LOGS_GAP_NS  NS_PER_S           /* between moments that hold nothing but logs: there is no end to them */
#define END_GAP_NS   (500 * NS_PER_MS)  /* between those that are not quiet */
#define WAIT_LEAST_NS (200 * NS_PER_MS)
#define REPORT_TRY_NS (3 * NS_PER_S)
#define WAIT_SHARE   30                 /* of what is left may be spent on one wait */

static bool runs(const struct notice_view *v)
{
	return v->phase == NOTICE_RUNS;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void flush_set_pace(const struct committer *c)
{
	lanes_hurry(c->m->lanes, c->waiters || c->notice.phase != NOTICE_CALM);
}

/* The verdict on the newest commit may be another now. */
static void ask_again(struct committer *c)
{
	if (c->good != c->newest)
		c->vouch_ns = mount_now(c->m);
}

/* ---- the report ---- */

/* Under lock. */
static void note_report(struct committer *c, const char *trainer)
{
	struct report *r = &c->report;

	if (r->number != c->notice.number)
		report_begin(r, &c->notice);
	r->kind = c->notice.kind;
	r->voice = c->notice.voice;
	r->deadline_ns = c->notice.deadline_ns;
	r->trainer = trainer;
	r->left_bytes = c->outlook.unsent_bytes;
}

void flush_good_moved(struct committer *c)
{
	memcpy(c->looked.good_name, c->looked.newest_name, sizeof(c->looked.good_name));
	if (!runs(&c->notice))
		return;
	c->report.good = c->good;
	c->report.durable_ns = mount_now(c->m);
	memcpy(c->report.name, c->looked.newest_name, sizeof(c->report.name));
}

static void store_report(struct committer *c)
{
	struct report *r = &c->report;
	scoped(free) char *text = NULL;
	struct fault f = FAULT_NONE;
	char key[64];
	json_t *j;

	r->stored = true; /* tried once: it is not worth the time of what is left */
	j = report_json(r, c->m->clock);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return;
	(void)snprintf(key, sizeof(key), "notices/%llu-%llu.json", (unsigned long long)c->m->fence,
		       (unsigned long long)r->number);
	log_info("notice %llu: %s", (unsigned long long)r->number, text);
	if (objects_put(c->objects, key, text, strlen(text), true, mount_now(c->m) + REPORT_TRY_NS, &f) < 0)
		log_warn("notice: its report is not in the store: %s", f.text);
}

/* The time is up: what is in hand comes first, but not for ever. */
static bool report_due(const struct committer *c)
{
	const struct notice_view *v = &c->notice;
	uint64_t now = mount_now(c->m);
	bool idle = !c->flying && !c->pending && !c->record.raw.len;

	if (!c->report.number || c->report.stored || c->fenced)
		return false;
	if (!runs(v))
		return true;
	return now >= v->flush_by_ns && (idle || now >= v->flush_by_ns + (v->deadline_ns - v->flush_by_ns) / 2);
}

void flush_end(struct committer *c)
{
	if (c->report.number && !c->report.stored && !c->fenced)
		store_report(c);
}

/* ---- the step ---- */

static void tick_meter(struct committer *c)
{
	struct lanes_counts l;

	lanes_counts(c->m->lanes, &l);
	meter_tick(&c->meter, mount_now(c->m), l.sent_bytes, l.queued_bytes > 0);
}

void flush_look(struct committer *c)
{
	struct notice_view is;
	const char *trainer;
	bool other;

	tick_meter(c);
	heed_attend(c->m, &is);
	trainer = heed_trainer(c->m);
	mount_lock(c->m);
	other = is.phase != c->notice.phase;
	c->notice = is;
	c->m->flushing = runs(&is);
	if (runs(&is))
		note_report(c, trainer);
	if (other)
		flush_set_pace(c);
	mount_unlock(c->m);
	if (other)
		ask_again(c);
	if (other || runs(&is))
		store_hurry(c->m->store, runs(&is) ? flush_wait_ns(c, UINT64_MAX) : 0);
	if (report_due(c))
		store_report(c);
}

bool flush_freezes(const struct committer *c, uint64_t now, bool quiet)
{
	uint64_t since = now - c->gap_from_ns;

	if (quiet)
		return c->m->first_change_ns || since >= lesser(LOGS_GAP_NS, c->m->opts.policy.commit_gap_ns);
	return now >= c->notice.flush_by_ns && since >= END_GAP_NS;
}

uint64_t flush_notice_ns(const struct committer *c)
{
	return runs(&c->notice) ? c->notice.deadline_ns - c->notice.seen_ns : 0;
}

uint64_t flush_wait_ns(const struct committer *c, uint64_t usual_ns)
{
	uint64_t now = mount_now(c->m), share = 0;

	if (!runs(&c->notice))
		return usual_ns;
	if (c->notice.flush_by_ns > now)
		share = (c->notice.flush_by_ns - now) / WAIT_SHARE;
	return lesser(usual_ns, share > WAIT_LEAST_NS ? share : WAIT_LEAST_NS);
}
