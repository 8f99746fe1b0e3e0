/* SPDX-License-Identifier: Apache-2.0 */
/* See commit_group.h. */
#include "fs/slot/commit_group.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "fs/follow.h"
#include "fs/move.h"
#include "fs/slot/rebase.h"
#include "store/log.h"

#define LOOK_DEADLINE_NS (5 * NS_PER_S)
#define LOOK_HURRY_NS (300 * NS_PER_MS) /* while somebody waits for an acknowledgement */
#define STILL_NS NS_PER_S /* other slots commit at about the same time: one word for all of it */
#define STILL_HURRY_NS (200 * NS_PER_MS)
#define STILL_MOST 5 /* times that */
#define JITTER_NS (30 * NS_PER_MS) /* a slot, design section 3 */
#define JITTER_MOST_NS (2 * NS_PER_S)
#define READ_MS (60 * 1000)
#define KEPT_MOST 1024
#define BATCH 256

/* A tree that may become the good moment. */
struct kept {
	uint64_t number;
	struct state *state;
};

struct slots {
	struct group *group; /* changed under the mount's lock, as status reads it */
	struct state *tree;
	struct rebase_theirs *theirs; /* between m->state and tree */
	size_t theirs_n, theirs_cap;
	struct run *ours, *out;       /* of the moment in flight: as frozen, and as it is put on the log */
	struct run *keys;             /* what memory has still to meet; NULL: nothing */
	uint64_t look_ns, gap_ns;     /* the next look at the log */
	uint64_t news_ns, news_from_ns; /* when a commit of another slot was read, and the first that is not vouched for */
	struct kept *kept;            /* from the good moment on, in order */
	size_t kept_n, kept_cap;
	uint64_t gains_of;            /* the newest commit that c->gains knows */
};

/* ---- memory ---- */

static void theirs_clear(struct slots *s)
{
	for (size_t i = 0; i < s->theirs_n; i++)
		run_unref(s->theirs[i].run);
	s->theirs_n = 0;
}

