/* SPDX-License-Identifier: Apache-2.0 */
/* See flush.h. */
#include "fs/notice/flush.h"

#include "fs/notice/heed.h"

#define LOGS_GAP_NS  NS_PER_S           /* between moments that hold nothing but logs: there is no end to them */
#define END_GAP_NS   (500 * NS_PER_MS)  /* between those that are not quiet */
#define WAIT_LEAST_NS (200 * NS_PER_MS)
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

void flush_look(struct committer *c)
{
	struct notice_view is;
	bool other;

	heed_attend(c->m, &is);
	mount_lock(c->m);
	other = is.phase != c->notice.phase;
	c->notice = is;
	c->m->flushing = runs(&is);
	if (other)
		flush_set_pace(c);
	mount_unlock(c->m);
	if (other)
		ask_again(c);
	if (other || runs(&is))
		store_hurry(c->m->store, runs(&is) ? flush_wait_ns(c, UINT64_MAX) : 0);
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
