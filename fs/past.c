/* SPDX-License-Identifier: Apache-2.0 */
/* See past.h. */
#include "fs/past.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "fs/evict.h"
#include "fs/node.h"
#include "fs/room.h"

#define FULL_NS NS_PER_S /* a disk that was full is not tried again for so long */

struct past_chunk {
	UT_hash_handle hh;
	struct list used; /* oldest first */
	struct hash128 hash;
	uint64_t length;
	unsigned holds;
	uint8_t data[];
};

struct past {
	pthread_mutex_t lock;
	struct past_chunk *by_hash;
	struct list used;
	_Atomic uint64_t bytes; /* read without it, too */
	uint64_t asked_ns, came_ns; /* the last of them was */
};

struct past *past_new(void)
{
	struct past *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	(void)pthread_mutex_init(&p->lock, NULL);
	list_init(&p->used);
	return p;
}

static struct past_chunk *oldest(const struct past *p)
{
	return (struct past_chunk *)((char *)p->used.next - offsetof(struct past_chunk, used));
}

static void chunk_free(struct past *p, struct past_chunk *c)
{
	HASH_DEL(p->by_hash, c);
	list_remove(&c->used);
	p->bytes -= c->length;
	free(c);
}

void past_free(struct past *p)
{
	if (!p)
		return;
	while (list_on(&p->used))
		chunk_free(p, oldest(p));
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- when ---- */

bool past_wanted(struct mount *m)
{
	return atomic_load(&m->room) != ROOM_FREE || evict_over(m) ||
	       mount_now(m) < atomic_load(&m->past_until_ns);
}

void past_disk_is_full(struct mount *m)
{
	atomic_store(&m->past_until_ns, mount_now(m) + FULL_NS);
	room_disk_is_full(m);
}

/* ---- chunks, under lock ---- */

static struct past_chunk *find(const struct past *p, const struct extent *e)
{
	struct past_chunk *c;

	HASH_FIND(hh, p->by_hash, &e->hash, sizeof(e->hash), c);
	return c && c->length == e->length ? c : NULL;
}

static void used(struct past *p, struct past_chunk *c)
{
	list_remove(&c->used);
	list_append(&p->used, &c->used);
	p->asked_ns = clock_mono(&clock_system);
}

/* Those that nobody holds, oldest first, until there is room for so many bytes. */
static void make_room(struct past *p, uint64_t bytes)
{
	struct list *l, *next;

	for (l = p->used.next; l != &p->used && p->bytes + bytes > PAST_MOST; l = next) {
		struct past_chunk *c =
			(struct past_chunk *)((char *)l - offsetof(struct past_chunk, used));

		next = l->next;
		if (!c->holds)
			chunk_free(p, c);
	}
}

static void enter(struct past *p, struct past_chunk *c)
{
	make_room(p, c->length);
	HASH_ADD(hh, p->by_hash, hash, sizeof(c->hash), c);
	p->bytes += c->length;
	used(p, c);
	p->came_ns = p->asked_ns;
}

int past_put(struct past *p, const struct extent *e, const uint8_t *data, bool spare)
{
	struct past_chunk *c = malloc(sizeof(*c) + e->length);

	if (!c)
		return -ENOMEM;
	*c = (struct past_chunk){.hash = e->hash, .length = e->length};
	memcpy(c->data, data, e->length);
	pthread_mutex_lock(&p->lock);
	if (!find(p, e) && (!spare || p->bytes + e->length <= PAST_MOST)) {
		enter(p, c);
		c = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	free(c);
	return 0;
}

int past_get(struct past *p, const struct extent *e, uint64_t from, uint8_t *to, size_t len)
{
	struct past_chunk *c;

	pthread_mutex_lock(&p->lock);
	c = find(p, e);
	if (c) {
		memcpy(to, c->data + from, len);
		used(p, c);
	}
	pthread_mutex_unlock(&p->lock);
	return c ? 0 : -ENODATA;
}

bool past_any(const struct past *p)
{
	return p->bytes;
}

bool past_has(struct past *p, const struct extent *e)
{
	bool has;

	pthread_mutex_lock(&p->lock);
	has = find(p, e);
	pthread_mutex_unlock(&p->lock);
	return has;
}

void past_age(struct past *p, uint64_t before_ns, bool room)
{
	pthread_mutex_lock(&p->lock);
	if ((room ? p->came_ns : p->asked_ns) < before_ns)
		make_room(p, PAST_MOST);
	pthread_mutex_unlock(&p->lock);
}

/* ---- holding ---- */

void past_hold(struct past *p, struct past_held *h, const struct extent *e)
{
	struct past_chunk *c, **v = realloc(h->v, (h->n + 1) * sizeof(struct past_chunk *));

	if (!v)
		return;
	h->v = v;
	pthread_mutex_lock(&p->lock);
	c = find(p, e);
	if (c) {
		c->holds++;
		v[h->n++] = c;
	}
	pthread_mutex_unlock(&p->lock);
}

void past_let_go(struct past *p, struct past_held *h)
{
	if (!h->v)
		return;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < h->n; i++)
		h->v[i]->holds--;
	if (p->bytes > PAST_MOST)
		make_room(p, 0);
	pthread_mutex_unlock(&p->lock);
	free(h->v);
	*h = (struct past_held){.n = 0};
}
