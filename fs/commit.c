/* SPDX-License-Identifier: Apache-2.0 */
/* The committer.  See commit.h. */
#include "fs/commit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"
#include "fs/cachedir.h"
#include "fs/commit_priv.h"
#include "fs/evict.h"
#include "fs/file.h"
#include "fs/gain.h"
#include "fs/look.h"
#include "fs/moment.h"
#include "fs/notice/flush.h"
#include "fs/notice/outlook.h"
#include "fs/park.h"
#include "fs/replay.h"
#include "fs/slot/commit_group.h"
#include "store/log.h"

#define TICK_NS (100 * NS_PER_MS)
#define APPEND_TRY_NS (5 * NS_PER_S)  /* then the thread looks up: is it to end? */
#define AGAIN_NS (5 * NS_PER_S)       /* after a fault that will not go away by itself */
#define CUMULATIVE_EVERY 64
#define GROUP_LOG_GAPS 6
#define LOOK_NS (15 * NS_PER_S)
#define ROOM_GAP_NS (500 * NS_PER_MS)
#define BASE_READ_MS (60 * 1000)

/* ---- fencing ---- */

void commit_go_read_only(struct committer *c, const struct record_head *by)
{
	struct mount *m = c->m;

	mount_lock(m);
	c->fenced = true;
	m->read_only = -EROFS;
	if (by->kind == RECORD_RESET && by->slots > 1)
		(void)snprintf(m->why_read_only, sizeof(m->why_read_only), "record %llu: %s has begun attempt %u",
			       (unsigned long long)by->number, by->host, by->attempt);
	else
		(void)snprintf(m->why_read_only, sizeof(m->why_read_only), "record %llu: %s has taken the store over",
			       (unsigned long long)by->number, by->host);
	pthread_cond_broadcast(&c->moved);
	park_look(m); /* they get EROFS */
	mount_unlock(m);
	log_error("%s: %s; this mount is read-only from now on", m->opts.uri, m->why_read_only);
}

/* Somebody else has the number that we wanted.  0: read on, try the next; -EROFS: we are fenced. */
static int read_one(struct committer *c, const struct buf *theirs, struct fault *f)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct record_head h;
	int rc = record_decode(&c->m->format, theirs->data, theirs->len, &h, &body, f);

	if (rc < 0)
		return rc;
	if (h.kind == RECORD_JOIN || h.kind == RECORD_RESET || h.kind == RECORD_COMMIT) {
		commit_go_read_only(c, &h);
		return fault_set(f, -EROFS, FAULT_FINAL, "%s", c->m->why_read_only);
	}
	record_hash(c->m->format.secret, theirs->data, theirs->len, &c->hash);
	mount_lock(c->m);
	c->number = h.number;
	c->floor = h.floor;
	mount_unlock(c->m);
	return 0;
}

static int read_on(struct committer *c, const struct buf *theirs, struct fault *f)
{
	return c->slots ? slots_read_on(c, f) : read_one(c, theirs, f);
}

/* ---- records ---- */

void commit_record_drop(struct record *r)
{
	run_unref(r->run);
	buf_fini(&r->raw);
	*r = (struct record){.run = NULL};
}

static int sink_put(struct pack_sink *sink, const void *data, size_t len, uint64_t *pack, struct fault *f)
{
	struct committer *c = sink->arg;

	return lanes_put_pack(c->m->lanes, data, len, c->put_until_ns, pack, f);
}

struct state *commit_tree(struct committer *c)
{
	return c->slots ? slots_tree(c) : c->m->state;
}

struct record_head commit_next_head(struct committer *c)
{
	const struct state *tree = commit_tree(c);
	struct record_head h = mount_next_head(c->m, tree, RECORD_COMMIT, c->number, &c->hash, c->floor);

	h.fence = c->m->fence;
	h.from = state_head(tree)->number;
	h.good = c->good;
	return h;
}

/* A run of everything since the base, so that a new mount reads few records. */
static int make_cumulative(struct committer *c, struct run **run)
{
	scoped(run_unref) struct run *since = NULL;
	struct run *merged, *both[2];
	int rc = state_cumulative(commit_tree(c), &since);

	if (rc < 0)
		return rc;
	both[0] = *run;
	both[1] = since;
	rc = run_merge(*run ? both : both + 1, *run ? 2 : 1, false, &merged);
	if (rc < 0)
		return rc;
	run_unref(*run);
	*run = merged;
	return 0;
}