static int theirs_add(struct slots *s, struct run *run, unsigned slot)
{
	if (s->theirs_n == s->theirs_cap) {
		size_t cap = s->theirs_cap ? 2 * s->theirs_cap : 8;
		struct rebase_theirs *v = realloc(s->theirs, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->theirs = v;
		s->theirs_cap = cap;
	}
	s->theirs[s->theirs_n++] = (struct rebase_theirs){.run = run_ref(run), .slot = slot};
	return 0;
}

/* Short of memory, or too many: the good moment's state is loaded when it is wanted. */
static void keep_tree(struct slots *s, uint64_t number, struct state *tree)
{
	if (s->kept_n == KEPT_MOST)
		return;
	if (s->kept_n == s->kept_cap) {
		size_t cap = s->kept_cap ? 2 * s->kept_cap : 16;
		struct kept *v = realloc(s->kept, cap * sizeof(*v));

		if (!v)
			return;
		s->kept = v;
		s->kept_cap = cap;
	}
	s->kept[s->kept_n++] = (struct kept){.number = number, .state = state_ref(tree)};
}

static void kept_drop(struct slots *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		state_unref(s->kept[i].state);
	if (n && n < s->kept_n)
		memmove(s->kept, s->kept + n, (s->kept_n - n) * sizeof(*s->kept));
	s->kept_n -= n;
}

int slots_new(struct committer *c, struct group *group, struct state *good_state, struct fault *f)
{
	struct slots *s = calloc(1, sizeof(*s));

	if (!s) {
		group_free(group);
		return fault_errno(f, -ENOMEM, "group");
	}
	s->group = group;
	s->tree = state_ref(c->m->state);
	if (good_state || c->good == c->newest) /* else it could not be read, and is asked for again */
		keep_tree(s, c->good, good_state ? good_state : c->m->state);
	s->gains_of = c->good == c->newest ? group_newest(group) : 0;
	c->slots = s;
	return 0;
}

void slots_free(struct slots *s)
{
	if (!s)
		return;
	group_free(s->group);
	state_unref(s->tree);
	theirs_clear(s);
	free(s->theirs);
	run_unref(s->ours);
	run_unref(s->out);
	run_unref(s->keys);
	kept_drop(s, s->kept_n);
	free(s->kept);
	free(s);
}

/* Under lock.  Memory is as the tree says (I1). */
static void base_is_tree(struct committer *c)
{
	state_unref(c->m->state);
	c->m->state = state_ref(c->slots->tree);
}

/* Under lock.  The record that was read or written last says nothing of the tree. */
static void follow_tree(struct committer *c)
{
	if (c->slots->theirs_n == 0 && !c->slots->keys)
		base_is_tree(c);
}

struct state *slots_tree(const struct committer *c)
{
	return c->slots->tree;
}

/* ---- the good moment ---- */

bool slots_all_good(const struct committer *c)
{
	return c->good >= group_last(c->slots->group, c->m->opts.slot);
}

/* Under lock. */
static void good_is(struct committer *c, uint64_t good)
{
	struct slots *s = c->slots;
	size_t n = 0;

	if (good == c->good)
		return;
	c->good = good;
	while (n < s->kept_n && s->kept[n].number < good)
		n++;
	kept_drop(s, n);
	s->gains_of = 0;
	if (!slots_all_good(c))
		return;
	c->durable_seq = c->newest_seq;
	c->good_frozen_ns = c->newest_frozen_ns;
	c->why = (struct vouch_reason){.objection = 0};
	pthread_cond_broadcast(&c->moved);
}

static int good_state(struct committer *c, struct state **out, struct fault *f)
{
	struct slots *s = c->slots;
	int rc;

	if (s->kept_n == 0 || s->kept[0].number != c->good) {
		struct state *loaded;

		rc = c->good ? state_load(c->objects, &c->m->format, c->good, NULL, &loaded, f) : state_empty(&c->m->format, &loaded);
		if (rc < 0)
			return rc;
		kept_drop(s, s->kept_n);
		keep_tree(s, c->good, loaded);
		state_unref(loaded);
		if (s->kept_n == 0)
			return fault_errno(f, -ENOMEM, "good moment");
	}
	*out = s->kept[0].state;
	return 0;
}

/* c->gains: what the tree has that the good moment has not, whoever made it. */
static void know_gains(struct committer *c)
{
	struct slots *s = c->slots;
	struct mount *m = c->m;
	uint64_t newest = group_newest(s->group);
	struct fault f = FAULT_NONE;
	struct state *good = NULL;
	struct gains *gains;
	int rc;

	if (s->gains_of == newest)
		return;
	gains = gains_new(m);
	rc = gains ? good_state(c, &good, &f) : -ENOMEM;
	if (rc == 0)
		rc = gains_of_states(gains, m, good, &f);
	if (rc < 0) {
		if (!c->blind_until_ns)
			c->blind_until_ns = mount_now(m) + m->opts.policy.patience_ns;
		log_debug("what is new since commit %llu: %s", (unsigned long long)c->good, f.text);
	} else {
		gains_keep_times(gains, c->gains);
		c->blind_until_ns = 0;
	}
	if (gains) {
		gains_free(c->gains);
		c->gains = gains;
		s->gains_of = newest;
	}
}

/* ---- reading on ---- */

struct link {
	struct record_head head;
	struct buf body;
	struct hash128 hash;
};

struct reading {
	const struct store_format *fmt;
	struct link v[BATCH];
	size_t n;
};

static int each_record(void *arg, uint64_t number, const struct buf *raw, struct fault *f)
{
	struct reading *x = arg;
	struct link *l = &x->v[x->n];
	int rc = record_decode(x->fmt, raw->data, raw->len, &l->head, &l->body, f);

	if (rc < 0)
		return fault_in(f, "record %llu", (unsigned long long)number);
	record_hash(x->fmt->secret, raw->data, raw->len, &l->hash);
	x->n++;
	return 0;
}

/* Of a cumulative run: what it says that the tree did not say before. */
static int what_is_new(struct committer *c, struct run **io, struct fault *f)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	struct block_source src;
	struct run *out;
	int rc = b ? 0 : -ENOMEM;

	lanes_block_source(c->m->lanes, READ_MS, &src);
	for (size_t i = 0; rc == 0 && i < run_count(*io); i++) {
		scoped(buf_fini) struct buf was = BUF_EMPTY;
		struct fault none = FAULT_NONE;
		struct run_item item;
		int had;

		run_at(*io, i, &item);
		had = state_find(c->slots->tree, &src, item.key, item.key_len, &was, &none);
		if (had < 0 && had != -ENOENT) {
			*f = none;
			return had;
		}
		if (had == 0 ? item.value && item.value_len == was.len && memcmp(item.value, was.data, was.len) == 0 : !item.value)
			continue;
		rc = run_builder_add(b, item.key, item.key_len, item.value, item.value_len);
	}
	if (rc == 0)
		rc = run_builder_finish(b, &out);
	if (rc < 0)
		return fault_errno(f, rc, "cumulative run");
	run_unref(*io);
	*io = out;
	return 0;
}

