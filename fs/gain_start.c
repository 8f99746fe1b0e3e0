/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gains that an earlier daemon made: the difference between the good moment's state and the newest one.
 *
 * Both lie over one base, so whatever differs has a key in the newest state's runs above it.  The keys of one
 * directory (its names, and the inodes made in it) are compared with one walk of the older state, O(changes)
 * and a block read for each directory that changed.  Times are not in a state: all of it counts as just done.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/file.h"
#include "fs/gain_priv.h"

#define READ_MS (60 * 1000)
/* A tree so wide that the changed directories are not found among so many is not worth more requests. */
#define DIRS_MOST 1024
#define DIR_KEY 8 /* bytes: what the keys of one directory have in common */

struct change {
	uint64_t dir;
	struct name_rec was, is;
	char *text;
};

struct changed_inode {
	UT_hash_handle hh;
	uint64_t id, home;
	bool was, is; /* it exists there */
	struct inode_attr was_attr, is_attr;
	bool named;                 /* a name that changed leads to it now */
	const struct change *from;  /* led to it: a directory that is gone has its path by it */
};

struct wanted {
	UT_hash_handle hh;
	uint64_t dir;
};

struct diff {
	struct mount *m;
	struct gains *g;
	struct state *good;
	struct block_source src;
	uint64_t now;
	struct change *names;
	size_t n, cap;
	struct changed_inode *inodes;
	struct wanted *wanted;
};

static void diff_fini(struct diff *x)
{
	struct changed_inode *i, *i_next;
	struct wanted *w, *w_next;

	HASH_ITER(hh, x->inodes, i, i_next) {
		HASH_DEL(x->inodes, i);
		free(i);
	}
	HASH_ITER(hh, x->wanted, w, w_next) {
		HASH_DEL(x->wanted, w);
		free(w);
	}
	for (size_t k = 0; k < x->n; k++)
		free(x->names[k].text);
	free(x->names);
}
SCOPE_VAL(struct diff, diff_fini)

/* ---- what differs ---- */

