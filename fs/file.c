/* SPDX-License-Identifier: Apache-2.0 */
/* Regular files.  The state of one, and what closes, is fs/file.h's and fs/track/seal.h's matter. */
#include "fs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "fs/cachedir.h"
#include "fs/commit.h"
#include "fs/follow.h"
#include "fs/look.h"
#include "fs/past.h"
#include "fs/revert.h"
#include "fs/stream.h"
#include "fs/track/death.h"

/* ---- state, under lock ---- */

uint64_t file_size(const struct node *n)
{
	return n->file->live ? content_size(n->file->live) : n->file->stored_size;
}

bool file_wants_look(const struct mount *m, const struct node *n, uint64_t now)
{
	const struct file *f = n->file;

	return f->live && f->changed && !f->live_is_sealed && !f->writing && !f->looked && !f->facts.clean_close_is_sync &&
	       sealed(&f->facts, &m->opts.policy, now);
}

void file_looked(const struct node *n, const char *torn)
{
	struct file *f = n->file;

	f->looked = true;
	f->torn_why = torn;
	f->torn_told = false;
	f->facts.torn = torn;
}

const char *file_torn(const struct node *n)
{
	const struct file *f = n->file;

	return f->facts.torn && !f->facts.clean_close_is_sync ? f->torn_why : NULL;
}

bool file_is_sealed(const struct mount *m, const struct node *n, uint64_t now)
{
	const struct file *f = n->file;

	if (!f->changed || f->live_is_sealed)
		return true;
	if (file_wants_look(m, n, now))
		file_looked(n, look_at(f->live));
	return !f->writing && sealed(&f->facts, &m->opts.policy, now);
}

static struct log_facts log_facts(const struct node *n)
{
	return (struct log_facts){.name = node_name(n), .only_grown_since_seal = n->file->only_grown,
				  .all_writers_append_since_ns = n->file->append_since_ns};
}

bool file_is_log(const struct mount *m, const struct node *n, uint64_t now)
{
	struct log_facts l = log_facts(n);

	return is_log(&l, &m->opts.policy, now);
}

bool file_ever_sealed(const struct mount *m, const struct node *n, uint64_t now)
{
	return n->segments > 0 || n->file->sealed || file_is_sealed(m, n, now);
}

bool file_holds(const struct mount *m, const struct node *n, uint64_t now)
{
	struct seal_facts s = n->file->facts;
	struct log_facts l = log_facts(n);

	if (file_is_sealed(m, n, now))
		return false;
	s.newest_other_seal_ns = m->last_seal_tgid == n->file->writer_tgid ? 0 : m->last_seal_ns;
	return n->file->writing || quiet_holds(&s, &l, &m->opts.policy, now);
}

void file_born(struct mount *m, struct node *n)
{
	n->file->changed = true;
	n->file->only_grown = true;
	n->file->fresh = true;
	n->file->facts.last_write_ns = n->file->facts.clean_close_ns = mount_now(m);
}

/* What the cache has lost, and the store has. */
static void tell_fetched_again(const struct node *n)
{
	log_warn("cache: the content of %s is gone, cut or unreadable; the store has it, and it is fetched again", node_name(n));
}

/* Nobody has it open, so nobody would find that out otherwise before it is changed. */
static void drop_lost(struct node *n)
{
	struct file *f = n->file;

	if (!f->live || n->opens || f->changed || content_check(f->live) == 0)
		return;
	tell_fetched_again(n);
	content_unref(take(&f->live));
}

int file_content(struct mount *m, struct node *n, struct note *w)
{
	struct file *f = n->file;
	struct fault fault = FAULT_NONE;
	int rc;

	drop_lost(n);
	if (f->live)
		return 0;
	if (f->stored_size)
		rc = content_of_extents(m->contents, n->id, ++f->version, &f->stored, f->stored_size, &f->live, &fault);
	else
		rc = content_new(m->contents, n->id, ++f->version, &f->live, &fault);
	if (rc < 0)
		(void)cachedir_deleted(m); /* says why, if it was */
	else
		note_content(w, n, !f->changed);
	return rc;
}

