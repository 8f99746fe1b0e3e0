/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every name is to lead to.  See rebase.h.
 *
 * First each name by itself, then whatever was renamed on both sides; then, until nothing changes any more:
 *   what we changed and they removed comes back, and so does what they changed and we removed;
 *   a directory that holds a name has one; none lies in itself.
 * It ends: a name goes to what they have or what was there once, a directory that we moved goes back once, and
 * each name beside another is made for something that has none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/slot/rebase_priv.h"

#define DEPTH_MOST 100000 /* of a directory that is looked at: a loop that it is not in has no end */

static const struct name_rec nothing;

/* ---- each name by itself ---- */

static void decide(struct rebasing *w, struct entry *e)
{
	bool ours_changes = e->we_say && e->ours.id != e->was.id;
	bool theirs_changes = e->now.id != e->was.id;

	if (!ours_changes)
		return;
	if (e->ours.id == 0 && theirs_changes && e->now.id != 0)
		return; /* not what we removed */
	rebase_set(w, e, e->ours);
}

/* Theirs again, unless that has a name elsewhere by now. */
static void give_up(struct rebasing *w, struct entry *e)
{
	const struct inode *theirs = e->now.id ? rebase_inode(w, e->now.id) : NULL;

	rebase_set(w, e, theirs && rebase_named(theirs) ? nothing : e->now);
}

/* ---- renamed on both sides ---- */

static struct entry *new_name(const struct inode *i, enum side side)
{
	for (struct entry *e = i->names[side]; e; e = e->next[side])
		if (e->out.id == i->id && e->was.id != i->id && e->ours.id != e->now.id)
			return e;
	return NULL;
}

static size_t names_both_removed(const struct inode *i)
{
	size_t n = 0;

	for (const struct entry *e = i->names[WAS]; e; e = e->next[WAS])
		n += e->we_say && e->ours.id != i->id && e->now.id != i->id;
	return n;
}

static void choose_name(struct rebasing *w, struct inode *i)
{
	struct entry *ours = new_name(i, OURS), *theirs = new_name(i, NOW);

	if (!ours || !theirs)
		return;
	if (ours->ours.type == DT_DIR && !i->names[WAS]) {
		give_up(w, ours); /* both made it, and they have moved it since */
		return;
	}
	for (size_t n = names_both_removed(i); n > 0 && theirs; n--, theirs = new_name(i, NOW))
		rebase_set(w, theirs, nothing);
}

/* ---- beside a name ---- */

/* No half character of UTF-8 is left. */
size_t rebase_beside_name(const char *name, size_t len, unsigned slot, unsigned again, char out[NAME_MAX_BYTES + 1])
{
	char suffix[32];
	size_t room, n = (size_t)snprintf(suffix, sizeof(suffix), again ? "~slot%u.%u" : "~slot%u", slot, again);

	room = NAME_MAX_BYTES - n;
	if (len > room)
		for (len = room; len > 0 && ((uint8_t)name[len] & 0xc0) == 0x80;)
			len--;
	memcpy(out, name, len);
	memcpy(out + len, suffix, n + 1);
	return len + n;
}

/* An earlier one may be replaced; what either side says something of may not, nor a directory. */
static bool is_free(struct rebasing *w, const struct entry *e)
{
	const struct inode *i = rebase_inode(w, e->out.id);

	if (e->we_say || e->ours.id != 0)
		return false;
	return !i || (!e->they_say && i->we == SAYS_NOTHING && i->they == SAYS_NOTHING && e->out.type != DT_DIR);
}

int rebase_aside(struct rebasing *w, uint64_t dir, const char *name, size_t len, struct name_rec to,
		 unsigned slot)
{
	char text[NAME_MAX_BYTES + 1];
	struct entry *e;
	struct inode *i;
	int rc = rebase_inode_get(w, to.id, to.home, &i);

	if (rc < 0)
		return rc;
	for (unsigned again = 0;; again++) {
		rc = rebase_entry_get(w, dir, text, rebase_beside_name(name, len, slot, again, text), &e);
		if (rc < 0)
			return rc;
		if (is_free(w, e))
			break;
	}
	e->ours = to;
	e->next[OURS] = i->names[OURS]; /* I1 */
	i->names[OURS] = e;
	rebase_set(w, e, to);
	return 0;
}

