/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one thread waits for sockets, files, timers and wake-ups.  Two backends, chosen
 * at loop_new(): io_uring, or epoll with a few helper threads where io_uring is refused (Docker's
 * default seccomp, kernel.io_uring_disabled).
 *
 * Thread: every function is the loop thread's, loop_post() and loop_stop() excepted.
 * Handlers run on the loop thread, do one step and return.  A handler may add, change and remove
 * any watch, timer or itself.
 */
#ifndef HOLDFAST_BASE_LOOP_H
#define HOLDFAST_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/scope.h"

struct loop;

enum loop_backend {
	LOOP_AUTO, /* io_uring if the kernel lets us; HOLDFAST_LOOP=epoll|io_uring overrides */
	LOOP_URING,
	LOOP_EPOLL,
};

int loop_new(enum loop_backend want, struct loop **out, struct fault *f);
/* Cancels what is outstanding and waits for the kernel to let go of every buffer; handlers of
 * cancelled file requests are called with -ECANCELED.  Posted calls and work handed in are run to
 * their end.  Watches and timers are forgotten. */
void loop_free(struct loop *l);
SCOPE_PTR(struct loop, loop_free)
const char *loop_backend_name(const struct loop *l); /* "io_uring" or "epoll" */

/* Run handlers until loop_stop(), or (loop_run_until) until one has made *flag true.  A stop that
 * comes early is kept for the next loop_run(). */
void loop_run(struct loop *l);
void loop_run_until(struct loop *l, const bool *flag);
void loop_stop(struct loop *l); /* thread: any */

/* Sockets.  Level-triggered: `events` is POLLIN|POLLOUT; 0 removes the watch, and the struct is
 * the caller's again.  At most one watch an fd; remove it before the fd is closed.  POLLERR and
 * POLLHUP are reported unasked.  Fails: -ENOMEM; -EBADF, and -EPERM for what cannot be waited for
 * (io_uring reports these two as POLLERR). */
struct loop_watch {
	/* the caller's, fixed while watched */
	int fd;
	void (*ready)(struct loop_watch *w, unsigned events);
	void *arg;
	/* loop's own */
	struct {
		unsigned events;
		uint32_t slot; /* in the loop's table, +1; 0 = not watched */
	} priv;
};
int loop_watch(struct loop *l, struct loop_watch *w, unsigned events);

/* Timers, monotonic.  Starting a running timer moves it; it fires once. */
struct loop_timer {
	void (*fire)(struct loop_timer *t);
	void *arg;
	struct {
		uint64_t at_ns;
		bool running;
		struct loop_timer *child, *next, *prev; /* in the loop's heap */
	} priv;
};
void loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t at_ns);
void loop_timer_stop(struct loop *l, struct loop_timer *t);

/* Wake-ups: run fn(arg) on the loop thread.  Thread: any.  In order of posting.  The struct is
 * the caller's and in use until fn has been called. */
struct loop_call {
	void (*fn)(struct loop_call *c);
	void *arg;
	struct loop_call *next;
};
void loop_post(struct loop *l, struct loop_call *c);

/* Blocking work (link, fsync, a child): run(w) on a helper thread of this loop, then done(w) on
 * the loop thread.  In no order. */
struct loop_work {
	void (*run)(struct loop_work *w);
	void (*done)(struct loop_work *w);
	void *arg;
	struct loop_work *next;
};
void loop_work(struct loop *l, struct loop_work *w);

/* Files.  The buffer belongs to the request until done(): rc is a byte count or a negative errno;
 * short counts are as from pread/pwrite. */
struct loop_file {
	/* the caller's, unchanged until done() */
	int fd;
	void *data;
	size_t len;
	uint64_t off;
	void (*done)(struct loop_file *r, ssize_t rc);
	void *arg;
	/* loop's own */
	struct {
		bool write;
		struct loop_file *next, *prev; /* io_uring: waiting for the kernel, or in it */
		struct loop *loop;             /* epoll */
		struct loop_work work;
		ssize_t rc;
	} priv;
};
void loop_pread(struct loop *l, struct loop_file *r);
void loop_pwrite(struct loop *l, struct loop_file *r);

#endif
