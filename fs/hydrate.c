/* SPDX-License-Identifier: Apache-2.0 */
/* Lazy restore: fetches into contents, waited for or ahead of the reader. */
#include "fs/hydrate.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* Ahead of a sequential reader.  Half of the most keeps all connections of four lanes at work. */
#define WINDOW_LEAST (UINT64_C(4) << 20)
#define WINDOW_MOST (UINT64_C(128) << 20)
#define FETCH_DEADLINE_NS (120 * NS_PER_S)

/* One fetch of several chunks of one content. */
struct hydration {
	struct fetch fetch;
	struct mount *m;
	struct node *node; /* pinned: its last range may have come before the fetch is done */
	struct content *content;
	struct need need;
	bool waited; /* by the thread that started it, which then frees it */
	bool done;   /* under lock */
};

static void hydration_free(struct hydration *h)
{
	if (!h)
		return;
	content_unhold(h->content);
	content_unref(h->content);
	need_fini(&h->need);
	free(h->fetch.items);
	free(h);
}

static int deliver(struct fetch *x, struct fetch_item *i, const uint8_t *data, size_t len)
{
	struct hydration *h = x->arg;

	return content_fill(h->content, data, len, i->off);
}

static void item_done(struct fetch *x, struct fetch_item *i)
{
	struct hydration *h = x->arg;

	mount_lock(h->m);
	(void)ranges_remove(&h->node->file->fetching, i->off, i->off + i->extent->length);
	pthread_cond_broadcast(&h->m->arrived);
	mount_unlock(h->m);
}

static void fetch_done(struct fetch *x)
{
	struct hydration *h = x->arg;
	struct mount *m = h->m;
	bool waited;

	mount_lock(m);
	h->node->pins--;
	node_release(&m->nodes, h->node);
	waited = h->waited;
	h->done = true;
	pthread_cond_broadcast(&m->arrived);
	mount_unlock(m);
	if (!waited)
		hydration_free(h);
}

/*
 * Leave out what is on its way, or has come since it was asked what is needed; note the rest as being
 * on its way.  Under lock: bytes are there before they cease to be on their way.
 */
static size_t claim(struct node *n, struct hydration *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->need.n; i++) {
		uint64_t off = h->need.offs[i], end = off + h->need.extents.v[i].length;

		if (ranges_meets(&n->file->fetching, off, end) || content_has(h->content, off, end))
			continue;
		if (ranges_add(&n->file->fetching, off, end) < 0)
			break;
		h->fetch.items[kept++] = (struct fetch_item){.extent = &h->need.extents.v[i], .off = off};
	}
	return kept;
}

/* Starts fetching what of `need` is not on its way.  *out: the hydration to wait for, or NULL.  Takes need over. */
static int start(struct mount *m, struct node *n, struct content *c, struct need *need, enum fetch_rank rank, bool wait,
		 struct hydration **out)
{
	struct hydration *h = calloc(1, sizeof(*h));
	int rc = h ? content_hold(c) : -ENOMEM;

	*out = NULL;
	if (rc < 0) {
		free(h);
		return rc;
	}
	*h = (struct hydration){.m = m, .node = n, .content = content_ref(c), .need = *need, .waited = wait};
	*need = (struct need){.n = 0};
	h->fetch = (struct fetch){.items = calloc(h->need.n, sizeof(*h->fetch.items)), .rank = rank, .arg = h,
				  .deliver = deliver, .item_done = item_done, .done = fetch_done,
				  .deadline_ns = mount_now(m) + FETCH_DEADLINE_NS};
	if (!h->fetch.items) {
		hydration_free(h);
		return -ENOMEM;
	}
	mount_lock(m);
	h->fetch.n = claim(n, h);
	n->pins += h->fetch.n > 0;
	mount_unlock(m);
	if (h->fetch.n == 0) {
		hydration_free(h);
		return 0;
	}
	*out = h;
	lanes_fetch(m->lanes, &h->fetch);
	return 0;
}

static int wait_for(struct mount *m, struct node *n, struct hydration *h, uint64_t off, uint64_t len)
{
	int rc = 0;

	mount_lock(m);
	if (h) {
		while (!h->done)
			pthread_cond_wait(&m->arrived, &m->lock);
		rc = h->fetch.rc;
	} else { /* somebody else fetches it; if that fails we try ourselves */
		while (ranges_meets(&n->file->fetching, off, off + len))
			pthread_cond_wait(&m->arrived, &m->lock);
	}
	mount_unlock(m);
	if (rc < 0)
		log_error("read of inode %llx (%s): %s", (unsigned long long)n->id, node_name(n),
			  h->fetch.fault.text);
	return rc < 0 ? -EIO : 0;
}

int hydrate(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write)
{
	for (;;) {
		scoped(need_fini) struct need need = {.n = 0};
		struct hydration *h;
		int rc = content_needs(c, off, len, for_write, &need);

		if (rc < 0 || need.n == 0)
			return rc;
		rc = start(m, n, c, &need, FETCH_NOW, true, &h);
		if (rc < 0)
			return rc;
		rc = wait_for(m, n, h, off, len);
		hydration_free(h);
		if (rc < 0)
			return rc;
	}
}

void hydrate_ahead(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len)
{
	scoped(need_fini) struct need need = {.n = 0};
	struct hydration *h;

	if (content_needs(c, off, len, false, &need) < 0 || need.n == 0)
		return;
	(void)start(m, n, c, &need, FETCH_SOON, false, &h); /* a hint: the reader will ask again */
}

static bool is_near(const struct reading *r, uint64_t off)
{
	return off <= r->end + READ_AHEAD_BYTES && off + READ_AHEAD_BYTES >= r->end;
}

/* How far to prefetch from *from on; 0: not now. */
static uint64_t step(struct reading *r, uint64_t end, uint64_t size, uint64_t *from)
{
	if (end > r->end)
		r->end = end;
	if (!r->window)
		r->window = WINDOW_LEAST;
	*from = r->ahead > r->end ? r->ahead : r->end;
	if (*from >= r->end + r->window / 2)
		return 0;
	r->ahead = r->end + r->window < size ? r->end + r->window : size;
	if (r->window < WINDOW_MOST)
		r->window *= 2;
	return r->ahead;
}

void hydrate_window(struct mount *m, struct node *n, struct content *c, struct reading *r, uint64_t off, uint64_t len)
{
	uint64_t size, from = 0, to = 0;

	if (content_is_whole(c))
		return;
	size = content_size(c);
	mount_lock(m);
	if (is_near(r, off))
		to = step(r, off + len, size, &from);
	else
		*r = (struct reading){.end = off + len}; /* a jump: what was asked for comes, nothing more is */
	mount_unlock(m);
	if (to > from)
		hydrate_ahead(m, n, c, from, to - from);
}