int file_name_sealed(struct node *n)
{
	struct file *f = n->file;
	struct view *v;
	int rc = content_view(f->live, &v);

	if (rc < 0)
		return rc;
	view_unref(f->sealed);
	f->sealed = v;
	f->sealed_attr = n->attr;
	return 0;
}

/* Name the sealed version before its bytes change; say that the file is dirty. */
static int file_before_change(struct mount *m, struct node *n, uint64_t now, struct note *w)
{
	struct file *f = n->file;
	bool was_open = f->changed && !f->live_is_sealed;

	if (was_open && file_is_sealed(m, n, now)) {
		int rc = file_name_sealed(n);

		if (rc < 0)
			return rc;
		was_open = false;
	} else if (was_open && f->facts.clean_close_ns >= f->facts.last_write_ns) {
		note_dirty(w, n); /* the journal was told of that close */
	}
	if (!was_open) {
		if (f->changed && f->sealed)
			note_sealed(w, n, view_number(f->sealed), view_size(f->sealed), &f->sealed_attr);
		f->changed = true;
		f->live_is_sealed = false;
		f->only_grown = true;
		note_dirty(w, n);
	}
	return 0;
}

/* Its bytes change, or it is finished with them. */
static void file_changes(struct mount *m, struct node *n, uint64_t now)
{
	if (!file_is_log(m, n, now))
		mount_changed(m, now);
	node_touch(&m->nodes, n);
}

static void file_touched(struct mount *m, struct node *n, uint64_t now)
{
	n->attr.mtime_ns = n->attr.ctime_ns = clock_wall(m->clock);
	n->attr_dirty = true;
	file_changes(m, n, now);
}

/* What was found out about the bytes as they were is void. */
static void file_written(struct file *f, uint64_t now)
{
	f->facts.last_write_ns = now;
	f->facts.clean_close_is_sync = f->facts.torn = f->looked = false;
}

/* Keep live's file open, or no longer. */
static void file_hold(struct node *n, bool hold)
{
	struct file *f = n->file;

	if (hold && !f->held && f->live)
		f->held = content_hold(f->live) >= 0; /* else each operation opens it, or fails */
	else if (!hold && f->held) {
		content_unhold(f->live);
		f->held = false;
	}
}

/* Now it has this content. */
static void file_put(struct node *n, struct content *c)
{
	file_hold(n, false);
	content_unref(n->file->live);
	n->file->live = c;
	file_hold(n, n->opens);
}

/* O_TRUNC: an empty version; what was sealed stays as a view of the old one. */
static int file_restart(struct mount *m, struct node *n, uint64_t now, struct note *w)
{
	struct file *f = n->file;
	struct content *fresh;
	struct fault fault = FAULT_NONE;
	int rc = file_content(m, n, w);

	if (rc == 0)
		rc = file_before_change(m, n, now, w);
	if (rc == 0)
		rc = content_new(m->contents, n->id, ++f->version, &fresh, &fault);
	if (rc < 0)
		return rc;
	file_put(n, fresh);
	f->damaged = false;
	f->only_grown = false;
	note_content(w, n, false);
	file_written(f, now);
	file_touched(m, n, now);
	note_node(w, n);
	return 0;
}

/* A file that was made is written now: it is not finished until its writer says so. */
static void file_begins(struct node *n, uint64_t now, struct note *w)
{
	n->file->fresh = false;
	file_written(n->file, now);
	n->file->facts.clean_close_ns = 0;
	note_dirty(w, n);
}

/* ---- handles ---- */

static void writer_comes(struct file *f, bool appends, uint64_t now)
{
	if (f->facts.writers_open++ == 0)
		f->facts.first_writer_open_ns = now;
	f->facts.killed_ns = 0;
	f->appenders += appends;
	if (f->appenders != f->facts.writers_open)
		f->append_since_ns = 0;
	else if (!f->append_since_ns)
		f->append_since_ns = now;
}

