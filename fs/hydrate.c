/* SPDX-License-Identifier: Apache-2.0 */
/* Lazy restore: fetches into contents, for somebody who waits or ahead of the reader. */
#include "fs/hydrate.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fs/evict.h"
#include "fs/past.h"
#include "fs/room.h"
#include "fs/warm.h"

#define NEAR_BYTES (UINT64_C(8) << 20) /* a gap of less is no jump: frameworks hop over what they do not want */
#define SEQUENCE_BYTES (UINT64_C(2) << 20) /* read since a jump make a sequence */
#define START_BYTES (UINT64_C(64) << 10) /* or so many at once from the start: not only a header */
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
	bool keeps; /* into the content, or not at all */
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

/* Does anybody wait for it who cannot do without its being kept? */
static bool is_kept(struct hydration *h, uint64_t off, uint64_t end)
{
	bool kept = h->keeps;

	mount_lock(h->m);
	for (struct list *l = h->node->file->awaited.next; !kept && l != &h->node->file->awaited; l = l->next) {
		const struct awaited *w = awaited_of(l);

		kept = w->keeps && w->off < end && off < w->off + w->len;
	}
	mount_unlock(h->m);
	return kept;
}

static int keep(struct hydration *h, const uint8_t *data, size_t len, uint64_t off)
{
	int rc = content_fill(h->content, data, len, off);

	room_may_go(h->m);
	if (ballast_is_short(rc))
		past_disk_is_full(h->m);
	return rc;
}

static int deliver(struct fetch *x, struct fetch_item *i, const uint8_t *data, size_t len)
{
	struct hydration *h = x->arg;
	int rc = past_wanted(h->m) ? -ENOSPC : keep(h, data, len, i->off);

	if (!ballast_is_short(rc))
		return rc;
	if (is_kept(h, i->off, i->off + len))
		return keep(h, data, len, i->off);
	room_may_go(h->m);
	return past_put(h->m->past, i->extent, data, x->rank == FETCH_SOON);
}

/* What is gone from the store may be another version's by now, where a mount follows. */
static int failure_of(const struct fetch *x, int rc)
{
	const struct hydration *h = x->arg;

	if (ballast_is_short(rc) || rc == -EUCLEAN)
		return rc;
	return rc == -ENOENT && h->m->opts.read_only ? -ESTALE : -EIO;
}

/*
 * Under lock.  Those for whom all has come that they asked for, or failed to: nobody else is woken.  A range is
 * on its way for the node; who waits for it in another version looks again, and tries himself.
 */
static void wake_awaiting(struct node *n, const struct fetch *x, const struct fetch_item *i)
{
	const struct hydration *h = x->arg;
	uint64_t end = i->off + i->extent->length;
	struct list *l, *next;

	for (l = n->file->awaited.next; l != &n->file->awaited; l = next) {
		struct awaited *w = awaited_of(l);

		next = l->next;
		if (w->off >= end || w->off + w->len <= i->off)
			continue;
		/* After a prefetch that failed he tries himself, too. */
		if (i->rc < 0 && x->rank == FETCH_NOW && w->version == content_version(h->content))
			w->rc = failure_of(x, i->rc);
		if (!i->rc && !w->keeps && past_has(h->m->past, i->extent))
			past_hold(h->m->past, &w->held, i->extent);
		if (ranges_meets(&n->file->fetching, w->off, w->off + w->len))
			continue;
		list_remove(l);
		w->came(w);
	}
}

static void item_done(struct fetch *x, struct fetch_item *i)
{
	struct hydration *h = x->arg;

	mount_lock(h->m);
	(void)ranges_remove(&h->node->file->fetching, i->off, i->off + i->extent->length);
	wake_awaiting(h->node, x, i);
	mount_unlock(h->m);
}

