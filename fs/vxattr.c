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

static const char *state_of(struct mount *m, const struct node *n, uint64_t now)
{
	struct commit_status s;
	bool good;

	committer_status(m, &s);
	good = s.good == s.commit;
	mount_lock(m);
	if (n->file && n->file->changed && !file_is_sealed(m, n, now))
		good = false;
	mount_unlock(m);
	if (n->file && file_is_log(m, n, now))
		return "log";
	if (n->file && !file_is_sealed(m, n, now))
		return "open";
	if (list_on(&n->dirty) || (n->file && n->file->changed))
		return "sealed";
	return good ? "durable" : "sent";
}

ssize_t vxattr_get(struct mount *m, uint64_t id, const char *name, char *value, size_t size)
{
	const char *what = name + sizeof(PREFIX) - 1;
	struct fault f = FAULT_NONE;
	struct node *n;
	size_t len;
	int rc;

	if (strcmp(what, "sync") == 0 && size) {
		rc = committer_sync(m, 0, &f);
		if (rc < 0)
			return rc;
	} else if (strcmp(what, "sync") == 0) {
		return 16; /* long enough for any state; the wait comes with the value */
	}
	if (strcmp(what, "socket") == 0) {
		what = m->socket;
	} else if (strcmp(what, "state") == 0 || strcmp(what, "sync") == 0) {
		mount_lock(m);
		n = node_find(&m->nodes, id);
		mount_unlock(m);
		if (!n)
			return -ENOENT;
		what = state_of(m, n, mount_now(m));
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
