/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that a rebase works on.  See rebase_priv.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fs/slot/rebase_priv.h"

int rebase_oom(struct rebasing *w)
{
	return fault_set(w->f, -ENOMEM, FAULT_SOON, "no memory to rebase a run of %zu items", run_count(w->ours));
}

/* ---- inodes ---- */

struct inode *rebase_inode(struct rebasing *w, uint64_t id)
{
	struct inode *i;

	HASH_FIND(hh, w->inodes, &id, sizeof(id), i);
	return i;
}

int rebase_inode_get(struct rebasing *w, uint64_t id, uint64_t home, struct inode **out)
{
	struct inode *i = rebase_inode(w, id);

	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return rebase_oom(w);
		i->id = id;
		HASH_ADD(hh, w->inodes, id, sizeof(i->id), i);
		if (!i->hh.tbl) {
			free(i);
			return rebase_oom(w);
		}
	}
	if (home)
		i->home = home;
	*out = i;
	return 0;
}

/* All segments as our run has them. */
static int read_ours(struct rebasing *w, const struct inode *i, struct inode_rec *out)
{
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_inode(i->home, i->id, 0, key), n = run_count(w->ours);
	struct run_item item;

	for (size_t x = run_seek(w->ours, key, len); x < n; x++) {
		int rc;

		run_at(w->ours, x, &item);
		if (item.key_len != len || memcmp(item.key, key, len - sizeof(uint32_t)) != 0)
			break;
		if (!item.value)
			continue;
		rc = inode_rec_decode(item.key, item.key_len, item.value, item.value_len, out, w->f);
		if (rc < 0)
			return rc;
	}
	return out->id ? inode_rec_check(out, w->f) : 0;
}

int rebase_read(struct rebasing *w, const struct inode *i, struct state *s, struct inode_rec *out)
{
	struct fault f = FAULT_NONE;
	int rc = state_inode(s, w->r->src, i->home, i->id, out, &f);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0 && w->f)
		*w->f = f;
	return rc;
}

int rebase_record(struct rebasing *w, struct inode *i, enum side side, const struct inode_rec **out)
{
	struct inode_rec *rec = &i->rec[side];

	if (!i->read[side] && i->home) {
		int rc = side == OURS ? read_ours(w, i, rec)
				      : rebase_read(w, i, side == WAS ? w->r->was : w->r->now, rec);

		if (rc < 0)
			return rc;
		i->read[side] = true;
	}
	*out = rec->id ? rec : NULL;
	return 0;
}

/* ---- names ---- */

static struct entry *find_key(struct rebasing *w, const uint8_t *key, size_t len)
{
	struct entry *e;

	HASH_FIND(hh, w->entries, key, len, e);
	return e;
}

struct entry *rebase_entry(struct rebasing *w, uint64_t dir, const char *name, size_t len)
{
	uint8_t key[RUN_KEY_MAX];

	return find_key(w, key, key_of_name(dir, name, len, key));
}

static int get_key(struct rebasing *w, const uint8_t *key, size_t len, struct entry **out)
{
	struct entry *e = find_key(w, key, len);
	int rc;

	if (!e) {
		e = calloc(1, sizeof(*e) + len);
		if (!e)
			return rebase_oom(w);
		e->key_len = len;
		memcpy(e->key, key, len);
		rc = rebase_inode_get(w, key_number(key, 0), 0, &e->dir);
		if (rc == 0)
			HASH_ADD_KEYPTR(hh, w->entries, e->key, len, e);
		if (rc < 0 || !e->hh.tbl) {
			free(e);
			return rc < 0 ? rc : rebase_oom(w);
		}
	}
	*out = e;
	return 0;
}

static int find_name(struct rebasing *w, struct state *s, const struct entry *e, struct name_rec *out)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	int rc = state_find(s, w->r->src, e->key, e->key_len, &value, &f);

	if (rc == 0)
		rc = name_rec_decode(value.data, value.len, out, &f);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0 && w->f)
		*w->f = f;
	return rc;
}

/* A directory that came with one of the runs: it has no names in was, and none need be looked for. */
static int dir_is_new(struct rebasing *w, struct inode *dir, bool *out)
{
	const struct inode_rec *was = NULL;
	bool put = dir->we == SAYS_PUT || dir->they == SAYS_PUT;
	int rc = put ? rebase_record(w, dir, WAS, &was) : 0;

	*out = put && !was;
	return rc;
}

/* On the list of the inode that it leads to on that side. */
static int enlist(struct rebasing *w, struct entry *e, enum side side, const struct name_rec *to)
{
	struct inode *i;
	int rc = to->id ? rebase_inode_get(w, to->id, to->home, &i) : 0;

	if (rc < 0 || !to->id)
		return rc;
	e->next[side] = i->names[side];
	i->names[side] = e;
	return 0;
}

static int complete(struct rebasing *w, struct entry *e)
{
	bool is_new;
	int rc = dir_is_new(w, e->dir, &is_new);

	if (rc == 0 && !is_new)
		rc = find_name(w, w->r->was, e, &e->was);
	if (!e->they_say)
		e->now = e->was;
	e->out = e->now;
	if (rc == 0)
		rc = enlist(w, e, WAS, &e->was);
	if (rc == 0)
		rc = enlist(w, e, NOW, &e->now);
	return rc < 0 ? rc : enlist(w, e, OURS, &e->ours);
}

