/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches: a fetch becomes GETs, dealt out over the lanes; each chunk that comes is decoded,
 * checked against its hash and delivered.  A chunk that fails its check is asked for once more,
 * alone: the bytes may have been bent on the way.  A GET that is late gets a twin, and what comes
 * first is used; where both are late, the elder makes way for another.
 *
 * A fetch ends with its last item, on whichever lane that is; so a lane touches the fetch and its
 * plan only while one of the items at hand has not ended.
 */
#include "fs/lane/in.h"

#include <errno.h>

#include "fs/lane/inside.h"
#include "fs/lane/plan.h"

#define IDLE_NS (5 * NS_PER_S)      /* unused memory goes back after this */
#define LATE_NS (100 * NS_PER_MS) /* between two looks for what is late */

struct get {
	/* fixed */
	struct fetch *x;
	struct fetch_item **items; /* sorted */
	struct fetch_item *one;    /* items of a second try */
	struct span span;
	bool again; /* for a chunk that failed its check: there is no third try */
	bool own;   /* freed by itself, not with a plan */
	/* the lane's thread */
	struct lane *lane;
	struct get *next;
	struct get *twin; /* another request for the same, under way as well */
	uint64_t started_ns;
	uint8_t *mem;
	char key[PACK_KEY_MAX];
	struct object_req req;
};

/* What hangs on fetch.priv: one allocation, freed with its last item. */
struct plan {
	struct fetch_item **items;
	struct get *gets;
	size_t n; /* of gets */
};

void gets_push(struct gets *q, struct get *g)
{
	g->next = NULL;
	if (!q->first)
		q->end = &q->first;
	*q->end = g;
	q->end = &g->next;
}

struct get *gets_pop(struct gets *q)
{
	struct get *g = q->first;

	if (g)
		q->first = g->next;
	return g;
}

/* ---- the end of items ---- */

static void plan_free(struct plan *p)
{
	if (!p)
		return;
	free(p->items);
	free(p->gets);
	free(p);
}
SCOPE_PTR(struct plan, plan_free)

static void end_fetch(struct fetch *x)
{
	plan_free(x->priv);
	x->priv = NULL;
	x->done(x); /* may free x */
}

static void note_failure(struct lanes *all, struct fetch *x, int rc, const struct fault *why)
{
	pthread_mutex_lock(&all->fetch_lock);
	if (x->rc == 0) {
		x->rc = rc;
		x->fault = *why;
	}
	pthread_mutex_unlock(&all->fetch_lock);
}

/* The last one ends the fetch. */
static void end_item(struct lane *l, struct fetch *x, struct fetch_item *i, int rc,
		     const struct fault *why)
{
	i->rc = rc;
	if (rc < 0)
		note_failure(l->all, x, rc, why);
	if (x->item_done)
		x->item_done(x, i);
	if (atomic_fetch_sub(&x->left, 1) == 1)
		end_fetch(x);
}

static int chunk_fault(const struct fetch_item *i, struct fault *f)
{
	char name[2 * sizeof(i->extent->hash.b) + 1];
	char key[PACK_KEY_MAX];

	hex_of(i->extent->hash.b, sizeof(i->extent->hash.b), name);
	pack_key(i->extent->place.pack, key);
	return fault_in(f, "%s, chunk %s at %u", key, name, i->extent->place.offset);
}

/* Every item of a GET that brought nothing. */
static void end_items(struct lane *l, struct get *g, int rc, const struct fault *why)
{
	struct fetch *x = g->x;
	size_t n = g->span.n; /* g may be gone with the last item */

	for (size_t k = 0; k < n; k++) {
		struct fetch_item *i = g->items[k];
		struct fault f = *why;

		(void)chunk_fault(i, &f); /* the code is rc */
		end_item(l, x, i, rc, &f);
	}
}

static void end_get(struct lane *l, struct get *g, int rc, const struct fault *why)
{
	struct get *own = g->own ? g : NULL;

	l->load_in -= g->span.len;
	if (g->twin)
		g->twin->twin = NULL; /* which goes on alone */
	else
		end_items(l, g, rc, why);
	free(own);
}

static void cancel_get(struct lane *l, struct get *g)
{
	struct fault why;
	int rc = fault_set(&why, -ECANCELED, FAULT_FINAL, "cancelled");

	end_get(l, g, rc, &why);
}