static void writer_goes(struct file *f, bool appends, uint64_t now)
{
	f->appenders -= appends;
	f->facts.last_release_ns = now;
	if (--f->facts.writers_open == 0)
		f->facts.first_writer_open_ns = f->append_since_ns = 0;
}

void file_drop_stale(struct node *n)
{
	struct file *f = n->file;

	if (f->changed)
		f->stale = false; /* what was written here is newer than both */
	if (!f->stale || n->opens || n->pins || f->fetching.n)
		return;
	f->stale = false;
	content_unref(take(&f->live));
	f->past_cache = true; /* the next open drops the kernel's pages */
}

/* What open(2) does to the file itself; under lock. */
static int open_file(struct mount *m, struct node *n, int flags, pid_t tid, pid_t tgid)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	struct note w = NOTE_EMPTY;
	uint64_t now = mount_now(m);
	struct file *f = n->file;
	int rc;

	if (m->read_only && (writes || (flags & O_TRUNC)))
		return m->read_only;
	file_drop_stale(n);
	rc = file_content(m, n, &w);
	if (rc == 0 && (flags & O_TRUNC) && (file_size(n) || !f->changed || f->live_is_sealed)) {
		rc = file_restart(m, n, now, &w);
		f->writer_tid = tid;
		f->writer_tgid = tgid;
	}
	if (rc == 0 && writes && f->fresh)
		file_begins(n, now, &w);
	if (rc == 0)
		rc = note_done(m, &w);
	buf_fini(&w.entries);
	return rc;
}

/* A mount that follows has gone on, and the kernel not yet: it looks the name up again. */
static bool is_left(const struct mount *m, const struct node *n)
{
	return m->follower && (n->newer || n->names == 0);
}

int file_open(struct mount *m, uint64_t id, int flags, pid_t tid, struct handle **out)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	pid_t tgid = flags & O_TRUNC ? death_tgid(tid) : 0;
	scoped(free) struct handle *h = calloc(1, sizeof(*h));
	struct node *n;
	int rc;

	if (!h)
		return -ENOMEM;
	mount_lock(m);
	n = node_find(&m->nodes, id);
	rc = !n ? -ENOENT : !n->file ? -EINVAL : is_left(m, n) ? -ESTALE : open_file(m, n, flags, tid, tgid);
	if (rc < 0) {
		mount_unlock(m);
		return rc;
	}
	*h = (struct handle){.node = n, .flags = flags, .writes = writes, .appends = writes && (flags & O_APPEND)};
	if (writes)
		writer_comes(n->file, h->appends, mount_now(m));
	h->past_cache = n->file->past_cache;
	if ((flags & O_ACCMODE) == O_WRONLY)
		n->file->past_cache = true;
	else if (n->file->facts.writers_open == 0)
		n->file->past_cache = false; /* this open drops the pages, nobody writes past them */
	list_init(&h->open);
	list_append(&m->nodes.handles, &h->open);
	n->opens++;
	file_hold(n, true);
	mount_unlock(m);
	*out = take(&h);
	return 0;
}

/* What is public of it changes, so it is a change like another: whoever syncs behind it waits for it. */
static void file_seals(struct mount *m, struct node *n, uint64_t now, bool pid0, pid_t tgid, struct note *w)
{
	struct file *f = n->file;

	f->facts.clean_close_ns = now;
	f->facts.clean_close_is_pid0 = pid0;
	if (!f->first_seal_ns)
		f->first_seal_ns = now;
	m->last_seal_ns = now;
	m->last_seal_tgid = tgid;
	file_changes(m, n, now);
	note_node(w, n);
	note_sealed(w, n, 0, file_size(n), &n->attr);
}

static void file_killed(struct file *f, uint64_t now, pid_t tid, pid_t tgid)
{
	f->stays_killed = false;
	f->facts.killed_ns = now;
	f->writer_tid = tid;
	f->writer_tgid = tgid;
}

