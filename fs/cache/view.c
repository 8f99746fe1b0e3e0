/* SPDX-License-Identifier: Apache-2.0 */
/* Views: what a content held at an instant, however it is written afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/param.h>

#include "fs/cache/content_priv.h"

/* ---- birth and death ---- */

static int make(struct content *c, uint64_t size, uint32_t number, struct view **out)
{
	struct view *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	*v = (struct view){.content = content_ref(c),
			   .number = number,
			   .size = size,
			   .side_fd = -1};
	atomic_init(&v->refs, 1);
	v->map = map_ref(c->map);
	v->next = c->views;
	if (v->next)
		v->next->prev = v;
	c->views = v;
	if (number > c->views_made)
		c->views_made = number;
	*out = v;
	return 0;
}

int content_view(struct content *c, struct view **out)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = make(c, content_size(c), c->views_made + 1, out);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

struct view *view_ref(struct view *v)
{
	if (v)
		atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

static void leave(struct view *v)
{
	struct content *c = v->content;

	pthread_mutex_lock(&c->lock);
	if (v->prev)
		v->prev->next = v->next;
	else
		c->views = v->next;
	if (v->next)
		v->next->prev = v->prev;
	pthread_mutex_unlock(&c->lock);
}

void view_unref(struct view *v)
{
	struct content *c;

	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) > 1)
		return;
	c = v->content;
	leave(v);
	if (v->side_fd >= 0 && !atomic_load(&c->dir->keep)) {
		char name[CONTENT_NAME_MAX];

		view_name(v, name);
		(void)unlinkat(c->dir->fd, name, 0); /* one that stays is swept at the next start */
		content_account(c, -(int64_t)ranges_bytes(&v->side));
	}
	fd_close(v->side_fd);
	map_unref(v->map);
	ranges_fini(&v->side);
	ranges_fini(&v->changed);
	free(v);
	content_unref(c);
}

static int open_side(struct view *v, int flags)
{
	char name[CONTENT_NAME_MAX];

	view_name(v, name);
	v->side_fd = openat(v->content->dir->fd, name, flags | O_RDWR | O_CLOEXEC, 0600);
	if (v->side_fd >= 0)
		return 0;
	return flags & O_CREAT ? content_dir_missed(v->content->dir, -errno) : -errno;
}

/* Absent or changed since, without a copy because the store had it. */
static bool is_elsewhere(const struct view *v, uint64_t from, uint64_t to)
{
	struct range r = {.to = from};

	while (ranges_next_gap(&v->side, r.to, to, &r))
		if (ranges_meets(&v->content->absent, r.from, r.to) ||
		    ranges_meets(&v->changed, r.from, r.to))
			return true;
	return false;
}

static int adopt_changed(struct view *v, const struct ranges *side, const struct need *mapped)
{
	int rc = side->n ? open_side(v, 0) : 0;

	if (rc == 0)
		rc = ranges_copy(side, &v->side);
	if (rc == 0)
		rc = ranges_copy(side, &v->changed);
	for (size_t i = 0; rc == 0 && i < mapped->n; i++)
		rc = ranges_add(&v->changed, mapped->offs[i],
				mapped->offs[i] + mapped->extents.v[i].length);
	return rc;
}

/* What the content got instead, or behind the view's end, is no matter of the view's. */
static int adopt_map(struct view *v, const struct need *mapped)
{
	struct range gap = {.to = 0};
	int rc = map_own(&v->map, v->changed.n + 1);

	if (rc < 0)
		return rc;
	(void)map_remove(v->map, v->size, NEVER);
	for (size_t i = 0; i < v->changed.n; i++)
		(void)map_remove(v->map, v->changed.v[i].from, v->changed.v[i].to);
	for (size_t i = 0; rc == 0 && i < mapped->n; i++)
		rc = map_put(&v->map, mapped->offs[i], &mapped->extents.v[i]);
	while (rc == 0 && map_next_gap(v->map, gap.to, v->size, &gap))
		rc = is_elsewhere(v, gap.from, gap.to) ? -EBADMSG : 0;
	return rc;
}

