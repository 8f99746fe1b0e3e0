/* SPDX-License-Identifier: Apache-2.0 */
/* See stream.h. */
#include "fs/stream.h"

#include <errno.h>

#include "fs/commit.h"

#define STREAM_STEP (UINT64_C(8) << 20) /* worth an upload of its own */
/* In one.  A lane cuts it in one go and fills a pack with it: longer, and the others would have nothing to send meanwhile. */
#define STREAM_MOST (UINT64_C(16) << 20)

struct stream {
	struct upload upload;
	struct mount *m;
	struct node *node;
	struct content *content;
	uint64_t stamp;
	bool cut;
};

static void stream_cut(struct upload *u);
static void stream_done(struct upload *u);

/* One is cut at a time, for only then it is known where the next begins; those before it wait for the store. */
static bool stream_may_start(const struct mount *m, const struct node *n, const struct content *c)
{
	const struct file *f = n->file;

	return !f->stream_cutting && !(f->streaming && f->stream_of != c) && !m->read_only && f->live == c && n->names > 0;
}

/* Under lock.  True if an upload was started. */
static bool stream_start(struct mount *m, struct node *n, struct content *c)
{
	struct file *f = n->file;
	uint64_t from = f->streaming ? f->stream_at : content_mapped(c), size = content_size(c);
	struct stream *s;

	if (!stream_may_start(m, n, c) || size < from + STREAM_STEP || !content_in_sequence(c))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s || content_hold(c) < 0) {
		free(s);
		return false; /* the freeze will send it */
	}
	*s = (struct stream){.m = m, .node = n, .content = content_ref(c), .stamp = content_stamp(c)};
	s->upload = (struct upload){.fd = content_fd(c), .off = from,
				    .len = size - from < STREAM_MOST ? size - from : STREAM_MOST, .by_content = true,
				    .open_end = true, .cut = stream_cut, .done = stream_done, .arg = s};
	f->streaming++;
	f->stream_of = c;
	f->stream_cutting = true;
	lanes_upload(m->lanes, &s->upload);
	return true;
}

/* All of it is cut: what follows can be, while this is on its way. */
static void stream_cut(struct upload *u)
{
	struct stream *s = u->arg;
	struct file *f = s->node->file;

	mount_lock(s->m);
	s->cut = true;
	f->stream_cutting = false;
	f->stream_at = u->off + u->taken;
	if (u->taken)
		(void)stream_start(s->m, s->node, s->content);
	mount_unlock(s->m);
}

static void stream_done(struct upload *u)
{
	struct stream *s = u->arg;
	struct mount *m = s->m;
	struct file *f = s->node->file;
	struct content *c = s->content;
	bool last;

	mount_lock(m);
	last = --f->streaming == 0;
	if (!s->cut)
		f->stream_cutting = false;
	/* A refusal (the bytes were changed since) costs a second look at them, nothing else. */
	if (u->rc == 0 && u->out.n)
		(void)content_map(c, s->stamp, u->off, &u->out);
	if (u->rc < 0 || !u->taken || !stream_start(m, s->node, c))
		node_release(&m->nodes, s->node);
	mount_unlock(m);
	if (last)
		committer_kick(m); /* a freeze waits for it */
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
