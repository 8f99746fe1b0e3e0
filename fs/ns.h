/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespace as a caller of the mount sees it.  Every function takes the mount's lock itself and
 * may first wait for what is not in memory.  Returns 0 or a negative errno.  Thread: any.
 * A change is in the journal before the function returns.
 */
#ifndef HOLDFAST_FS_NS_H
#define HOLDFAST_FS_NS_H

#include "fs/mount.h"

struct ns_attr {
	uint64_t id;  /* what the kernel is to call it */
	uint64_t ino; /* what callers see: of all versions of a file the same */
	struct inode_attr attr;
};

struct ns_cred {
	uid_t uid;
	gid_t gid;
};

/* lookup, create, link count one kernel reference; forget gives them back. */
int ns_lookup(struct mount *m, uint64_t dir, const char *name, struct ns_attr *out);
void ns_forget(struct mount *m, uint64_t id, uint64_t count);
int ns_getattr(struct mount *m, uint64_t id, struct ns_attr *out);

enum ns_set {
	NS_SET_MODE = 1 << 0,
	NS_SET_UID = 1 << 1,
	NS_SET_GID = 1 << 2,
	NS_SET_ATIME = 1 << 3,
	NS_SET_MTIME = 1 << 4,
	NS_SET_CTIME = 1 << 5,
	NS_SET_KILL_PRIV = 1 << 6, /* drop set-uid and set-gid bits */
};
/* Attributes but the size, which is file_truncate()'s. */
int ns_setattr(struct mount *m, uint64_t id, unsigned set, const struct inode_attr *to, struct ns_attr *out);

/* mode with its type; `target` of a symlink.  -EEXIST, -ENAMETOOLONG, -EROFS … */
int ns_make(struct mount *m, uint64_t dir, const char *name, mode_t mode, dev_t rdev, const char *target,
	    struct ns_cred who, struct ns_attr *out);
int ns_link(struct mount *m, uint64_t id, uint64_t dir, const char *name, struct ns_attr *out);
int ns_unlink(struct mount *m, uint64_t dir, const char *name);
int ns_rmdir(struct mount *m, uint64_t dir, const char *name);
/* flags: 0, RENAME_NOREPLACE, RENAME_EXCHANGE */
int ns_rename(struct mount *m, uint64_t dir, const char *name, uint64_t to_dir, const char *to_name, unsigned flags);
/* Under lock: e, a name of the file n, leads to `to` from now on, or (NULL) nowhere. */
int ns_name_back(struct mount *m, struct name *e, struct node *n, struct node *to);
/* *out is the caller's. */
int ns_readlink(struct mount *m, uint64_t id, char **out);

/* A directory as it is now: what one opendir reads, whatever is unlinked meanwhile. */
struct ns_listing {
	struct ns_entry {
		uint64_t id;
		uint8_t type;
		char *name;
	} *v;
	size_t n;
	uint64_t dir, parent;
	bool read; /* the reader's own: something of it was read */
};
int ns_list(struct mount *m, uint64_t dir, struct ns_listing *out);
void ns_listing_fini(struct ns_listing *l);
SCOPE_VAL(struct ns_listing, ns_listing_fini)

/* As the calls of the same name: size 0 asks for the length. */
ssize_t ns_getxattr(struct mount *m, uint64_t id, const char *name, char *value, size_t size);
ssize_t ns_listxattr(struct mount *m, uint64_t id, char *list, size_t size);
int ns_setxattr(struct mount *m, uint64_t id, const char *name, const char *value, size_t size, int flags);
int ns_removexattr(struct mount *m, uint64_t id, const char *name);

/* Entries and inodes, for statfs and status. */
void ns_counts(struct mount *m, uint64_t *names, uint64_t *nodes);

#endif
