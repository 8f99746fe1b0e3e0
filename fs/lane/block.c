/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a thread waits for: blocks of packed runs, and packs made of one blob. */
#include <errno.h>

#include "fs/lane/inside.h"
#include "store/extent.h"

/* ---- the lane's thread ---- */

static void wake_up(struct waiting *w)
{
	pthread_mutex_lock(&w->lock);
	w->done = true;
	pthread_cond_signal(&w->ended); /* under the lock: w is gone once its thread sees done */
	pthread_mutex_unlock(&w->lock);
}

static void note(struct lanes *all, const struct object_req *r)
{
	if (r->rc == 0 || r->rc == -ENOENT)
		health_works(&all->health);
	else if (r->rc != -ECANCELED)
		health_fails(&all->health, &r->fault);
	if (r->rc == 0 && r->op == OBJECT_PUT)
		all->sent_bytes += r->iov->iov_len;
	if (r->rc == 0 && r->op == OBJECT_GET)
		all->fetched_bytes += r->got;
}

static void ended(struct object_req *r)
{
	struct waiting *w = r->arg;
	struct waiting **at = &w->lane->asked;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	lane_look_who_waits(w->lane);
	note(w->lane->all, r);
	wake_up(w);
}

static void again(struct object_req *r)
{
	struct waiting *w = r->arg;

	health_fails(&w->lane->all->health, &r->fault);
}

void block_start(struct lane *l, struct waiting *w)
{
	w->next = l->asked;
	l->asked = w;
	lane_look_who_waits(l);
	objects_start(l->objects, &w->req);
}

void block_cancel(struct waiting *w)
{
	w->req.rc = fault_set(&w->req.fault, -ECANCELED, FAULT_FINAL, "%s: cancelled", w->req.key);
	wake_up(w);
}

void block_stop(struct lane *l)
{
	while (l->asked)
		objects_cancel(l->objects, &l->asked->req);
}

/* ---- the thread that waits ---- */

static int do_request(struct lanes *all, const struct object_req *r, struct fault *f)
{
	struct lane *l = r->op == OBJECT_PUT ? lanes_least_out(all) : lanes_least_in(all);
	struct waiting w = {.req = *r, .lane = l};

	w.req.retrying = again;
	w.req.done = ended;
	w.req.arg = &w;
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.ended, NULL);
	lane_hand_waiting(l, &w);
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.ended, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_cond_destroy(&w.ended);
	pthread_mutex_destroy(&w.lock);
	if (w.req.rc < 0 && f)
		*f = w.req.fault;
	return w.req.rc;
}

static int get_block(struct block_source *src, uint64_t pack, uint64_t off, size_t len,
		     uint8_t *dest, struct fault *f)
{
	char key[PACK_KEY_MAX];
	int rc;
	struct object_req r = {.op = OBJECT_GET, .key = key, .off = off, .len = len, .dest = dest};

	pack_key(pack, key);
	if (src->deadline_ms > 0)
		r.deadline_ns = clock_mono(&clock_system) + src->deadline_ms * NS_PER_MS;
	rc = do_request(src->arg, &r, f);
	/* A name that is not in a state is -ENOENT: a pack that is gone must not look like one. */
	if (rc != -ENOENT)
		return rc;
	if (f)
		f->code = -ESTALE;
	return -ESTALE;
}

void lanes_block_source(struct lanes *l, uint64_t deadline_ms, struct block_source *out)
{
	*out = (struct block_source){.get = get_block, .arg = l, .deadline_ms = deadline_ms};
}

int lanes_put_pack(struct lanes *l, const void *data, size_t len, uint64_t deadline_ns,
		   uint64_t *out_pack, struct fault *f)
{
	const struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	char key[PACK_KEY_MAX];
	uint64_t pack = l->conf.pack_name(l->conf.arg);
	struct object_req r = {.op = OBJECT_PUT,
			       .key = key,
			       .iov = &iov,
			       .iovs = 1,
			       .create_only = true,
			       .deadline_ns = deadline_ns};
	int rc;

	pack_key(pack, key);
	rc = do_request(l, &r, f);
	if (rc < 0)
		return rc;
	*out_pack = pack;
	return 0;
}