int file_flush(struct mount *m, struct handle *h, pid_t tid)
{
	struct file *f = h->node->file;
	struct note w = NOTE_EMPTY;
	enum close_kind kind;
	pid_t tgid;
	uint64_t now;
	int rc;

	if (!h->writes)
		return 0;
	kind = tid ? death_of(tid, m->death_detection) : CLOSE_CLEAN;
	tgid = tid ? death_tgid(tid) : 0;
	mount_lock(m);
	now = mount_now(m);
	/* Under a write of another thread it is none: that write ends later. */
	if (f->changed && !f->live_is_sealed && !f->writing) {
		bool wrote_last = !tid || !f->writer_tgid || f->writer_tgid == tgid;

		if (wrote_last && kind == CLOSE_CLEAN)
			file_seals(m, h->node, now, tid == 0, tgid, &w);
		else if (kind != CLOSE_CLEAN && (wrote_last || f->facts.last_write_unknown))
			file_killed(f, now, tid, tgid); /* its mappings were written back before its files are closed */
	}
	rc = note_done(m, &w);
	mount_unlock(m);
	return rc;
}

void file_release(struct mount *m, struct handle *h)
{
	struct node *n = h->node;

	mount_lock(m);
	list_remove(&h->open);
	if (h->writes) {
		writer_goes(n->file, h->appends, mount_now(m));
		revert_kick(m);
	}
	if (--n->opens == 0) {
		file_hold(n, false);
		file_drop_stale(n);
	}
	n->file->used_ns = mount_now(m);
	node_release(&m->nodes, n);
	mount_unlock(m);
	free(h);
}

void file_release_all(struct mount *m)
{
	struct list *first;

	for (;;) {
		mount_lock(m);
		first = list_on(&m->nodes.handles) ? m->nodes.handles.next : NULL;
		mount_unlock(m);
		if (!first)
			return;
		file_release(m, (struct handle *)((char *)first - offsetof(struct handle, open)));
	}
}

/* ---- what a killed writer left (fs/revert.h) ---- */

bool file_is_left_killed(const struct mount *m, const struct node *n, uint64_t now)
{
	const struct file *f = n->file;

	return f->facts.killed_ns && !f->facts.writers_open && !f->damaged && n->names && !file_is_sealed(m, n, now) &&
	       !file_is_log(m, n, now);
}

int file_go_back(struct mount *m, struct node *n, struct content *c, struct note *w)
{
	struct file *f = n->file;
	struct view *v = NULL;
	int rc = f->sealed && view_content(f->sealed) != c ? content_view(c, &v) : 0;

	if (rc < 0)
		return rc;
	if (v) {
		view_unref(f->sealed);
		f->sealed = v;
	}
	file_put(n, content_ref(c));
	f->changed = f->live_is_sealed = f->sealed;
	f->only_grown = true;
	f->looked = false;
	f->stale = false;
	f->facts = (struct seal_facts){.last_write_ns = 0};
	f->writer_tid = f->writer_tgid = 0;
	n->attr.mtime_ns = f->sealed ? f->sealed_attr.mtime_ns : f->stored_mtime_ns;
	n->attr.ctime_ns = clock_wall(m->clock);
	n->attr_dirty = true;
	file_changes(m, n, mount_now(m));
	note_node(w, n);
	note_file(w, n);
	return 0;
}

/* ---- bytes ---- */

static struct content *live_ref(struct mount *m, struct node *n, bool *damaged)
{
	struct content *c;

	mount_lock(m);
	c = content_ref(n->file->live);
	*damaged = n->file->damaged;
	mount_unlock(m);
	return c;
}

/* As hydrate_start(); with w NULL this thread waits. */
static int bytes_come(struct mount *m, struct node *n, struct content *c, uint64_t off, uint64_t len, bool for_write,
		      struct awaited *w)
{
	return w ? hydrate_start(m, n, c, off, len, for_write, w) : hydrate(m, n, c, off, len, for_write);
}

