/* SPDX-License-Identifier: Apache-2.0 */
/* See warm.h. */
#include "fs/warm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cond.h"
#include "base/log.h"
#include "fs/file.h"
#include "fs/hydrate.h"
#include "fs/park.h"
#include "fs/recent.h"

#define PIECE_BYTES (UINT64_C(8) << 20)
#define AT_ONCE_BYTES (4 * PIECE_BYTES)  /* keeps 200 MB/s busy, and is through in a moment when a reader comes */
#define SAVE_BYTES (UINT64_C(8) << 20)   /* that wait to be sent: somebody saves */
#define MOST_BYTES (UINT64_C(256) << 30) /* their extents take tens of megabytes of memory */
#define MOST_FILES 8192
#define LOOK_DEADLINE_MS (60 * 1000)
#define LOOK_AGAIN_NS (50 * NS_PER_MS) /* whether readers still wait */

enum phase { LOOKING, FETCHING, ENDED };

struct file_at {
	struct recent_file file;
	uint64_t at; /* asked for up to here */
	bool done;
};

struct warmer {
	/* fixed */
	struct mount *m;
	pthread_t thread;
	/* any thread */
	_Atomic bool stop;
	/* the thread's; `plan` itself is fixed once it fetches */
	struct file_at *plan;
	size_t n;
	/* under the mount's lock */
	pthread_cond_t wake;
	enum phase phase;
	char why[160];     /* "": goes on, or is through */
	uint64_t dir;      /* where a reader waits; 0: nowhere yet */
	uint64_t in_flight; /* bytes */
	uint64_t files, bytes;
};

/* Bytes of one file on their way. */
struct piece {
	struct awaited awaited;
	struct warmer *w;
	struct content *content;
};

/* ---- the end ---- */

/* Under lock. */
static void give_up(struct warmer *w, const char *why)
{
	if (!w->why[0])
		(void)snprintf(w->why, sizeof(w->why), "%s", why);
	w->stop = true;
	pthread_cond_signal(&w->wake);
}

static void give_up_locking(struct warmer *w, const char *why)
{
	mount_lock(w->m);
	give_up(w, why);
	mount_unlock(w->m);
}

void warm_stop(struct mount *m)
{
	if (m->warmer)
		give_up_locking(m->warmer, "the mount ends");
}

/* ---- what is fetched ---- */

static uint64_t budget(struct mount *m)
{
	uint64_t most = m->opts.cache_size / 2, has = content_dir_bytes(m->contents), free_bytes = 0;
	struct statvfs st;

	if (fstatvfs(m->cache_fd, &st) == 0)
		free_bytes = (uint64_t)st.f_bavail * st.f_frsize / 2;
	most = most > has ? most - has : 0;
	most = most < free_bytes ? most : free_bytes;
	return most < MOST_BYTES ? most : MOST_BYTES;
}

/* What does not fit is left out; a smaller one behind it may. */
static int make_plan(struct warmer *w, const struct recent *r)
{
	uint64_t left = budget(w->m);

	w->plan = calloc(r->n + 1, sizeof(*w->plan));
	if (!w->plan)
		return -ENOMEM;
	for (size_t i = 0; i < r->n && w->n < MOST_FILES; i++) {
		if (r->v[i].size > left)
			continue;
		left -= r->v[i].size;
		w->plan[w->n++].file = r->v[i];
	}
	return 0;
}

static int look(struct warmer *w, struct fault *f)
{
	struct mount *m = w->m;
	scoped(recent_fini) struct recent found = {.v = NULL};
	scoped(state_unref) struct state *st = NULL;
	struct block_source src;
	int rc;

	mount_lock(m);
	st = state_ref(m->state);
	mount_unlock(m);
	lanes_block_source(m->lanes, LOOK_DEADLINE_MS, &src);
	rc = recent_find(st, &src, &w->stop, &found, f);
	return rc < 0 ? rc : make_plan(w, &found);
}

