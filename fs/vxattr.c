/* SPDX-License-Identifier: Apache-2.0 */
/* See vxattr.h. */
#include "fs/vxattr.h"

#include <errno.h>
#include <string.h>

#include "fs/commit.h"
#include "fs/file.h"

#define PREFIX "user.holdfast."

bool vxattr_is(const char *name)
{
	return strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0;
}

/* Under the lock. */
static const char *state_locked(const struct mount *m, const struct node *n, uint64_t now, bool all_good)
{
	const struct file *f = n->file;

	if (f && file_is_log(m, n, now))
		return "log";
	if (f && !file_is_sealed(m, n, now))
		return "open";
	if (list_on(&n->dirty) || (f && f->changed))
		return "sealed";
	return all_good ? "durable" : "sent";
}

/* Of inode `id`; NULL: there is none. */
static const char *state_of(struct mount *m, uint64_t id, uint64_t now)
{
	const char *what = NULL;
	struct commit_status s;
	struct node *n;

	committer_status(m, &s);
	mount_lock(m);
	n = node_find(&m->nodes, id);
	if (n)
		what = state_locked(m, n, now, s.good == s.commit);
	mount_unlock(m);
	return what;
}

bool vxattr_waits(const char *name, size_t size)
{
	return size && strcmp(name, PREFIX "sync") == 0;
}

ssize_t vxattr_get(struct mount *m, uint64_t id, const char *name, char *value, size_t size)
{
	const char *what = name + sizeof(PREFIX) - 1;
	size_t len;

	if (strcmp(what, "sync") == 0 && !size)
		return 16; /* long enough for any state; the wait comes with the value */
	if (strcmp(what, "socket") == 0) {
		what = m->socket;
	} else if (strcmp(what, "state") == 0 || strcmp(what, "sync") == 0) {
		what = state_of(m, id, mount_now(m));
		if (!what)
			return -ENOENT;
	} else {
		return -ENODATA;
	}
	len = strlen(what);
	if (size && size < len)
		return -ERANGE;
	if (size)
		memcpy(value, what, len);
	return (ssize_t)len;
}
