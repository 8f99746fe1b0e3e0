/* SPDX-License-Identifier: Apache-2.0 */
/* See outlook.h. */
#include "fs/notice/outlook.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fs/file.h"
#include "fs/notice/gauge.h"

#define EVERY_NS  NS_PER_S
#define COMMIT_NS (500 * NS_PER_MS) /* encoding, and a round trip */

/* A plan's input in the making, and what the gauge wants to know beside it. */
struct picture {
	struct plan_input in;
	struct plan plan;
	uint64_t total_bytes[PLAN_MOST];
	char names[PLAN_MOST][OUTLOOK_NAME];
	uint64_t unsent_bytes;
};

/* ---- names ---- */

/* Of a set its directory's, of a file at the top its own. */
static void name_in(struct mount *m, uint64_t dir_id, const char *text, char out[OUTLOOK_NAME])
{
	const struct node *dir = dir_id == ROOT_ID ? NULL : node_find(&m->nodes, dir_id);

	if (dir && *node_name(dir))
		(void)snprintf(out, OUTLOOK_NAME, "%s/", node_name(dir));
	else
		(void)snprintf(out, OUTLOOK_NAME, "%s", text);
}

/* A log says nothing of what would be lost. */
static bool counts(const struct mount *m, const struct node *n)
{
	return n->file && !file_is_log(m, n, mount_now(m));
}

void outlook_name(struct mount *m, const struct moment *x, char out[OUTLOOK_NAME])
{
	const struct moment_node *newest = NULL;

	for (size_t i = 0; i < x->node_n; i++) {
		const struct moment_node *n = &x->nodes[i];

		if (n->view && counts(m, n->node) &&
		    (!newest || n->rec.attr.mtime_ns >= newest->rec.attr.mtime_ns))
			newest = n;
	}
	if (newest)
		name_in(m, newest->node->name_dir, node_name(newest->node), out);
}

/* Of what was changed and not frozen yet. */
static void name_live(struct mount *m, char out[OUTLOOK_NAME])
{
	const struct node *newest = NULL;

	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		const struct node *n = node_of_dirty(l);

		if (counts(m, n) && n->file->changed && n->names &&
		    (!newest || n->attr.mtime_ns >= newest->attr.mtime_ns))
			newest = n;
	}
	if (newest)
		name_in(m, newest->name_dir, node_name(newest), out);
}

/* ---- bytes ---- */

static uint64_t moment_bytes(const struct moment *x)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < x->node_n; i++)
		sum += x->nodes[i].view ? view_size(x->nodes[i].view) : 0;
	return sum;
}

static bool is_superseded(const struct node *n)
{
	return n->names == 0 || (list_on(&n->dirty) && n->file && n->file->changed);
}

static void count_flying(struct picture *p, const struct moment *x)
{
	unsigned at = p->in.n;

	p->in.will_be_good[at] = x->quiet;
	p->total_bytes[at] = moment_bytes(x);
	p->in.n++;
	for (size_t i = 0; i < x->node_n; i++)
		if (x->nodes[i].view && is_superseded(x->nodes[i].node))
			plan_count(&p->in, at, at, moment_unsent_of(&x->nodes[i]));
}

static uint64_t count_pending(struct picture *p, const struct moment *x)
{
	unsigned at = p->in.n++;
	uint64_t unsent = moment_unsent(x);

	p->in.will_be_good[at] = x->quiet;
	p->total_bytes[at] = moment_bytes(x);
	plan_count(&p->in, at, at, unsent); /* shared with what came since only if nothing came */
	return unsent;
}

/* What differs from all that is frozen, as if nothing came after it. */
static void count_live(struct picture *p, struct mount *m, uint64_t bytes, uint64_t now)
{
	unsigned at = p->in.n++;
	struct holder holder = {.name = ""};

	(void)moment_quiet(m, now, &holder);
	p->in.will_be_good[at] = !holder.name[0];
	plan_count(&p->in, at, at, bytes);
}

