/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See meet.h.
 *
 * I1: afterwards base == v->to for every item, and a name or node that is not dirty has live == base.
 * I2: a file's `names` counts its live names: what the base gained, less what did not become live.
 * I3: st_nlink of a directory counts the live directories in it.
 * I4: what appears is met before what is gone: a thing that was renamed is known by its new name by then.
 */
#include "fs/slot/meet.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fs/file.h"
#include "fs/slot/rebase.h"

/* ---- names ---- */

struct meet_name {
	struct node *dir;
	struct name *name;
	struct name_rec was, is; /* the base's; id 0: absent */
	unsigned slot;           /* who says so */
};

static const struct name_rec nothing;

/* The newest seen name of a node, if it still leads to it. */
static struct name *newest_name(struct nodes *t, const struct node *n)
{
	struct node *dir = node_find(t, n->name_dir);
	struct name *e = dir ? name_find(dir, node_name(n), strlen(node_name(n))) : NULL;

	return e && e->id == n->id ? e : NULL;
}

/* The name that an item is about; NULL: it is not in memory. */
static struct name *name_of(struct nodes *t, const struct item *i)
{
	struct node *dir = node_find(t, i->dir);

	return dir ? name_find(dir, (const char *)i->key + 9, i->key_len - 9) : NULL;
}

/* Live from now on: `to`, which is as it is in the base. */
static void set_live(struct move *v, struct name *n, const struct name_rec *to)
{
	struct nodes *t = &v->m->nodes;
	struct node *old = n->id ? node_find(t, n->id) : NULL, *now = to->id ? node_find(t, to->id) : NULL;

	/* A directory that was renamed may have its new name already. */
	if (old && node_is_dir(old) && newest_name(t, old) == n)
		old->names = 0;
	n->dir->attr.nlink -= n->id && n->type == DT_DIR;
	n->dir->attr.nlink += to->id && to->type == DT_DIR; /* I3 */
	n->id = to->id;
	n->home = to->home;
	n->type = to->type;
	n->cut = false;
	n->appeared_ns = mount_now(v->m);
	if (!now)
		return;
	node_named(now, n->dir->id, n->text);
	if (node_is_dir(now)) {
		now->names = 1;
		node_set_parent(t, now, n->dir);
	}
}

/* I2: by how much the names of a file grew that are live, beyond those of the base. */
static void count(struct move *v, uint64_t id, int by)
{
	struct node *n = id ? node_find(&v->m->nodes, id) : NULL;

	if (n && !node_is_dir(n))
		n->names += (unsigned)by;
}

/* It is not what the base says, and is to be committed. */
static void keep(struct move *v, struct name *n)
{
	uint64_t now = mount_now(v->m);

	name_touch(&v->m->nodes, n);
	mount_changed(v->m, now);
	v->m->last_change_ns = now;
}

/* Does it hold something that was made or changed here and is in no commit? */
static bool has_own(struct nodes *t, const struct node *n)
{
	if (!node_is_dir(n))
		return n->file && n->file->changed;
	for (const struct name *e = n->table; e; e = e->hh.next) {
		const struct node *child = e->id ? node_find(t, e->id) : NULL;

		if (e->id && (e->id != e->base.id || (child && has_own(t, child))))
			return true;
	}
	return false;
}

/* What was done here stays, whatever they did to the name: it is committed anew. */
static void stays(struct move *v, struct name *n, struct node *child)
{
	child->attr_dirty = true;
	node_touch(&v->m->nodes, child);
	keep(v, n);
}

/* Its name is as it was in the base, which is another one now; they know nothing of what was done to it here. */
static struct node *own_change(struct move *v, const struct name *n, const struct name_rec *was)
{
	struct nodes *t = &v->m->nodes;
	struct node *child = n->id && n->id == was->id ? node_find(t, n->id) : NULL;
	const struct name *newest = child ? newest_name(t, child) : NULL;

	if (newest && newest != n)
		return NULL; /* they renamed it, and it has come along */
	return child && has_own(t, child) ? child : NULL;
}