static void fetch_done(struct fetch *x)
{
	struct hydration *h = x->arg;
	struct mount *m = h->m;

	if (x->rc < 0 && x->rank == FETCH_NOW && !ballast_is_short(x->rc) && x->rc != -EUCLEAN)
		log_error("read of inode %llx (%s): %s", (unsigned long long)h->node->id, node_name(h->node), x->fault.text);
	mount_lock(m);
	h->node->pins--;
	node_release(&m->nodes, h->node);
	mount_unlock(m);
	hydration_free(h);
}

/*
 * Leave out what is on its way, or has come since it was asked what is needed; note the rest as being
 * on its way.  Under lock: bytes are there before they cease to be on their way.
 */
static int claim(struct node *n, struct hydration *h)
{
	for (size_t i = 0; i < h->need.n; i++) {
		uint64_t off = h->need.offs[i], end = off + h->need.extents.v[i].length;

		if (ranges_meets(&n->file->fetching, off, end) || content_has(h->content, off, end) ||
		    (!h->keeps && past_has(h->m->past, &h->need.extents.v[i])))
			continue;
		if (ranges_add(&n->file->fetching, off, end) < 0)
			return -ENOMEM;
		h->fetch.items[h->fetch.n++] = (struct fetch_item){.extent = &h->need.extents.v[i], .off = off};
	}
	return 0;
}

/* Under lock.  False: all of it has come meanwhile. */
static bool await(struct node *n, const struct content *c, struct awaited *w, uint64_t off, uint64_t len)
{
	if (!ranges_meets(&n->file->fetching, off, off + len))
		return false;
	w->version = content_version(c);
	w->off = off;
	w->len = len;
	list_append(&n->file->awaited, &w->on);
	return true;
}

static int hydration_new(struct mount *m, struct node *n, struct content *c, struct need *need, enum fetch_rank rank,
			 bool keeps, struct hydration **out)
{
	struct hydration *h = calloc(1, sizeof(*h));
	int rc = h ? content_hold(c) : -ENOMEM;

	if (rc < 0) {
		free(h);
		return rc;
	}
	*h = (struct hydration){.m = m, .node = n, .content = content_ref(c), .need = *need, .keeps = keeps};
	*need = (struct need){.n = 0};
	h->fetch = (struct fetch){.items = calloc(h->need.n, sizeof(*h->fetch.items)), .rank = rank, .arg = h,
				  .deliver = deliver, .item_done = item_done, .done = fetch_done,
				  .deadline_ns = mount_now(m) + FETCH_DEADLINE_NS};
	if (!h->fetch.items) {
		hydration_free(h);
		return -ENOMEM;
	}
	*out = h;
	return 0;
}

/*
 * Starts fetching what of `need`, which it takes over, is not on its way.  -EAGAIN: w, where it is not NULL, is
 * told when [off, off+len) has come; 0: it has, or nobody waits.
 */
static int start(struct mount *m, struct node *n, struct content *c, struct need *need, enum fetch_rank rank, struct awaited *w,
		 uint64_t off, uint64_t len)
{
	struct hydration *h;
	bool fetches;
	int rc = hydration_new(m, n, c, need, rank, w && w->keeps, &h);

	if (rc < 0)
		return rc;
	mount_lock(m);
	rc = claim(n, h);
	fetches = h->fetch.n > 0;
	n->pins += fetches;
	if (rank == FETCH_NOW)
		warm_missed(m, n);
	if (rc == 0 && w && await(n, c, w, off, len))
		rc = -EAGAIN;
	mount_unlock(m);
	if (fetches)
		lanes_fetch(m->lanes, &h->fetch);
	else
		hydration_free(h);
	return rc;
}

static int ask(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write,
	       struct awaited *w)
{
	scoped(need_fini) struct need need = {.n = 0};
	int rc = content_needs(c, off, len, for_write, &need);

	if (rc < 0 || need.n == 0)
		return rc;
	if (w->rc < 0) {
		rc = w->rc;
		w->rc = 0;
		return rc;
	}
	return start(m, n, c, &need, FETCH_NOW, w, off, len);
}

