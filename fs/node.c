/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, names and their tables: memory only, no policy. */
#include "fs/node.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

void list_init(struct list *l)
{
	l->prev = l->next = l;
}

bool list_on(const struct list *l)
{
	return l->next && l->next != l;
}

void list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

void list_remove(struct list *l)
{
	if (!list_on(l))
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

size_t list_length(const struct list *head)
{
	size_t n = 0;

	for (const struct list *l = head->next; l != head; l = l->next)
		n++;
	return n;
}

void nodes_init(struct nodes *t)
{
	*t = (struct nodes){.seq = 1};
	list_init(&t->dirty_names);
	list_init(&t->dirty_nodes);
	list_init(&t->handles);
}

bool nodes_all_clean(const struct nodes *t)
{
	return !list_on(&t->dirty_names) && !list_on(&t->dirty_nodes);
}

static struct file *file_make(void)
{
	struct file *f = calloc(1, sizeof(*f));

	if (f)
		list_init(&f->awaited);
	return f;
}

static void file_drop(struct file *f)
{
	if (!f)
		return;
	view_unref(f->sealed);
	if (f->held)
		content_unhold(f->live);
	content_unref(f->live);
	extents_fini(&f->stored);
	ranges_fini(&f->fetching);
	free(f);
}

void xattrs_free(struct xattr *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(v[i].name);
		free(v[i].value);
	}
	free(v);
}

static void node_drop(struct nodes *t, struct node *n)
{
	HASH_DEL(t->by_id, n);
	t->dropped++;
	list_remove(&n->dirty);
	xattrs_free(n->xattrs, n->xattr_n);
	free(n->symlink);
	free(n->name);
	file_drop(n->file);
	free(n);
}

static void name_drop(struct nodes *t, struct name *n)
{
	HASH_DEL(n->dir->table, n);
	list_remove(&n->dirty);
	t->name_n--;
	free(n);
}

void nodes_fini(struct nodes *t)
{
	struct node *n, *n_next;
	struct name *e, *e_next;

	HASH_ITER(hh, t->by_id, n, n_next) {
		HASH_ITER(hh, n->table, e, e_next)
			name_drop(t, e);
		node_drop(t, n);
	}
}

struct node *node_find(struct nodes *t, uint64_t id)
{
	struct node *n;

	HASH_FIND(hh, t->by_id, &id, sizeof(id), n);
	return n;
}

struct node *node_current(struct nodes *t, uint64_t ino)
{
	struct node *n = node_find(t, ino);

	while (n && n->newer)
		n = n->newer;
	return n;
}

struct node *node_parent(struct nodes *t, const struct node *dir)
{
	return dir->id == ROOT_ID ? NULL : node_find(t, dir->parent);
}

struct node *node_make(struct nodes *t, uint64_t id, uint64_t home, const struct inode_attr *attr)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->id = n->ino = id;
	n->home = home;
	n->attr = *attr;
	if (S_ISREG(attr->mode)) {
		n->file = file_make();
		if (!n->file) {
			free(n);
			return NULL;
		}
	}
	list_init(&n->dirty);
	HASH_ADD(hh, t->by_id, id, sizeof(n->id), n);
	return n;
}

struct node *node_from_record(struct nodes *t, struct inode_rec *rec)
{
	struct node *n = node_make(t, rec->id, rec->home, &rec->attr);

	if (!n)
		return NULL;
	n->symlink = take(&rec->symlink);
	n->xattrs = take(&rec->xattrs);
	n->xattr_n = rec->xattr_n;
	rec->xattr_n = 0;
	n->names = n->links = node_is_dir(n) ? 1 : rec->attr.nlink;
	n->segments = inode_rec_segments(rec);
	if (n->file) {
		n->file->stored = rec->extents;
		n->file->stored_size = rec->attr.size;
		n->file->stored_mtime_ns = rec->attr.mtime_ns;
		rec->extents = EXTENTS_EMPTY;
	}
	return n;
}

/* Above all that the store gives out: a fence has 30 bits, and none comes to half of them. */
#define VERSION_IDS (UINT64_C(1) << 63)

struct node *node_newer(struct nodes *t, struct node *n, struct inode_rec *rec)
{
	struct node *newer;

	rec->id = VERSION_IDS | (t->versions + 1);
	newer = node_from_record(t, rec);
	if (!newer)
		return NULL;
	t->versions++;
	newer->ino = n->ino;
	newer->older = n;
	n->newer = newer;
	n->names = n->links = 0;
	return newer;
}

/* All names are as the newest state says: they come back when they are asked for. */
static bool names_may_go(const struct node *dir)
{
	for (const struct name *e = dir->table; e; e = e->hh.next)
		if (list_on(&e->dirty) || e->id != e->base.id)
			return false;
	return true;
}