/* The present state as one run in packs; the record that is being made is the first above it. */
static int make_base(struct committer *c, struct record_head *h, struct fault *f)
{
	struct pack_sink sink = {.put = sink_put, .arg = c};
	struct block_source src;
	int rc;

	lanes_block_source(c->m->lanes, BASE_READ_MS, &src);
	rc = state_pack_base(c->m->state, &src, &sink, &h->base, f);
	if (rc < 0)
		return fault_in(f, "base");
	h->base_upto = h->from;
	h->cumulative = 0;
	return 0;
}

/* What this record's body has to hold beyond its own run. */
static int make_body_run(struct committer *c, struct record *r, bool last, struct fault *f)
{
	bool due = state_depth(commit_tree(c)) + 1 >= CUMULATIVE_EVERY;
	int rc = 0;

	if (c->lanes_over || c->m->flushing)
		return 0;
	/* A group's base is made by its next reset: a slot would lose the number to others over and over. */
	if ((due || last) && !c->slots && state_base_due(c->m->state))
		rc = make_base(c, &r->head, f);
	else if (due && r->run)
		rc = make_cumulative(c, &r->run);
	else
		return 0;
	if (rc == 0 && r->run) {
		r->head.flags |= RECORD_CUMULATIVE;
		r->head.cumulative = r->head.number;
	}
	return rc;
}

/* Encodes c->record.head and run as the next record. */
int commit_record_make(struct committer *c, struct fault *f)
{
	struct record *r = &c->record;
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct pack_sink sink = {.put = sink_put, .arg = c};
	int rc = make_body_run(c, r, r->head.flags & RECORD_RELEASE, f);

	if (rc == 0)
		rc = run_body(&c->m->format, &sink, r->run, &r->head.flags, &body, f);
	if (rc == 0)
		rc = record_encode(c->m->format.secret, &r->head, body.data, body.len, &r->raw);
	if (rc < 0 && !f->code)
		(void)fault_errno(f, rc, "record %llu", (unsigned long long)r->head.number);
	return rc;
}

/* After the record is on the log: the state is the next one. */
static int record_landed(struct committer *c, struct fault *f)
{
	struct record *r = &c->record;
	struct state *next = NULL;
	int rc = state_next(commit_tree(c), &r->head, r->run, &next);

	if (rc < 0)
		return fault_errno(f, rc, "state at %llu", (unsigned long long)r->head.number);
	record_hash(c->m->format.secret, r->raw.data, r->raw.len, &c->hash);
	if (c->slots) {
		slots_appended(c, next);
		return 0;
	}
	mount_lock(c->m);
	state_unref(c->m->state);
	c->m->state = next;
	c->number = r->head.number;
	mount_unlock(c->m);
	return 0;
}

/*
 * One try to append c->record.  0: it is there; -EAGAIN: later, the same bytes; -ECANCELED: the
 * number went to a record that is no writer's, make it again.
 */
static int record_append(struct committer *c, struct fault *f)
{
	struct record *r = &c->record;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;
	int rc = log_append(c->objects, "log", r->head.number, r->raw.data, r->raw.len,
			    mount_now(c->m) + APPEND_TRY_NS, &theirs, f);

	if (rc == 0)
		return 0;
	if (rc == -EEXIST) {
		rc = read_on(c, &theirs, f);
		return rc < 0 ? rc : -ECANCELED;
	}
	return f->retry == FAULT_SOON || f->retry == FAULT_PACED ? -EAGAIN : rc;
}

/* ---- good ---- */

/* Is a file being written that never was whole? */
static bool any_growing(struct mount *m, uint64_t now)
{
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		const struct node *n = node_of_dirty(l);

		if (n->file && n->file->facts.writers_open && !file_is_log(m, n, now) && !file_ever_sealed(m, n, now))
			return true;
	}
	return false;
}

/* What came before this daemon may be half a set, which holds for `patience` as any that a crash left. */
static enum vouch_verdict went_on_blind(const struct committer *c, struct vouch_reason *why)
{
	*why = (struct vouch_reason){.objection = 2, .again_ns = c->blind_until_ns,
				     .text = "what was saved before the mount went on may be half a set"};
	return VOUCH_NOT_YET;
}

