/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop on io_uring.  Nothing is handed to the kernel where it is asked for: slots whose watch
 * changed and new file requests are listed; one system call a round submits all of it and waits.
 *
 * U1: a slot has at most one poll in the kernel, and `armed` says for what.
 * U2: whenever a poll is answered or withdrawn the generation moves on, so an answer is used once.
 * U3: a slot is free for others only when no poll of it is in the kernel.
 * U4: a buffer is the kernel's from the request until its completion; a cancelled one as well.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>

#include "base/loop_ops.h"
#include "base/watches.h"

enum {
	RING_ENTRIES = 256,
	DROP = 2,                    /* user_data of requests whose completion means nothing */
	SETUP_COOP_TASKRUN = 1 << 8, /* Linux 5.19: no interrupt when a completion is ready */
	MOST_BYTES = 1 << 30,        /* a length is 32 bits wide there; short counts are allowed */
};

struct file_list {
	struct loop_file *first;
	struct loop_file *last;
};

struct uring {
	struct loop *loop;
	struct io_uring ring;
	struct watches watches;
	uint32_t due;             /* slots to compare with what the kernel has */
	struct file_list waiting; /* file requests not submitted yet */
	struct file_list flying;  /* file requests in the kernel */
};

static void file_append(struct file_list *list, struct loop_file *r)
{
	r->priv.next = NULL;
	r->priv.prev = list->last;
	if (list->last)
		list->last->priv.next = r;
	else
		list->first = r;
	list->last = r;
}

static void file_remove(struct file_list *list, struct loop_file *r)
{
	if (r->priv.next)
		r->priv.next->priv.prev = r->priv.prev;
	else
		list->last = r->priv.prev;
	if (r->priv.prev)
		r->priv.prev->priv.next = r->priv.next;
	else
		list->first = r->priv.next;
}

static int ring_open(struct io_uring *ring)
{
	int rc = io_uring_queue_init(RING_ENTRIES, ring, SETUP_COOP_TASKRUN);

	if (rc == -EINVAL)
		rc = io_uring_queue_init(RING_ENTRIES, ring, 0);
	if (rc < 0)
		return rc;
	if (ring->features & IORING_FEAT_EXT_ARG) /* stands for Linux 5.11, which has all we use */
		return 0;
	io_uring_queue_exit(ring);
	return -ENOSYS;
}

static int uring_open(struct loop *l, void **out)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	u->loop = l;
	rc = ring_open(&u->ring);
	if (rc < 0) {
		free(u);
		return rc;
	}
	*out = u;
	return 0;
}

static void uring_close(void *backend)
{
	struct uring *u = backend;

	io_uring_queue_exit(&u->ring);
	watches_fini(&u->watches);
	free(u);
}

static void look_at(struct uring *u, uint32_t slot)
{
	struct watch_slot *s = watches_at(&u->watches, slot);

	if (s->due)
		return;
	s->due = true;
	s->next = u->due;
	u->due = slot;
}

static void unwatch(struct uring *u, struct loop_watch *w)
{
	watches_at(&u->watches, w->priv.slot)->watch = NULL;
	look_at(u, w->priv.slot);
	w->priv.slot = 0;
	w->priv.events = 0;
}

static int uring_watch(void *backend, struct loop_watch *w, unsigned events)
{
	struct uring *u = backend;

	if (events == 0) {
		unwatch(u, w);
		return 0;
	}
	if (!w->priv.slot && watches_add(&u->watches, w) < 0)
		return -ENOMEM;
	w->priv.events = events;
	look_at(u, w->priv.slot);
	return 0;
}

static void uring_file(void *backend, struct loop_file *r)
{
	struct uring *u = backend;

	u->loop->outstanding++;
	file_append(&u->waiting, r);
}

/* NULL if the kernel takes no more before completions are read. */
static struct io_uring_sqe *room(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (sqe)
		return sqe;
	(void)io_uring_submit(&u->ring); /* whether it worked, the next line sees */
	return io_uring_get_sqe(&u->ring);
}

static bool withdraw_poll(struct uring *u, uint32_t slot)
{
	struct watch_slot *s = watches_at(&u->watches, slot);
	struct io_uring_sqe *sqe = room(u);

	if (!sqe)
		return false;
	/* By hand: the type of io_uring_prep_poll_remove()'s argument changed in liburing 2.2. */
	io_uring_prep_rw(IORING_OP_POLL_REMOVE, sqe, -1, NULL, 0, 0);
	sqe->addr = watches_name(&u->watches, slot);
	sqe->user_data = DROP;
	s->armed = 0;
	s->generation++;
	return true;
}