static bool same_value(const struct run_item *a, const struct run_item *b)
{
	if (!a->value || !b->value)
		return !a->value && !b->value;
	return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

static int add_name(struct diff *x, const struct run_item *was, const struct run_item *is, struct fault *f)
{
	struct change c = {.dir = key_number(is->key, 0)}, *grown;
	int rc = was->value ? name_rec_decode(was->value, was->value_len, &c.was, f) : 0;

	if (rc == 0 && is->value)
		rc = name_rec_decode(is->value, is->value_len, &c.is, f);
	if (rc < 0)
		return rc;
	if (x->n == x->cap) {
		grown = reallocarray(x->names, x->cap ? 2 * x->cap : 64, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		x->names = grown;
		x->cap = x->cap ? 2 * x->cap : 64;
	}
	c.text = strndup((const char *)is->key + DIR_KEY + 1, is->key_len - DIR_KEY - 1);
	if (!c.text)
		return -ENOMEM;
	x->names[x->n++] = c;
	return 0;
}

static int decode_attr(const struct run_item *i, bool *there, struct inode_attr *out, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	int rc = i->value ? inode_rec_decode(i->key, i->key_len, i->value, i->value_len, &rec, f) : 0;

	*there = i->value;
	*out = rec.attr;
	return rc;
}

static struct changed_inode *find_inode(const struct diff *x, uint64_t id)
{
	struct changed_inode *i;

	HASH_FIND(hh, x->inodes, &id, sizeof(id), i);
	return i;
}

static struct changed_inode *make_inode(struct diff *x, uint64_t id)
{
	struct changed_inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->id = id;
	HASH_ADD(hh, x->inodes, id, sizeof(i->id), i);
	return i;
}

/* Attributes stand in the first segment; a change of content shows in them. */
static int add_inode(struct diff *x, const struct run_item *was, const struct run_item *is, struct fault *f)
{
	const uint8_t *segment = is->key + DIR_KEY + 1 + 8;
	struct changed_inode *i;
	int rc;

	if (memcmp(segment, "\0\0\0\0", 4) != 0)
		return 0;
	i = make_inode(x, key_number(is->key, DIR_KEY + 1));
	if (!i)
		return -ENOMEM;
	i->home = key_number(is->key, 0);
	rc = decode_attr(was, &i->was, &i->was_attr, f);
	return rc < 0 ? rc : decode_attr(is, &i->is, &i->is_attr, f);
}

static int add_item(struct diff *x, const struct run *was_run, const struct run_item *is, struct fault *f)
{
	struct run_item was = {.value = NULL};

	if (!run_find(was_run, is->key, is->key_len, &was))
		was.value = NULL;
	if (same_value(&was, is))
		return 0;
	switch (key_kind(is->key, is->key_len)) {
	case KEY_NAME:
		return add_name(x, &was, is, f);
	case KEY_INODE:
		return add_inode(x, &was, is, f);
	default:
		return 0;
	}
}

static int collect(void *arg, const struct run_item *i)
{
	return run_builder_add(arg, i->key, i->key_len, i->value, i->value_len);
}

/* One directory's keys as the good moment has them. */
static int good_keys(struct diff *x, const uint8_t *dir, struct run **out, struct fault *f)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	int rc = b ? state_walk(x->good, &x->src, dir, DIR_KEY, collect, b, f) : -ENOMEM;

	return rc < 0 ? rc : run_builder_finish(b, out);
}

/* Items [from, to) of one directory: those that the good moment's own runs have as they are need no look at the base. */
static int compare_dir(struct diff *x, const struct run *now, const struct run *before, size_t from, size_t to,
		       struct fault *f)
{
	scoped(run_unref) struct run *was = NULL;
	struct run_item is, then;
	bool differs = false;
	int rc;

	for (size_t i = from; i < to && !differs; i++) {
		run_at(now, i, &is);
		differs = !run_find(before, is.key, is.key_len, &then) || !same_value(&then, &is);
	}
	if (!differs)
		return 0;
	run_at(now, from, &is);
	rc = good_keys(x, is.key, &was, f);
	for (size_t i = from; rc == 0 && i < to; i++) {
		run_at(now, i, &is);
		rc = add_item(x, was, &is, f);
	}
	return rc;
}

static int compare(struct diff *x, struct fault *f)
{
	scoped(run_unref) struct run *now = NULL, *before = NULL;
	int rc = state_cumulative(x->m->state, &now);

	if (rc == 0)
		rc = state_cumulative(x->good, &before);
	for (size_t from = 0, to; rc == 0 && from < run_count(now); from = to) {
		struct run_item first, i;

		run_at(now, from, &first);
		for (to = from + 1; to < run_count(now); to++) {
			run_at(now, to, &i);
			if (memcmp(i.key, first.key, DIR_KEY) != 0)
				break;
		}
		rc = compare_dir(x, now, before, from, to, f);
	}
	return rc;
}

/* What a name leads or led to and is as it was. */
static int know_inode(struct diff *x, const struct name_rec *n, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	struct changed_inode *i;
	int rc;

	if (!n->id || find_inode(x, n->id))
		return 0;
	rc = state_inode(x->m->state, &x->src, n->home, n->id, &rec, f);
	if (rc < 0)
		return rc;
	i = make_inode(x, n->id);
	if (!i)
		return -ENOMEM;
	i->home = n->home;
	i->was = i->is = true;
	i->was_attr = i->is_attr = rec.attr;
	return 0;
}

static int know_inodes(struct diff *x, struct fault *f)
{
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < x->n; k++) {
		const struct change *c = &x->names[k];
		struct changed_inode *i;

		rc = know_inode(x, &c->was, f);
		if (rc == 0)
			rc = know_inode(x, &c->is, f);
		if (rc == 0 && (i = find_inode(x, c->was.id)))
			i->from = c;
		if (rc == 0 && (i = find_inode(x, c->is.id)))
			i->named = true;
	}
	return rc;
}

/* ---- the directories that are spoken of, in memory with all above them ---- */

static bool is_rewritten(const struct changed_inode *i)
{
	return i->was && i->is && S_ISREG(i->is_attr.mode) &&
	       (i->was_attr.size != i->is_attr.size || i->was_attr.mtime_ns != i->is_attr.mtime_ns);
}

static int want(struct diff *x, uint64_t dir)
{
	const struct changed_inode *i = find_inode(x, dir);
	struct wanted *w;

	HASH_FIND(hh, x->wanted, &dir, sizeof(dir), w);
	if (w || (i && !i->is)) /* or it is gone */
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->dir = dir;
	HASH_ADD(hh, x->wanted, dir, sizeof(w->dir), w);
	return 0;
}