static unsigned slot_to_name(const struct rebasing *w, const struct entry *e, const struct name_rec *to)
{
	uint8_t key[RUN_KEY_MAX];

	if (e->they_say)
		return rebase_slot_of(w, e->key, e->key_len);
	return rebase_slot_of(w, key, key_of_inode(to->home, to->id, 0, key));
}

static int aside_of(struct rebasing *w, const struct entry *e, struct name_rec to)
{
	const char *name = (const char *)e->key + 9;

	return rebase_aside(w, e->dir->id, name, e->key_len - 9, to, slot_to_name(w, e, &to));
}

/* ---- what would be lost ---- */

/* Are the same bytes in both, or do they lead to one place?  What both sides put may have two contents: no. */
static int is_same_thing(struct rebasing *w, struct name_rec a, struct name_rec b, bool *out)
{
	struct inode *x = rebase_inode(w, a.id), *y = rebase_inode(w, b.id);
	const struct inode_rec *one = NULL, *other = NULL;
	int rc = 0;

	*out = false;
	if (a.type != b.type || !x || !y || (y->we == SAYS_PUT && y->they == SAYS_PUT))
		return 0;
	rc = rebase_content(w, x, &one);
	if (rc == 0)
		rc = rebase_content(w, y, &other);
	if (rc < 0 || !one || !other)
		return rc;
	if (a.type == DT_LNK)
		*out = strcmp(one->symlink, other->symlink) == 0;
	else if (a.type == DT_REG)
		*out = rebase_same_content(one, other);
	return 0;
}

/* Back to where they have it; beside what we put there, unless that is the same. */
static int keep_theirs(struct rebasing *w, struct inode *i)
{
	const struct entry *taken = NULL;
	bool same = false, found = false;

	for (struct entry *e = i->names[NOW]; e; e = e->next[NOW]) {
		int rc = 0;

		if (e->out.id != 0) {
			if (!taken)
				taken = e;
			if (!same)
				rc = is_same_thing(w, e->out, e->now, &same);
			if (rc < 0)
				return rc;
			continue;
		}
		rebase_set(w, e, e->now);
		found = true;
	}
	return found || same || !taken ? 0 : aside_of(w, taken, taken->now);
}

static bool they_named_it(const struct inode *i)
{
	for (const struct entry *e = i->names[NOW]; e; e = e->next[NOW])
		if (e->was.id != i->id)
			return true;
	return false;
}

/*
 * They have it, no name is left to it, and what we removed was something else.  Or neither has removed it: each
 * has removed all names but the other's.
 */
static int is_lost_by_us(struct rebasing *w, struct inode *i, bool *out)
{
	const struct inode_rec *now;
	int rc;

	*out = false;
	if (i->they == SAYS_REMOVED || !i->names[NOW] || rebase_named(i))
		return 0;
	rc = rebase_record(w, i, NOW, &now);
	if (rc < 0 || !now || (!S_ISDIR(now->attr.mode) && now->attr.nlink + i->links > 0))
		return rc;
	*out = they_named_it(i) || i->we == SAYS_PUT;
	return *out ? 0 : rebase_content_changed(w, i, NOW, out);
}

/* They removed it, and do not know what is in it now. */
static int is_lost_by_them(struct rebasing *w, struct inode *i, bool *out)
{
	*out = false;
	if (i->they != SAYS_REMOVED || i->we != SAYS_PUT || rebase_named(i))
		return 0;
	return rebase_content_changed(w, i, OURS, out);
}

static int keep_inode(struct rebasing *w, struct inode *i)
{
	bool lost;
	int rc = is_lost_by_them(w, i, &lost);

	if (rc < 0)
		return rc;
	for (struct entry *e = i->names[WAS]; lost && e; e = e->next[WAS])
		if (!e->we_say)
			rebase_set(w, e, e->was); /* what they put there is looked after in the next round */
	rc = is_lost_by_us(w, i, &lost);
	return rc < 0 || !lost ? rc : keep_theirs(w, i);
}

