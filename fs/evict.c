/* SPDX-License-Identifier: Apache-2.0 */
/* See evict.h. */
#include "fs/evict.h"

#include "fs/file.h"

bool evict_over(const struct mount *m)
{
	return m->opts.cache_size && content_dir_bytes(m->contents) > m->opts.cache_size;
}

static bool may_go(const struct node *n)
{
	const struct file *f = n->file;

	return f && f->live && !f->changed && !n->opens && !n->pins && !f->writing && !f->streaming && !f->fetching.n &&
	       content_size(f->live) && !list_on(&n->dirty);
}

struct candidate {
	uint64_t id, used_ns;
};

static int oldest_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* All that may go, oldest first: looked for once, however many go. */
static size_t candidates(struct mount *m, struct candidate **out)
{
	size_t n = 0;

	mount_lock(m);
	*out = calloc(HASH_COUNT(m->nodes.by_id), sizeof(**out));
	for (const struct node *x = m->nodes.by_id; *out && x; x = x->hh.next)
		if (may_go(x))
			(*out)[n++] = (struct candidate){.id = x->id, .used_ns = x->file->used_ns};
	mount_unlock(m);
	if (n)
		qsort(*out, n, sizeof(**out), oldest_first);
	return n;
}

/* Unless it was used meanwhile. */
static void evict(struct mount *m, const struct candidate *c)
{
	scoped(content_unref) struct content *old = NULL; /* deleted without the lock */
	struct node *n;

	mount_lock(m);
	n = node_find(&m->nodes, c->id);
	if (n && may_go(n) && n->file->used_ns == c->used_ns) {
		old = take(&n->file->live);
		node_release(&m->nodes, n);
	}
	mount_unlock(m);
}

void evict_to_size(struct mount *m)
{
	scoped(free) struct candidate *all = NULL;
	size_t n = evict_over(m) ? candidates(m, &all) : 0;

	for (size_t i = 0; i < n && evict_over(m); i++)
		evict(m, &all[i]);
}

bool evict_some(struct mount *m, uint64_t bytes)
{
	scoped(free) struct candidate *all = NULL;
	uint64_t before = content_dir_bytes(m->contents), now = before;
	size_t n = candidates(m, &all);

	for (size_t i = 0; i < n && now + bytes > before; i++) {
		evict(m, &all[i]);
		now = content_dir_bytes(m->contents);
	}
	return now < before;
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
