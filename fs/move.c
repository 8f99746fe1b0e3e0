/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See move.h.  In rounds: under the lock the keys are found that are in memory, may differ and were not
 * asked for yet; without it the new state is asked.  Calls go on and load more of the old state meanwhile;
 * the round that finds nothing new is the last one, and puts all in place before it lets go of the lock.
 *
 * Whoever loads something compares m->moves (fs/load.c), so nothing of the old state comes in later.
 */
#include "fs/move.h"

#include <errno.h>
#include <string.h>

#include "fs/follow.h"
#include "fs/hydrate.h"
#include "fs/move_priv.h"
#include "fs/slot/meet.h"

#define READ_DEADLINE_MS (60 * 1000)
#define COMPARE_PIECE (256u << 10)

/* ---- what the kernel is told ---- */

void tells_fini(struct tells *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t->v);
	*t = (struct tells){.v = NULL};
}

/* Without memory it is not told: it asks again within FOLLOW_CACHE_S. */
static void tell(struct tells *t, const struct node *n, int64_t from, const char *name)
{
	char *copy = name ? strdup(name) : NULL;

	if ((name && !copy) || n->lookups == 0) {
		free(copy);
		return;
	}
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		struct tell *v = realloc(t->v, cap * sizeof(*v));

		if (!v) {
			free(copy);
			return;
		}
		t->v = v;
		t->cap = cap;
	}
	t->v[t->n++] = (struct tell){.id = n->id, .from = from, .name = copy};
}

/* ---- items ---- */

static struct item *item_find(const struct move *v, const void *key, size_t len)
{
	struct item *x;

	HASH_FIND(hh, v->items, key, len, x);
	return x;
}

/* A new one; NULL: no memory. */
static struct item *item_add(struct move *v, enum item_kind kind, const void *key, size_t len)
{
	struct item *x = calloc(1, sizeof(*x) + len);

	if (!x)
		return NULL;
	x->kind = kind;
	x->key_len = len;
	memcpy(x->key, key, len);
	HASH_ADD_KEYPTR(hh, v->items, x->key, len, x);
	return x;
}

static int item_wanted(struct move *v, enum item_kind kind, const void *key, size_t len, struct item **out)
{
	struct item *x = item_find(v, key, len);

	*out = NULL;
	if (x)
		return 0;
	x = item_add(v, kind, key, len);
	if (!x)
		return -ENOMEM;
	x->next = v->unread;
	v->unread = *out = x;
	return 0;
}

static void items_free(struct move *v)
{
	struct item *x, *next;

	HASH_ITER(hh, v->items, x, next) {
		HASH_DEL(v->items, x);
		inode_rec_fini(&x->inode);
		content_unref(x->live);
		content_unref(x->fresh);
		free(x);
	}
}

/* ---- what is in memory and may differ; under lock ---- */

static int want_name(struct move *v, const struct run_item *k)
{
	struct node *dir = node_find(&v->m->nodes, key_number(k->key, 0));
	struct item *x;
	int rc;

	if (!v->meeting && (!dir || !dir->loaded)) /* else it may be where a directory is that has another name here */
		return 0;
	rc = item_wanted(v, ITEM_NAME, k->key, k->key_len, &x);
	if (x)
		x->dir = key_number(k->key, 0);
	return rc;
}

static int want_inode(struct move *v, uint64_t home, uint64_t ino)
{
	uint8_t key[RUN_KEY_MAX];
	struct item *x;
	int rc;

	if (!node_find(&v->m->nodes, ino))
		return 0;
	rc = item_wanted(v, ITEM_INODE, key, key_of_inode(home, ino, 0, key), &x);
	if (x) {
		x->home = home;
		x->ino = ino;
	}
	return rc;
}

static int want_keys(struct move *v)
{
	size_t n = run_count(v->keys);
	struct run_item k;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		run_at(v->keys, i, &k);
		if (key_kind(k.key, k.key_len) == KEY_NAME)
			rc = want_name(v, &k);
		else if (key_kind(k.key, k.key_len) == KEY_INODE)
			rc = want_inode(v, key_number(k.key, 0), key_number(k.key, 9));
	}
	return rc;
}

static int want_all(struct move *v)
{
	int rc = 0;

	for (struct node *n = v->m->nodes.by_id; rc == 0 && n; n = n->hh.next) {
		struct item *x;

		rc = want_inode(v, n->home, n->ino);
		if (rc < 0 || !node_is_dir(n) || !n->loaded)
			continue;
		rc = item_wanted(v, ITEM_DIR, &n->id, sizeof(n->id), &x);
		if (x)
			x->dir = n->id;
	}
	return rc;
}

