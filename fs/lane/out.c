/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: one is cut at a time, chunk by chunk, one a turn of the loop, so that sockets are served
 * in between.  An upload is a job from its first read until the last pack it refers to has ended.
 *
 *     queued -> cutting (window, cut, known?, pack) -> sent (waits for packs) -> done()
 *
 * I1: done() with rc 0 comes only after every pack that the extents name was acknowledged,
 *     whichever lane sent it.
 */
#include "fs/lane/out.h"

#include <errno.h>
#include <string.h>

#include "fs/lane/inside.h"
#include "fs/lane/window.h"

#define LOOK ((size_t)64 << 10) /* bytes cut and hashed in one go */

/* A pack that must end well before the upload has. */
struct dep {
	uint64_t pack;
	unsigned times; /* finds to count off; 0: a pack of this lane */
};

struct job {
	/* fixed */
	struct out *out;
	struct upload *u;
	/* the lane's thread */
	struct job *next; /* in out->sent */
	struct window w;
	bool stuck;    /* what the window shows holds no whole chunk */
	size_t seen;   /* bytes that chunk_cut_on() looked at */
	size_t hashed; /* bytes that the hasher was given */
	struct chunk_hasher *hasher;
	size_t cut; /* length of the chunk at hand, 0: not cut yet */
	struct hash128 hash;
	struct dep *deps;
	size_t n, cap;
};

static void kick(struct out *o);

/* ---- queues ---- */

void uploads_push(struct uploads *q, struct upload *u)
{
	u->next = NULL;
	if (!q->first)
		q->end = &q->first;
	*q->end = u;
	q->end = &u->next;
}

struct upload *uploads_pop(struct uploads *q)
{
	struct upload *u = q->first;

	if (u)
		q->first = u->next;
	return u;
}

/* ---- the end of an upload ---- */

static void report(struct out *o, struct upload *u, int rc)
{
	u->rc = rc;
	if (rc < 0) {
		extents_fini(&u->out);
		u->taken = 0;
	}
	o->lane->load_out -= upload_load(u);
	o->lane->all->queued_bytes -= u->len;
	u->done(u); /* may free u */
}

static int fail(struct upload *u, int rc, const char *what)
{
	return fault_errno(&u->fault, rc, "upload of bytes %llu to %llu: %s",
			   (unsigned long long)u->off, (unsigned long long)(u->off + u->len), what);
}

static void unlink_job(struct out *o, struct job *j)
{
	struct job **at = &o->sent;

	for (unsigned urgent = 0; urgent < 2; urgent++)
		if (o->cutting[urgent] == j)
			o->cutting[urgent] = NULL;
	while (*at && *at != j)
		at = &(*at)->next;
	if (*at)
		*at = j->next;
}

/* Memory for a window; NULL if there is none. */
static uint8_t *window_memory(struct out *o)
{
	for (unsigned i = 0; i < OUT_WINDOWS; i++)
		if (o->windows[i])
			return take(&o->windows[i]);
	return malloc(WINDOW_BYTES);
}

static void window_return(struct out *o, uint8_t *mem)
{
	for (unsigned i = 0; mem && i < OUT_WINDOWS; i++) {
		if (!o->windows[i]) {
			o->windows[i] = mem;
			return;
		}
	}
	free(mem);
}

static struct dep *dep_of(struct job *j, uint64_t pack)
{
	for (size_t i = j->n; i-- > 0;) /* the newest is the likely one */
		if (j->deps[i].pack == pack)
			return &j->deps[i];
	return NULL;
}

static bool needs(struct job *list, uint64_t pack)
{
	for (; list; list = list->next)
		if (dep_of(list, pack))
			return true;
	return false;
}

static void job_free(struct job *j)
{
	if (!j)
		return;
	window_return(j->out, j->w.mem);
	chunk_hasher_free(j->hasher);
	free(j->deps);
	free(j);
}
SCOPE_PTR(struct job, job_free)

static struct job *job_new(struct out *o, struct upload *u)
{
	scoped(job_free) struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->out = o;
	j->u = u;
	j->w.mem = window_memory(o);
	if (!j->w.mem || chunk_hasher_new(&j->hasher) < 0)
		return NULL;
	return take(&j);
}