/* The tree goes on by a record of another writer. */
static int read_commit(struct committer *c, const struct link *l, struct fault *f)
{
	struct slots *s = c->slots;
	scoped(run_unref) struct run *run = NULL;
	struct state *next;
	int rc = record_run(c->objects, &c->m->format, &l->head, &l->body, &run, f);

	if (rc == 0)
		rc = state_next(s->tree, &l->head, run, &next);
	if (rc < 0)
		return f->code ? rc : fault_errno(f, rc, "record %llu", (unsigned long long)l->head.number);
	rc = run && l->head.flags & RECORD_CUMULATIVE ? what_is_new(c, &run, f) : 0;
	if (rc == 0 && run && run_count(run) && (rc = theirs_add(s, run, l->head.slot)) < 0)
		(void)fault_errno(f, rc, "record %llu", (unsigned long long)l->head.number);
	if (rc < 0) {
		state_unref(next);
		return rc;
	}
	state_unref(s->tree);
	s->tree = next;
	return 0;
}

static int read_record(struct committer *c, const struct link *l, struct fault *f)
{
	struct slots *s = c->slots;
	struct mount *m = c->m;
	uint64_t by, newest = group_newest(s->group);
	int rc = l->head.kind == RECORD_COMMIT ? read_commit(c, l, f) : 0;

	if (rc < 0)
		return rc;
	mount_lock(m);
	group_see(s->group, &l->head);
	by = group_fenced(s->group, m->opts.slot, m->fence);
	c->number = l->head.number;
	c->floor = l->head.floor;
	c->hash = l->hash;
	if (!by) {
		follow_tree(c);
		if (group_newest(s->group) != newest) {
			keep_tree(s, l->head.number, s->tree);
			c->newest = group_newest(s->group);
			s->news_ns = mount_now(m);
			if (!s->news_from_ns)
				s->news_from_ns = s->news_ns;
		}
		if (l->head.good)
			good_is(c, l->head.kind == RECORD_RESET ? l->head.number : l->head.good);
	}
	mount_unlock(m);
	if (!by)
		return 0;
	commit_go_read_only(c, &l->head);
	return fault_set(f, -EROFS, FAULT_FINAL, "%s", m->why_read_only);
}

static int read_batch(struct committer *c, uint64_t last, struct fault *f)
{
	scoped(free) struct reading *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return fault_errno(f, -ENOMEM, "records");
	x->fmt = &c->m->format;
	rc = log_read_range(c->objects, "log", c->number + 1, last, mount_now(c->m) + READ_MS * NS_PER_MS, each_record, x, f);
	for (size_t i = 0; rc == 0 && i < x->n; i++)
		rc = read_record(c, &x->v[i], f);
	for (size_t i = 0; i < x->n; i++)
		buf_fini(&x->v[i].body);
	return rc;
}

