/* SPDX-License-Identifier: Apache-2.0 */
/* Absent bytes: which of them a read or a write needs, and how they come in. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/param.h>

#include "fs/cache/content_priv.h"

void need_fini(struct need *n)
{
	extents_fini(&n->extents);
	free(n->offs);
	*n = (struct need){.n = 0};
}

/* Not extents_add(), which joins runs of zeros: these are not adjacent. */
int need_add(struct need *n, uint64_t off, const struct extent *e)
{
	const struct extents one = {.v = (struct extent *)e, .n = 1};
	scoped(extents_fini) struct extents copy = EXTENTS_EMPTY;
	uint64_t *offs = realloc(n->offs, (n->n + 1) * sizeof(*offs));
	struct extent *v;

	if (!offs)
		return -ENOMEM;
	n->offs = offs;
	v = realloc(n->extents.v, (n->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	n->extents.v = v;
	if (extents_copy(&one, &copy) < 0)
		return -ENOMEM;
	v[n->n] = copy.v[0];
	copy.v[0].data = NULL; /* handed over */
	n->offs[n->n] = off;
	n->extents.n = n->extents.cap = ++n->n;
	return 0;
}

/*
 * Does a write of [from, to) need this entry's old bytes?  Not if it covers all of it, or it
 * can be cut.
 */
static bool write_needs(const struct content *c, const struct map_entry *m, uint64_t from,
			uint64_t to)
{
	uint64_t end = map_entry_end(m);

	if (m->e.kind == EXTENT_ZERO || !ranges_meets(&c->absent, m->off, end))
		return false;
	return m->off < from || end > to || !ranges_has(&c->absent, m->off, end);
}

static bool read_needs(const struct content *c, const struct map_entry *m, uint64_t from,
		       uint64_t to)
{
	return ranges_meets(&c->absent, MAX(m->off, from), MIN(map_entry_end(m), to));
}

bool content_cuts_absent(struct content *c, uint64_t from, uint64_t to)
{
	if (c->absent.n == 0)
		return false;
	for (size_t i = map_find(c->map, from); i < map_count(c->map) && c->map->v[i].off < to; i++)
		if (write_needs(c, &c->map->v[i], from, to))
			return true;
	return false;
}

/* ---- bytes come in ---- */

/* What a write that failed half-way may have left in an absent run of zeros has to go. */
static int put_zeros(struct content *c, uint64_t from, uint64_t to)
{
	static const uint8_t zeros[4096];

	if (fallocate(content_file(c), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
		      (off_t)(to - from)) == 0)
		return 0;
	for (ssize_t put; from < to; from += (uint64_t)put) {
		put = pwrite_all(content_file(c), zeros, MIN(sizeof(zeros), to - from), from);
		if (put < 0)
			return (int)put;
	}
	return 0;
}

static int put(struct content *c, const uint8_t *data, uint64_t from, uint64_t to)
{
	ssize_t n;

	if (!data)
		return put_zeros(c, from, to);
	n = pwrite_all(content_file(c), data, to - from, from);
	if (n > 0)
		content_account(c, n);
	return n < 0 ? (int)n : 0;
}

/* Absent ones only.  data NULL: zeros. */
static int fill(struct content *c, const uint8_t *data, uint64_t off, uint64_t end)
{
	struct range r;

	if (c->going.n)
		(void)punch_now(c);
	while (ranges_next(&c->absent, off, end, &r)) {
		int rc = put(c, data ? data + (r.from - off) : NULL, r.from, r.to);

		if (rc == 0)
			rc = ranges_remove(&c->absent, r.from, r.to);
		if (rc < 0)
			return rc;
		content_note_present(c, r.from, r.to);
	}
	atomic_fetch_add(&c->writes, 1);
	content_refresh(c, NEVER);
	return 0;
}

int content_fill(struct content *c, const void *data, size_t len, uint64_t off)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	/* Else what others have cut off would look as if it were here. */
	rc = content_is_cut(c) ? -EUCLEAN : fill(c, data, off, off + len);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- what is needed ---- */

static int need_entry(struct content *c, const struct map_entry *m, struct need *out)
{
	switch (m->e.kind) {
	case EXTENT_ZERO:
		return fill(c, NULL, m->off, map_entry_end(m));
	case EXTENT_INLINE:
		return fill(c, m->e.data, m->off, map_entry_end(m));
	default:
		return need_add(out, m->off, &m->e);
	}
}

static int needs(struct content *c, uint64_t off, uint64_t end, bool for_write, struct need *out)
{
	int short_rc = 0;
	struct range r;

	for (size_t i = map_find(c->map, off); i < map_count(c->map) && c->map->v[i].off < end;
	     i++) {
		const struct map_entry *m = &c->map->v[i];
		int rc;

		if (!(for_write ? write_needs(c, m, off, end) : read_needs(c, m, off, end)))
			continue;
		rc = need_entry(c, m, out);
		if (rc < 0 && (for_write || !ballast_is_short(rc)))
			return rc;
		short_rc = rc < 0 ? rc : short_rc;
	}
	if (for_write || out->n)
		return 0;
	/* Against I4, so a bug; but a reader must not ask for ever. */
	return short_rc ? short_rc : ranges_next(&c->absent, off, end, &r) ? -EIO : 0;
}

int content_needs(struct content *c, uint64_t off, uint64_t len, bool for_write, struct need *out)
{
	scoped(need_fini) struct need n = {.n = 0};
	int rc = 0;

	if (content_is_whole(c) || len == 0 || off > UINT64_MAX - len)
		return 0;
	pthread_mutex_lock(&c->lock);
	if (c->absent.n)
		rc = needs(c, off, off + len, for_write, &n);
	pthread_mutex_unlock(&c->lock);
	if (rc == 0) {
		*out = n;
		n = (struct need){.n = 0};
	}
	return rc;
}

/* ---- reading without them ---- */

struct lending {
	int (*lend)(void *arg, const struct extent *e, uint64_t from, uint8_t *to, size_t len);
	void *arg;
	/* where the bytes from `off` on go */
	uint8_t *data;
	uint64_t off;
};

static int lend_entry(const struct lending *l, const struct map_entry *m, uint64_t from, uint64_t to)
{
	uint8_t *at = l->data + (from - l->off);

	switch (m->e.kind) {
	case EXTENT_ZERO:
		memset(at, 0, to - from);
		return 0;
	case EXTENT_INLINE:
		memcpy(at, m->e.data + (from - m->off), to - from);
		return 0;
	default:
		return l->lend(l->arg, &m->e, from - m->off, at, to - from);
	}
}

/* An absent range: entries of the map lie behind each other in it (I4). */
static int lend_range(struct content *c, const struct lending *l, struct range r)
{
	int rc = 0;

	for (size_t i = map_find(c->map, r.from); rc == 0 && r.from < r.to; i++) {
		uint64_t to;

		if (i == map_count(c->map) || c->map->v[i].off > r.from)
			return -EIO; /* a bug */
		to = MIN(r.to, map_entry_end(&c->map->v[i]));
		rc = lend_entry(l, &c->map->v[i], r.from, to);
		r.from = to;
	}
	return rc;
}

static ssize_t read_lent(struct content *c, const struct lending *l, size_t len)
{
	struct range r = {.to = l->off};
	int fd = content_file(c), rc = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = pread_all(fd, l->data, len, l->off);
	if (got == -EIO || (got >= 0 && (size_t)got < len))
		return -EUCLEAN;
	if (got < 0)
		return got;
	while (rc == 0 && ranges_next(&c->absent, r.to, l->off + len, &r))
		rc = lend_range(c, l, r);
	return rc < 0 ? rc : (ssize_t)len;
}

ssize_t content_read_lent(struct content *c, void *data, size_t len, uint64_t off,
			  int (*lend)(void *arg, const struct extent *e, uint64_t from, uint8_t *to, size_t len),
			  void *arg)
{
	const struct lending l = {.lend = lend, .arg = arg, .data = data, .off = off};
	ssize_t got = 0;

	pthread_mutex_lock(&c->lock);
	if (off < content_size(c))
		got = read_lent(c, &l, MIN(len, content_size(c) - off));
	pthread_mutex_unlock(&c->lock);
	return got;
}