/* Is the newest commit (the one in flight included) good?  Sets why and vouch_ns. */
bool commit_newest_is_good(struct committer *c)
{
	scoped(vouch_input_fini) struct vouch_input in = VOUCH_INPUT_EMPTY;
	struct vouch_reason why = {.objection = 0};
	uint64_t now = mount_now(c->m);
	enum vouch_verdict verdict;
	int rc;

	mount_lock(c->m);
	in.unsealed_growing = any_growing(c->m, now);
	in.changed_ns = c->changed_ns ? c->changed_ns : c->m->first_change_ns;
	/* It was not quiet when it was frozen; nothing came since, and now it is. */
	if (c->newest_seq == c->m->nodes.seq && moment_quiet(c->m, now, NULL))
		c->newest_quiet = true;
	in.ack_ns = c->ack_ns;
	in.notice_ns = flush_notice_ns(c);
	mount_unlock(c->m);
	in.quiet = c->newest_quiet;
	in.holder = c->newest_holder.name[0] ? c->newest_holder.name : NULL;
	in.torn = c->newest_holder.torn;
	rc = gains_input(c->gains, c->m, &in);
	if (rc < 0)
		in.failed = true;
	verdict = now < c->blind_until_ns && !in.ack_ns ? went_on_blind(c, &why)
							: vouch(&in, &c->m->opts.policy, now, &why);
	c->vouched_ack_ns = in.ack_ns;
	c->vouch_ns = verdict == VOUCH_GOOD ? 0 : why.again_ns;
	mount_lock(c->m);
	c->why = why;
	mount_unlock(c->m);
	return verdict == VOUCH_GOOD;
}

static void good_moved(struct committer *c)
{
	mount_lock(c->m);
	c->good = c->newest;
	c->durable_seq = c->newest_seq;
	c->good_frozen_ns = c->newest_frozen_ns;
	c->why = (struct vouch_reason){.objection = 0};
	c->blind_until_ns = 0;
	pthread_cond_broadcast(&c->moved);
	mount_unlock(c->m);
	gains_clear(c->gains);
}

/* ---- faults ---- */

void commit_faulted(struct committer *c, const struct fault *f)
{
	bool is_new, deleted;

	mount_lock(c->m);
	deleted = cachedir_deleted(c->m);
	is_new = strcmp(c->fault.text, f->text) != 0;
	c->fault = *f;
	c->faults++;
	pthread_cond_broadcast(&c->moved);
	mount_unlock(c->m);
	c->retry_ns = mount_now(c->m) + flush_wait_ns(c, AGAIN_NS);
	if (is_new)
		log_error("commit: %s; %s", f->text,
			  deleted ? "what cannot be read any more is in no commit"
				  : "what is unsent stays in the cache and is tried again");
}

static void healed(struct committer *c)
{
	mount_lock(c->m);
	c->fault = FAULT_NONE;
	mount_unlock(c->m);
}

/* ---- one moment's way ---- */

/* Would a moment of now be worth more than the one that waits already? */
static bool better_than(const struct moment *pending, const struct mount *m, bool quiet, bool overdue)
{
	if (!pending)
		return true;
	if (pending->seq == m->nodes.seq)
		return quiet && !pending->quiet;
	return quiet || overdue || !pending->quiet;
}

/* Each commit of a slot makes all others say whether they are calm: logs alone can wait. */
static uint64_t commit_gap(const struct committer *c)
{
	uint64_t gap = c->m->opts.policy.commit_gap_ns;

	return c->slots && !c->m->first_change_ns ? GROUP_LOG_GAPS * gap : gap;
}

/* overdue: somebody has waited long enough for a quiet one. */
static bool freeze_due(struct committer *c, uint64_t now, bool quiet, bool overdue)
{
	const struct track_policy *p = &c->m->opts.policy;

	if (nodes_all_clean(&c->m->nodes) || !better_than(c->pending, c->m, quiet, overdue))
		return false;
	if (c->ack_ns && (quiet || overdue))
		return true;
	if (c->m->room_wanted) /* who waits is what keeps it from being quiet */
		return now - c->gap_from_ns >= ROOM_GAP_NS;
	if (c->ack_ns)
		return false;
	if (c->m->flushing)
		return flush_freezes(c, now, quiet);
	if (now - c->gap_from_ns < commit_gap(c))
		return false;
	return quiet || now - c->gap_from_ns >= p->patience_ns;
}

