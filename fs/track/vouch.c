/* SPDX-License-Identifier: Apache-2.0 */
/* vouch(): the three objections against moving the good moment.  The rules are in vouch.h. */
#include "fs/track/vouch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/track/vouch_set.h"

/* What is looked at, and the objection that lasts longest so far. */
struct judge {
	const struct vouch_input *in;
	const struct track_policy *p;
	uint64_t at_ns; /* the last instant at which the tree was as in N, or now */
	struct vouch_reason *why;
	uint64_t until_ns;
	bool short_of_memory;
};

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* Object until then.  Does nothing if it is over, or if another objection lasts longer. */
static void __attribute__((format(printf, 4, 5)))
object(struct judge *j, int objection, uint64_t until_ns, const char *fmt, ...)
{
	va_list args;

	if (until_ns <= j->at_ns || until_ns <= j->until_ns)
		return;
	j->until_ns = until_ns;
	j->why->objection = objection;
	va_start(args, fmt);
	(void)vsnprintf(j->why->text, sizeof(j->why->text), fmt, args); /* cut if long */
	va_end(args);
}

/* ---- 2: a set is growing ---- */

/* As seen from the root; the root itself is "". */
static const char *slash_of(const struct vouch_dir *d)
{
	return d->path[0] ? "/" : "";
}

/*
 * "step-1200/" for a directory; for a group its first file at N, and for a sibling that was
 * deleted the first it had.
 */
static void set_label(const struct vouch_set *s, char *out, size_t out_size)
{
	const struct vouch_item *shown = s->n ? s->items[0] : NULL;

	for (size_t i = 0; i < s->n && !vouch_is_at_n(shown); i++)
		shown = s->items[i];
	/* cut if long */
	(void)snprintf(out, out_size, "%s%s%s", s->dir->path, slash_of(s->dir),
		       s->group ? shown->e.name : "");
}

/* An objection of the lacking kind is renewed by each new member, but not for ever. */
static uint64_t renewed_until(const struct judge *j, const struct vouch_set *s, uint64_t wait_ns)
{
	return earlier(s->last_ns + wait_ns, s->first_ns + j->p->patience_most_ns);
}

/* With its sibling deleted a set with too few shards may be all that there is to resume from. */
static uint64_t shards_wait(const struct judge *j, const struct vouch_set *sibling)
{
	return vouch_is_gone(sibling) ? j->p->patience_ns : j->p->shard_wait_ns;
}

static void judge_against(struct judge *j, const struct vouch_set *s,
			  const struct vouch_set *sibling)
{
	struct vouch_lack lack = vouch_lacks(s, sibling, j->p);
	char mine[120], theirs[120], more[32] = "";

	set_label(s, mine, sizeof(mine));
	set_label(sibling, theirs, sizeof(theirs));
	if (lack.names > 1)
		(void)snprintf(more, sizeof(more), " and %zu more", lack.names - 1); /* fits */
	if (lack.name && s->group)
		object(j, 2, renewed_until(j, s, j->p->patience_ns),
		       "%s has nothing beside it like %.60s%s", mine, lack.name->e.name, more);
	else if (lack.name)
		object(j, 2, renewed_until(j, s, j->p->patience_ns),
		       "%s lacks %.60s%s that %s has", mine, lack.name->e.name, more, theirs);
	else if (lack.shard)
		object(j, 2, renewed_until(j, s, shards_wait(j, sibling)),
		       "%s has %zu of the %zu like %.60s that %s has", mine, lack.shards_have,
		       lack.shards_want, lack.shard->e.name, theirs);
}

static uint64_t settle_of(const struct judge *j)
{
	if (!j->in->notice_ns)
		return j->p->settle_ns;
	return earlier(j->p->settle_ns, j->in->notice_ns / 10);
}

/* A new file of a new shape: a file that is written over and over counts for two settles. */
static uint64_t settled_at(const struct judge *j, const struct vouch_entry *e)
{
	uint64_t settle_ns = settle_of(j);

	return later(e->gained_ns, earlier(e->sealed_ns, e->gained_ns + settle_ns)) + settle_ns;
}

/* Is there one of this fold in the set that the good moment had? */
static bool like_was_in_good(const struct vouch_set *s, const struct vouch_item *item)
{
	for (size_t i = 0; i < s->n; i++)
		if (vouch_was_in_good(s->items[i]) && strcmp(s->items[i]->fold, item->fold) == 0)
			return true;
	return false;
}

/* No older set to compare with: wait until its files have been left alone for a while. */
static void judge_by_time(struct judge *j, const struct vouch_set *s)
{
	uint64_t end_ns = s->first_ns + j->p->patience_ns;

	for (size_t i = 0; i < s->n; i++) {
		const struct vouch_entry *e = &s->items[i]->e;

		if (e->change != VOUCH_GAINED || e->is_dir)
			continue;
		if (s->group && s->stayed && like_was_in_good(s, s->items[i]))
			continue;
		object(j, 2, earlier(settled_at(j, e), end_ns),
		       "%.200s%s%.80s is new, and its set may still be growing", s->dir->path,
		       slash_of(s->dir), e->name);
	}
}