/* The next file: where a reader waits, else the newest.  Under lock. */
static struct file_at *next_file(struct warmer *w)
{
	struct file_at *first = NULL;

	for (size_t i = 0; i < w->n; i++) {
		if (w->plan[i].done)
			continue;
		if (w->plan[i].file.dir == w->dir)
			return &w->plan[i];
		if (!first)
			first = &w->plan[i];
	}
	return first;
}

void warm_missed(const struct mount *m, const struct node *n)
{
	struct warmer *w = m->warmer;

	if (!w || w->phase != FETCHING || n->name_dir == w->dir)
		return;
	for (size_t i = 0; i < w->n; i++) {
		if (w->plan[i].file.dir == n->name_dir) {
			w->dir = n->name_dir;
			return;
		}
	}
	give_up(w, "a reader wants other files");
}

/* ---- fetching ---- */

/* Under lock. */
static void came(struct awaited *a)
{
	struct piece *p = (struct piece *)a;
	struct warmer *w = p->w;

	w->in_flight -= a->len;
	if (content_has(p->content, a->off, a->off + a->len))
		w->bytes += a->len;
	else
		give_up(w, "what was asked for did not come");
	pthread_cond_signal(&w->wake);
	content_unref(p->content);
	free(p);
}

static void ask(struct warmer *w, struct node *n, struct content *c, uint64_t off, uint64_t len)
{
	struct piece *p = malloc(sizeof(*p));

	if (!p)
		return; /* a hint, as all of this */
	*p = (struct piece){.awaited = {.came = came, .off = off, .len = len}, .w = w, .content = content_ref(c)};
	mount_lock(w->m);
	w->in_flight += len;
	mount_unlock(w->m);
	if (hydrate_ahead(w->m, n, c, off, len, &p->awaited) == -EAGAIN)
		return;
	mount_lock(w->m);
	w->in_flight -= len;
	mount_unlock(w->m);
	content_unref(p->content);
	free(p);
}

static bool has_chunks(const struct extents *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].kind == EXTENT_CHUNK)
			return true;
	return false;
}

/* Under lock: its content, and the node pinned.  1; 0: there is nothing to fetch for it. */
static int content_of(struct mount *m, const struct recent_file *x, struct node **out, struct content **c)
{
	struct node *n = node_find(&m->nodes, x->id);
	struct note w = NOTE_EMPTY;
	int rc;

	if (!n || !n->file || n->newer || n->file->changed || !n->names || (!n->file->live && !has_chunks(&n->file->stored)))
		return 0;
	rc = file_content(m, n, &w);
	if (rc == 0)
		rc = note_done(m, &w);
	buf_fini(&w.entries);
	if (rc < 0)
		return rc;
	n->pins++;
	n->file->used_ns = mount_now(m);
	*out = n;
	*c = content_ref(n->file->live);
	return 1;
}

static void let_go(struct mount *m, struct node *n)
{
	mount_lock(m);
	n->pins--;
	if (!n->opens)
		content_rest(n->file->live);
	node_release(&m->nodes, n);
	mount_unlock(m);
}

/* The next piece of a file.  What is no more, or changes, is passed over. */
static int fetch(struct warmer *w, struct file_at *x, struct fault *f)
{
	struct mount *m = w->m;
	scoped(content_unref) struct content *c = NULL;
	struct node *n = NULL;
	uint64_t size, len;
	int rc = load_node(m, x->file.home, x->file.id, f);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	mount_lock(m);
	rc = content_of(m, &x->file, &n, &c);
	if (rc == 0)
		node_release(&m->nodes, node_find(&m->nodes, x->file.id));
	mount_unlock(m);
	if (rc <= 0) {
		x->done = true;
		return rc;
	}
	size = content_is_whole(c) ? 0 : content_size(c);
	len = x->at < size ? size - x->at : 0;
	len = len < PIECE_BYTES ? len : PIECE_BYTES;
	if (len)
		ask(w, n, c, x->at, len);
	x->at += len;
	x->done = x->at >= size;
	let_go(m, n);
	return 0;
}

