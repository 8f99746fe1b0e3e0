/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal is told: run items as they now are, and which content a file has. */
#include <errno.h>
#include <sys/stat.h>

#include "fs/file.h"
#include "fs/mount.h"

static void note_add(struct note *w, enum journal_type type, const struct buf *body)
{
	if (buf_ok(body))
		journal_entry(&w->entries, type, body->data, body->len);
	else
		w->entries.failed = true;
}

void note_name(struct note *w, const struct name *n)
{
	uint8_t key[RUN_KEY_MAX];
	size_t key_len = key_of_name(n->dir->id, n->text, n->len, key);
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u16(&body, (uint16_t)key_len);
	buf_add(&body, key, key_len);
	if (n->id)
		(void)name_rec_encode(&(struct name_rec){.id = n->id, .home = n->home, .type = n->type}, &body);
	note_add(w, n->id ? JOURNAL_SET : JOURNAL_REMOVE, &body);
}

/* Attributes only: bytes are told of by note_content() and note_sealed(). */
void note_node(struct note *w, const struct node *n)
{
	struct inode_rec rec = {.id = n->id, .home = n->home, .attr = n->attr, .symlink = n->symlink,
				.xattrs = n->xattrs, .xattr_n = n->xattr_n};
	struct extent hole = {.kind = EXTENT_ZERO};
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(run_unref) struct run *run = NULL;
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct run_item item;

	if (!node_is_dir(n) || n->names == 0)
		rec.attr.nlink = n->names;
	if (n->file) {
		rec.attr.size = hole.length = file_size(n);
		if (hole.length)
			rec.extents = (struct extents){.v = &hole, .n = 1};
	}
	if (!b || inode_rec_put(b, &rec, 0) < 0 || run_builder_finish(b, &run) < 0) {
		w->entries.failed = true;
		return;
	}
	run_at(run, 0, &item);
	buf_u16(&body, (uint16_t)item.key_len);
	buf_add(&body, item.key, item.key_len);
	buf_add(&body, item.value, item.value_len);
	note_add(w, JOURNAL_SET, &body);
}

static uint32_t live_version(const struct node *n)
{
	return n->file->live ? content_version(n->file->live) : 0;
}

static void note_content_of(struct note *w, const struct node *n, uint32_t version, bool of_store)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, n->id);
	buf_u32(&body, version);
	buf_u64(&body, n->home);
	buf_u8(&body, of_store);
	note_add(w, JOURNAL_CONTENT, &body);
}

void note_content(struct note *w, const struct node *n, bool clean)
{
	note_content_of(w, n, live_version(n), clean);
}

void note_range(struct note *w, enum journal_type type, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
		uint64_t len)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, id);
	buf_u32(&body, version);
	buf_u32(&body, view);
	buf_u64(&body, off);
	buf_u64(&body, len);
	note_add(w, type, &body);
}

static void note_ranges(struct note *w, enum journal_type type, uint64_t id, uint32_t version, uint32_t view,
			const struct ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		note_range(w, type, id, version, view, r->v[i].from, r->v[i].to - r->v[i].from);
}

static void note_present_of(struct note *w, const struct node *n, struct content *c)
{
	scoped(ranges_fini) struct ranges r = RANGES_EMPTY;

	if (content_present(c, &r) < 0)
		w->entries.failed = true;
	note_ranges(w, JOURNAL_PRESENT, n->id, content_version(c), 0, &r);
}

void note_present(struct note *w, const struct node *n)
{
	note_present_of(w, n, n->file->live);
}

void note_mapped(struct note *w, uint64_t id, uint32_t version, uint32_t view, uint64_t off, const struct extent *e)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, id);
	buf_u32(&body, version);
	buf_u32(&body, view);
	buf_u64(&body, off);
	buf_u8(&body, e->kind);
	buf_u64(&body, e->length);
	buf_add(&body, e->hash.b, sizeof(e->hash.b));
	buf_u64(&body, e->place.pack);
	buf_u32(&body, e->place.offset);
	buf_u32(&body, e->place.stored);
	buf_u8(&body, e->place.codec);
	if (e->kind == EXTENT_INLINE)
		buf_add(&body, e->data, e->length);
	note_add(w, JOURNAL_MAPPED, &body);
}

