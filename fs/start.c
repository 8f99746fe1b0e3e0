/* SPDX-License-Identifier: Apache-2.0 */
/* See start.h. */
#include "fs/start.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "fs/cachedir.h"
#include "fs/commit.h"
#include "fs/file.h"
#include "fs/follow.h"
#include "fs/notice/heed.h"
#include "fs/replay.h"
#include "fs/revert.h"
#include "fs/slot/attempt.h"
#include "fs/track/death.h"
#include "fs/warm.h"
#include "store/log.h"
#include "store/newest.h"

#define START_TRIES 5            /* to get the number of the fence against others who want it; a slot more for each */
#define SLOT_WAIT_NS (30 * NS_PER_MS) /* then a slot waits for a random part of this, for each there is */
#define START_DEADLINE_NS (60 * NS_PER_S)
#define COUNTER_BITS 34
#define COUNTER_STEP 4096        /* ids noted in the journal at once */

/* ---- names that are used once ---- */

static uint64_t next_of(struct mount *m, uint64_t *next, uint64_t *reserved)
{
	if (*next == *reserved) {
		struct note w = NOTE_EMPTY;

		*reserved += COUNTER_STEP;
		note_counters(&w, m->inode_reserved, m->pack_reserved);
		(void)note_done(m, &w); /* a failed journal is sticky: the call that needs it says so */
	}
	return m->fence << COUNTER_BITS | ++*next;
}

uint64_t mount_new_inode(struct mount *m)
{
	return next_of(m, &m->next_inode, &m->inode_reserved);
}

/* Bit 62 sets these apart: no fence comes to a quarter of its 30 bits. */
#define SHARED_DIR_IDS (UINT64_C(1) << 62)

static uint64_t shared_dir(const struct mount *m, uint64_t parent, const char *name, uint64_t again)
{
	scoped(buf_fini) struct buf b = BUF_EMPTY;
	struct hash128 hash;
	uint64_t id;

	buf_u64(&b, m->attempt_began);
	buf_u64(&b, parent);
	buf_u64(&b, again);
	buf_add(&b, name, strlen(name));
	if (!buf_ok(&b))
		return 0;
	chunk_hash(m->format.secret, b.data, b.len, &hash);
	memcpy(&id, hash.b, sizeof(id));
	return SHARED_DIR_IDS | (le64toh(id) & (SHARED_DIR_IDS - 1));
}

/* All of this attempt lies above the base, so nothing is read. */
static bool is_taken(struct mount *m, uint64_t home, uint64_t id)
{
	uint8_t key[RUN_KEY_MAX];

	return node_find(&m->nodes, id) || state_has_above_base(m->state, key, key_of_inode(home, id, 0, key));
}

uint64_t mount_new_dir(struct mount *m, uint64_t parent, const char *name)
{
	uint64_t id = 0;

	if (!mount_in_group(m))
		return mount_new_inode(m);
	for (uint64_t again = 0; !id || is_taken(m, parent, id); again++) {
		id = shared_dir(m, parent, name, again);
		if (!id)
			return mount_new_inode(m); /* no memory */
	}
	return id;
}

uint64_t mount_new_pack(void *mount)
{
	struct mount *m = mount;
	uint64_t pack;

	mount_lock(m);
	pack = next_of(m, &m->next_pack, &m->pack_reserved);
	mount_unlock(m);
	return pack;
}

/* ---- what the log says ---- */

struct found {
	struct newest log;
	uint64_t newest; /* record whose state is the newest: a commit or a reset */
	uint64_t good;   /* a reset names itself here: the same state */
	struct roll roll;     /* of a group: this attempt's records */
	struct group *group;  /* for the committer of a slot */
};

static void found_fini(struct found *x)
{
	newest_fini(&x->log);
	roll_fini(&x->roll);
	group_free(take(&x->group));
}
SCOPE_VAL(struct found, found_fini)

static void listed(struct object_req *r)
{
	*(bool *)r->arg = true;
}

