/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mount: all state of the program hangs from this struct, made in fs/main.c.
 *
 * Threads: FUSE workers (ops.c -> ns.c, file.c), one committer (commit.c), lanes (lane/), one
 * control thread (ctl.c).  `lock` covers the namespace and every field below it; it is held for
 * memory operations and one journal write(2), never over the network.  Order: lock, then a content's own.
 */
#ifndef HOLDFAST_FS_MOUNT_H
#define HOLDFAST_FS_MOUNT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/notice/notice.h"
#include "fs/cache/content.h"
#include "fs/cache/journal.h"
#include "fs/ears.h"
#include "fs/lane/lane.h"
#include "fs/node.h"
#include "fs/past.h"
#include "fs/room.h"
#include "fs/track/seal.h"
#include "store/record.h"
#include "store/state.h"

enum follow { FOLLOW_DEFAULT, FOLLOW_GOOD, FOLLOW_NEWEST, FOLLOW_OFF };
enum warm { WARM_DEFAULT, WARM_NEWEST, WARM_NONE };
enum restore_from { RESTORE_GOOD, RESTORE_NEWEST, RESTORE_EMPTY, RESTORE_NUMBER };

struct mount_opts {
	const char *uri;
	const char *dir;
	char *cache; /* directory; NULL: chosen from the store id */
	uint64_t cache_size; /* bytes; 0: no limit but the disk's */
	bool fsync_remote;
	bool revert_killed; /* see revert.h */
	enum restore_from restore;
	uint64_t restore_number;
	enum follow follow;
	enum warm warm;
	bool read_only, takeover, unfenced, allow_other, foreground, debug;
	unsigned slot, slots, attempt;
	unsigned lanes;
	bool compress;
	bool full_gives_up;  /* a full cache's writers get ENOSPC after full_ns; else they wait as long as it can help */
	uint64_t full_ns;
	char *logs; /* patterns given, which policy.logs points at */
	char vfs[64]; /* words for the kernel, each with a comma before it: ",noexec,nosuid" */
	bool sync; /* each write as if fsync(2) followed it */
	/* What stat(2) shows in place of what is stored. */
	struct {
		bool has_uid, has_gid, has_mode;
		uid_t uid;
		gid_t gid;
		mode_t mode; /* 0777 without the umask */
	} shown;
	struct track_policy policy;
	char *metrics; /* a file for fs/publish.h; NULL: none */
	struct {
		enum notice_where where;
		char *file;
		uint64_t margin_ns; /* at most; 0: the usual one */
		/* whoever trains, see notice/call.h */
		char *exec;
		int signal;
		char *pid;
	} notice;
};

struct mount {
	/* fixed after mount_start() */
	struct mount_opts opts;
	const struct clock *clock;
	struct store *store;
	struct store_format format;
	struct lanes *lanes;
	int cache_fd;
	struct ballast *ballast; /* of the cache's disk */
	struct content_dir *contents;
	struct journal *journal;
	struct past *past; /* what is read and not kept */
	bool death_detection; /* exit codes of closers can be read */
	char host[64];
	uint8_t boot[16];    /* boot id: a cache outlives the daemon, not the kernel */
	int lock_fd;         /* flock on the cache */
	char socket[108];    /* the control socket's path */
	char story[128];     /* how it started, for people */
	struct ears ears;    /* has a lock of its own */
	uint64_t resumed_ns; /* what an earlier daemon did counts as done then, all at once */

	pthread_mutex_t lock;

	/* under lock: the namespace */
	struct nodes nodes;
	struct state *state; /* of the newest commit acknowledged; read-only: the one that is shown */
	uint64_t moves;      /* how often a mount that follows went to another state (fs/move.c) */
	uint64_t fence;
	uint64_t attempt_began; /* of a slot: the reset that its group began with */
	uint64_t next_inode, next_pack; /* counters, 34 bits */
	uint64_t inode_reserved, pack_reserved; /* the journal says that these may have been used */
	int read_only;       /* 0, or the errno that changes get */
	char why_read_only[256];
	bool cache_deleted;  /* changes get EIO; what was made before is committed as far as it is open */
	_Atomic(enum room) room; /* see room.h; looked at without the lock */
	_Atomic uint64_t room_looked_ns; /* as this */
	_Atomic uint64_t room_told_ns; /* when the disk was last said to be full */
	_Atomic uint64_t past_until_ns;  /* and this: see past.h */
	uint64_t room_hope_ns;   /* when it was last seen that waiting may help */
	unsigned room_wanted;    /* writers that wait for room */
	/* An entry could not be written: nothing changes until the journal is written anew.  Set without the lock too. */
	_Atomic bool journal_failed;
	uint64_t compacted_bytes; /* what the journal came to when it was last written anew */
	uint64_t compact_from_ns; /* not before */
	uint64_t last_change_ns; /* of names and attributes */
	uint64_t first_change_ns; /* of anything but a log, since the newest freeze; 0: none */
	uint64_t last_seal_ns;   /* of any file */
	int last_seal_tgid;