static int want_dirs(struct diff *x)
{
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < x->n; k++) {
		rc = want(x, x->names[k].dir);
		if (rc == 0 && x->names[k].is.type == DT_DIR)
			rc = want(x, x->names[k].is.id);
	}
	for (struct changed_inode *i = x->inodes; rc == 0 && i; i = i->hh.next)
		if (is_rewritten(i) && !i->named)
			rc = want(x, i->home);
	return rc;
}

static void got(struct diff *x, uint64_t dir)
{
	struct wanted *w;

	HASH_FIND(hh, x->wanted, &dir, sizeof(dir), w);
	if (!w)
		return;
	HASH_DEL(x->wanted, w);
	free(w);
}

struct child {
	uint64_t dir, id, home;
	char text[NAME_MAX_BYTES + 1];
};
struct children {
	struct child *v;
	size_t n, at;
};

static void children_fini(struct children *q)
{
	free(q->v);
}
SCOPE_VAL(struct children, children_fini)

/* Directories in `id`, as the base has them. */
static int children_of(struct mount *m, uint64_t id, struct children *q)
{
	const struct node *dir;
	int rc = 0;

	mount_lock(m);
	dir = node_find(&m->nodes, id);
	for (const struct name *e = dir ? dir->table : NULL; rc == 0 && e; e = e->hh.next) {
		struct child *grown;

		if (!e->base.id || e->base.type != DT_DIR)
			continue;
		grown = q->n < DIRS_MOST ? reallocarray(q->v, q->n + 1, sizeof(*grown)) : NULL;
		if (!grown) {
			rc = q->n < DIRS_MOST ? -ENOMEM : -E2BIG;
			break;
		}
		q->v = grown;
		q->v[q->n] = (struct child){.dir = id, .id = e->base.id, .home = e->base.home};
		memcpy(q->v[q->n++].text, e->text, e->len + 1u);
	}
	mount_unlock(m);
	return rc;
}

/* Where it lies, unless a journal said so. */
static void place(struct mount *m, const struct child *c)
{
	struct node *n, *dir;

	mount_lock(m);
	n = node_find(&m->nodes, c->id);
	dir = node_find(&m->nodes, c->dir);
	if (n && dir && !n->parent)
		node_set_parent(&m->nodes, n, dir);
	if (n && !n->name)
		node_named(n, c->dir, c->text);
	mount_unlock(m);
}

/* From the root down, since a state does not say where a directory is. */
static int bring_dirs(struct diff *x, struct fault *f)
{
	scoped(children_fini) struct children q = {.v = NULL};
	uint64_t id = ROOT_ID;

	while (x->wanted) {
		int rc = load_dir(x->m, id, f);

		got(x, id);
		if (rc == 0 && x->wanted)
			rc = children_of(x->m, id, &q);
		if (rc == 0 && x->wanted && q.at == q.n)
			rc = -ENOENT;
		if (rc < 0 || !x->wanted)
			return rc;
		rc = load_node(x->m, q.v[q.at].home, q.v[q.at].id, f);
		if (rc < 0)
			return rc;
		place(x->m, &q.v[q.at]);
		id = q.v[q.at++].id;
	}
	return 0;
}

/* ---- into the table; under lock ---- */

static int dir_of(struct diff *x, uint64_t id, struct gain_dir **out);

/* One that is gone has the path that it had. */
static int gone_dir(struct diff *x, const struct changed_inode *i, struct gain_dir **out)
{
	struct gain_dir *above, *d;
	int rc = i->from ? dir_of(x, i->from->dir, &above) : -ENOENT;

	if (rc < 0)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d || asprintf(&d->path, "%s%s%s", above->path, above->path[0] ? "/" : "", i->from->text) < 0) {
		free(d);
		return -ENOMEM;
	}
	d->id = i->id;
	d->gone = true;
	d->mtime_ns = i->was_attr.mtime_ns;
	HASH_ADD(hh, x->g->dirs, id, sizeof(d->id), d);
	*out = d;
	return 0;
}

static int dir_of(struct diff *x, uint64_t id, struct gain_dir **out)
{
	const struct changed_inode *i = find_inode(x, id);
	int rc;

	HASH_FIND(hh, x->g->dirs, &id, sizeof(id), *out);
	if (*out)
		return 0;
	if (i && !i->is)
		return gone_dir(x, i, out);
	rc = gains_dir(x->g, x->m, id, out);
	if (rc < 0 || !*out)
		return rc < 0 ? rc : -ENOENT;
	(*out)->is_new = i && !i->was && id != ROOT_ID;
	(*out)->gained_ns = x->now;
	return 0;
}