void note_referred(struct note *w, const struct node *n, struct content *c)
{
	scoped(need_fini) struct need x = {.n = 0};

	if (content_referred(c, &x) < 0)
		w->entries.failed = true;
	for (size_t i = 0; i < x.n; i++)
		note_mapped(w, n->id, content_version(c), 0, x.offs[i], &x.extents.v[i]);
}

/* The sealed version as a view: its size, and where those of its bytes are that the content has no more. */
void note_view(struct note *w, const struct node *n)
{
	scoped(ranges_fini) struct ranges r = RANGES_EMPTY;
	scoped(need_fini) struct need mapped = {.n = 0};
	struct view *v = n->file->sealed;
	uint32_t version = content_version(view_content(v));

	note_sealed(w, n, view_number(v), view_size(v), &n->file->sealed_attr);
	if (view_side(v, &r) < 0 || view_mapped(v, &mapped) < 0)
		w->entries.failed = true;
	note_ranges(w, JOURNAL_PRESERVED, n->id, version, view_number(v), &r);
	for (size_t i = 0; i < mapped.n; i++)
		note_mapped(w, n->id, version, view_number(v), mapped.offs[i], &mapped.extents.v[i]);
}

void note_unnamed(struct note *w, const struct node *n)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, n->id);
	note_add(w, JOURNAL_UNNAMED, &body);
}

void note_older(struct note *w, const struct node *n)
{
	struct content *c = view_content(n->file->sealed);

	note_content_of(w, n, content_version(c), true);
	note_referred(w, n, c);
	note_present_of(w, n, c);
	note_view(w, n);
}

void note_writer(struct note *w, const struct mount *m)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_add(&body, m->format.id.b, sizeof(m->format.id.b));
	buf_add(&body, m->boot, sizeof(m->boot));
	buf_u64(&body, m->fence);
	buf_u16(&body, (uint16_t)m->opts.slot);
	note_add(w, JOURNAL_WRITER, &body);
}

void note_counters(struct note *w, uint64_t inodes, uint64_t packs)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, inodes);
	buf_u64(&body, packs);
	note_add(w, JOURNAL_COUNTER, &body);
}

void note_tree(struct note *w, uint64_t number)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, number);
	note_add(w, JOURNAL_TREE, &body);
}

void note_item(struct note *w, const void *key, size_t key_len, const struct buf *value)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u16(&body, (uint16_t)key_len);
	buf_add(&body, key, key_len);
	if (value)
		buf_add(&body, value->data, value->len);
	note_add(w, value ? JOURNAL_SET : JOURNAL_REMOVE, &body);
}

void note_dirty(struct note *w, const struct node *n)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, n->id);
	buf_u32(&body, live_version(n));
	buf_u64(&body, n->home);
	buf_u8(&body, n->file->only_grown);
	note_add(w, JOURNAL_DIRTY, &body);
}

void note_sealed(struct note *w, const struct node *n, uint32_t view, uint64_t size, const struct inode_attr *attr)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	buf_u64(&body, n->id);
	buf_u32(&body, view ? content_version(view_content(n->file->sealed)) : content_version(n->file->live));
	buf_u32(&body, view);
	buf_u64(&body, size);
	buf_u64(&body, (uint64_t)attr->mtime_ns);
	buf_u64(&body, (uint64_t)attr->ctime_ns);
	buf_u8(&body, n->file->facts.clean_close_is_sync);
	note_add(w, JOURNAL_SEALED, &body);
}

void note_file(struct note *w, const struct node *n)
{
	const struct file *f = n->file;
	bool older = f->sealed && view_content(f->sealed) != f->live;

	if (older)
		note_older(w, n);
	note_content(w, n, f->stored_size || !f->changed);
	if (f->changed)
		note_referred(w, n, f->live);
	note_present(w, n); /* also of a whole one: what is not told of is absent */
	if (!f->changed)
		return;
	note_dirty(w, n);
	if (f->sealed && !f->live_is_sealed && !older)
		note_view(w, n);
	if (f->live_is_sealed || f->facts.clean_close_ns >= f->facts.last_write_ns)
		note_sealed(w, n, 0, file_size(n), &n->attr);
}

int note_done(struct mount *m, struct note *w)
{
	int rc = !buf_ok(&w->entries) ? -ENOMEM : w->entries.len ? journal_add_many(m->journal, &w->entries) : 0;

	buf_fini(&w->entries);
	if (rc < 0)
		m->journal_failed = true;
	return rc;
}
