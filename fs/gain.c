/* SPDX-License-Identifier: Apache-2.0 */
/* See gain.h. */
#include "fs/gain.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/file.h"

/* One name that differs, or whose file's content does. */
struct gain {
	UT_hash_handle hh;
	uint64_t was_id, is_id; /* at the good moment, in the base; 0: absent */
	uint64_t was_size, is_size;
	bool was_dir, is_dir, is_log, rewritten;
	uint64_t gained_ns, sealed_ns, lost_ns;
	int64_t mtime_ns;
	char text[];
};

struct gain_dir {
	UT_hash_handle hh;
	uint64_t id;
	char *path; /* from the root, as last seen */
	bool is_new, gone;
	uint64_t gained_ns;
	int64_t mtime_ns;
	struct gain *names;
};

/* A file that some name gained, lost or rewrote: it counts once, whatever its names are (objection 3). */
struct gain_inode {
	UT_hash_handle hh;
	uint64_t id;
	unsigned links;            /* in the base; those in the good moment follow from the names below */
	bool rewritten;            /* its content is another one */
	unsigned was_n, is_n;      /* names of the table that led to it, and that lead to it */
	bool was_told, is_told;    /* its bytes have been counted */
};

struct gains {
	struct gain_dir *dirs;
	struct gain_inode *inodes;
	bool failed;
};

struct gains *gains_new(void)
{
	return calloc(1, sizeof(struct gains));
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

/*
 * *out NULL: a directory that the table may leave out, since it came and went between two commits and no name
 * led to it when either was frozen.  0 or -ENOMEM.
 */
static int gain_dir(struct gains *g, struct mount *m, uint64_t id, struct gain_dir **out)
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
	}
	free(d->path);
	d->path = path;
	d->mtime_ns = n->attr.mtime_ns;
	*out = d;
	return 0;
}

static struct gain *gain_name(struct gain_dir *d, const char *text)
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

static struct gain_inode *find_inode(struct gains *g, uint64_t id)
{
	struct gain_inode *i;

	HASH_FIND(hh, g->inodes, &id, sizeof(id), i);
	return i;
}