/* ---- memory ---- */

static uint8_t *buffer_take(struct in *in, size_t len)
{
	if (len > PLAN_GET_MAX)
		return malloc(len);
	for (unsigned i = 0; i < IN_SLOTS; i++)
		if (in->buffers[i])
			return take(&in->buffers[i]);
	return malloc(PLAN_GET_MAX);
}

static void buffer_return(struct in *in, uint8_t *mem, size_t len)
{
	for (unsigned i = 0; len <= PLAN_GET_MAX && i < IN_SLOTS; i++) {
		if (!in->buffers[i]) {
			in->buffers[i] = mem;
			return;
		}
	}
	free(mem);
}

static void free_buffers(struct in *in)
{
	for (unsigned i = 0; i < IN_SLOTS; i++) {
		free(in->buffers[i]);
		in->buffers[i] = NULL;
	}
	free(in->scratch);
	in->scratch = NULL;
}

static void idle_long(struct loop_timer *t)
{
	struct in *in = t->arg;

	if (in->in_flight == 0)
		free_buffers(in);
}

/* ---- one GET ---- */

static void start_gets(struct in *in);

/* Content of an item from its stored bytes, at *out. */
static int decode(struct in *in, const struct extent *e, uint8_t *stored, const uint8_t **out,
		  struct fault *f)
{
	const uint8_t *secret = in->lane->all->format.secret;
	uint8_t *to = stored; /* raw bytes are checked where they lie */

	if (e->place.codec != CODEC_RAW && !in->scratch)
		in->scratch = malloc(CHUNK_MAX);
	if (e->place.codec != CODEC_RAW)
		to = in->scratch;
	if (!to)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to decode a chunk");
	*out = to;
	return chunk_decode(secret, e->place.codec, stored, e->place.stored, &e->hash, to,
			    e->length, f);
}

/* Ask for one chunk once more.  false: it was asked for twice already. */
static bool ask_again(struct in *in, const struct get *g, struct fetch_item *i)
{
	const struct place *p = &i->extent->place;
	struct get *again = g->again ? NULL : calloc(1, sizeof(*again));

	if (!again)
		return false;
	again->x = g->x;
	again->one = i;
	again->items = &again->one;
	again->span = (struct span){.pack = p->pack, .off = p->offset, .len = p->stored, .n = 1};
	again->again = again->own = true;
	in->lane->load_in += p->stored;
	in_take(in, again);
	return true;
}

/* One item of a GET that brought its bytes. */
static void use_item(struct in *in, const struct get *g, struct fetch *x, struct fetch_item *i)
{
	const struct extent *e = i->extent;
	const uint8_t *data = NULL;
	struct fault f = FAULT_NONE;
	int rc = decode(in, e, g->mem + (e->place.offset - g->span.off), &data, &f);

	if ((rc == -EBADMSG || rc == -EPROTO) && ask_again(in, g, i))
		return;
	if (rc == -EPROTO)
		rc = fault_set(&f, -EBADMSG, FAULT_FINAL, "%s",
			       f.text); /* one code for "not what was sent" */
	if (rc == 0) {
		rc = x->deliver(x, i, data, e->length);
		if (rc < 0)
			(void)fault_errno(&f, rc, "taking its bytes"); /* rc goes on by itself */
		else
			in->lane->all->fetched_bytes += e->length;
	}
	if (rc < 0)
		(void)chunk_fault(i, &f); /* the code is rc */
	end_item(in->lane, x, i, rc, &f);
}

static void unlink_active(struct in *in, struct get *g)
{
	struct get **at = &in->active;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	in->in_flight--;
}

static void use_items(struct in *in, struct get *g)
{
	struct get *own = g->own ? g : NULL;
	struct fetch *x = g->x;
	uint8_t *mem = g->mem;
	size_t len = g->span.len, n = g->span.n; /* g may be gone with the last item */

	in->lane->load_in -= len;
	for (size_t k = 0; k < n; k++)
		use_item(in, g, x, g->items[k]);
	free(own);
	buffer_return(in, mem, len);
}