/* store.json and the newest number, side by side. */
static int read_first(struct mount *m, struct objects *o, uint64_t *number, struct fault *f)
{
	uint64_t deadline = mount_now(m) + START_DEADLINE_NS;
	bool have_list = false;
	struct object_req list = {.op = OBJECT_LIST, .key = "log/", .most = 1, .deadline_ns = deadline, .done = listed, .arg = &have_list};
	int rc;

	objects_start(o, &list);
	rc = store_load(o, &m->format, f);
	loop_run_until(objects_loop(o), &have_list);
	if (rc == 0 && list.rc < 0) {
		*f = list.fault;
		rc = list.rc;
	}
	*number = 0;
	if (rc == 0 && list.body.len)
		*number = log_number("log", buf_str(&list.body));
	object_req_fini(&list);
	return rc;
}

static int find(struct mount *m, struct objects *o, uint64_t number, struct found *x, struct fault *f)
{
	int rc = newest_read(o, &m->format, number, mount_now(m) + START_DEADLINE_NS, &x->log, f);

	if (rc < 0)
		return rc;
	x->newest = newest_state(&x->log);
	x->good = newest_good(&x->log);
	roll_fini(&x->roll);
	if (m->opts.read_only || (!mount_in_group(m) && x->log.head.slots <= 1))
		return 0;
	return roll_read(o, &m->format, number, &x->roll, f);
}

/* ---- may this store be used so? ---- */

static int one_writer_by_hand(const struct mount *m, struct fault *f)
{
	if (m->opts.unfenced || m->opts.read_only)
		return 0;
	return fault_set(f, -EPERM, FAULT_FINAL,
			 "this store ignores conditions, so it cannot keep a second writer out; -o unfenced, and see to it yourself");
}

/* mkfs asked already; the first mount asks again, since a store may have been copied elsewhere. */
static int check_store(const struct mount *m, struct objects *o, uint64_t number, struct fault *f)
{
	struct store_probe probe;
	int rc;

	if (m->format.unfenced)
		return one_writer_by_hand(m, f);
	if (number || m->opts.read_only)
		return 0;
	rc = store_probe(o, &probe, f);
	if (rc < 0 || probe.create_only)
		return rc;
	return one_writer_by_hand(m, f);
}

/* ---- which state to continue ---- */

static const char *ago(const struct mount *m, int64_t time_ns, char *out, size_t cap)
{
	int64_t s = (clock_wall(m->clock) - time_ns) / (int64_t)NS_PER_S;

	(void)snprintf(out, cap, s < 120 ? "%lld s" : "%lld min", (long long)(s < 120 ? s : s / 60));
	return out;
}

static int may_take_over(const struct mount *m, const struct found *x, struct fault *f)
{
	char when[32];

	if (x->log.head.slots > 1)
		return m->opts.takeover ? 0 : attempt_is_over(&x->log, &x->roll, f);
	if (x->newest == 0 || (x->log.head.flags & RECORD_RELEASE) || m->opts.takeover)
		return 0;
	return fault_set(f, -EBUSY, FAULT_FINAL,
			 "written %s ago by %s, not released; -o ro to look, -o takeover to replace it",
			 ago(m, x->log.head.time_ns, when, sizeof(when)), x->log.head.host);
}

static int choose(const struct mount *m, const struct found *x, uint64_t *target, struct fault *f)
{
	switch (m->opts.restore) {
	case RESTORE_EMPTY:
		*target = 0;
		return 0;
	case RESTORE_NEWEST:
		*target = x->newest;
		return 0;
	case RESTORE_NUMBER:
		*target = m->opts.restore_number;
		if (*target == 0 || *target > x->log.number)
			return fault_set(f, -ENOENT, FAULT_FINAL, "restore=%llu: the newest record is %llu",
					 (unsigned long long)*target, (unsigned long long)x->log.number);
		return 0;
	case RESTORE_GOOD:
		break;
	}
	*target = x->newest ? x->good : 0;
	if (x->newest && !*target && !m->opts.read_only)
		return fault_set(f, -EUCLEAN, FAULT_FINAL,
				 "commit %llu and those before it were never found whole; -o restore=newest takes it as it is, "
				 "-o restore=empty starts anew",
				 (unsigned long long)x->newest);
	return 0;
}

static int load_state(struct mount *m, struct objects *o, const struct found *x, uint64_t target, struct fault *f)
{
	if (target == 0)
		return state_empty(&m->format, &m->state);
	return state_load(o, &m->format, target, target == x->log.head.number ? &x->log.raw : NULL, &m->state, f);
}

