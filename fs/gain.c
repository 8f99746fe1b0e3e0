/* SPDX-License-Identifier: Apache-2.0 */
/* See gain.h. */
#include "fs/gain.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/file.h"
#include "fs/gain_priv.h"

struct gains *gains_new(struct mount *m)
{
	struct gains *g = calloc(1, sizeof(*g));

	if (g)
		g->m = m;
	return g;
}

int gains_pin(struct gains *g, struct node *dir)
{
	struct gain_pin *p;

	HASH_FIND(hh, g->pins, &dir->id, sizeof(dir->id), p);
	if (p)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->id = dir->id;
	HASH_ADD(hh, g->pins, id, sizeof(p->id), p);
	dir->pins++;
	return 0;
}

static void unpin_all(struct gains *g)
{
	struct gain_pin *p, *next;

	mount_lock(g->m);
	HASH_ITER(hh, g->pins, p, next) {
		struct node *dir = node_find(&g->m->nodes, p->id);

		dir->pins--;
		node_release(&g->m->nodes, dir);
		HASH_DEL(g->pins, p);
		free(p);
	}
	mount_unlock(g->m);
}

void gains_clear(struct gains *g)
{
	struct gain_dir *d, *d_next;
	struct gain *e, *e_next;
	struct gain_inode *i, *i_next;

	HASH_ITER(hh, g->inodes, i, i_next) {
		HASH_DEL(g->inodes, i);
		free(i);
	}
	HASH_ITER(hh, g->dirs, d, d_next) {
		HASH_ITER(hh, d->names, e, e_next) {
			HASH_DEL(d->names, e);
			free(e);
		}
		HASH_DEL(g->dirs, d);
		free(d->path);
		free(d);
	}
	g->failed = false;
	unpin_all(g);
}

void gains_free(struct gains *g)
{
	if (!g)
		return;
	gains_clear(g);
	free(g);
}

bool gains_none(const struct gains *g)
{
	return !g->dirs && !g->failed;
}

/* "a/b" of a directory; "" of the root; NULL without memory. */
static char *dir_path(struct mount *m, const struct node *dir)
{
	scoped(free) char *below = NULL;

	for (; dir && dir->id != ROOT_ID; dir = node_parent(&m->nodes, dir)) {
		char *joined;

		if (asprintf(&joined, "%s%s%s", node_name(dir), below ? "/" : "", below ? below : "") < 0)
			return NULL;
		free(below);
		below = joined;
	}
	return below ? take(&below) : strdup("");
}

int gains_dir(struct gains *g, struct mount *m, uint64_t id, struct gain_dir **out)
{
	struct node *n = node_find(&m->nodes, id);
	struct gain_dir *d;
	char *path;

	HASH_FIND(hh, g->dirs, &id, sizeof(id), d);
	*out = d;
	if (!n || (n->names == 0 && d))
		return 0;
	path = dir_path(m, n);
	if (!path)
		return -ENOMEM;
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d) {
			free(path);
			return -ENOMEM;
		}
		d->id = id;
		HASH_ADD(hh, g->dirs, id, sizeof(d->id), d);
		if (gains_pin(g, n) < 0) {
			free(path);
			return -ENOMEM;
		}
	}
	free(d->path);
	d->path = path;
	d->mtime_ns = n->attr.mtime_ns;
	*out = d;
	return 0;
}

struct gain *gains_name(struct gain_dir *d, const char *text)
{
	size_t len = strlen(text);
	struct gain *e;

	HASH_FIND(hh, d->names, text, len, e);
	if (e)
		return e;
	e = calloc(1, sizeof(*e) + len + 1);
	if (!e)
		return NULL;
	memcpy(e->text, text, len);
	HASH_ADD_KEYPTR(hh, d->names, e->text, len, e);
	return e;
}

struct gain_inode *gains_find_inode(struct gains *g, uint64_t id)
{
	struct gain_inode *i;

