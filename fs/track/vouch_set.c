/* SPDX-License-Identifier: Apache-2.0 */
/* Sets: which entries belong together, which older set is like them, and what they lack of it. */
#include "fs/track/vouch_set.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "fs/track/seal.h"

/* What a save leaves behind for moments only: nobody waits for the like of it in the next set. */
static bool is_temporary(const char *name)
{
	static const char *const patterns[] = {
		".tmp*", "tmp*", "*.tmp*", "*.partial", "*.part", "*.incomplete",
		"*.lock", "*.__lock", "*-unfinished", "*~",
	};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

/* By value, what has no number first. */
static int number_cmp(const struct vouch_item *a, const struct vouch_item *b)
{
	if (!a->number || !b->number)
		return (a->number != NULL) - (b->number != NULL);
	if (a->number_len != b->number_len)
		return a->number_len < b->number_len ? -1 : 1;
	return memcmp(a->number, b->number, a->number_len);
}

bool vouch_same_number(const struct vouch_item *a, const struct vouch_item *b)
{
	return number_cmp(a, b) == 0;
}

static int by_fold(const void *a, const void *b)
{
	const struct vouch_item *const *x = a, *const *y = b;

	return strcmp((*x)->fold, (*y)->fold);
}

static int by_number_and_fold(const void *a, const void *b)
{
	const struct vouch_item *const *x = a, *const *y = b;
	int order = number_cmp(*x, *y);

	return order ? order : by_fold(a, b);
}

int vouch_items_sorted(const struct vouch_dir *d, bool by_number, const struct vouch_item ***out,
		       size_t *out_n)
{
	const struct vouch_item **items = calloc(d->items_n + 1, sizeof(struct vouch_item *));
	size_t n = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < d->items_n; i++)
		if (!d->items[i].e.is_log)
			items[n++] = &d->items[i];
	qsort(items, n, sizeof(struct vouch_item *), by_number ? by_number_and_fold : by_fold);
	*out = items;
	*out_n = n;
	return 0;
}

static void set_gained(struct vouch_set *s, uint64_t gained_ns)
{
	if (!s->gained || gained_ns < s->first_ns)
		s->first_ns = gained_ns;
	if (!s->gained || gained_ns > s->last_ns)
		s->last_ns = gained_ns;
	s->gained = true;
}

struct vouch_set vouch_set_of(const struct vouch_dir *d, const struct vouch_item *const *items,
			      size_t n, bool group)
{
	struct vouch_set s = {.dir = d, .items = items, .n = n, .group = group};

	if (!group) {
		s.mtime_ns = d->mtime_ns;
		if (d->change == VOUCH_GAINED)
			set_gained(&s, d->gained_ns);
	}
	for (size_t i = 0; i < n; i++) {
		s.in_good |= vouch_was_in_good(items[i]);
		s.stayed |= vouch_was_in_good(items[i]) && vouch_is_at_n(items[i]);
		if (items[i]->e.change == VOUCH_GAINED)
			set_gained(&s, items[i]->e.gained_ns);
		if (group && items[i]->e.mtime_ns > s.mtime_ns)
			s.mtime_ns = items[i]->e.mtime_ns;
	}
	return s;
}

/* What stands for the set where two of them are of the same time. */
static const char *set_name(const struct vouch_set *s)
{
	return s->group ? s->items[0]->e.name : s->dir->path;
}

static bool set_newer(const struct vouch_set *a, const struct vouch_set *b)
{
	return vouch_newer(a->mtime_ns, set_name(a), b->mtime_ns, set_name(b));
}

/* Those of the good moment come before new ones, so that a search never walks over many. */
static int by_like_newest_first(const void *a, const void *b)
{
	const struct vouch_kin *x = a, *y = b;
	int order = strcmp(x->like, y->like);

	if (order)
		return order;
	if (x->set->in_good != y->set->in_good)
		return x->set->in_good ? -1 : 1;
	return (int)set_newer(y->set, x->set) - (int)set_newer(x->set, y->set);
}

void vouch_family_sort(struct vouch_family *f)
{
	if (f->n)
		qsort(f->kin, f->n, sizeof(f->kin[0]), by_like_newest_first);
}

/* The first of those with this like that the good moment had; else the first that is new. */
static const struct vouch_kin *family_find(const struct vouch_family *f, const char *like, bool in_good)
{
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		int order = strcmp(f->kin[mid].like, like);

		if (order < 0 || (order == 0 && f->kin[mid].set->in_good && !in_good))
			low = mid + 1;
		else
			high = mid;
	}
	return f->kin + low;
}

/* The newest two of several likes, and no set twice. */
enum { NEWEST = 2 };
struct newest {
	const struct vouch_set *set[NEWEST];
};

static void newest_offer(struct newest *best, const struct vouch_set *s)
{
	if (s == best->set[0] || s == best->set[1])
		return;
	if (!best->set[0] || set_newer(s, best->set[0])) {
		best->set[1] = best->set[0];
		best->set[0] = s;
	} else if (!best->set[1] || set_newer(s, best->set[1])) {
		best->set[1] = s;
	}
}