	/* the committer's: see commit.h */
	struct committer *committer;
	/* requests that wait: see park.h; NULL without a session */
	struct park *park;
	/* see follow.h; NULL: it does not */
	struct follower *follower;
	/* see revert.h; NULL: none */
	struct reverter *reverter;
	/* see warm.h; NULL: nothing is fetched before it is asked for */
	struct warmer *warmer;
	/* see notice/heed.h; NULL: there is nothing to flush */
	struct heed *heed;
	/* A notice runs: whatever is no part of the flush waits.  Set by the committer. */
	_Atomic bool flushing;
};

static inline bool mount_in_group(const struct mount *m)
{
	return m->opts.slots > 1;
}

/* Thread: any, under lock. */
uint64_t mount_new_inode(struct mount *m);
/* Of a directory: in a group the same in every slot that makes it, unless it is taken. */
uint64_t mount_new_dir(struct mount *m, uint64_t parent, const char *name);
/* Thread: any; takes the lock itself (lanes ask). */
uint64_t mount_new_pack(void *mount);

/*
 * The header of the record behind `number`: what all that this mount writes have in common, over `tree`.  The caller
 * adds fence, from and good.  Thread: that which writes to the log.
 */
struct record_head mount_next_head(const struct mount *m, const struct state *tree, enum record_kind kind, uint64_t number,
				   const struct hash128 *hash, uint64_t floor);

static inline uint64_t mount_now(const struct mount *m)
{
	return clock_mono(m->clock);
}
/* Under lock. */
static inline void mount_changed(struct mount *m, uint64_t now)
{
	if (!m->first_change_ns)
		m->first_change_ns = now;
}
static inline void mount_lock(struct mount *m)
{
	pthread_mutex_lock(&m->lock);
}
static inline void mount_unlock(struct mount *m)
{
	pthread_mutex_unlock(&m->lock);
}

/*
 * ---- fs/load.c: what is not in memory yet; blocks; called without the lock ----
 * What came of a state that a mount which follows has left meanwhile is asked for again.
 * -ESTALE: the store no longer has what the state names.
 */
int load_dir(struct mount *m, uint64_t id, struct fault *f);
int load_node(struct mount *m, uint64_t home, uint64_t id, struct fault *f);
/*
 * lock, with the directory there and loaded.  On success the lock is held and *out valid while it is;
 * on failure it is not held.  -ENOENT, -ENOTDIR, -EIO.
 */
int load_dir_lock(struct mount *m, uint64_t id, struct node **out);
/* lock, with both the name and its node there.  *out_name may be NULL with -ENOENT. */
int load_child_lock(struct mount *m, uint64_t dir_id, const char *name, struct node **dir, struct name **out_name,
		    struct node **out);

/* ---- fs/note.c: journal entries; under lock ---- */
struct note {
	struct buf entries;
};
#define NOTE_EMPTY ((struct note){.entries = BUF_EMPTY})
void note_name(struct note *w, const struct name *n);
void note_node(struct note *w, const struct node *n);
void note_content(struct note *w, const struct node *n, bool clean);
void note_dirty(struct note *w, const struct node *n);
/* view 0: live, as it is. */
void note_sealed(struct note *w, const struct node *n, uint32_t view, uint64_t size, const struct inode_attr *attr);
/* For a compaction: which ranges of a restored content are here; the sealed version; the counters. */
void note_present(struct note *w, const struct node *n);
void note_view(struct note *w, const struct node *n);
/* Bytes of c, a content of n, that are absent and not the base's.  Between the content and what of it is present. */
void note_referred(struct note *w, const struct node *n, struct content *c);
/* JOURNAL_PRESERVED, JOURNAL_PRESENT, JOURNAL_ABSENT (of no view). */
void note_range(struct note *w, enum journal_type type, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
		uint64_t len);
void note_mapped(struct note *w, uint64_t id, uint32_t version, uint32_t view, uint64_t off, const struct extent *e);
void note_unnamed(struct note *w, const struct node *n);
/* The content of a sealed version that is not the live one's.  Before note_content(). */
void note_older(struct note *w, const struct node *n);
/* All of that which holds of a file's content as it is. */
void note_file(struct note *w, const struct node *n);
void note_counters(struct note *w, uint64_t inodes, uint64_t packs);
void note_writer(struct note *w, const struct mount *m);
/* A slot's: which record's tree its changes lie over.  An item of a run as it is; value NULL: it is removed. */
void note_tree(struct note *w, uint64_t number);
void note_item(struct note *w, const void *key, size_t key_len, const struct buf *value);
/* Write them; ends w.  0 or the journal's error, which is sticky.  Thread: any. */
int note_done(struct mount *m, struct note *w);

#endif