/* ---- directories ---- */

static bool is_without_name(const struct inode *dir)
{
	return (dir->names[WAS] || dir->names[NOW]) && !rebase_named(dir);
}

/* Its name comes back: the one that they have, else the one that it had. */
static int bring_back(struct rebasing *w, struct inode *dir)
{
	struct entry *e = dir->names[NOW] ? dir->names[NOW] : dir->names[WAS];
	struct name_rec to = dir->names[NOW] ? e->now : e->was;

	/* What they put in the place of a directory that we still have there goes beside it. */
	if (e->out.id == 0 || (!dir->names[NOW] && !e->we_say)) {
		rebase_set(w, e, to);
		return 0;
	}
	return aside_of(w, e, to);
}

/* 0: it has none. */
static int parent_of(struct rebasing *w, uint64_t dir, uint64_t *out)
{
	struct inode *i;
	const struct entry *e;
	char name[NAME_MAX_BYTES + 1];
	int rc = rebase_inode_get(w, dir, 0, &i);

	if (rc < 0)
		return rc;
	e = rebase_named(i);
	if (!e && !is_without_name(i) && !i->parent)
		rc = rebase_find(w, dir, w->r->parent(w->r->arg, dir), &i->parent, name);
	*out = e ? e->dir->id : is_without_name(i) ? 0 : i->parent;
	return rc;
}

static int lies_in_itself(struct rebasing *w, const struct entry *e, bool *out)
{
	uint64_t at = e->dir->id;
	int rc = 0;

	for (size_t n = 0; rc == 0 && n < DEPTH_MOST && at != 0 && at != ROOT_ID && at != e->out.id; n++)
		rc = parent_of(w, at, &at);
	*out = at == e->out.id;
	return rc;
}

/* Where we have moved a directory that was there before, and they have not. */
static bool we_moved_it(struct rebasing *w, const struct entry *e)
{
	return e->we_say && e->out.type == DT_DIR && e->out.id == e->ours.id && e->out.id != e->was.id &&
	       e->out.id != e->now.id && rebase_inode(w, e->out.id)->names[WAS];
}

/* Where they have a directory that we know elsewhere. */
static bool they_moved_it(struct rebasing *w, const struct entry *e)
{
	const struct inode *i = e->now.type == DT_DIR ? rebase_inode(w, e->now.id) : NULL;

	return i && i->id != e->was.id && i->id != e->ours.id && (i->names[WAS] || i->names[OURS]);
}

static int keep_tree(struct rebasing *w, struct entry *e)
{
	struct inode *moved = rebase_inode(w, e->out.id);
	bool in_itself = false;
	int rc = w->they_move && we_moved_it(w, e) ? lies_in_itself(w, e, &in_itself) : 0;

	if (rc < 0)
		return rc;
	if (in_itself)
		give_up(w, e);
	if (in_itself && !rebase_named(moved))
		return bring_back(w, moved);
	return e->out.id != 0 && is_without_name(e->dir) ? bring_back(w, e->dir) : 0;
}

/* ---- all of it ---- */

static int keep_all(struct rebasing *w)
{
	struct entry *e, *e_next;
	struct inode *i, *i_next;
	int rc = 0;

	HASH_ITER(hh, w->inodes, i, i_next) {
		if (rc == 0)
			rc = keep_inode(w, i);
	}
	HASH_ITER(hh, w->entries, e, e_next) {
		if (rc == 0)
			rc = keep_tree(w, e);
	}
	return rc;
}

int rebase_names(struct rebasing *w)
{
	struct entry *e, *e_next;
	struct inode *i, *i_next;
	int rc = 0;

	HASH_ITER(hh, w->entries, e, e_next) {
		w->they_move |= they_moved_it(w, e);
		decide(w, e);
	}
	HASH_ITER(hh, w->inodes, i, i_next)
		choose_name(w, i);
	do {
		w->changed = false;
		rc = keep_all(w);
	} while (rc == 0 && w->changed);
	return rc;
}