	HASH_FIND(hh, g->inodes, &id, sizeof(id), i);
	return i;
}

struct gain_inode *gains_inode(struct gains *g, uint64_t id)
{
	struct gain_inode *i = gains_find_inode(g, id);

	if (i)
		return i;
	i = calloc(1, sizeof(*i));
	if (!i)
		return NULL;
	i->id = id;
	HASH_ADD(hh, g->inodes, id, sizeof(i->id), i);
	return i;
}

/* Where a name leads or led: its links are those of the base, whether the moment says anew how many or not. */
static int note_inode(struct gains *g, uint64_t id, const struct node *n)
{
	struct gain_inode *i = id ? gains_inode(g, id) : NULL;

	if (i && n)
		i->links = n->links;
	return id && !i ? -ENOMEM : 0;
}

static void describe(struct gain *e, struct mount *m, const struct node *n, const struct moment *x)
{
	e->mtime_ns = n->attr.mtime_ns;
	if (!n->file)
		return;
	e->is_log = file_is_log(m, n, x->frozen_ns);
	e->is_size = file_size(n);
	e->sealed_ns = n->file->facts.clean_close_ns;
	if (n->file->first_seal_ns > e->gained_ns)
		e->gained_ns = n->file->first_seal_ns;
}

/* The directory that a name leads to, or led to, came or went as a whole. */
static int merge_child_dir(struct gains *g, struct mount *m, const struct moment_name *mn)
{
	const struct node *n;
	struct gain_dir *d;
	int rc = 0;

	if (mn->was.id && mn->was.type == DT_DIR) {
		rc = gains_dir(g, m, mn->was.id, &d);
		n = node_find(&m->nodes, mn->was.id);
		if (rc == 0 && d)
			d->gone = !n || n->names == 0;
	}
	if (rc == 0 && mn->is.id && mn->is.type == DT_DIR) {
		rc = gains_dir(g, m, mn->is.id, &d);
		n = node_find(&m->nodes, mn->is.id);
		if (rc == 0 && d) {
			d->is_new = d->is_new || (n && n->segments == 0); /* its first commit */
			d->gained_ns = mn->since_ns;
			d->gone = false;
		}
	}
	return rc;
}

/* What lies inside a directory that is new (or gone) as a whole was merged by its own names. */
static int merge_name(struct gains *g, struct mount *m, const struct moment *x, const struct moment_name *mn)
{
	const struct node *was = mn->was.id ? node_find(&m->nodes, mn->was.id) : NULL;
	const struct node *is = mn->is.id ? node_find(&m->nodes, mn->is.id) : NULL;
	struct gain_dir *d;
	struct gain *e;
	int rc = gains_dir(g, m, mn->dir, &d);

	if (rc < 0 || !d)
		return rc;
	e = gains_name(d, mn->text);
	if (!e || note_inode(g, mn->was.id, was) < 0 || note_inode(g, mn->is.id, is) < 0)
		return -ENOMEM;
	if (!e->was_id && !e->is_id && !e->rewritten) { /* first difference: `was` is the good moment's */
		e->was_id = mn->was.id;
		e->was_dir = mn->was.type == DT_DIR;
		e->was_size = was && was->file ? was->file->stored_size : 0;
	}
	if (mn->was.id)
		e->lost_ns = mn->since_ns;
	e->is_id = mn->is.id;
	e->is_dir = mn->is.type == DT_DIR;
	e->gained_ns = mn->since_ns;
	e->is_size = 0;
	if (is)
		describe(e, m, is, x);
	return merge_child_dir(g, m, mn);
}

/* ---- which name of the base leads to a file: since the freeze it may have been moved or unlinked ---- */

struct base_name {
	UT_hash_handle hh;
	uint64_t id;
	const struct name *name;
};

/* Of the names that differ from the base; made when it is first asked for. */
struct base_names {
	struct base_name *v;
	struct base_name *by_id;
};

