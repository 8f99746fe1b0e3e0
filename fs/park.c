/* SPDX-License-Identifier: Apache-2.0 */
/* See park.h. */
#include "fs/park.h"

#include <errno.h>

#include "base/cond.h"
#include "fs/commit.h"
#include "fs/past.h"

#define THREADS 4 /* what is tried again never waits, so as many as copy well at once */
#define LOOK_NS (200 * NS_PER_MS)
#define PAST_NS (5 * NS_PER_S) /* what was read past the cache stays in memory for so long */

struct park {
	struct mount *m;
	pthread_t threads[THREADS], looker;
	unsigned threads_n;
	bool looks;
	/* under the mount's lock */
	pthread_cond_t ready_one, look_now;
	struct list all, ready, room;
	unsigned for_bytes;
	bool look, later, stopping;
};

static struct parked *parked_on(struct list *l)
{
	return (struct parked *)((char *)l - offsetof(struct parked, on));
}

static struct parked *parked_of_bytes(struct awaited *w)
{
	return (struct parked *)((char *)w - offsetof(struct parked, bytes));
}

/* ---- states, under lock ---- */

static void leave_state(struct park *k, struct parked *p)
{
	list_remove(&p->on);
	hydrate_leave(&p->bytes);
	k->m->room_wanted -= p->state == PARK_ROOM;
	k->for_bytes -= p->state == PARK_BYTES;
}

static void make_ready(struct parked *p)
{
	struct park *k = p->park;

	leave_state(k, p);
	p->state = PARK_READY;
	list_append(&k->ready, &p->on);
	pthread_cond_signal(&k->ready_one);
}

static void wait_for_bytes(struct parked *p)
{
	p->state = PARK_BYTES;
	p->park->for_bytes++;
	if (p->again) /* they came meanwhile */
		make_ready(p);
}

static void wait_for_room(struct parked *p)
{
	struct park *k = p->park;
	uint64_t now = mount_now(k->m);

	p->state = PARK_ROOM;
	k->m->room_wanted++;
	list_append(&k->room, &p->on);
	if (!p->since_ns) {
		p->since_ns = now;
		k->look = true; /* who was tried before waits for the next tick */
	}
	pthread_cond_signal(&k->look_now);
	p->gave_up = room_gives_up(k->m, p->since_ns, now, p->mapped);
	if (p->gave_up)
		make_ready(p);
}

/* Tried, and it has to wait. */
static void park(struct parked *p, ssize_t rc)
{
	struct mount *m = p->park->m;

	mount_lock(m);
	if (rc == -EAGAIN)
		wait_for_bytes(p);
	else
		wait_for_room(p);
	if ((p->interrupted || p->park->stopping) && p->state != PARK_READY)
		make_ready(p);
	mount_unlock(m);
	if (rc != -EAGAIN)
		committer_kick(m);
}

static void bytes_came(struct awaited *w)
{
	struct parked *p = parked_of_bytes(w);

	p->again = true;
	if (p->state == PARK_BYTES)
		make_ready(p);
}

/* Under the request's lock, which is outside the mount's. */
static void interrupted(fuse_req_t req, void *arg)
{
	struct parked *p = arg;
	struct mount *m = p->park->m;

	(void)req;
	mount_lock(m);
	p->interrupted = true;
	if (p->state == PARK_ROOM || p->state == PARK_BYTES)
		make_ready(p);
	mount_unlock(m);
}

/* ---- trying ---- */

static bool has_to_wait(ssize_t rc)
{
	return rc == -EAGAIN || ballast_is_short((int)rc);
}

void park_run(struct mount *m, struct parked *p)
{
	ssize_t rc;
	int kept;

	p->park = m->park;
	p->bytes.came = bytes_came;
	p->state = PARK_BUSY;
	rc = p->run(p);
	if (!has_to_wait(rc)) {
		p->answer(p, rc);
		return;
	}
	kept = p->keep ? p->keep(p) : 0;
	mount_lock(m);
	if (kept < 0)
		hydrate_leave(&p->bytes);
	else
		list_append(&m->park->all, &p->all);
	mount_unlock(m);
	if (kept < 0) {
		p->answer(p, kept);
		return;
	}
	fuse_req_interrupt_func(p->req, interrupted, p); /* calls it, if that was before us */
	park(p, rc);
}

/* What is said without another try; 0: try. */
static int verdict(const struct park *k, const struct parked *p)
{
	return k->stopping ? -ENOTCONN : p->interrupted ? -EINTR : p->gave_up ? -ENOSPC : 0;
}

static void try_again(struct park *k, struct parked *p, int said)
{
	ssize_t rc = said ? said : p->run(p);

	if (!said && has_to_wait(rc)) {
		park(p, rc);
		return;
	}
	fuse_req_interrupt_func(p->req, NULL, NULL); /* none is under way behind this */
	mount_lock(k->m);
	list_remove(&p->all);
	mount_unlock(k->m);
	p->answer(p, rc);
}