static void got(struct object_req *r)
{
	struct get *g = r->arg;
	struct lane *l = g->lane;
	struct in *in = &l->in;
	struct fault why = r->fault;
	int rc = r->rc;

	object_req_fini(r);
	unlink_active(in, g);
	if (rc == 0) {
		pace_answer(&in->pace, clock_mono(&clock_system) - g->started_ns);
		health_works(&l->all->health);
		if (g->twin)
			objects_cancel(l->objects, &g->twin->req);
		use_items(in, g);
	} else {
		if (rc != -ECANCELED && rc != -ENOENT)
			health_fails(&l->all->health, &why);
		buffer_return(in, g->mem, g->span.len);
		end_get(l, g, rc, &why);
	}
	start_gets(in);
}

static void get_again(struct object_req *r)
{
	struct get *g = r->arg;

	health_fails(&g->lane->all->health, &r->fault);
}

static void start_get(struct in *in, struct get *g)
{
	struct fault why;

	g->lane = in->lane;
	g->mem = buffer_take(in, g->span.len);
	if (!g->mem) {
		(void)fault_set(&why, -ENOMEM, FAULT_SOON, "no memory for %u bytes", g->span.len);
		end_get(in->lane, g, -ENOMEM, &why);
		return;
	}
	pack_key(g->span.pack, g->key);
	g->req = (struct object_req){
		.op = OBJECT_GET,
		.key = g->key,
		.off = g->span.off,
		.len = g->span.len,
		.dest = g->mem,
		.deadline_ns = g->x->deadline_ns,
		.retrying = get_again,
		.done = got,
		.arg = g,
	};
	g->started_ns = clock_mono(&clock_system);
	g->next = in->active;
	in->active = g;
	if (in->in_flight++ == 0)
		loop_timer_start(in->lane->loop, &in->late, g->started_ns + LATE_NS);
	objects_start(in->lane->objects, &g->req);
}

/* ---- what is late ---- */

/* Of two the younger speaks: it is late only if both are. */
static bool is_late(const struct in *in, const struct get *g, uint64_t now)
{
	if (g->again || (g->twin && g->twin->started_ns > g->started_ns))
		return false;
	return now > g->started_ns && pace_is_late(&in->pace, now - g->started_ns);
}

static struct get *first_late(const struct in *in, uint64_t now)
{
	struct get *g = in->active;

	if (in->in_flight >= IN_SLOTS + IN_TWINS || !pace_may_ask(&in->pace))
		return NULL;
	while (g && !is_late(in, g, now))
		g = g->next;
	return g;
}

static bool start_twin(struct in *in, struct get *g)
{
	struct get *twin = calloc(1, sizeof(*twin));

	if (!twin)
		return false;
	if (g->twin)
		objects_cancel(in->lane->objects, &g->twin->req);
	twin->x = g->x;
	twin->items = g->items;
	twin->span = g->span;
	twin->own = true;
	twin->twin = g;
	g->twin = twin;
	in->lane->load_in += g->span.len;
	pace_asked(&in->pace);
	start_get(in, twin);
	return true;
}

static void look_for_late(struct loop_timer *t)
{
	struct in *in = t->arg;
	uint64_t now = clock_mono(&clock_system);

	for (struct get *g; !in->stopped && (g = first_late(in, now));)
		if (!start_twin(in, g))
			break;
	if (in->active)
		loop_timer_start(in->lane->loop, &in->late, now + LATE_NS);
}

/* ---- queues ---- */

static struct get *next_get(struct in *in)
{
	struct get *g = NULL;

	if (in->in_flight < IN_SLOTS)
		g = gets_pop(&in->queued[FETCH_NOW]);
	if (!g && in->in_flight < IN_SLOTS - 1)
		g = gets_pop(&in->queued[FETCH_SOON]);
	return g;
}

static void start_gets(struct in *in)
{
	struct get *g;

	while (!in->stopped && (g = next_get(in)))
		start_get(in, g);
	lane_look_who_waits(in->lane);
	if (in->in_flight == 0)
		loop_timer_start(in->lane->loop, &in->idle, clock_mono(&clock_system) + IDLE_NS);
}

void in_take(struct in *in, struct get *g)
{
	if (in->stopped)
		cancel_get(in->lane, g);
	else
		gets_push(&in->queued[g->x->rank], g);
}

