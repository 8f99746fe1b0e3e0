/* SPDX-License-Identifier: Apache-2.0 */
/* See evict.h. */
#include "fs/evict.h"

#include "fs/cache/map.h"
#include "fs/file.h"

#define BATCH      64 /* chunks looked at with the lock held */
#define SLACK_PART 16
#define SLACK_MOST (UINT64_C(64) << 20)

bool evict_over(const struct mount *m)
{
	return m->opts.cache_size && content_dir_bytes(m->contents) > m->opts.cache_size;
}

/* What is kept free, so that bytes which are read have room at once. */
static uint64_t target(const struct mount *m)
{
	uint64_t slack = m->opts.cache_size / SLACK_PART;

	return m->opts.cache_size - (slack < SLACK_MOST ? slack : SLACK_MOST);
}

bool evict_due(const struct mount *m)
{
	return m->opts.cache_size && content_dir_bytes(m->contents) > target(m);
}

/* ---- what may go, under lock ---- */

static bool may_go(const struct node *n)
{
	const struct file *f = n->file;

	return f && f->live && !f->changed && !n->opens && !n->pins && !f->writing &&
	       !f->streaming && !f->fetching.n && content_size(f->live) && !list_on(&n->dirty);
}

/* In part, though somebody reads it: the state that is shown has it, so it can be fetched again at any time. */
static bool may_shrink(const struct node *n)
{
	const struct file *f = n->file;

	return f && f->live && !f->changed && !f->writing && !f->streaming && !list_on(&n->dirty) &&
	       n->names && n->links && !n->newer && content_bytes(f->live);
}

struct candidate {
	uint64_t id, used_ns;
	bool open;
};

/* Those that nobody reads go first. */
static int oldest_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->open != y->open)
		return x->open ? 1 : -1;
	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* All that may go, oldest first: looked for once, however many go. */
static size_t candidates(struct mount *m, struct candidate **out)
{
	size_t n = 0;

	mount_lock(m);
	*out = calloc(HASH_COUNT(m->nodes.by_id), sizeof(**out));
	for (const struct node *x = m->nodes.by_id; *out && x; x = x->hh.next)
		if (may_go(x) || may_shrink(x))
			(*out)[n++] = (struct candidate){.id = x->id,
							 .used_ns = x->file->used_ns,
							 .open = !may_go(x)};
	mount_unlock(m);
	if (n)
		qsort(*out, n, sizeof(**out), oldest_first);
	return n;
}

/* ---- a whole file ---- */

/* All of it, unless that is more than `most` or it was used meanwhile. */
static bool drop(struct mount *m, const struct candidate *c, uint64_t most)
{
	scoped(content_unref) struct content *old = NULL; /* deleted without the lock */
	struct node *n;

	mount_lock(m);
	n = node_find(&m->nodes, c->id);
	if (n && may_go(n) && n->file->used_ns == c->used_ns &&
	    content_bytes(n->file->live) <= most) {
		old = take(&n->file->live);
		node_release(&m->nodes, n);
	}
	mount_unlock(m);
	return old;
}

/* ---- a part of one ---- */

/* What those who read it want next, or are about to be given. */
static int wanted(const struct mount *m, const struct node *n, struct ranges *out)
{
	int rc = 0;

	for (const struct list *l = m->nodes.handles.next; rc == 0 && l != &m->nodes.handles;
	     l = l->next) {
		const struct handle *h =
			(const struct handle *)((const char *)l - offsetof(struct handle, open));

		if (h->node == n)
			rc = hydrate_wanted(m, &h->reading, out);
	}
	for (struct list *l = n->file->awaited.next; rc == 0 && l != &n->file->awaited; l = l->next)
		rc = ranges_add(out, awaited_of(l)->off, awaited_of(l)->off + awaited_of(l)->len);
	return rc;
}

/* Where the next look at a file's extents begins, and how many are left of one round. */
struct round {
	size_t left;
	bool began;
};

