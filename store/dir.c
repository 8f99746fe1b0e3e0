/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind "file": the calls of dir_sync.c on the loop's helper threads.
 *
 * A thread cannot be called back from a write(2).  So a job works on memory of its own, and a
 * request that is cancelled only leaves its job behind: the job ends by itself and is then freed.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/dir_sync.h"
#include "store/objects.h"
#include "store/uri.h"

struct dir {
	struct dir_root *root;
	struct loop *loop;
};

struct job {
	/* fixed after job_new() */
	struct loop_work work;
	struct dir_root *root; /* a reference: the job may outlive the struct dir */
	enum object_op op;
	char *key;
	char *after; /* may be NULL */
	uint64_t off, len;
	unsigned most;
	bool create_only;
	/* loop thread */
	struct object_req *r; /* NULL: left behind */
	/* helper thread while it runs */
	struct buf data; /* PUT: what to write; GET and LIST: what came */
	uint64_t size;
	int rc;
	struct fault fault;
};

static void job_free(struct job *j)
{
	if (!j)
		return;
	dir_root_unref(j->root);
	buf_fini(&j->data);
	free(j->key);
	free(j->after);
	free(j);
}
SCOPE_PTR(struct job, job_free)

/* NULL: out of memory. */
static struct job *job_new(struct dir *d, struct object_req *r)
{
	scoped(job_free) struct job *j = calloc(1, sizeof(*j));
	const char *after = r->op == OBJECT_LIST ? object_list_after(r) : NULL;

	if (!j)
		return NULL;
	j->root = dir_root_ref(d->root);
	j->op = r->op;
	j->key = strdup(r->key);
	j->after = after ? strdup(after) : NULL;
	j->off = r->off;
	j->len = r->len;
	j->most = object_list_room(r);
	j->create_only = r->create_only;
	for (int i = 0; r->op == OBJECT_PUT && i < r->iovs; i++)
		buf_add(&j->data, r->iov[i].iov_base, r->iov[i].iov_len);
	if (!j->key || (after && !j->after) || !buf_ok(&j->data))
		return NULL;
	return take(&j);
}

/* Thread: a helper's. */
static void run(struct loop_work *w)
{
	struct job *j = w->arg;
	struct fault *f = &j->fault;

	switch (j->op) {
	case OBJECT_GET:
		j->rc = dir_get(j->root, j->key, j->off, j->len, &j->data, &j->size, f);
		break;
	case OBJECT_PUT:
		j->rc = dir_put(j->root, j->key, j->data.data, j->data.len, j->create_only, f);
		break;
	case OBJECT_LIST:
		j->rc = dir_list(j->root, j->key, j->after, j->most, &j->data, f);
		break;
	case OBJECT_DELETE:
		j->rc = dir_delete(j->root, j->key, f);
		break;
	}
}

static int give_body(struct object_req *r, struct job *j)
{
	uint64_t want = r->len > 0 ? r->len : j->size;

	r->size = j->size;
	r->got = j->data.len;
	if (r->got != want)
		return object_cut(r, "the file is shorter than was asked for");
	if (r->dest) {
		assert(r->len > 0);
		memcpy(r->dest, j->data.data, r->got);
		return 0;
	}
	buf_fini(&r->body);
	r->body = j->data;
	j->data = BUF_EMPTY;
	return 0;
}

static int give_keys(struct object_req *r, const struct job *j)
{
	const char *keys = (const char *)j->data.data;

	for (size_t at = 0; at < j->data.len;) {
		size_t len = strlen(keys + at);
		int rc = object_listed(r, keys + at, len);

		if (rc < 0) /* sorted by us, so it is memory */
			return fault_set(&r->fault, rc, FAULT_SOON, "LIST %.120s: %s", r->key,
					 strerror(-rc));
		at += len + 1;
	}
	return 0;
}

/* A disk that cannot read a file says so each time: no use in asking for ever. */
static int give_fault(struct object_req *r, const struct job *j)
{
	if (r->op == OBJECT_GET && j->rc == -EIO)
		return object_cut(r, j->fault.text);
	r->fault = j->fault;
	return j->rc;
}

static void done(struct loop_work *w)
{
	scoped(job_free) struct job *j = w->arg;
	struct object_req *r = j->r;

	if (!r)
		return;
	r->priv.run = NULL;
	if (j->rc < 0)
		r->rc = give_fault(r, j);
	else if (r->op == OBJECT_GET)
		r->rc = give_body(r, j);
	else
		r->rc = r->op == OBJECT_LIST ? give_keys(r, j) : 0;
	object_tried(r);
}

static int start(void *me, struct object_req *r)
{
	struct dir *d = me;
	struct job *j = job_new(d, r);

	if (!j)
		return fault_set(&r->fault, -ENOMEM, FAULT_SOON, "%s %.120s: out of memory",
				 object_op_name(r->op), r->key);
	j->r = r;
	j->work = (struct loop_work){.run = run, .done = done, .arg = j};
	r->priv.run = j;
	loop_work(d->loop, &j->work);
	return 0;
}

static void cancel(void *me, struct object_req *r)
{
	struct job *j = r->priv.run;

	j->r = NULL;
	r->priv.run = NULL;
}

static int share_dir(const struct store_uri *uri, void **out, struct fault *f)
{
	struct dir_root *root;
	int rc = dir_root_new(uri->dir, &root, f);

	if (rc == 0)
		*out = root;
	return rc;
}

static void unshare_dir(void *shared)
{
	dir_root_unref(shared);
}

static int open_dir(void *shared, struct loop *l, void **out, struct fault *f)
{
	struct dir *d = malloc(sizeof(*d));

	if (!d)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	*d = (struct dir){.root = dir_root_ref(shared), .loop = l};
	*out = d;
	return 0;
}

static void close_dir(void *me)
{
	struct dir *d = me;

	dir_root_unref(d->root);
	free(d);
}

const struct object_ops objects_dir = {
	.scheme = "file",
	.share = share_dir,
	.unshare = unshare_dir,
	.open = open_dir,
	.close = close_dir,
	.start = start,
	.cancel = cancel,
};
