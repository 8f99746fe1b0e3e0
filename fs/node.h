/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and names: the namespace in memory.  A table of inodes by id, and in each directory a
 * table of names.  Every one of them carries two values: what is *live* (what a caller of the mount
 * sees) and its *base* (what the newest commit that was started says).  Where the two differ, or may,
 * the name or node is on a dirty list; a freeze walks these lists and nothing else.
 *
 * I1: a name or node that is not dirty has live == base.
 * I2: a node stays while the kernel knows it (lookups), it is open, dirty, or holds a content here.  A
 *     directory stays with all its names: while one of them is dirty, or a directory in it is in memory, too.
 * I3: `links` counts the names of a node in the base; a record is removed when it would reach 0.
 * I4: a version of a file that is open while a mount that follows meets another stays a node of its own:
 * the newer one gets an id that no store gives out, and `newer` leads to it from the store's id.
 *
 * Thread: everything here is under the mount's lock.
 */
#ifndef HOLDFAST_FS_NODE_H
#define HOLDFAST_FS_NODE_H

#include <uthash.h>

#include "fs/cache/content.h"
#include "fs/track/seal.h"
#include "store/run.h"

struct node;

struct list {
	struct list *prev, *next;
};
void list_init(struct list *l);
bool list_on(const struct list *l); /* is on a list (or is a list that is not empty) */
void list_append(struct list *head, struct list *l);
void list_remove(struct list *l); /* no harm if it is on none */
size_t list_length(const struct list *head);

struct name {
	struct node *dir;
	uint64_t id; /* live: 0 = no such name (kept while the base has it) */
	uint64_t home;
	uint8_t type;
	/*
	 * The base's name was unlinked or moved away, so a freeze may not keep it where the live inode
	 * was never sealed.  (A rename over it leaves this false: the old file stays until then.)
	 */
	bool cut;
	struct name_rec base; /* id 0 = the base has no such name */
	uint64_t changed_seq; /* of the mount's change counter */
	uint64_t appeared_ns; /* monotonic: when it last got its inode; 0 = was there when loaded */
	struct list dirty;
	UT_hash_handle hh;
	uint8_t len;
	char text[]; /* not NUL-ended in the hash's eye, but a NUL follows */
};

/* Regular files: whose bytes are whose.  See fs/file.h. */
struct file {
	struct content *live;  /* NULL: all of it in the store as `stored` says, never opened here */
	struct extents stored; /* the base's content */
	uint64_t stored_size;
	int64_t stored_mtime_ns;
	struct view *sealed; /* last sealed version, where it is not the base's; NULL else */
	struct inode_attr sealed_attr;
	bool fresh;           /* made, and not opened for writing yet: whole as it is, empty */
	bool damaged;         /* the cache lost bytes that only it had: EIO until it is rewritten */
	bool held;            /* live's file is kept open, since a handle is */
	bool stale;           /* live is an older version than `stored`, and goes when nobody reads it any more */
	bool live_is_sealed;  /* `sealed` is what live still holds */
	bool changed;         /* live differs from the base's content */
	uint32_t version;     /* of the newest content made */
	/* what seal.h judges by */
	struct seal_facts facts; /* newest_other_seal_ns is filled when it is asked */
	bool looked;              /* ... whether it is torn too, since it was written last */
	const char *torn_why;     /* a constant, while facts.torn */
	bool torn_told;           /* the log has it */
	bool stays_killed;        /* it could not go back to what it was (revert.h) */
	uint64_t append_since_ns; /* all open writers have O_APPEND since then */
	unsigned appenders;   /* of facts.writers_open */
	unsigned writing;     /* writes under way */
	bool only_grown;      /* since it was last sealed */
	bool past_cache;      /* written by a direct handle since the kernel's pages were last dropped */
	pid_t writer_tid, writer_tgid; /* who wrote last */
	uint64_t first_seal_ns; /* when a version of it was first sealed here */
	/* streaming */
	unsigned streaming;   /* uploads of a content under way, while it is written */
	const struct content *stream_of; /* ... and whose they are */
	uint64_t stream_at;   /* where the next one begins */
	bool stream_cutting;  /* the newest of them is not all cut yet: stream_at is not known */
	/* eviction */
	uint64_t used_ns;     /* when it was last closed */
	uint64_t hand;        /* up to here its chunks were given up last */
	/* hydration */
	struct ranges fetching; /* on its way */
	struct list awaited;    /* struct awaited: who waits for some of it */
};