int view_adopt(struct content *c, uint32_t number, uint64_t size, const struct ranges *side,
	       const struct need *mapped, struct view **out)
{
	struct view *v = NULL;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = make(c, size, number, &v);
	if (rc == 0) {
		rc = adopt_changed(v, side, mapped);
		rc = rc == 0 ? adopt_map(v, mapped) : rc;
		if (rc < 0)
			fd_close(take_fd(&v->side_fd)); /* it is not ours to delete */
	}
	pthread_mutex_unlock(&c->lock);
	if (rc == 0)
		*out = v;
	else
		view_unref(v);
	return rc;
}

int view_mapped(struct view *v, struct need *out)
{
	scoped(need_fini) struct need n = {.n = 0};
	int rc = 0;

	pthread_mutex_lock(&v->content->lock);
	for (size_t i = 0; rc == 0 && i < map_count(v->map); i++) {
		const struct map_entry *m = &v->map->v[i];

		if (is_elsewhere(v, m->off, map_entry_end(m)))
			rc = need_add(&n, m->off, &m->e);
	}
	pthread_mutex_unlock(&v->content->lock);
	if (rc == 0) {
		*out = n;
		n = (struct need){.n = 0};
	}
	return rc;
}

struct content *view_content(const struct view *v)
{
	return v->content;
}

uint64_t view_size(const struct view *v)
{
	return v->size;
}

uint32_t view_number(const struct view *v)
{
	return v->number;
}

int view_side(struct view *v, struct ranges *out)
{
	int rc;

	pthread_mutex_lock(&v->content->lock);
	rc = ranges_copy(&v->side, out);
	pthread_mutex_unlock(&v->content->lock);
	return rc;
}

bool view_is_current(struct view *v)
{
	bool is;

	pthread_mutex_lock(&v->content->lock);
	is = v->changed.n == 0 && content_size(v->content) == v->size;
	pthread_mutex_unlock(&v->content->lock);
	return is;
}

/* ---- before bytes change ---- */

static int copy_by_hand(int from, int to, uint64_t off, uint64_t end)
{
	uint8_t piece[32 << 10];

	while (off < end) {
		ssize_t n = pread_all(from, piece, MIN(sizeof(piece), end - off), off);

		if (n == 0)
			return -EIO; /* below the content's end until they are preserved */
		if (n > 0)
			n = pwrite_all(to, piece, (size_t)n, off);
		if (n < 0)
			return (int)n;
		off += (uint64_t)n;
	}
	return 0;
}

