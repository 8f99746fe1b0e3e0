/* SPDX-License-Identifier: Apache-2.0 */
/* Moments: freeze, promote, encode, settle.  See moment.h. */
#include "fs/moment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/file.h"

/* ---- quiet ---- */

static bool file_changed_lately(const struct mount *m, const struct node *n, uint64_t now)
{
	const struct seal_facts *s = &n->file->facts;
	uint64_t last = s->last_write_ns > s->clean_close_ns ? s->last_write_ns : s->clean_close_ns;

	return n->file->changed && last + m->opts.policy.quiet_ns > now && !file_is_log(m, n, now);
}

static void name_holder(struct holder *h, const struct node *n)
{
	(void)snprintf(h->name, sizeof(h->name), "%s", node_name(n));
	h->torn = file_torn(n);
}

bool moment_quiet(struct mount *m, uint64_t now, struct holder *holder)
{
	if (holder)
		*holder = (struct holder){.torn = NULL};
	if (m->last_change_ns + m->opts.policy.quiet_ns > now)
		return false;
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		struct node *n = node_of_dirty(l);

		if (!n->file || (n->names == 0 && n->links == 0))
			continue;
		/* What holds nothing back although it is not sealed does not count by its writes either. */
		if (file_holds(m, n, now) || (file_is_sealed(m, n, now) && file_changed_lately(m, n, now))) {
			if (holder)
				name_holder(holder, n);
			return false;
		}
	}
	return true;
}

/* ---- freeze ---- */

static bool node_publishable(const struct mount *m, const struct node *n, uint64_t now)
{
	return !n->file || file_ever_sealed(m, n, now) || file_is_log(m, n, now);
}

static struct name_rec name_public(struct mount *m, const struct name *e, uint64_t now)
{
	const struct node *n = e->id ? node_find(&m->nodes, e->id) : NULL;

	if (e->id && n && !node_publishable(m, n, now))
		return e->cut ? (struct name_rec){.id = 0} : e->base;
	return (struct name_rec){.id = e->id, .home = e->home, .type = e->type};
}

/* Nodes whose link count changes are part of the moment even if nothing else of them did. */
static void count_link(struct mount *m, uint64_t id, int by)
{
	struct node *n = id ? node_find(&m->nodes, id) : NULL;

	if (!n)
		return;
	n->delta += by;
	if (!list_on(&n->dirty))
		list_append(&m->nodes.dirty_nodes, &n->dirty);
}

static int freeze_names(struct mount *m, struct moment *x)
{
	x->names = calloc(list_length(&m->nodes.dirty_names) + 1, sizeof(*x->names));
	if (!x->names)
		return -ENOMEM;
	for (struct list *l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = l->next) {
		struct name *e = name_of_dirty(l);
		struct name_rec is = name_public(m, e, x->frozen_ns);

		if (is.id == e->base.id)
			continue;
		x->names[x->name_n] = (struct moment_name){.name = e, .dir = e->dir->id, .text = strdup(e->text),
							   .was = e->base, .is = is, .since_ns = e->appeared_ns};
		if (!x->names[x->name_n++].text)
			return -ENOMEM;
		count_link(m, e->base.id, -1);
		count_link(m, is.id, 1);
	}
	return 0;
}

/* Which version of a file this moment says; view stays NULL where it is the base's. */
static int freeze_content(struct mount *m, struct moment *x, struct moment_node *mn)
{
	struct node *n = mn->node;
	struct file *f = n->file;
	uint64_t now = x->frozen_ns;

	mn->old_size = f->stored_size;
	mn->rec.attr.size = f->stored_size;
	if (f->changed && !f->live_is_sealed && (file_is_sealed(m, n, now) || file_is_log(m, n, now))) {
		int rc = file_name_sealed(n);

		if (rc < 0)
			return rc;
		f->live_is_sealed = !f->writing; /* what a log is just getting comes with the next moment */
		f->only_grown = true;
		if (!f->first_seal_ns)
			f->first_seal_ns = now;
	}
	if (!f->changed)
		return 0;
	if (f->live_is_sealed)
		f->sealed_attr = n->attr; /* its times may have been set since */
	if (f->sealed) {
		mn->view = view_ref(f->sealed);
		mn->rec.attr.size = view_size(f->sealed);
		mn->rec.attr.mtime_ns = f->sealed_attr.mtime_ns;
	} else if (n->segments) {
		mn->rec.attr.mtime_ns = f->stored_mtime_ns;
	}
	return 0;
}

