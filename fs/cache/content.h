/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents: the bytes of one version of one inode, a plain file ID.VERSION in the cache
 * directory, and views: names for what it held at an instant.
 *
 *   content  a file, and
 *            `absent`: ranges whose bytes are not in it yet;
 *            `map`: ranges whose bytes the store has, as extents with places ("clean" ranges).  A
 *            write takes its range out.  Absent bytes are always in it: there they come from.
 *   view     an immutable (content, size) at one instant.  A later write or truncate of bytes
 *            that a view needs copies them into the view's side file first (a reflink where the
 *            file system can); bytes that the store has by the view's own map need no copy.
 *
 * Order in a write, which readers of views rely on: side copy, side range noted, only then the
 * file.  A reader reads the file first and looks at the side ranges after (view_patch).
 *
 * I1: bytes of a view never change.  I2: bytes are in the file before they stop being absent.
 * I3: an extent in a map matches the bytes for as long as it is there.  (I4, I5: content_priv.h)
 *
 * Thread: any; each content has one lock, held for one file operation.  Contents and views are
 * reference-counted; the file goes when the last reference does, unless content_dir_keep() was
 * called.
 */
#ifndef HOLDFAST_FS_CACHE_CONTENT_H
#define HOLDFAST_FS_CACHE_CONTENT_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/fault.h"
#include "fs/cache/ballast.h"
#include "fs/cache/range.h"
#include "store/extent.h"

struct content_dir; /* the folder of contents, an fd and counters */
struct content;
struct view;
struct need; /* below */

/* ---- the folder ---- */
/* In dirfd/contents, made if absent. */
/* `ballast` (may be NULL) is what a new file's name takes on a full disk; it outlives the folder. */
int content_dir_open(int dirfd, struct ballast *ballast, struct content_dir **out, struct fault *f);
void content_dir_free(struct content_dir *d);
SCOPE_PTR(struct content_dir, content_dir_free)
/* Allocated on disk: an estimate kept by writes. */
uint64_t content_dir_bytes(const struct content_dir *d);
/* From now on no content and no side file is deleted: the cache is to go on without us. */
void content_dir_keep(struct content_dir *d);
/*
 * Somebody deleted the folder under us.  A file that has no name any more lives as long as it is open:
 * from now on none is closed before its content ends.  Noticed here too, where a file is missed; calls
 * fail with -EIO then.
 */
void content_dir_deleted(struct content_dir *d);
bool content_dir_is_deleted(const struct content_dir *d);
/*
 * Delete files that no live content names (after a replay).  keep(arg, id, version), asked of those
 * only, says which stay, or moves one away; NULL: none.
 */
int content_dir_sweep(struct content_dir *d, bool (*keep)(void *arg, uint64_t id, uint32_t version),
		      void *arg);

/*
 * Notes for the journal, called under the content's lock.  All may be NULL.
 *   absent     before bytes that are there are given up; 0 or a negative errno: they stay
 *   preserved  before bytes of a view change: its side file has them now
 *   mapped     before bytes of a view change that only the store has from then on (e is lent)
 *   present    after bytes are there; before a file first grows over its old end (to UINT64_MAX)
 * With view 0 `mapped` is of the content itself, see content_refer().  Those of views are told of the newest view only: an older one belongs to a commit in flight,
 * which a restart makes anew from the newest.
 */
struct content_notes {
	void (*preserved)(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
			  uint64_t len);
	void (*mapped)(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
		       const struct extent *e);
	void (*present)(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len);
	int (*absent)(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len);
	void *arg;
};
void content_dir_notes(struct content_dir *d, const struct content_notes *notes);

/* ---- contents ---- */
/* An empty one, all of it present. */
int content_new(struct content_dir *d, uint64_t id, uint32_t version, struct content **out,
		struct fault *f);
/* One whose bytes are in the store: all absent, and in the map.  `extents` are copied. */
int content_of_extents(struct content_dir *d, uint64_t id, uint32_t version,
		       const struct extents *extents, uint64_t size, struct content **out,
		       struct fault *f);
/*
 * After a replay: the file exists; its size is its own; present as told (NULL: all).  `base`
 * says where absent bytes come from, but for those that `referred` (NULL: none) has, which was
 * told of later; the map has nothing else until content_map() says so.
 * -ENOENT: no such file.
 */
struct map;
int content_adopt(struct content_dir *d, uint64_t id, uint32_t version, const struct extents *base,
		  const struct map *referred, const struct ranges *present, struct content **out,
		  struct fault *f);