/* The name that a directory got here and that is in no commit; NULL: there is none. */
static struct name *own_name(struct move *v, const struct name_rec *dir)
{
	struct node *n = dir->type == DT_DIR ? node_find(&v->m->nodes, dir->id) : NULL;
	struct name *e = n ? newest_name(&v->m->nodes, n) : NULL;

	return e && e->base.id != dir->id ? e : NULL;
}

/* A directory has one name.  Both made this one, and they have renamed it since. */
static void give_up_name(struct move *v, struct name *own)
{
	set_live(v, own, &nothing);
	name_touch(&v->m->nodes, own);
	note_name(&v->note, own);
	note_node(&v->note, own->dir);
}

/* A name for theirs: a free one, or that of an earlier one, which makes way.  NULL: no memory. */
static struct name *beside(struct move *v, const struct meet_name *x)
{
	struct nodes *t = &v->m->nodes;

	for (unsigned again = 0;; again++) {
		char text[NAME_MAX_BYTES + 1];
		size_t len = rebase_beside_name(x->name->text, x->name->len, x->slot, again, text);
		struct name *n = name_get(t, x->dir, text, len);
		struct node *old = n && n->id ? node_find(t, n->id) : NULL;

		if (!n || !n->id)
			return n;
		if (!old || node_is_dir(old) || n->id != n->base.id)
			continue;
		old->names--;
		old->attr_dirty = true;
		node_touch(t, old);
		note_node(&v->note, old);
		return n;
	}
}

/* Two files under one name: ours is the later one, theirs stays beside it. */
static void put_aside(struct move *v, const struct meet_name *x)
{
	struct name *n = beside(v, x);

	if (!n) {
		log_error("%s of slot %u: no memory to keep it beside the one of this slot", x->name->text, x->slot);
		return;
	}
	set_live(v, n, &x->is);
	count(v, n->id, 1);
	keep(v, n);
	x->dir->attr_dirty = true;
	node_touch(&v->m->nodes, x->dir);
	note_name(&v->note, n);
	log_info("%s was written by slot %u as well: kept as %s", x->name->text, x->slot, n->text);
}

/* Ours is given up for one of the same bytes. */
static bool takes_theirs(struct move *v, const struct meet_name *x, const struct item *i)
{
	struct node *ours = node_find(&v->m->nodes, x->name->id);

	return i->same && ours && ours->file && file_is_sealed(v->m, ours, mount_now(v->m));
}

/* They put something there. */
static void appears(struct move *v, const struct meet_name *x, const struct item *i)
{
	struct name *n = x->name, *own = own_name(v, &x->is);
	struct node *changed = own_change(v, n, &x->was);

	if (own && own != n && node_find(&v->m->nodes, x->is.id)->segments == 0) {
		give_up_name(v, own);
		own = NULL;
	}
	if (changed)
		stays(v, n, changed);
	if (n->id && (n->id != x->was.id || changed)) { /* ours is the later one */
		if (takes_theirs(v, x, i))
			set_live(v, n, &x->is);
		else if (!own)
			put_aside(v, x);
	} else if (!own) {
		set_live(v, n, &x->is); /* also where this slot has removed another one */
	} else {
		set_live(v, n, &nothing); /* both renamed it, and ours is the later one */
		keep(v, n);
	}
}

/* They removed what was there. */
static void goes(struct move *v, const struct meet_name *x)
{
	struct node *changed = own_change(v, x->name, &x->was);

	if (changed)
		stays(v, x->name, changed);
	else if (x->name->id == x->was.id)
		set_live(v, x->name, &nothing);
}

static void meet_live(struct move *v, const struct meet_name *x, const struct item *i)
{
	if (x->name->id == x->is.id || x->slot == v->m->opts.slot)
		return; /* what was done here is the later one in any case */
	if (x->is.id)
		appears(v, x, i);
	else
		goes(v, x);
}