/* ---- what the new state says; without the lock ---- */

static int read_name(struct move *v, struct item *x, struct fault *f)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	int rc = state_find(v->to, &v->src, x->key, x->key_len, &value, f);

	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = name_rec_decode(value.data, value.len, &x->name, f);
	x->there = rc == 0;
	if (rc == 0 && v->meeting)
		rc = meet_compare(v, x, f);
	return rc;
}

struct listing {
	struct move *v;
	uint64_t dir;
};

static int each_listed(void *arg, const char *name, size_t len, const struct name_rec *rec)
{
	struct listing *l = arg;
	uint8_t key[RUN_KEY_MAX];
	size_t key_len = key_of_name(l->dir, name, len, key);
	struct item *x = item_add(l->v, ITEM_NAME, key, key_len);

	if (!x)
		return -ENOMEM;
	x->dir = l->dir;
	x->name = *rec;
	x->there = true;
	return 0;
}

static int read_dir(struct move *v, const struct item *x, struct fault *f)
{
	struct listing l = {.v = v, .dir = x->dir};

	return state_names(v->to, &v->src, x->dir, each_listed, &l, f);
}

/* How far two lists say the same bytes, and how far they say them to lie in the same places. */
struct common {
	uint64_t same, placed;
};

static bool is_same(const struct extent *a, const struct extent *b)
{
	if (a->kind != b->kind || a->length != b->length)
		return false;
	return a->kind == EXTENT_ZERO || memcmp(&a->hash, &b->hash, sizeof(a->hash)) == 0;
}

static bool is_placed(const struct extent *a, const struct extent *b)
{
	return a->kind != EXTENT_CHUNK || (a->place.pack == b->place.pack && a->place.offset == b->place.offset);
}

static struct common common_of(const struct extents *a, const struct extents *b)
{
	struct common c = {.same = 0};

	for (size_t i = 0; i < a->n && i < b->n && is_same(&a->v[i], &b->v[i]); i++) {
		if (c.placed == c.same && is_placed(&a->v[i], &b->v[i]))
			c.placed += a->v[i].length;
		c.same += a->v[i].length;
	}
	return c;
}

/* Does a comparison of the bytes behind `same`, which were cut anew, tell whether it only grew? */
static bool may_have_grown(const struct file *f, const struct inode_rec *rec, uint64_t same)
{
	return same < f->stored_size && f->stored_size <= rec->attr.size && f->stored_size - same <= CHUNK_MAX;
}

static int read_piece(struct mount *m, struct node *n, struct content *c, uint8_t *data, size_t len, uint64_t off)
{
	for (;;) {
		ssize_t got = content_read(c, data, len, off);
		int rc;

		if (got != -ENODATA)
			return got == (ssize_t)len ? 0 : -EIO;
		rc = hydrate(m, n, c, off, len, false);
		if (rc < 0)
			return rc;
	}
}

bool move_same_bytes(struct mount *m, struct node *n, struct content *a, struct content *b, uint64_t from, uint64_t to)
{
	scoped(free) uint8_t *x = malloc(COMPARE_PIECE), *y = malloc(COMPARE_PIECE);
	bool same = x && y;

	while (same && from < to) {
		size_t len = to - from < COMPARE_PIECE ? to - from : COMPARE_PIECE;

		same = read_piece(m, n, a, x, len, from) == 0 && read_piece(m, n, b, y, len, from) == 0 &&
		       memcmp(x, y, len) == 0;
		from += len;
	}
	return same;
}

/* A log's last chunk is short and cut anew when it grows: only its bytes tell that they are the same. */
static void compare_tail(struct move *v, struct item *x)
{
	struct mount *m = v->m;
	struct fault f = FAULT_NONE;
	uint32_t version = 0;
	uint64_t to = 0;
	struct node *n;

	mount_lock(m);
	n = node_current(&m->nodes, x->ino);
	if (n && n->file && n->file->live && !n->file->changed) {
		x->compared = common_of(&n->file->stored, &x->inode.extents).same;
		to = n->file->stored_size;
		if (may_have_grown(n->file, &x->inode, x->compared)) {
			x->live = content_ref(n->file->live);
			version = ++n->file->version;
			n->pins++;
		}
	}
	mount_unlock(m);
	if (!x->live)
		return;
	if (content_of_extents(m->contents, n->id, version, &x->inode.extents, x->inode.attr.size, &x->fresh, &f) == 0)
		x->grows = move_same_bytes(m, n, x->live, x->fresh, x->compared, to);
	mount_lock(m);
	n->pins--;
	node_release(&m->nodes, n);
	mount_unlock(m);
}