/* Heads, and the directories at the tail of zips: for who reads, once; a copy needs neither. */
static void fetch_ends(struct mount *m, struct handle *h, struct content *c)
{
	bool first;

	mount_lock(m);
	first = !h->ends_come;
	h->ends_come = true;
	mount_unlock(m);
	if (!first)
		return;
	(void)hydrate_ahead(m, h->node, c, 0, 1, NULL); /* hints */
	(void)hydrate_ahead(m, h->node, c, content_size(c) - 1, 1, NULL);
}

static int lend(void *past, const struct extent *e, uint64_t from, uint8_t *to, size_t len)
{
	return past_get(past, e, from, to, len);
}

/* From the cache, or what stands beside it. */
static ssize_t read_here(struct mount *m, struct content *c, void *data, size_t len, uint64_t off)
{
	ssize_t got = content_read(c, data, len, off);

	if (got == -ENODATA && (past_wanted(m) || past_any(m->past)))
		got = content_read_lent(c, data, len, off, lend, m->past);
	return got;
}

static ssize_t read_content(struct mount *m, struct handle *h, struct content *c, void *data, size_t len, uint64_t off,
			    struct awaited *w)
{
	ssize_t got;

	while ((got = read_here(m, c, data, len, off)) == -ENODATA) {
		int rc = bytes_come(m, h->node, c, off, len, false, w);

		fetch_ends(m, h, c);
		if (rc == -ESTALE)
			rc = follow_read_on_for(m, h->node);
		if (ballast_is_short(rc) && w)
			past_disk_is_full(m); /* once more, and nothing is kept */
		else if (rc < 0)
			return rc;
	}
	if (got > 0)
		hydrate_window(m, h->node, c, &h->reading, off, (size_t)got);
	return got;
}

/* Under lock.  Another content in place of one that has lost its bytes. */
static int file_renew(struct mount *m, struct node *n)
{
	struct file *f = n->file;
	struct content *old = take(&f->live);
	struct note w = NOTE_EMPTY;
	int rc = file_content(m, n, &w);

	if (rc < 0) {
		f->live = old;
		buf_fini(&w.entries);
		return rc;
	}
	if (f->held)
		content_unhold(old);
	f->held = false;
	content_unref(old);
	file_hold(n, n->opens);
	return note_done(m, &w);
}

/* c, its live content, has lost its bytes.  0: they are fetched again. */
static int file_lost(struct mount *m, struct node *n, const struct content *c)
{
	struct file *f = n->file;
	int rc = 0;

	mount_lock(m);
	if (f->live == c && !f->changed && !f->writing) {
		tell_fetched_again(n);
		rc = file_renew(m, n);
	} else if (f->live == c) {
		if (!f->damaged)
			log_error("cache: unsent content of %s is gone, cut or unreadable: reads and writes give EIO", node_name(n));
		f->damaged = true;
		rc = -EIO;
	}
	mount_unlock(m);
	return rc;
}

/* A call that cannot be tried again as a read can. */
static ssize_t if_lost(struct mount *m, struct node *n, const struct content *c, ssize_t rc)
{
	if (rc != -EUCLEAN)
		return rc;
	(void)file_lost(m, n, c);
	return -EIO;
}

ssize_t file_read(struct mount *m, struct handle *h, void *data, size_t len, uint64_t off, struct awaited *w)
{
	ssize_t got = -EUCLEAN;

	for (unsigned i = 0; i < 2 && got == -EUCLEAN; i++) {
		bool damaged;
		scoped(content_unref) struct content *c = live_ref(m, h->node, &damaged);

		if (damaged)
			return -EIO;
		got = read_content(m, h, c, data, len, off, w);
		if (got == -EUCLEAN && file_lost(m, h->node, c) < 0)
			break;
	}
	return got == -EUCLEAN ? -EIO : got;
}