static int freeze_node(struct mount *m, struct moment *x, struct node *n, int delta)
{
	struct moment_node *mn = &x->nodes[x->node_n];
	int rc;

	*mn = (struct moment_node){.node = n, .links = n->links + (unsigned)delta};
	if (mn->links == 0) {
		if (n->links == 0 && n->segments == 0)
			return 0; /* the base never heard of it */
		mn->removed = true;
		mn->rec = (struct inode_rec){.id = n->id, .home = n->home};
		x->node_n++;
		return 0;
	}
	mn->rec = (struct inode_rec){.id = n->id, .home = n->home, .attr = n->attr};
	if (!node_is_dir(n))
		mn->rec.attr.nlink = mn->links;
	rc = n->file ? freeze_content(m, x, mn) : 0;
	if (rc < 0)
		return rc;
	if (!mn->view && !n->attr_dirty && !delta)
		return 0;
	x->node_n++; /* from here on moment_free() ends it */
	if (n->symlink && !(mn->rec.symlink = strdup(n->symlink)))
		return -ENOMEM;
	rc = xattrs_copy(n->xattrs, n->xattr_n, &mn->rec.xattrs);
	if (rc == 0)
		mn->rec.xattr_n = n->xattr_n;
	return rc;
}

static int freeze_nodes(struct mount *m, struct moment *x)
{
	int rc = 0;

	x->nodes = calloc(list_length(&m->nodes.dirty_nodes) + 1, sizeof(*x->nodes));
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		struct node *n = node_of_dirty(l);
		int delta = n->delta;

		n->delta = 0; /* in any case: the next freeze starts from nothing */
		if (rc == 0)
			rc = x->nodes ? freeze_node(m, x, n, delta) : -ENOMEM;
	}
	return rc;
}

/* What is left on the lists and was looked at: names that say what the base says, and nodes with nothing more to tell. */
static void sweep_lists(struct mount *m, const struct moment *x)
{
	struct list *l, *next;

	for (l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = next) {
		struct name *e = name_of_dirty(l);

		next = l->next;
		if (e->changed_seq <= x->seq && e->id == e->base.id) {
			e->cut = false;
			list_remove(l);
			name_release(&m->nodes, e);
		}
	}
	for (l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = next) {
		struct node *n = node_of_dirty(l);
		bool unsealed = n->file && n->file->changed && !n->file->live_is_sealed && n->names;

		next = l->next;
		if (n->changed_seq > x->seq || unsealed)
			continue;
		list_remove(l);
		node_release(&m->nodes, n);
	}
}

int moment_freeze(struct mount *m, uint64_t now, struct moment **out)
{
	scoped(moment_free) struct moment *x = calloc(1, sizeof(*x));
	int rc, rc_nodes;

	if (!x)
		return -ENOMEM;
	x->seq = m->nodes.seq;
	x->frozen_ns = now;
	x->quiet = moment_quiet(m, now, &x->holder);
	rc = freeze_names(m, x);
	rc_nodes = freeze_nodes(m, x);
	if (rc < 0 || rc_nodes < 0)
		return rc < 0 ? rc : rc_nodes;
	if (x->name_n == 0 && x->node_n == 0) {
		sweep_lists(m, x);
		return -EAGAIN;
	}
	*out = take(&x);
	return 0;
}

void moment_free(struct moment *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->node_n; i++) {
		view_unref(x->nodes[i].view);
		inode_rec_fini(&x->nodes[i].rec);
	}
	for (size_t i = 0; i < x->name_n; i++)
		free(x->names[i].text);
	free(x->nodes);
	free(x->names);
	free(x);
}

/* ---- promote ---- */

static void promote_name(struct mount *m, const struct moment *x, const struct moment_name *mn)
{
	struct name *e = mn->name;

	e->dir->pins++; /* until settle: no state that it could be loaded from says so before */
	e->base = mn->is;
	if (e->id != e->base.id || e->changed_seq > x->seq)
		return;
	e->cut = false;
	list_remove(&e->dirty);
	name_release(&m->nodes, e);
}

static void promote_node(const struct moment *x, const struct moment_node *mn)
{
	struct node *n = mn->node;

	n->pins++; /* until settle */
	n->links = mn->links;
	if (n->changed_seq <= x->seq)
		n->attr_dirty = false;
}

