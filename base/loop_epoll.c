/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop on epoll, for kernels and containers that refuse io_uring.  Files are read and written
 * by the worker threads: epoll has no notion of a file that is not ready.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/loop_ops.h"
#include "base/watches.h"

struct epoll {
	struct loop *loop;
	int fd;
	struct watches watches;
};

static int epoll_open(struct loop *l, void **out)
{
	struct epoll *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->loop = l;
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0) {
		free(e);
		return -errno;
	}
	*out = e;
	return 0;
}

static void epoll_close(void *backend)
{
	struct epoll *e = backend;

	fd_close(e->fd);
	watches_fini(&e->watches);
	free(e);
}

static void unwatch(struct epoll *e, struct loop_watch *w)
{
	(void)epoll_ctl(e->fd, EPOLL_CTL_DEL, w->fd, NULL); /* closed already: gone already */
	watches_release(&e->watches, w->priv.slot);
	w->priv.slot = 0;
	w->priv.events = 0;
}

static int epoll_watch(void *backend, struct loop_watch *w, unsigned events)
{
	struct epoll *e = backend;
	struct epoll_event ev = {.events = events}; /* EPOLLIN is POLLIN, and so on */
	int op = w->priv.slot ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == 0) {
		unwatch(e, w);
		return 0;
	}
	if (!w->priv.slot && watches_add(&e->watches, w) < 0)
		return -ENOMEM;
	ev.data.u64 = watches_name(&e->watches, w->priv.slot);
	if (epoll_ctl(e->fd, op, w->fd, &ev) < 0) {
		int rc = -errno;

		unwatch(e, w);
		return rc;
	}
	w->priv.events = events;
	return 0;
}

/* On a worker's thread. */
static void file_run(struct loop_work *work)
{
	struct loop_file *r = work->arg;
	ssize_t rc;

	if (atomic_load(&r->priv.loop->closing)) {
		r->priv.rc = -ECANCELED;
		return;
	}
	if (r->priv.write)
		rc = pwrite(r->fd, r->data, r->len, (off_t)r->off);
	else
		rc = pread(r->fd, r->data, r->len, (off_t)r->off);
	r->priv.rc = rc < 0 ? -errno : rc;
}

static void file_done(struct loop_work *work)
{
	struct loop_file *r = work->arg;

	r->done(r, r->priv.rc);
}

static void epoll_file(void *backend, struct loop_file *r)
{
	struct epoll *e = backend;

	r->priv.loop = e->loop;
	r->priv.work = (struct loop_work){.run = file_run, .done = file_done, .arg = r};
	loop_work(e->loop, &r->priv.work);
}

static void epoll_wait_round(void *backend, bool block)
{
	struct epoll *e = backend;
	struct epoll_event ev[64];
	int n = epoll_wait(e->fd, ev, 64, block ? -1 : 0);

	for (int i = 0; i < n; i++) {
		uint32_t slot = watches_find(&e->watches, ev[i].data.u64);

		if (slot)
			watch_ready(watches_at(&e->watches, slot)->watch, ev[i].events);
	}
}

/* File requests end by themselves: `closing` is set. */
static void epoll_cancel(void *backend, const struct loop_watch *keep)
{
	struct epoll *e = backend;

	for (uint32_t slot = 1; slot <= e->watches.n; slot++) {
		struct loop_watch *w = watches_at(&e->watches, slot)->watch;

		if (w && w != keep)
			unwatch(e, w);
	}
}

const struct loop_ops loop_ops_epoll = {
	.name = "epoll",
	.open = epoll_open,
	.close = epoll_close,
	.watch = epoll_watch,
	.file = epoll_file,
	.wait = epoll_wait_round,
	.cancel = epoll_cancel,
};