/* What is about to be changed, and by whom. */
struct change {
	pid_t tid;
	bool mapped;
	bool always_grows; /* else it does if it begins at the end, or behind it */
	uint64_t from;
};

/* A file that has only grown may be a log, for a daemon that goes on after us as well. */
static void note_growth(struct node *n, const struct change *x, struct note *w)
{
	struct file *f = n->file;

	if (!f->only_grown || x->always_grows || x->from >= file_size(n))
		return;
	f->only_grown = false;
	note_dirty(w, n);
}

/* lock, with the process of the one who writes known: asked for only when it is another. */
static pid_t writer_lock(struct mount *m, const struct file *f, pid_t tid)
{
	pid_t tgid;

	mount_lock(m);
	if (tid == f->writer_tid)
		return f->writer_tgid;
	mount_unlock(m);
	tgid = tid ? death_tgid(tid) : 0;
	mount_lock(m);
	return tgid;
}

/*
 * The two halves of every change of bytes: before it the sealed version is named and the writer
 * noted; after it times are set.  Between them the bytes change without the lock.
 */
static int change_begin(struct mount *m, struct node *n, const struct change *x, struct content **out)
{
	struct file *f = n->file;
	struct note w = NOTE_EMPTY;
	pid_t tgid = writer_lock(m, f, x->tid);
	uint64_t now = mount_now(m);
	int rc = m->read_only ? m->read_only : f->damaged ? -EIO : 0;

	if (rc == 0)
		rc = file_content(m, n, &w);
	if (rc == 0)
		rc = file_before_change(m, n, now, &w);
	if (rc == 0) {
		note_growth(n, x, &w);
		rc = note_done(m, &w);
	}
	if (rc == 0) {
		if (!x->mapped) {
			f->writer_tid = x->tid;
			f->writer_tgid = tgid;
		}
		file_written(f, now);
		f->facts.last_write_unknown = x->mapped;
		if (x->mapped)
			f->facts.killed_ns = 0; /* another than who was killed maps it, too */
		f->writing++;
		file_changes(m, n, now);
		*out = content_ref(f->live);
	}
	buf_fini(&w.entries);
	mount_unlock(m);
	return rc;
}

static void change_end(struct mount *m, struct node *n, bool kill_priv)
{
	struct file *f = n->file;
	uint64_t now;

	mount_lock(m);
	now = mount_now(m);
	f->writing--;
	f->facts.last_write_ns = now;
	if (kill_priv) /* HANDLE_KILLPRIV_V2: ours to do */
		n->attr.mode &= ~(uint32_t)(S_ISUID | (n->attr.mode & S_IXGRP ? S_ISGID : 0));
	file_touched(m, n, now);
	mount_unlock(m);
}

/* Begun, and not done: it comes again. */
static void change_put_off(struct mount *m, struct node *n)
{
	mount_lock(m);
	n->file->writing--;
	mount_unlock(m);
}

ssize_t file_write(struct mount *m, struct handle *h, const void *data, size_t len, uint64_t off, pid_t tid, bool mapped,
		   struct awaited *w)
{
	scoped(content_unref) struct content *c = NULL;
	struct node *n = h->node;
	struct change x = {.tid = tid, .mapped = mapped, .always_grows = h->appends, .from = off};
	uint64_t at = off;
	ssize_t put;
	int rc;

	rc = change_begin(m, n, &x, &c);
	if (rc < 0)
		return rc;
	rc = content_is_whole(c) ? 0 : bytes_come(m, n, c, off, len, true, w);
	if (rc == -EAGAIN) {
		change_put_off(m, n);
		return rc;
	}
	put = rc < 0 ? rc : content_write(c, data, len, off, h->appends, &at);
	put = if_lost(m, n, c, put);
	change_end(m, n, h->kill_priv);
	if (put > 0)
		stream_kick(m, n, c);
	return put;
}

