/* SPDX-License-Identifier: Apache-2.0 */
/* See flush.h. */
#include "fs/notice/flush.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fs/notice/heed.h"

#define LOGS_GAP_NS     NS_PER_S /* between moments of nothing but logs: there is no end to them */
#define END_GAP_NS      (500 * NS_PER_MS) /* between those that are not quiet */
#define WAIT_LEAST_NS   (200 * NS_PER_MS)
#define REPORT_IDLE_NS  (3 * NS_PER_S)
#define REPORT_BUSY_NS  NS_PER_S
#define REPORT_AGAIN_NS (5 * NS_PER_S)
#define WAIT_SHARE      30 /* of what is left may be spent on one wait */

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
		report_begin(r, &c->notice, c->m->clock);
	r->kind = c->notice.kind;
	r->voice = c->notice.voice;
	r->deadline_ns = c->notice.deadline_ns;
	r->trainer = trainer;
	r->left_bytes = c->outlook.unsent_bytes;
}

/* Under lock.  Whoever moved it (of a group, any slot may), before the next moment takes off. */
static void note_good(struct committer *c)
{
	if (c->good == c->looked.named)
		return;
	c->looked.named = c->good;
	memcpy(c->looked.good_name, c->looked.newest_name, sizeof(c->looked.good_name));
	if (!runs(&c->notice))
		return;
	c->report.good = c->good;
	c->report.durable_ns = mount_now(c->m);
	memcpy(c->report.name, c->looked.newest_name, sizeof(c->report.name));
}

/* Waits for the store as long as that. */
static void store_report(struct committer *c, uint64_t within_ns)
{
	struct report *r = &c->report;
	scoped(free) char *text = NULL;
	struct fault f = FAULT_NONE;
	char key[64];
	json_t *j;
	int rc;

	c->report_next_ns = mount_now(c->m) + REPORT_AGAIN_NS;
	j = report_json(r, c->m->clock);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return;
	(void)snprintf(key, sizeof(key), "notices/%llu-%lld.json", (unsigned long long)c->m->fence,
		       (long long)r->seen_ms);
	rc = objects_put(c->objects, key, text, strlen(text), true, mount_now(c->m) + within_ns,
			 &f);
	if (rc < 0 && rc != -EEXIST) { /* an answer may have been lost */
		log_debug("notice: its report is not in the store yet: %s", f.text);
		return;
	}
	c->reported = r->number;
	log_info("notice %llu: %s", (unsigned long long)r->number, text);
}

static bool is_idle(const struct committer *c)
{
	return !c->flying && !c->pending && !c->record.raw.len;
}

/* What is about to be committed is not kept waiting for long. */
static uint64_t report_within_ns(const struct committer *c)
{
	return is_idle(c) ? REPORT_IDLE_NS : REPORT_BUSY_NS;
}

/* The time is up: what is in hand comes first, but not for ever. */
static bool report_due(const struct committer *c)
{
	const struct notice_view *v = &c->notice;
	uint64_t now = mount_now(c->m);

	if (c->report.number == c->reported || c->fenced || now < c->report_next_ns)
		return false;
	if (!runs(v))
		return true;
	return now >= v->flush_by_ns &&
	       (is_idle(c) || now >= v->flush_by_ns + (v->deadline_ns - v->flush_by_ns) / 2);
}

void flush_end(struct committer *c)
{
	mount_lock(c->m);
	note_good(c);
	mount_unlock(c->m);
	if (c->report.number != c->reported && !c->fenced)
		store_report(c, REPORT_IDLE_NS);
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
	note_good(c);
	if (other)
		flush_set_pace(c);
	mount_unlock(c->m);
	if (other)
		ask_again(c);
	if (other || runs(&is))
		store_hurry(c->m->store, runs(&is) ? flush_wait_ns(c, UINT64_MAX) : 0);
	if (report_due(c))
		store_report(c, report_within_ns(c));
}

bool flush_freezes(const struct committer *c, uint64_t now, bool quiet)
{
	uint64_t since = now - c->gap_from_ns;

	if (quiet)
		return c->m->first_change_ns ||
		       since >= lesser(LOGS_GAP_NS, c->m->opts.policy.commit_gap_ns);
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