/* Nothing that can be published differs from the base: the newest commit is of this instant, too. */
static void nothing_to_commit(struct committer *c, bool quiet)
{
	if (c->flying || c->pending)
		return;
	if (quiet)
		c->m->first_change_ns = 0; /* what came has gone again */
	c->newest_seq = c->m->nodes.seq;
	if (quiet && !c->newest_quiet) {
		c->newest_quiet = true;
		c->vouch_ns = mount_now(c->m); /* that was the objection */
	}
	if (c->slots ? !slots_all_good(c) : c->good != c->newest)
		return;
	c->durable_seq = c->m->nodes.seq;
	pthread_cond_broadcast(&c->moved);
}

/* Under lock.  A newer moment replaces the one that waits. */
static int freeze_pending(struct committer *c, uint64_t now)
{
	struct mount *m = c->m;
	int rc;

	moment_free(take(&c->pending));
	rc = moment_freeze(m, now, &c->pending);
	if (rc == 0) {
		if (!c->changed_ns)
			c->changed_ns = m->first_change_ns;
		m->first_change_ns = 0;
	}
	return rc;
}

/* Who may change nothing has nothing to commit, but for what was made before the cache was deleted. */
static bool may_freeze(const struct mount *m)
{
	return !m->read_only || m->cache_deleted;
}

/* This instant. */
struct instant {
	uint64_t now;
	bool quiet, overdue;
	bool due; /* to be frozen */
};

/* Under lock. */
static struct instant look(struct committer *c)
{
	struct mount *m = c->m;
	struct instant x = {.now = mount_now(m)};

	(void)cachedir_deleted(m);
	x.quiet = moment_quiet(m, x.now, NULL);
	x.overdue = c->ack_ns && x.now - c->ack_ns >= m->opts.policy.ack_wait_ns;
	x.due = may_freeze(m) && freeze_due(c, x.now, x.quiet, x.overdue);
	return x;
}

static void freeze(struct committer *c)
{
	struct mount *m = c->m;
	struct instant x;
	int rc = 0;

	look_ahead(m);
	mount_lock(m);
	x = look(c);
	if (x.due && c->slots) {
		mount_unlock(m);
		slots_before_freeze(c);
		mount_lock(m);
		x = look(c);
	}
	if (x.due)
		rc = freeze_pending(c, x.now);
	if (may_freeze(m) && (nodes_all_clean(&m->nodes) || (rc == -EAGAIN && (x.quiet || x.overdue))))
		nothing_to_commit(c, x.quiet);
	mount_unlock(m);
	if (rc < 0 && rc != -EAGAIN)
		log_error("freeze: %s", strerror(-rc));
}

static void take_off(struct committer *c)
{
	struct mount *m = c->m;
	struct moment *x = take(&c->pending);

	mount_lock(m);
	moment_promote(m, x);
	(void)gains_merge(c->gains, m, x); /* a failure shows as "not yet" */
	c->gap_from_ns = x->frozen_ns;
	outlook_name(m, x, c->looked.newest_name);
	mount_unlock(m);
	c->newest_quiet = x->quiet;
	c->newest_holder = x->holder;
	c->newest_seq = x->seq;
	c->newest_frozen_ns = x->frozen_ns;
	c->changed_ns = 0;
	c->flying = x;
	sender_start(c->sender, x);
}

static int flying_make(struct committer *c, struct fault *f)
{
	struct record *r = &c->record;
	int rc;

	r->head = commit_next_head(c);
	rc = moment_encode(c->flying, &r->run);
	if (rc < 0)
		return fault_errno(f, rc, "encode");
	if (c->flying->quiet)
		r->head.flags |= RECORD_QUIET;
	if (commit_newest_is_good(c))
		r->head.good = r->head.number;
	return commit_record_make(c, f);
}

/* Memory goes by what the record in c->record says. */
static void settle(struct committer *c)
{
	mount_lock(c->m);
	moment_settle(c->m, c->flying);
	c->newest = c->record.head.number;
	c->commits++;
	mount_unlock(c->m);
}

static void landed(struct committer *c)
{
	uint64_t number = c->record.head.number;
	bool good = c->record.head.good == number;

	if (c->slots)
		slots_landed(c);
	else
		settle(c);
	moment_free(c->flying);
	c->flying = NULL;
	log_debug("commit %llu%s", (unsigned long long)number, good ? ", good" : "");
	if (good)
		good_moved(c);
	replay_compact(c->m);
	if (!c->m->flushing)
		evict_to_size(c->m);
	mount_lock(c->m);
	park_look(c->m);
	mount_unlock(c->m);
}