struct node {
	uint64_t id, home; /* id: what the kernel calls it */
	uint64_t ino;      /* what the store calls it: id but for a newer version (I4) */
	struct node *newer, *older;
	struct inode_attr attr; /* live; a regular file's size is its live content's */
	char *symlink;
	struct xattr *xattrs;
	uint32_t xattr_n;
	uint64_t lookups;
	unsigned opens;
	unsigned pins; /* by a commit in flight, a fetch, or a call under way */
	unsigned names; /* live names that lead here (of a directory: 1, or 0 once removed) */
	char *name;     /* the newest seen of them: what messages call it, logs are told by it */
	uint64_t name_dir; /* the directory it is in */
	/* base */
	unsigned links;        /* names in the base */
	int delta;             /* a freeze's: by how much links will change */
	uint32_t segments;     /* of its record in the base; 0 = has none */
	uint64_t changed_seq;
	struct list dirty;
	bool attr_dirty;       /* the record differs from the base's, content apart */
	/* directories */
	struct name *table;
	bool loaded;           /* every name of the base is in the table */
	unsigned inner;        /* directories in memory whose parent it is */
	uint64_t parent;       /* directories only; set by node_set_parent(): the id, as it may outlive its parent; the root's is its own */
	/* regular files */
	struct file *file;
	UT_hash_handle hh;
};

struct nodes {
	struct node *by_id;
	struct list dirty_names, dirty_nodes;
	struct list handles; /* open files: struct handle */
	uint64_t seq; /* change counter: moments and syncs compare against it */
	size_t name_n;
	size_t dropped; /* nodes, since their memory was last given back to the system */
	uint64_t versions; /* made by node_newer() */
};

/* What stands on the dirty lists. */
#define name_of_dirty(l) ((struct name *)((char *)(l) - offsetof(struct name, dirty)))
#define node_of_dirty(l) ((struct node *)((char *)(l) - offsetof(struct node, dirty)))

void nodes_init(struct nodes *t);
bool nodes_all_clean(const struct nodes *t); /* nothing may differ from the base */
void nodes_fini(struct nodes *t); /* frees every node and name; contents are unreferenced */

struct node *node_find(struct nodes *t, uint64_t id);
/* The newest version of what the store calls `ino` (I4). */
struct node *node_current(struct nodes *t, uint64_t ino);
/* The directory that a directory is in; NULL for the root, and where it is gone. */
struct node *node_parent(struct nodes *t, const struct node *dir);
/* A directory lies in another one, which is in memory. */
void node_set_parent(struct nodes *t, struct node *n, struct node *dir);
/* A new node in the table; NULL: no memory.  Regular files get a struct file. */
struct node *node_make(struct nodes *t, uint64_t id, uint64_t home, const struct inode_attr *attr);
/* From a record of the base: takes symlink, xattrs and extents over. */
struct node *node_from_record(struct nodes *t, struct inode_rec *rec);
/*
 * A newer version of a file, n, that stays as it is (I4): as node_from_record().  The names lead to it from
 * now on.
 */
struct node *node_newer(struct nodes *t, struct node *n, struct inode_rec *rec);
/* Let it go if I2 allows, and the directories above that were waiting for it.  A directory: looks at all its names. */
void node_release(struct nodes *t, struct node *n);
/* Of all there are.  Short of memory they stay. */
void nodes_release(struct nodes *t);
static inline bool node_is_dir(const struct node *n)
{
	return (n->attr.mode & 0170000) == 0040000;
}
uint8_t node_type(const struct node *n); /* DT_* */

struct name *name_find(struct node *dir, const char *text, size_t len);
/* Found or made (live id 0, base id 0); NULL: no memory. */
struct name *name_get(struct nodes *t, struct node *dir, const char *text, size_t len);
/* Drop a name that is neither live nor in the base nor dirty. */
void name_release(struct nodes *t, struct name *n);

void name_touch(struct nodes *t, struct name *n); /* on the dirty list, new seq */
void node_touch(struct nodes *t, struct node *n);

/* Remember a name of it; short of memory the older one stays. */
void node_named(struct node *n, uint64_t dir, const char *text);
const char *node_name(const struct node *n); /* never NULL */

struct xattr *xattr_find(struct node *n, const char *name);
int xattrs_copy(const struct xattr *from, uint32_t n, struct xattr **out);
void xattrs_free(struct xattr *v, uint32_t n);

#endif