static void newest_with_like(const struct vouch_family *f, const struct vouch_set *s,
			     const char *like, bool in_good, struct newest *best)
{
	const struct vouch_kin *end = f->kin + f->n;
	size_t found = 0;

	for (const struct vouch_kin *k = family_find(f, like, in_good);
	     k < end && found < NEWEST && strcmp(k->like, like) == 0; k++) {
		if (k->set->in_good != in_good)
			break;
		if (k->set == s || k->set->n == 0)
			continue;
		found++;
		if (in_good || k->set->last_ns <= s->first_ns)
			newest_offer(best, k->set);
	}
}

/* A directory's siblings have its path folded, a group's share a folded name with it. */
static void newest_siblings(const struct vouch_family *f, const struct vouch_set *s, bool in_good,
			    struct newest *best)
{
	if (!s->group) {
		newest_with_like(f, s, s->dir->like, in_good, best);
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		if (i == 0 || strcmp(s->items[i]->fold, s->items[i - 1]->fold) != 0)
			newest_with_like(f, s, s->items[i]->fold, in_good, best);
}

static size_t distinct_names(const struct vouch_set *s)
{
	size_t names = 0;

	for (size_t i = 0; i < s->n; i++)
		names += i == 0 || strcmp(s->items[i]->fold, s->items[i - 1]->fold) != 0;
	return names;
}

static bool is_fuller(const struct vouch_set *a, const struct vouch_set *b)
{
	size_t a_names = distinct_names(a), b_names = distinct_names(b);

	return a_names == b_names ? a->n > b->n : a_names > b_names;
}

/*
 * The fullest directory like this one that was deleted since the good moment, if none as full is
 * left: a loop that deletes before it saves and crashed twice has only halves beside it.
 */
static const struct vouch_set *last_of_its_fullness(const struct vouch_family *f,
						    const struct vouch_set *s)
{
	const struct vouch_set *gone = NULL, *left = NULL;

	for (const struct vouch_kin *k = family_find(f, s->dir->like, true);
	     k < f->kin + f->n && strcmp(k->like, s->dir->like) == 0; k++) {
		const struct vouch_set **fullest = vouch_is_gone(k->set) ? &gone : &left;

		if (k->set != s && k->set->n > 0 && (!*fullest || is_fuller(k->set, *fullest)))
			*fullest = k->set;
	}
	return gone && (!left || is_fuller(gone, left)) ? gone : NULL;
}

static const struct vouch_set *fuller_of_newest(const struct vouch_family *f, const struct vouch_set *s,
						bool in_good)
{
	struct newest best = {.set = {NULL}};

	newest_siblings(f, s, in_good, &best);
	return best.set[1] && is_fuller(best.set[1], best.set[0]) ? best.set[1] : best.set[0];
}

const struct vouch_set *vouch_sibling(const struct vouch_family *f, const struct vouch_set *s,
				      bool among_new)
{
	const struct vouch_set *best = fuller_of_newest(f, s, true), *other;

	other = among_new ? fuller_of_newest(f, s, false) : NULL;
	if (other && (!best || is_fuller(other, best)))
		best = other;
	other = s->group ? NULL : last_of_its_fullness(f, s);
	return other && (!best || is_fuller(other, best)) ? other : best;
}

/* How many entries from `at` on have the fold of the first. */
static size_t run_length(const struct vouch_set *s, size_t at)
{
	size_t n = 1;

	while (at + n < s->n && strcmp(s->items[at]->fold, s->items[at + n]->fold) == 0)
		n++;
	return n;
}

/* How many of a fold are there at N, from *at on, which moves behind them. */
static size_t count_at_n(const struct vouch_set *s, size_t *at, const char *fold)
{
	size_t n = 0;
	int order;

	while (*at < s->n && (order = strcmp(s->items[*at]->fold, fold)) <= 0) {
		n += order == 0 && vouch_is_at_n(s->items[*at]);
		(*at)++;
	}
	return n;
}

bool vouch_is_gone(const struct vouch_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (vouch_is_at_n(s->items[i]))
			return false;
	return true;
}

struct vouch_lack vouch_lacks(const struct vouch_set *s, const struct vouch_set *sibling,
			      const struct track_policy *p)
{
	struct vouch_lack lack = {.name = NULL};
	size_t mine = 0, want;

	for (size_t i = 0; i < sibling->n; i += want) {
		const struct vouch_item *member = sibling->items[i];
		size_t have = count_at_n(s, &mine, member->fold);

		want = run_length(sibling, i);
		if (have >= want || is_temporary(member->e.name) ||
		    is_log_name(member->e.name, p))
			continue;
		if (have == 0) {
			lack.name = lack.name ? lack.name : member;
			lack.names++;
		} else if (!member->e.is_dir && !lack.shard) {
			lack.shard = member;
			lack.shards_have = have;
			lack.shards_want = want;
		}
	}
	return lack;
}