/* An empty commit that says: the state so far is good.  It names itself, being that state. */
static int move_make(struct committer *c, struct fault *f)
{
	c->record.head = commit_next_head(c);
	c->record.head.good = c->record.head.number;
	return commit_record_make(c, f);
}

/* Make the record if there is none, and put it on the log.  0: it is there and c->record still holds it. */
int commit_put_record(struct committer *c, int (*make)(struct committer *c, struct fault *f))
{
	struct fault f = FAULT_NONE;
	int rc = 0;

	if (!c->record.raw.len)
		rc = make(c, &f);
	if (rc == 0 && !c->record.on_log)
		rc = record_append(c, &f);
	if (rc == 0) {
		c->record.on_log = true;
		rc = record_landed(c, &f);
	}
	if (rc == 0) {
		healed(c);
		c->looked_ns = mount_now(c->m);
		return 0;
	}
	if (rc != -ECANCELED && !c->fenced)
		commit_faulted(c, &f);
	if (rc == -EAGAIN)
		c->record.unsure = true;
	if (rc == -ECANCELED || (!c->record.on_log && !c->record.unsure))
		commit_record_drop(&c->record);
	if (rc == -EAGAIN || c->record.on_log)
		c->retry_ns = 0; /* the same bytes again, at once: each try waits in the store's client */
	return rc;
}

static void step_flying(struct committer *c)
{
	struct fault f = FAULT_NONE;
	int rc = sender_poll(c->sender, &f);

	if (rc == -EAGAIN)
		return;
	if (rc < 0) {
		commit_faulted(c, &f);
		sender_start(c->sender, c->flying); /* what was sent stays sent */
		return;
	}
	if (commit_put_record(c, c->slots ? slots_flying_make : flying_make) < 0)
		return;
	landed(c);
	commit_record_drop(&c->record);
}

static void step_good(struct committer *c)
{
	uint64_t now = mount_now(c->m);

	if (!c->record.raw.len) { /* else one is on its way already */
		if (c->good == c->newest || !c->newest)
			return;
		if ((!c->vouch_ns || now < c->vouch_ns) && c->vouched_ack_ns == c->ack_ns)
			return;
		if (!commit_newest_is_good(c)) {
			if (!c->vouch_ns && (c->ack_ns || !c->newest_quiet))
				c->vouch_ns = now + NS_PER_S;
			return;
		}
	}
	if (commit_put_record(c, move_make) < 0)
		return;
	mount_lock(c->m);
	c->newest = c->record.head.number;
	mount_unlock(c->m);
	good_moved(c);
	commit_record_drop(&c->record);
}

/*
 * A writer that is never quiet commits seldom; that it was replaced it has to learn all the same.  One LIST, only
 * while there is something that it hopes to commit.
 */
static void look_at_log(struct committer *c)
{
	struct mount *m = c->m;
	scoped(buf_fini) struct buf theirs = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	uint64_t now = mount_now(m), newest = 0;
	bool dirty;

	mount_lock(m);
	dirty = !nodes_all_clean(&m->nodes);
	mount_unlock(m);
	if (!dirty || c->flying || c->record.raw.len || now - c->looked_ns < LOOK_NS)
		return;
	c->looked_ns = now;
	if (log_newest(c->objects, "log", now + APPEND_TRY_NS, &newest, &f) < 0 || newest <= c->number)
		return; /* whether the store answers is the lanes' matter to say */
	if (log_read(c->objects, "log", c->number + 1, mount_now(m) + APPEND_TRY_NS, &theirs, &f) == 0)
		(void)read_on(c, &theirs, &f);
}

static void step(struct committer *c)
{
	flush_look(c);
	if (c->fenced || mount_now(c->m) < c->retry_ns)
		return;
	if (c->slots) {
		if (!slots_begin_step(c))
			return;
	} else {
		look_at_log(c);
	}
	if (c->fenced)
		return;
	/* A slot freezes what it can put on the log next: what others commit in between has to meet one moment only. */
	if (!c->slots || (!c->flying && !c->record.raw.len))
		freeze(c);
	if (!c->flying && !c->record.raw.len && c->pending)
		take_off(c);
	if (c->flying) {
		step_flying(c);
		return;
	}
	if (c->slots)
		slots_say_calm(c);
	else
		step_good(c);
	replay_compact(c->m);
}

/* ---- the thread ---- */

