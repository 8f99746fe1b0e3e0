/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes on a store, files in memory, and uploads and fetches that a test waits for. */
#ifndef HOLDFAST_TESTS_UNIT_LANE_RIG_H
#define HOLDFAST_TESTS_UNIT_LANE_RIG_H

#include <stdio.h>
#include <sys/mman.h>

#include "fs/lane/lane.h"
#include "tests/unit/lane/fake_store.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

struct rig {
	struct store *store;
	struct store_format format;
	struct lanes *lanes;
	_Atomic uint64_t names;
	struct fault f;
};

static inline uint64_t rig_name(void *arg)
{
	struct rig *g = arg;

	return (UINT64_C(7) << 34) + ++g->names;
}

static inline struct rig *rig_new(const char *uri, unsigned lanes, bool compress)
{
	struct rig *g = calloc(1, sizeof(*g));
	struct lanes_conf conf = {
		.format = &g->format,
		.lanes = lanes,
		.pack_name = rig_name,
		.arg = g,
		.compress = compress,
	};

	for (size_t i = 0; i < sizeof(g->format.secret); i++)
		g->format.secret[i] = (uint8_t)(i * 7 + 1);
	if (store_new(uri, &g->store, &g->f) == 0) {
		conf.store = g->store;
		if (lanes_new(&conf, &g->lanes, &g->f) == 0)
			return g;
	}
	fprintf(stderr, "rig: %s\n", g->f.text);
	abort();
}

static inline void rig_free(struct rig *g)
{
	lanes_free(g->lanes);
	store_free(g->store);
	free(g);
}

/* ---- content ---- */

static inline uint64_t rig_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static inline void rig_fill(uint8_t *data, size_t len, uint64_t seed)
{
	seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	for (size_t i = 0; i < len; i += 8) {
		uint64_t x = rig_random(&seed);

		memcpy(data + i, &x, len - i < 8 ? len - i : 8);
	}
}

static inline uint8_t *rig_bytes(size_t len, uint64_t seed)
{
	uint8_t *data = malloc(len ? len : 1);

	rig_fill(data, len, seed);
	return data;
}

static inline int rig_file(const void *data, size_t len)
{
	int fd = memfd_create("content", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
		abort();
	return fd;
}

/* ---- waiting ---- */

struct done {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n;
};
#define DONE_NONE                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static inline void done_one(struct done *d)
{
	pthread_mutex_lock(&d->lock);
	d->n++;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

static inline void done_wait(struct done *d, unsigned n)
{
	pthread_mutex_lock(&d->lock);
	while (d->n < n)
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

static inline void rig_upload_done(struct upload *u)
{
	done_one(u->arg);
}

/* Hand u in and wait; fd, len and how are set. */
static inline int rig_upload(struct rig *g, struct upload *u)
{
	struct done d = DONE_NONE;

	u->urgent = true;
	u->done = rig_upload_done;
	u->arg = &d;
	lanes_upload(g->lanes, u);
	done_wait(&d, 1);
	return u->rc;
}

/* ---- reading back ---- */

struct rig_read {
	struct done done;
	uint8_t *to;
	_Atomic unsigned items;
	int refuse; /* what deliver() returns */
};

static inline int rig_deliver(struct fetch *x, struct fetch_item *i, const uint8_t *data,
			      size_t len)
{
	struct rig_read *r = x->arg;

	if (r->to && r->refuse == 0)
		memcpy(r->to + i->off, data, len);
	return r->refuse;
}

static inline void rig_item_done(struct fetch *x, struct fetch_item *i)
{
	struct rig_read *r = x->arg;

	r->items++;
}

static inline void rig_fetch_done(struct fetch *x)
{
	struct rig_read *r = x->arg;

	done_one(&r->done);
}

/* A fetch of every chunk of `from`; what is zero or inline is put into `to` now. */
static inline void rig_want(const struct extents *from, uint8_t *to, struct fetch *x,
			    struct rig_read *r)
{
	uint64_t off = 0;

	*r = (struct rig_read){.done = DONE_NONE, .to = to};
	*x = (struct fetch){
		.items = calloc(from->n + 1, sizeof(struct fetch_item)),
		.deliver = rig_deliver,
		.item_done = rig_item_done,
		.done = rig_fetch_done,
		.arg = r,
	};
	for (size_t i = 0; i < from->n; off += from->v[i++].length) {
		const struct extent *e = &from->v[i];

		if (e->kind == EXTENT_CHUNK)
			x->items[x->n++] = (struct fetch_item){.extent = e, .off = off};
		else if (e->kind == EXTENT_ZERO)
			memset(to + off, 0, e->length);
		else
			memcpy(to + off, e->data, e->length);
	}
}

static inline int rig_fetch(struct rig *g, const struct extents *from, uint8_t *to, struct fault *f)
{
	struct rig_read r;
	struct fetch x;

	rig_want(from, to, &x, &r);
	lanes_fetch(g->lanes, &x);
	done_wait(&r.done, 1);
	free(x.items);
	if (f)
		*f = x.fault;
	return x.rc;
}

#endif
