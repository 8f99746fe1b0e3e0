/* SPDX-License-Identifier: Apache-2.0 */
/* The namespace as a caller sees it: memory and one journal entry a call. */
#include "fs/ns.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/file.h"

#define LINK_MOST 65000
#define TRIM_EVERY 16384 /* nodes forgotten: some 10 MB with their names */
#define XATTR_BYTES_MOST (64u << 10) /* of one inode: it all stands in one record */

static int64_t wall(const struct mount *m)
{
	return clock_wall(m->clock);
}

static void attr_of(const struct node *n, struct ns_attr *out)
{
	out->id = n->id;
	out->ino = n->ino;
	out->attr = n->attr;
	if (n->file)
		out->attr.size = file_size(n);
	if (!node_is_dir(n))
		out->attr.nlink = n->names;
}

static void answer_entry(struct node *n, struct ns_attr *out)
{
	n->lookups++;
	attr_of(n, out);
}

/* A change of names in a directory is a change of the directory. */
static void dir_changed(struct mount *m, struct node *dir)
{
	dir->attr.mtime_ns = dir->attr.ctime_ns = wall(m);
	dir->attr_dirty = true;
	node_touch(&m->nodes, dir);
	m->last_change_ns = mount_now(m);
	mount_changed(m, m->last_change_ns);
}

static void inode_changed(struct mount *m, struct node *n)
{
	n->attr.ctime_ns = wall(m);
	n->attr_dirty = true;
	node_touch(&m->nodes, n);
	m->last_change_ns = mount_now(m);
	mount_changed(m, m->last_change_ns);
}

/* The live name now leads to `to` (NULL: nowhere). */
static void name_set(struct mount *m, struct name *name, struct node *to)
{
	name->id = to ? to->id : 0;
	name->home = to ? to->home : 0;
	name->type = to ? node_type(to) : 0;
	name->appeared_ns = mount_now(m);
	if (to && to->id == name->base.id)
		name->cut = false; /* it has come back */
	if (to)
		node_named(to, name->dir->id, name->text);
	name_touch(&m->nodes, name);
}

int ns_lookup(struct mount *m, uint64_t dir_id, const char *text, struct ns_attr *out)
{
	struct node *dir, *n;
	int rc = load_child_lock(m, dir_id, text, &dir, NULL, &n);

	if (rc < 0)
		return rc;
	answer_entry(n, out);
	mount_unlock(m);
	return 0;
}

void ns_forget(struct mount *m, uint64_t id, uint64_t count)
{
	struct node *n;
	bool many;

	mount_lock(m);
	n = node_find(&m->nodes, id);
	if (n) {
		n->lookups -= count < n->lookups ? count : n->lookups;
		node_release(&m->nodes, n);
	}
	many = m->nodes.dropped >= TRIM_EVERY;
	if (many)
		m->nodes.dropped = 0;
	mount_unlock(m);
	if (many)
		(void)malloc_trim(0); /* small pieces, which the allocator would keep */
}

/* lock, with a node that the kernel knows. */
static int node_lock(struct mount *m, uint64_t id, struct node **out)
{
	mount_lock(m);
	*out = node_find(&m->nodes, id);
	if (*out)
		return 0;
	mount_unlock(m);
	return -ENOENT;
}

int ns_getattr(struct mount *m, uint64_t id, struct ns_attr *out)
{
	struct node *n;
	int rc = node_lock(m, id, &n);

	if (rc < 0)
		return rc;
	attr_of(n, out);
	mount_unlock(m);
	return 0;
}

int ns_setattr(struct mount *m, uint64_t id, unsigned set, const struct inode_attr *to, struct ns_attr *out)
{
	struct note w = NOTE_EMPTY;
	struct node *n;
	int rc = node_lock(m, id, &n);

	if (rc < 0)
		return rc;
	rc = m->read_only;
	if (rc == 0 && set) {
		if (set & NS_SET_KILL_PRIV)
			n->attr.mode &= ~(uint32_t)(S_ISUID | (n->attr.mode & S_IXGRP ? S_ISGID : 0));
		if (set & NS_SET_MODE)
			n->attr.mode = (n->attr.mode & S_IFMT) | (to->mode & 07777);
		if (set & NS_SET_UID)
			n->attr.uid = to->uid;
		if (set & NS_SET_GID)
			n->attr.gid = to->gid;
		if (set & NS_SET_ATIME)
			n->attr.atime_ns = to->atime_ns;
		if (set & NS_SET_MTIME)
			n->attr.mtime_ns = to->mtime_ns;
		inode_changed(m, n);
		if (set & NS_SET_CTIME)
			n->attr.ctime_ns = to->ctime_ns;
		note_node(&w, n);
		rc = note_done(m, &w);
	}
	attr_of(n, out);
	mount_unlock(m);
	return rc;
}