static void wait_tick(struct committer *c)
{
	uint64_t until = mount_now(c->m) + TICK_NS;

	mount_lock(c->m);
	while (!c->kicked && !c->ending)
		if (cond_wait_until(&c->wake, &c->m->lock, until) == ETIMEDOUT)
			break;
	c->kicked = false;
	mount_unlock(c->m);
}

static void *committer_main(void *arg)
{
	struct committer *c = arg;

	while (!c->ending) {
		step(c);
		outlook_look(c);
		wait_tick(c);
	}
	return NULL;
}

void committer_kick(struct mount *m)
{
	/* A lost wake-up costs one tick. */
	if (m->committer) {
		m->committer->kicked = true;
		pthread_cond_signal(&m->committer->wake);
	}
}

/*
 * The mount goes on, and what its cache's earlier daemon committed was not all found whole: vouch() has to know what
 * came since.  If that cannot be told, `patience` has to do.
 */
static void learn_gains(struct committer *c, const struct commit_start *at)
{
	struct mount *m = c->m;
	struct fault f = FAULT_NONE;

	if (at->doubtful)
		c->blind_until_ns = mount_now(m) + m->opts.policy.patience_ns;
	if (at->good == at->newest)
		return;
	if (!at->good_state || gains_of_states(c->gains, m, at->good_state, &f) < 0) {
		log_info("commit %llu: %s; the good moment may wait for %llu s", (unsigned long long)at->newest,
			 f.code ? f.text : "the good moment could not be read",
			 (unsigned long long)(m->opts.policy.patience_ns / NS_PER_S));
		c->blind_until_ns = mount_now(m) + m->opts.policy.patience_ns;
	}
	c->newest_quiet = state_head(m->state)->flags & RECORD_QUIET;
	c->vouch_ns = mount_now(m); /* asked at once: no commit may follow */
	mount_lock(m);
	if (!nodes_all_clean(&m->nodes)) /* the tree is not as in the newest commit any more */
		mount_changed(m, mount_now(m));
	mount_unlock(m);
}

int committer_new(struct mount *m, const struct commit_start *at, struct fault *f)
{
	struct committer *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (!c) {
		group_free(at->group);
		return fault_errno(f, -ENOMEM, "committer");
	}
	*c = (struct committer){.m = m, .number = at->number, .hash = at->hash, .good = at->good, .newest = at->newest, .floor = at->floor,
				.looked = {.named = at->good},
				/* The first commit need not wait for a gap; but patience begins here. */
				.gap_from_ns = mount_now(m) - m->opts.policy.commit_gap_ns};
	/* What a replayed journal left dirty is in no commit yet. */
	if (at->good == at->newest && nodes_all_clean(&m->nodes))
		c->durable_seq = m->nodes.seq;
	cond_init(&c->wake);
	cond_init(&c->moved);
	m->committer = c;
	c->gains = gains_new(m);
	c->sender = c->gains ? sender_new(m) : NULL;
	if (at->group)
		rc = slots_new(c, at->group, at->good_state, f);
	if (rc == 0 && c->sender) {
		if (!c->slots)
			learn_gains(c, at);
		return 0;
	}
	committer_free(m);
	return rc < 0 ? rc : fault_errno(f, -ENOMEM, "committer");
}

int committer_run(struct mount *m, struct fault *f)
{
	struct committer *c = m->committer;
	int rc = loop_new(LOOP_AUTO, &c->loop, f);

	if (rc == 0)
		rc = objects_open(m->store, c->loop, &c->objects, f);
	if (rc == 0 && c->slots)
		rc = slots_catch_up(c, f);
	if (rc < 0)
		return rc;
	rc = -pthread_create(&c->thread, NULL, committer_main, c);
	if (rc < 0)
		return fault_errno(f, rc, "committer thread");
	c->running = true;
	return 0;
}

static void thread_end(struct committer *c)
{
	if (!c->running)
		return;
	mount_lock(c->m);
	c->ending = true;
	pthread_cond_broadcast(&c->wake);
	pthread_cond_broadcast(&c->moved); /* nobody moves it for them any more */
	mount_unlock(c->m);
	(void)pthread_join(c->thread, NULL);
	c->running = false;
}

void committer_free(struct mount *m)
{
	struct committer *c = m->committer;

	if (!c)
		return;
	thread_end(c);
	sender_free(c->sender); /* first: its callbacks look at the moment */
	moment_free(c->flying);
	moment_free(c->pending);
	commit_record_drop(&c->record);
	gains_free(c->gains);
	slots_free(c->slots);
	objects_close(c->objects);
	loop_free(c->loop);
	(void)pthread_cond_destroy(&c->wake);
	(void)pthread_cond_destroy(&c->moved);
	m->committer = NULL;
	free(c);
}