/* ---- the fence ---- */

static int start_put(struct pack_sink *sink, const void *data, size_t len, uint64_t *pack, struct fault *f)
{
	return lanes_put_pack(sink->arg, data, len, clock_mono(&clock_system) + START_DEADLINE_NS, pack, f);
}

struct record_head mount_next_head(const struct mount *m, const struct state *tree, enum record_kind kind, uint64_t number,
				   const struct hash128 *hash, uint64_t floor)
{
	const struct record_head *was = state_head(tree);
	struct record_head h = {.store = m->format.id, .number = number + 1, .prev = *hash, .kind = kind,
				.slot = (uint16_t)m->opts.slot, .slots = (uint16_t)m->opts.slots, .attempt = m->opts.attempt,
				.time_ns = clock_wall(m->clock), .base_upto = was->base_upto, .base = was->base,
				.cumulative = was->cumulative, .floor = floor};

	(void)snprintf(h.host, sizeof(h.host), "%s", m->host);
	if (getrandom(&h.nonce, sizeof(h.nonce), 0) < 0) /* no kernel of ours lacks it; two bodies still differ by their time */
		h.nonce = (uint64_t)h.time_ns;
	return h;
}

/* A new base, above which there is nothing. */
static int reset_base(struct mount *m, struct pack_sink *sink, struct record_head *h, struct fault *f)
{
	struct block_source src;
	int rc;

	lanes_block_source(m->lanes, START_DEADLINE_NS / NS_PER_MS, &src);
	rc = state_pack_base(m->state, &src, sink, &h->base, f);
	if (rc < 0)
		return fault_in(f, "base");
	h->base_upto = h->from;
	return 0;
}

/* A reset says all that lies above the base itself.  A group has no other time to make a new one. */
static int reset_body(struct mount *m, struct record_head *h, struct buf *body, struct fault *f)
{
	struct pack_sink sink = {.put = start_put, .arg = m->lanes};
	scoped(run_unref) struct run *run = NULL;
	int rc;

	if (mount_in_group(m) && state_base_due(m->state))
		return reset_base(m, &sink, h, f);
	rc = state_cumulative(m->state, &run);
	return rc < 0 ? rc : run_body(&m->format, &sink, run, &h->flags, body, f);
}

/* After the fence: what the committer of a slot has to know. */
static int enter_group(struct mount *m, struct found *x, struct fault *f)
{
	const struct record_head *h = &x->log.head;
	int rc = 0;

	if (h->kind == RECORD_RESET)
		x->group = group_new(h);
	else
		rc = roll_group(&x->roll, h->number, &x->group, f);
	if (rc < 0 || !x->group)
		return rc < 0 ? rc : fault_errno(f, -ENOMEM, "group");
	if (h->kind == RECORD_JOIN)
		group_see(x->group, h);
	m->attempt_began = h->kind == RECORD_RESET ? h->number : x->roll.v[0].number;
	return 0;
}

/* -EEXIST: somebody took the number. */
static int put_fence(struct mount *m, struct objects *o, struct found *x, uint64_t target, bool reset, struct fault *f)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY, raw = BUF_EMPTY;
	struct record_head h = mount_next_head(m, m->state, RECORD_JOIN, x->log.number, &x->log.hash, x->log.floor);
	struct state *next;
	int rc = 0;

	h.fence = h.number;
	h.from = target;
	h.good = reset || !mount_in_group(m) ? target : x->good;
	if (reset) {
		h.kind = RECORD_RESET;
		h.flags = RECORD_CUMULATIVE;
		h.cumulative = h.number;
		rc = reset_body(m, &h, &body, f);
	}
	if (rc == 0)
		rc = record_encode(m->format.secret, &h, body.data, body.len, &raw);
	if (rc == 0)
		rc = log_append(o, "log", h.number, raw.data, raw.len, mount_now(m) + START_DEADLINE_NS, NULL, f);
	if (rc == 0 && h.kind == RECORD_JOIN)
		rc = state_next(m->state, &h, NULL, &next);
	else if (rc == 0)
		rc = state_load(o, &m->format, h.number, &raw, &next, f);
	if (rc < 0)
		return rc;
	state_unref(m->state);
	m->state = next;
	record_hash(m->format.secret, raw.data, raw.len, &x->log.hash);
	x->log.number = h.number;
	x->newest = h.kind == RECORD_RESET ? h.number : target;
	x->log.head = h;
	x->good = h.kind == RECORD_RESET ? h.number : h.good; /* as find() has it */
	return mount_in_group(m) ? enter_group(m, x, f) : 0;
}

