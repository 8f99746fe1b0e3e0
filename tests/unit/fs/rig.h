/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts without a kernel: a store in a folder, and machines that call ns.c and file.c as FUSE would.
 * Moments are frozen for an acknowledgement only, so a test knows what is in one.
 */
#ifndef HOLDFAST_TESTS_UNIT_FS_RIG_H
#define HOLDFAST_TESTS_UNIT_FS_RIG_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/loop.h"
#include "fs/commit.h"
#include "fs/file.h"
#include "fs/ns.h"
#include "fs/start.h"
#include "store/format.h"

#define NOBODY 1999999999 /* a process that is not there: its close seals nothing */

struct rig {
	char path[64], uri[128];
	unsigned caches; /* made so far */
};

struct machine {
	struct mount m;
	char cache[96];
};

static inline int rig_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/* A cmocka setup and teardown: an empty store. */
static inline int rig_make(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct fault f = FAULT_NONE;
	struct store_format format;
	struct store *store;
	struct objects *o;
	struct loop *loop;
	char dir[96];

	*state = r;
	snprintf(r->path, sizeof(r->path), "/tmp/holdfast-fs-XXXXXX");
	if (!mkdtemp(r->path))
		return -1;
	snprintf(dir, sizeof(dir), "%s/store", r->path);
	snprintf(r->uri, sizeof(r->uri), "file://%s", dir);
	if (mkdir(dir, 0755) < 0 || loop_new(LOOP_AUTO, &loop, &f) < 0 || store_new(r->uri, &store, &f) < 0 ||
	    objects_open(store, loop, &o, &f) < 0 || store_make(o, false, &format, &f) < 0)
		return -1;
	objects_close(o);
	store_free(store);
	loop_free(loop);
	return 0;
}

static inline int rig_end(void **state)
{
	struct rig *r = *state;

	(void)nftw(r->path, rig_remove_one, 16, FTW_DEPTH | FTW_PHYS); /* /tmp is swept anyway */
	free(r);
	return 0;
}

/* As it is before mount_start(): with options for quick tests. */
static inline struct machine *machine_make(struct rig *r)
{
	struct machine *x = calloc(1, sizeof(*x)); /* not of the stack, which a failed test leaves to the next one */

	assert_non_null(x);
	snprintf(x->cache, sizeof(x->cache), "%s/cache%u", r->path, r->caches++);
	x->m.opts = (struct mount_opts){.uri = r->uri, .slots = 1, .lanes = 1, .takeover = true, .policy = TRACK_POLICY_DEFAULT};
	x->m.opts.policy.quiet_ns = 1;
	x->m.opts.policy.settle_ns = 0;
	x->m.opts.policy.commit_gap_ns = 3600 * NS_PER_S;
	x->m.opts.policy.ack_wait_ns = 50 * NS_PER_MS;
	return x;
}

static inline void machine_begin(struct machine *x)
{
	struct mount_opts opts = x->m.opts;
	struct fault f = FAULT_NONE;

	x->m = (struct mount){.opts = opts};
	x->m.opts.cache = strdup(x->cache);
	x->m.opts.policy.quiet_ns = 3600 * NS_PER_S;
	x->m.opts.policy.commit_gap_ns = 0;
	if (mount_start(&x->m, &f) < 0)
		fail_msg("%s", f.text);
	mount_lock(&x->m); /* from here on moments are for acknowledgements only, the first one too */
	x->m.opts.policy.commit_gap_ns = UINT64_MAX / 2;
	x->m.opts.policy.quiet_ns = opts.policy.quiet_ns;
	mount_unlock(&x->m);
}

static inline struct machine *machine_new(struct rig *r)
{
	struct machine *x = machine_make(r);

	machine_begin(x);
	return x;
}

/* The daemon is gone, the cache is there. */
static inline void machine_kill(struct machine *x)
{
	content_dir_keep(x->m.contents);
	mount_fini(&x->m);
	free(x->m.opts.cache);
	x->m.opts.cache = NULL;
}