/* Under lock. */
static void take_picture(struct committer *c, struct picture *p, uint64_t now)
{
	struct mount *m = c->m;
	uint64_t dirty = moment_dirty_bytes(m), waits = 0,
		 flying = c->flying ? sender_bytes(c->sender) : 0, own;

	if (c->flying) {
		outlook_name(m, c->flying, p->names[p->in.n]);
		count_flying(p, c->flying);
	}
	if (c->pending) {
		outlook_name(m, c->pending, p->names[p->in.n]);
		waits = count_pending(p, c->pending);
	}
	if (dirty > waits || (!p->in.n && c->good != c->newest)) {
		name_live(m, p->names[p->in.n]);
		count_live(p, m, dirty > waits ? dirty - waits : 0, now);
	}
	own = c->flying ? p->in.bytes[0][0] : 0;
	if (flying > own)
		plan_count(&p->in, 0, p->in.n - 1, flying - own);
	p->unsent_bytes = dirty + flying;
	p->in.commit_ns = COMMIT_NS;
	p->in.rate_bps = meter_rate(&c->meter);
	p->in.spread_bps = meter_spread(&c->meter);
	p->in.left_ns = GAUGE_USUAL_NS;
	if (m->flushing)
		p->in.left_ns = c->notice.flush_by_ns > now ? c->notice.flush_by_ns - now : 0;
}

/* ---- what is said of it ---- */

/* Once: a save that never fits is no news the next time. */
static void warn_once(struct committer *c, const struct gauge *g)
{
	scoped(buf_fini) struct buf text = BUF_EMPTY;

	if (c->looked.warned || g->runs || !gauge_warning(g, &text) || !buf_ok(&text))
		return;
	c->looked.warned = true;
	log_warn("%.*s", (int)text.len, (const char *)text.data);
}

static void keep(struct committer *c, const struct picture *p, const struct gauge *g)
{
	scoped(buf_fini) struct buf text = BUF_EMPTY;
	int lost = p->plan.lost;

	gauge_words(g, &text);
	mount_lock(c->m);
	c->outlook.unsent_bytes = p->unsent_bytes;
	(void)snprintf(c->outlook.text, sizeof(c->outlook.text), "%.*s",
		       buf_ok(&text) ? (int)text.len : 0, (const char *)text.data);
	c->outlook.lost_bytes = lost < 0 ? 0 : plan_bytes(&p->in, (unsigned)lost);
	c->outlook.short_ns = lost < 0 || p->plan.short_ns == PLAN_UNKNOWN ? 0 : p->plan.short_ns;
	mount_unlock(c->m);
}

static bool is_due(const struct committer *c, uint64_t now, unsigned in_hand)
{
	return now - c->looked.looked_ns >= EVERY_NS || c->looked.in_hand != in_hand ||
	       c->looked.good != c->good;
}

void outlook_look(struct committer *c)
{
	struct mount *m = c->m;
	struct picture p = {.in = {.n = 0}};
	struct gauge g = {.in = &p.in, .plan = &p.plan};
	unsigned in_hand = (c->flying != NULL) | (c->pending != NULL) << 1 | m->flushing << 2;
	uint64_t now = mount_now(m);

	if (!is_due(c, now, in_hand))
		return;
	c->looked.looked_ns = now;
	c->looked.in_hand = in_hand;
	c->looked.good = c->good;
	mount_lock(m);
	take_picture(c, &p, now);
	mount_unlock(m);
	plan_make(&p.in, &p.plan);
	g.runs = m->flushing;
	g.good_name = c->good ? c->looked.good_name : NULL;
	for (unsigned i = 0; i < p.in.n; i++) {
		g.names[i] = p.names[i];
		g.total_bytes[i] = p.total_bytes[i];
	}
	warn_once(c, &g);
	keep(c, &p, &g);
}
