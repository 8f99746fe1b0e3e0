/* SPDX-License-Identifier: Apache-2.0 */
/* See ask.h. */
#include "base/ask.h"

#include <errno.h>
#include <signal.h>

#include <curl/curl.h>

/* ---- waiting ---- */

bool ask_wait(struct ask *a, bool *flag)
{
	a->waiting = flag;
	if (!a->stopping && !*flag)
		loop_run_until(a->loop, flag);
	a->waiting = NULL;
	return !a->stopping;
}

static void pause_over(struct loop_timer *t)
{
	bool *over = t->arg;

	*over = true;
}

bool ask_pause(struct ask *a, uint64_t ns)
{
	bool over = false;
	struct loop_timer t = {.fire = pause_over, .arg = &over};
	bool open;

	loop_timer_start(a->loop, &t, clock_mono(&clock_system) + ns);
	open = ask_wait(a, &over);
	loop_timer_stop(a->loop, &t);
	return open;
}

/* ---- HTTP ---- */

/* Two flags, since a wait also ends when the owner says so. */
struct exchange {
	bool woken;
	bool complete;
};

static void exchange_done(struct http_req *r)
{
	struct exchange *x = r->arg;

	x->complete = true;
	x->woken = true;
}

int ask_http(struct ask *a, struct http_req *r, struct fault *f)
{
	struct exchange x = {.complete = false};

	r->done = exchange_done;
	r->arg = &x;
	http_start(a->http, r);
	if (!ask_wait(a, &x.woken) && !x.complete)
		http_cancel(a->http, r);
	if (r->rc < 0 && f)
		*f = r->fault;
	return r->rc;
}

/* curl_getdate() knows the three forms of a Date header and asks no locale. */
bool ask_reply_said(const struct http_req *r, int64_t *out_s)
{
	char date[64];
	time_t said;

	if (!http_header(r, "date", date, sizeof(date)))
		return false;
	said = curl_getdate(date, NULL);
	if (said > 0)
		*out_s = (int64_t)said;
	return said > 0;
}

/* ---- the thread ---- */

static void on_stop(struct loop_call *call)
{
	struct ask *a = call->arg;

	a->stopping = true;
	if (a->waiting)
		*a->waiting = true;
}

/* From here on, to the second call with NULL, ask_end() finds a loop to wake. */
static void let_wake(struct ask *a, struct loop *l)
{
	pthread_mutex_lock(&a->lock);
	a->wakes = l;
	a->stopping |= a->ended;
	pthread_mutex_unlock(&a->lock);
}

static void *ask_main(void *arg)
{
	struct ask *a = arg;
	struct fault f = FAULT_NONE;

	if (loop_new(LOOP_AUTO, &a->loop, &f) < 0 ||
	    http_client_new(a->loop, a->ca_bundle, &a->http, &f) < 0) {
		a->failed(a, &f);
	} else {
		let_wake(a, a->loop);
		a->run(a);
		let_wake(a, NULL);
	}
	http_client_free(a->http);
	loop_free(a->loop);
	return NULL;
}

/* Signals are for main's threads. */
int ask_start(struct ask *a, const char *name)
{
	sigset_t all;
	sigset_t old;
	int rc;

	a->stop = (struct loop_call){.fn = on_stop, .arg = a};
	pthread_mutex_init(&a->lock, NULL); /* does not fail on Linux */
	(void)sigfillset(&all);             /* cannot fail */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&a->thread, NULL, ask_main, a);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		(void)pthread_setname_np(a->thread, name); /* for top; it works without */
	else
		pthread_mutex_destroy(&a->lock);
	return -rc;
}

void ask_end(struct ask *a)
{
	pthread_mutex_lock(&a->lock);
	a->ended = true;
	if (a->wakes)
		loop_post(a->wakes, &a->stop);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_mutex_destroy(&a->lock);
}
