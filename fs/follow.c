/* SPDX-License-Identifier: Apache-2.0 */
/* See follow.h. */
#include "fs/follow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"
#include "fs/evict.h"
#include "fs/move.h"
#include "store/log.h"
#include "store/newest.h"

#define GAP_LEAST_NS NS_PER_S
#define GAP_MOST_NS (15 * NS_PER_S)
#define LOOK_DEADLINE_NS (10 * NS_PER_S)
#define SILENT_NS (15 * NS_PER_S) /* a look that takes longer is told of as a failure */
#define READ_ON_MOST_NS (60 * NS_PER_S)

struct follower {
	/* fixed after follow_new() */
	struct mount *m;
	struct loop *loop;
	struct objects *objects;
	struct loop_call stop;
	/* its thread's */
	pthread_t thread;
	bool running;
	uint64_t number; /* the log was read to here */
	uint64_t gap_ns;
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t wake, looked;
	bool ending;
	bool telling; /* the kernel, which may wait for whoever is in follow_read_on(): it does not wait then */
	uint64_t asked, answered; /* by follow_read_on(): looks begun, looks ended */
	uint64_t looking_since_ns, looked_at_ns, failing_since_ns;
	char error[256];
};

/* ---- telling the kernel ---- */

static void tell_one(struct follower *w, const struct tell *t)
{
	if (t->name)
		ears_name(&w->m->ears, t->id, t->name);
	else
		ears_inode(&w->m->ears, t->id, t->from);
}

/* ---- one look ---- */

static int show(struct follower *w, uint64_t target, const struct buf *raw, struct tells *tells, struct fault *f)
{
	struct mount *m = w->m;
	scoped(state_unref) struct state *to = NULL;
	int rc = state_load(w->objects, &m->format, target, raw, &to, f);

	if (rc == 0)
		rc = move_to(m, to, tells, f);
	if (rc < 0)
		return rc;
	log_debug("%s: shows commit %llu", m->opts.uri, (unsigned long long)target);
	return 1;
}

static int read_on(struct follower *w, uint64_t number, struct tells *tells, struct fault *f)
{
	struct mount *m = w->m;
	scoped(newest_fini) struct newest x = NEWEST_EMPTY;
	uint64_t target;
	int rc = newest_read(w->objects, &m->format, number, mount_now(m) + LOOK_DEADLINE_NS, &x, f);

	if (rc < 0)
		return rc;
	target = m->opts.follow == FOLLOW_NEWEST ? newest_state(&x) : newest_good(&x);
	if (target > state_head(m->state)->number) /* I1: a reset's number is above all */
		rc = show(w, target, target == x.head.number ? &x.raw : NULL, tells, f);
	if (rc >= 0)
		w->number = number;
	return rc;
}

static int look(struct follower *w, struct tells *tells, struct fault *f)
{
	uint64_t number;
	int rc = log_newest(w->objects, "log", mount_now(w->m) + LOOK_DEADLINE_NS, &number, f);

	if (rc < 0 || number == w->number)
		return rc;
	if (number < w->number)
		return fault_set(f, -ESTALE, FAULT_FINAL,
				 "the log ends at record %llu, and did at %llu before: is it another store now?",
				 (unsigned long long)number, (unsigned long long)w->number);
	return read_on(w, number, tells, f);
}

static void note(struct follower *w, int rc, const struct fault *f)
{
	uint64_t now = mount_now(w->m);

	w->looking_since_ns = 0;
	if (rc >= 0) {
		w->looked_at_ns = now;
		w->failing_since_ns = 0;
		w->error[0] = '\0';
		return;
	}
	if (!w->failing_since_ns) {
		w->failing_since_ns = now;
		log_warn("%s: cannot follow: %s", w->m->opts.uri, f->text);
	}
	(void)snprintf(w->error, sizeof(w->error), "%s", f->text);
}

int follow_look(struct mount *m, struct fault *f)
{
	struct follower *w = m->follower;
	scoped(tells_fini) struct tells tells = {.v = NULL};
	uint64_t asked;
	int rc;

	pthread_mutex_lock(&w->lock);
	asked = w->asked;
	w->looking_since_ns = mount_now(m);
	pthread_mutex_unlock(&w->lock);
	rc = look(w, &tells, f);
	pthread_mutex_lock(&w->lock);
	if (!w->ending)
		note(w, rc, f);
	w->answered = asked;
	w->telling = true;
	pthread_cond_broadcast(&w->looked);
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < tells.n; i++)
		tell_one(w, &tells.v[i]);
	pthread_mutex_lock(&w->lock);
	w->telling = false;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* ---- the thread ---- */

