/* SPDX-License-Identifier: Apache-2.0 */
/* See replay.h. */
#include "fs/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "fs/cache/map.h"
#include "fs/file.h"

#define COMPACT_BYTES (UINT64_C(8) << 20)
#define COMPACT_AGAIN_NS (5 * NS_PER_S) /* after one that failed: the disk may be full */
#define JOURNAL_NAME "journal"
#define CONTENT_PATH "contents/%02x/%016llx.%u"
#define DEPTH_MOST 4096 /* of directories: a path has no more */
/* More than one journal can tell of, and few enough for many damaged ones among 2^33. */
#define COUNTERS_LOST (UINT64_C(1) << 28)

/* What a content has of its bytes. */
struct old_bytes {
	bool in_part;          /* made of what the store has: what is not present is absent */
	struct ranges present;
	struct map *referred;  /* what was absent at last, and comes from elsewhere than the base's */
};

/* A version of a file that the journal knows. */
struct old_view {
	uint32_t version, number;
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
	struct ranges side;
	struct need mapped;     /* what of it only the store has */
	struct old_bytes bytes; /* of its content, if that is not the newest */
};

struct old_file {
	UT_hash_handle hh;
	uint64_t id, home;
	uint32_t version;     /* newest content */
	bool dirty, sealed;   /* changed since it was made; and sealed since, */
	bool synced;          /* ... by who asked for it as it is */
	bool only_grown;      /* since it was last sealed */
	uint64_t sealed_size; /* with so many bytes */
	struct old_bytes bytes;
	struct old_view view; /* newest named one; number 0: none */
	char *name;           /* for people; NULL: not known */
};

struct replay {
	bool has_writer;
	unsigned gaps; /* places where the journal lacks entries, or has what is none */
	struct replay_writer writer;
	struct run_builder *items; /* the newest value of every key */
	struct old_file *files;
	uint64_t inodes, packs;
	uint64_t tree;
};

static void old_bytes_fini(struct old_bytes *b)
{
	ranges_fini(&b->present);
	map_unref(b->referred);
	*b = (struct old_bytes){.in_part = false};
}

static void old_view_fini(struct old_view *v)
{
	need_fini(&v->mapped);
	ranges_fini(&v->side);
	old_bytes_fini(&v->bytes);
	*v = (struct old_view){.number = 0};
}

void replay_free(struct replay *r)
{
	struct old_file *x, *next;

	if (!r)
		return;
	HASH_ITER(hh, r->files, x, next) {
		HASH_DEL(r->files, x);
		old_bytes_fini(&x->bytes);
		old_view_fini(&x->view);
		free(x->name);
		free(x);
	}
	run_builder_free(r->items);
	free(r);
}

bool replay_writer(const struct replay *r, struct replay_writer *out)
{
	if (!r || !r->has_writer)
		return false;
	*out = r->writer;
	return true;
}

uint64_t replay_tree(const struct replay *r)
{
	return r->tree;
}

/* ---- reading ---- */

static struct old_file *old_file(struct replay *r, uint64_t id)
{
	struct old_file *x;

	HASH_FIND(hh, r->files, &id, sizeof(id), x);
	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->id = id;
	HASH_ADD(hh, r->files, id, sizeof(x->id), x);
	return x;
}

static int read_writer(struct replay *r, struct reader *in)
{
	const uint8_t *id = read_bytes(in, sizeof(r->writer.store.b)), *boot = read_bytes(in, sizeof(r->writer.boot));

	if (in->bad)
		return -EBADMSG;
	memcpy(r->writer.store.b, id, sizeof(r->writer.store.b));
	memcpy(r->writer.boot, boot, sizeof(r->writer.boot));
	r->writer.fence = read_u64(in);
	r->writer.slot = read_u16(in);
	r->has_writer = true;
	return 0;
}

static int read_item(struct replay *r, struct reader *in, bool removed)
{
	size_t key_len = read_u16(in);
	const uint8_t *key = read_bytes(in, key_len);

	if (in->bad || key_kind(key, key_len) == KEY_BAD)
		return -EBADMSG;
	return run_builder_add(r->items, key, key_len, removed ? NULL : in->at, removed ? 0 : read_left(in));
}

