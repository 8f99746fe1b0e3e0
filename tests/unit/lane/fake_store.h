/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in memory that fails on purpose: it stands in for the kind "s3", which a test that
 * includes this does not link.  One a program; its knobs are turned under its lock.
 */
#ifndef HOLDFAST_TESTS_UNIT_LANE_FAKE_STORE_H
#define HOLDFAST_TESTS_UNIT_LANE_FAKE_STORE_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/objects.h"

struct fake_object {
	char *key;
	uint8_t *data;
	size_t len;
	struct fake_object *next;
};

struct fake_try {
	struct object_req *r; /* NULL: cancelled */
	struct loop *loop;
	struct loop_call call;
	struct fake_try *next;
};

static struct fake {
	pthread_mutex_t lock;
	struct fake_object *objects;
	struct fake_try *held;
	/* knobs */
	bool hold;           /* PUTs wait for fake_release() */
	bool hold_gets;      /* and GETs */
	unsigned fail_puts;  /* so many PUTs fail with fail_code, fail_class */
	int fail_code;
	enum fault_retry fail_class;
	unsigned lose_replies; /* so many PUTs are stored and answered like a reset */
	unsigned stall_gets; /* so many GETs are not answered before fake_release() */
	unsigned bend_gets;  /* so many GETs get one wrong byte, in the middle */
	/* counts */
	unsigned puts, gets, in_flight, most_in_flight;
	uint64_t put_bytes;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- under lock ---- */

static inline struct fake_object *fake_find(const char *key)
{
	struct fake_object *o = fake.objects;

	while (o && strcmp(o->key, key) != 0)
		o = o->next;
	return o;
}

static inline int fake_store_object(struct object_req *r)
{
	struct fake_object *o = fake_find(r->key);
	size_t len = 0;

	if (o)
		return fault_set(&r->fault, -EEXIST, FAULT_RELOAD, "PUT %s: 412", r->key);
	o = calloc(1, sizeof(*o));
	o->key = strdup(r->key);
	for (int i = 0; i < r->iovs; i++)
		len += r->iov[i].iov_len;
	o->data = malloc(len ? len : 1);
	for (int i = 0; i < r->iovs; i++) {
		memcpy(o->data + o->len, r->iov[i].iov_base, r->iov[i].iov_len);
		o->len += r->iov[i].iov_len;
	}
	o->next = fake.objects;
	fake.objects = o;
	fake.put_bytes += len;
	return 0;
}

static inline int fake_put(struct object_req *r)
{
	if (fake.fail_puts > 0) {
		fake.fail_puts--;
		return fault_set(&r->fault, fake.fail_code, fake.fail_class, "PUT %s: no", r->key);
	}
	if (fake.lose_replies > 0) {
		fake.lose_replies--;
		(void)fake_store_object(r);
		return fault_set(&r->fault, -ECONNRESET, FAULT_SOON, "PUT %s: reset", r->key);
	}
	return fake_store_object(r);
}

static inline int fake_get(struct object_req *r)
{
	const struct fake_object *o = fake_find(r->key);

	if (!o)
		return fault_set(&r->fault, -ENOENT, FAULT_FINAL, "GET %s: 404", r->key);
	if (r->off + r->len > o->len)
		return fault_set(&r->fault, -EIO, FAULT_FINAL, "GET %s: short", r->key);
	r->got = r->len;
	if (!r->dest)
		buf_add(&r->body, o->data + r->off, r->len);
	else
		memcpy(r->dest, o->data + r->off, r->len);
	if (r->dest && fake.bend_gets > 0) {
		fake.bend_gets--;
		r->dest[r->len / 2] ^= 1;
	}
	return 0;
}

/* ---- the kind ---- */

static inline void fake_answer(struct loop_call *c)
{
	struct fake_try *t = c->arg;
	struct object_req *r = t->r;

	if (r) {
		pthread_mutex_lock(&fake.lock);
		fake.in_flight--;
		r->priv.run = NULL;
		r->rc = r->op == OBJECT_PUT ? fake_put(r) : fake_get(r);
		pthread_mutex_unlock(&fake.lock);
		object_tried(r);
	}
	free(t);
}

static inline int fake_start(void *me, struct object_req *r)
{
	struct fake_try *t = calloc(1, sizeof(*t));
	bool hold;

	t->r = r;
	t->loop = me;
	t->call = (struct loop_call){.fn = fake_answer, .arg = t};
	r->priv.run = t;
	pthread_mutex_lock(&fake.lock);
	fake.puts += r->op == OBJECT_PUT;
	fake.gets += r->op == OBJECT_GET;
	if (++fake.in_flight > fake.most_in_flight)
		fake.most_in_flight = fake.in_flight;
	hold = r->op == OBJECT_PUT ? fake.hold : fake.hold_gets || fake.stall_gets > 0;
	if (r->op == OBJECT_GET && fake.stall_gets > 0)
		fake.stall_gets--;
	if (hold) {
		t->next = fake.held;
		fake.held = t;
	}
	pthread_mutex_unlock(&fake.lock);
	if (!hold)
		loop_post(me, &t->call);
	return 0;
}

static inline void fake_cancel(void *me, struct object_req *r)
{
	struct fake_try *t = r->priv.run;
	struct fake_try **at = &fake.held;

	pthread_mutex_lock(&fake.lock);
	fake.in_flight--;
	while (*at && *at != t)
		at = &(*at)->next;
	t->r = NULL;
	if (*at) {
		*at = t->next;
		free(t);
	} /* else it is posted and ends by itself */
	pthread_mutex_unlock(&fake.lock);
}

static inline int fake_share(const struct store_uri *uri, void **out, struct fault *f)
{
	*out = NULL;
	return 0;
}

static inline void fake_unshare(void *shared)
{
}

static inline int fake_open(void *shared, struct loop *l, void **out, struct fault *f)
{
	*out = l;
	return 0;
}

static inline void fake_close(void *me)
{
}

const struct object_ops objects_s3 = {
	.scheme = "s3",
	.share = fake_share,
	.unshare = fake_unshare,
	.open = fake_open,
	.close = fake_close,
	.start = fake_start,
	.cancel = fake_cancel,
};

/* ---- for tests ---- */

/* Answer what is held, and hold no more. */
static inline void fake_release(void)
{
	struct fake_try *t;

	pthread_mutex_lock(&fake.lock);
	t = fake.held;
	fake.held = NULL;
	fake.hold = fake.hold_gets = false;
	while (t) {
		struct fake_try *next = t->next;

		loop_post(t->loop, &t->call); /* under the lock: its lane cannot cancel it */
		t = next;
	}
	pthread_mutex_unlock(&fake.lock);
}

static inline void fake_reset(void)
{
	while (fake.objects) {
		struct fake_object *o = fake.objects;

		fake.objects = o->next;
		free(o->key);
		free(o->data);
		free(o);
	}
	fake = (struct fake){.lock = PTHREAD_MUTEX_INITIALIZER};
}

#define FAKE_LOOK(expr) \
	({ \
		__typeof__(expr) seen_; \
		pthread_mutex_lock(&fake.lock); \
		seen_ = (expr); \
		pthread_mutex_unlock(&fake.lock); \
		seen_; \
	})

#endif