static int read_inode(struct move *v, struct item *x, struct fault *f)
{
	int rc = state_inode(v->to, &v->src, x->home, x->ino, &x->inode, f);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	x->there = true;
	compare_tail(v, x);
	return 0;
}

static int read_all(struct move *v, struct fault *f)
{
	int rc = 0;

	while (rc == 0 && v->unread) {
		struct item *x = v->unread;

		v->unread = x->next;
		rc = x->kind == ITEM_NAME ? read_name(v, x, f) : x->kind == ITEM_DIR ? read_dir(v, x, f) : read_inode(v, x, f);
	}
	return rc;
}

/* ---- putting it in place; under lock ---- */

static void place_name(struct move *v, const struct item *x)
{
	struct nodes *t = &v->m->nodes;
	const char *text = (const char *)x->key + 9;
	size_t len = x->key_len - 9;
	struct node *dir = node_find(t, x->dir), *child;
	struct name *n = dir ? name_find(dir, text, len) : NULL;

	if (!dir || (!n && !x->there) || (n && x->there && n->id == x->name.id))
		return;
	if (!n && !(n = name_get(t, dir, text, len))) {
		dir->loaded = false; /* whoever asks loads it anew */
		return;
	}
	tell(v->tells, dir, 0, n->text);
	n->base = x->there ? x->name : (struct name_rec){.id = 0};
	n->id = n->base.id;
	n->home = n->base.home;
	n->type = n->base.type;
	child = n->id ? node_find(t, n->id) : NULL;
	if (child && node_is_dir(child))
		node_set_parent(t, child, dir);
	name_release(t, n);
}

/* Names that the new listing of a directory lacks. */
static void drop_others(struct move *v, const struct item *x)
{
	struct node *dir = node_find(&v->m->nodes, x->dir);
	struct name *n, *next;
	uint8_t key[RUN_KEY_MAX];

	if (!dir)
		return;
	HASH_ITER(hh, dir->table, n, next) {
		if (item_find(v, key, key_of_name(dir->id, n->text, n->len, key)))
			continue;
		tell(v->tells, dir, 0, n->text);
		n->id = 0;
		n->base = (struct name_rec){.id = 0};
		name_release(&v->m->nodes, n);
	}
}

bool move_in_use(const struct node *n)
{
	return n->opens || n->pins || n->file->fetching.n;
}

void move_take_extents(struct file *f, struct inode_rec *rec)
{
	extents_fini(&f->stored);
	f->stored = rec->extents;
	rec->extents = EXTENTS_EMPTY;
	f->stored_size = rec->attr.size;
	f->stored_mtime_ns = rec->attr.mtime_ns;
}

/* Its bytes go on where they ended, or lie elsewhere now. */
static bool goes_on(const struct item *x, const struct file *f, struct common c)
{
	return c.same == f->stored_size || (x->grows && f->live == x->live);
}

bool move_extend(struct node *n, struct item *x)
{
	struct file *f = n->file;
	struct common c = common_of(&f->stored, &x->inode.extents);
	uint64_t size = x->inode.attr.size;

	if (size < f->stored_size || !goes_on(x, f, c))
		return false;
	if (!f->live || c.placed == size || content_extend(f->live, c.placed, &x->inode.extents, size) == 0)
		return true;
	f->damaged = true;
	return false;
}

/* The node that has the new content; what of its pages is old: *from, or TELL_ATTRIBUTES. */
static struct node *place_content(struct move *v, struct node *n, struct item *x, int64_t *from)
{
	struct file *f = n->file;
	uint64_t old = f->stored_size;
	bool on = move_extend(n, x);

	*from = TELL_ATTRIBUTES;
	if (!on && f->live && move_in_use(n))
		return node_newer(&v->m->nodes, n, &x->inode); /* NULL: no memory; the old one stays */
	if (!on) {
		content_unref(take(&f->live));
		f->damaged = false;
		f->past_cache = true; /* the next open drops the pages, if we come too late with it */
		*from = 0;
	} else if (old < x->inode.attr.size) {
		*from = (int64_t)old;
	}
	move_take_extents(f, &x->inode);
	return n;
}