static void cancel_queued(struct in *in, struct gets *q)
{
	struct gets all = *q;
	struct get *g;

	q->first = NULL;
	while ((g = gets_pop(&all))) {
		if (in->stopped || g->x->cancelled)
			cancel_get(in->lane, g);
		else
			gets_push(q, g);
	}
}

static struct get *first_cancelled(struct in *in)
{
	struct get *g = in->active;

	while (g && !in->stopped && !g->x->cancelled)
		g = g->next;
	return g;
}

void in_wake(struct in *in)
{
	struct get *g;

	cancel_queued(in, &in->queued[FETCH_NOW]);
	cancel_queued(in, &in->queued[FETCH_SOON]);
	while ((g = first_cancelled(in)))
		objects_cancel(in->lane->objects, &g->req);
	start_gets(in);
}

void in_stop(struct in *in)
{
	in->stopped = true;
	in_wake(in);
}

void in_init(struct in *in, struct lane *lane)
{
	*in = (struct in){.lane = lane,
			  .idle = {.fire = idle_long, .arg = in},
			  .late = {.fire = look_for_late, .arg = in}};
}

void in_fini(struct in *in)
{
	loop_timer_stop(in->lane->loop, &in->idle);
	loop_timer_stop(in->lane->loop, &in->late);
	free_buffers(in);
}

/* ---- planning ---- */

/* What comes from a record is looked at before it is used. */
static bool is_sane(const struct extent *e)
{
	return e->kind == EXTENT_CHUNK && e->length > 0 && e->length <= CHUNK_MAX &&
	       e->place.stored > 0 && (uint64_t)e->place.offset + e->place.stored <= PACK_MAX;
}

/* Make the GETs of sorted items; returns how many.  gets NULL: only count them. */
static size_t lay_out(struct fetch *x, struct fetch_item **items, struct get *gets)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n; n++) {
		struct span s = plan_span(items + i, x->n - i);

		if (gets) {
			gets[n].x = x;
			gets[n].items = items + i;
			gets[n].span = s;
		}
		i += s.n;
	}
	return n;
}

/* Fills x->priv; 0 or -ENOMEM. */
static int make_plan(struct fetch *x)
{
	scoped(plan_free) struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->items = malloc(x->n * sizeof(struct fetch_item *));
	if (!p->items)
		return -ENOMEM;
	for (size_t i = 0; i < x->n; i++)
		p->items[i] = &x->items[i];
	plan_sort(p->items, x->n);
	p->n = lay_out(x, p->items, NULL);
	p->gets = calloc(p->n, sizeof(*p->gets));
	if (!p->gets)
		return -ENOMEM;
	(void)lay_out(x, p->items, p->gets); /* as many as before */
	x->priv = take(&p);
	return 0;
}

/* The fetch ends as a whole. */
static void refuse(struct lane *l, struct fetch *x, int rc, const char *why)
{
	size_t n = x->n;

	for (size_t k = 0; k < n; k++) {
		struct fetch_item *i = &x->items[k];
		struct fault f;

		(void)fault_set(&f, rc, FAULT_FINAL, "%s", why); /* the code is rc */
		(void)chunk_fault(i, &f);
		end_item(l, x, i, rc, &f);
	}
}

static bool all_sane(const struct fetch *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (!is_sane(x->items[i].extent))
			return false;
	return true;
}

/* A GET that was handed on may end, and with the last one the plan is gone. */
static void deal_out(struct lanes *all, struct plan *p)
{
	struct get *g = p->gets;

	for (size_t left = p->n; left > 0; left--, g++)
		lane_hand_get(lanes_least_in(all), g, g->span.len);
}

void in_plan(struct in *in, struct fetch *x)
{
	int rc = in->stopped || x->cancelled ? -ECANCELED : 0;

	if (x->n == 0) {
		end_fetch(x);
		return;
	}
	if (rc == 0 && !all_sane(x)) {
		refuse(in->lane, x, -EPROTO, "an extent that no pack can hold");
		return;
	}
	if (rc == 0)
		rc = make_plan(x);
	if (rc < 0)
		refuse(in->lane, x, rc, rc == -ENOMEM ? "no memory to plan" : "cancelled");
	else
		deal_out(in->lane->all, x->priv);
}
