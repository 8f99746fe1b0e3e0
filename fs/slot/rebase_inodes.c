/* SPDX-License-Identifier: Apache-2.0 */
/* The records that follow from where the names lead, and the run that says so.  See rebase_priv.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/slot/rebase_priv.h"

/* ---- content ---- */

static bool is_same_extent(const struct extent *a, const struct extent *b)
{
	if (a->length != b->length || (a->kind == EXTENT_ZERO) != (b->kind == EXTENT_ZERO))
		return false;
	return a->kind == EXTENT_ZERO || memcmp(a->hash.b, b->hash.b, sizeof(a->hash.b)) == 0;
}

bool rebase_same_content(const struct inode_rec *a, const struct inode_rec *b)
{
	if (a->attr.size != b->attr.size || a->extents.n != b->extents.n)
		return false;
	for (size_t i = 0; i < a->extents.n; i++)
		if (!is_same_extent(&a->extents.v[i], &b->extents.v[i]))
			return false;
	return true;
}

int rebase_content_changed(struct rebasing *w, struct inode *i, enum side side, bool *out)
{
	const struct inode_rec *was = NULL, *is = NULL;
	int rc = 0;

	if ((side == OURS ? i->we : i->they) == SAYS_PUT)
		rc = rebase_record(w, i, side, &is);
	if (rc == 0 && is)
		rc = rebase_record(w, i, WAS, &was);
	*out = is && S_ISREG(is->attr.mode) && !(was && rebase_same_content(was, is));
	return rc;
}

int rebase_content(struct rebasing *w, struct inode *i, const struct inode_rec **out)
{
	bool changed;
	int rc = rebase_content_changed(w, i, OURS, &changed);

	if (rc == 0 && !changed)
		rc = rebase_record(w, i, NOW, out);
	if (rc == 0 && (changed || !*out))
		rc = rebase_record(w, i, i->we == SAYS_PUT ? OURS : WAS, out);
	return rc;
}

/* ---- changed by both ---- */

static int is_split(struct rebasing *w, struct inode *i, bool *out)
{
	bool we, they = false;
	int rc = rebase_content_changed(w, i, OURS, &we);

	if (rc == 0 && we)
		rc = rebase_content_changed(w, i, NOW, &they);
	*out = we && they && !rebase_same_content(&i->rec[OURS], &i->rec[NOW]);
	return rc;
}

/* A name of the file. */
static int find_name(struct rebasing *w, const struct inode *i, uint64_t *dir, char name[NAME_MAX_BYTES + 1])
{
	const struct entry *e = rebase_named(i);
	uint64_t hint = 0;

	if (!e)
		return rebase_find(w, i->id, w->r->named(w->r->arg, i->id, &hint, name) ? hint : 0, dir, name);
	*dir = e->dir->id;
	memcpy(name, e->key + 9, e->key_len - 9);
	name[e->key_len - 9] = '\0';
	return 0;
}

static int split(struct rebasing *w, struct inode *i)
{
	uint8_t key[RUN_KEY_MAX];
	unsigned slot = rebase_slot_of(w, key, key_of_inode(i->home, i->id, 0, key));
	struct name_rec to = {.id = w->r->new_id(w->r->arg), .type = DT_REG};
	char name[NAME_MAX_BYTES + 1];
	struct inode *theirs;
	int rc = find_name(w, i, &to.home, name);

	if (rc == 0)
		rc = rebase_inode_get(w, to.id, to.home, &theirs);
	if (rc == 0)
		rc = rebase_read(w, i, w->r->now, &theirs->rec[OURS]);
	if (rc < 0)
		return rc;
	theirs->rec[OURS].id = to.id;
	theirs->rec[OURS].home = to.home;
	theirs->we = SAYS_PUT;
	theirs->read[WAS] = theirs->read[NOW] = theirs->read[OURS] = true;
	return rebase_aside(w, to.home, name, strlen(name), to, slot);
}

