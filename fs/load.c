/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories and inodes come into memory when they are first asked for.  What is not in memory was
 * never changed here (node.h, I2), so whichever state is newest says the same of it.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fs/follow.h"
#include "fs/mount.h"

/* A lookup may wait for the store this long before it is EIO. */
#define LOAD_DEADLINE_MS (120 * 1000)

struct dir_item {
	struct name_rec rec;
	uint8_t len;
	char text[NAME_MAX_BYTES + 1];
};
struct dir_items {
	struct dir_item *v;
	size_t n, cap;
};

static void dir_items_fini(struct dir_items *x)
{
	free(x->v);
}
SCOPE_VAL(struct dir_items, dir_items_fini)

static int collect(void *arg, const char *name, size_t len, const struct name_rec *rec)
{
	struct dir_items *x = arg;
	struct dir_item *i;

	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 64;
		struct dir_item *v = realloc(x->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		x->v = v;
		x->cap = cap;
	}
	i = &x->v[x->n++];
	i->rec = *rec;
	i->len = (uint8_t)len;
	memcpy(i->text, name, len);
	return 0;
}

static int fill_dir(struct mount *m, struct node *dir, const struct dir_items *x)
{
	for (size_t i = 0; i < x->n; i++) {
		struct name *n = name_get(&m->nodes, dir, x->v[i].text, x->v[i].len);

		if (!n)
			return -ENOMEM;
		n->base = x->v[i].rec;
		n->id = n->base.id;
		n->home = n->base.home;
		n->type = n->base.type;
	}
	dir->loaded = true;
	return 0;
}

/* After it was tried in vain: is there another state to try?  Reads the log on if the store lacks something. */
static bool moved_on(struct mount *m, int rc, uint64_t moves)
{
	bool moved;

	if (!m->follower && !mount_in_group(m))
		return false;
	if (rc == -ESTALE) /* a mount that follows */
		follow_read_on(m);
	mount_lock(m);
	moved = m->moves != moves;
	mount_unlock(m);
	return moved;
}

static int load_dir_once(struct mount *m, uint64_t id, uint64_t *moves, struct fault *f)
{
	scoped(dir_items_fini) struct dir_items items = {.v = NULL};
	scoped(state_unref) struct state *st = NULL;
	struct block_source src;
	struct node *dir;
	int rc;

	mount_lock(m);
	dir = node_find(&m->nodes, id);
	rc = !dir ? -ENOENT : !node_is_dir(dir) ? -ENOTDIR : 0;
	if (rc < 0 || dir->loaded) {
		*moves = m->moves;
		mount_unlock(m);
		return rc;
	}
	st = state_ref(m->state);
	dir->pins++; /* were it let go and changed meanwhile, this state would be too old for it */
	*moves = m->moves;
	mount_unlock(m);

	lanes_block_source(m->lanes, LOAD_DEADLINE_MS, &src);
	rc = state_names(st, &src, id, collect, &items, f);
	if (rc < 0)
		(void)fault_in(f, "directory %llx", (unsigned long long)id);
	mount_lock(m);
	if (rc == 0 && !dir->loaded && m->moves == *moves) /* else another thread was faster, and may have changed it since */
		rc = fill_dir(m, dir, &items);
	dir->pins--;
	mount_unlock(m);
	return rc;
}

int load_dir(struct mount *m, uint64_t id, struct fault *f)
{
	uint64_t moves;
	int rc;

	do {
		*f = FAULT_NONE;
		rc = load_dir_once(m, id, &moves, f);
	} while (moved_on(m, rc, moves));
	return rc;
}

/* What the store has is known to the dedupe index from then on. */
static void tell_known(struct mount *m, const struct extents *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].kind == EXTENT_CHUNK)
			lanes_known(m->lanes, &x->v[i].hash, x->v[i].length, &x->v[i].place);
}

static int load_node_once(struct mount *m, uint64_t home, uint64_t id, uint64_t *moves, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	scoped(state_unref) struct state *st = NULL;
	struct block_source src;
	int rc = 0;

	mount_lock(m);
	*moves = m->moves;
	if (node_find(&m->nodes, id)) {
		mount_unlock(m);
		return 0;
	}
	st = state_ref(m->state);
	mount_unlock(m);

	lanes_block_source(m->lanes, LOAD_DEADLINE_MS, &src);
	rc = state_inode(st, &src, home, id, &rec, f);
	if (rc < 0)
		return fault_in(f, "inode %llx", (unsigned long long)id);
	tell_known(m, &rec.extents);
	mount_lock(m);
	if (m->moves == *moves && !node_find(&m->nodes, id) && !node_from_record(&m->nodes, &rec))
		rc = -ENOMEM;
	mount_unlock(m);
	return rc;
}

int load_node(struct mount *m, uint64_t home, uint64_t id, struct fault *f)
{
	uint64_t moves;
	int rc;

	do {
		*f = FAULT_NONE;
		rc = load_node_once(m, home, id, &moves, f);
	} while (moved_on(m, rc, moves));
	return rc;
}

static int answer(const struct mount *m, int rc, const struct fault *f)
{
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ENOMEM)
		return rc;
	log_error("%s", f->text);
	return rc == -ESTALE ? follow_lost(m) : -EIO;
}

int load_dir_lock(struct mount *m, uint64_t id, struct node **out)
{
	struct fault f = FAULT_NONE;
	int rc = load_dir(m, id, &f);

	if (rc < 0)
		return answer(m, rc, &f);
	mount_lock(m);
	*out = node_find(&m->nodes, id);
	if (*out)
		return 0;
	mount_unlock(m);
	return -ENOENT;
}

/* A name that leads to an inode which the store does not have is damage, not absence. */
static int load_child(struct mount *m, uint64_t home, uint64_t id, uint64_t moves)
{
	struct fault f = FAULT_NONE;
	int rc = load_node(m, home, id, &f);

	if (rc == 0 || moved_on(m, 0, moves))
		return 0;
	return answer(m, rc == -ENOENT ? -EIO : rc, &f);
}

int load_child_lock(struct mount *m, uint64_t dir_id, const char *text, struct node **dir, struct name **out_name,
		    struct node **out)
{
	size_t len = strlen(text);

	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	for (;;) {
		struct name *name;
		uint64_t id, home, moves;
		int rc = load_dir_lock(m, dir_id, dir);

		if (rc < 0)
			return rc;
		name = name_find(*dir, text, len);
		if (!name || name->id == 0) {
			mount_unlock(m);
			return -ENOENT;
		}
		*out = node_current(&m->nodes, name->id);
		if (*out) {
			if (node_is_dir(*out))
				node_set_parent(&m->nodes, *out, *dir);
			node_named(*out, (*dir)->id, text);
			if (out_name)
				*out_name = name;
			return 0;
		}
		id = name->id;
		home = name->home;
		moves = m->moves;
		mount_unlock(m);
		rc = load_child(m, home, id, moves);
		if (rc < 0)
			return rc;
	}
}