int rebase_entry_get(struct rebasing *w, uint64_t dir, const char *name, size_t len, struct entry **out)
{
	uint8_t key[RUN_KEY_MAX];
	size_t key_len = key_of_name(dir, name, len, key);
	int rc;

	*out = find_key(w, key, key_len);
	if (*out)
		return 0;
	rc = get_key(w, key, key_len, out);
	return rc < 0 ? rc : complete(w, *out);
}

static void count(struct rebasing *w, struct entry *e, int by)
{
	struct inode *i = e->out.id ? rebase_inode(w, e->out.id) : NULL;

	if (!i)
		return;
	i->links += by;
	if (e->out.type == DT_DIR)
		e->dir->subdirs += by;
}

void rebase_set(struct rebasing *w, struct entry *e, struct name_rec to)
{
	if (e->out.id == to.id)
		return;
	count(w, e, -1);
	e->out = to;
	count(w, e, 1);
	w->changed = true;
}

struct entry *rebase_named(const struct inode *i)
{
	for (enum side side = WAS; side < SIDES; side++)
		for (struct entry *e = i->names[side]; e; e = e->next[side])
			if (e->out.id == i->id)
				return e;
	return NULL;
}

/* ---- where an inode has its name ---- */

struct search {
	struct rebasing *w;
	uint64_t id, *dir;
	char *name;
};

static int each_item(void *arg, const struct run_item *item)
{
	struct search *s = arg;
	const struct entry *e;
	struct name_rec n;
	int rc;

	if (key_kind(item->key, item->key_len) != KEY_NAME)
		return 0;
	rc = name_rec_decode(item->value, item->value_len, &n, s->w->f);
	if (rc < 0 || n.id != s->id)
		return rc;
	e = find_key(s->w, item->key, item->key_len);
	if (e && e->out.id != s->id)
		return 0;
	*s->dir = key_number(item->key, 0);
	memcpy(s->name, item->key + 9, item->key_len - 9);
	s->name[item->key_len - 9] = '\0';
	return 1;
}

int rebase_find(struct rebasing *w, uint64_t id, uint64_t hint, uint64_t *dir, char name[NAME_MAX_BYTES + 1])
{
	const struct inode *i = rebase_inode(w, id);
	const uint64_t near[] = {hint, i ? i->home : 0};
	struct search s = {.w = w, .id = id, .dir = dir, .name = name};
	uint8_t key[RUN_KEY_MAX];
	int rc;

	for (size_t n = 0; n < 2; n++) {
		size_t names = key_of_name(near[n], "x", 1, key) - 1;

		rc = near[n] ? state_walk(w->r->now, w->r->src, key, names, each_item, &s, w->f) : 0;
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	rc = state_walk(w->r->now, w->r->src, "", 0, each_item, &s, w->f);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return fault_set(w->f, -EBADMSG, FAULT_FINAL, "inode %" PRIu64 " has no name", id);
}

/* ---- the runs ---- */

unsigned rebase_slot_of(const struct rebasing *w, const uint8_t *key, size_t len)
{
	struct run_item item;

	for (size_t n = w->r->theirs_n; n-- > 0;)
		if (w->r->theirs[n].run && run_find(w->r->theirs[n].run, key, len, &item))
			return w->r->theirs[n].slot;
	return 0;
}

static int load_inode(struct rebasing *w, const struct run_item *item, bool is_ours)
{
	enum says says = item->value ? SAYS_PUT : SAYS_REMOVED;
	struct inode *i;
	int rc = rebase_inode_get(w, key_number(item->key, 9), key_number(item->key, 0), &i);

	if (rc < 0)
		return rc;
	*(is_ours ? &i->we : &i->they) = says;
	return 0;
}

static int load_name(struct rebasing *w, const struct run_item *item, bool is_ours)
{
	struct entry *e;
	int rc = get_key(w, item->key, item->key_len, &e);

	if (rc < 0)
		return rc;
	*(is_ours ? &e->we_say : &e->they_say) = true;
	if (!item->value)
		return 0;
	return name_rec_decode(item->value, item->value_len, is_ours ? &e->ours : &e->now, w->f);
}

static int load_run(struct rebasing *w, struct run *run, bool is_ours)
{
	size_t n = run_count(run);
	struct run_item item;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		run_at(run, i, &item);
		if (key_kind(item.key, item.key_len) == KEY_NAME)
			rc = load_name(w, &item, is_ours);
		else if (key_is_first_segment(item.key, item.key_len))
			rc = load_inode(w, &item, is_ours);
	}
	return rc;
}

int rebase_load(struct rebasing *w)
{
	struct entry *e, *next;
	int rc = load_run(w, w->ours, true);

	if (rc == 0)
		rc = load_run(w, w->theirs, false);
	HASH_ITER(hh, w->entries, e, next) {
		if (rc == 0)
			rc = complete(w, e);
	}
	return rc;
}

void rebase_unload(struct rebasing *w)
{
	struct entry *e, *e_next;
	struct inode *i, *i_next;

	HASH_ITER(hh, w->entries, e, e_next) {
		HASH_DEL(w->entries, e);
		free(e);
	}
	HASH_ITER(hh, w->inodes, i, i_next) {
		HASH_DEL(w->inodes, i);
		for (enum side side = WAS; side < SIDES; side++)
			inode_rec_fini(&i->rec[side]);
		free(i);
	}
}
