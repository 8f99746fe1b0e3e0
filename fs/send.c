/* SPDX-License-Identifier: Apache-2.0 */
/* See send.h. */
#include "fs/send.h"

#include <errno.h>
#include <stdio.h>

#include "fs/commit.h"

#define VIEWS_MOST 128              /* under way at once */
#define INLINE_MOST (256u << 10)    /* in one record; what is beyond goes into packs */

struct sending {
	struct upload upload;
	struct sender *sender;
	struct view *view;
	bool inline_ok;
};

struct sender {
	struct mount *m;
	/* the committer's */
	struct moment *moment;
	size_t next;          /* node that has not been looked at */
	size_t inlined_bytes;
	struct fault lost;    /* a view whose bytes are no more; the others are sent all the same */
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	unsigned flying;
	int rc;
	struct fault fault;
	uint64_t left_bytes;
};

struct sender *sender_new(struct mount *m)
{
	struct sender *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->m = m;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->idle, NULL);
	return s;
}

static void wait_idle(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->flying)
		pthread_cond_wait(&s->idle, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	wait_idle(s); /* lanes_stop() came first, or ends them */
	(void)pthread_mutex_destroy(&s->lock);
	(void)pthread_cond_destroy(&s->idle);
	free(s);
}

static int patch(struct upload *u, uint8_t *data, size_t len, uint64_t off)
{
	struct sending *x = u->arg;

	return view_patch(x->view, data, len, off);
}

static bool patches(struct upload *u, uint64_t off, uint64_t len)
{
	struct sending *x = u->arg;

	return view_patches(x->view, off, len);
}

static void upload_done(struct upload *u);

/* The next range that the store lacks; false: there is none. */
static bool send_range(struct sending *x, uint64_t from)
{
	struct content *c = view_content(x->view);
	struct range r;

	if (!view_unmapped(x->view, from, &r))
		return false;
	x->upload = (struct upload){.fd = content_fd(c), .off = r.from, .len = r.to - r.from,
				    .by_content = content_in_sequence(c), .inline_ok = x->inline_ok && r.from == 0,
				    .urgent = true, .patch = patch, .patches = patches,
				    .done = upload_done, .arg = x};
	lanes_upload(x->sender->m->lanes, &x->upload);
	return true;
}

static void sending_ends(struct sending *x, int rc, const struct fault *f)
{
	struct sender *s = x->sender;

	content_unhold(view_content(x->view));
	view_unref(x->view);
	free(x);
	pthread_mutex_lock(&s->lock);
	if (rc < 0 && s->rc == 0) {
		s->rc = rc;
		s->fault = *f;
	}
	committer_kick(s->m); /* under the lock: the sender may be gone behind it */
	if (--s->flying == 0)
		pthread_cond_signal(&s->idle);
	pthread_mutex_unlock(&s->lock);
}

static void upload_done(struct upload *u)
{
	struct sending *x = u->arg;
	struct fault f = u->fault;
	uint64_t end = u->off + u->taken;
	int rc = u->rc;

	if (rc == 0) {
		rc = view_map(x->view, u->off, &u->out);
		pthread_mutex_lock(&x->sender->lock);
		x->sender->left_bytes -= u->taken < x->sender->left_bytes ? u->taken : x->sender->left_bytes;
		pthread_mutex_unlock(&x->sender->lock);
	}
	extents_fini(&u->out);
	if (rc < 0 && !f.code)
		(void)fault_errno(&f, rc, "upload");
	/* From the start again: an extent that met a stream's of the same bytes may have been left out. */
	if (rc < 0 || (!send_range(x, end) && !send_range(x, 0)))
		sending_ends(x, rc, &f);
}

/* No descriptor or memory may be had later; what was deleted from the cache comes back no more. */
static bool comes_back(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
}

/* No commit can be made without it, so nothing is to be changed any more that would not be in one. */
static void lose_view(struct sender *s, const struct moment_node *mn, int rc)
{
	struct mount *m = s->m;

	mount_lock(m);
	(void)fault_errno(&s->lost, rc == -EUCLEAN ? -EIO : rc,
			  "cache %.100s: the content of %.80s is gone, and was not sent yet", m->opts.cache,
			  node_name(mn->node));
	mn->node->file->damaged = mn->node->file->live == view_content(mn->view);
	if (!m->read_only) {
		m->read_only = -EIO;
		(void)snprintf(m->why_read_only, sizeof(m->why_read_only), "the content of %.180s is gone", node_name(mn->node));
	}
	mount_unlock(m);
}

/* What others have cut off would be sent as zeros. */
static int hold(struct content *c)
{
	int rc = content_hold(c);

	if (rc < 0 || content_check(c) == 0)
		return rc;
	content_unhold(c);
	return -EUCLEAN;
}

/* false: not now (its live file is being streamed: what that sends need not be sent again). */
static bool send_view(struct sender *s, struct moment_node *mn)
{
	struct sending *x;
	bool streaming;
	int rc;

	mount_lock(s->m);
	streaming = mn->node->file->streaming && mn->node->file->live == view_content(mn->view);
	mount_unlock(s->m);
	if (streaming) {
		lanes_press(s->m->lanes);
		return false;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return false;
	*x = (struct sending){.sender = s, .view = view_ref(mn->view)};
	rc = hold(view_content(x->view));
	if (rc < 0) {
		view_unref(x->view);
		free(x);
		if (comes_back(rc))
			return false; /* a later poll finds one */
		lose_view(s, mn, rc);
		return true;
	}
	if (view_size(mn->view) <= CHUNK_INLINE && s->inlined_bytes + view_size(mn->view) <= INLINE_MOST) {
		x->inline_ok = true;
		s->inlined_bytes += view_size(mn->view);
	}
	view_reopen_tail(x->view);
	pthread_mutex_lock(&s->lock);
	s->flying++;
	pthread_mutex_unlock(&s->lock);
	if (!send_range(x, 0))
		sending_ends(x, 0, NULL);
	return true;
}

static bool has_room(struct sender *s)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->rc == 0 && s->flying < VIEWS_MOST;
	pthread_mutex_unlock(&s->lock);
	return room;
}

static void send_more(struct sender *s)
{
	while (s->next < s->moment->node_n && has_room(s)) {
		struct moment_node *mn = &s->moment->nodes[s->next];

		if (mn->view && !send_view(s, mn))
			return;
		s->next++;
	}
}

void sender_start(struct sender *s, struct moment *x)
{
	s->moment = x;
	s->next = 0;
	s->inlined_bytes = 0;
	s->lost = FAULT_NONE;
	pthread_mutex_lock(&s->lock);
	s->rc = 0;
	s->fault = FAULT_NONE;
	s->left_bytes = moment_unsent(x);
	pthread_mutex_unlock(&s->lock);
	send_more(s);
}

int sender_poll(struct sender *s, struct fault *f)
{
	unsigned flying;
	int rc;

	send_more(s);
	pthread_mutex_lock(&s->lock);
	flying = s->flying;
	rc = s->rc;
	if (rc < 0)
		*f = s->fault;
	pthread_mutex_unlock(&s->lock);
	if (flying || (rc == 0 && s->next < s->moment->node_n))
		return -EAGAIN;
	if (rc == 0 && s->lost.code) {
		*f = s->lost;
		rc = s->lost.code;
	}
	return rc;
}

uint64_t sender_bytes(struct sender *s)
{
	uint64_t left;

	pthread_mutex_lock(&s->lock);
	left = s->left_bytes;
	pthread_mutex_unlock(&s->lock);
	return left;
}
