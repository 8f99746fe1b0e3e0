/* SPDX-License-Identifier: Apache-2.0 */
/* See aside.h. */
#include "base/aside.h"

#include <signal.h>

static void *run(void *arg)
{
	struct aside *a = arg;

	a->rc = a->call(a->arg);
	return NULL;
}

/* Signals are for the threads of main. */
void aside_start(struct aside *a, int (*call)(void *arg), void *arg)
{
	sigset_t all, before;

	*a = (struct aside){.call = call, .arg = arg};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	a->started = pthread_create(&a->thread, NULL, run, a) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int aside_end(struct aside *a)
{
	if (a->started)
		pthread_join(a->thread, NULL);
	else
		(void)run(a);
	return a->rc;
}