static int read_content(struct replay *r, struct reader *in)
{
	struct old_file *x = old_file(r, read_u64(in));
	uint32_t version;

	if (!x)
		return -ENOMEM;
	version = read_u32(in);
	if (x->view.number && x->view.version == version) { /* it is in the store, or told of anew behind this */
		old_view_fini(&x->view);
	} else if (x->view.number && x->view.version == x->version) { /* not of the newest any more */
		old_bytes_fini(&x->view.bytes);
		x->view.bytes = x->bytes;
		x->bytes = (struct old_bytes){.in_part = false};
	}
	old_bytes_fini(&x->bytes);
	x->version = version;
	x->home = read_u64(in);
	x->bytes.in_part = read_u8(in);
	x->dirty = !x->bytes.in_part;
	x->sealed = x->only_grown = false;
	return 0;
}

static int read_dirty(struct replay *r, struct reader *in)
{
	struct old_file *x = old_file(r, read_u64(in));

	if (!x)
		return -ENOMEM;
	(void)read_u32(in);
	x->home = read_u64(in);
	x->dirty = true;
	x->sealed = false;
	x->only_grown = read_left(in) && read_u8(in); /* an older version did not tell */
	return 0;
}

/* The view that is told of: what was known of another one ends. */
static struct old_view *old_view(struct old_file *x, uint32_t version, uint32_t number)
{
	if (x->view.version != version || x->view.number != number) {
		old_view_fini(&x->view);
		x->view.version = version;
		x->view.number = number;
	}
	return &x->view;
}

static int read_unnamed(struct replay *r, struct reader *in)
{
	struct old_file *x = old_file(r, read_u64(in));

	if (!x)
		return -ENOMEM;
	old_view_fini(&x->view);
	return 0;
}

static int read_sealed(struct replay *r, struct reader *in)
{
	struct old_file *x = old_file(r, read_u64(in));
	uint32_t version = read_u32(in), number = read_u32(in);
	struct old_view *v;

	if (!x)
		return -ENOMEM;
	if (number == 0) {
		x->sealed = version == x->version;
		x->sealed_size = read_u64(in);
		(void)read_bytes(in, 16); /* times, which the node's item says too */
		x->synced = read_left(in) && read_u8(in); /* an older version did not tell */
		return 0;
	}
	v = old_view(x, version, number);
	v->size = read_u64(in);
	v->mtime_ns = (int64_t)read_u64(in);
	v->ctime_ns = (int64_t)read_u64(in);
	return 0;
}

/* Bytes of the content itself, which it has no more (or never had). */
static int refers(struct old_bytes *b, uint64_t off, const struct extent *e)
{
	uint64_t end = off + e->length;
	int rc = b->in_part ? 0 : ranges_add(&b->present, 0, UINT64_MAX);

	b->in_part = true;
	if (rc == 0)
		rc = ranges_remove(&b->present, off, end);
	if (rc == 0)
		rc = map_own(&b->referred, 1);
	if (rc < 0)
		return rc;
	(void)map_remove(b->referred, off, end);
	return map_put(&b->referred, off, e);
}

/* e->data stays the reader's. */
static int read_extent(struct reader *in, struct extent *e)
{
	const uint8_t *hash;

	e->kind = read_u8(in);
	e->length = read_u64(in);
	hash = read_bytes(in, sizeof(e->hash.b));
	e->place.pack = read_u64(in);
	e->place.offset = read_u32(in);
	e->place.stored = read_u32(in);
	e->place.codec = read_u8(in);
	if (e->kind == EXTENT_INLINE)
		e->data = (uint8_t *)read_bytes(in, e->length);
	if (in->bad)
		return -EBADMSG;
	memcpy(e->hash.b, hash, sizeof(e->hash.b));
	return 0;
}

