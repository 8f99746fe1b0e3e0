/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: one append-only file in the cache directory that says what changed since the
 * last acknowledged commit.  An entry is handed to the kernel before the call that caused it is
 * answered, so a killed daemon loses nothing; fsync makes it stand a power cut.
 *
 * Layout: "HFJ1", then entries: length (u32 of type and body), CRC32C (u32 of type and body),
 * type (u8), body.
 * A torn end was never answered, and is cut off.  A wrong entry with whole ones behind it is damage:
 * it is told of as a gap, and the file stays as it is until the caller writes it anew.
 * Compaction writes a new file beside it, fsyncs, renames over.
 *
 * Why not SQLite: an entry of 200 bytes takes 0.34 us here, a one-row transaction (3.40, WAL,
 * synchronous=OFF, prepared) 4.4 us: medians of 5 x 20 000 on one machine, ext4.
 *
 * Thread: any; one lock inside, held for one write(2).
 */
#ifndef HOLDFAST_FS_CACHE_JOURNAL_H
#define HOLDFAST_FS_CACHE_JOURNAL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/fault.h"
#include "fs/cache/ballast.h"

struct journal;

enum journal_type {
	JOURNAL_GAP = 0, /* in no file: told of where entries are missing, or the magic is */
	/* who: store id, fence, slot, boot id, base commit; first entry of every file */
	JOURNAL_WRITER = 1,
	JOURNAL_SET = 2,       /* a run item as it now is: key, value */
	JOURNAL_REMOVE = 3,    /* key */
	JOURNAL_CONTENT = 4,   /* inode id has content version v; flags */
	JOURNAL_SEALED = 5,    /* id, version, view number, size, times */
	JOURNAL_PRESERVED = 6, /* id, version, view number, off, len */
	JOURNAL_PRESENT = 7,   /* id, version, off, len */
	JOURNAL_COUNTER = 10,  /* ids and pack names below this may have been used */
	JOURNAL_DIRTY = 11,    /* id, has it only grown: open for writing; its size and times are the file's own */
	/*
	 * id, version, view number, off, extent: bytes of the view that only the store has; view 0: of the
	 * content, which are absent from now on
	 */
	JOURNAL_MAPPED = 13,
	JOURNAL_UNNAMED = 14, /* id: its named version is in the store */
	JOURNAL_TREE = 15,    /* of a slot: the record whose tree the entries lie over, all before and behind it */
	JOURNAL_ABSENT = 16,  /* id, version, off, len: given up, the store has them */
};

/*
 * Opens or makes `name` under dirfd; each(arg, type, body, len) for every whole entry, in
 * order, and JOURNAL_GAP between two that did not follow each other; the file is cut behind the last
 * whole one.  *torn (may be NULL): bytes cut off.
 * `ballast` (may be NULL) is what it takes when the disk is full; it outlives the journal.
 * Fails: -EBADMSG no journal of ours; -EISDIR; what each() refused with (the file stays as it was).
 */
int journal_open(int dirfd, const char *name, struct ballast *ballast,
		 int (*each)(void *arg, uint8_t type, const uint8_t *body, size_t len), void *arg,
		 struct journal **out, uint64_t *torn, struct fault *f);
void journal_close(struct journal *j);
SCOPE_PTR(struct journal, journal_close)

/*
 * One entry, one write(2).  Sticky error: after a failed write every later add fails until a
 * rewrite works.
 */
int journal_add(struct journal *j, uint8_t type, const void *body, size_t len);
/* Several entries in one write(2): `entries` was filled by journal_entry(). */
void journal_entry(struct buf *entries, uint8_t type, const void *body, size_t len);
int journal_add_many(struct journal *j, const struct buf *entries);
/*
 * Everything added before the call is on disk when it returns 0.  Concurrent callers share one
 * fdatasync.
 */
int journal_sync(struct journal *j);
uint64_t journal_bytes(const struct journal *j);
/* Where the journal ends now: what is added later lies behind it. */
uint64_t journal_mark(struct journal *j);
/*
 * Compaction: the content becomes `entries` (made by the caller since it took `mark`, with no
 * lock of the journal held), and behind them what was added since `mark`.  Entries are absolute
 * values, so telling something twice does no harm.  The bulk is written and fsynced beside the
 * old file without blocking adds; then the tail, fsync, rename.  The journal is as it was on
 * failure.
 */
int journal_rewrite(struct journal *j, uint64_t mark, const struct buf *entries, struct fault *f);

#endif
