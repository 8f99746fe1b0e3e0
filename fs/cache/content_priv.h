/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What content.c, fill.c, punch.c, refer.c, view.c and content_dir.c know of each other.
 *
 * I4: absent bytes are in the map: that is where they come from.  So one map serves for "the
 *     store has this" and "fetch it from there"; a partly absent chunk is never written over.
 * I5: a byte below a view's size that changed since is in view->changed, and in view->side
 *     unless the view's map had it then.
 */
#ifndef HOLDFAST_FS_CACHE_CONTENT_PRIV_H
#define HOLDFAST_FS_CACHE_CONTENT_PRIV_H

#include <pthread.h>

#include <uthash.h>

#include "fs/cache/content.h"
#include "fs/cache/map.h"

#define WRITES_KEPT      64
#define CONTENT_NAME_MAX 64
#define NEVER            UINT64_MAX

struct content_dir {
	int fd;
	struct ballast *ballast;
	struct content_notes notes;
	atomic_bool keep, deleted;
	_Atomic uint64_t bytes;
	/* contents there are, under lock */
	pthread_mutex_t lock;
	struct content *contents; /* a hash by id and version */
};

struct content {
	/* fixed after it is made */
	struct content_dir *dir;
	uint64_t id; /* with the version the key in dir->contents: nothing comes between them */
	uint32_t version;
	atomic_uint refs;
	/* changed under lock, read without it: nobody waits for a write under way to learn these */
	_Atomic uint64_t size;
	_Atomic uint64_t mapped; /* first byte that the map lacks */
	_Atomic uint64_t stamp;  /* writes over bytes that were there, counted when they are done */
	_Atomic uint64_t writes; /* of any kind: what a sync has to catch up with */
	_Atomic uint64_t punches;
	atomic_bool whole, in_sequence;
	/* under lock, which is held for one file operation */
	pthread_mutex_t lock;
	int fd;            /* -1: closed for now */
	atomic_uint holds; /* above 1 it changes without the lock */
	struct map *map;
	struct ranges absent, going; /* going: absent, and its blocks are not given back yet */
	bool refers;       /* absent bytes may be such as only content_refer() told of */
	uint64_t told; /* the journal knows that from here on all is present; NEVER */
	struct range written[WRITES_KEPT]; /* by stamp: the latest over bytes that were there */
	struct view *views;
	uint32_t views_made;
	_Atomic int64_t bytes; /* our part of dir->bytes */
	/* under sync_lock, which is held for one fdatasync */
	pthread_mutex_t sync_lock;
	uint64_t synced; /* `writes` that are on disk */
	bool name_synced;
	/* under dir->lock */
	UT_hash_handle hh;
};

struct view {
	struct content *content;
	atomic_uint refs;
	uint32_t number;
	uint64_t size;
	/* under the content's lock */
	struct view *prev, *next;
	struct map *map;
	struct ranges side, changed;
	int side_fd; /* -1: nothing preserved */
};

/* content_dir.c */
void content_name(uint64_t id, uint32_t version, char out[CONTENT_NAME_MAX]);
void view_name(const struct view *v, char out[CONTENT_NAME_MAX]);
void content_dir_enter(struct content *c);
void content_dir_leave(struct content *c);
int content_dir_sync_name(struct content *c);
void content_account(struct content *c, int64_t bytes);
/* What opening a file of the folder failed with: the caller's path exists, so it is never -ENOENT. */
int content_dir_missed(struct content_dir *d, int rc);
/* The same of a content's own file, which was there: -EUCLEAN if it alone is missing. */
int content_missed(struct content *c, int rc);

/* content.c, under c's lock */
/* Its fd, opened if it has to be; -1 and errno: EUCLEAN if it is gone or was cut. */
int content_file(struct content *c);
bool content_is_cut(struct content *c); /* by others: its file is shorter than what was put into it */
void content_note_present(struct content *c, uint64_t from, uint64_t to);
void content_recount(struct content *c); /* its blocks */
/* Bytes that were there are others now. */
void content_note_written(struct content *c, uint64_t from, uint64_t to);
/* Beyond the size nothing is absent: the journal has to know before the file grows again. */
void content_grow_begin(struct content *c);
/* `mapped` and the flags, after the map (lost_from: lowest offset it lost) or absent changed. */
void content_refresh(struct content *c, uint64_t lost_from);
/*
 * These bytes are in the store: said to the map and to every view that holds the same ones.  Of
 * the range nothing may have changed since it was read.
 */
int content_learn(struct content *c, uint64_t off, const struct extent *e);

/* fill.c, under c's lock: would this write leave part of an absent chunk behind? */
bool content_cuts_absent(struct content *c, uint64_t from, uint64_t to);

/* punch.c, under c's lock: give the blocks of `going` back.  Before bytes come into the file. */
int punch_now(struct content *c);

/* view.c, under c's lock: does a view read these bytes here, or send them from here? */
bool views_need(const struct content *c, uint64_t from, uint64_t to);
/* Before [from, to) changes.  On failure nothing may change. */
int views_preserve(struct content *c, uint64_t from, uint64_t to);
int views_learn(struct content *c, uint64_t off, const struct extent *e);

/*
 * Read or write all of it; reading ends early at the end of the file.  Bytes or a negative
 * errno.
 */
ssize_t pread_all(int fd, void *data, size_t len, uint64_t off);
ssize_t pwrite_all(int fd, const void *data, size_t len, uint64_t off);

#endif
