/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking call on a thread of its own, while the caller makes another.  For syncs: a disk takes
 * two that come together in one go.  Starting the thread takes some 30 us.
 *
 *	struct aside a;
 *
 *	aside_start(&a, sync_folder, folder);
 *	rc = sync_file(file);
 *	rc2 = aside_end(&a);
 *
 * Thread: both calls are one thread's, and a stays where it is between them.
 */
#ifndef HOLDFAST_BASE_ASIDE_H
#define HOLDFAST_BASE_ASIDE_H

#include <pthread.h>
#include <stdbool.h>

struct aside {
	int (*call)(void *arg);
	void *arg;
	pthread_t thread;
	bool started;
	int rc;
};

/* Where no thread can be had the call is made by aside_end(). */
void aside_start(struct aside *a, int (*call)(void *arg), void *arg);
/* Waits for it; what it returned. */
int aside_end(struct aside *a);

#endif