int hydrate_start(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write,
		  struct awaited *w)
{
	w->keeps = for_write;
	return ask(m, n, c, off, len, for_write, w);
}

void hydrate_leave(struct awaited *w)
{
	list_remove(&w->on);
}

/* ---- waiting in a thread ---- */

struct sleeper {
	struct awaited awaited;
	pthread_cond_t woken;
	bool came;
};

static void wake_sleeper(struct awaited *w)
{
	struct sleeper *s = (struct sleeper *)w;

	s->came = true;
	pthread_cond_signal(&s->woken);
}

int hydrate(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write)
{
	struct sleeper s = {.awaited = {.came = wake_sleeper, .keeps = true}, .woken = PTHREAD_COND_INITIALIZER};
	int rc;

	while ((rc = ask(m, n, c, off, len, for_write, &s.awaited)) == -EAGAIN) {
		mount_lock(m);
		while (!s.came)
			pthread_cond_wait(&s.woken, &m->lock);
		s.came = false;
		mount_unlock(m);
	}
	(void)pthread_cond_destroy(&s.woken);
	return rc;
}

int hydrate_ahead(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, struct awaited *w)
{
	scoped(need_fini) struct need need = {.n = 0};
	int rc;

	if (m->flushing)
		return 0;
	if (past_wanted(m))
		return -ENOSPC;
	rc = content_needs(c, off, len, false, &need);
	return rc < 0 || need.n == 0 ? rc : start(m, n, c, &need, FETCH_SOON, w, off, len);
}

static bool is_near(const struct reading *r, uint64_t off)
{
	return r->bytes && off <= r->end + NEAR_BYTES && off + NEAR_BYTES >= r->end;
}

/* Where reading begins, or goes on after a jump. */
static struct reading reading_from(uint64_t off, uint64_t len)
{
	bool whole = off == 0 && len >= START_BYTES;

	return (struct reading){.end = off + len, .bytes = whole ? SEQUENCE_BYTES : len};
}

/* Several readers have to find room for theirs. */
static uint64_t window_most(const struct mount *m)
{
	uint64_t part = m->opts.cache_size / 8;

	return part && part < WINDOW_MOST ? part : WINDOW_MOST;
}

/* How far to prefetch from *from on; 0: not now. */
static uint64_t step(struct reading *r, uint64_t size, uint64_t most, uint64_t *from)
{
	if (r->bytes < SEQUENCE_BYTES)
		return 0;
	if (!r->window)
		r->window = WINDOW_LEAST < most ? WINDOW_LEAST : most;
	*from = r->ahead > r->end ? r->ahead : r->end;
	if (*from >= r->end + r->window / 2)
		return 0;
	r->ahead = r->end + r->window < size ? r->end + r->window : size;
	r->window = 2 * r->window < most ? 2 * r->window : most;
	return r->ahead;
}

int hydrate_wanted(const struct mount *m, const struct reading *r, struct ranges *out)
{
	uint64_t most = window_most(m), back = most < READ_AHEAD_BYTES ? most : READ_AHEAD_BYTES;
	uint64_t to = r->ahead > r->end ? r->ahead : r->end;

	/* What comes is behind `end` for a while: it was asked for by several at once. */
	return ranges_add(out, r->end > back ? r->end - back : 0, to);
}

void hydrate_window(struct mount *m, struct node *n, struct content *c, struct reading *r, uint64_t off, uint64_t len)
{
	uint64_t size, from = 0, to = 0;

	if (content_is_whole(c) && !evict_due(m)) /* nobody has to know */
		return;
	size = content_size(c);
	mount_lock(m);
	if (is_near(r, off)) {
		r->bytes += len;
		r->end = off + len > r->end ? off + len : r->end;
	} else {
		*r = reading_from(off, len);
	}
	to = step(r, size, window_most(m), &from);
	mount_unlock(m);
	if (to > from)
		(void)hydrate_ahead(m, n, c, from, to - from, NULL); /* a hint: the reader will ask again */
}