/* Whose packs and inodes: the fence that we are about to put.  A loser's names must not be the winner's. */
static void provisional_names(struct mount *m, const struct found *x)
{
	uint64_t start;

	m->fence = x->log.number + 1;
	if (getrandom(&start, sizeof(start), 0) < 0)
		start = mount_now(m);
	m->next_pack = m->pack_reserved = (start & ((UINT64_C(1) << 32) - 1)) | UINT64_C(1) << 33;
	m->next_inode = m->inode_reserved = 1;
}

/* ---- the root, the journal ---- */

static int make_root(struct mount *m, struct fault *f)
{
	int64_t now = clock_wall(m->clock);
	struct inode_attr attr = {.mode = S_IFDIR | 0755, .uid = geteuid(), .gid = getegid(), .nlink = 2,
				  .atime_ns = now, .mtime_ns = now, .ctime_ns = now};
	struct node *root;
	int rc = load_node(m, ROOT_ID, ROOT_ID, f);

	if (rc == -ENOENT) {
		root = node_make(&m->nodes, ROOT_ID, ROOT_ID, &attr);
		if (!root)
			return -ENOMEM;
		*f = FAULT_NONE;
		root->loaded = true;
		root->names = root->links = 1;
		root->attr_dirty = true;
		if (!m->opts.read_only)
			node_touch(&m->nodes, root);
	} else if (rc < 0) {
		return rc;
	}
	root = node_find(&m->nodes, ROOT_ID);
	root->parent = ROOT_ID;
	root->lookups = 1;
	root->names = root->links = 1;
	return 0;
}

/* A journal of our own, whatever was in it. */
static int new_journal(struct mount *m, struct fault *f)
{
	struct note w = NOTE_EMPTY;
	int rc;

	note_writer(&w, m);
	note_counters(&w, m->inode_reserved, m->pack_reserved);
	if (mount_in_group(m))
		note_tree(&w, state_head(m->state)->number);
	rc = buf_ok(&w.entries) ? journal_rewrite(m->journal, journal_mark(m->journal), &w.entries, f)
				: fault_errno(f, -ENOMEM, "journal");
	buf_fini(&w.entries);
	return rc;
}

/* What contents tell the journal.  A failure is sticky: the next change says so. */

static void preserved(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off, uint64_t len)
{
	struct note w = NOTE_EMPTY;

	note_range(&w, JOURNAL_PRESERVED, id, version, view, off, len);
	(void)note_done(arg, &w);
}

static void mapped(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off, const struct extent *e)
{
	struct note w = NOTE_EMPTY;

	note_mapped(&w, id, version, view, off, e);
	(void)note_done(arg, &w);
}

static void present(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct note w = NOTE_EMPTY;

	note_range(&w, JOURNAL_PRESENT, id, version, 0, off, len);
	(void)note_done(arg, &w);
}

static int absent(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct note w = NOTE_EMPTY;

	note_range(&w, JOURNAL_ABSENT, id, version, 0, off, len);
	return note_done(arg, &w);
}

/* ---- the three ways to start ---- */

static bool goes_on(const struct mount *m, const struct replay *r, const struct found *x)
{
	struct replay_writer w;

	if (!replay_writer(r, &w) || memcmp(&w.store, &m->format.id, sizeof(w.store)) != 0 ||
	    memcmp(w.boot, m->boot, sizeof(w.boot)) != 0 || w.slot != m->opts.slot || !x->log.number)
		return false;
	if (mount_in_group(m))
		/* A shard that a damaged journal does not tell of is lost, and the others' marker would be good without it. */
		return !replay_doubtful(r) && x->log.head.attempt == m->opts.attempt && x->log.head.slots == m->opts.slots &&
		       attempt_is_on(&x->roll, m->opts.slot, w.fence);
	return x->log.head.fence == w.fence && !(x->log.head.flags & RECORD_RELEASE);
}

