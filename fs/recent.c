/* SPDX-License-Identifier: Apache-2.0 */
/* See recent.h. */
#include "fs/recent.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define DIRS_KNOWN 256 /* the newest of those seen */

struct dir {
	uint64_t id;
	int64_t changed_ns;
	bool looked;
};

struct names {
	struct name_rec v[2 * RECENT_NAMES];
	size_t n;
};

struct search {
	struct state *state;
	struct block_source *src;
	struct dir dirs[DIRS_KNOWN];
	size_t n;
	struct names names; /* of the directory at hand */
	struct recent *out;
	struct fault *f;
};

void recent_fini(struct recent *r)
{
	free(r->v);
}

/* ---- directories ---- */

/* The place of a directory, or the one that it takes: the oldest's. */
static struct dir *place_of(struct search *s, uint64_t id)
{
	struct dir *oldest = &s->dirs[0];

	for (size_t i = 0; i < s->n; i++) {
		if (s->dirs[i].id == id)
			return &s->dirs[i];
		if (s->dirs[i].changed_ns < oldest->changed_ns)
			oldest = &s->dirs[i];
	}
	return s->n < DIRS_KNOWN ? &s->dirs[s->n++] : oldest;
}

static void know_dir(struct search *s, uint64_t id, int64_t changed_ns)
{
	struct dir *d = place_of(s, id);

	if (d->id != id && (!d->id || d->changed_ns < changed_ns))
		*d = (struct dir){.id = id, .changed_ns = changed_ns};
	else if (d->id == id && d->changed_ns < changed_ns)
		d->changed_ns = changed_ns;
}

static struct dir *next_dir(struct search *s)
{
	struct dir *next = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (!s->dirs[i].looked && (!next || s->dirs[i].changed_ns > next->changed_ns))
			next = &s->dirs[i];
	return next;
}

/* ---- inodes ---- */

/* What the first segment says; extents are not looked at. */
static int attr_decode(const uint8_t *key, size_t key_len, const void *v, size_t len, struct inode_attr *out, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	int rc = inode_rec_decode(key, key_len, v, len, &rec, f);

	if (rc == 0)
		*out = rec.attr;
	return rc;
}

static int attr_of(struct search *s, const struct name_rec *n, struct inode_attr *out)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_inode(n->home, n->id, 0, key);
	int rc = state_find(s->state, s->src, key, len, &value, s->f);

	return rc < 0 ? rc : attr_decode(key, len, value.data, value.len, out, s->f);
}

static bool is_inode(const struct run_item *i)
{
	static const uint8_t first_segment[4];

	return i->value && key_kind(i->key, i->key_len) == KEY_INODE &&
	       memcmp(i->key + i->key_len - sizeof(first_segment), first_segment, sizeof(first_segment)) == 0;
}

/* What changed since the base: so did the directory it is in, or was made in. */
static int know_changed(void *arg, const struct run_item *i)
{
	struct search *s = arg;
	struct inode_attr a;
	int rc;

	if (!is_inode(i))
		return 0;
	rc = attr_decode(i->key, i->key_len, i->value, i->value_len, &a, s->f);
	if (rc == 0)
		know_dir(s, S_ISDIR(a.mode) ? key_number(i->key, 9) : key_number(i->key, 0), a.mtime_ns);
	return rc;
}

/* ---- one directory ---- */

static int newest_first(const void *a, const void *b)
{
	const struct name_rec *x = a, *y = b;

	return x->id > y->id ? -1 : x->id < y->id;
}

static void trim(struct names *n)
{
	qsort(n->v, n->n, sizeof(*n->v), newest_first);
	if (n->n > RECENT_NAMES)
		n->n = RECENT_NAMES;
}

static int note_name(void *arg, const char *name, size_t len, const struct name_rec *rec)
{
	struct names *n = arg;

	(void)name;
	(void)len;
	if (rec->type != DT_REG && rec->type != DT_DIR)
		return 0;
	if (n->n == sizeof(n->v) / sizeof(n->v[0]))
		trim(n);
	n->v[n->n++] = *rec;
	return 0;
}

static int add_file(struct recent *r, uint64_t dir, const struct name_rec *n, const struct inode_attr *a)
{
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 64;
		struct recent_file *v = realloc(r->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	r->v[r->n++] = (struct recent_file){.dir = dir, .home = n->home, .id = n->id, .size = a->size, .mtime_ns = a->mtime_ns};
	return 0;
}

static int see_name(struct search *s, uint64_t dir, const struct name_rec *n)
{
	struct inode_attr a;
	int rc = attr_of(s, n, &a);

	if (rc < 0)
		return rc;
	if (S_ISDIR(a.mode))
		know_dir(s, n->id, a.mtime_ns);
	else if (a.size > 0)
		rc = add_file(s->out, dir, n, &a);
	return rc;
}

static int look_into(struct search *s, uint64_t dir)
{
	size_t first = s->out->n;
	int64_t newest_ns = INT64_MIN;
	int rc;

	s->names.n = 0;
	rc = state_names(s->state, s->src, dir, note_name, &s->names, s->f);
	trim(&s->names);
	for (size_t i = 0; rc == 0 && i < s->names.n; i++)
		rc = see_name(s, dir, &s->names.v[i]);
	for (size_t i = first; i < s->out->n; i++)
		if (s->out->v[i].mtime_ns > newest_ns)
			newest_ns = s->out->v[i].mtime_ns;
	for (size_t i = first; i < s->out->n; i++)
		s->out->v[i].dir_ns = newest_ns;
	return rc;
}

/* ---- all of them ---- */

static int by_time(int64_t x, int64_t y)
{
	return x > y ? -1 : x < y;
}

static int in_order(const void *a, const void *b)
{
	const struct recent_file *x = a, *y = b;

	if (x->dir_ns != y->dir_ns)
		return by_time(x->dir_ns, y->dir_ns);
	if (x->dir != y->dir)
		return x->dir > y->dir ? -1 : 1;
	if (x->mtime_ns != y->mtime_ns)
		return by_time(x->mtime_ns, y->mtime_ns);
	return x->id > y->id ? -1 : x->id < y->id;
}

int recent_find(struct state *st, struct block_source *src, const _Atomic bool *stop, struct recent *out, struct fault *f)
{
	scoped(free) struct search *s = calloc(1, sizeof(*s));
	struct dir *d;
	int rc;

	if (!s)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to look for new files");
	s->state = st;
	s->src = src;
	s->out = out;
	s->f = f;
	know_dir(s, ROOT_ID, INT64_MAX);
	rc = state_recent(st, know_changed, s);
	for (unsigned i = 0; rc == 0 && i < RECENT_DIRS && !*stop && (d = next_dir(s)); i++) {
		d->looked = true;
		rc = look_into(s, d->id);
	}
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), in_order);
	return rc;
}
