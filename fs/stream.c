/* SPDX-License-Identifier: Apache-2.0 */
/* See stream.h. */
#include "fs/stream.h"

#include <errno.h>

#define STREAM_STEP (UINT64_C(8) << 20) /* worth an upload of its own */
#define STREAM_MOST (UINT64_C(64) << 20) /* in one, so that a freeze need not wait long for it */

struct stream {
	struct upload upload;
	struct mount *m;
	struct node *node;
	struct content *content;
	uint64_t stamp;
};

static void stream_done(struct upload *u);

/* Under lock.  True if an upload was started. */
static bool stream_start(struct mount *m, struct node *n, struct content *c)
{
	uint64_t from = content_mapped(c), size = content_size(c), len = size - from;
	struct stream *s;

	if (n->file->streaming || m->read_only || n->file->live != c || n->names == 0)
		return false;
	if (size < from + STREAM_STEP || !content_in_sequence(c))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s)
		return false; /* the freeze will send it */
	if (len > STREAM_MOST)
		len = STREAM_MOST;
	if (content_hold(c) < 0) {
		free(s);
		return false;
	}
	*s = (struct stream){.m = m, .node = n, .content = content_ref(c), .stamp = content_stamp(c)};
	s->upload = (struct upload){.fd = content_fd(c), .off = from, .len = len, .by_content = true, .open_end = true,
				    .done = stream_done, .arg = s};
	n->file->streaming = true;
	lanes_upload(m->lanes, &s->upload);
	return true;
}

static void stream_done(struct upload *u)
{
	struct stream *s = u->arg;
	struct mount *m = s->m;
	struct file *f = s->node->file;
	struct content *c = s->content;

	mount_lock(m);
	f->streaming = false;
	/* A refusal (the bytes were changed since) costs a second look at them, nothing else. */
	if (u->rc == 0 && u->out.n)
		(void)content_map(c, s->stamp, u->off, &u->out);
	if (u->rc < 0 || !u->taken || !stream_start(m, s->node, c))
		node_release(&m->nodes, s->node);
	pthread_cond_broadcast(&m->arrived);
	mount_unlock(m);
	content_unhold(c);
	content_unref(c);
	extents_fini(&u->out);
	free(s);
}

void stream_kick(struct mount *m, struct node *n, struct content *c)
{
	if (content_size(c) - content_mapped(c) < STREAM_STEP)
		return;
	mount_lock(m);
	(void)stream_start(m, n, c);
	mount_unlock(m);
}