/* ... and a new daemon goes on with it. */
static inline void machine_restart(struct machine *x)
{
	machine_kill(x);
	machine_begin(x);
	assert_non_null(strstr(x->m.story, "went on with the cache"));
}

/* For good: nobody is told. */
static inline void machine_lose(struct machine *x)
{
	machine_kill(x);
	free(x);
}

static inline void machine_sync(struct machine *x)
{
	struct fault f = FAULT_NONE;

	if (committer_sync(&x->m, mount_now(&x->m) + 20 * NS_PER_S, NULL, &f) < 0)
		fail_msg("sync: %s", f.text);
}

/* ---- calls as a process makes them, by path; each forgets what it looked up ---- */

struct walk {
	uint64_t dir, id; /* of the last component, and where it is; id 0: absent */
	char last[NAME_MAX_BYTES + 1];
};

static inline int walk_to(struct machine *x, const char *path, struct walk *out)
{
	char copy[512], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", path);
	*out = (struct walk){.dir = ROOT_ID, .id = ROOT_ID};
	for (char *word = strtok_r(copy, "/", &save); word; word = strtok_r(NULL, "/", &save)) {
		struct ns_attr a;
		int rc;

		if (!out->id)
			return -ENOENT;
		out->dir = out->id;
		snprintf(out->last, sizeof(out->last), "%s", word);
		rc = ns_lookup(&x->m, out->dir, word, &a);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		out->id = rc < 0 ? 0 : a.id;
	}
	return 0;
}

/* The kernel lets go of all that it knew, deepest first, as when memory is short. */
static inline void forget_all(struct machine *x)
{
	bool more = true;

	while (more) {
		more = false;
		mount_lock(&x->m);
		for (struct node *n = x->m.nodes.by_id; n; n = n->hh.next)
			if (n->lookups && n->id != ROOT_ID) {
				n->lookups = 0;
				node_release(&x->m.nodes, n);
				more = true;
				break;
			}
		mount_unlock(&x->m);
	}
}

static inline int do_make(struct machine *x, const char *path, mode_t mode, uint64_t *id)
{
	struct walk w;
	struct ns_attr a;
	int rc = walk_to(x, path, &w);

	if (rc == 0)
		rc = ns_make(&x->m, w.dir, w.last, mode, 0, S_ISLNK(mode) ? "target" : NULL, (struct ns_cred){.uid = 1}, &a);
	if (rc == 0 && id)
		*id = a.id;
	return rc;
}

static inline struct handle *do_open(struct machine *x, const char *path, int flags)
{
	struct handle *h;
	struct walk w;

	assert_int_equal(walk_to(x, path, &w), 0);
	if (!w.id && (flags & O_CREAT))
		assert_int_equal(do_make(x, path, S_IFREG | 0644, &w.id), 0);
	assert_int_equal(file_open(&x->m, w.id, flags & ~O_CREAT, getpid(), &h), 0);
	return h;
}

static inline void do_write(struct machine *x, struct handle *h, const void *data, size_t len, uint64_t off, pid_t pid)
{
	assert_int_equal(file_write(&x->m, h, data, len, off, pid, false, NULL), len);
}

static inline void do_close(struct machine *x, struct handle *h, pid_t pid)
{
	assert_int_equal(file_flush(&x->m, h, pid), 0);
	file_release(&x->m, h);
}

/* Written as a whole and closed. */
static inline void do_put(struct machine *x, const char *path, const char *text)
{
	struct handle *h = do_open(x, path, O_CREAT | O_TRUNC | O_WRONLY);

	do_write(x, h, text, strlen(text), 0, getpid());
	do_close(x, h, getpid());
}

/* ... by one who dies before he is through. */
static inline void do_put_half(struct machine *x, const char *path, const char *text)
{
	struct handle *h = do_open(x, path, O_CREAT | O_TRUNC | O_WRONLY);

	do_write(x, h, text, strlen(text), 0, NOBODY);
	do_close(x, h, NOBODY);
}

static inline int do_unlink(struct machine *x, const char *path)
{
	struct walk w;
	int rc = walk_to(x, path, &w);

	return rc < 0 ? rc : ns_unlink(&x->m, w.dir, w.last);
}

