/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed runs, block by block.  Nothing is read under the lock: two threads that miss the same block
 * both read it, and one of the two results is kept.
 */
#include "store/packed.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "store/run_out.h"

/* A block that is in memory, in the list from newest to longest unused. */
struct slot {
	struct run *run; /* NULL: not in memory */
	struct slot *newer, *older;
};

struct packed {
	int refs; /* atomic */
	/* fixed */
	uint8_t secret[STORE_SECRET_BYTES];
	struct run_ref where;
	/* set once, under lock; once has_index (atomic) is seen no lock is needed */
	bool has_index;
	struct block_index index;
	/* under lock */
	pthread_mutex_t lock;
	struct slot *slots; /* one a block */
	struct slot *newest, *oldest;
	size_t bytes;
};

struct packed *packed_new(const struct store_format *fmt, const struct run_ref *ref)
{
	struct packed *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct packed){.refs = 1, .where = *ref, .lock = PTHREAD_MUTEX_INITIALIZER};
	memcpy(p->secret, fmt->secret, sizeof(p->secret));
	return p;
}

struct packed *packed_ref(struct packed *p)
{
	if (p)
		__atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
	return p;
}

void packed_unref(struct packed *p)
{
	if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (size_t i = 0; p->slots && i < p->index.n; i++)
		run_unref(p->slots[i].run);
	free(p->slots);
	block_index_fini(&p->index);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

const struct run_ref *packed_where(const struct packed *p)
{
	return &p->where;
}

/* ---- the index ---- */

static bool has_index(const struct packed *p)
{
	return __atomic_load_n(&p->has_index, __ATOMIC_ACQUIRE);
}

int packed_set_index(struct packed *p, const uint8_t *stored, struct fault *f)
{
	scoped(block_index_fini) struct block_index ix = BLOCK_INDEX_EMPTY;
	scoped(free) struct slot *slots = NULL;
	int rc = block_index_decode(p->secret, &p->where, stored, &ix, f);

	if (rc < 0)
		return rc;
	slots = calloc(ix.n + 1, sizeof(*slots));
	if (!slots)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for %zu blocks", ix.n);
	pthread_mutex_lock(&p->lock);
	if (!p->has_index) {
		p->index = ix;
		p->slots = take(&slots);
		ix = BLOCK_INDEX_EMPTY;
		__atomic_store_n(&p->has_index, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static int need_index(struct packed *p, struct block_source *src, struct fault *f)
{
	const struct place *at = &p->where.index;
	scoped(free) uint8_t *stored = NULL;
	int rc;

	if (has_index(p))
		return 0;
	stored = malloc(at->stored);
	if (!stored)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for an index");
	rc = src->get(src, at->pack, at->offset, at->stored, stored, f);
	return rc < 0 ? rc : packed_set_index(p, stored, f);
}

/* ---- the cache ---- */

static void list_remove(struct packed *p, struct slot *s)
{
	*(s->newer ? &s->newer->older : &p->newest) = s->older;
	*(s->older ? &s->older->newer : &p->oldest) = s->newer;
	s->newer = s->older = NULL;
}

static void list_add(struct packed *p, struct slot *s)
{
	s->older = p->newest;
	*(s->older ? &s->older->newer : &p->oldest) = s;
	p->newest = s;
}

/* A reference to block i if it is in memory. */
static struct run *cache_get(struct packed *p, size_t i)
{
	struct slot *s = &p->slots[i];
	struct run *r;

	pthread_mutex_lock(&p->lock);
	r = run_ref(s->run);
	if (r) {
		list_remove(p, s);
		list_add(p, s);
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

static void cache_add(struct packed *p, size_t i, struct run *r)
{
	struct slot *s = &p->slots[i];

	pthread_mutex_lock(&p->lock);
	if (!s->run) {
		s->run = run_ref(r);
		p->bytes += run_bytes(r);
		list_add(p, s);
	}
	while (p->bytes > PACKED_CACHE_MAX && p->oldest != p->newest) {
		struct slot *last = p->oldest;

		list_remove(p, last);
		p->bytes -= run_bytes(last->run);
		run_unref(take(&last->run));
	}
	pthread_mutex_unlock(&p->lock);
}

/* Block i from its stored bytes; the caller's reference. */
static int decode(struct packed *p, size_t i, const uint8_t *stored, struct run **out,
		  struct fault *f)
{
	char key[PACK_KEY_MAX];
	int rc = block_decode(p->secret, &p->index, i, stored, out, f);

	if (rc < 0) {
		pack_key(p->index.v[i].place.pack, key);
		return f ? fault_in(f, "%s", key) : rc;
	}
	cache_add(p, i, *out);
	return 0;
}

/* ---- one item ---- */

static int read_block(struct packed *p, struct block_source *src, size_t i, struct run **out,
		      struct fault *f)
{
	const struct place *at = &p->index.v[i].place;
	scoped(free) uint8_t *stored = NULL;
	int rc;

	*out = cache_get(p, i);
	if (*out)
		return 0;
	stored = malloc(at->stored);
	if (!stored)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for a block");
	rc = src->get(src, at->pack, at->offset, at->stored, stored, f);
	return rc < 0 ? rc : decode(p, i, stored, out, f);
}

int packed_find(struct packed *p, struct block_source *src, const uint8_t *key, size_t key_len,
		struct run **held, struct run_item *out, struct fault *f)
{
	scoped(run_unref) struct run *r = NULL;
	int rc = need_index(p, src, f);

	if (rc < 0 || p->index.n == 0)
		return rc;
	rc = read_block(p, src, block_index_seek(&p->index, key, key_len), &r, f);
	if (rc < 0 || !run_find(r, key, key_len, out))
		return rc;
	*held = take(&r);
	return 1;
}

/* ---- a walk ---- */

/* Behind the last block that one range from w->next on brings. */
static size_t range_end(const struct packed_walk *w)
{
	const struct block_index *ix = &w->p->index;
	size_t end = block_stretch(ix, w->next, w->end, PACKED_READ_MAX), along;

	if (end < w->end)
		return end;
	along = block_stretch(ix, w->next, w->along, PACKED_ALONG_MAX);
	return along > end ? along : end;
}

/* What came along is looked at by nobody now: if it is bad, who asks for it will hear so. */
static void keep_along(struct packed_walk *w)
{
	const struct block_index *ix = &w->p->index;

	for (size_t i = w->end; i < w->ahead_end; i++) {
		scoped(run_unref) struct run *r = cache_get(w->p, i);

		if (!r)
			(void)decode(w->p, i,
				     w->ahead + (ix->v[i].place.offset -
						 ix->v[w->ahead_first].place.offset),
				     &r, NULL);
	}
}

/* Read block w->next and the neighbours behind it that the walk will come to. */
static int read_ahead(struct packed_walk *w, struct fault *f)
{
	const struct block_index *ix = &w->p->index;
	const struct place *at = &ix->v[w->next].place;
	size_t end = range_end(w);
	size_t len = block_span(ix, w->next, end);
	int rc;

	free(take(&w->ahead));
	w->ahead_first = w->ahead_end = 0;
	w->ahead = malloc(len);
	if (!w->ahead)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to read %zu bytes of blocks",
				 len);
	rc = w->src->get(w->src, at->pack, at->offset, len, w->ahead, f);
	if (rc < 0)
		return rc;
	w->ahead_first = w->next;
	w->ahead_end = end;
	keep_along(w);
	return 0;
}

static int next_block(struct packed_walk *w, struct run **out, struct fault *f)
{
	const struct block_index *ix = &w->p->index;
	size_t i = w->next;
	int rc = 0;

	*out = cache_get(w->p, i);
	if (*out)
		return 0;
	if (i < w->ahead_first || i >= w->ahead_end)
		rc = read_ahead(w, f);
	if (rc < 0)
		return rc;
	return decode(w->p, i,
		      w->ahead + (ix->v[i].place.offset - ix->v[w->ahead_first].place.offset), out,
		      f);
}

static int more(struct cursor *c, struct fault *f)
{
	struct packed_walk *w = c->arg;

	/* The first block may hold nothing of the prefix, when its keys all come before. */
	while (c->i == c->end && w->next < w->end) {
		struct run *r = NULL;
		int rc = next_block(w, &r, f);

		if (rc < 0)
			return rc;
		run_unref(w->held);
		w->held = r;
		w->next++;
		c->run = r;
		c->i = run_seek(r, w->prefix, w->prefix_len);
		c->end = run_seek_past(r, w->prefix, w->prefix_len);
	}
	return 0;
}

int packed_walk_init(struct packed_walk *w, struct packed *p, struct block_source *src,
		     const uint8_t *prefix, size_t prefix_len, size_t near_len, struct fault *f)
{
	int rc = need_index(p, src, f);

	if (rc < 0)
		return rc;
	*w = (struct packed_walk){
		.cursor = {.more = more, .arg = w},
		.p = packed_ref(p),
		.src = src,
		.prefix_len = prefix_len,
		.end = block_index_seek_past(&p->index, prefix, prefix_len),
		.along = block_index_seek_past(&p->index, prefix, near_len),
	};
	memcpy(w->prefix, prefix, prefix_len);
	if (w->end > 0)
		w->next = block_index_seek(&p->index, prefix, prefix_len);
	return 0;
}

void packed_walk_fini(struct packed_walk *w)
{
	packed_unref(w->p);
	run_unref(w->held);
	free(w->ahead);
	*w = PACKED_WALK_EMPTY;
}