/* By path, and nobody has it open for writing: then nobody will close it.  Under lock. */
static int truncated(struct mount *m, struct node *n, struct note *w)
{
	if (n->file->facts.writers_open == 0)
		file_seals(m, n, mount_now(m), false, 0, w);
	else
		note_node(w, n);
	return note_done(m, w);
}

static int truncate_to(struct mount *m, struct node *n, uint64_t size, pid_t tid)
{
	scoped(content_unref) struct content *c = NULL;
	int rc = change_begin(m, n, &(struct change){.tid = tid, .from = size}, &c);

	if (rc < 0)
		return rc;
	while ((rc = content_truncate(c, size)) == -ENODATA)
		if ((rc = hydrate(m, n, c, size ? size - 1 : 0, 1, false)) < 0)
			break;
	rc = (int)if_lost(m, n, c, rc);
	change_end(m, n, false);
	return rc;
}

int file_truncate(struct mount *m, uint64_t id, uint64_t size, pid_t tid)
{
	struct note w = NOTE_EMPTY;
	struct node *n;
	int rc;

	mount_lock(m);
	n = node_find(&m->nodes, id);
	rc = !n ? -ENOENT : !n->file ? (node_is_dir(n) ? -EISDIR : -EINVAL) : m->read_only;
	if (rc < 0) {
		mount_unlock(m);
		return rc;
	}
	n->pins++;
	if (size == 0) {
		rc = file_restart(m, n, mount_now(m), &w);
	} else {
		mount_unlock(m);
		rc = truncate_to(m, n, size, tid);
		mount_lock(m);
	}
	if (rc == 0)
		rc = truncated(m, n, &w);
	buf_fini(&w.entries);
	n->pins--;
	if (!n->opens && n->file->live)
		content_rest(n->file->live);
	mount_unlock(m);
	return rc;
}

int file_fsync(struct mount *m, struct handle *h)
{
	bool damaged;
	scoped(content_unref) struct content *c = live_ref(m, h->node, &damaged);
	struct file *f = h->node->file;
	struct note w = NOTE_EMPTY;
	int rc = damaged ? -EIO : content_sync(c);

	if (rc < 0)
		return rc;
	mount_lock(m);
	if (f->changed && !f->live_is_sealed && !f->writing) {
		f->facts.clean_close_is_sync = !(h->flags & (O_SYNC | O_DSYNC)); /* else nobody asked: each write comes so */
		file_seals(m, h->node, mount_now(m), false, f->writer_tgid, &w);
	}
	rc = note_done(m, &w);
	mount_unlock(m);
	if (rc == 0)
		rc = journal_sync(m->journal);
	return rc;
}

int file_allocate(struct mount *m, struct handle *h, int mode, uint64_t off, uint64_t len, pid_t tid)
{
	scoped(content_unref) struct content *c = NULL;
	struct change x = {.tid = tid, .always_grows = mode == 0 || mode == FALLOC_FL_KEEP_SIZE};
	int rc = change_begin(m, h->node, &x, &c);

	if (rc < 0)
		return rc;
	if (mode & ~FALLOC_FL_KEEP_SIZE) /* punched or zeroed: its edges are parts of chunks */
		rc = hydrate(m, h->node, c, off, len, false);
	if (rc == 0)
		rc = content_allocate(c, off, len, mode);
	rc = (int)if_lost(m, h->node, c, rc);
	change_end(m, h->node, h->kill_priv);
	return rc;
}

off_t file_seek(struct mount *m, struct handle *h, off_t off, int whence)
{
	bool damaged;
	scoped(content_unref) struct content *c = live_ref(m, h->node, &damaged);

	return damaged ? -EIO : if_lost(m, h->node, c, content_seek(c, off, whence));
}

/* ---- copies ---- */

#define COPY_PIECE (1u << 20)
#define COPY_BYTES_MOST (64u << 20) /* moved in one call */
#define COPY_MOST (UINT64_C(1) << 30)

