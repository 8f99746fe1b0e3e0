/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that go: chunks that the store has make room.  First they are absent, in the journal and for every
 * reader; then their blocks are given back, by content_punch() or by whoever writes before that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/param.h>

#include "fs/cache/content_priv.h"

#define BLOCK UINT64_C(4096) /* a file system gives back whole ones */

/* The same bytes, at the same place in the store. */
static bool is_same(const struct map_entry *a, const struct map_entry *b)
{
	return a->off == b->off && a->e.kind == EXTENT_CHUNK && b->e.kind == EXTENT_CHUNK &&
	       a->e.length == b->e.length && hash_equal(&a->e.hash, &b->e.hash) &&
	       a->e.place.pack == b->e.place.pack && a->e.place.offset == b->e.place.offset;
}

/* Is it here, and may it go? */
static bool may_go(const struct content *c, const struct map_entry *m)
{
	uint64_t end = map_entry_end(m);
	size_t i = map_find(c->map, m->off);

	return i < map_count(c->map) && is_same(&c->map->v[i], m) && end <= c->size &&
	       !ranges_has(&c->absent, m->off, end) && !views_need(c, m->off, end);
}

/* The journal first: what it calls present and the file lacks would be read as zeros after a restart. */
static int give_up(struct content *c, uint64_t from, uint64_t to)
{
	const struct content_notes *n = &c->dir->notes;
	int rc = n->absent ? n->absent(n->arg, c->id, c->version, from, to - from) : 0;

	if (rc == 0)
		rc = ranges_add(&c->absent, from, to);
	if (rc == 0)
		rc = ranges_add(&c->going, from, to);
	if (rc < 0)
		return rc;
	if (c->told < to)
		c->told = to;
	return 0;
}

/* Under lock.  Neighbours in one go. */
static int give_up_all(struct content *c, const struct map_entry *v, size_t n)
{
	struct range r = {.from = 0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (!may_go(c, &v[i]))
			continue;
		if (r.to != v[i].off) {
			rc = r.from < r.to ? give_up(c, r.from, r.to) : 0;
			r.from = v[i].off;
		}
		r.to = map_entry_end(&v[i]);
	}
	if (rc == 0 && r.from < r.to)
		rc = give_up(c, r.from, r.to);
	content_refresh(c, NEVER);
	atomic_fetch_add(&c->punches, 1); /* behind `whole`: see content_read() */
	return rc;
}

int content_give_up(struct content *c, const struct map_entry *v, size_t n)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = give_up_all(c, v, n);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Blocks that it shares with what went before go with it. */
static struct range whole_blocks(const struct content *c, struct range r)
{
	uint64_t from = r.from / BLOCK * BLOCK, to = roundup(r.to, BLOCK);

	if (ranges_has(&c->absent, from, r.from))
		r.from = from;
	if (ranges_has(&c->absent, r.to, MIN(to, c->size)))
		r.to = to;
	return r;
}

int punch_now(struct content *c)
{
	struct range r = {.to = 0};
	int rc = 0;

	while (ranges_next(&c->going, r.to, NEVER, &r)) {
		struct range b = whole_blocks(c, r);

		if (content_file(c) < 0 ||
		    fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b.from,
			      (off_t)(b.to - b.from)) < 0)
			rc = -errno;
	}
	ranges_fini(&c->going);
	content_recount(c);
	return rc;
}

int content_punch(struct content *c)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (c->going.n)
		rc = punch_now(c);
	pthread_mutex_unlock(&c->lock);
	content_rest(c);
	return rc;
}