/* ---- acknowledgement ---- */

static void waiter_comes(struct committer *c, uint64_t now)
{
	if (c->waiters++ == 0) {
		c->ack_ns = now;
		flush_set_pace(c); /* nobody is disturbed by the flush he waits for */
	}
	c->kicked = true;
	pthread_cond_signal(&c->wake);
}

static void waiter_goes(struct committer *c)
{
	if (--c->waiters == 0) {
		c->ack_ns = 0;
		flush_set_pace(c);
	}
}

/* Under lock. */
static uint64_t bounded(const struct committer *c, uint64_t deadline_ns)
{
	if (!c->give_up_ns)
		return deadline_ns;
	return deadline_ns && deadline_ns < c->give_up_ns ? deadline_ns : c->give_up_ns;
}

/* Under lock. */
static bool is_over(const struct committer *c, uint64_t deadline_ns)
{
	deadline_ns = bounded(c, deadline_ns);
	return deadline_ns && mount_now(c->m) >= deadline_ns;
}

/* Under lock.  Waits for something to move; is it too late now?  The bound may have moved meanwhile. */
static bool is_late(struct committer *c, uint64_t deadline_ns)
{
	return cond_wait_until(&c->moved, &c->m->lock, bounded(c, deadline_ns)) == ETIMEDOUT &&
	       is_over(c, deadline_ns);
}

/* Under lock.  What keeps the newest commit from being good; "" if nothing does. */
static void why_not_good(const struct committer *c, char *out, size_t cap)
{
	if (c->why.objection || !c->slots)
		(void)snprintf(out, cap, "%s", c->why.objection ? c->why.text : "");
	else
		slots_waits_for(c, out, cap);
}

/* Under lock.  Why does it take so long? */
static int not_in_time(struct committer *c, struct fault *f)
{
	struct mount *m = c->m;
	char why[320];
	struct holder holder;
	struct trouble t;

	why_not_good(c, why, sizeof(why));

	trouble_find(m, &c->fault, &t);
	if (t.text[0] && t.lasts_ns)
		return fault_set(f, -ETIMEDOUT, FAULT_SOON, "not acknowledged in time: %.190s; for %llu s now",
				 t.text, (unsigned long long)(t.lasts_ns / NS_PER_S));
	if (t.text[0] || why[0])
		return fault_set(f, -ETIMEDOUT, FAULT_SOON, "not acknowledged in time: %.220s", t.text[0] ? t.text : why);
	if (!moment_quiet(m, mount_now(m), &holder) && holder.torn)
		return fault_set(f, -ETIMEDOUT, FAULT_SOON, "not acknowledged in time: %.150s: %.80s", holder.name, holder.torn);
	if (holder.name[0])
		return fault_set(f, -ETIMEDOUT, FAULT_SOON, "not acknowledged in time: %.200s is being written", holder.name);
	return fault_set(f, -ETIMEDOUT, FAULT_SOON, "not acknowledged in time");
}

int committer_sync(struct mount *m, uint64_t deadline_ns, const _Atomic bool *given_up, struct fault *f)
{
	struct committer *c = m->committer;
	uint64_t want, faults;
	int rc = 0;

	if (!c)
		return 0; /* read-only: nothing to wait for */
	mount_lock(m);
	want = ++m->nodes.seq; /* a moment of now or later: what is sealed by time alone counts no change */
	faults = c->faults;
	waiter_comes(c, mount_now(m));
	while (c->durable_seq < want) {
		if (c->fenced)
			rc = fault_set(f, -EROFS, FAULT_FINAL, "%s", m->why_read_only);
		else if (c->faults != faults && c->fault.code && c->fault.retry == FAULT_FINAL)
			rc = fault_set(f, c->fault.code, FAULT_FINAL, "%s", c->fault.text);
		else if (c->ending)
			rc = fault_set(f, -ESHUTDOWN, FAULT_FINAL, "the mount has ended");
		else if (given_up && *given_up)
			rc = fault_set(f, -ECANCELED, FAULT_FINAL, "nobody waits for it any more");
		else if (is_late(c, deadline_ns))
			rc = not_in_time(c, f);
		if (rc < 0)
			break;
	}
	waiter_goes(c);
	mount_unlock(m);
	return rc;
}