static int read_mapped(struct replay *r, struct reader *in)
{
	struct old_file *x = old_file(r, read_u64(in));
	uint32_t version = read_u32(in), number = read_u32(in);
	uint64_t off = read_u64(in);
	struct extent e = {.length = 0};
	int rc = x ? read_extent(in, &e) : -ENOMEM;

	if (rc == 0 && e.length > UINT64_MAX - off)
		rc = -EBADMSG;
	if (rc < 0)
		return rc;
	if (number)
		return need_add(&old_view(x, version, number)->mapped, off, &e);
	return version == x->version ? refers(&x->bytes, off, &e) : 0;
}

static int read_range(struct replay *r, struct reader *in, enum journal_type type)
{
	struct old_file *x = old_file(r, read_u64(in));
	uint32_t version = read_u32(in), view = read_u32(in);
	uint64_t off = read_u64(in), len = read_u64(in);

	if (!x)
		return -ENOMEM;
	if (type == JOURNAL_PRESERVED)
		return ranges_add(&old_view(x, version, view)->side, off, off + len);
	if (version != x->version)
		return 0;
	return type == JOURNAL_PRESENT ? ranges_add(&x->bytes.present, off, off + len)
				       : ranges_remove(&x->bytes.present, off, off + len);
}

static int each_entry(void *arg, uint8_t type, const uint8_t *body, size_t len)
{
	struct replay *r = arg;
	struct reader in = reader_of(body, len);
	int rc = 0;

	switch (type) {
	case JOURNAL_GAP:
		r->gaps++;
		break;
	case JOURNAL_WRITER:
		rc = read_writer(r, &in);
		break;
	case JOURNAL_SET:
	case JOURNAL_REMOVE:
		rc = read_item(r, &in, type == JOURNAL_REMOVE);
		break;
	case JOURNAL_CONTENT:
		rc = read_content(r, &in);
		break;
	case JOURNAL_DIRTY:
		rc = read_dirty(r, &in);
		break;
	case JOURNAL_SEALED:
		rc = read_sealed(r, &in);
		break;
	case JOURNAL_PRESERVED:
	case JOURNAL_PRESENT:
	case JOURNAL_ABSENT: /* only of one that the store has, whose present bytes were all told of */
		rc = read_range(r, &in, type);
		break;
	case JOURNAL_UNNAMED:
		rc = read_unnamed(r, &in);
		break;
	case JOURNAL_MAPPED:
		rc = read_mapped(r, &in);
		break;
	case JOURNAL_COUNTER:
		r->inodes = read_u64(&in);
		r->packs = read_u64(&in);
		break;
	case JOURNAL_TREE:
		r->tree = read_u64(&in);
		break;
	default: /* of a newer version: told for its own use */
		break;
	}
	if (rc == -EBADMSG || in.bad) { /* whole, and no sense in it: as if it were not there */
		r->gaps++;
		return 0;
	}
	return rc;
}

/* A damaged journal keeps a name for whoever wants to look at it.  move: it is of no use to us. */
static int put_aside(struct mount *m, bool move, char *aside, size_t cap, struct fault *f)
{
	int rc = -EEXIST;

	for (unsigned i = 1; rc == -EEXIST && i < 1000; i++) {
		(void)snprintf(aside, cap, i > 1 ? "%s.damaged.%u" : "%s.damaged", JOURNAL_NAME, i);
		if (move)
			rc = renameat2(m->cache_fd, JOURNAL_NAME, m->cache_fd, aside, RENAME_NOREPLACE);
		else
			rc = linkat(m->cache_fd, JOURNAL_NAME, m->cache_fd, aside, 0);
		rc = rc < 0 ? -errno : 0;
	}
	return rc < 0 ? fault_errno(f, rc, "cache: %s", JOURNAL_NAME) : 0;
}