/* Reasons to end that nobody tells us of. */
static const char *sign(const struct mount *m)
{
	struct lanes_counts l;

	if (m->flushing)
		return "a notice runs";
	lanes_counts(m->lanes, &l);
	if (l.queued_bytes > SAVE_BYTES)
		return "somebody saves";
	return atomic_load(&m->room) != ROOM_FREE ? "the cache is full" : NULL;
}

/* Under lock. */
static bool may_ask(struct warmer *w)
{
	const char *why = sign(w->m);

	if (why)
		give_up(w, why);
	return w->in_flight + PIECE_BYTES <= AT_ONCE_BYTES && !park_counts(w->m).for_bytes;
}

/* Until one more piece may be asked for.  NULL: none is left, or it is to end. */
static struct file_at *wait_for_turn(struct warmer *w)
{
	struct mount *m = w->m;
	struct file_at *next;

	mount_lock(m);
	while (!may_ask(w) && !w->stop)
		(void)cond_wait_until(&w->wake, &m->lock, mount_now(m) + LOOK_AGAIN_NS);
	next = w->stop ? NULL : next_file(w);
	mount_unlock(m);
	return next;
}

static int fetch_all(struct warmer *w, struct fault *f)
{
	struct file_at *x;
	int rc = 0;

	while (rc == 0 && (x = wait_for_turn(w))) {
		rc = fetch(w, x, f);
		mount_lock(w->m);
		w->files += x->done && x->at;
		mount_unlock(w->m);
	}
	return rc;
}

/* ---- the thread ---- */

static void enter(struct warmer *w, enum phase phase)
{
	mount_lock(w->m);
	w->phase = phase;
	mount_unlock(w->m);
}

static void *warm_main(void *arg)
{
	struct warmer *w = arg;
	struct mount *m = w->m;
	struct fault f = FAULT_NONE;
	struct warm_status is;
	int rc = look(w, &f);

	if (rc == 0) {
		enter(w, FETCHING);
		rc = fetch_all(w, &f);
	}
	if (rc < 0)
		give_up_locking(w, f.code ? f.text : strerror(-rc));
	mount_lock(m);
	while (w->in_flight) /* ends with the lanes at the latest */
		pthread_cond_wait(&w->wake, &m->lock);
	w->phase = ENDED;
	mount_unlock(m);
	warm_status(m, &is);
	log_debug("%s: of the newest files %llu bytes came before they were read; %s%s%s", m->opts.uri,
		  (unsigned long long)is.bytes, is.what, is.why[0] ? ": " : "", is.why);
	return NULL;
}

int warm_run(struct mount *m, struct fault *f)
{
	struct warmer *w;
	int rc;

	if (m->opts.warm != WARM_NEWEST)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fault_errno(f, -ENOMEM, "thread for new files");
	w->m = m;
	cond_init(&w->wake);
	m->warmer = w;
	rc = -pthread_create(&w->thread, NULL, warm_main, w);
	if (rc == 0)
		return 0;
	m->warmer = NULL;
	free(w);
	return fault_errno(f, rc, "thread for new files");
}

void warm_free(struct mount *m)
{
	struct warmer *w = m->warmer;

	if (!w)
		return;
	warm_stop(m);
	(void)pthread_join(w->thread, NULL);
	m->warmer = NULL;
	(void)pthread_cond_destroy(&w->wake);
	free(w->plan);
	free(w);
}

void warm_status(struct mount *m, struct warm_status *out)
{
	static const char *const phases[] = {[LOOKING] = "looking", [FETCHING] = "fetching", [ENDED] = "done"};
	const struct warmer *w = m->warmer;

	*out = (struct warm_status){.what = "off"};
	if (!w)
		return;
	mount_lock(m);
	out->what = w->why[0] ? "stopped" : phases[w->phase];
	memcpy(out->why, w->why, sizeof(out->why));
	out->files = w->files;
	out->bytes = w->bytes;
	mount_unlock(m);
}