/* A pack that only this job, now unlinked, had to do with need not be sent. */
static void leave_packs(struct out *o, struct job *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct dep *d = &j->deps[i];

		if (d->times > 0)
			known_leave(o->lane->all->known, d->pack, d->times);
		else if (!needs(o->cutting[0], d->pack) && !needs(o->cutting[1], d->pack) &&
			 !needs(o->sent, d->pack))
			packs_drop(&o->packs, d->pack);
	}
}

/* End a job, wherever it stands.  While the kernel reads for it, only its end is noted. */
static void end_job(struct job *j, int rc)
{
	struct out *o = j->out;
	struct upload *u = j->u;

	if (window_is_busy(&j->w)) {
		j->w.rc = rc; /* window_moved() comes back to it */
		return;
	}
	unlink_job(o, j);
	leave_packs(o, j);
	job_free(j);
	report(o, u, rc);
}

/* ---- packs that a job waits for ---- */

static int add_dep(struct job *j, uint64_t pack, bool other)
{
	struct dep *d = dep_of(j, pack);

	if (!d && j->n == j->cap) {
		size_t cap = j->cap ? 2 * j->cap : 8;
		struct dep *more = realloc(j->deps, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		j->deps = more;
		j->cap = cap;
	}
	if (!d) {
		d = &j->deps[j->n++];
		*d = (struct dep){.pack = pack};
	}
	d->times += other;
	return 0;
}

static void end_if_whole(struct job *j)
{
	if (j->n == 0)
		end_job(j, 0);
}

/* One pack that j refers to has ended. */
static void dep_ended(struct job *j, struct dep *d, const struct fault *why)
{
	*d = j->deps[--j->n];
	if (!why)
		return;
	j->u->fault = *why;
	end_job(j, why->code);
}

void out_pack_ended(struct out *o, uint64_t pack, const struct fault *why)
{
	struct job *next;

	for (unsigned urgent = 0; urgent < 2; urgent++) {
		struct dep *d = o->cutting[urgent] ? dep_of(o->cutting[urgent], pack) : NULL;

		if (d)
			dep_ended(o->cutting[urgent], d, why);
	}
	for (struct job *j = o->sent; j; j = next) {
		struct dep *d = dep_of(j, pack);

		next = j->next;
		if (d && why)
			dep_ended(j, d, why);
		else if (d) {
			dep_ended(j, d, NULL);
			end_if_whole(j);
		}
	}
	kick(o); /* there is room */
}

/* Ask after the packs of other lanes. */
static void ask_others(struct job *j, bool all_cut)
{
	struct known *k = j->out->lane->all->known;
	struct fault why;

	for (size_t i = 0; i < j->n;) {
		struct dep *d = &j->deps[i];
		int rc = d->times > 0 ? known_outcome(k, d->pack, d->times, &why) : 1;

		if (rc == 1) {
			i++;
			continue;
		}
		dep_ended(j, d, rc < 0 ? &why : NULL);
		if (rc < 0)
			return; /* j is gone */
	}
	if (all_cut)
		end_if_whole(j);
}

/* ---- one chunk ---- */

static bool may_be_inline(const struct upload *u)
{
	return u->inline_ok && !u->open_end && u->len <= CHUNK_INLINE;
}

/* Is there nothing behind the data at hand that could belong to its last chunk? */
static bool ends_here(const struct job *j)
{
	return window_is_last(&j->w) && !(j->u->open_end && window_is_through(&j->w));
}

/* Length of the chunk at the window's start, 0 if its first `have` bytes do not tell. */
static size_t cut(struct job *j, size_t have)
{
	const struct window *w = &j->w;
	size_t to_grid = CHUNK_GRID - (j->u->off + j->u->taken) % CHUNK_GRID;
	bool end = have == w->have && ends_here(j);

	if (may_be_inline(j->u))
		return have == j->u->len ? have : 0;
	if (j->u->by_content)
		return chunk_cut_on(w->at, have, end, &j->seen);
	if (have >= to_grid)
		return to_grid;
	return end ? have : 0;
}

/*
 * Cut and hash the chunk at the window's start, as far as it is read.  In small steps: what was
 * looked at for the cut is hashed while the CPU's cache has it.
 */
static void cut_and_hash(struct job *j)
{
	const struct window *w = &j->w;

	if (j->hashed == 0)
		chunk_hasher_begin(j->hasher, j->out->lane->all->format.secret);
	do {
		size_t have = w->have - j->hashed < LOOK ? w->have : j->hashed + LOOK;
		size_t upto;

		j->cut = cut(j, have);
		upto = j->cut > 0 ? j->cut : have;
		chunk_hasher_add(j->hasher, w->at + j->hashed, upto - j->hashed);
		j->hashed = upto;
	} while (j->cut == 0 && j->hashed < w->have);
	if (j->cut > 0)
		chunk_hasher_end(j->hasher, &j->hash);
}

/* The extent of the chunk at hand in an own copy. */
static int add_inline(struct job *j)
{
	struct extent e = {.length = j->cut, .kind = EXTENT_INLINE, .hash = j->hash};

	e.data = malloc(j->cut);
	if (!e.data)
		return -ENOMEM;
	memcpy(e.data, j->w.at, j->cut);
	return extents_add(&j->u->out, &e);
}

static int add_zeros(struct job *j, uint64_t len)
{
	const struct extent e = {.length = len, .kind = EXTENT_ZERO};

	return extents_add(&j->u->out, &e);
}

static int send_chunk(struct job *j, struct place *out)
{
	struct lane *l = j->out->lane;
	int rc = packs_add(&l->out.packs, &j->hash, j->w.at, j->cut, j->u->urgent, out);

	known_placed(l->all->known, l->index);
	if (rc > 0 && add_dep(j, out->pack, false) < 0)
		return -ENOMEM;
	return rc;
}

/*
 * Find or make a place for the chunk at hand.  1; 0: no room until a pack ends; negative: failed,
 * -EAGAIN: look again.
 */
static int find_place(struct job *j, struct place *out)
{
	struct out *o = j->out;
	struct lanes *all = o->lane->all;
	enum known_state known = known_find(all->known, o->lane->index, &j->hash, j->cut, out);

	if (known == KNOWN_NOT)
		return send_chunk(j, out);
	if (known == KNOWN_BUSY)
		return -EAGAIN;
	all->deduped_bytes += j->cut;
	if (known == KNOWN_STORED)
		return 1;
	if (add_dep(j, out->pack, known == KNOWN_PENDING) < 0) {
		if (known == KNOWN_PENDING)
			known_leave(all->known, out->pack, 1);
		return -ENOMEM;
	}
	if (j->u->urgent && known == KNOWN_PENDING)
		lanes_wake_all(all); /* the one that fills it may be holding it back */
	else if (j->u->urgent)
		packs_want(&o->packs, out->pack);
	return 1;
}

static int add_chunk(struct job *j)
{
	struct extent e = {.length = j->cut, .kind = EXTENT_CHUNK, .hash = j->hash};
	int rc = find_place(j, &e.place);

	if (rc <= 0)
		return rc;
	rc = extents_add(&j->u->out, &e);
	return rc < 0 ? rc : 1;
}

/* 1: the chunk at hand has its extent; else as find_place(). */
static int place(struct job *j)
{
	int rc;

	if (chunk_is_zero(j->w.at, j->cut))
		rc = add_zeros(j, j->cut);
	else if (may_be_inline(j->u))
		rc = add_inline(j);
	else
		return add_chunk(j);
	return rc < 0 ? rc : 1;
}

/* ---- one turn ---- */

enum turn {
	TURN_AGAIN, /* there is more to do at once */
	TURN_WAIT,  /* for a read or for room: somebody will kick */
	TURN_OVER,  /* all cut */
};

static enum turn turn_data(struct job *j)
{
	struct upload *u = j->u;
	int rc;

	if (j->cut == 0) {
		cut_and_hash(j);
		j->stuck = j->cut == 0;
		if (j->stuck)
			return window_is_through(&j->w) ? TURN_OVER : TURN_AGAIN;
	}
	rc = place(j);
	if (rc == 0)
		return TURN_WAIT;
	if (rc == -EAGAIN)
		return TURN_AGAIN;
	if (rc < 0) {
		end_job(j, fail(u, rc, "chunk"));
		return TURN_AGAIN;
	}
	u->taken += j->cut;
	window_take(&j->w, j->cut);
	j->cut = j->hashed = 0;
	return TURN_AGAIN;
}

static enum turn turn_hole(struct job *j)
{
	uint64_t len = j->w.hole;
	int rc = add_zeros(j, len);

	if (rc < 0) {
		end_job(j, fail(j->u, rc, "hole"));
		return TURN_AGAIN;
	}
	j->u->taken += len;
	window_take(&j->w, len);
	return TURN_AGAIN;
}

static enum turn turn(struct job *j)
{
	switch (window_look(&j->w, j->stuck)) {
	case WINDOW_WAIT:
		return TURN_WAIT;
	case WINDOW_DATA:
		return turn_data(j);
	case WINDOW_HOLE:
		return turn_hole(j);
	case WINDOW_END:
		break;
	}
	return TURN_OVER;
}

static void all_cut(struct job *j)
{
	struct out *o = j->out;

	unlink_job(o, j);
	window_return(o, take(&j->w.mem));
	j->next = o->sent;
	o->sent = j;
	if (j->u->cut)
		j->u->cut(j->u);
	ask_others(j, true);
}

static void window_moved(struct window *w)
{
	struct job *j = w->arg;
	struct out *o = j->out;

	if (w->rc < 0) {
		if (j->u->fault.code == 0 && w->rc != -ECANCELED)
			(void)fail(j->u, w->rc, "reading"); /* the code is w->rc */
		end_job(j, w->rc);
	}
	kick(o);
}

static struct job *begin(struct out *o, struct upload *u)
{
	struct job *j = job_new(o, u);

	if (!j) {
		report(o, u, fail(u, -ENOMEM, "beginning"));
		return NULL;
	}
	j->w.loop = o->lane->loop;
	j->w.u = u;
	j->w.moved = window_moved;
	j->w.arg = j;
	window_open(&j->w);
	return j;
}

/* The job to work on: an urgent one first. */
static struct job *current(struct out *o)
{
	for (unsigned urgent = 2; urgent-- > 0;) {
		while (!o->cutting[urgent] && o->queued[urgent].first)
			o->cutting[urgent] = begin(o, uploads_pop(&o->queued[urgent]));
		if (o->cutting[urgent])
			return o->cutting[urgent];
	}
	return NULL;
}

static void step(struct loop_call *c)
{
	struct out *o = c->arg;
	struct job *j;

	o->stepping = false;
	if (o->stopped) {
		lane_wake(o->lane);
		return;
	}
	j = current(o);
	if (!j) {
		packs_rest(&o->packs);
		return;
	}
	switch (turn(j)) {
	case TURN_WAIT:
		return;
	case TURN_OVER:
		all_cut(j);
		break;
	case TURN_AGAIN:
		break;
	}
	kick(o);
}

static void kick(struct out *o)
{
	if (o->stepping)
		return;
	o->stepping = true;
	loop_post(o->lane->loop, &o->step);
}

/* ---- from outside ---- */

void out_init(struct out *o, struct lane *lane)
{
	*o = (struct out){.lane = lane, .step = {.fn = step, .arg = o}};
	packs_init(&o->packs, lane);
}

void out_fini(struct out *o)
{
	packs_fini(&o->packs);
	for (unsigned i = 0; i < OUT_WINDOWS; i++)
		free(o->windows[i]);
}

void out_take(struct out *o, struct upload *u)
{
	uploads_push(&o->queued[u->urgent], u);
}

static void cancel_queued(struct out *o, struct uploads *q, bool all)
{
	struct uploads before = *q;
	struct upload *u;

	q->first = NULL;
	while ((u = uploads_pop(&before))) {
		if (all || u->cancelled)
			report(o, u, -ECANCELED);
		else
			uploads_push(q, u);
	}
}

static void cancel_sent(struct out *o, bool all)
{
	struct job *next;

	for (struct job *j = o->sent; j; j = next) {
		next = j->next;
		if (all || j->u->cancelled)
			end_job(j, -ECANCELED);
		else
			ask_others(j, true);
	}
}

static void cancel_cutting(struct out *o, unsigned urgent, bool all)
{
	struct job *j = o->cutting[urgent];

	if (!j)
		return;
	if (all || j->u->cancelled)
		end_job(j, -ECANCELED);
	else
		ask_others(j, false);
}

void out_wake(struct out *o)
{
	for (unsigned urgent = 0; urgent < 2; urgent++) {
		cancel_queued(o, &o->queued[urgent], false);
		cancel_cutting(o, urgent, false);
	}
	cancel_sent(o, false);
	kick(o);
}

bool out_stop(struct out *o)
{
	o->stopped = true;
	for (unsigned urgent = 0; urgent < 2; urgent++) {
		cancel_queued(o, &o->queued[urgent], true);
		cancel_cutting(o, urgent, true);
	}
	cancel_sent(o, true);
	packs_stop(&o->packs);
	return !o->cutting[0] && !o->cutting[1];
}
