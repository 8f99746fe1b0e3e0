/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside rebase*.c: what is known of every name and every inode that either side says something of.
 *
 *   was   in the state that ours was made on        now   in the one that ours comes to lie on
 *   ours  what our run says                         out   what is to be there in the end
 *
 *   rebase_load()    both runs into the tables, with what the two states say to them; out is now
 *   rebase_names()   decides every name's out
 *   rebase_inodes()  decides the records that follow from it, and writes the run
 *
 * I1: a name whose out leads to an inode is on one of that inode's lists.
 * I2: links and subdirs of an inode are what the outs make of its counts in now.
 */
#ifndef HOLDFAST_FS_SLOT_REBASE_PRIV_H
#define HOLDFAST_FS_SLOT_REBASE_PRIV_H

#define HASH_NONFATAL_OOM 1
#include <dirent.h>
#include <string.h>
#include <uthash.h>

#include "fs/slot/rebase.h"

enum says { SAYS_NOTHING, SAYS_PUT, SAYS_REMOVED };
enum side { WAS, NOW, OURS, SIDES };

struct entry {
	struct inode *dir;
	struct name_rec was, now, ours, out; /* id 0: no such name */
	bool we_say, they_say;
	struct entry *next[SIDES]; /* of the same inode in was, now, ours */
	UT_hash_handle hh;
	size_t key_len;
	uint8_t key[]; /* as in runs */
};

struct inode {
	uint64_t id;
	uint64_t home; /* 0: a directory of which no record was seen */
	enum says we, they;
	bool touched;               /* what we say of it may not be what comes out */
	int64_t links, subdirs;     /* out less now: names that lead to it, directories in it */
	struct entry *names[SIDES]; /* that lead to it in was, now, ours (or were made to in the end) */
	uint64_t parent;            /* of a directory without one of these, once looked for */
	bool read[SIDES];
	struct inode_rec rec[SIDES]; /* once read; id 0: none */
	UT_hash_handle hh;
};

struct rebasing {
	const struct rebase *r;
	struct run *ours, *theirs; /* theirs merged */
	struct fault *f;
	struct entry *entries;
	struct inode *inodes;
	bool they_move; /* a directory: else none can come to lie in itself */
	bool changed;   /* a name's out was */
};

/* ---- rebase_table.c ---- */

int rebase_load(struct rebasing *w);
void rebase_unload(struct rebasing *w);
int rebase_oom(struct rebasing *w);

struct inode *rebase_inode(struct rebasing *w, uint64_t id); /* NULL: nobody says anything of it */
/* Found or made. */
int rebase_inode_get(struct rebasing *w, uint64_t id, uint64_t home, struct inode **out);
/* A state's word on it, to the caller; untouched where it has none. */
int rebase_read(struct rebasing *w, const struct inode *i, struct state *s, struct inode_rec *out);
/* *out: its record there, until rebase_unload(); NULL: there is none. */
int rebase_record(struct rebasing *w, struct inode *i, enum side side, const struct inode_rec **out);

/* NULL: neither side says anything of it. */
struct entry *rebase_entry(struct rebasing *w, uint64_t dir, const char *name, size_t len);
/* Found or made, with what the states say. */
int rebase_entry_get(struct rebasing *w, uint64_t dir, const char *name, size_t len, struct entry **out);
/* to: as some side has this name. */
void rebase_set(struct rebasing *w, struct entry *e, struct name_rec to);
/* A name that leads to it in the end and that either side says something of; NULL: none. */
struct entry *rebase_named(const struct inode *i);
/*
 * A name of what has one in now and in the end, none of which either side says anything of.  Looked for in the
 * directory `hint` (0: none), in its home, and at last everywhere, which reads the whole state.
 */
int rebase_find(struct rebasing *w, uint64_t id, uint64_t hint, uint64_t *dir, char name[NAME_MAX_BYTES + 1]);
/* The slot that said the key last. */
unsigned rebase_slot_of(const struct rebasing *w, const uint8_t *key, size_t len);

/* ---- rebase_names.c ---- */

int rebase_names(struct rebasing *w);
/* Puts `to` beside that name, as NAME~slotR.  dir: a directory's id. */
int rebase_aside(struct rebasing *w, uint64_t dir, const char *name, size_t len, struct name_rec to,
		 unsigned slot);

/* ---- rebase_inodes.c ---- */

bool rebase_same_content(const struct inode_rec *a, const struct inode_rec *b);
/* Has a side (NOW, OURS) changed what is in the file? */
int rebase_content_changed(struct rebasing *w, struct inode *i, enum side side, bool *out);
/* The record that says what is in it in the end: ours if we changed that; NULL: there is none. */
int rebase_content(struct rebasing *w, struct inode *i, const struct inode_rec **out);
/* What both sides changed of one file: theirs becomes an inode of its own. */
int rebase_split(struct rebasing *w);
int rebase_inodes(struct rebasing *w, struct run **out);

#endif