/*
 * The store has a longer version of a content that nobody here ever wrote: from `from` on, where an
 * extent of the new list begins, its bytes lie where `extents` (the whole list) says; what is here
 * stays.  The caller knows that below the old size both are the same.  0 or a negative errno, and then
 * the content is of no use: its map may lack what is absent.
 */
int content_extend(struct content *c, uint64_t from, const struct extents *extents, uint64_t size);
struct content *content_ref(struct content *c);
void content_unref(struct content *c);
SCOPE_PTR(struct content, content_unref)

uint64_t content_id(const struct content *c);
uint32_t content_version(const struct content *c);
uint64_t content_size(struct content *c);
/*
 * A cache may hold more contents than a process may open files: a content's file is open while
 * somebody holds it.  Everything below works without a hold as well (and leaves the file open
 * until the next unhold), but content_fd() and content_sync() need one.  hold: the fd, O_RDWR,
 * or a negative errno.
 * -EUCLEAN, of anything that needs the file: it is gone, shorter than it should be, or cannot be read.  Bytes that
 * others have changed in it are not told from ours.
 */
int content_hold(struct content *c);
void content_unhold(struct content *c);
void content_rest(struct content *c); /* close it if nobody holds it */
int content_check(struct content *c);  /* 0 or -EUCLEAN; may open it */
int content_fd(const struct content *c);

/*
 * Whole write or a negative errno.  -ENODATA: part of an absent chunk would be left: fetch what
 * content_needs() says for this write first.  Failed half-way, the size is as before and each
 * byte is the old or the new one; if a view's bytes could not be preserved, nothing has
 * changed.  append: off is ignored, *out_off says where it went.
 */
ssize_t content_write(struct content *c, const void *data, size_t len, uint64_t off, bool append,
		      uint64_t *out_off);
/* -ENODATA: the new end cuts a chunk that is absent: fetch the byte before the end, then again. */
int content_truncate(struct content *c, uint64_t size);
/*
 * fallocate() of mode 0, KEEP_SIZE, PUNCH_HOLE or ZERO_RANGE.  -ENODATA: as content_write();
 * -EOPNOTSUPP: another mode, or one that the file system lacks.
 */
int content_allocate(struct content *c, uint64_t off, uint64_t len, int mode);
/* Bytes read (short only at end of file); -ENODATA if a byte is absent: fetch, then again. */
ssize_t content_read(struct content *c, void *data, size_t len, uint64_t off);
/*
 * The same, where nothing is to be filled: lend(arg, e, from, to, len) copies `len` bytes of chunk e, from `from` on,
 * of what is absent; 0, or -ENODATA, which this says then.  Called under the content's lock.
 */
ssize_t content_read_lent(struct content *c, void *data, size_t len, uint64_t off,
			  int (*lend)(void *arg, const struct extent *e, uint64_t from, uint8_t *to, size_t len),
			  void *arg);
/* SEEK_DATA, SEEK_HOLE; absent bytes are data unless they are known to be zeros. */
off_t content_seek(struct content *c, off_t off, int whence);
int content_sync(struct content *c);

/*
 * What must be fetched before [off, off+len) can be read (or, for_write, partly overwritten;
 * chunks that the range covers whole are not needed then).  Fills *out with copies of chunks
 * and their offsets; the caller ends it.  Runs of zeros and inline bytes are filled here and
 * now.  n = 0: nothing to fetch.  -ENOSPC: there was no room for those, and nothing is to be fetched.
 */
struct need {
	struct extents extents; /* not adjacent: offs[i] is the offset of extents.v[i] */
	uint64_t *offs;
	size_t n;
};
int content_needs(struct content *c, uint64_t off, uint64_t len, bool for_write, struct need *out);
int need_add(struct need *n, uint64_t off, const struct extent *e); /* a copy of it */
void need_fini(struct need *n);
SCOPE_VAL(struct need, need_fini)
/*
 * Fetched bytes are handed over, never written behind the content's back: a write that came
 * meanwhile wins, absent bytes only are filled.  0 or a negative errno.
 */
int content_fill(struct content *c, const void *data, size_t len, uint64_t off);
bool content_is_whole(struct content *c); /* every byte present */
uint64_t content_bytes(struct content *c); /* allocated on disk, about */

/*
 * Make room: of the chunks v[0..n), sorted, those become absent that are here, that the store has as v says, and
 * that no view needs.  The caller knows that nobody who reads content_fd() by himself (an upload) wants them.
 * Cheap: memory and one note.  0 or a negative errno, and then less has gone.
 */