/* What is no journal at all, or no file, makes way for one. */
static int open_or_replace(struct mount *m, struct replay *r, uint64_t *torn, struct fault *f)
{
	char aside[sizeof(JOURNAL_NAME) + 16], why[sizeof(f->text)];
	int rc = journal_open(m->cache_fd, JOURNAL_NAME, m->ballast, each_entry, r, &m->journal, torn, f);

	if (rc != -EBADMSG && rc != -EISDIR)
		return rc;
	(void)snprintf(why, sizeof(why), "%s", f->text);
	*f = FAULT_NONE;
	rc = put_aside(m, true, aside, sizeof(aside), f);
	if (rc < 0)
		return rc;
	log_error("%s; it is kept as %s/%s, and a new one is begun", why, m->opts.cache, aside);
	return journal_open(m->cache_fd, JOURNAL_NAME, m->ballast, each_entry, r, &m->journal, torn, f);
}

int replay_open(struct mount *m, struct replay **out, struct fault *f)
{
	scoped(replay_free) struct replay *r = calloc(1, sizeof(*r));
	char aside[sizeof(JOURNAL_NAME) + 16];
	uint64_t torn = 0;
	int rc;

	if (!r || !(r->items = run_builder_new()))
		return fault_errno(f, -ENOMEM, "journal");
	rc = open_or_replace(m, r, &torn, f);
	if (rc == 0 && r->gaps)
		rc = put_aside(m, false, aside, sizeof(aside), f);
	if (rc < 0)
		return rc;
	if (r->gaps)
		log_error("cache: the journal is damaged in %u places; it is kept as %s/%s, and what can be read of it is used",
			  r->gaps, m->opts.cache, aside);
	if (torn)
		log_warn("cache: the journal's last %llu bytes were torn and are cut off", (unsigned long long)torn);
	*out = take(&r);
	return 0;
}

bool replay_doubtful(const struct replay *r)
{
	return r && (r->gaps || !r->has_writer);
}

/* ---- applying ---- */

static int apply_node(struct mount *m, const struct run_item *item, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	struct node *n;
	int rc;

	if (!item->value) /* nodes go when their last name does */
		return 0;
	rc = inode_rec_decode(item->key, item->key_len, item->value, item->value_len, &rec, f);
	if (rc == 0) {
		rc = load_node(m, rec.home, rec.id, f);
		if (rc == -ENOENT) {
			n = node_make(&m->nodes, rec.id, rec.home, &rec.attr);
			if (n)
				n->loaded = true; /* the store has nothing of it */
			rc = n ? 0 : -ENOMEM;
		}
	}
	if (rc < 0)
		return rc;
	n = node_find(&m->nodes, rec.id);
	n->attr = rec.attr;
	n->names = node_is_dir(n) ? rec.attr.nlink != 0 : rec.attr.nlink;
	if (node_is_dir(n) && !n->names)
		n->attr.nlink = 2; /* empty, should another slot bring it back */
	free(n->symlink);
	n->symlink = take(&rec.symlink);
	xattrs_free(n->xattrs, n->xattr_n);
	n->xattrs = take(&rec.xattrs);
	n->xattr_n = rec.xattr_n;
	rec.xattr_n = 0;
	n->attr_dirty = true;
	n->lookups++; /* held until everything is applied */
	node_touch(&m->nodes, n);
	return 0;
}

static int apply_name(struct mount *m, const struct run_item *item, struct fault *f)
{
	uint64_t dir_id = key_number(item->key, 0);
	struct name_rec rec = {.id = 0};
	struct node *dir, *n;
	struct name *name;
	int rc = item->value ? name_rec_decode(item->value, item->value_len, &rec, f) : 0;

	if (rc == 0)
		rc = load_dir(m, dir_id, f);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0; /* its directory is gone as well */
	if (rc < 0)
		return rc;
	dir = node_find(&m->nodes, dir_id);
	name = name_get(&m->nodes, dir, (const char *)item->key + 9, item->key_len - 9);
	if (!name)
		return -ENOMEM;
	name->id = rec.id;
	name->home = rec.home;
	name->type = rec.type;
	name->cut = rec.id == 0;
	name->appeared_ns = m->resumed_ns;
	name_touch(&m->nodes, name);
	n = rec.id ? node_find(&m->nodes, rec.id) : NULL;
	if (n) {
		node_named(n, dir_id, name->text);
		if (node_is_dir(n))
			node_set_parent(&m->nodes, n, dir);
	}
	return 0;
}

