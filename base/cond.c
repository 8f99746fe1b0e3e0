/* SPDX-License-Identifier: Apache-2.0 */
/* See cond.h. */
#include "base/cond.h"

#include <time.h>

#include "base/clock.h"

void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t a;

	(void)pthread_condattr_init(&a);
	(void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &a);
	(void)pthread_condattr_destroy(&a);
}

int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns)
{
	const struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};

	return at_ns ? pthread_cond_timedwait(cond, lock, &at) : pthread_cond_wait(cond, lock);
}