void move_take_record(struct node *n, struct inode_rec *rec)
{
	n->attr = rec->attr;
	free(n->symlink);
	n->symlink = take(&rec->symlink);
	xattrs_free(n->xattrs, n->xattr_n);
	n->xattrs = take(&rec->xattrs);
	n->xattr_n = rec->xattr_n;
	rec->xattr_n = 0;
	n->names = n->links = node_is_dir(n) ? 1 : rec->attr.nlink;
}

static void place_inode(struct move *v, struct item *x)
{
	struct node *n = node_current(&v->m->nodes, x->ino), *now = n, *dir;
	int64_t from = TELL_ATTRIBUTES;

	if (!n || (n->id == ROOT_ID && !x->there))
		return;
	if (!x->there) {
		n->names = n->links = 0;
	} else {
		n->segments = inode_rec_segments(&x->inode);
		if (n->file)
			now = place_content(v, n, x, &from);
		if (now == n)
			move_take_record(n, &x->inode);
	}
	tell(v->tells, n, from, NULL);
	dir = now != n ? node_find(&v->m->nodes, n->name_dir) : NULL;
	if (dir)
		tell(v->tells, dir, 0, node_name(n));
}

static void place_all(struct move *v)
{
	for (struct item *x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_NAME)
			place_name(v, x);
		else if (x->kind == ITEM_INODE)
			place_inode(v, x);
	for (struct item *x = v->items; x; x = x->hh.next)
		if (x->kind == ITEM_DIR)
			drop_others(v, x);
}

static void show(struct move *v)
{
	struct state *was = v->m->state;

	if (v->meeting)
		meet_all(v);
	else
		place_all(v);
	for (struct item *x = v->items; x; x = x->hh.next) {
		struct node *n = x->kind == ITEM_INODE && !x->there ? node_current(&v->m->nodes, x->ino) : NULL;

		if (n)
			node_release(&v->m->nodes, n);
	}
	v->m->state = state_ref(v->to);
	v->m->moves++;
	state_unref(was);
}

/* ---- the whole ---- */

/* What was read for a comparison need not be read again by whoever follows the end of the file. */
static void hand_on(struct item *x)
{
	scoped(free) uint8_t *data = malloc(COMPARE_PIECE);
	uint64_t size = x->inode.attr.size, at = x->compared;

	while (data && at < size && content_size(x->live) == size) {
		size_t len = size - at < COMPARE_PIECE ? size - at : COMPARE_PIECE;
		ssize_t got = content_read(x->fresh, data, len, at);

		if (got < 0 || content_fill(x->live, data, (size_t)got, at) < 0)
			return;
		at += len;
	}
}

/* 1: all is in place. */
static int round_of(struct move *v)
{
	int rc;

	mount_lock(v->m);
	rc = v->keys ? want_keys(v) : want_all(v);
	if (rc == 0 && !v->unread) {
		show(v);
		rc = 1;
	}
	mount_unlock(v->m);
	return rc;
}

/* All rounds; ends v's items. */
static int move_run(struct move *v, struct fault *f)
{
	int rc = 0;

	lanes_block_source(v->m->lanes, READ_DEADLINE_MS, &v->src);
	while (rc == 0) {
		rc = round_of(v);
		if (rc == 0)
			rc = read_all(v, f);
	}
	for (struct item *x = v->items; rc == 1 && x; x = x->hh.next) {
		if (!x->grows)
			continue;
		hand_on(x);
		content_rest(x->live); /* nobody may have it open */
	}
	items_free(v);
	if (rc == -ENOMEM && !f->code)
		return fault_errno(f, rc, "commit %llu", (unsigned long long)state_head(v->to)->number);
	return rc < 0 ? rc : 0;
}

int move_to(struct mount *m, struct state *to, struct tells *out, struct fault *f)
{
	scoped(run_unref) struct run *keys = NULL;
	struct move v = {.m = m, .to = to, .tells = out};
	int rc = state_differs(m->state, to, &keys); /* only we change it */

	if (rc < 0)
		return fault_errno(f, rc, "commit %llu", (unsigned long long)state_head(to)->number);
	v.keys = keys;
	return move_run(&v, f);
}

int move_meeting(struct mount *m, struct state *to, struct run *keys, struct meeting *x, struct fault *f)
{
	struct move v = {.m = m, .to = to, .keys = keys, .meeting = x};

	return move_run(&v, f);
}