/* Where in which files, and how much of it is done. */
struct copy {
	struct handle *from, *to;
	uint64_t from_off, to_off, len;
	pid_t tid;
	struct awaited *awaited;
	uint64_t done, moved; /* bytes; those that were not referred to */
};

/* Of a file that is finished: whether one is torn by its header could not be seen in a copy by reference. */
static struct content *finished_ref(struct mount *m, struct node *n)
{
	struct content *c = NULL;

	mount_lock(m);
	if (!n->file->damaged && file_is_sealed(m, n, mount_now(m)))
		c = content_ref(n->file->live);
	mount_unlock(m);
	return c;
}

static ssize_t copy_references(struct mount *m, const struct copy *x, const struct extents *refs)
{
	scoped(content_unref) struct content *c = NULL;
	struct node *n = x->to->node;
	uint64_t off = x->to_off + x->done, len = extents_bytes(refs);
	int rc = change_begin(m, n, &(struct change){.tid = x->tid, .from = off}, &c);

	if (rc < 0)
		return rc;
	rc = content_is_whole(c) ? 0 : bytes_come(m, n, c, off, len, true, x->awaited);
	if (rc == -EAGAIN) {
		change_put_off(m, n);
		return rc;
	}
	if (rc == 0)
		rc = content_refer(c, off, refs);
	change_end(m, n, x->to->kill_priv);
	return rc < 0 ? rc : (ssize_t)len;
}

static ssize_t copy_bytes(struct mount *m, const struct copy *x, size_t len)
{
	scoped(free) uint8_t *piece = malloc(len);
	ssize_t got = piece ? file_read(m, x->from, piece, len, x->from_off + x->done, x->awaited) : -ENOMEM;

	return got > 0 ? file_write(m, x->to, piece, (size_t)got, x->to_off + x->done, x->tid, false, x->awaited) : got;
}

/* Is it worth ending here?  The next call may find the chunk whole that this one would have to fetch a part of. */
static bool ends_early(struct content *from, const struct copy *x, uint64_t len)
{
	uint64_t at = x->from_off + x->done;

	return x->done && (x->moved + len > COPY_BYTES_MOST || (from && !content_has(from, at, at + len)));
}

/* The next piece; 0: there is none, or it is left to the next call. */
static ssize_t copy_some(struct mount *m, struct copy *x)
{
	scoped(content_unref) struct content *from = finished_ref(m, x->from->node);
	scoped(extents_fini) struct extents refs = EXTENTS_EMPTY;
	uint64_t off = x->from_off + x->done, at = x->from_off + x->len;
	int rc = from ? content_stored(from, off, x->len - x->done, &at, &refs) : 0;
	ssize_t put;

	if (rc < 0)
		return rc;
	if (at == off)
		return copy_references(m, x, &refs);
	if (at - off > COPY_PIECE)
		at = off + COPY_PIECE;
	if (ends_early(from, x, at - off))
		return 0;
	put = copy_bytes(m, x, at - off);
	x->moved += put > 0 ? (uint64_t)put : 0;
	return put;
}

ssize_t file_copy(struct mount *m, struct handle *from, uint64_t from_off, struct handle *to, uint64_t to_off, size_t len,
		  pid_t tid, struct awaited *w)
{
	struct copy x = {.from = from, .to = to, .from_off = from_off, .to_off = to_off, .tid = tid, .awaited = w,
			 .len = len < UINT32_MAX ? len : UINT32_MAX}; /* what an answer can tell */
	ssize_t put = 1;

	while (put > 0 && x.done < x.len && x.done < COPY_MOST) {
		put = copy_some(m, &x);
		if (put > 0)
			x.done += (uint64_t)put;
	}
	if (x.done == 0 || put >= 0)
		return x.done ? (ssize_t)x.done : put;
	if (w) { /* what it waits for now the next call asks for again */
		mount_lock(m);
		hydrate_leave(w);
		mount_unlock(m);
	}
	return (ssize_t)x.done;
}