static inline int do_rmdir(struct machine *x, const char *path)
{
	struct walk w;
	int rc = walk_to(x, path, &w);

	return rc < 0 ? rc : ns_rmdir(&x->m, w.dir, w.last);
}

static inline int do_rename(struct machine *x, const char *from, const char *to, unsigned flags)
{
	struct walk w, v;
	int rc = walk_to(x, from, &w);

	if (rc == 0)
		rc = walk_to(x, to, &v);
	return rc < 0 ? rc : ns_rename(&x->m, w.dir, w.last, v.dir, v.last, flags);
}

static inline int do_link(struct machine *x, const char *from, const char *to)
{
	struct walk w, v;
	struct ns_attr a;
	int rc = walk_to(x, from, &w);

	if (rc == 0)
		rc = walk_to(x, to, &v);
	return rc < 0 ? rc : !w.id ? -ENOENT : ns_link(&x->m, w.id, v.dir, v.last, &a);
}

static inline void do_set(struct machine *x, const char *path, unsigned set, struct inode_attr to)
{
	struct ns_attr a;
	struct walk w;

	assert_int_equal(walk_to(x, path, &w), 0);
	assert_int_equal(ns_setattr(&x->m, w.id, set, &to, &a), 0);
}

/* ---- the whole tree as text ---- */

static inline void tell_file(struct machine *x, uint64_t id, FILE *out)
{
	char data[4096];
	struct handle *h;
	uint64_t off = 0;
	ssize_t got;

	assert_int_equal(file_open(&x->m, id, O_RDONLY, getpid(), &h), 0);
	while ((got = file_read(&x->m, h, data, sizeof(data), off, NULL)) > 0) {
		fwrite(data, 1, (size_t)got, out);
		off += (uint64_t)got;
	}
	if (got < 0)
		fprintf(out, "<%s>", strerror((int)-got));
	file_release(&x->m, h);
}

static inline void tell_dir(struct machine *x, uint64_t dir, const char *path, bool times, FILE *out);

static inline void tell_one(struct machine *x, uint64_t dir, const char *name, const char *path, bool times, FILE *out)
{
	struct ns_attr a;

	if (ns_lookup(&x->m, dir, name, &a) < 0) {
		fprintf(out, "%s <no inode>\n", path);
		return;
	}
	fprintf(out, "%s %o", path, a.attr.mode);
	if (S_ISREG(a.attr.mode))
		fprintf(out, " x%u ", a.attr.nlink);
	if (times)
		fprintf(out, "@%lld ", (long long)a.attr.mtime_ns);
	if (S_ISREG(a.attr.mode))
		tell_file(x, a.id, out);
	fprintf(out, "\n");
	if (S_ISDIR(a.attr.mode))
		tell_dir(x, a.id, path, times, out);
}

static inline int entry_cmp(const void *a, const void *b)
{
	return strcmp(((const struct ns_entry *)a)->name, ((const struct ns_entry *)b)->name);
}

static inline void tell_dir(struct machine *x, uint64_t dir, const char *path, bool times, FILE *out)
{
	struct ns_listing l;

	assert_int_equal(ns_list(&x->m, dir, &l), 0);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), entry_cmp);
	for (size_t i = 0; i < l.n; i++) {
		char child[1024];

		snprintf(child, sizeof(child), "%s/%s", path, l.v[i].name);
		tell_one(x, dir, l.v[i].name, child, times, out);
	}
	ns_listing_fini(&l);
}

/* The caller frees it. */
static inline char *tree_of(struct machine *x, bool times)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	tell_dir(x, ROOT_ID, "", times, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* What the good moment holds, as a machine that only looks at it sees it. */
static inline char *good_tree(struct rig *r, bool times)
{
	struct machine *x = machine_make(r);
	char *tree;

	x->m.opts.takeover = false;
	x->m.opts.read_only = true;
	machine_begin(x);
	tree = tree_of(x, times);
	machine_lose(x);
	return tree;
}

static inline void assert_good_is(struct rig *r, const char *tree)
{
	char *good = good_tree(r, false);

	assert_string_equal(good, tree);
	free(good);
}

#endif
