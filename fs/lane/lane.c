/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the threads, and how work is handed to them.  Whoever hands something in puts it on the
 * lane's list and wakes it; the lane looks at all of its lists at once.
 */
#include "fs/lane/lane.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "fs/lane/inside.h"

#define LANES_DEFAULT 4
#define LANES_MAX     KNOWN_LANES
#define KNOWN_CHUNKS  (256u << 10) /* 12 MiB; at 1 MiB a chunk they name 256 GiB */

/* ---- the lane's thread ---- */

/* What was handed in since the last look. */
struct handed {
	struct uploads uploads;
	struct gets gets;
	struct fetch *fetches;
	struct waiting *waiting;
	enum lane_state state;
};

static struct handed take_handed(struct lane *l)
{
	struct handed h;

	pthread_mutex_lock(&l->lock);
	h = (struct handed){
		.uploads = l->uploads,
		.gets = l->gets,
		.fetches = l->fetches,
		.waiting = l->waiting,
		.state = l->state,
	};
	l->uploads.first = NULL;
	l->gets.first = NULL;
	l->fetches = NULL;
	l->waiting = NULL;
	pthread_mutex_unlock(&l->lock);
	return h;
}

static void set_state(struct lane *l, enum lane_state state)
{
	pthread_mutex_lock(&l->lock);
	l->state = state;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static struct fetch *oldest_first(struct fetch *list)
{
	struct fetch *out = NULL;

	while (list) {
		struct fetch *next = list->next;

		list->next = out;
		out = list;
		list = next;
	}
	return out;
}

static void start_handed(struct lane *l, struct handed *h)
{
	struct fetch *x = oldest_first(h->fetches);
	struct upload *u;
	struct get *g;

	while ((u = uploads_pop(&h->uploads)))
		out_take(&l->out, u);
	while ((g = gets_pop(&h->gets)))
		in_take(&l->in, g);
	while (x) {
		struct fetch *next = x->next; /* x may end at once */

		in_plan(&l->in, x);
		x = next;
	}
	while (h->waiting) {
		struct waiting *w = h->waiting;

		h->waiting = w->next;
		block_start(l, w);
	}
}

static void stop(struct lane *l, enum lane_state state)
{
	in_stop(&l->in);
	block_stop(l);
	if (!out_stop(&l->out))
		return; /* the end of a read wakes us */
	pthread_mutex_lock(&l->lock);
	if (l->state == LANE_STOPPING) /* and not QUITTING since */
		l->state = LANE_STOPPED;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (state == LANE_QUITTING)
		loop_stop(l->loop);
}

static void look(struct loop_call *c)
{
	struct lane *l = c->arg;
	struct handed h;

	l->woken = false; /* before looking: what comes later wakes us again */
	if (l->closed)
		return;
	h = take_handed(l);
	start_handed(l, &h);
	if (h.state >= LANE_STOPPING) {
		stop(l, h.state);
		return;
	}
	out_wake(&l->out);
	in_wake(&l->in);
}

/* Under lock.  Who waits for a lane waits at its own priority, not behind everybody else. */
static void set_pace(struct lane *l)
{
	bool fast = l->all->hurry || l->waited_for;

	if (l->can_hurry)
		(void)setpriority(PRIO_PROCESS, (id_t)l->tid,
				  fast ? 0 : l->all->conf.nice); /* a courtesy */
}

/*
 * Without CAP_SYS_NICE a thread that was made nice stays so, and a flush at nice 19 beside a busy
 * trainer would miss its deadline.  One step down and up again shows which it is.
 */
static void be_nice(struct lane *l)
{
	l->tid = gettid();
	l->can_hurry = setpriority(PRIO_PROCESS, (id_t)l->tid, 1) == 0 &&
		       setpriority(PRIO_PROCESS, (id_t)l->tid, 0) == 0;
	pthread_mutex_lock(&l->lock);
	set_pace(l);
	pthread_mutex_unlock(&l->lock);
}

void lane_look_who_waits(struct lane *l)
{
	bool waited_for = l->in.in_flight > 0 || l->asked;

	if (l->waited_for == waited_for)
		return;
	pthread_mutex_lock(&l->lock);
	l->waited_for = waited_for;
	set_pace(l);
	pthread_mutex_unlock(&l->lock);
}

void lanes_press(struct lanes *all)
{
	for (unsigned i = 0; i < all->n; i++)
		all->lane[i].pressed = true;
	lanes_wake_all(all);
}

void lanes_hurry(struct lanes *all, bool hurry)
{
	all->hurry = hurry;
	for (unsigned i = 0; i < all->n; i++) {
		struct lane *l = &all->lane[i];

		pthread_mutex_lock(&l->lock);
		set_pace(l);
		pthread_mutex_unlock(&l->lock);
	}
	if (hurry)
		lanes_wake_all(all); /* packs that are held back for more */
}

static int lane_open(struct lane *l)
{
	int rc = loop_new(LOOP_AUTO, &l->loop, &l->fault);

	if (rc == 0)
		rc = objects_open(l->all->conf.store, l->loop, &l->objects, &l->fault);
	if (rc < 0)
		return rc;
	l->wake = (struct loop_call){.fn = look, .arg = l};
	out_init(&l->out, l);
	in_init(&l->in, l);
	return 0;
}

static void lane_close(struct lane *l)
{
	if (l->objects) {
		out_fini(&l->out);
		in_fini(&l->in);
	}
	l->closed = true;
	objects_close(l->objects);
	loop_free(l->loop); /* calls what is still posted */
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;
	char name[16];

	(void)snprintf(name, sizeof(name), "lane-%u", l->index); /* for top(1); may be cut */
	(void)pthread_setname_np(pthread_self(), name);
	be_nice(l);
	if (lane_open(l) < 0) {
		set_state(l, LANE_FAILED);
	} else {
		set_state(l, LANE_OPEN);
		loop_run(l->loop);
	}
	lane_close(l);
	return NULL;
}

/* ---- starting and ending ---- */

static enum lane_state wait_state(struct lane *l, enum lane_state least)
{
	enum lane_state state;

	pthread_mutex_lock(&l->lock);
	while (l->state < least)
		pthread_cond_wait(&l->changed, &l->lock);
	state = l->state;
	pthread_mutex_unlock(&l->lock);
	return state;
}

/* Signals are for the threads of main. */
static int start_thread(struct lane *l)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(&l->thread, NULL, lane_main, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* A lane that failed has no thread and counts for nothing. */
static int lane_start(struct lanes *all, struct fault *f)
{
	struct lane *l = &all->lane[all->n];
	int rc;

	*l = (struct lane){.all = all, .index = all->n, .state = LANE_OPENING};
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	rc = start_thread(l);
	if (rc < 0)
		return fault_errno(f, rc, "starting lane %u", l->index);
	if (wait_state(l, LANE_FAILED) == LANE_OPEN) {
		all->n++;
		return 0;
	}
	pthread_join(l->thread, NULL);
	if (f)
		*f = l->fault;
	return l->fault.code;
}

static unsigned default_lanes(void)
{
	cpu_set_t cpus;
	unsigned n =
		sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;

	return n < LANES_DEFAULT ? n : LANES_DEFAULT;
}

/* NULL: out of memory. */
static struct lanes *lanes_alloc(const struct lanes_conf *conf, unsigned n)
{
	struct lanes *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->conf = *conf;
	l->format = *conf->format;
	l->extra = PACKS_ALL - PACKS_MINE * (int)n;
	health_init(&l->health);
	pthread_mutex_init(&l->fetch_lock, NULL);
	l->lane = calloc(n, sizeof(*l->lane));
	if (l->lane && known_new(KNOWN_CHUNKS, &l->known) == 0)
		return l;
	lanes_free(l);
	return NULL;
}

int lanes_new(const struct lanes_conf *conf, struct lanes **out, struct fault *f)
{
	unsigned n = conf->lanes ? conf->lanes : default_lanes();
	scoped(lanes_free) struct lanes *l = NULL;
	int rc = 0;

	if (n > LANES_MAX)
		n = LANES_MAX;
	l = lanes_alloc(conf, n);
	if (!l)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for lanes");
	while (rc == 0 && l->n < n)
		rc = lane_start(l, f);
	if (rc < 0)
		return rc;
	*out = take(&l);
	return 0;
}

static void tell_all(struct lanes *all, enum lane_state state)
{
	for (unsigned i = 0; i < all->n; i++) {
		set_state(&all->lane[i], state);
		lane_wake(&all->lane[i]);
	}
}

void lanes_stop(struct lanes *l)
{
	tell_all(l, LANE_STOPPING);
	for (unsigned i = 0; i < l->n; i++)
		(void)wait_state(&l->lane[i], LANE_STOPPED); /* nothing lies behind STOPPED yet */
}

void lanes_free(struct lanes *l)
{
	if (!l)
		return;
	lanes_stop(l);
	tell_all(l, LANE_QUITTING);
	for (unsigned i = 0; i < l->n; i++)
		pthread_join(l->lane[i].thread, NULL);
	known_free(l->known);
	health_fini(&l->health);
	pthread_mutex_destroy(&l->fetch_lock);
	free(l->lane);
	free(l);
}

/* ---- handing in ---- */

void lane_wake(struct lane *l)
{
	if (!atomic_exchange(&l->woken, true))
		loop_post(l->loop, &l->wake);
}

void lanes_wake_all(struct lanes *all)
{
	for (unsigned i = 0; i < all->n; i++)
		lane_wake(&all->lane[i]);
}

struct lane *lanes_least_out(struct lanes *all)
{
	struct lane *least = &all->lane[0];

	for (unsigned i = 1; i < all->n; i++)
		if (all->lane[i].load_out < least->load_out)
			least = &all->lane[i];
	return least;
}

struct lane *lanes_least_in(struct lanes *all)
{
	struct lane *least = &all->lane[0];

	for (unsigned i = 1; i < all->n; i++)
		if (all->lane[i].load_in < least->load_in)
			least = &all->lane[i];
	return least;
}

void lanes_upload(struct lanes *all, struct upload *u)
{
	struct lane *l = lanes_least_out(all);

	u->rc = 0;
	u->fault = FAULT_NONE;
	u->out = EXTENTS_EMPTY;
	u->taken = 0;
	l->load_out += upload_load(u);
	all->queued_bytes += u->len;
	pthread_mutex_lock(&l->lock);
	uploads_push(&l->uploads, u);
	pthread_mutex_unlock(&l->lock);
	lane_wake(l);
}

/* Every lane looks: nobody but the lane itself knows which one has it. */
void lanes_cancel(struct lanes *l, struct upload *u)
{
	u->cancelled = true;
	lanes_wake_all(l);
}

void lanes_fetch(struct lanes *all, struct fetch *x)
{
	struct lane *l = lanes_least_in(all);

	x->rc = 0;
	x->fault = FAULT_NONE;
	x->left = x->n;
	x->priv = NULL;
	pthread_mutex_lock(&l->lock);
	x->next = l->fetches;
	l->fetches = x;
	pthread_mutex_unlock(&l->lock);
	lane_wake(l);
}

void lanes_fetch_cancel(struct lanes *l, struct fetch *x)
{
	x->cancelled = true;
	lanes_wake_all(l);
}

void lane_hand_get(struct lane *l, struct get *g, uint64_t bytes)
{
	l->load_in += bytes;
	pthread_mutex_lock(&l->lock);
	gets_push(&l->gets, g);
	pthread_mutex_unlock(&l->lock);
	lane_wake(l);
}

void lane_hand_waiting(struct lane *l, struct waiting *w)
{
	bool open;

	pthread_mutex_lock(&l->lock);
	open = l->state == LANE_OPEN;
	if (open) {
		w->next = l->waiting;
		l->waiting = w;
	}
	pthread_mutex_unlock(&l->lock);
	if (open)
		lane_wake(l);
	else
		block_cancel(w);
}

/* ---- what all lanes share ---- */

void lanes_known(struct lanes *l, const struct hash128 *hash, uint64_t length,
		 const struct place *at)
{
	known_add(l->known, hash, length, at);
}

void lanes_forget_pack(struct lanes *l, uint64_t pack)
{
	known_forget(l->known, pack);
}

bool lanes_take_extra(struct lanes *all)
{
	int left = all->extra;

	while (left > 0)
		if (atomic_compare_exchange_weak(&all->extra, &left, left - 1))
			return true;
	all->extra_wanted = true;
	return false;
}

void lanes_give_extra(struct lanes *all)
{
	all->extra++;
	if (atomic_exchange(&all->extra_wanted, false))
		lanes_wake_all(all);
}

bool lanes_want_extra(const struct lanes *all)
{
	return all->extra_wanted;
}

void lanes_counts(struct lanes *l, struct lanes_counts *out)
{
	uint64_t since;

	*out = (struct lanes_counts){
		.sent_bytes = l->sent_bytes,
		.deduped_bytes = l->deduped_bytes,
		.fetched_bytes = l->fetched_bytes,
		.queued_bytes = l->queued_bytes,
	};
	out->rate_bps = health_look(&l->health, &since, out->last_error);
	out->failing_since_ns = (int64_t)since;
}