/* 1: there was something; 0; or why not. */
static int read_log(struct committer *c, struct fault *f)
{
	uint64_t newest, before = c->number;
	int rc = log_newest(c->objects, "log", mount_now(c->m) + LOOK_DEADLINE_NS, &newest, f);

	while (rc == 0 && c->number < newest)
		rc = read_batch(c, newest - c->number > BATCH ? c->number + BATCH : newest, f);
	return rc < 0 ? rc : c->number > before;
}

static uint64_t jitter(const struct committer *c)
{
	uint64_t most = c->m->opts.slots * JITTER_NS;
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) < 0)
		r = mount_now(c->m);
	return r % (most < JITTER_MOST_NS ? most : JITTER_MOST_NS);
}

int slots_read_on(struct committer *c, struct fault *f)
{
	int rc = read_log(c, f);

	c->retry_ns = mount_now(c->m) + jitter(c);
	return rc < 0 ? rc : 0;
}

static void look(struct committer *c)
{
	struct slots *s = c->slots;
	struct fault f = FAULT_NONE;
	uint64_t now = mount_now(c->m), gap = c->ack_ns ? LOOK_HURRY_NS : s->gap_ns;
	int rc;

	if (c->record.raw.len || now < s->look_ns + gap) /* a record under way finds out by itself */
		return;
	s->look_ns = now;
	rc = read_log(c, &f);
	s->gap_ns = follow_gap(s->gap_ns, rc > 0);
	if (rc < 0 && !c->fenced && f.retry != FAULT_SOON && f.retry != FAULT_PACED)
		commit_faulted(c, &f); /* whether the store answers is the lanes' matter to say */
}

/* ---- memory goes on ---- */

static unsigned slot_of(void *arg, const void *key, size_t len)
{
	const struct committer *c = arg;
	struct run_item item;

	for (size_t i = c->slots->theirs_n; i-- > 0;)
		if (run_find(c->slots->theirs[i].run, key, len, &item))
			return c->slots->theirs[i].slot;
	return UINT_MAX; /* what this slot's commit does for the sake of others' */
}

/* s->keys, with what was read since they were made: a meeting may have failed. */
static int keys_to_meet(struct slots *s)
{
	scoped(run_unref) struct run *fresh = NULL;
	struct run *all;
	int rc = s->theirs_n ? rebase_keys(s->theirs, s->theirs_n, NULL, NULL, &fresh) : 0;

	if (rc < 0 || !fresh)
		return rc;
	if (!s->keys) {
		s->keys = take(&fresh);
		return 0;
	}
	rc = run_merge((struct run *[]){fresh, s->keys}, 2, false, &all);
	if (rc < 0)
		return rc;
	run_unref(s->keys);
	s->keys = all;
	return 0;
}

static int meet(struct committer *c, struct fault *f)
{
	struct slots *s = c->slots;
	struct meeting x = {.slot_of = slot_of, .arg = c};
	int rc = keys_to_meet(s);

	if (rc < 0)
		return fault_errno(f, rc, "what other slots changed");
	if (!s->keys)
		return 0;
	rc = move_meeting(c->m, s->tree, s->keys, &x, f);
	if (rc < 0)
		return fault_in(f, "what other slots committed");
	run_unref(take(&s->keys));
	theirs_clear(s);
	return 0;
}

int slots_catch_up(struct committer *c, struct fault *f)
{
	int rc = read_log(c, f);

	return rc < 0 ? rc : meet(c, f);
}

bool slots_begin_step(struct committer *c)
{
	struct fault f = FAULT_NONE;

	look(c);
	if (c->fenced || c->flying || c->record.raw.len)
		return !c->fenced;
	if (meet(c, &f) == 0)
		return true;
	commit_faulted(c, &f);
	return false;
}

/* ---- a commit ---- */

struct wanted {
	uint64_t home, id;
};