static int name_ok(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > NAME_MAX_BYTES)
		return len ? -ENAMETOOLONG : -ENOENT;
	return strcmp(text, ".") == 0 || strcmp(text, "..") == 0 ? -EEXIST : 0;
}

/* lock, a loaded directory that may be changed, and the name in it (made if absent). */
static int name_lock(struct mount *m, uint64_t dir_id, const char *text, struct node **dir, struct name **out)
{
	int rc = name_ok(text);

	if (rc == 0)
		rc = load_dir_lock(m, dir_id, dir);
	if (rc < 0)
		return rc;
	if (m->read_only)
		rc = m->read_only;
	else if ((*dir)->names == 0 && (*dir)->id != ROOT_ID)
		rc = -ENOENT; /* removed, and held open by somebody */
	else if (!(*out = name_get(&m->nodes, *dir, text, strlen(text))))
		rc = -ENOMEM;
	if (rc < 0)
		mount_unlock(m);
	return rc;
}

static struct node *make_node(struct mount *m, struct node *dir, const char *text, mode_t mode, dev_t rdev, const char *target, struct ns_cred who)
{
	int64_t now = wall(m);
	struct inode_attr attr = {.mode = mode, .uid = who.uid, .gid = who.gid, .rdev = (uint32_t)rdev,
				  .atime_ns = now, .mtime_ns = now, .ctime_ns = now};
	struct node *n;

	if (dir->attr.mode & S_ISGID) {
		attr.gid = dir->attr.gid;
		if (S_ISDIR(mode))
			attr.mode |= S_ISGID;
	}
	attr.nlink = S_ISDIR(mode) ? 2 : 1;
	attr.size = target ? strlen(target) : 0;
	n = node_make(&m->nodes, S_ISDIR(mode) ? mount_new_dir(m, dir->id, text) : mount_new_inode(m), dir->id, &attr);
	if (!n)
		return NULL;
	n->names = 1;
	if (S_ISDIR(mode)) {
		n->loaded = true; /* nothing of it in the store */
		node_set_parent(&m->nodes, n, dir);
	}
	if (target && !(n->symlink = strdup(target))) {
		n->names = 0;
		node_release(&m->nodes, n);
		return NULL;
	}
	return n;
}

int ns_make(struct mount *m, uint64_t dir_id, const char *text, mode_t mode, dev_t rdev, const char *target,
	    struct ns_cred who, struct ns_attr *out)
{
	struct note w = NOTE_EMPTY;
	struct node *dir, *n;
	struct name *name;
	int rc;

	if (target && strlen(target) >= PATH_MAX)
		return -ENAMETOOLONG;
	rc = name_lock(m, dir_id, text, &dir, &name);
	if (rc < 0)
		return rc;
	if (name->id) {
		mount_unlock(m);
		return -EEXIST;
	}
	n = make_node(m, dir, text, mode, rdev, target, who);
	rc = n ? 0 : -ENOMEM;
	if (n && n->file) { /* before it has a name: the cache may have no place for it */
		file_born(m, n);
		rc = file_content(m, n, &w);
	}
	if (rc < 0) {
		if (n) {
			n->names = 0;
			node_release(&m->nodes, n);
		}
		buf_fini(&w.entries);
		name_release(&m->nodes, name);
		mount_unlock(m);
		return rc;
	}
	if (S_ISDIR(mode))
		dir->attr.nlink++;
	name_set(m, name, n);
	n->attr_dirty = true;
	node_touch(&m->nodes, n);
	dir_changed(m, dir);
	note_name(&w, name);
	note_node(&w, n);
	note_node(&w, dir);
	if (n->file)
		note_sealed(&w, n, 0, 0, &n->attr); /* whole as it is, until somebody opens it for writing */
	rc = note_done(m, &w);
	if (rc == 0) /* else the kernel gets no reference that it could give back */
		answer_entry(n, out);
	mount_unlock(m);
	return rc;
}

