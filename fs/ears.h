/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel, as far as it is told unasked what to forget.
 *
 * I1: it is told with no lock held that a request could want: it may wait for one to be answered.
 * I2: nothing is told any more once ears_disarm() has returned.
 *
 * Thread: any that answers no requests.
 */
#ifndef HOLDFAST_FS_EARS_H
#define HOLDFAST_FS_EARS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ears_calls {
	void (*name)(void *arg, uint64_t dir, const char *name);
	void (*inode)(void *arg, uint64_t id, int64_t from); /* from < 0: attributes only; else bytes from there on too */
	void *arg;
};

struct ears {
	pthread_mutex_t lock; /* held for one call into the kernel */
	struct ears_calls calls;
	bool armed;
};

void ears_init(struct ears *e);
void ears_fini(struct ears *e);
void ears_arm(struct ears *e, const struct ears_calls *calls);
/* While requests are still answered: it waits for what is just being told. */
void ears_disarm(struct ears *e);
void ears_name(struct ears *e, uint64_t dir, const char *name);
void ears_inode(struct ears *e, uint64_t id, int64_t from);

#endif