/* The groups of a directory: runs of items with one number.  Those without come first. */
static size_t cut_groups(const struct vouch_dir *d, const struct vouch_item *const *items, size_t n,
			 struct vouch_set *out)
{
	size_t groups = 0;

	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && vouch_same_number(items[from], items[to]); to++)
			;
		out[groups++] = vouch_set_of(d, items + from, to - from, items[from]->number);
	}
	return groups;
}

/* Only files make groups: a directory with a number is a set by itself. */
static size_t drop_dirs(const struct vouch_item **items, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!items[i]->e.is_dir)
			items[kept++] = items[i];
	return kept;
}

static void family_add_group(struct vouch_family *f, const struct vouch_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (i == 0 || strcmp(s->items[i]->fold, s->items[i - 1]->fold) != 0)
			f->kin[f->n++] = (struct vouch_kin){.like = s->items[i]->fold, .set = s};
}

static void judge_group(struct judge *j, const struct vouch_family *f, const struct vouch_set *s)
{
	const struct vouch_set *sibling = NULL;

	/* in a new directory numbers may count shards and ranks, so only what is proved is like */
	if (s->group && !s->stayed)
		sibling = vouch_sibling(f, s, s->dir->change == VOUCH_KEPT);
	if (sibling)
		judge_against(j, s, sibling);
	else
		judge_by_time(j, s);
}

/* A directory without a sibling: each group of its files, and those without a number together. */
static int judge_files(struct judge *j, const struct vouch_dir *d)
{
	scoped(free) const struct vouch_item **items = NULL;
	scoped(free) struct vouch_set *sets = NULL;
	struct vouch_family family = {.n = 0};
	scoped(free) struct vouch_kin *kin = NULL;
	size_t n, sets_n;
	int rc = vouch_items_sorted(d, true, &items, &n);

	if (rc < 0)
		return rc;
	n = drop_dirs(items, n);
	sets = calloc(n + 1, sizeof(*sets));
	kin = calloc(n + 1, sizeof(*kin));
	if (!sets || !kin)
		return -ENOMEM;
	sets_n = cut_groups(d, items, n, sets);
	family.kin = kin;
	for (size_t i = 0; i < sets_n; i++)
		if (sets[i].group)
			family_add_group(&family, &sets[i]);
	vouch_family_sort(&family);
	for (size_t i = 0; i < sets_n; i++)
		if (sets[i].gained)
			judge_group(j, &family, &sets[i]);
	return 0;
}

static int judge_dir(struct judge *j, const struct vouch_family *f, const struct vouch_set *s)
{
	const struct vouch_set *sibling = s->stayed ? NULL : vouch_sibling(f, s, true);

	if (sibling) {
		judge_against(j, s, sibling);
		return 0;
	}
	if (s->dir->change == VOUCH_GAINED)
		object(j, 2, s->dir->gained_ns + settle_of(j),
		       "%s/ is new and may still be growing", s->dir->path);
	return judge_files(j, s->dir);
}

/* Every directory as a set, whether it changed or is only there to be compared with. */
struct dir_sets {
	struct vouch_set *set;
	const struct vouch_item ***items;
	size_t n;
	struct vouch_family family;
};

static void dir_sets_fini(struct dir_sets *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->items[i]);
	free(d->items);
	free(d->set);
	free(d->family.kin);
}
SCOPE_VAL(struct dir_sets, dir_sets_fini)

static int dir_sets_init(struct dir_sets *d, const struct vouch_input *in)
{
	size_t items_n;
	int rc;

	d->set = calloc(in->dirs_n + 1, sizeof(*d->set));
	d->items = calloc(in->dirs_n + 1, sizeof(*d->items));
	d->family.kin = calloc(in->dirs_n + 1, sizeof(*d->family.kin));
	if (!d->set || !d->items || !d->family.kin)
		return -ENOMEM;
	for (; d->n < in->dirs_n; d->n++) {
		const struct vouch_dir *dir = in->dirs[d->n];

		rc = vouch_items_sorted(dir, false, &d->items[d->n], &items_n);
		if (rc < 0)
			return rc;
		d->set[d->n] = vouch_set_of(dir, d->items[d->n], items_n, false);
		d->family.kin[d->n] = (struct vouch_kin){.like = dir->like, .set = &d->set[d->n]};
	}
	d->family.n = d->n;
	vouch_family_sort(&d->family);
	return 0;
}