int ns_link(struct mount *m, uint64_t id, uint64_t dir_id, const char *text, struct ns_attr *out)
{
	struct note w = NOTE_EMPTY;
	struct node *dir, *n;
	struct name *name;
	int rc = name_lock(m, dir_id, text, &dir, &name);

	if (rc < 0)
		return rc;
	n = node_find(&m->nodes, id);
	if (name->id)
		rc = -EEXIST;
	else if (!n || n->names == 0)
		rc = -ENOENT;
	else if (node_is_dir(n))
		rc = -EPERM;
	else if (n->names >= LINK_MOST)
		rc = -EMLINK;
	if (rc < 0) {
		name_release(&m->nodes, name);
		mount_unlock(m);
		return rc;
	}
	n->names++;
	name_set(m, name, n);
	inode_changed(m, n);
	dir_changed(m, dir);
	note_name(&w, name);
	note_node(&w, n);
	note_node(&w, dir);
	rc = note_done(m, &w);
	if (rc == 0) /* else the kernel gets no reference that it could give back */
		answer_entry(n, out);
	mount_unlock(m);
	return rc;
}

static bool dir_is_empty(const struct node *dir)
{
	for (const struct name *e = dir->table; e; e = e->hh.next)
		if (e->id)
			return false;
	return true;
}

/* A name of n is gone. */
static void drop_name_of(struct mount *m, struct node *dir, struct node *n, struct note *w)
{
	n->names--;
	if (node_is_dir(n)) {
		n->names = 0;
		dir->attr.nlink--;
	}
	inode_changed(m, n);
	note_node(w, n);
}

/* What unlink and rmdir have in common. */
static int remove_name(struct mount *m, struct node *dir, struct name *name, struct node *n)
{
	struct note w = NOTE_EMPTY;

	name->cut = true;
	name_set(m, name, NULL);
	drop_name_of(m, dir, n, &w);
	dir_changed(m, dir);
	note_name(&w, name);
	note_node(&w, dir);
	return note_done(m, &w);
}

int ns_unlink(struct mount *m, uint64_t dir_id, const char *text)
{
	struct node *dir, *n;
	struct name *name;
	int rc = load_child_lock(m, dir_id, text, &dir, &name, &n);

	if (rc < 0)
		return rc;
	rc = m->read_only ? m->read_only : node_is_dir(n) ? -EISDIR : 0;
	if (rc == 0)
		rc = remove_name(m, dir, name, n);
	mount_unlock(m);
	return rc;
}

/* lock, with child directory `text` of dir loaded too. */
static int child_dir_lock(struct mount *m, uint64_t dir_id, const char *text, struct node **dir, struct name **name, struct node **n)
{
	for (;;) {
		struct fault f = FAULT_NONE;
		uint64_t id;
		int rc = load_child_lock(m, dir_id, text, dir, name, n);

		if (rc < 0 || !node_is_dir(*n) || (*n)->loaded)
			return rc;
		id = (*n)->id;
		mount_unlock(m);
		rc = load_dir(m, id, &f);
		if (rc < 0 && rc != -ENOENT)
			return -EIO;
	}
}

int ns_rmdir(struct mount *m, uint64_t dir_id, const char *text)
{
	struct node *dir, *n;
	struct name *name;
	int rc = child_dir_lock(m, dir_id, text, &dir, &name, &n);

	if (rc < 0)
		return rc;
	if (m->read_only)
		rc = m->read_only;
	else if (!node_is_dir(n))
		rc = -ENOTDIR;
	else if (!dir_is_empty(n))
		rc = -ENOTEMPTY;
	if (rc == 0)
		rc = remove_name(m, dir, name, n);
	mount_unlock(m);
	return rc;
}

int ns_name_back(struct mount *m, struct name *e, struct node *n, struct node *to)
{
	struct note w = NOTE_EMPTY;

	drop_name_of(m, e->dir, n, &w);
	name_set(m, e, to);
	if (to) {
		to->names++;
		inode_changed(m, to);
		note_node(&w, to);
	}
	dir_changed(m, e->dir);
	note_name(&w, e);
	note_node(&w, e->dir);
	return note_done(m, &w);
}

static bool is_inside(struct mount *m, const struct node *what, const struct node *dir)
{
	for (; dir; dir = node_parent(&m->nodes, dir))
		if (dir == what)
			return true;
	return false;
}

struct renaming {
	struct node *dir, *to_dir, *n, *over;
	struct name *name, *to_name;
};

static int rename_allowed(struct mount *m, const struct renaming *r, unsigned flags)
{
	bool exchange = flags & RENAME_EXCHANGE;

	if (m->read_only)
		return m->read_only;
	if (exchange && !r->over)
		return -ENOENT;
	if ((flags & RENAME_NOREPLACE) && r->over)
		return -EEXIST;
	if (node_is_dir(r->n) && is_inside(m, r->n, r->to_dir))
		return -EINVAL;
	if (exchange)
		return node_is_dir(r->over) && is_inside(m, r->over, r->dir) ? -EINVAL : 0;
	if (!r->over)
		return r->to_dir->names == 0 && r->to_dir->id != ROOT_ID ? -ENOENT : 0;
	if (node_is_dir(r->over)) {
		if (!node_is_dir(r->n))
			return -EISDIR;
		return dir_is_empty(r->over) ? 0 : -ENOTEMPTY;
	}
	return node_is_dir(r->n) ? -ENOTDIR : 0;
}

