/* SPDX-License-Identifier: Apache-2.0 */
/* References: bytes of one content that are those which the store has for another. */
#include <errno.h>
#include <sys/param.h>
#include <unistd.h>

#include "fs/cache/content_priv.h"

#define REFER_MOST 1024 /* extents at once: a GiB, and some 100 KB of the journal */

/* Is it here, and short?  Then to copy it costs less than to fetch it later. */
static bool is_cheap(const struct content *c, const struct map_entry *m)
{
	return m->e.length < CHUNK_MIN && !ranges_meets(&c->absent, m->off, map_entry_end(m));
}

/* Puts a copy behind what there is.  `m` as far as it lies in [from, to). */
static int add_inside(const struct map_entry *m, uint64_t from, uint64_t to, struct extents *out)
{
	struct extent cut = m->e;
	const struct extents one = {.v = &cut, .n = 1};
	scoped(extents_fini) struct extents copy = EXTENTS_EMPTY;
	int rc;

	cut.length = MIN(map_entry_end(m), to) - MAX(m->off, from);
	rc = extents_copy(&one, &copy);
	if (rc == 0) {
		rc = extents_add(out, &copy.v[0]);
		copy.v[0].data = NULL; /* handed over */
	}
	return rc;
}

/* c: whose cheap ones are left out; NULL: none are. */
static int stored(const struct map *map, const struct content *c, uint64_t from, uint64_t to,
		  uint64_t *at, struct extents *out)
{
	uint64_t end = to;
	int rc = 0;

	*at = to;
	for (size_t i = map_find(map, from); rc == 0 && i < map_count(map); i++) {
		const struct map_entry *m = &map->v[i];
		bool inside = m->e.kind == EXTENT_ZERO ||
			      (m->off >= from && map_entry_end(m) <= to);
		bool usable = m->off < to && inside && !(c && is_cheap(c, m));

		if (out->n && (!usable || m->off != end || out->n == REFER_MOST))
			break;
		if (m->off >= to)
			break;
		if (!usable)
			continue;
		if (!out->n)
			*at = MAX(m->off, from);
		rc = add_inside(m, from, to, out);
		end = map_entry_end(m);
	}
	return rc;
}

int content_stored(struct content *c, uint64_t off, uint64_t len, uint64_t *at, struct extents *out)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	uint64_t first;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = stored(c->map, c, off, off + len, &first, &x);
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		return rc;
	*at = first;
	*out = x;
	x = EXTENTS_EMPTY;
	return 0;
}

/* *map with x instead of what it has in [off, end); *low: the lowest offset that it lost. */
static int map_with(struct map **map, uint64_t off, uint64_t end, const struct extents *x,
		    uint64_t *low)
{
	int rc = map_own(map, 1);

	*low = rc == 0 ? map_remove(*map, off, end) : NEVER;
	for (size_t i = 0; rc == 0 && i < x->n; off += x->v[i++].length)
		rc = map_put(map, off, &x->v[i]);
	return rc;
}

/* Behind what is told here nothing is known to be present. */
static void note(struct content *c, uint64_t off, const struct extents *x)
{
	const struct content_notes *n = &c->dir->notes;

	for (size_t i = 0; n->mapped && i < x->n; off += x->v[i++].length)
		n->mapped(n->arg, c->id, c->version, 0, off, &x->v[i]);
	if (c->told < off)
		c->told = off;
}

/*
 * What the file holds there stays, and is of no account any more: somebody may be reading it.
 * All that can fail comes before anybody sees a change.
 */
static int refer(struct content *c, uint64_t off, uint64_t end, const struct extents *x)
{
	scoped(map_unref) struct map *map = map_ref(c->map);
	scoped(ranges_fini) struct ranges absent = RANGES_EMPTY;
	uint64_t size = content_size(c), low = NEVER;
	int rc = off < size && content_cuts_absent(c, off, end) ? -ENODATA : 0;

	if (rc == 0)
		rc = map_with(&map, off, end, x, &low);
	if (rc == 0)
		rc = ranges_copy(&c->absent, &absent);
	if (rc == 0)
		rc = ranges_add(&absent, off, end);
	if (rc == 0)
		rc = views_preserve(c, off, MIN(end, size));
	if (rc == 0 && end > size) {
		content_grow_begin(c);
		rc = ftruncate(content_file(c), (off_t)end) < 0 ? -errno : 0;
	}
	if (rc < 0)
		return rc;

	note(c, off, x);
	atomic_store_explicit(&c->whole, false, memory_order_release); /* before the size is seen */
	atomic_store_explicit(&c->in_sequence, false, memory_order_release);
	map_unref(c->map);
	c->map = take(&map);
	ranges_fini(&c->absent);
	c->absent = absent;
	absent = RANGES_EMPTY;
	c->refers = true;
	if (off < size)
		content_note_written(c, off, MIN(end, size));
	if (end > size)
		atomic_store_explicit(&c->size, end, memory_order_release);
	atomic_fetch_add(&c->writes, 1);
	content_refresh(c, MIN(low, off));
	return 0;
}

int content_refer(struct content *c, uint64_t off, const struct extents *x)
{
	uint64_t len = extents_bytes(x);
	int rc;

	if (len == 0)
		return 0;
	if (off > INT64_MAX - len)
		return -EFBIG;
	pthread_mutex_lock(&c->lock);
	rc = refer(c, off, off + len, x);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int content_referred(struct content *c, struct need *out)
{
	scoped(need_fini) struct need n = {.n = 0};
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; c->refers && rc == 0 && i < map_count(c->map); i++) {
		const struct map_entry *m = &c->map->v[i];

		if (ranges_meets(&c->absent, m->off, map_entry_end(m)))
			rc = need_add(&n, m->off, &m->e);
	}
	pthread_mutex_unlock(&c->lock);
	if (rc == 0) {
		*out = n;
		n = (struct need){.n = 0};
	}
	return rc;
}

/* ---- a view as a content of its own ---- */

#define COPY_PIECE (1u << 20)

static int view_stored(struct view *v, uint64_t off, uint64_t *at, struct extents *out)
{
	int rc;

	pthread_mutex_lock(&v->content->lock);
	rc = stored(v->map, NULL, off, v->size, at, out);
	pthread_mutex_unlock(&v->content->lock);
	return rc;
}

/* The next piece, from the end of `to` on. */
static int copy_some(struct view *v, struct content *to, uint8_t *piece)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	uint64_t off = content_size(to), at;
	int rc = view_stored(v, off, &at, &x);
	ssize_t n;

	if (rc < 0)
		return rc;
	if (at == off)
		return content_refer(to, off, &x);
	n = view_read(v, piece, MIN(at - off, COPY_PIECE), off);
	if (n > 0)
		n = content_write(to, piece, (size_t)n, off, false, NULL);
	return n < 0 ? (int)n : 0;
}

int view_copy(struct view *v, struct content *to)
{
	scoped(free) uint8_t *piece = malloc(COPY_PIECE);
	int rc = piece ? 0 : -ENOMEM;

	while (rc == 0 && content_size(to) < v->size)
		rc = copy_some(v, to, piece);
	return rc;
}
