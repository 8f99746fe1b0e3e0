/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads: one queue in, one queue out, one lock for both. */
#include "base/workers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum { MOST_THREADS = 4 }; /* they wait for a disk; more would only wait together */

struct queue {
	struct loop_work *first;
	struct loop_work **end;
};

struct workers {
	/* fixed after workers_new() */
	void (*kick)(void *arg);
	void *arg;
	/* loop thread */
	pthread_t threads[MOST_THREADS];
	size_t n;
	/* any thread, under lock */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct queue in;
	struct queue out;
	size_t waiting; /* handed in, not yet picked up */
	size_t idle;
	bool ending;
};

static void push(struct queue *q, struct loop_work *w)
{
	w->next = NULL;
	*q->end = w;
	q->end = &w->next;
}

static struct loop_work *pop(struct queue *q)
{
	struct loop_work *w = q->first;

	if (!w)
		return NULL;
	q->first = w->next;
	if (!q->first)
		q->end = &q->first;
	return w;
}

/* The next piece of work; NULL when there will be no more. */
static struct loop_work *pick_up(struct workers *ws)
{
	struct loop_work *w;

	pthread_mutex_lock(&ws->lock);
	ws->idle++;
	while (!ws->in.first && !ws->ending)
		pthread_cond_wait(&ws->more, &ws->lock);
	ws->idle--;
	w = pop(&ws->in);
	if (w)
		ws->waiting--;
	pthread_mutex_unlock(&ws->lock);
	return w;
}

static void run_one(struct workers *ws, struct loop_work *w)
{
	bool first;

	w->run(w);
	pthread_mutex_lock(&ws->lock);
	first = !ws->out.first;
	push(&ws->out, w);
	pthread_mutex_unlock(&ws->lock);
	if (first) /* otherwise the loop was kicked already and has not looked yet */
		ws->kick(ws->arg);
}

static void *work(void *arg)
{
	struct workers *ws = arg;
	struct loop_work *w;

	while ((w = pick_up(ws)))
		run_one(ws, w);
	return NULL;
}

static void run_here(struct workers *ws)
{
	struct loop_work *w = pick_up(ws);

	if (w)
		run_one(ws, w);
}

/* Signals are for the program's own threads to see. */
static void start_thread(struct workers *ws)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&ws->threads[ws->n], NULL, work, ws) == 0)
		ws->n++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int workers_new(void (*kick)(void *arg), void *arg, struct workers **out)
{
	struct workers *ws = calloc(1, sizeof(*ws));

	if (!ws)
		return -ENOMEM;
	ws->kick = kick;
	ws->arg = arg;
	ws->in.end = &ws->in.first;
	ws->out.end = &ws->out.first;
	pthread_mutex_init(&ws->lock, NULL);
	pthread_cond_init(&ws->more, NULL);
	*out = ws;
	return 0;
}

void workers_free(struct workers *ws)
{
	if (!ws)
		return;
	pthread_mutex_lock(&ws->lock);
	ws->ending = true;
	pthread_cond_broadcast(&ws->more);
	pthread_mutex_unlock(&ws->lock);
	for (size_t i = 0; i < ws->n; i++)
		pthread_join(ws->threads[i], NULL);
	pthread_cond_destroy(&ws->more);
	pthread_mutex_destroy(&ws->lock);
	free(ws);
}

void workers_hand(struct workers *ws, struct loop_work *w)
{
	bool short_of_hands;

	pthread_mutex_lock(&ws->lock);
	push(&ws->in, w);
	short_of_hands = ++ws->waiting > ws->idle;
	pthread_cond_signal(&ws->more);
	pthread_mutex_unlock(&ws->lock);

	if (short_of_hands && ws->n < MOST_THREADS)
		start_thread(ws);
	if (ws->n == 0) /* no thread to be had: slow is better than never */
		run_here(ws);
}

struct loop_work *workers_take(struct workers *ws)
{
	struct loop_work *w;

	pthread_mutex_lock(&ws->lock);
	w = ws->out.first;
	ws->out.first = NULL;
	ws->out.end = &ws->out.first;
	pthread_mutex_unlock(&ws->lock);
	return w;
}