static void moved_dir(struct mount *m, struct node *n, struct node *from, struct node *to)
{
	if (!node_is_dir(n) || from == to)
		return;
	from->attr.nlink--;
	to->attr.nlink++;
	node_set_parent(&m->nodes, n, to);
}

static void rename_exchange(struct mount *m, struct renaming *r)
{
	moved_dir(m, r->n, r->dir, r->to_dir);
	moved_dir(m, r->over, r->to_dir, r->dir);
	r->name->cut = r->to_name->cut = true;
	name_set(m, r->name, r->over);
	name_set(m, r->to_name, r->n);
	inode_changed(m, r->over);
}

static void rename_plain(struct mount *m, struct renaming *r, struct note *w)
{
	if (r->over)
		drop_name_of(m, r->to_dir, r->over, w);
	moved_dir(m, r->n, r->dir, r->to_dir);
	r->name->cut = true;
	name_set(m, r->name, NULL);
	name_set(m, r->to_name, r->n);
}

static int rename_locked(struct mount *m, struct renaming *r, unsigned flags)
{
	struct note w = NOTE_EMPTY;
	int rc = rename_allowed(m, r, flags);

	if (rc < 0 || r->n == r->over) /* two names of one inode: POSIX says nothing happens */
		return rc;
	if (flags & RENAME_EXCHANGE)
		rename_exchange(m, r);
	else
		rename_plain(m, r, &w);
	inode_changed(m, r->n);
	dir_changed(m, r->dir);
	note_name(&w, r->name);
	note_name(&w, r->to_name);
	note_node(&w, r->n);
	note_node(&w, r->dir);
	if (r->to_dir != r->dir) {
		dir_changed(m, r->to_dir);
		note_node(&w, r->to_dir);
	}
	return note_done(m, &w);
}

int ns_rename(struct mount *m, uint64_t dir, const char *text, uint64_t to_dir, const char *to_text, unsigned flags)
{
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	for (;;) {
		struct renaming r = {.dir = NULL};
		/* The target's side first: what it loads stays, since both directories are known to the kernel. */
		int rc = child_dir_lock(m, to_dir, to_text, &r.to_dir, &r.to_name, &r.over);

		if (rc == 0)
			mount_unlock(m);
		else if (rc != -ENOENT)
			return rc;
		rc = load_child_lock(m, dir, text, &r.dir, &r.name, &r.n);
		if (rc < 0)
			return rc;
		r.to_dir = node_find(&m->nodes, to_dir);
		rc = !r.to_dir ? -ENOENT : name_ok(to_text);
		if (rc == 0 && !(r.to_name = name_get(&m->nodes, r.to_dir, to_text, strlen(to_text))))
			rc = -ENOMEM;
		if (rc == 0 && r.to_name->id) {
			r.over = node_find(&m->nodes, r.to_name->id);
			if (!r.over || (node_is_dir(r.over) && !r.over->loaded)) {
				mount_unlock(m);
				continue; /* it came there while the lock was open */
			}
		} else {
			r.over = NULL;
		}
		if (rc == 0)
			rc = rename_locked(m, &r, flags);
		if (r.to_name && rc < 0)
			name_release(&m->nodes, r.to_name);
		mount_unlock(m);
		return rc;
	}
}

int ns_readlink(struct mount *m, uint64_t id, char **out)
{
	struct node *n;
	int rc = node_lock(m, id, &n);

	if (rc < 0)
		return rc;
	if (!n->symlink)
		rc = -EINVAL;
	else if (!(*out = strdup(n->symlink)))
		rc = -ENOMEM;
	mount_unlock(m);
	return rc;
}

void ns_listing_fini(struct ns_listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	*l = (struct ns_listing){.v = NULL};
}

int ns_list(struct mount *m, uint64_t dir_id, struct ns_listing *out)
{
	struct node *dir;
	struct ns_listing l = {.dir = dir_id};
	int rc = load_dir_lock(m, dir_id, &dir);

	if (rc < 0)
		return rc;
	l.parent = dir->id == ROOT_ID ? ROOT_ID : dir->parent;
	l.v = calloc(HASH_COUNT(dir->table) + 1, sizeof(*l.v));
	if (!l.v)
		rc = -ENOMEM;
	for (const struct name *e = dir->table; rc == 0 && e; e = e->hh.next) {
		if (!e->id)
			continue;
		l.v[l.n] = (struct ns_entry){.id = e->id, .type = e->type, .name = strdup(e->text)};
		if (!l.v[l.n++].name)
			rc = -ENOMEM;
	}
	mount_unlock(m);
	if (rc < 0)
		ns_listing_fini(&l);
	else
		*out = l;
	return rc;
}