static int adopt_bytes(struct mount *m, struct node *n, uint32_t version, const struct old_bytes *b, struct content **out,
		       struct fault *f)
{
	return content_adopt(m->contents, n->id, version, &n->file->stored, b->referred, b->in_part ? &b->present : NULL, out,
			     f);
}

static int adopt_view(struct mount *m, struct node *n, struct old_file *x, struct fault *f)
{
	scoped(content_unref) struct content *older = NULL;
	struct content *c = n->file->live;
	int rc = 0;

	if (x->view.version != x->version) {
		rc = adopt_bytes(m, n, x->view.version, &x->view.bytes, &older, f);
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc; /* it was in the store by then */
		c = older;
	}
	rc = view_adopt(c, x->view.number, x->view.size, &x->view.side, &x->view.mapped, &n->file->sealed);
	if (rc == -EBADMSG)
		log_warn("cache: the last sealed version of inode %llx (%s) is incomplete; its last committed one stays",
			 (unsigned long long)n->id, node_name(n));
	if (rc < 0)
		return rc == -ENOENT || rc == -EBADMSG ? 0 : rc; /* a side file goes when all is in the store */
	n->file->sealed_attr = n->attr;
	n->file->sealed_attr.mtime_ns = x->view.mtime_ns;
	n->file->sealed_attr.ctime_ns = x->view.ctime_ns;
	return 0;
}

/* Of a file that was being written: its last note is older than its last write. */
static void adopt_times(struct node *n)
{
	struct stat st;

	if (content_hold(n->file->live) < 0)
		return;
	if (fstat(content_fd(n->file->live), &st) < 0)
		st.st_mtim = (struct timespec){.tv_sec = 0};
	content_unhold(n->file->live);
	n->attr.mtime_ns = n->attr.ctime_ns = (int64_t)st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec;
}

/* What the store has as well is believed only if it looks right, and fetched again if not. */
static int adopt_clean(struct node *n)
{
	struct file *f = n->file;

	if (content_size(f->live) == f->stored_size)
		return content_map(f->live, content_stamp(f->live), 0, &f->stored);
	log_warn("cache: content of %s is not as long as it should be; the store has it", node_name(n));
	content_unref(take(&f->live));
	return 0;
}

/* Kept where a person finds it, with what is known of its name behind its own. */
static bool salvage_as(struct mount *m, uint64_t id, uint32_t version, const char *more)
{
	char from[64], to[NAME_MAX_BYTES + 1];

	(void)snprintf(from, sizeof(from), CONTENT_PATH, (unsigned)(id & 0xff), (unsigned long long)id, version);
	(void)snprintf(to, sizeof(to), "salvage/%016llx.%u%s", (unsigned long long)id, version, more);
	return renameat(m->cache_fd, from, m->cache_fd, to) == 0;
}

static bool salvage(struct mount *m, uint64_t id, uint32_t version)
{
	return salvage_as(m, id, version, "");
}

/* Part of what was said to be here may have been given up, and a gap told of that: it would be read as zeros. */
static bool may_lack(const struct old_file *x, struct content *c)
{
	struct range r = {.to = 0};
	uint64_t here = 0;

	while (ranges_next(&x->bytes.present, r.to, content_size(c), &r))
		here += r.to - r.from;
	return content_bytes(c) < here;
}