static size_t want(struct mount *m, struct wanted *v, size_t n, uint64_t home, uint64_t id)
{
	if (id && !node_find(&m->nodes, id))
		v[n++] = (struct wanted){.home = home, .id = id};
	return n;
}

/* What meeting others' changes made of a name needs no look at the inode; its record needs one. */
void slots_before_freeze(struct committer *c)
{
	struct mount *m = c->m;
	scoped(free) struct wanted *v = NULL;
	size_t n = 0;

	mount_lock(m);
	v = calloc(2 * list_length(&m->nodes.dirty_names) + 1, sizeof(*v));
	for (struct list *l = m->nodes.dirty_names.next; v && l != &m->nodes.dirty_names; l = l->next) {
		const struct name *e = name_of_dirty(l);

		if (e->id == e->base.id)
			continue;
		n = want(m, v, n, e->base.home, e->base.id);
		n = want(m, v, n, e->home, e->id);
	}
	mount_unlock(m);
	for (size_t i = 0; i < n; i++) {
		struct fault f = FAULT_NONE;

		if (load_node(m, v[i].home, v[i].id, &f) < 0)
			log_debug("links of inode %llx: %s", (unsigned long long)v[i].id, f.text);
	}
}

static uint64_t new_id(void *arg)
{
	struct mount *m = arg;
	uint64_t id;

	mount_lock(m);
	id = mount_new_inode(m);
	mount_unlock(m);
	return id;
}

static uint64_t parent(void *arg, uint64_t dir)
{
	struct mount *m = arg;
	const struct node *n;
	uint64_t id;

	mount_lock(m);
	n = node_find(&m->nodes, dir);
	id = n ? n->parent : 0;
	mount_unlock(m);
	return id;
}

static bool named(void *arg, uint64_t id, uint64_t *dir, char *name)
{
	struct mount *m = arg;
	const struct node *n;

	mount_lock(m);
	n = node_find(&m->nodes, id);
	if (n && n->name) {
		*dir = n->name_dir;
		(void)snprintf(name, NAME_MAX_BYTES + 1, "%s", n->name);
	}
	mount_unlock(m);
	return n && n->name;
}

int slots_flying_make(struct committer *c, struct fault *f)
{
	struct slots *s = c->slots;
	struct block_source src;
	struct rebase x = {.was = c->m->state, .now = s->tree, .theirs = s->theirs, .theirs_n = s->theirs_n, .src = &src,
			   .new_id = new_id, .parent = parent, .named = named, .arg = c->m};
	struct record *r = &c->record;
	int rc;

	lanes_block_source(c->m->lanes, READ_MS, &src);
	run_unref(take(&s->ours));
	run_unref(take(&s->out));
	rc = moment_encode(c->flying, &s->ours);
	if (rc < 0)
		return fault_errno(f, rc, "encode");
	if (s->theirs_n)
		rc = rebase(&x, s->ours, &s->out, f);
	else
		s->out = run_ref(s->ours);
	if (rc < 0)
		return rc;
	r->run = run_ref(s->out);
	r->head = commit_next_head(c);
	if (c->flying->quiet)
		r->head.flags |= RECORD_QUIET;
	return commit_record_make(c, f);
}

void slots_appended(struct committer *c, struct state *next)
{
	struct slots *s = c->slots;
	struct mount *m = c->m;
	const struct record_head *h = &c->record.head;
	uint64_t newest = group_newest(s->group);

	mount_lock(m);
	state_unref(s->tree);
	s->tree = next;
	c->number = h->number;
	group_see(s->group, h);
	if (group_newest(s->group) != newest)
		keep_tree(s, h->number, next);
	else /* a word */
		follow_tree(c);
	c->newest = group_newest(s->group);
	good_is(c, h->good);
	mount_unlock(m);
	s->gap_ns = 0; /* others may answer */
}