struct map_entry;
int content_give_up(struct content *c, const struct map_entry *v, size_t n);
/* Give back the blocks of what content_give_up() made absent.  May wait for the disk. */
int content_punch(struct content *c);

bool content_has(struct content *c, uint64_t from, uint64_t to); /* every byte of [from, to) present */

/* ---- references: a copy that moves no byte ---- */
/*
 * The first run of adjacent extents of [off, off+len) that the store has, whole, as the content
 * is now: copies, and *at: its offset.  n = 0: none, and *at = off+len.  Short ones whose bytes
 * are here are left out, since they are cheaper to copy than to fetch.
 */
int content_stored(struct content *c, uint64_t off, uint64_t len, uint64_t *at,
		   struct extents *out);
/*
 * From now on the bytes from `off` on are those of x, absent.  A change as a write is: views keep
 * what they had, -ENODATA as content_write().  Failed, nothing has changed.
 */
int content_refer(struct content *c, uint64_t off, const struct extents *x);
/* For the journal's compaction: what of it is absent still. */
int content_referred(struct content *c, struct need *out);

/* ---- streaming: what an uploader may take while the file is written ---- */
/*
 * true while every write so far was at the end (an overwrite or truncation ends that until
 * content is whole again).
 */
bool content_in_sequence(struct content *c);
/* First byte that `map` does not cover, counted from 0; streaming goes on from there. */
uint64_t content_mapped(struct content *c);
/*
 * Note a read of [off, off+len) about to be done; content_map() for it fails with -ESTALE if a
 * write met it since.
 */
uint64_t content_stamp(struct content *c);
/*
 * Extents that now lie in the store, for [off, …), read after `stamp`.  Copies.  Views that
 * hold the same bytes learn of them too.  -ESTALE also after more writes over old bytes than
 * are remembered (64).
 */
int content_map(struct content *c, uint64_t stamp, uint64_t off, const struct extents *x);

/* ---- views ---- */
/* Name what the content holds now.  Cheap: nothing is copied, the map is shared. */
int content_view(struct content *c, struct view **out);
/*
 * After a replay: a view of `size` bytes, of which its side file has these ranges (n = 0: there is
 * none), the store alone has `mapped`, as the journal was told, and the content has the rest.
 * -EBADMSG: some of it is nowhere.  -ENOENT: the side file has gone.
 */
int view_adopt(struct content *c, uint32_t number, uint64_t size, const struct ranges *side,
	       const struct need *mapped, struct view **out);
/*
 * For the journal's compaction: copies of what was told by `preserved`, by `mapped` and by
 * `present`.
 */
int view_side(struct view *v, struct ranges *out);
int view_mapped(struct view *v, struct need *out);
int content_present(struct content *c, struct ranges *out);
struct view *view_ref(struct view *v);
void view_unref(struct view *v); /* the last one deletes the side file */
SCOPE_PTR(struct view, view_unref)
struct content *view_content(const struct view *v);
uint64_t view_size(const struct view *v);
uint32_t view_number(const struct view *v); /* unique in its content */
/* The next range at or after `from` that the view's map lacks; false: all of it is in the store. */
bool view_unmapped(struct view *v, uint64_t from, struct range *out);
/* Overlay on bytes read from content_fd(): see the order above. */
int view_patch(struct view *v, uint8_t *data, size_t len, uint64_t off);
/* Would view_patch() overwrite anything in [off, off+len)? */
bool view_patches(struct view *v, uint64_t off, uint64_t len);
/*
 * A file that grew a little (a log) keeps its last short chunk in the map and lacks what came
 * behind: take trailing extents shorter than CHUNK_MIN (at most CHUNK_MIN bytes in all) out of
 * the map if unmapped bytes follow them, so that growing makes one extent of it and not one a
 * commit.
 */
void view_reopen_tail(struct view *v);
/*
 * Extents now stored for [off, …), of the view's bytes: into its map, and into the content's
 * and other views' where those hold the same bytes still.  One that sticks out over what is
 * mapped already is left out (look for gaps again).
 */
int view_map(struct view *v, uint64_t off, const struct extents *x);
/* The whole file as extents; -EAGAIN while a range is unmapped. */
int view_extents(struct view *v, struct extents *out);
/* Can the view's bytes be read here (absent bytes have places in the map)? */
ssize_t view_read(struct view *v, void *data, size_t len, uint64_t off); /* -ENODATA: absent here */
/* Does its content hold what it did then, and no more? */
bool view_is_current(struct view *v);
/* `to`, which is empty, becomes what the view is: references to what the store has, bytes of the rest. */
int view_copy(struct view *v, struct content *to);

#endif