static int apply_file(const struct replay *r, struct mount *m, struct old_file *x, struct fault *f)
{
	struct node *n;
	struct file *file;
	uint64_t now = m->resumed_ns;
	int rc = load_node(m, x->home, x->id, f);

	n = node_find(&m->nodes, x->id);
	if (rc == -ENOENT && !n)
		return 0; /* unlinked, and forgotten by the store */
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (!n->file || (n->names == 0 && n->links == 0))
		return 0;
	file = n->file;
	file->version = x->version;
	if (r->gaps && !x->dirty)
		return 0; /* that it was changed may have been told in a gap; the store has what is certain */
	rc = adopt_bytes(m, n, x->version, &x->bytes, &file->live, f);
	if (rc == -ENOENT && !x->dirty)
		return 0; /* evicted since */
	if (rc == -ENOENT && n->links == 0 && r->gaps) {
		n->names = 0; /* nor is there a committed one: better no file than one that looks empty */
		return 0;
	}
	if (rc == -ENOENT) {
		log_warn("cache: content of inode %llx (%s) is missing; its last committed version stays",
			 (unsigned long long)x->id, node_name(n));
		return 0;
	}
	if (rc < 0)
		return rc;
	if (!x->dirty)
		return adopt_clean(n);
	if (r->gaps && x->bytes.in_part && may_lack(x, file->live)) {
		if (salvage_as(m, x->id, x->version, ".partial"))
			log_warn("cache: what may be unsent of %s is kept as salvage/%016llx.%u.partial; its last commit stays",
				 node_name(n), (unsigned long long)x->id, x->version);
		content_unref(take(&file->live));
		return 0;
	}
	if (x->sealed && content_size(file->live) != x->sealed_size) {
		log_error("cache: unsent content of %s is damaged (%llu bytes of %llu): reads give EIO, its last commit stays",
			  node_name(n), (unsigned long long)content_size(file->live), (unsigned long long)x->sealed_size);
		file->damaged = true;
		x->sealed = false;
	}
	file->changed = true;
	file->only_grown = x->only_grown;
	if (!x->sealed)
		adopt_times(n);
	if (x->view.number)
		rc = adopt_view(m, n, x, f);
	file->facts.last_write_ns = now;
	file->facts.last_release_ns = now;
	file->facts.clean_close_is_sync = x->sealed && x->synced;
	if (x->sealed)
		file->facts.clean_close_ns = file->first_seal_ns = now;
	else
		file->facts.killed_ns = now;
	file->writer_tgid = -1; /* who only opens and closes it did not finish it */
	n->attr_dirty = true;
	node_touch(&m->nodes, n);
	return rc;
}

/* ---- what the journal does not account for ---- */

static int make_salvage(struct mount *m, struct fault *f)
{
	if (mkdirat(m->cache_fd, "salvage", 0700) < 0 && errno != EEXIST)
		return fault_errno(f, -errno, "cache: salvage");
	return 0;
}

struct sweep {
	const struct replay *r;
	struct mount *m;
	bool goes_on;   /* what the journal knows is in use */
	unsigned moved;
};

/* Which files stay, of those that no content of ours names.  What may be unsent is not deleted. */
static bool sweep_keeps(void *arg, uint64_t id, uint32_t version)
{
	struct sweep *s = arg;
	struct old_file *x;
	bool known, moved;

	HASH_FIND(hh, s->r->files, &id, sizeof(id), x);
	known = x && (x->version == version || (x->view.number && x->view.version == version));
	if (!replay_doubtful(s->r))
		return s->goes_on && known;
	if (known && !x->dirty)
		return false; /* the store has it */
	moved = salvage(s->m, id, version);
	s->moved += moved;
	return moved;
}

/* Does a name lead to it from the root, as far as is known here? */
static bool is_reachable(struct mount *m, const struct node *dir)
{
	for (unsigned depth = 0; dir && depth < DEPTH_MOST; depth++) {
		if (dir->id == ROOT_ID)
			return true;
		if (!dir->parent) /* nothing was told of its name: it is as the store has it, or there is none */
			return dir->links > 0;
		dir = node_parent(&m->nodes, dir);
	}
	return !dir; /* else a circle, since a rename lies in a gap */
}