void slots_landed(struct committer *c)
{
	struct slots *s = c->slots;
	struct fault f = FAULT_NONE;
	struct run *keys = NULL;

	/* Of the moment memory knows; of what was made of it for their sake it does not. */
	if (rebase_keys(s->theirs, s->theirs_n, s->ours, s->out, &keys) < 0)
		log_error("commit %llu: no memory to go on by it", (unsigned long long)c->number);
	run_unref(take(&s->ours));
	run_unref(take(&s->out));
	if (keys && run_count(keys) == 0)
		run_unref(take(&keys));
	s->keys = keys;
	if (!keys)
		theirs_clear(s);
	mount_lock(c->m);
	base_is_tree(c);
	moment_settle(c->m, c->flying);
	c->newest_seq = c->flying->seq;
	c->commits++;
	mount_unlock(c->m);
	if (meet(c, &f) < 0)
		commit_faulted(c, &f);
	c->vouch_ns = mount_now(c->m);
}

/* ---- calm ---- */

/* Is the slot as in its last commit, its logs apart? */
static bool is_as_committed(struct committer *c)
{
	struct mount *m = c->m;
	uint64_t now = mount_now(m);
	bool is;

	if (c->slots->keys || c->slots->theirs_n)
		return false;
	mount_lock(m);
	is = !m->first_change_ns && moment_quiet(m, now, NULL);
	if (is && nodes_all_clean(&m->nodes)) /* else a log has grown, which who comes to wait now wants too */
		c->newest_seq = m->nodes.seq;
	if (is && slots_all_good(c) && c->durable_seq < c->newest_seq) { /* nothing of it is to be committed */
		c->durable_seq = c->newest_seq;
		pthread_cond_broadcast(&c->moved);
	}
	mount_unlock(m);
	return is;
}

/* Is there something to vouch for that this slot has not vouched for yet? */
static bool has_news(const struct committer *c)
{
	const struct group *g = c->slots->group;
	unsigned slot = c->m->opts.slot;

	return group_calm(g, slot) < group_newest(g) || group_calm(g, slot) == 0;
}

static bool is_due(struct committer *c, uint64_t now)
{
	const struct slots *s = c->slots;
	uint64_t still = c->ack_ns ? STILL_HURRY_NS : STILL_NS;

	if (!has_news(c) || (now < s->news_ns + still && now < s->news_from_ns + STILL_MOST * still))
		return false;
	return now >= c->vouch_ns || c->vouched_ack_ns != c->ack_ns;
}

static int word_make(struct committer *c, struct fault *f)
{
	struct record_head *h = &c->record.head;

	*h = commit_next_head(c);
	h->calm = c->number;
	h->good = group_good(c->slots->group, c->good, c->m->opts.slot, h->calm);
	return commit_record_make(c, f);
}

void slots_say_calm(struct committer *c)
{
	uint64_t now = mount_now(c->m);

	if (!c->record.raw.len) {
		if (!is_as_committed(c) || !is_due(c, now))
			return;
		c->newest_quiet = true;
		know_gains(c);
		if (!commit_newest_is_good(c)) {
			if (!c->vouch_ns || c->vouch_ns > now + NS_PER_S)
				c->vouch_ns = now + NS_PER_S; /* other slots may take the objection away */
			return;
		}
	}
	if (commit_put_record(c, word_make) < 0)
		return;
	c->slots->news_from_ns = 0;
	log_debug("calm up to %llu, good %llu", (unsigned long long)c->record.head.calm, (unsigned long long)c->good);
	commit_record_drop(&c->record);
}

void slots_waits_for(const struct committer *c, char *out, size_t cap)
{
	bool never;
	int slot = group_waits_for(c->slots->group, c->newest, &never);

	*out = '\0';
	if (slot < 0 || (unsigned)slot == c->m->opts.slot || c->good >= c->newest)
		return;
	(void)snprintf(out, cap, never ? "slot %d of %u has not been mounted in this attempt"
				       : "slot %d of %u has not said that it is done since commit %llu",
		       slot, c->m->opts.slots, (unsigned long long)c->newest);
}