void committer_look(struct mount *m)
{
	mount_lock(m);
	if (m->committer)
		pthread_cond_broadcast(&m->committer->moved);
	mount_unlock(m);
}

void committer_hurry(struct mount *m, uint64_t give_up_ns)
{
	bool cancel = false;

	mount_lock(m);
	if (m->committer) {
		m->committer->give_up_ns = give_up_ns;
		cancel = m->committer->releasing && give_up_ns <= mount_now(m);
		pthread_cond_broadcast(&m->committer->moved);
	}
	mount_unlock(m);
	if (cancel)
		lanes_stop(m->lanes); /* a base's pack may be under way */
}

static int release_make(struct committer *c, struct fault *f)
{
	struct record *r = &c->record;

	r->head = commit_next_head(c);
	r->head.flags = RECORD_RELEASE;
	if (!c->slots && c->good == c->newest)
		r->head.good = r->head.number; /* the same state under a newer number */
	return commit_record_make(c, f);
}

static bool release_is_over(struct committer *c, uint64_t deadline_ns)
{
	bool over;

	mount_lock(c->m);
	over = is_over(c, deadline_ns);
	mount_unlock(c->m);
	return over;
}

/* The last record: the same state, the slot free. */
static int release(struct committer *c, uint64_t deadline_ns, struct fault *f)
{
	bool left_over = c->record.raw.len;
	int rc;

	do {
		rc = commit_put_record(c, release_make);
	} while ((rc == -EAGAIN || rc == -ECANCELED) && !release_is_over(c, deadline_ns));
	if (rc < 0)
		return c->fenced ? fault_set(f, -EROFS, FAULT_FINAL, "%s", c->m->why_read_only)
				 : fault_set(f, rc, FAULT_SOON, "not released: %s", c->fault.text);
	commit_record_drop(&c->record);
	return left_over ? release(c, deadline_ns, f) : 0; /* that was one whose answer had not come */
}

int committer_end(struct mount *m, uint64_t deadline_ns, bool discard, struct fault *f)
{
	struct committer *c = m->committer;
	int rc;

	mount_lock(m);
	m->opts.policy.mapped_still_ns = m->opts.policy.pid0_still_ns = 0; /* nobody is left who could write */
	mount_unlock(m);
	if (!c || c->fenced)
		return c && c->fenced ? fault_set(f, -EROFS, FAULT_FINAL, "%s", m->why_read_only) : 0;
	rc = discard ? 0 : committer_sync(m, deadline_ns, NULL, f);
	if (rc < 0 || discard)
		lanes_stop(m->lanes); /* the thread may wait for a pack that never arrives */
	thread_end(c);
	if (rc < 0)
		return rc;
	mount_lock(m);
	c->releasing = true;
	c->put_until_ns = bounded(c, deadline_ns);
	mount_unlock(m);
	if (!discard)
		flush_end(c);
	c->lanes_over = discard;
	return release(c, deadline_ns, f);
}

void committer_status(struct mount *m, struct commit_status *out)
{
	struct committer *c = m->committer;
	struct holder holder;
	uint64_t now = mount_now(m);

	mount_lock(m);
	*out = (struct commit_status){.commit = state_head(m->state)->number};
	trouble_find(m, c ? &c->fault : &FAULT_NONE, &out->trouble);
	if (!c) { /* read-only: what it shows */
		out->good = out->commit;
		mount_unlock(m);
		return;
	}
	out->commit = c->newest;
	out->good = c->good;
	out->number = c->number;
	if (c->durable_seq < m->nodes.seq && c->good_frozen_ns)
		out->good_age_ns = now - c->good_frozen_ns;
	why_not_good(c, out->objection, sizeof(out->objection));
	out->fenced = c->fenced;
	out->in_flight = c->flying != NULL;
	out->pending = c->pending != NULL;
	out->quiet = moment_quiet(m, now, &holder);
	(void)snprintf(out->holder, sizeof(out->holder), "%s", holder.name);
	(void)look_torn(m, out->torn, sizeof(out->torn));
	out->dirty_bytes = moment_dirty_bytes(m) + sender_bytes(c->sender);
	out->commits = c->commits;
	(void)snprintf(out->gauge, sizeof(out->gauge), "%s", c->outlook.text);
	out->lost_bytes = c->outlook.lost_bytes;
	out->short_ns = c->outlook.short_ns;
	out->report = c->report;
	mount_unlock(m);
}
