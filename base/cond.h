/* SPDX-License-Identifier: Apache-2.0 */
/* Condition variables whose bounds are on the monotonic clock, as all our times are. */
#ifndef HOLDFAST_BASE_COND_H
#define HOLDFAST_BASE_COND_H

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait(3) until at_ns of clock_mono() of the system; 0: for ever.  0 or ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns);

#endif