/* The next chunks that may go, from where the last ones were on, round and round: oldest first, if it is read in order. */
static size_t choose(const struct file *f, const struct ranges *spared, struct round *round,
		     uint64_t most, uint64_t *hand, struct map_entry out[BATCH])
{
	uint64_t off = 0, sum = 0;
	size_t i = 0, n = 0;

	while (i < f->stored.n && off < *hand)
		off += f->stored.v[i++].length;
	for (size_t looked = 0; round->left && looked < BATCH && sum < most;
	     looked++, round->left--) {
		if (i >= f->stored.n) {
			i = off = 0;
			if (n) /* sorted, so the rest comes next time */
				break;
		}
		if (f->stored.v[i].kind == EXTENT_CHUNK &&
		    !ranges_meets(spared, off, off + f->stored.v[i].length)) {
			out[n++] = (struct map_entry){.off = off, .e = f->stored.v[i]};
			sum += f->stored.v[i].length;
		}
		off += f->stored.v[i++].length;
	}
	*hand = off;
	return n;
}

/* Under lock.  The next of it that nobody wants; NULL: there is no more, or it may not. */
static struct content *give_up_some(struct mount *m, struct node *n, struct round *round,
				    uint64_t most)
{
	scoped(ranges_fini) struct ranges spared = RANGES_EMPTY;
	struct map_entry v[BATCH];
	struct file *f = n->file;
	size_t count;

	if (!may_shrink(n) || wanted(m, n, &spared) < 0)
		return NULL;
	if (!round->began)
		*round = (struct round){.left = f->stored.n, .began = true};
	if (!round->left)
		return NULL;
	count = choose(f, &spared, round, most, &f->hand, v);
	return content_give_up(f->live, v, count) < 0 ? NULL : content_ref(f->live);
}

static void shrink(struct mount *m, const struct candidate *c, uint64_t down_to)
{
	struct round round = {.began = false};
	bool goes_on = true;

	while (goes_on) {
		scoped(content_unref) struct content *content = NULL;
		uint64_t now = content_dir_bytes(m->contents);
		struct node *n;

		if (now <= down_to)
			return;
		mount_lock(m);
		n = node_find(&m->nodes, c->id);
		content = n ? give_up_some(m, n, &round, now - down_to) : NULL;
		mount_unlock(m);
		goes_on = content && content_punch(content) == 0;
	}
}

/* ---- as much as must go ---- */

static bool is_over(const struct mount *m, uint64_t bytes)
{
	return content_dir_bytes(m->contents) > bytes;
}

static void evict(struct mount *m, const struct candidate *c, uint64_t down_to)
{
	uint64_t now = content_dir_bytes(m->contents);

	if (!c->open && now > down_to && drop(m, c, now - down_to))
		return;
	shrink(m, c, down_to);
	if (!c->open && is_over(m, down_to)) /* what is left of it cannot go in part */
		(void)drop(m, c, UINT64_MAX);
}

static void evict_down_to(struct mount *m, uint64_t bytes)
{
	scoped(free) struct candidate *all = NULL;
	size_t n = candidates(m, &all);

	for (size_t i = 0; i < n && is_over(m, bytes); i++)
		evict(m, &all[i], bytes);
}

void evict_to_size(struct mount *m)
{
	if (evict_due(m))
		evict_down_to(m, target(m));
}

bool evict_some(struct mount *m, uint64_t bytes)
{
	uint64_t before = content_dir_bytes(m->contents);

	evict_down_to(m, before > bytes ? before - bytes : 0);
	return content_dir_bytes(m->contents) < before;
}

bool evict_will_help(const struct mount *m)
{
	uint64_t now = mount_now(m);

	for (const struct node *n = m->nodes.by_id; n; n = n->hh.next)
		if (n->file && n->file->live && n->file->changed && !n->opens && n->names &&
		    content_size(n->file->live) && file_is_sealed(m, n, now))
			return true;
	return false;
}
