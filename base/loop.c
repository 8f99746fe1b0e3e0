/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop, as far as it does not depend on the backend: choice of it, timers, wake-ups, work, and
 * an end that leaves nothing behind.
 */
#include "base/loop.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop_ops.h"

/* ---- wake-ups: posted calls and finished work ---- */

/* Thread: any. */
static void kick(void *arg)
{
	struct loop *l = arg;
	uint64_t one = 1;

	if (write(l->wake.fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the loop is as good as awake */
}

void loop_post(struct loop *l, struct loop_call *c)
{
	bool first;

	c->next = NULL;
	pthread_mutex_lock(&l->post_lock);
	first = !l->posts;
	*l->posts_end = c;
	l->posts_end = &c->next;
	pthread_mutex_unlock(&l->post_lock);
	if (first) /* otherwise the loop was kicked already and has not looked yet */
		kick(l);
}

static struct loop_call *take_posts(struct loop *l)
{
	struct loop_call *c;

	pthread_mutex_lock(&l->post_lock);
	c = l->posts;
	l->posts = NULL;
	l->posts_end = &l->posts;
	pthread_mutex_unlock(&l->post_lock);
	return c;
}

static bool run_posts(struct loop *l)
{
	struct loop_call *c = take_posts(l);
	bool any = c;

	while (c) {
		struct loop_call *next = c->next; /* c is the caller's as soon as it is called */

		c->fn(c);
		c = next;
	}
	return any;
}

static void finish_work(struct loop *l)
{
	struct loop_work *w = workers_take(l->workers);

	while (w) {
		struct loop_work *next = w->next;

		l->outstanding--;
		w->done(w);
		w = next;
	}
}

static void woken(struct loop_watch *w, unsigned events)
{
	struct loop *l = w->arg;
	uint64_t count;

	/* Cleared before looking: what comes after the look kicks again. */
	if (read(w->fd, &count, sizeof(count)) < 0)
		return; /* somebody cleared it and looked */
	(void)run_posts(l);
	finish_work(l);
}

void loop_work(struct loop *l, struct loop_work *w)
{
	l->outstanding++;
	workers_hand(l->workers, w);
}

/* ---- files ---- */

void loop_pread(struct loop *l, struct loop_file *r)
{
	r->priv.write = false;
	l->ops->file(l->backend, r);
}

void loop_pwrite(struct loop *l, struct loop_file *r)
{
	r->priv.write = true;
	l->ops->file(l->backend, r);
}

/* ---- watches ---- */

int loop_watch(struct loop *l, struct loop_watch *w, unsigned events)
{
	if (events == w->priv.events)
		return 0;
	return l->ops->watch(l->backend, w, events);
}

/* ---- timers ---- */

void loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t at_ns)
{
	loop_timer_stop(l, t);
	timers_add(&l->timers, t, at_ns);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
	if (t->priv.running)
		timers_remove(&l->timers, t);
}

/* A few a round: a timer that always restarts itself for now must leave sockets their turn. */
static void run_timers(struct loop *l)
{
	struct loop_timer *t = l->timers.first;
	uint64_t now_ns = t ? clock_mono(&clock_system) : 0;

	for (int left = 64; left > 0 && t && t->priv.at_ns <= now_ns; left--) {
		timers_remove(&l->timers, t);
		t->fire(t);
		t = l->timers.first;
	}
}

static void set_alarm(struct loop *l, uint64_t at_ns)
{
	struct itimerspec at = {
		.it_value.tv_sec = (time_t)(at_ns / NS_PER_S),
		.it_value.tv_nsec = (long)(at_ns % NS_PER_S),
	};

	l->alarm_ns = at_ns;
	(void)timerfd_settime(l->alarm.fd, TFD_TIMER_ABSTIME, &at, NULL); /* cannot fail */
}

static void alarmed(struct loop_watch *w, unsigned events)
{
	struct loop *l = w->arg;

	set_alarm(l, 0); /* the timers themselves run at the end of this round */
}

/*
 * Whether the loop may sleep until the alarm.  An alarm that is too early is left alone: libcurl
 * moves its timers with each transfer, and a wake-up too many now and then is cheaper than a system
 * call each time.
 */
static bool may_sleep(struct loop *l)
{
	const struct loop_timer *t = l->timers.first;

	if (!t)
		return true;
	if (t->priv.at_ns <= clock_mono(&clock_system))
		return false;
	if (l->alarm_ns == 0 || t->priv.at_ns < l->alarm_ns)
		set_alarm(l, t->priv.at_ns);
	return true;
}

/* ---- running ---- */

static void run_round(struct loop *l)
{
	l->ops->wait(l->backend, may_sleep(l));
	run_timers(l); /* last: what they decide is looked at before the next sleep */
}

void loop_run(struct loop *l)
{
	while (!atomic_exchange(&l->stop, false))
		run_round(l);
}

void loop_run_until(struct loop *l, const bool *flag)
{
	while (!*flag)
		run_round(l);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	kick(l);
}

const char *loop_backend_name(const struct loop *l)
{
	return l->ops->name;
}

/* ---- beginning and end ---- */

static enum loop_backend backend_wanted(enum loop_backend want)
{
	const char *env = getenv("HOLDFAST_LOOP");

	if (want != LOOP_AUTO || !env)
		return want;
	if (strcmp(env, loop_ops_epoll.name) == 0)
		return LOOP_EPOLL;
	return strcmp(env, loop_ops_uring.name) == 0 ? LOOP_URING : LOOP_AUTO;
}

static int open_with(struct loop *l, const struct loop_ops *ops)
{
	int rc = ops->open(l, &l->backend);

	if (rc == 0)
		l->ops = ops;
	return rc;
}

static int open_backend(struct loop *l, enum loop_backend want)
{
	int rc = -ENOSYS;

	want = backend_wanted(want);
	if (want != LOOP_EPOLL)
		rc = open_with(l, &loop_ops_uring);
	if (rc < 0 && want != LOOP_URING)
		rc = open_with(l, &loop_ops_epoll);
	return rc;
}

static int open_fd(struct loop *l, struct loop_watch *w, int fd,
		   void (*ready)(struct loop_watch *w, unsigned events))
{
	if (fd < 0)
		return -errno;
	*w = (struct loop_watch){.fd = fd, .ready = ready, .arg = l};
	return loop_watch(l, w, POLLIN);
}

static int open_all(struct loop *l, enum loop_backend want)
{
	int rc = open_backend(l, want);

	if (rc < 0)
		return rc;
	rc = workers_new(kick, l, &l->workers);
	if (rc < 0)
		return rc;
	rc = open_fd(l, &l->wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), woken);
	if (rc < 0)
		return rc;
	return open_fd(l, &l->alarm, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), alarmed);
}

int loop_new(enum loop_backend want, struct loop **out, struct fault *f)
{
	scoped(loop_free) struct loop *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return fault_set(f, -ENOMEM, FAULT_SOON, "event loop: out of memory");
	l->wake.fd = l->alarm.fd = -1;
	l->posts_end = &l->posts;
	pthread_mutex_init(&l->post_lock, NULL);
	rc = open_all(l, want);
	if (rc < 0)
		return fault_errno(f, rc, "event loop%s", want == LOOP_URING ? " on io_uring" : "");
	*out = take(&l);
	return 0;
}

/* Handlers may post and hand in more as they end; hence until nothing is left. */
static void drain(struct loop *l)
{
	atomic_store(&l->closing, true);
	l->ops->cancel(l->backend, &l->wake);
	do {
		l->ops->wait(l->backend, l->outstanding > 0);
	} while (run_posts(l) || l->outstanding > 0);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->workers && l->wake.priv.events)
		drain(l);
	workers_free(l->workers);
	if (l->backend)
		l->ops->close(l->backend);
	fd_close(l->wake.fd);
	fd_close(l->alarm.fd);
	pthread_mutex_destroy(&l->post_lock);
	free(l);
}
