/* SPDX-License-Identifier: Apache-2.0 */
/* See revert.h. */
#include "fs/revert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"
#include "fs/file.h"
#include "fs/ns.h"

struct reverter {
	struct mount *m;
	pthread_t thread;
	/* under the mount's lock */
	pthread_cond_t wake;
	bool ending;
};

/* ---- a file that was sealed once ---- */

/*
 * *out: a content with the bytes of v (NULL: of the newest commit).  Without the lock: bytes may have to be
 * copied, where the killed writer changed some in the middle of them.
 */
static int make_content(struct mount *m, struct node *n, struct view *v, struct content **out)
{
	scoped(content_unref) struct content *c = NULL;
	struct fault fault = FAULT_NONE;
	uint32_t version;
	int rc;

	if (v && view_is_current(v)) {
		*out = content_ref(view_content(v));
		return 0;
	}
	mount_lock(m);
	version = ++n->file->version;
	rc = v || !n->file->stored_size
		     ? content_new(m->contents, n->id, version, &c, &fault)
		     : content_of_extents(m->contents, n->id, version, &n->file->stored, n->file->stored_size, &c, &fault);
	mount_unlock(m);
	if (rc == 0 && v)
		rc = view_copy(v, c);
	if (rc == 0) {
		content_rest(c);
		*out = take(&c);
	}
	return rc;
}

/* 1: it went back; 0: somebody was faster and has it open for writing, or another version of it was committed. */
static int bytes_back(struct mount *m, struct node *n)
{
	scoped(view_unref) struct view *v = NULL;
	scoped(content_unref) struct content *c = NULL;
	struct note w = NOTE_EMPTY;
	int rc;

	mount_lock(m);
	v = view_ref(n->file->sealed);
	mount_unlock(m);
	rc = make_content(m, n, v, &c);
	if (rc < 0)
		return rc;
	mount_lock(m);
	if (file_is_left_killed(m, n, mount_now(m)) && n->file->sealed == v) {
		rc = file_go_back(m, n, c, &w);
		if (rc == 0)
			rc = note_done(m, &w);
		rc = rc < 0 ? rc : 1;
	}
	mount_unlock(m);
	buf_fini(&w.entries);
	if (rc == 1)
		ears_inode(&m->ears, n->id, 0);
	return rc;
}

/* ---- one that never was ---- */

/* Under lock.  All names of such a file differ from what the base says. */
static struct name *name_of(struct mount *m, const struct node *n)
{
	for (struct list *l = m->nodes.dirty_names.next; l != &m->nodes.dirty_names; l = l->next)
		if (name_of_dirty(l)->id == n->id)
			return name_of_dirty(l);
	return NULL;
}

/* 1: one name of it went back; 0: there is none any more, or it is no such file any more. */
static int name_back(struct mount *m, struct node *n)
{
	char text[NAME_MAX_BYTES + 1];
	struct fault f = FAULT_NONE;
	struct name_rec was = {.id = 0};
	struct node *to = NULL;
	struct name *e;
	uint64_t dir = 0;
	int rc = 0;

	mount_lock(m);
	e = file_is_left_killed(m, n, mount_now(m)) ? name_of(m, n) : NULL;
	if (e && !e->cut)
		was = e->base;
	to = was.id ? node_find(&m->nodes, was.id) : NULL;
	if (e && (to || !was.id)) {
		dir = e->dir->id;
		(void)snprintf(text, sizeof(text), "%s", e->text);
		rc = ns_name_back(m, e, n, to);
	}
	mount_unlock(m);
	if (dir && rc == 0) {
		ears_name(&m->ears, dir, text);
		ears_inode(&m->ears, n->id, -1); /* its count of links */
		return 1;
	}
	if (rc == 0 && was.id)
		rc = load_node(m, was.home, was.id, &f);
	return rc < 0 ? rc : was.id != 0;
}

static int names_back(struct mount *m, struct node *n)
{
	int rc;

	while ((rc = name_back(m, n)) > 0)
		;
	return rc;
}

/* ---- all of them ---- */

static struct node *find(struct mount *m)
{
	uint64_t now = mount_now(m);

	if (m->read_only)
		return NULL;
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		struct node *n = node_of_dirty(l);

		if (n->file && !n->file->stays_killed && file_is_left_killed(m, n, now))
			return n;
	}
	return NULL;
}

/* Not again, if it failed, until another writer of it is killed. */
static void tell(struct mount *m, struct node *n, int rc)
{
	char name[NAME_MAX_BYTES + 1];
	bool gone;

	mount_lock(m);
	n->file->stays_killed = rc < 0;
	gone = n->names == 0;
	(void)snprintf(name, sizeof(name), "%s", node_name(n));
	mount_unlock(m);
	if (rc < 0)
		log_error("%s: it stays as a killed writer left it: %s", name, strerror(-rc));
	else if (rc > 0 || gone)
		log_info("%s: its writer was killed: %s", name, gone ? "as it was never whole, it is gone" : "it is as it was before");
}

bool revert_next(struct mount *m)
{
	struct node *n;
	bool ever = false;

	mount_lock(m);
	n = find(m);
	if (n) {
		n->pins++;
		ever = n->file->sealed || n->segments;
	}
	mount_unlock(m);
	if (!n)
		return false;
	tell(m, n, ever ? bytes_back(m, n) : names_back(m, n));
	mount_lock(m);
	n->pins--;
	node_release(&m->nodes, n);
	mount_unlock(m);
	return true;
}

static void *revert_main(void *arg)
{
	struct reverter *r = arg;
	bool ending = false;

	while (!ending) {
		while (revert_next(r->m))
			;
		mount_lock(r->m);
		while (!r->ending && !find(r->m))
			pthread_cond_wait(&r->wake, &r->m->lock);
		ending = r->ending;
		mount_unlock(r->m);
	}
	return NULL;
}

int revert_run(struct mount *m, struct fault *f)
{
	struct reverter *r;
	int rc;

	if (!m->opts.revert_killed || m->read_only)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return fault_errno(f, -ENOMEM, "reverter");
	r->m = m;
	cond_init(&r->wake);
	rc = -pthread_create(&r->thread, NULL, revert_main, r);
	if (rc < 0) {
		free(r);
		return fault_errno(f, rc, "reverter thread");
	}
	mount_lock(m);
	m->reverter = r;
	mount_unlock(m);
	return 0;
}

void revert_free(struct mount *m)
{
	struct reverter *r = m->reverter;

	if (!r)
		return;
	mount_lock(m);
	r->ending = true;
	pthread_cond_signal(&r->wake);
	mount_unlock(m);
	(void)pthread_join(r->thread, NULL);
	m->reverter = NULL;
	(void)pthread_cond_destroy(&r->wake);
	free(r);
}

void revert_kick(struct mount *m)
{
	if (m->reverter)
		pthread_cond_signal(&m->reverter->wake);
}
