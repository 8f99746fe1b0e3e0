/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of its own that asks somebody from time to time: its waits, pauses and requests block,
 * and end when the owner says so.  For what reads best as straight-line code and has nobody to keep
 * waiting (creds*.c, notice/).
 *
 * Thread: the asking thread's, ask_start() and ask_end() apart, which are the owner's.
 */
#ifndef HOLDFAST_BASE_ASK_H
#define HOLDFAST_BASE_ASK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/http.h"
#include "base/loop.h"

struct ask {
	/* fixed after ask_start() */
	void (*run)(struct ask *a); /* returns soon once a wait has said false */
	/* Instead of run(): there is no loop, or no client. */
	void (*failed)(struct ask *a, const struct fault *f);
	void *arg;
	const char *ca_bundle; /* of the client; NULL: libcurl's own */
	pthread_t thread;
	/* asking thread, while run() runs */
	struct loop *loop;
	struct http_client *http;
	bool stopping;
	bool *waiting; /* what ask_wait() waits for */
	/* under lock */
	pthread_mutex_t lock;
	struct loop *wakes; /* the loop, while it can be woken */
	bool ended;
	struct loop_call stop;
};

/*
 * run, failed, arg and ca_bundle are set; starts the thread `name` (at most 15 bytes), which opens
 * loop and client and then is in run(); all signals are blocked there.  a stays where it is until
 * ask_end(). Fails: what pthread_create(3) says.
 */
int ask_start(struct ask *a, const char *name);
/* Ends whatever the thread waits for, and the thread. */
void ask_end(struct ask *a);

/* Run the loop until *flag; false: the owner ends it. */
bool ask_wait(struct ask *a, bool *flag);
bool ask_pause(struct ask *a, uint64_t ns);
/* 0 if a whole reply came, whatever its status; else r->rc, with f filled. */
int ask_http(struct ask *a, struct http_req *r, struct fault *f);
/* Seconds since 1970 when the reply was made, by the answerer's clock; false: it does not say
 * (`Date:`). */
bool ask_reply_said(const struct http_req *r, int64_t *out_s);

#endif