/* Names of what only a gap told of lead where they led before. */
static int drop_dangling(struct mount *m, struct fault *f)
{
	for (struct list *l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = l->next) {
		struct name *e = name_of_dirty(l);
		int rc = e->id ? load_node(m, e->home, e->id, f) : 0;

		if (rc == -ENOENT) {
			e->id = e->base.id;
			e->home = e->base.home;
			e->type = e->base.type;
			*f = FAULT_NONE;
		} else if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* Files made since the last commit to which no name leads: it was told of in a gap. */
static unsigned salvage_nameless(struct mount *m)
{
	unsigned moved = 0;

	for (struct list *l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = l->next) {
		struct name *e = name_of_dirty(l);
		struct node *n = node_find(&m->nodes, e->id);

		if (!is_reachable(m, e->dir) || (n && n->names == 0))
			e->id = 0;
		else if (n)
			n->pins++;
	}
	for (struct node *n = m->nodes.by_id; n; n = n->hh.next) {
		if (n->links == 0 && n->pins == 0 && n->id != ROOT_ID) {
			if (n->file && n->file->live)
				moved += salvage(m, n->id, content_version(n->file->live));
			if (n->file)
				content_unref(take(&n->file->live));
			n->names = 0;
		}
		n->pins = 0;
	}
	return moved;
}

static int apply_items(struct replay *r, struct mount *m, struct fault *f)
{
	scoped(run_unref) struct run *items = NULL;
	int rc = run_builder_finish(r->items, &items);

	for (int want = KEY_INODE; rc == 0 && want >= KEY_NAME; want--) /* nodes first: names lead to them */
		for (size_t i = 0; rc == 0 && i < run_count(items); i++) {
			struct run_item item;

			run_at(items, i, &item);
			if ((int)key_kind(item.key, item.key_len) == want)
				rc = want == KEY_INODE ? apply_node(m, &item, f) : apply_name(m, &item, f);
		}
	return rc;
}

int replay_apply(struct replay *r, struct mount *m, struct fault *f)
{
	struct sweep s = {.r = r, .m = m, .goes_on = true};
	int rc = r->gaps ? make_salvage(m, f) : 0;

	if (rc < 0)
		return rc;
	if (r->gaps) { /* an id or a pack's name that a gap told of must not be used again */
		r->inodes += COUNTERS_LOST;
		r->packs += COUNTERS_LOST;
	}
	m->next_inode = m->inode_reserved = r->inodes;
	m->next_pack = m->pack_reserved = r->packs;
	rc = apply_items(r, m, f);
	if (rc == 0 && r->gaps)
		rc = drop_dangling(m, f);
	for (struct old_file *x = r->files; rc == 0 && x; x = x->hh.next)
		rc = apply_file(r, m, x, f);
	if (rc == 0 && r->gaps)
		s.moved = salvage_nameless(m);
	for (struct node *n = m->nodes.by_id; n; n = n->hh.next) /* what apply_node() held */
		if (n->id != ROOT_ID)
			n->lookups = 0;
	nodes_release(&m->nodes);
	if (rc < 0)
		return fault_in(f, "journal");
	rc = content_dir_sweep(m->contents, sweep_keeps, &s);
	if (r->gaps) { /* at once, so that what is added does not lie behind the damage */
		m->journal_failed = true;
		replay_compact(m);
	}
	if (s.moved)
		log_warn("cache: %u files that may be unsent and have no name any more are in %s/salvage", s.moved, m->opts.cache);
	return rc;
}

/* ---- discarding ---- */

/* The names that the journal knows; of a file that is older than it there is none. */
static int name_files(struct replay *r)
{
	scoped(run_unref) struct run *items = NULL;
	int rc = run_builder_finish(r->items, &items);

	for (size_t i = 0; rc == 0 && i < run_count(items); i++) {
		struct fault f = FAULT_NONE;
		struct name_rec rec;
		struct run_item item;
		struct old_file *x;

		run_at(items, i, &item);
		if (!item.value || key_kind(item.key, item.key_len) != KEY_NAME ||
		    name_rec_decode(item.value, item.value_len, &rec, &f) < 0)
			continue;
		HASH_FIND(hh, r->files, &rec.id, sizeof(rec.id), x);
		if (x && !x->name)
			x->name = strndup((const char *)item.key + 9, item.key_len - 9);
	}
	return rc;
}

/* Are there zeros in it for bytes that only the store has, or that a machine which lost its power never wrote? */
static bool is_partial(const struct mount *m, const struct old_file *x)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), CONTENT_PATH, (unsigned)(x->id & 0xff), (unsigned long long)x->id, x->version);
	return (x->bytes.in_part && !ranges_has(&x->bytes.present, 0, x->sealed_size)) ||
	       fstatat(m->cache_fd, path, &st, 0) < 0 || (uint64_t)st.st_size != x->sealed_size;
}