/*
 * The record whose tree the journal of this slot is put on: the one that it names, and what the slot alone committed
 * behind that, which the journal says as well (fs/replay.h, I1).  NULL: this attempt has none.
 */
static const struct record_head *tree_of_journal(const struct mount *m, const struct roll *r, uint64_t number)
{
	const struct record_head *at = NULL;

	for (size_t i = 0; i < r->n; i++) {
		if (r->v[i].number > number && group_has_state(&r->v[i]) && r->v[i].slot != m->opts.slot)
			break;
		if (at || r->v[i].number <= number)
			at = &r->v[i];
	}
	return at;
}

/* A slot goes on where its journal is; the committer reads on from there. */
static int back_to_tree(struct mount *m, uint64_t number, struct found *x, struct fault *f)
{
	const struct roll *r = &x->roll;
	const struct record_head *at = tree_of_journal(m, r, number);

	if (!at)
		return fault_set(f, -EBADMSG, FAULT_FINAL, "cache %s: its journal lies over record %llu, which this attempt has not",
				 m->opts.cache, (unsigned long long)number);
	x->good = at->kind == RECORD_RESET ? at->number : at->good;
	x->log.number = at->number;
	m->attempt_began = r->v[0].number;
	if (roll_group(r, at->number, &x->group, f) < 0)
		return f->code;
	x->newest = group_newest(x->group);
	return 0;
}

static int start_on(struct mount *m, struct objects *o, struct replay *r, struct found *x, struct fault *f)
{
	struct replay_writer w;
	int rc;

	if (m->opts.restore == RESTORE_EMPTY || m->opts.restore == RESTORE_NUMBER)
		return fault_set(f, -EBUSY, FAULT_FINAL,
				 "cache %s goes on after commit %llu, so nothing is restored; mount it without restore= and "
				 "unmount it first, or give it up: -o takeover and another cache=DIR",
				 m->opts.cache, (unsigned long long)x->newest);
	(void)replay_writer(r, &w);
	m->fence = w.fence;
	if (mount_in_group(m)) {
		rc = back_to_tree(m, replay_tree(r), x, f);
		if (rc == 0)
			rc = state_load(o, &m->format, x->log.number, NULL, &m->state, f);
	} else {
		rc = state_load(o, &m->format, x->log.head.number, &x->log.raw, &m->state, f);
	}
	if (rc == 0)
		rc = make_root(m, f);
	if (rc == 0)
		rc = replay_apply(r, m, f);
	if (rc == 0)
		(void)snprintf(m->story, sizeof(m->story), "went on with the cache after commit %llu", (unsigned long long)x->newest);
	return rc;
}

/* Which state this writer continues, and how: by a reset if others may have written since. */
static int begin(struct mount *m, const struct found *x, uint64_t *target, bool *reset, struct fault *f)
{
	enum attempt_how how = ATTEMPT_RESET;
	int rc = 0;

	if (!mount_in_group(m) || x->log.head.slots == 1)
		rc = may_take_over(m, x, f);
	if (rc == 0 && mount_in_group(m))
		rc = attempt_begin(&m->opts, &x->log, &x->roll, &how, f);
	if (rc == 0 && how == ATTEMPT_RESET)
		rc = choose(m, x, target, f);
	if (rc < 0)
		return rc;
	if (how == ATTEMPT_JOIN)
		*target = x->newest;
	if (!mount_in_group(m))
		m->opts.attempt = x->log.head.attempt; /* that no late machine of it is the first of another */
	*reset = mount_in_group(m) ? how == ATTEMPT_RESET : *target != x->newest || x->log.head.slots > 1;
	return 0;
}

static void tell_story(struct mount *m, bool reset, uint64_t target)
{
	char group[48] = "";

	if (mount_in_group(m))
		(void)snprintf(group, sizeof(group), "%s attempt %u, ", reset ? "begins" : "joins", m->opts.attempt);
	(void)snprintf(m->story, sizeof(m->story), "%s%s commit %llu", group,
		       reset && !mount_in_group(m) ? "went back to" : "continues", (unsigned long long)target);
}