static void judge_growth(struct judge *j)
{
	scoped(dir_sets_fini) struct dir_sets dirs = {.n = 0};

	if (dir_sets_init(&dirs, j->in) < 0) {
		j->short_of_memory = true;
		return;
	}
	for (size_t i = 0; i < dirs.n; i++) {
		const struct vouch_set *s = &dirs.set[i];

		if (s->dir->change != VOUCH_LOST && s->gained &&
		    judge_dir(j, &dirs.family, s) < 0)
			j->short_of_memory = true;
	}
}

/* ---- 3: more was deleted than saved ---- */

struct balance {
	uint64_t gained, lost; /* bytes */
	uint64_t first_loss_ns, last_loss_ns;
	const struct vouch_dir *dir; /* of the largest loss */
	const struct vouch_entry *largest;
	uint64_t largest_bytes;
};

static void balance_lose(struct balance *b, const struct vouch_dir *d, const struct vouch_entry *e,
			 uint64_t bytes)
{
	if (bytes == 0)
		return;
	if (b->lost == 0 || e->lost_ns < b->first_loss_ns)
		b->first_loss_ns = e->lost_ns;
	if (b->lost == 0 || e->lost_ns > b->last_loss_ns)
		b->last_loss_ns = e->lost_ns;
	b->lost += bytes;
	if (bytes > b->largest_bytes) {
		b->largest_bytes = bytes;
		b->largest = e;
		b->dir = d;
	}
}

static void balance_add(struct balance *b, const struct vouch_dir *d, const struct vouch_entry *e)
{
	if (e->is_log || e->is_dir)
		return;
	if (e->change == VOUCH_GAINED || e->change == VOUCH_REWRITTEN)
		b->gained += e->size;
	if (e->change == VOUCH_LOST)
		balance_lose(b, d, e, e->size);
	if (e->change == VOUCH_REWRITTEN)
		balance_lose(b, d, e, e->old_size);
}

static void judge_loss(struct judge *j)
{
	const struct track_policy *p = j->p;
	struct balance b = {.lost = 0};
	uint64_t until_ns;

	for (size_t i = 0; i < j->in->dirs_n; i++)
		for (size_t k = 0; k < j->in->dirs[i]->items_n; k++)
			balance_add(&b, j->in->dirs[i], &j->in->dirs[i]->items[k].e);
	if (b.lost <= b.gained * p->loss_factor)
		return;
	until_ns = earlier(b.last_loss_ns + p->patience_ns, b.first_loss_ns + p->patience_most_ns);
	if (j->in->unsealed_growing)
		until_ns = b.last_loss_ns + p->patience_most_ns;
	object(j, 3, until_ns,
	       "%" PRIu64 " bytes were deleted and only %" PRIu64
	       " gained since the good moment (%.120s%s%.80s)",
	       b.lost, b.gained, b.dir->path, slash_of(b.dir), b.largest->name);
}

/* ---- the verdict ---- */

static enum vouch_verdict judge_quiet(const struct vouch_input *in, const struct track_policy *p,
				      uint64_t now_ns, struct vouch_reason *why)
{
	if (in->ack_ns && now_ns >= in->ack_ns + p->ack_wait_ns)
		return VOUCH_GOOD;
	why->objection = 1;
	why->again_ns = in->ack_ns ? in->ack_ns + p->ack_wait_ns : 0;
	if (in->holder && in->torn)
		(void)snprintf(why->text, sizeof(why->text), "%.255s: %.60s", in->holder, in->torn);
	else if (in->holder)
		(void)snprintf(why->text, sizeof(why->text), "%.300s is being written", in->holder);
	else
		(void)snprintf(why->text, sizeof(why->text), "files were changing");
	return VOUCH_NOT_YET;
}

static enum vouch_verdict no_memory(uint64_t now_ns, struct vouch_reason *why)
{
	*why = (struct vouch_reason){
		.objection = 2,
		.again_ns = now_ns + NS_PER_S,
		.text = "out of memory while comparing directories",
	};
	return VOUCH_NOT_YET;
}

enum vouch_verdict vouch(const struct vouch_input *in, const struct track_policy *p,
			 uint64_t now_ns, struct vouch_reason *why)
{
	struct judge j = {.in = in, .p = p, .at_ns = now_ns, .why = why};

	*why = (struct vouch_reason){.objection = 0};
	if (!in->quiet)
		return judge_quiet(in, p, now_ns, why);
	if (in->ack_ns)
		return VOUCH_GOOD;
	if (in->changed_ns)
		j.at_ns = earlier(now_ns, in->changed_ns);
	judge_growth(&j);
	judge_loss(&j);
	if (in->failed || j.short_of_memory)
		return no_memory(now_ns, why);
	if (!why->objection)
		return VOUCH_GOOD;
	/* once the tree has changed, waiting makes N no better: ask about a newer commit */
	why->again_ns = in->changed_ns ? 0 : j.until_ns;
	return VOUCH_NOT_YET;
}
