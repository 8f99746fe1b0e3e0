/* SPDX-License-Identifier: Apache-2.0 */
/* See ears.h. */
#include "fs/ears.h"

void ears_init(struct ears *e)
{
	*e = (struct ears){.armed = false};
	(void)pthread_mutex_init(&e->lock, NULL);
}

void ears_fini(struct ears *e)
{
	(void)pthread_mutex_destroy(&e->lock);
}

void ears_arm(struct ears *e, const struct ears_calls *calls)
{
	pthread_mutex_lock(&e->lock);
	e->calls = *calls;
	e->armed = true;
	pthread_mutex_unlock(&e->lock);
}

void ears_disarm(struct ears *e)
{
	pthread_mutex_lock(&e->lock);
	e->armed = false;
	pthread_mutex_unlock(&e->lock);
}

void ears_name(struct ears *e, uint64_t dir, const char *name)
{
	pthread_mutex_lock(&e->lock);
	if (e->armed)
		e->calls.name(e->calls.arg, dir, name);
	pthread_mutex_unlock(&e->lock);
}

void ears_inode(struct ears *e, uint64_t id, int64_t from)
{
	pthread_mutex_lock(&e->lock);
	if (e->armed)
		e->calls.inode(e->calls.arg, id, from);
	pthread_mutex_unlock(&e->lock);
}