static bool arm_poll(struct uring *u, uint32_t slot)
{
	struct watch_slot *s = watches_at(&u->watches, slot);
	struct io_uring_sqe *sqe = room(u);

	if (!sqe)
		return false;
	io_uring_prep_poll_add(sqe, s->watch->fd, s->watch->priv.events);
	sqe->user_data = watches_name(&u->watches, slot);
	s->armed = s->watch->priv.events;
	return true;
}

/* Make the kernel's poll what the watch wants; false if there was no room for it. */
static bool settle(struct uring *u, uint32_t slot)
{
	struct watch_slot *s = watches_at(&u->watches, slot);
	unsigned want = s->watch ? s->watch->priv.events : 0;

	if (s->armed && s->armed != want && !withdraw_poll(u, slot))
		return false;
	if (want && !s->armed && !arm_poll(u, slot))
		return false;
	return true;
}

static bool settle_watches(struct uring *u)
{
	while (u->due) {
		uint32_t slot = u->due;
		struct watch_slot *s = watches_at(&u->watches, slot);

		if (!settle(u, slot))
			return false;
		u->due = s->next;
		s->next = 0;
		s->due = false;
		if (!s->watch)
			watches_release(&u->watches, slot);
	}
	return true;
}

static bool submit_files(struct uring *u)
{
	struct loop_file *r;

	while ((r = u->waiting.first)) {
		struct io_uring_sqe *sqe = room(u);
		unsigned len = r->len < MOST_BYTES ? (unsigned)r->len : MOST_BYTES;

		if (!sqe)
			return false;
		io_uring_prep_rw(r->priv.write ? IORING_OP_WRITE : IORING_OP_READ, sqe, r->fd,
				 r->data, len, r->off);
		sqe->user_data = (uintptr_t)r;
		file_remove(&u->waiting, r);
		file_append(&u->flying, r);
	}
	return true;
}

static void poll_answered(struct uring *u, uint64_t name, int res)
{
	uint32_t slot = watches_find(&u->watches, name);
	struct watch_slot *s;

	if (!slot)
		return;
	s = watches_at(&u->watches, slot);
	s->armed = 0;
	s->generation++;
	look_at(u, slot);
	watch_ready(s->watch, res < 0 ? POLLERR : (unsigned)res);
}

static void file_answered(struct uring *u, struct loop_file *r, int res)
{
	/* The kernel's helper was stopped by a signal: again. */
	if (res == -EINTR && !atomic_load(&u->loop->closing)) {
		file_remove(&u->flying, r);
		file_append(&u->waiting, r);
		return;
	}
	file_remove(&u->flying, r);
	u->loop->outstanding--;
	r->done(r, res == -EINTR ? -ECANCELED : res);
}

static void answered(struct uring *u, uint64_t data, int res)
{
	if (data == DROP)
		return;
	if (data & WATCH_TAG)
		poll_answered(u, data, res);
	else
		file_answered(u, (struct loop_file *)(uintptr_t)data, res);
}

static void uring_wait(void *backend, bool block)
{
	struct uring *u = backend;
	bool all = settle_watches(u) && submit_files(u);
	struct io_uring_cqe *cqe;

	/* EINTR, EBUSY, EAGAIN: read what is there and come back. */
	(void)io_uring_submit_and_wait(&u->ring, block && all ? 1 : 0);

	/* Only what is there now, so that timers get their turn. */
	for (unsigned n = io_uring_cq_ready(&u->ring); n > 0; n--) {
		uint64_t data;
		int res;

		if (io_uring_peek_cqe(&u->ring, &cqe) < 0)
			return; /* a handler ran the loop and read them */
		data = cqe->user_data;
		res = cqe->res;
		io_uring_cqe_seen(&u->ring, cqe);
		answered(u, data, res);
	}
}

static void cancel_file(struct uring *u, const struct loop_file *r)
{
	struct io_uring_sqe *sqe = room(u);

	if (!sqe)
		return; /* it ends by itself, only later */
	io_uring_prep_rw(IORING_OP_ASYNC_CANCEL, sqe, -1, r, 0, 0);
	sqe->user_data = DROP;
}

static void uring_cancel(void *backend, const struct loop_watch *keep)
{
	struct uring *u = backend;
	struct loop_file *r;

	for (uint32_t slot = 1; slot <= u->watches.n; slot++) {
		struct loop_watch *w = watches_at(&u->watches, slot)->watch;

		if (w && w != keep)
			unwatch(u, w);
	}
	for (r = u->flying.first; r; r = r->priv.next)
		cancel_file(u, r);
	while ((r = u->waiting.first)) {
		file_remove(&u->waiting, r);
		u->loop->outstanding--;
		r->done(r, -ECANCELED);
	}
}

const struct loop_ops loop_ops_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.watch = uring_watch,
	.file = uring_file,
	.wait = uring_wait,
	.cancel = uring_cancel,
};
