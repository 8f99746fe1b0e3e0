/* SPDX-License-Identifier: Apache-2.0 */
/* See evict.h. */
#include "fs/evict.h"

#include <time.h>

#include "fs/file.h"

#define WAIT_MS 200

static bool is_over(const struct mount *m)
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
	size_t n = is_over(m) ? candidates(m, &all) : 0;

	for (size_t i = 0; i < n && is_over(m); i++)
		evict(m, &all[i]);
}

/* Is there a closed and finished file whose commit will make it droppable?  Under lock. */
static bool more_will_go(const struct mount *m)
{
	uint64_t now = mount_now(m);

	for (const struct node *n = m->nodes.by_id; n; n = n->hh.next)
		if (n->file && n->file->live && n->file->changed && !n->opens && n->names &&
		    content_size(n->file->live) && file_is_sealed(m, n, now))
			return true;
	return false;
}

void evict_wait_room(struct mount *m)
{
	while (is_over(m) && !m->read_only) {
		struct timespec at;
		bool wait;

		evict_to_size(m);
		mount_lock(m);
		wait = is_over(m) && more_will_go(m);
		if (wait) {
			(void)clock_gettime(CLOCK_REALTIME, &at);
			at.tv_nsec += WAIT_MS * 1000000;
			if (at.tv_nsec >= 1000000000) {
				at.tv_sec++;
				at.tv_nsec -= 1000000000;
			}
			m->room_wanted++; /* the committer then takes a moment that is not quiet */
			(void)pthread_cond_timedwait(&m->arrived, &m->lock, &at);
			m->room_wanted--;
		}
		mount_unlock(m);
		if (!wait)
			return;
	}
}
