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

/* Under lock.  False: nothing may go. */
static bool evict_oldest(struct mount *m)
{
	struct node *oldest = NULL;

	for (struct node *n = m->nodes.by_id; n; n = n->hh.next)
		if (may_go(n) && (!oldest || n->file->used_ns < oldest->file->used_ns))
			oldest = n;
	if (!oldest)
		return false;
	content_unref(take(&oldest->file->live));
	node_release(&m->nodes, oldest);
	return true;
}

void evict_to_size(struct mount *m)
{
	bool more = true;

	while (more && is_over(m)) {
		mount_lock(m);
		more = evict_oldest(m);
		mount_unlock(m);
	}
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