uint64_t follow_gap(uint64_t gap_ns, bool moved)
{
	if (moved || gap_ns == 0)
		return GAP_LEAST_NS;
	return 2 * gap_ns < GAP_MOST_NS ? 2 * gap_ns : GAP_MOST_NS;
}

/* false: it is to end. */
static bool wait_for_next(struct follower *w)
{
	uint64_t at = mount_now(w->m) + w->gap_ns;
	bool ending;

	pthread_mutex_lock(&w->lock);
	while (!w->ending && w->asked == w->answered && mount_now(w->m) < at)
		(void)cond_wait_until(&w->wake, &w->lock, at);
	ending = w->ending;
	pthread_mutex_unlock(&w->lock);
	return !ending;
}

static void *follow_main(void *arg)
{
	struct follower *w = arg;

	w->gap_ns = follow_gap(0, false);
	while (wait_for_next(w)) {
		struct fault f = FAULT_NONE;

		w->gap_ns = follow_gap(w->gap_ns, follow_look(w->m, &f) > 0);
		evict_to_size(w->m); /* there is no committer that would */
	}
	return NULL;
}

static void stop(struct loop_call *c)
{
	struct follower *w = c->arg;

	objects_stop(w->objects);
}

int follow_new(struct mount *m, uint64_t number, struct fault *f)
{
	struct follower *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return fault_errno(f, -ENOMEM, "follower");
	*w = (struct follower){.m = m, .number = number, .stop = {.fn = stop, .arg = w}, .looked_at_ns = mount_now(m)};
	(void)pthread_mutex_init(&w->lock, NULL);
	cond_init(&w->wake);
	cond_init(&w->looked);
	m->follower = w;
	rc = loop_new(LOOP_AUTO, &w->loop, f);
	return rc < 0 ? rc : objects_open(m->store, w->loop, &w->objects, f);
}

int follow_run(struct mount *m, struct fault *f)
{
	struct follower *w = m->follower;
	int rc;

	if (!w)
		return 0;
	rc = -pthread_create(&w->thread, NULL, follow_main, w);
	if (rc < 0)
		return fault_errno(f, rc, "follower thread");
	w->running = true;
	return 0;
}

static void thread_end(struct follower *w)
{
	if (!w->running)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_broadcast(&w->wake);
	pthread_cond_broadcast(&w->looked);
	pthread_mutex_unlock(&w->lock);
	loop_post(w->loop, &w->stop); /* run by loop_free() at the latest */
	(void)pthread_join(w->thread, NULL);
}

void follow_free(struct mount *m)
{
	struct follower *w = m->follower;

	if (!w)
		return;
	thread_end(w);
	m->follower = NULL;
	objects_close(take(&w->objects));
	loop_free(w->loop);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_cond_destroy(&w->looked);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

/* ---- whoever misses something ---- */

void follow_read_on(struct mount *m)
{
	struct follower *w = m->follower;
	uint64_t ticket, until;

	if (!w || !w->running)
		return;
	until = mount_now(m) + READ_ON_MOST_NS;
	pthread_mutex_lock(&w->lock);
	ticket = ++w->asked;
	pthread_cond_broadcast(&w->wake);
	while (!w->ending && !w->telling && w->answered < ticket && mount_now(m) < until)
		(void)cond_wait_until(&w->looked, &w->lock, until);
	pthread_mutex_unlock(&w->lock);
}

int follow_read_on_for(struct mount *m, const struct node *n)
{
	uint64_t moves;
	bool moved, gone;

	mount_lock(m);
	moves = m->moves;
	gone = n->newer || n->names == 0;
	mount_unlock(m);
	if (gone)
		return -ESTALE;
	follow_read_on(m);
	mount_lock(m);
	moved = m->moves != moves;
	gone = n->newer || n->names == 0;
	mount_unlock(m);
	return gone ? -ESTALE : moved ? 0 : follow_lost(m);
}

int follow_lost(const struct mount *m)
{
	return m->opts.read_only && !m->follower ? -ESTALE : -EIO;
}

/* ---- status ---- */

void follow_status(struct mount *m, struct follow_status *out)
{
	struct follower *w = m->follower;
	uint64_t now = mount_now(m);

	*out = (struct follow_status){.what = !m->opts.read_only ? "" : !w ? "off" : m->opts.follow == FOLLOW_NEWEST ? "newest" : "good"};
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	out->looked_ns = now - w->looked_at_ns;
	out->failing_since_ns = w->failing_since_ns;
	(void)snprintf(out->error, sizeof(out->error), "%s", w->error);
	if (!w->failing_since_ns && w->looking_since_ns && now - w->looking_since_ns > SILENT_NS) {
		out->failing_since_ns = w->looking_since_ns;
		(void)snprintf(out->error, sizeof(out->error), "no answer from the store yet");
	}
	pthread_mutex_unlock(&w->lock);
}