static bool may_go(const struct node *n)
{
	if (n->lookups || n->opens || n->pins || n->inner || list_on(&n->dirty) || n->id == ROOT_ID)
		return false;
	/* Its record has still to be changed or removed (I3). */
	if (!node_is_dir(n) && n->names != n->links)
		return false;
	if (n->file && (n->file->streaming || n->file->writing || n->file->fetching.n))
		return false;
	/* A content here is worth keeping while any name leads to it. */
	if (n->file && n->file->live && (n->names || n->links))
		return false;
	return names_may_go(n);
}

void node_set_parent(struct nodes *t, struct node *n, struct node *dir)
{
	struct node *old = n->parent ? node_find(t, n->parent) : NULL;

	if (old == dir)
		return;
	if (old)
		old->inner--;
	dir->inner += dir != n; /* the root is its own */
	n->parent = dir->id;
}

/* Versions stay and go together: the oldest is what the names' id leads to. */
static void release_versions(struct nodes *t, struct node *n)
{
	if (n->newer && !n->opens && !n->pins && !n->file->fetching.n)
		content_unref(take(&n->file->live)); /* nobody can read it any more */
	while (n->newer)
		n = n->newer;
	for (const struct node *v = n; v; v = v->older)
		if (!may_go(v))
			return;
	while (n) {
		struct node *older = n->older;

		node_drop(t, n);
		n = older;
	}
}

void node_release(struct nodes *t, struct node *n)
{
	if (n && (n->newer || n->older)) {
		release_versions(t, n);
		return;
	}
	while (n && may_go(n)) {
		struct node *above = node_is_dir(n) && n->parent ? node_find(t, n->parent) : NULL;
		struct name *e, *next;

		HASH_ITER(hh, n->table, e, next)
			name_drop(t, e);
		node_drop(t, n);
		if (above)
			above->inner--;
		n = above;
	}
}

void nodes_release(struct nodes *t)
{
	uint64_t *ids = calloc(HASH_COUNT(t->by_id) + 1, sizeof(*ids)); /* one may take others with it */
	size_t n = 0;

	for (const struct node *x = t->by_id; ids && x; x = x->hh.next)
		ids[n++] = x->id;
	for (size_t i = 0; i < n; i++)
		node_release(t, node_find(t, ids[i]));
	free(ids);
}

uint8_t node_type(const struct node *n)
{
	return (uint8_t)IFTODT(n->attr.mode);
}

struct name *name_find(struct node *dir, const char *text, size_t len)
{
	struct name *n;

	HASH_FIND(hh, dir->table, text, len, n);
	return n;
}

struct name *name_get(struct nodes *t, struct node *dir, const char *text, size_t len)
{
	struct name *n = name_find(dir, text, len);

	if (n)
		return n;
	n = calloc(1, sizeof(*n) + len + 1);
	if (!n)
		return NULL;
	n->dir = dir;
	n->len = (uint8_t)len;
	memcpy(n->text, text, len);
	list_init(&n->dirty);
	HASH_ADD_KEYPTR(hh, dir->table, n->text, len, n);
	t->name_n++;
	return n;
}

void name_release(struct nodes *t, struct name *n)
{
	if (n->id == 0 && n->base.id == 0 && !list_on(&n->dirty))
		name_drop(t, n);
}

void name_touch(struct nodes *t, struct name *n)
{
	n->changed_seq = ++t->seq;
	if (!list_on(&n->dirty))
		list_append(&t->dirty_names, &n->dirty);
}

void node_touch(struct nodes *t, struct node *n)
{
	n->changed_seq = ++t->seq;
	if (!list_on(&n->dirty))
		list_append(&t->dirty_nodes, &n->dirty);
}

void node_named(struct node *n, uint64_t dir, const char *text)
{
	char *copy;

	n->name_dir = dir;
	if (n->name && strcmp(n->name, text) == 0)
		return;
	copy = strdup(text);
	if (!copy)
		return;
	free(n->name);
	n->name = copy;
}

const char *node_name(const struct node *n)
{
	return n->name ? n->name : "";
}

struct xattr *xattr_find(struct node *n, const char *name)
{
	for (uint32_t i = 0; i < n->xattr_n; i++)
		if (strcmp(n->xattrs[i].name, name) == 0)
			return &n->xattrs[i];
	return NULL;
}

int xattrs_copy(const struct xattr *from, uint32_t n, struct xattr **out)
{
	struct xattr *v = calloc(n ? n : 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		v[i].name = strdup(from[i].name);
		v[i].len = from[i].len;
		v[i].value = malloc(from[i].len ? from[i].len : 1);
		if (!v[i].name || !v[i].value) {
			xattrs_free(v, n);
			return -ENOMEM;
		}
		if (from[i].len)
			memcpy(v[i].value, from[i].value, from[i].len);
	}
	*out = v;
	return 0;
}