static int start_new(struct mount *m, struct objects *o, struct replay *r, struct found *x, struct fault *f)
{
	uint64_t target;
	unsigned moved;
	bool reset;
	int rc = begin(m, x, &target, &reset, f);

	if (rc == 0)
		rc = load_state(m, o, x, target, f);
	if (rc < 0)
		return rc;
	provisional_names(m, x);
	rc = put_fence(m, o, x, target, reset, f);
	if (rc < 0)
		return rc;
	m->fence = x->log.number;
	m->next_pack = m->pack_reserved = 0;
	rc = replay_discard(r, m, &moved, f);
	if (rc == 0)
		rc = new_journal(m, f);
	if (rc == 0)
		rc = make_root(m, f);
	if (moved)
		log_warn("cache: %u files of a writer that was replaced, or whose journal was lost, are in %s/salvage", moved, m->opts.cache);
	tell_story(m, x->log.head.kind == RECORD_RESET, target);
	return rc;
}

static int start_reading(struct mount *m, struct objects *o, struct found *x, struct fault *f)
{
	uint64_t target;
	int rc = choose(m, x, &target, f);

	m->read_only = -EROFS;
	(void)snprintf(m->why_read_only, sizeof(m->why_read_only), "mounted with -o ro");
	if (rc == 0)
		rc = load_state(m, o, x, target, f);
	if (rc == 0)
		rc = replay_discard(NULL, m, &(unsigned){0}, f);
	if (rc == 0)
		rc = new_journal(m, f);
	if (rc == 0)
		rc = make_root(m, f);
	(void)snprintf(m->story, sizeof(m->story), "began with commit %llu", (unsigned long long)target);
	if (rc == 0 && m->opts.follow != FOLLOW_OFF)
		rc = follow_new(m, x->log.number, f);
	return rc;
}

/* What the committer compares with.  NULL: nothing to compare, or it could not be read: then it waits. */
static struct state *good_state(struct mount *m, struct objects *o, const struct found *x)
{
	struct fault f = FAULT_NONE;
	struct state *s = NULL;

	if (x->good == x->newest)
		return NULL;
	if (x->good == 0 ? state_empty(&m->format, &s) < 0 : state_load(o, &m->format, x->good, NULL, &s, &f) < 0)
		log_warn("good moment %llu: %s", (unsigned long long)x->good, f.code ? f.text : "no memory");
	return s;
}

/* So that of several slots not all try again at once. */
static void give_way(const struct mount *m)
{
	uint64_t r;

	if (!mount_in_group(m) || getrandom(&r, sizeof(r), 0) < 0)
		return;
	r %= m->opts.slots * SLOT_WAIT_NS;
	(void)nanosleep(&(struct timespec){.tv_sec = (time_t)(r / NS_PER_S), .tv_nsec = (long)(r % NS_PER_S)}, NULL);
}

static int start_from_log(struct mount *m, struct objects *o, struct fault *f)
{
	scoped(found_fini) struct found x = {.log = NEWEST_EMPTY};
	scoped(replay_free) struct replay *r = NULL;
	scoped(state_unref) struct state *good = NULL;
	struct lanes_conf lanes = {.store = m->store, .format = &m->format, .lanes = m->opts.lanes,
				   .pack_name = mount_new_pack, .arg = m, .compress = m->opts.compress, .nice = 19};
	struct content_notes notes = {.preserved = preserved, .mapped = mapped, .present = present, .absent = absent,
				      .arg = m};
	bool went_on = false;
	uint64_t number;
	int rc = read_first(m, o, &number, f);

	if (rc == 0)
		rc = check_store(m, o, number, f);
	if (rc == 0)
		rc = cachedir_open(m, f);
	if (rc == 0)
		rc = content_dir_open(m->cache_fd, m->ballast, &m->contents, f);
	if (rc == 0)
		rc = replay_open(m, &r, f);
	if (rc == 0)
		rc = lanes_new(&lanes, &m->lanes, f);
	if (rc < 0)
		return rc;
	content_dir_notes(m->contents, &notes);
	for (unsigned i = 0; i < START_TRIES * m->opts.slots; i++) {
		rc = find(m, o, number, &x, f);
		if (rc < 0)
			return rc;
		went_on = goes_on(m, r, &x);
		if (m->opts.read_only)
			rc = start_reading(m, o, &x, f);
		else if (went_on)
			rc = start_on(m, o, r, &x, f);
		else
			rc = start_new(m, o, r, &x, f);
		if (rc != -EEXIST)
			break;
		state_unref(take(&m->state)); /* somebody else took the number: look again */
		give_way(m);
		rc = log_newest(o, "log", mount_now(m) + START_DEADLINE_NS, &number, f);
		if (rc < 0)
			return rc;
	}
	if (rc < 0 || m->opts.read_only)
		return rc;
	good = good_state(m, o, &x);
	rc = committer_new(m, &(struct commit_start){.number = x.log.number, .hash = x.log.hash, .good = x.good,
						     .newest = x.newest, .floor = x.log.floor, .good_state = good,
						     .group = take(&x.group),
						     .doubtful = went_on && replay_doubtful(r)}, f);
	if (rc == 0)
		rc = heed_open(m, f);
	return rc < 0 ? rc : committer_run(m, f);
}