static void meet_name(struct move *v, const struct item *i)
{
	struct nodes *t = &v->m->nodes;
	const char *text = (const char *)i->key + 9;
	size_t len = i->key_len - 9;
	struct meet_name x = {.dir = node_find(t, i->dir), .is = i->there ? i->name : (struct name_rec){.id = 0}};
	uint64_t live;

	if (!x.dir || !x.dir->loaded)
		return;
	x.name = name_find(x.dir, text, len);
	if (!x.name && x.is.id)
		x.name = name_get(t, x.dir, text, len); /* NULL: no memory; it shows when the directory is loaded anew */
	if (!x.name)
		return;
	x.was = x.name->base;
	live = x.name->id;
	x.name->base = x.is;
	if (x.was.id != x.is.id) {
		x.slot = v->meeting->slot_of(v->meeting->arg, i->key, i->key_len);
		meet_live(v, &x, i);
		count(v, x.was.id, 1);
		count(v, x.is.id, -1);
		count(v, live, -1);
		count(v, x.name->id, 1);
	}
	if (x.name->id != x.is.id && !list_on(&x.name->dirty))
		name_touch(t, x.name);
}

/* They have a directory in one that is not loaded here: the name that it got here is given up, as it has one only. */
static void meet_elsewhere(struct move *v, const struct item *i)
{
	const struct node *dir = node_find(&v->m->nodes, i->dir);
	struct name *own = dir && dir->loaded ? NULL : own_name(v, &i->name);

	if (!own)
		return;
	give_up_name(v, own);
	node_find(&v->m->nodes, i->name.id)->names = 1;
}

/* A directory that was removed here has gained entries: it and those above are there again. */
static void revive(struct move *v, struct node *dir)
{
	struct nodes *t = &v->m->nodes;
	struct node *parent = node_find(t, dir->parent);
	struct name *n = parent ? name_find(parent, node_name(dir), strlen(node_name(dir))) : NULL;

	if (dir->names || !n || n->base.id != dir->id || n->id)
		return;
	set_live(v, n, &n->base);
	note_node(&v->note, parent);
	if (parent != dir)
		revive(v, parent);
}

/* ---- inodes ---- */

static void meet_content(struct node *n, struct item *x)
{
	struct file *f = n->file;

	if (f->changed || f->sealed || f->stale) { /* ours comes later, or somebody still reads an older one */
		move_take_extents(f, &x->inode);
		return;
	}
	if (!move_extend(n, x) && f->live) {
		f->stale = true;
		f->damaged = false;
		file_drop_stale(n);
	}
	move_take_extents(f, &x->inode);
}

static void take_record(struct node *n, struct item *x)
{
	unsigned names = n->names;
	uint32_t nlink = node_is_dir(n) && n->loaded ? n->attr.nlink : x->inode.attr.nlink; /* I3 */

	move_take_record(n, &x->inode);
	n->names = names;
	n->attr.nlink = nlink;
}

static void meet_inode(struct move *v, struct item *x)
{
	struct node *n = node_find(&v->m->nodes, x->ino);
	unsigned links;

	if (!n || (n->id == ROOT_ID && !x->there))
		return;
	links = x->there ? (node_is_dir(n) ? 1 : x->inode.attr.nlink) : 0;
	if (!node_is_dir(n))
		n->names += links - n->links;
	n->links = links;
	n->segments = x->there ? inode_rec_segments(&x->inode) : 0;
	if (!x->there)
		return;
	if (n->file)
		meet_content(n, x);
	if (!list_on(&n->dirty))
		take_record(n, x);
	else if (node_is_dir(n) && !n->loaded)
		n->attr.nlink = x->inode.attr.nlink; /* I3 */
}

/* ---- the journal: replayed over v->to, it has to give what is live now ---- */

static void note_raw(struct move *v, const struct run_item *k, struct note *w)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	/* Above the base, so nothing is read. */
	if (state_find(v->to, &v->src, k->key, k->key_len, &value, &f) == 0)
		note_item(w, k->key, k->key_len, &value);
	else
		note_item(w, k->key, k->key_len, NULL);
}