void moment_promote(struct mount *m, struct moment *x)
{
	for (size_t i = 0; i < x->node_n; i++)
		promote_node(x, &x->nodes[i]);
	for (size_t i = 0; i < x->name_n; i++)
		promote_name(m, x, &x->names[i]);
	sweep_lists(m, x);
}

/* ---- encode, settle ---- */

static int encode_name(struct run_builder *b, const struct moment_name *mn)
{
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_name(mn->dir, mn->text, strlen(mn->text), key);
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	int rc;

	if (mn->is.id == 0)
		return run_builder_add(b, key, len, NULL, 0);
	rc = name_rec_encode(&mn->is, &value);
	return rc < 0 ? rc : run_builder_add(b, key, len, value.data, value.len);
}

static int encode_node(struct run_builder *b, struct moment_node *mn)
{
	struct node *n = mn->node;
	int rc = 0;

	if (mn->removed)
		return inode_rec_remove(b, n->home, n->id, n->segments);
	extents_fini(&mn->rec.extents); /* the number may have gone to another record since */
	if (mn->view) {
		rc = view_extents(mn->view, &mn->rec.extents);
	} else if (n->file) {
		rc = extents_copy(&n->file->stored, &mn->rec.extents);
		mn->rec.attr.size = n->file->stored_size;
	}
	return rc < 0 ? rc : inode_rec_put(b, &mn->rec, n->segments);
}

int moment_encode(struct moment *x, struct run **out)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	int rc = b ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < x->name_n; i++)
		rc = encode_name(b, &x->names[i]);
	for (size_t i = 0; rc == 0 && i < x->node_n; i++)
		rc = encode_node(b, &x->nodes[i]);
	return rc < 0 ? rc : run_builder_finish(b, out);
}

static void settle_content(struct file *f, struct moment_node *mn)
{
	extents_fini(&f->stored);
	f->stored = mn->rec.extents;
	mn->rec.extents = EXTENTS_EMPTY;
	f->stored_size = mn->rec.attr.size;
	f->stored_mtime_ns = mn->rec.attr.mtime_ns;
	if (f->sealed != mn->view)
		return; /* sealed anew since: that one is still to come */
	view_unref(f->sealed);
	f->sealed = NULL;
	if (f->live_is_sealed) {
		f->live_is_sealed = false;
		f->changed = false;
	}
}

/* The journal learns that it is in the store: a replay need not look at it again. */
static void settle_note(struct note *w, const struct node *n)
{
	if (!n->file || !n->file->live || n->names == 0)
		return;
	if (n->file->changed) {
		if (!n->file->sealed) /* changed since; no more is told of a view that has gone */
			note_unnamed(w, n);
		return;
	}
	note_node(w, n); /* a log's size and times were not told of as it grew */
	note_content(w, n, true);
	note_present(w, n);
}

void moment_settle(struct mount *m, struct moment *x)
{
	struct note w = NOTE_EMPTY;

	for (size_t i = 0; i < x->node_n; i++) {
		struct moment_node *mn = &x->nodes[i];
		struct node *n = mn->node;

		n->segments = mn->removed ? 0 : inode_rec_segments(&mn->rec);
		if (mn->view)
			settle_content(n->file, mn);
		settle_note(&w, n);
		n->pins--;
		node_release(&m->nodes, n);
	}
	for (size_t i = 0; i < x->name_n; i++) {
		struct node *dir = node_find(&m->nodes, x->names[i].dir);

		if (--dir->pins == 0)
			node_release(&m->nodes, dir);
	}
	(void)note_done(m, &w); /* a failed journal is sticky: the next change says so */
}

uint64_t moment_unsent_of(const struct moment_node *n)
{
	uint64_t sum = 0;
	struct range r = {.to = 0};

	while (n->view && view_unmapped(n->view, r.to, &r))
		sum += r.to - r.from;
	return sum;
}

uint64_t moment_unsent(const struct moment *x)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < x->node_n; i++)
		sum += moment_unsent_of(&x->nodes[i]);
	return sum;
}

uint64_t moment_dirty_bytes(struct mount *m)
{
	uint64_t sum = 0;

	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		const struct node *n = node_of_dirty(l);
		uint64_t mapped;

		if (!n->file || !n->file->changed || !n->file->live || n->names == 0)
			continue;
		mapped = content_mapped(n->file->live);
		if (mapped < file_size(n))
			sum += file_size(n) - mapped;
	}
	return sum;
}