/* The file is the dead writer's, sealed and perhaps never sent. */
static bool salvage_unsent(struct mount *m, const struct old_file *x)
{
	const char *partial = is_partial(m, x) ? ".partial" : "";
	char more[NAME_MAX_BYTES];

	(void)snprintf(more, sizeof(more), "%s%s%.200s", partial, x->name ? "-" : "", x->name ? x->name : "");
	if (!salvage_as(m, x->id, x->version, more))
		return false;
	log_warn("cache: what may be unsent of %s is kept as salvage/%016llx.%u%s", x->name ? x->name : "a file",
		 (unsigned long long)x->id, x->version, more);
	return true;
}

/* A copy may be nothing but references to the store. */
static bool is_any_here(const struct old_file *x)
{
	return !x->bytes.in_part || x->sealed_size == 0 || ranges_meets(&x->bytes.present, 0, x->sealed_size);
}

int replay_discard(struct replay *r, struct mount *m, unsigned *moved, struct fault *f)
{
	struct sweep s = {.r = r, .m = m};
	int rc = make_salvage(m, f);

	if (rc == 0 && r && name_files(r) < 0)
		rc = fault_errno(f, -ENOMEM, "journal");
	if (rc < 0)
		return rc;
	for (struct old_file *x = r ? r->files : NULL; x; x = x->hh.next)
		if (x->dirty && x->sealed && is_any_here(x))
			s.moved += salvage_unsent(m, x);
	rc = content_dir_sweep(m->contents, r ? sweep_keeps : NULL, &s);
	*moved = s.moved;
	return rc;
}

/* ---- compaction ---- */

static void compact_notes(struct note *w, struct mount *m)
{
	note_writer(w, m);
	note_counters(w, m->inode_reserved, m->pack_reserved);
	if (mount_in_group(m))
		note_tree(w, state_head(m->state)->number);
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next)
		note_node(w, node_of_dirty(l));
	for (struct list *l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = l->next) {
		const struct name *e = name_of_dirty(l);

		if (!list_on(&e->dir->dirty)) /* without it the replay would not look into it */
			note_node(w, e->dir);
		note_name(w, e);
	}
	for (const struct node *n = m->nodes.by_id; n; n = n->hh.next) {
		if (!node_is_dir(n) && n->names != n->links && !list_on(&n->dirty))
			note_node(w, n); /* its public name is not the live one */
		if (n->file && n->file->live && (n->names || n->links))
			note_file(w, n);
	}
}

/* Twice what it came to last time: what has to stay in it would else be written again and again. */
static bool compact_due(const struct mount *m)
{
	uint64_t most = 2 * m->compacted_bytes;

	if (mount_now(m) < m->compact_from_ns || m->cache_deleted)
		return false;
	if (m->journal_failed)
		return true; /* nothing can be saved without it, at a notice either */
	return !m->flushing && journal_bytes(m->journal) >= (most > COMPACT_BYTES ? most : COMPACT_BYTES);
}

void replay_compact(struct mount *m)
{
	struct fault f = FAULT_NONE;
	struct note w = NOTE_EMPTY;
	uint64_t mark;
	int rc;

	mount_lock(m);
	if (!compact_due(m)) {
		mount_unlock(m);
		return;
	}
	mark = journal_mark(m->journal);
	compact_notes(&w, m);
	mount_unlock(m);
	rc = buf_ok(&w.entries) ? journal_rewrite(m->journal, mark, &w.entries, &f) : -ENOMEM;
	if (rc < 0)
		log_warn("cache: the journal was not shortened: %s", f.code ? f.text : "no memory");
	mount_lock(m);
	m->journal_failed = rc < 0;
	if (rc < 0)
		m->compact_from_ns = mount_now(m) + COMPACT_AGAIN_NS;
	else
		m->compacted_bytes = journal_bytes(m->journal);
	mount_unlock(m);
	buf_fini(&w.entries);
}
