/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the loop: what loop.c asks of a backend.  A backend knows file descriptors and file
 * requests; timers, wake-ups and work stand on these (a timerfd, an eventfd, threads).
 */
#ifndef HOLDFAST_BASE_LOOP_OPS_H
#define HOLDFAST_BASE_LOOP_OPS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "base/timers.h"
#include "base/workers.h"

struct loop_ops {
	const char *name;

	/* Fails with the kernel's errno: io_uring may be forbidden or missing. */
	int (*open)(struct loop *l, void **out);
	/* Nothing is outstanding any more. */
	void (*close)(void *backend);

	/* events != w->priv.events; the backend keeps w->priv. */
	int (*watch)(void *backend, struct loop_watch *w, unsigned events);
	/* r->priv.write says which; counts in l->outstanding until done(). */
	void (*file)(void *backend, struct loop_file *r);
	/* One round: wait until something is there (unless `block`: just look), run its handlers. */
	void (*wait)(void *backend, bool block);
	/* Forget every watch but `keep`; try to end every file request early. */
	void (*cancel)(void *backend, const struct loop_watch *keep);
};

extern const struct loop_ops loop_ops_uring;
extern const struct loop_ops loop_ops_epoll;

struct loop {
	/* fixed after loop_new() */
	const struct loop_ops *ops;
	void *backend;
	struct workers *workers;

	/* loop thread */
	size_t outstanding; /* file requests and work whose done() was not called yet */
	struct timers timers;
	uint64_t alarm_ns; /* what the timerfd is set to; 0: off */
	struct loop_watch alarm;
	struct loop_watch wake;

	/* any thread */
	atomic_bool stop;
	atomic_bool closing;

	/* any thread, under post_lock */
	pthread_mutex_t post_lock;
	struct loop_call *posts;
	struct loop_call **posts_end;
};

#endif