static void note_key(struct move *v, const struct run_item *k, struct note *w)
{
	struct nodes *t = &v->m->nodes;
	struct node *n = node_find(t, key_number(k->key, key_kind(k->key, k->key_len) == KEY_NAME ? 0 : 9));
	struct name *e;

	if (key_kind(k->key, k->key_len) == KEY_NAME) {
		e = n && n->loaded ? name_find(n, (const char *)k->key + 9, k->key_len - 9) : NULL;
		if (e)
			note_name(w, e);
		else
			note_raw(v, k, w);
	} else if (n) {
		note_node(w, n);
	} else if (key_is_first_segment(k->key, k->key_len)) {
		note_raw(v, k, w);
	}
}

static void tell_journal(struct move *v)
{
	struct run_item k;

	for (size_t i = 0; i < run_count(v->keys); i++) {
		run_at(v->keys, i, &k);
		note_key(v, &k, &v->note);
	}
	note_tree(&v->note, state_head(v->to)->number);
	(void)note_done(v->m, &v->note); /* a failed journal is sticky: the next change says so */
}

/* ---- the whole ---- */

void meet_all(struct move *v)
{
	struct nodes *t = &v->m->nodes;
	struct item *x;

	for (x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_NAME && x->there)
			meet_elsewhere(v, x);
	for (x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_NAME && x->there)
			meet_name(v, x);
	for (x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_NAME && !x->there)
			meet_name(v, x); /* I4 */
	for (x = v->items; x; x = x->hh.next) {
		struct node *dir = x->kind == ITEM_NAME && x->there ? node_find(t, x->dir) : NULL;

		if (dir && dir->id != ROOT_ID)
			revive(v, dir);
	}
	for (x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_INODE)
			meet_inode(v, x);
	tell_journal(v);
	for (x = v->items; x; x = x->hh.next) {
		struct name *n = x->kind == ITEM_NAME ? name_of(t, x) : NULL;

		if (n)
			name_release(t, n);
	}
}

static int read_theirs(struct move *v, struct item *x, struct content **out, struct node **ours, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec theirs = {.id = 0};
	struct mount *m = v->m;
	struct node *n = NULL;
	const struct name *e;
	uint32_t version = 0;
	int rc = state_inode(v->to, &v->src, x->name.home, x->name.id, &theirs, f);

	if (rc < 0)
		return rc;
	mount_lock(m);
	e = name_of(&m->nodes, x);
	if (e && e->id && e->id != e->base.id && e->id != x->name.id)
		n = node_find(&m->nodes, e->id);
	if (n && n->file && n->file->live && file_size(n) == theirs.attr.size && file_is_sealed(m, n, mount_now(m))) {
		version = ++n->file->version;
		n->pins++;
		*ours = n;
	}
	mount_unlock(m);
	if (!*ours)
		return 0;
	return content_of_extents(m->contents, n->id, version, &theirs.extents, theirs.attr.size, out, f);
}

/* An earlier one that theirs may take the place of. */
static int load_earlier(struct move *v, const struct item *x, struct fault *f)
{
	char text[NAME_MAX_BYTES + 1];
	unsigned slot = v->meeting->slot_of(v->meeting->arg, x->key, x->key_len);
	size_t len = rebase_beside_name((const char *)x->key + 9, x->key_len - 9, slot, 0, text);
	struct mount *m = v->m;
	struct node *dir;
	struct name *n;
	uint64_t id = 0, home = 0;

	mount_lock(m);
	dir = node_find(&m->nodes, x->dir);
	n = dir ? name_find(dir, text, len) : NULL;
	if (n) {
		id = n->id;
		home = n->home;
	}
	mount_unlock(m);
	return id ? load_node(m, home, id, f) : 0;
}

int meet_compare(struct move *v, struct item *x, struct fault *f)
{
	scoped(content_unref) struct content *theirs = NULL;
	struct mount *m = v->m;
	struct node *ours = NULL;
	int rc = x->name.type == DT_REG ? read_theirs(v, x, &theirs, &ours, f) : 0;

	if (!ours)
		return rc < 0 ? rc : load_earlier(v, x, f);
	if (rc == 0)
		x->same = move_same_bytes(m, ours, ours->file->live, theirs, 0, content_size(theirs));
	mount_lock(m);
	ours->pins--;
	node_release(&m->nodes, ours);
	mount_unlock(m);
	return rc == 0 && !x->same ? load_earlier(v, x, f) : rc;
}
