/* SPDX-License-Identifier: Apache-2.0 */
/* The table of gains in the form that vouch() asks for. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/gain_priv.h"

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
			struct gain_inode *was = gains_find_inode(g, e->was_id), *is = gains_find_inode(g, e->is_id);

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
	struct gain_inode *i = gains_find_inode(g, e->was_id);

	if (!i)
		return e->was_size;
	if (i->was_told || (i->links && !i->rewritten))
		return 0;
	i->was_told = true;
	return e->was_size;
}

static uint64_t bytes_gained(struct gains *g, const struct gain *e)
{
	struct gain_inode *i = gains_find_inode(g, e->is_id);

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
static int add_sibling(struct gains *g, struct mount *m, struct vouch_input *in, const char *path, uint64_t dir_id, const char *text)
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
	rc = gains_pin(g, n);
	vd = vouch_dir_add(in, path, VOUCH_KEPT, 0, n->attr.mtime_ns);
	for (const struct name *e = n->table; e; e = e->hh.next)
		if (e->base.id)
			add_kept(m, in, vd, e);
	mount_unlock(m);
	return rc;
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
			rc = add_sibling(g, m, in, path, parent, pick.best[i].name);
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