int rebase_split(struct rebasing *w)
{
	struct inode *i, *next;
	bool both;

	HASH_ITER(hh, w->inodes, i, next) {
		int rc = is_split(w, i, &both);

		if (rc == 0 && both)
			rc = split(w, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- what our run's word does not do for ---- */

static void touch(struct rebasing *w, const struct name_rec *n, struct entry *e)
{
	struct inode *i = n->id ? rebase_inode(w, n->id) : NULL;

	if (i)
		i->touched = true;
	if (n->type == DT_DIR)
		e->dir->touched = true;
}

/* A name leads, in the end, to what one of the sides has there. */
static void touch_all(struct rebasing *w)
{
	struct entry *e, *e_next;
	struct inode *i, *i_next;

	HASH_ITER(hh, w->inodes, i, i_next)
		i->touched |= i->we != SAYS_NOTHING && i->they != SAYS_NOTHING;
	HASH_ITER(hh, w->entries, e, e_next) {
		if (e->out.id == (e->we_say ? e->ours.id : e->now.id) && !(e->we_say && e->they_say))
			continue;
		touch(w, &e->was, e);
		touch(w, &e->now, e);
		touch(w, &e->ours, e);
	}
}

/* ---- records ---- */

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What they changed of the attributes, where we did not. */
static void merge_attr(struct inode_attr *a, const struct inode_attr *was, const struct inode_attr *now)
{
	if (was && a->mode == was->mode)
		a->mode = now->mode;
	if (was && a->uid == was->uid)
		a->uid = now->uid;
	if (was && a->gid == was->gid)
		a->gid = now->gid;
	a->mtime_ns = later(a->mtime_ns, now->mtime_ns);
	a->ctime_ns = later(a->ctime_ns, now->ctime_ns);
}

static bool is_gone(const struct inode *i, const struct inode_rec *now, bool is_dir)
{
	if (!is_dir)
		return (now ? now->attr.nlink : 0) + i->links <= 0;
	return !rebase_named(i) && (i->names[WAS] || i->names[NOW] || !now);
}

static uint32_t link_count(const struct inode *i, const struct inode_rec *now, bool is_dir)
{
	int64_t n = now ? now->attr.nlink : is_dir ? 2 : 0;

	n += is_dir ? i->subdirs : i->links;
	return n > 0 ? (uint32_t)n : 0;
}

/* A record of the records' parts: nothing in it is its own. */
static int put_inode(struct run_builder *b, const struct inode *i, const struct inode_rec *content,
		     uint32_t nlink)
{
	const struct inode_rec *was = &i->rec[WAS], *now = &i->rec[NOW];
	struct inode_rec rec = i->we == SAYS_PUT ? i->rec[OURS] : *content;

	rec.attr.nlink = nlink;
	rec.attr.size = content->attr.size;
	rec.extents = content->extents;
	if (i->we == SAYS_PUT && i->they == SAYS_PUT)
		merge_attr(&rec.attr, was->id ? &was->attr : NULL, &now->attr);
	return inode_rec_put(b, &rec, now->id ? inode_rec_segments(now) : 0);
}

static int without_record(struct rebasing *w, const struct inode *i)
{
	if (!i->home || !rebase_named(i))
		return 0;
	return fault_set(w->f, -EBADMSG, FAULT_FINAL, "a name leads to inode %" PRIu64 ", which is not there", i->id);
}

static int add_inode(struct rebasing *w, struct run_builder *b, struct inode *i)
{
	const struct inode_rec *now, *ours, *content;
	bool is_dir;
	uint32_t nlink;
	int rc = rebase_record(w, i, NOW, &now);

	if (rc == 0)
		rc = rebase_record(w, i, OURS, &ours); /* put_inode() looks at it */
	if (rc == 0)
		rc = rebase_content(w, i, &content);
	if (rc < 0)
		return rc;
	if (!content)
		return without_record(w, i);
	is_dir = S_ISDIR(content->attr.mode);
	if (is_gone(i, now, is_dir))
		return now ? inode_rec_remove(b, i->home, i->id, inode_rec_segments(now)) : 0;
	nlink = link_count(i, now, is_dir);
	if (now && i->we != SAYS_PUT && now->attr.nlink == nlink)
		return 0;
	return put_inode(b, i, content, nlink);
}

static int add_name(struct run_builder *b, const struct entry *e)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	int rc;

	if (e->out.id == e->now.id)
		return 0;
	if (e->out.id == 0)
		return run_builder_add(b, e->key, e->key_len, NULL, 0);
	rc = name_rec_encode(&e->out, &value);
	return rc < 0 ? rc : run_builder_add(b, e->key, e->key_len, value.data, value.len);
}

/* What our run says and nothing has touched. */
static int add_rest(struct rebasing *w, struct run_builder *b)
{
	size_t n = run_count(w->ours);
	struct run_item item;
	int rc = 0;

	for (size_t x = 0; rc == 0 && x < n; x++) {
		enum key_kind kind;

		run_at(w->ours, x, &item);
		kind = key_kind(item.key, item.key_len);
		if (kind == KEY_NAME || (kind == KEY_INODE && rebase_inode(w, key_number(item.key, 9))->touched))
			continue;
		rc = run_builder_add(b, item.key, item.key_len, item.value, item.value_len);
	}
	return rc;
}

int rebase_inodes(struct rebasing *w, struct run **out)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	struct entry *e, *e_next;
	struct inode *i, *i_next;
	int rc = b ? 0 : -ENOMEM;

	touch_all(w);
	HASH_ITER(hh, w->entries, e, e_next) {
		if (rc == 0)
			rc = add_name(b, e);
	}
	HASH_ITER(hh, w->inodes, i, i_next) {
		if (rc == 0 && i->touched)
			rc = add_inode(w, b, i);
	}
	if (rc == 0)
		rc = add_rest(w, b);
	return rc < 0 ? rc : run_builder_finish(b, out);
}