static void base_names_fini(struct base_names *x)
{
	HASH_CLEAR(hh, x->by_id);
	free(x->v);
}
SCOPE_VAL(struct base_names, base_names_fini)

static int base_names_fill(struct base_names *x, const struct nodes *t)
{
	size_t n = 0;

	x->v = calloc(list_length(&t->dirty_names) + 1, sizeof(*x->v));
	if (!x->v)
		return -ENOMEM;
	for (struct list *l = t->dirty_names.next; l != &t->dirty_names; l = l->next) {
		struct base_name *b = &x->v[n++], *other;

		b->name = name_of_dirty(l);
		b->id = b->name->base.id;
		HASH_FIND(hh, x->by_id, &b->id, sizeof(b->id), other);
		if (b->id && !other)
			HASH_ADD(hh, x->by_id, id, sizeof(b->id), b);
	}
	return 0;
}

/* *out NULL: none is in memory. */
static int base_name(struct base_names *x, struct mount *m, const struct node *n, const struct name **out)
{
	struct node *dir = node_find(&m->nodes, n->name_dir);
	struct base_name *b;
	int rc;

	*out = dir ? name_find(dir, node_name(n), strlen(node_name(n))) : NULL;
	if (*out && (*out)->base.id == n->id)
		return 0;
	*out = NULL;
	rc = x->v ? 0 : base_names_fill(x, &m->nodes);
	if (rc < 0)
		return rc;
	HASH_FIND(hh, x->by_id, &n->id, sizeof(n->id), b);
	if (b)
		*out = b->name;
	return 0;
}

static int merge_content(struct gains *g, struct mount *m, const struct moment *x, const struct moment_node *mn,
			 struct base_names *names)
{
	const struct node *n = mn->node;
	struct gain_inode *inode;
	const struct name *name;
	struct gain_dir *d;
	struct gain *e;
	int rc;

	if (!mn->view || mn->links == 0)
		return 0;
	rc = base_name(names, m, n, &name);
	if (rc < 0 || !name)
		return rc;
	rc = gains_dir(g, m, name->dir->id, &d);
	if (rc < 0 || !d)
		return rc;
	e = gains_name(d, name->text);
	inode = gains_inode(g, n->id);
	if (!e || !inode)
		return -ENOMEM;
	inode->links = mn->links;
	inode->rewritten = true;
	if (!e->was_id && !e->is_id) {
		e->was_id = e->is_id = n->id;
		e->was_size = mn->old_size;
	}
	if (e->was_id == n->id && e->is_id == n->id) {
		e->rewritten = true;
		e->lost_ns = n->file->facts.last_write_ns;
	}
	describe(e, m, n, x);
	e->is_size = mn->rec.attr.size;
	return 0;
}

int gains_merge(struct gains *g, struct mount *m, const struct moment *x)
{
	scoped(base_names_fini) struct base_names names = {.v = NULL};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < x->name_n; i++)
		rc = merge_name(g, m, x, &x->names[i]);
	for (size_t i = 0; rc == 0 && i < x->node_n; i++)
		rc = merge_content(g, m, x, &x->nodes[i], &names);
	if (rc < 0)
		g->failed = true;
	return rc;
}

void gains_keep_times(struct gains *g, const struct gains *was)
{
	for (struct gain_dir *d = g->dirs; d; d = d->hh.next) {
		struct gain_dir *old;

		HASH_FIND(hh, was->dirs, &d->id, sizeof(d->id), old);
		if (!old)
			continue;
		d->gained_ns = old->gained_ns;
		for (struct gain *e = d->names; e; e = e->hh.next) {
			struct gain *before;

			HASH_FIND_STR(old->names, e->text, before);
			if (!before || before->is_id != e->is_id || before->is_size != e->is_size)
				continue;
			e->gained_ns = before->gained_ns;
			e->sealed_ns = before->sealed_ns;
			e->lost_ns = before->lost_ns;
		}
	}
}