/*
 * Ours to keep: user.* and trusted.*.  ACLs and labels are refused at once (mode bits are all
 * there is), without the lock: execve(2) and ls(1) ask for them, file by file.
 */
static bool xattr_kept(const char *name)
{
	return strncmp(name, "user.", 5) == 0 || strncmp(name, "trusted.", 8) == 0;
}

ssize_t ns_getxattr(struct mount *m, uint64_t id, const char *name, char *value, size_t size)
{
	const struct xattr *x;
	struct node *n;
	ssize_t rc;

	if (!xattr_kept(name))
		return -EOPNOTSUPP;
	rc = node_lock(m, id, &n);
	if (rc < 0)
		return rc;
	x = xattr_find(n, name);
	if (!x)
		rc = -ENODATA;
	else if (size && size < x->len)
		rc = -ERANGE;
	else
		rc = (ssize_t)x->len;
	if (rc > 0 && size)
		memcpy(value, x->value, x->len);
	mount_unlock(m);
	return rc;
}

ssize_t ns_listxattr(struct mount *m, uint64_t id, char *list, size_t size)
{
	struct node *n;
	size_t at = 0;
	ssize_t rc = node_lock(m, id, &n);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n->xattr_n; i++) {
		size_t len = strlen(n->xattrs[i].name) + 1;

		if (at + len <= size)
			memcpy(list + at, n->xattrs[i].name, len);
		at += len;
	}
	mount_unlock(m);
	return size && at > size ? -ERANGE : (ssize_t)at;
}

static int xattr_store(struct node *n, const char *name, const char *value, size_t size, int flags)
{
	struct xattr *x = xattr_find(n, name), *grown;
	uint8_t *copy;
	size_t sum = size + strlen(name);

	if (x ? (flags & XATTR_CREATE) : (flags & XATTR_REPLACE))
		return x ? -EEXIST : -ENODATA;
	for (uint32_t i = 0; i < n->xattr_n; i++)
		sum += n->xattrs[i].len + strlen(n->xattrs[i].name);
	if (sum > XATTR_BYTES_MOST)
		return -ENOSPC;
	copy = malloc(size ? size : 1);
	if (!copy)
		return -ENOMEM;
	if (size)
		memcpy(copy, value, size);
	if (!x) {
		char *own = strdup(name);

		grown = own ? realloc(n->xattrs, (n->xattr_n + 1) * sizeof(*grown)) : NULL;
		if (!grown) {
			free(own);
			free(copy);
			return -ENOMEM;
		}
		n->xattrs = grown;
		x = &n->xattrs[n->xattr_n++];
		*x = (struct xattr){.name = own};
	}
	free(x->value);
	x->value = copy;
	x->len = (uint32_t)size;
	return 0;
}

static int xattr_changed(struct mount *m, struct node *n)
{
	struct note w = NOTE_EMPTY;

	inode_changed(m, n);
	note_node(&w, n);
	return note_done(m, &w);
}

int ns_setxattr(struct mount *m, uint64_t id, const char *name, const char *value, size_t size, int flags)
{
	struct node *n;
	int rc;

	if (!xattr_kept(name))
		return -EOPNOTSUPP;
	rc = node_lock(m, id, &n);
	if (rc < 0)
		return rc;
	rc = m->read_only ? m->read_only : xattr_store(n, name, value, size, flags);
	if (rc == 0)
		rc = xattr_changed(m, n);
	mount_unlock(m);
	return rc;
}

int ns_removexattr(struct mount *m, uint64_t id, const char *name)
{
	struct node *n;
	struct xattr *x;
	int rc;

	if (!xattr_kept(name))
		return -EOPNOTSUPP;
	rc = node_lock(m, id, &n);
	if (rc < 0)
		return rc;
	x = xattr_find(n, name);
	rc = m->read_only ? m->read_only : x ? 0 : -ENODATA;
	if (rc == 0) {
		free(x->name);
		free(x->value);
		*x = n->xattrs[--n->xattr_n];
		rc = xattr_changed(m, n);
	}
	mount_unlock(m);
	return rc;
}

void ns_counts(struct mount *m, uint64_t *names, uint64_t *nodes)
{
	mount_lock(m);
	*names = m->nodes.name_n;
	*nodes = HASH_COUNT(m->nodes.by_id);
	mount_unlock(m);
}
