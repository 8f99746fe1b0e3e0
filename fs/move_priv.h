/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the move from one state to another: what move.c and slot/meet.c share.  All under the mount's lock unless it is said. */
#ifndef HOLDFAST_FS_MOVE_PRIV_H
#define HOLDFAST_FS_MOVE_PRIV_H

#include "fs/move.h"

enum item_kind { ITEM_DIR, ITEM_NAME, ITEM_INODE };

/* One thing in memory, and what the new state says of it. */
struct item {
	struct item *next; /* to be read */
	enum item_kind kind;
	uint64_t dir; /* of a name */
	uint64_t home, ino;
	bool there;
	struct name_rec name;
	struct inode_rec inode;
	/* files whose bytes are here */
	struct content *live;  /* what was compared with the new version */
	struct content *fresh; /* the new one, as far as it was read for that */
	uint64_t compared;     /* from here on */
	bool grows;            /* the new one begins with all of the old one */
	bool same;             /* of a name that leads elsewhere here: to a file of the same bytes */
	UT_hash_handle hh;
	size_t key_len;
	uint8_t key[]; /* as in runs; of a directory its id */
};

struct move {
	struct mount *m;
	struct state *to;
	struct run *keys; /* what may differ; NULL: anything */
	struct block_source src;
	struct item *items, *unread;
	struct tells *tells;
	struct meeting *meeting; /* NULL: a mount that only reads */
	struct note note;        /* for the journal, of one that writes */
};

/* Do two contents say the same bytes?  Not to be told (their packs are gone, say): no.  Blocks; without the lock. */
bool move_same_bytes(struct mount *m, struct node *n, struct content *a, struct content *b, uint64_t from, uint64_t to);
/* Its content as the new state has it, where that only goes on behind the old one's end.  false: it is another version. */
bool move_extend(struct node *n, struct item *x);
/* The base's content of f. */
void move_take_extents(struct file *f, struct inode_rec *rec);
void move_take_record(struct node *n, struct inode_rec *rec);
/* Somebody reads the content that is here. */
bool move_in_use(const struct node *n);

#endif