static int learn_host(struct mount *m, struct fault *f)
{
	scoped(fd_close) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[37] = "";
	size_t at = 0;

	if (gethostname(m->host, sizeof(m->host) - 1) < 0)
		(void)snprintf(m->host, sizeof(m->host), "?");
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 36)
		return fault_errno(f, -EIO, "boot_id");
	for (const char *c = text; *c && at < 2 * sizeof(m->boot); c++) {
		unsigned digit;

		if (sscanf((char[]){*c, 0}, "%1x", &digit) == 1) {
			m->boot[at / 2] = (uint8_t)(m->boot[at / 2] << 4 | digit);
			at++;
		}
	}
	return 0;
}

static void keep_contents(struct mount *m)
{
	if (m->contents)
		content_dir_keep(m->contents);
}

static int start_over_network(struct mount *m, struct fault *f)
{
	scoped(loop_free) struct loop *loop = NULL;
	scoped(objects_close) struct objects *o = NULL;
	int rc = loop_new(LOOP_AUTO, &loop, f);

	if (rc == 0)
		rc = objects_open(m->store, loop, &o, f);
	return rc < 0 ? rc : start_from_log(m, o, f);
}

int mount_start(struct mount *m, struct fault *f)
{
	int rc;

	m->clock = &clock_system;
	m->resumed_ns = mount_now(m);
	m->cache_fd = m->lock_fd = -1;
	(void)pthread_mutex_init(&m->lock, NULL);
	ears_init(&m->ears);
	nodes_init(&m->nodes);
	m->past = past_new();
	m->death_detection = death_probe();
	rc = m->past ? learn_host(m, f) : fault_errno(f, -ENOMEM, "mount");
	if (rc == 0)
		rc = store_new(m->opts.uri, &m->store, f);
	if (rc == 0)
		rc = start_over_network(m, f);
	if (rc < 0) {
		keep_contents(m);
		mount_fini(m);
		return strstr(f->text, m->opts.uri) ? rc : fault_in(f, "%s", m->opts.uri);
	}
	return 0;
}

void mount_give_up(struct mount *m)
{
	struct fault f = FAULT_NONE;
	bool unsent;

	mount_lock(m);
	unsent = !nodes_all_clean(&m->nodes);
	mount_unlock(m);
	if (unsent || committer_end(m, mount_now(m) + NS_PER_S, true, &f) < 0)
		keep_contents(m);
	mount_fini(m);
}

int mount_end(struct mount *m, uint64_t deadline_ns, bool discard, struct fault *f)
{
	int rc = committer_end(m, deadline_ns, discard, f);

	if (rc < 0 && !discard)
		keep_contents(m);
	return rc;
}

void mount_fini(struct mount *m)
{
	if (m->lanes)
		lanes_stop(m->lanes); /* ends what the committer may wait for */
	committer_free(m);
	heed_close(m);
	follow_free(m);
	revert_free(m);
	warm_free(m);
	lanes_free(take(&m->lanes));
	nodes_fini(&m->nodes);
	journal_close(take(&m->journal));
	content_dir_free(take(&m->contents));
	ballast_close(take(&m->ballast));
	past_free(take(&m->past));
	state_unref(take(&m->state));
	store_free(take(&m->store));
	fd_close(take_fd(&m->cache_fd));
	fd_close(take_fd(&m->lock_fd));
	(void)pthread_mutex_destroy(&m->lock);
	ears_fini(&m->ears);
}
