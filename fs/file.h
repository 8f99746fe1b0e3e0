/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular files: which bytes are live, which are sealed, and what an open handle does to both.
 *
 * A file is in one of three states:
 *   clean     live == the base's content                       (changed = false)
 *   unsealed  changed since the last clean close                (changed, sealed() says no)
 *   sealed    changed, and its last clean close is not older than its last write
 * Before the first change after a seal the sealed version is named (a view, file_before_change()), so
 * that what a commit may publish is never lost to an overwrite.  O_TRUNC starts a new version and
 * copies nothing.
 *
 * Thread: any.  Functions take the mount's lock themselves unless they say "under lock".
 */
#ifndef HOLDFAST_FS_FILE_H
#define HOLDFAST_FS_FILE_H

#include "fs/hydrate.h"
#include "fs/mount.h"

struct handle {
	struct list open;
	struct node *node;
	int flags;
	bool writes, appends;
	bool kill_priv; /* a write drops set-id bits: it was not root who opened it */
	bool past_cache; /* bytes were written that the kernel's cache may not have seen */
	bool ends_come; /* the first and the last chunk were asked for */
	struct reading reading;
};

int file_open(struct mount *m, uint64_t id, int flags, pid_t tid, struct handle **out);
/* FLUSH: a close(2) of one descriptor by `tid`. */
int file_flush(struct mount *m, struct handle *h, pid_t tid);
void file_release(struct mount *m, struct handle *h);
/* What the kernel left open: it does not wait for its last RELEASEs when a mount ends. */
void file_release_all(struct mount *m);
/*
 * Where bytes have to come from the store first: with w NULL this thread waits, else -EAGAIN, and w is told when
 * to try again (hydrate_start()).  The same of file_write() and file_copy().
 */
ssize_t file_read(struct mount *m, struct handle *h, void *data, size_t len, uint64_t off, struct awaited *w);
/*
 * mapped: bytes of a mapping, written back by the kernel at a time of its own.  -ENOSPC: nothing was written, and
 * the same write may be tried again; whether there is room is asked before (fs/room.h).
 */
ssize_t file_write(struct mount *m, struct handle *h, const void *data, size_t len, uint64_t off, pid_t tid, bool mapped,
		   struct awaited *w);
int file_truncate(struct mount *m, uint64_t id, uint64_t size, pid_t tid);
/* fdatasync(2) as well: what it leaves out costs nothing here. */
int file_fsync(struct mount *m, struct handle *h);
int file_allocate(struct mount *m, struct handle *h, int mode, uint64_t off, uint64_t len, pid_t tid);
off_t file_seek(struct mount *m, struct handle *h, off_t off, int whence);
/*
 * What the source has in the store the destination gets as references (fs/cache/refer.c), the rest as bytes.
 * Ends early, with what was copied, where it would have to wait.
 */
ssize_t file_copy(struct mount *m, struct handle *from, uint64_t from_off, struct handle *to, uint64_t to_off, size_t len,
		  pid_t tid, struct awaited *w);

/* ---- under lock ---- */
/* A file was just made. */
void file_born(struct mount *m, struct node *n);
/* Live size. */
uint64_t file_size(const struct node *n);
/* Is live, as it is, a version that may be published? */
bool file_is_sealed(const struct mount *m, const struct node *n, uint64_t now);
bool file_is_log(const struct mount *m, const struct node *n, uint64_t now);
/* Does it keep the present instant from being quiet? */
bool file_holds(const struct mount *m, const struct node *n, uint64_t now);
/* Would it be sealed, were it not for its header, which nobody has looked at (look.h) since it was written last? */
bool file_wants_look(const struct mount *m, const struct node *n, uint64_t now);
/* ... somebody has now.  torn: a constant, or NULL. */
void file_looked(const struct node *n, const char *torn);
/* What it lacks by its own header, and is not sealed for; NULL: nothing that is known.  A constant. */
const char *file_torn(const struct node *n);
/* Was any version of it ever sealed (here or in the base)? */
bool file_ever_sealed(const struct mount *m, const struct node *n, uint64_t now);
/* Live, as it is, is the newest sealed version: names it by a view. */
int file_name_sealed(struct node *n);
/* Lets go of a content that another slot has replaced, if nobody reads it. */
void file_drop_stale(struct node *n);
/* Did a killed writer leave it unsealed, and no other has it open? */
bool file_is_left_killed(const struct mount *m, const struct node *n, uint64_t now);
/* Such a file has c again, which holds what it was when it was last sealed: here, or in the base. */
int file_go_back(struct mount *m, struct node *n, struct content *c, struct note *w);
/* Makes live's content if there is none yet. */
int file_content(struct mount *m, struct node *n, struct note *w);

#endif