/* Found or made; NULL: no memory. */
static struct gain_inode *gain_inode(struct gains *g, uint64_t id)
{
	struct gain_inode *i = find_inode(g, id);

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
	struct gain_inode *i = id ? gain_inode(g, id) : NULL;

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
		rc = gain_dir(g, m, mn->was.id, &d);
		n = node_find(&m->nodes, mn->was.id);
		if (rc == 0 && d)
			d->gone = !n || n->names == 0;
	}
	if (rc == 0 && mn->is.id && mn->is.type == DT_DIR) {
		rc = gain_dir(g, m, mn->is.id, &d);
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
	int rc = gain_dir(g, m, mn->dir, &d);

	if (rc < 0 || !d)
		return rc;
	e = gain_name(d, mn->text);
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
	rc = gain_dir(g, m, name->dir->id, &d);
	if (rc < 0 || !d)
		return rc;
	e = gain_name(d, name->text);
	inode = gain_inode(g, n->id);
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

/* ---- the input of vouch() ---- */

static enum vouch_change change_of(const struct gain *e)
{
	if (!e->was_id)
		return VOUCH_GAINED;
	if (!e->is_id)
		return VOUCH_LOST;
	/* A rename over it, or a rewrite in place: one name, another content. */
	return VOUCH_REWRITTEN;
}

/* How many of the table's names lead to each file now, and did at the good moment. */
static void count_names(struct gains *g)
{
	for (struct gain_inode *i = g->inodes; i; i = i->hh.next) {
		i->was_n = i->is_n = 0;
		i->was_told = i->is_told = false;
	}
	for (struct gain_dir *d = g->dirs; d; d = d->hh.next)
		for (const struct gain *e = d->names; e; e = e->hh.next) {
			struct gain_inode *was = find_inode(g, e->was_id), *is = find_inode(g, e->is_id);

			if (was)
				was->was_n++;
			if (is)
				is->is_n++;
		}
}

/* Names that are in no table have not changed. */
static bool inode_was_in_good(const struct gain_inode *i)
{
	return i->links + i->was_n > i->is_n;
}

/* What is gone with the content that the name had: nothing while another name has it, or if one was counted. */
static uint64_t bytes_lost(struct gains *g, const struct gain *e)
{
	struct gain_inode *i = find_inode(g, e->was_id);

	if (!i)
		return e->was_size;
	if (i->was_told || (i->links && !i->rewritten))
		return 0;
	i->was_told = true;
	return e->was_size;
}

static uint64_t bytes_gained(struct gains *g, const struct gain *e)
{
	struct gain_inode *i = find_inode(g, e->is_id);

	if (!i)
		return e->is_size;
	if (i->is_told || (inode_was_in_good(i) && !i->rewritten))
		return 0;
	i->is_told = true;
	return e->is_size;
}

static void add_gain(struct gains *g, struct vouch_input *in, struct vouch_dir *vd, const struct gain *e)
{
	struct vouch_entry v = {.name = e->text, .change = change_of(e), .is_log = e->is_log, .gained_ns = e->gained_ns,
				.sealed_ns = e->sealed_ns, .lost_ns = e->lost_ns, .mtime_ns = e->mtime_ns};

	if (!e->was_id && !e->is_id)
		return; /* came and went */
	if (e->was_id == e->is_id && !e->rewritten)
		v.change = VOUCH_KEPT;
	v.is_dir = v.change == VOUCH_LOST ? e->was_dir : e->is_dir;
	if (v.change == VOUCH_LOST || v.change == VOUCH_REWRITTEN)
		v.old_size = bytes_lost(g, e);
	if (v.change == VOUCH_LOST)
		v.size = v.old_size;
	else
		v.size = v.change == VOUCH_KEPT ? e->is_size : bytes_gained(g, e);
	vouch_entry_add(in, vd, &v);
}

static void add_kept(struct mount *m, struct vouch_input *in, struct vouch_dir *vd, const struct name *e)
{
	const struct node *n = node_find(&m->nodes, e->base.id);
	struct vouch_entry v = {.name = e->text, .change = VOUCH_KEPT, .is_dir = e->base.type == DT_DIR};

	if (n) {
		v.mtime_ns = n->attr.mtime_ns;
		if (n->file)
			v.size = n->file->stored_size;
	}
	vouch_entry_add(in, vd, &v);
}

static void add_dir(struct gains *g, struct mount *m, struct vouch_input *in, struct gain_dir *d)
{
	const struct node *n = node_find(&m->nodes, d->id);
	struct vouch_dir *vd;

	if (d->is_new && d->gone)
		return;
	vd = vouch_dir_add(in, d->path, d->gone ? VOUCH_LOST : d->is_new ? VOUCH_GAINED : VOUCH_KEPT, d->gained_ns, d->mtime_ns);
	for (const struct gain *e = d->names; e; e = e->hh.next)
		add_gain(g, in, vd, e);
	if (!n || d->gone)
		return;
	for (const struct name *e = n->table; e; e = e->hh.next) {
		struct gain *known;

		HASH_FIND(hh, d->names, e->text, e->len, known);
		if (!known && e->base.id)
			add_kept(m, in, vd, e);
	}
}

/* A sibling that did not change: its names as they are. */
static int add_sibling(struct mount *m, struct vouch_input *in, const char *path, uint64_t dir_id, const char *text)
{
	struct node *dir, *n;
	struct name *name;
	struct vouch_dir *vd;
	struct fault f = FAULT_NONE;
	int rc = load_child_lock(m, dir_id, text, &dir, &name, &n);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (!node_is_dir(n)) {
		mount_unlock(m);
		return 0;
	}
	if (!n->loaded) {
		uint64_t id = n->id;

		mount_unlock(m);
		rc = load_dir(m, id, &f);
		if (rc < 0)
			return rc;
		mount_lock(m);
		n = node_find(&m->nodes, id);
		if (!n) {
			mount_unlock(m);
			return 0;
		}
	}
	vd = vouch_dir_add(in, path, VOUCH_KEPT, 0, n->attr.mtime_ns);
	for (const struct name *e = n->table; e; e = e->hh.next)
		if (e->base.id)
			add_kept(m, in, vd, e);
	mount_unlock(m);
	return 0;
}

static void pick_siblings(struct gains *g, struct mount *m, const struct node *parent, struct vouch_pick *pick)
{
	struct gain_dir *pd;
	uint64_t id = parent->id;

	HASH_FIND(hh, g->dirs, &id, sizeof(id), pd);
	for (const struct name *e = parent->table; e; e = e->hh.next) {
		const struct node *n;
		struct gain *known = NULL;

		if (e->base.type != DT_DIR || !e->base.id)
			continue;
		if (pd)
			HASH_FIND(hh, pd->names, e->text, e->len, known);
		if (known && known->was_id != e->base.id)
			continue; /* was not there at the good moment */
		n = node_find(&m->nodes, e->base.id);
		vouch_pick_offer(pick, e->text, n ? n->attr.mtime_ns : 0);
	}
}

static int add_siblings_of(struct gains *g, struct mount *m, struct vouch_input *in, struct gain_dir *d)
{
	const char *slash = strrchr(d->path, '/');
	struct vouch_pick pick = {.name = slash ? slash + 1 : d->path};
	struct node *n;
	uint64_t parent = 0;
	int rc = 0;

	if (d->gone || d->id == ROOT_ID)
		return 0;
	mount_lock(m);
	n = node_find(&m->nodes, d->id);
	n = n ? node_parent(&m->nodes, n) : NULL;
	if (n) {
		parent = n->id;
		pick_siblings(g, m, n, &pick);
	}
	mount_unlock(m);
	for (size_t i = 0; rc == 0 && i < pick.n; i++) {
		scoped(free) char *path = NULL;

		if (asprintf(&path, "%.*s%s%s", slash ? (int)(slash - d->path) : 0, d->path, slash ? "/" : "", pick.best[i].name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (!vouch_has_dir(in, path))
			rc = add_sibling(m, in, path, parent, pick.best[i].name);
	}
	return rc;
}

int gains_input(struct gains *g, struct mount *m, struct vouch_input *in)
{
	int rc = g->failed ? -ENOMEM : 0;

	mount_lock(m);
	count_names(g);
	for (struct gain_dir *d = g->dirs; d; d = d->hh.next)
		add_dir(g, m, in, d);
	mount_unlock(m);
	for (struct gain_dir *d = g->dirs; rc == 0 && d; d = d->hh.next)
		rc = add_siblings_of(g, m, in, d);
	return rc;
}