/* The next that is ready, in state BUSY; NULL: the end. */
static struct parked *next_ready(struct park *k, int *said)
{
	struct parked *p = NULL;

	mount_lock(k->m);
	while (!list_on(&k->ready) && !(k->stopping && !list_on(&k->all)))
		pthread_cond_wait(&k->ready_one, &k->m->lock);
	if (list_on(&k->ready)) {
		p = parked_on(k->ready.next);
		list_remove(&p->on);
		p->state = PARK_BUSY;
		p->again = false;
		*said = verdict(k, p);
	}
	mount_unlock(k->m);
	return p;
}

static void *thread_main(void *arg)
{
	struct park *k = arg;
	struct parked *p;
	int said;

	while ((p = next_ready(k, &said)))
		try_again(k, p, said);
	mount_lock(k->m);
	pthread_cond_broadcast(&k->ready_one); /* the others end as well */
	mount_unlock(k->m);
	return NULL;
}

/* ---- looking for room ---- */

void park_look(struct mount *m)
{
	if (!m->park)
		return;
	m->park->look = true;
	pthread_cond_signal(&m->park->look_now);
}

void park_look_later(struct mount *m)
{
	if (!m->park)
		return;
	m->park->later = true;
	pthread_cond_signal(&m->park->look_now);
}

/* Under lock.  All of them: those for whom there is none after all stand here again. */
static void let_go_room(struct park *k, bool all)
{
	uint64_t now = mount_now(k->m);
	struct list *l, *next;

	for (l = k->room.next; l != &k->room; l = next) {
		struct parked *p = parked_on(l);

		next = l->next;
		p->gave_up = !all && room_gives_up(k->m, p->since_ns, now, p->mapped);
		if (all || p->gave_up)
			make_ready(p);
	}
}

/* Under lock.  While somebody waits, the disk is known to be full, or chunks stand in memory, a look each tick; else when asked to. */
static void wait_look(struct park *k)
{
	uint64_t until = 0;
	int rc = 0;

	while (!k->look && !k->stopping && rc == 0) {
		bool ticks = k->later || list_on(&k->room) || atomic_load(&k->m->room) != ROOM_FREE || past_any(k->m->past);

		if (ticks && !until)
			until = mount_now(k->m) + LOOK_NS;
		rc = cond_wait_until(&k->look_now, &k->m->lock, ticks ? until : 0);
	}
	k->look = k->later = false;
}

static void *looker_main(void *arg)
{
	struct park *k = arg;
	struct mount *m = k->m;

	mount_lock(m);
	while (!k->stopping) {
		enum room is;

		wait_look(k);
		if (k->stopping)
			break;
		mount_unlock(m);
		is = room_look(m);
		past_age(m->past, mount_now(m) - PAST_NS, !past_wanted(m));
		mount_lock(m);
		let_go_room(k, is == ROOM_FREE);
	}
	mount_unlock(m);
	return NULL;
}

struct park_counts park_counts(const struct mount *m)
{
	return (struct park_counts){.for_room = m->room_wanted, .for_bytes = m->park ? m->park->for_bytes : 0};
}

/* ---- life ---- */

int park_new(struct mount *m, struct fault *f)
{
	struct park *k = calloc(1, sizeof(*k));
	int rc = 0;

	if (!k)
		return fault_errno(f, -ENOMEM, "waiting requests");
	k->m = m;
	cond_init(&k->ready_one);
	cond_init(&k->look_now);
	list_init(&k->all);
	list_init(&k->ready);
	list_init(&k->room);
	mount_lock(m);
	m->park = k;
	mount_unlock(m);
	for (; rc == 0 && k->threads_n < THREADS; k->threads_n += rc == 0)
		rc = -pthread_create(&k->threads[k->threads_n], NULL, thread_main, k);
	if (rc == 0)
		rc = -pthread_create(&k->looker, NULL, looker_main, k);
	k->looks = rc == 0;
	if (rc == 0)
		return 0;
	park_stop(m);
	return fault_errno(f, rc, "threads for waiting requests");
}

static void end_all(struct park *k)
{
	for (struct list *l = k->all.next; l != &k->all; l = l->next) {
		struct parked *p = (struct parked *)((char *)l - offsetof(struct parked, all));

		if (p->state == PARK_ROOM || p->state == PARK_BYTES)
			make_ready(p);
	}
	k->stopping = true;
	pthread_cond_broadcast(&k->ready_one);
	pthread_cond_broadcast(&k->look_now);
}

void park_stop(struct mount *m)
{
	struct park *k = m->park;

	if (!k)
		return;
	mount_lock(m);
	end_all(k);
	mount_unlock(m);
	for (unsigned i = 0; i < k->threads_n; i++)
		(void)pthread_join(k->threads[i], NULL);
	if (k->looks)
		(void)pthread_join(k->looker, NULL);
	mount_lock(m);
	m->park = NULL;
	mount_unlock(m);
	(void)pthread_cond_destroy(&k->ready_one);
	(void)pthread_cond_destroy(&k->look_now);
	free(k);
}
