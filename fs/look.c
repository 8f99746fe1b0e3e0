/* SPDX-License-Identifier: Apache-2.0 */
/* See look.h. */
#include "fs/look.h"

#include <stdio.h>

#include "base/log.h"
#include "fs/file.h"
#include "fs/track/whole.h"

#define BATCH 64

static ssize_t read_content(void *arg, void *data, size_t len, uint64_t off)
{
	return content_read(arg, data, len, off); /* absent: the store has it, so it was whole once */
}

const char *look_at(struct content *c)
{
	struct whole_source s = {.read = read_content, .arg = c, .size = content_size(c)};
	const char *why = NULL;
	bool torn;

	if (content_hold(c) < 0)
		return NULL;
	torn = whole_look(&s, &why) == WHOLE_TORN;
	content_unhold(c);
	return torn ? why : NULL;
}

/* ---- ahead of a freeze ---- */

/* One file, looked at without the lock. */
struct look {
	struct node *node;
	struct content *content;
	uint64_t written_ns; /* by this its bytes are known to be the same still */
	const char *torn;
};

static size_t take_some(struct mount *m, struct look *v, uint64_t now)
{
	size_t n = 0;

	for (struct list *l = m->nodes.dirty_nodes.next; n < BATCH && l != &m->nodes.dirty_nodes; l = l->next) {
		struct node *x = node_of_dirty(l);

		if (!x->file || x->names == 0 || !file_wants_look(m, x, now) || file_is_log(m, x, now))
			continue;
		x->pins++;
		v[n++] = (struct look){.node = x, .content = content_ref(x->file->live),
				       .written_ns = x->file->facts.last_write_ns};
	}
	return n;
}

static void put_back(struct mount *m, struct look *x, uint64_t now)
{
	struct file *f = x->node->file;

	if (f->live == x->content && f->facts.last_write_ns == x->written_ns && file_wants_look(m, x->node, now))
		file_looked(x->node, x->torn);
	x->node->pins--;
	node_release(&m->nodes, x->node);
	content_unref(x->content);
}

/* Returns how many there were. */
static size_t look_at_some(struct mount *m)
{
	struct look v[BATCH];
	size_t n;

	mount_lock(m);
	n = take_some(m, v, mount_now(m));
	mount_unlock(m);
	for (size_t i = 0; i < n; i++)
		v[i].torn = look_at(v[i].content);
	mount_lock(m);
	for (size_t i = 0; i < n; i++)
		put_back(m, &v[i], mount_now(m));
	mount_unlock(m);
	return n;
}

/* ---- telling ---- */

static bool is_torn(const struct node *n)
{
	return n->file && n->names && file_torn(n);
}

bool look_torn(const struct mount *m, char *out, size_t out_size)
{
	for (struct list *l = m->nodes.dirty_nodes.next; l != &m->nodes.dirty_nodes; l = l->next) {
		const struct node *n = node_of_dirty(l);

		if (is_torn(n)) {
			(void)snprintf(out, out_size, "%s: %s", node_name(n), file_torn(n));
			return true;
		}
	}
	return false;
}

/* Each time it is closed so, and outside the lock: syslog may be slow. */
static bool tell_one(struct mount *m)
{
	char name[NAME_MAX_BYTES + 1];
	const char *torn = NULL;

	mount_lock(m);
	for (struct list *l = m->nodes.dirty_nodes.next; !torn && l != &m->nodes.dirty_nodes; l = l->next) {
		struct node *n = node_of_dirty(l);

		if (!is_torn(n) || n->file->torn_told)
			continue;
		n->file->torn_told = true;
		torn = file_torn(n);
		(void)snprintf(name, sizeof(name), "%s", node_name(n));
	}
	mount_unlock(m);
	if (torn)
		log_warn("%s: %s; the store keeps what it was before, until it is written anew or synced with sync(1)", name,
			 torn);
	return torn;
}

void look_ahead(struct mount *m)
{
	while (look_at_some(m) == BATCH)
		;
	while (tell_one(m))
		;
}