static int copy_data(int from, int to, uint64_t off, uint64_t end)
{
	while (off < end) {
		off_t in = (off_t)off, out = (off_t)off;
		ssize_t n = copy_file_range(from, &in, to, &out, end - off, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
			return -errno;
		if (n <= 0)
			return copy_by_hand(from, to, off, end);
		off += (uint64_t)n;
	}
	return 0;
}

/* Holes are left out: the side file is sparse, and view_patch() reads what it lacks as zeros. */
static int copy_range(int from, int to, uint64_t off, uint64_t end)
{
	while (off < end) {
		off_t data = lseek(from, (off_t)off, SEEK_DATA), hole;
		int rc;

		if (data < 0 && errno == ENXIO)
			return 0;
		if (data < 0)
			return copy_data(from, to, off, end);
		if ((uint64_t)data >= end)
			return 0;
		hole = lseek(from, data, SEEK_HOLE);
		off = hole < 0 ? end : MIN((uint64_t)hole, end);
		rc = copy_data(from, to, (uint64_t)data, off);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int preserve_range(struct view *v, uint64_t from, uint64_t to)
{
	struct content *c = v->content;
	const struct content_notes *n = &c->dir->notes;
	int rc = v->side_fd < 0 ? open_side(v, O_CREAT | O_TRUNC) : 0;

	if (rc == 0)
		rc = copy_range(content_file(c), v->side_fd, from, to);
	if (rc == 0)
		rc = ranges_add(&v->side, from, to);
	if (rc < 0)
		return rc;
	content_account(c, (int64_t)(to - from));
	/* An older one is of a commit that a restart would make anew, from the newest. */
	if (n->preserved && v->number == c->views_made)
		n->preserved(n->arg, c->id, c->version, v->number, from, to - from);
	return 0;
}

/* What the map has needs no copy, but the map is memory: the journal is told, once a byte. */
static void note_mapped(const struct view *v, uint64_t from, uint64_t to)
{
	const struct content *c = v->content;
	const struct content_notes *n = &c->dir->notes;

	if (!n->mapped || v->number != c->views_made)
		return;
	for (size_t i = map_find(v->map, from); i < map_count(v->map) && v->map->v[i].off < to;
	     i++) {
		const struct map_entry *m = &v->map->v[i];

		if (!ranges_has(&v->changed, MAX(m->off, from), MIN(map_entry_end(m), to)))
			n->mapped(n->arg, c->id, c->version, v->number, m->off, &m->e);
	}
}

static int preserve(struct view *v, uint64_t from, uint64_t to)
{
	struct range lacking = {.to = from}, r;

	while (map_next_gap(v->map, lacking.to, to, &lacking)) {
		for (r.to = lacking.from; ranges_next_gap(&v->side, r.to, lacking.to, &r);) {
			int rc = preserve_range(v, r.from, r.to);

			if (rc < 0)
				return rc;
		}
	}
	note_mapped(v, from, to);
	return ranges_add(&v->changed, from, to);
}

bool views_need(const struct content *c, uint64_t from, uint64_t to)
{
	for (const struct view *v = c->views; v; v = v->next) {
		struct range gap = {.to = from};

		while (map_next_gap(v->map, gap.to, MIN(to, v->size), &gap))
			if (!ranges_has(&v->changed, gap.from, gap.to))
				return true;
	}
	return false;
}

int views_preserve(struct content *c, uint64_t from, uint64_t to)
{
	int rc = 0;

	for (struct view *v = c->views; rc == 0 && v; v = v->next)
		if (from < v->size)
			rc = preserve(v, from, MIN(to, v->size));
	return rc;
}

/* ---- the map ---- */

bool view_unmapped(struct view *v, uint64_t from, struct range *out)
{
	bool found;

	pthread_mutex_lock(&v->content->lock);
	found = map_next_gap(v->map, from, v->size, out);
	pthread_mutex_unlock(&v->content->lock);
	return found;
}

/* e as far as it lies in the view; length 0: a chunk that does not. */
static struct extent within(const struct view *v, uint64_t off, const struct extent *e)
{
	struct extent cut = *e;

	if (off + e->length > v->size)
		cut.length = e->kind == EXTENT_ZERO && off < v->size ? v->size - off : 0;
	return cut;
}

int views_learn(struct content *c, uint64_t off, const struct extent *e)
{
	int rc = 0;

	for (struct view *v = c->views; rc == 0 && v; v = v->next) {
		struct extent cut = within(v, off, e);

		if (!ranges_meets(&v->changed, off, off + cut.length))
			rc = map_put(&v->map, off, &cut);
	}
	return rc;
}

static int map_one(struct view *v, uint64_t off, const struct extent *e)
{
	struct extent cut = within(v, off, e);
	int rc = map_put(&v->map, off, &cut);

	if (rc < 0 || cut.length == 0 || ranges_meets(&v->changed, off, off + cut.length))
		return rc;
	return content_learn(v->content, off, &cut);
}

int view_map(struct view *v, uint64_t off, const struct extents *x)
{
	int rc = 0;

	pthread_mutex_lock(&v->content->lock);
	for (size_t i = 0; rc == 0 && i < x->n; off += x->v[i++].length)
		rc = map_one(v, off, &x->v[i]);
	pthread_mutex_unlock(&v->content->lock);
	return rc;
}

/* Can it be read here again, which a chunk must be to be sent as part of a longer one? */
static bool may_reopen(const struct view *v, const struct map_entry *m)
{
	const struct content *c = v->content;
	uint64_t end = map_entry_end(m);

	return m->e.kind != EXTENT_ZERO && m->e.length < CHUNK_MIN &&
	       !ranges_meets(&c->absent, m->off, end) && !ranges_meets(&v->changed, m->off, end);
}

void view_reopen_tail(struct view *v)
{
	uint64_t from, end;
	size_t n;

	pthread_mutex_lock(&v->content->lock);
	n = map_count(v->map);
	from = end = n ? map_entry_end(&v->map->v[n - 1]) : v->size;
	if (end < v->size) {
		while (n && may_reopen(v, &v->map->v[n - 1]) &&
		       map_entry_end(&v->map->v[n - 1]) == from &&
		       end - v->map->v[n - 1].off <= CHUNK_MIN)
			from = v->map->v[--n].off;
		if (from < end && map_own(&v->map, 1) == 0) /* else it is sent in two pieces */
			(void)map_remove(v->map, from, end);
	}
	pthread_mutex_unlock(&v->content->lock);
}

static int extents_of(const struct view *v, struct extents *out)
{
	struct range gap;

	if (map_next_gap(v->map, 0, v->size, &gap))
		return -EAGAIN;
	for (size_t i = 0; i < map_count(v->map); i++) {
		const struct extents one = {.v = &v->map->v[i].e, .n = 1};
		scoped(extents_fini) struct extents copy = EXTENTS_EMPTY;
		int rc = extents_copy(&one, &copy);

		if (rc == 0) {
			rc = extents_add(out, &copy.v[0]);
			copy.v[0].data = NULL; /* handed over */
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int view_extents(struct view *v, struct extents *out)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	int rc;

	pthread_mutex_lock(&v->content->lock);
	rc = extents_of(v, &x);
	pthread_mutex_unlock(&v->content->lock);
	if (rc == 0) {
		*out = x;
		x = EXTENTS_EMPTY;
	}
	return rc;
}

/* ---- bytes ---- */

static int patch(const struct view *v, uint8_t *data, size_t len, uint64_t off)
{
	struct range r = {.to = off};

	while (ranges_next(&v->side, r.to, off + len, &r)) {
		uint8_t *at = data + (r.from - off);
		ssize_t n = pread_all(v->side_fd, at, r.to - r.from, r.from);

		if (n < 0)
			return (int)n;
		memset(at + n, 0, r.to - r.from - (size_t)n); /* a hole at its end */
	}
	return 0;
}

int view_patch(struct view *v, uint8_t *data, size_t len, uint64_t off)
{
	int rc;

	pthread_mutex_lock(&v->content->lock);
	rc = patch(v, data, len, off);
	pthread_mutex_unlock(&v->content->lock);
	return rc;
}

bool view_patches(struct view *v, uint64_t off, uint64_t len)
{
	bool meets;

	pthread_mutex_lock(&v->content->lock);
	meets = ranges_meets(&v->side, off, off + len);
	pthread_mutex_unlock(&v->content->lock);
	return meets;
}

static ssize_t read_here(struct view *v, uint8_t *data, size_t len, uint64_t off)
{
	ssize_t n;
	int rc;

	if (is_elsewhere(v, off, off + len))
		return -ENODATA;
	n = pread_all(content_file(v->content), data, len, off);
	if (n < 0)
		return n;
	memset(data + n, 0, len - (size_t)n); /* the content was cut: the side file has it */
	rc = patch(v, data, len, off);
	return rc < 0 ? rc : (ssize_t)len;
}

ssize_t view_read(struct view *v, void *data, size_t len, uint64_t off)
{
	ssize_t n;

	if (off >= v->size)
		return 0;
	pthread_mutex_lock(&v->content->lock);
	n = read_here(v, data, MIN(len, v->size - off), off);
	pthread_mutex_unlock(&v->content->lock);
	return n;
}