static uint64_t file_bytes(const struct inode_attr *a)
{
	return S_ISREG(a->mode) ? a->size : 0;
}

static int tell_inode(struct diff *x, const struct changed_inode *i)
{
	struct gain_inode *gi = gains_inode(x->g, i->id);

	if (!gi)
		return -ENOMEM;
	gi->links = i->is ? i->is_attr.nlink : 0;
	gi->rewritten = is_rewritten(i);
	return 0;
}

static int tell_name(struct diff *x, const struct change *c)
{
	const struct changed_inode *was = find_inode(x, c->was.id), *is = find_inode(x, c->is.id);
	struct gain_dir *d, *inner;
	struct gain *e = NULL;
	int rc = dir_of(x, c->dir, &d);

	if (rc == 0 && !(e = gains_name(d, c->text)))
		rc = -ENOMEM;
	if (rc < 0)
		return rc;
	e->is_log = is_log_name(c->text, &x->m->opts.policy);
	if (was) {
		e->was_id = was->id;
		e->was_dir = c->was.type == DT_DIR;
		e->was_size = file_bytes(&was->was_attr);
		e->mtime_ns = was->was_attr.mtime_ns;
		e->lost_ns = x->now;
		rc = tell_inode(x, was);
	}
	if (rc == 0 && is) {
		e->is_id = is->id;
		e->is_dir = c->is.type == DT_DIR;
		e->is_size = file_bytes(&is->is_attr);
		e->mtime_ns = is->is_attr.mtime_ns;
		rc = tell_inode(x, is);
	}
	e->gained_ns = e->sealed_ns = x->now;
	if (rc == 0 && e->was_dir)
		rc = dir_of(x, e->was_id, &inner);
	if (rc == 0 && e->is_dir)
		rc = dir_of(x, e->is_id, &inner);
	return rc;
}

/* A file rewritten under a name that is as it was: one where it was made, or it is looked for no further. */
static int tell_rewritten(struct diff *x, const struct changed_inode *i)
{
	const struct node *home = node_find(&x->m->nodes, i->home);
	const struct name *name = home ? home->table : NULL;
	struct gain_dir *d;
	struct gain *e;
	int rc;

	while (name && name->base.id != i->id)
		name = name->hh.next;
	if (!name)
		return -ENOENT;
	rc = dir_of(x, i->home, &d);
	if (rc < 0)
		return rc;
	e = gains_name(d, name->text);
	if (!e)
		return -ENOMEM;
	e->was_id = e->is_id = i->id;
	e->was_size = i->was_attr.size;
	e->is_size = i->is_attr.size;
	e->mtime_ns = i->is_attr.mtime_ns;
	e->is_log = is_log_name(name->text, &x->m->opts.policy);
	e->rewritten = true;
	e->gained_ns = e->sealed_ns = e->lost_ns = x->now;
	return tell_inode(x, i);
}

static int tell(struct diff *x)
{
	int rc = 0;

	mount_lock(x->m);
	for (size_t k = 0; rc == 0 && k < x->n; k++)
		rc = tell_name(x, &x->names[k]);
	for (const struct changed_inode *i = x->inodes; rc == 0 && i; i = i->hh.next)
		if (is_rewritten(i) && !i->named)
			rc = tell_rewritten(x, i);
	mount_unlock(x->m);
	return rc;
}

int gains_of_states(struct gains *g, struct mount *m, struct state *good, struct fault *f)
{
	scoped(diff_fini) struct diff x = {.m = m, .g = g, .good = good, .now = m->resumed_ns};
	int rc;

	if (state_head(good)->base_upto != state_head(m->state)->base_upto)
		return fault_set(f, -ENOTSUP, FAULT_FINAL, "commit %llu lies over another base",
				 (unsigned long long)state_head(good)->number);
	lanes_block_source(m->lanes, READ_MS, &x.src);
	rc = compare(&x, f);
	if (rc == 0)
		rc = know_inodes(&x, f);
	if (rc == 0)
		rc = want_dirs(&x);
	if (rc == 0)
		rc = bring_dirs(&x, f);
	if (rc == 0)
		rc = tell(&x);
	if (rc < 0)
		gains_clear(g);
	mount_lock(m);
	nodes_release(&m->nodes); /* what was looked through */
	mount_unlock(m);
	if (rc == 0)
		return 0;
	return f->code ? rc : fault_errno(f, rc, "what commit %llu lacks", (unsigned long long)state_head(good)->number);
}
