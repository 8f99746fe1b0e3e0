/* SPDX-License-Identifier: Apache-2.0 */
/* The table of gains (gain.h), for those who fill and read it: gain.c, gain_start.c, gain_input.c. */
#ifndef HOLDFAST_FS_GAIN_PRIV_H
#define HOLDFAST_FS_GAIN_PRIV_H

#include "fs/gain.h"

/* One name that differs, or whose file's content does. */
struct gain {
	UT_hash_handle hh;
	uint64_t was_id, is_id; /* at the good moment, in the base; 0: absent */
	uint64_t was_size, is_size;
	bool was_dir, is_dir, is_log, rewritten;
	uint64_t gained_ns, sealed_ns, lost_ns;
	int64_t mtime_ns;
	char text[];
};

struct gain_dir {
	UT_hash_handle hh;
	uint64_t id;
	char *path; /* from the root, as last seen */
	bool is_new, gone;
	uint64_t gained_ns;
	int64_t mtime_ns;
	struct gain *names;
};

/* A file that some name gained, lost or rewrote: it counts once, whatever its names are (objection 3). */
struct gain_inode {
	UT_hash_handle hh;
	uint64_t id;
	unsigned links;            /* in the base; those in the good moment follow from the names below */
	bool rewritten;            /* its content is another one */
	unsigned was_n, is_n;      /* names of the table that led to it, and that lead to it */
	bool was_told, is_told;    /* its bytes have been counted */
};

/* A directory that was looked at: it stays in memory, or each verdict would ask the store for it. */
struct gain_pin {
	UT_hash_handle hh;
	uint64_t id;
};

struct gains {
	struct mount *m;
	struct gain_pin *pins;
	struct gain_dir *dirs;
	struct gain_inode *inodes;
	bool failed;
};

/*
 * The directory's place in the table, its path as it now is; under lock.  *out NULL: one that the table may leave
 * out, since it came and went between two commits and no name led to it when either was frozen.  0 or -ENOMEM.
 */
int gains_dir(struct gains *g, struct mount *m, uint64_t id, struct gain_dir **out);
/* Under lock; until the table is cleared.  -ENOMEM. */
int gains_pin(struct gains *g, struct node *dir);
/* Found or made; NULL: no memory. */
struct gain *gains_name(struct gain_dir *d, const char *text);
struct gain_inode *gains_inode(struct gains *g, uint64_t id);
/* NULL: it is not there. */
struct gain_inode *gains_find_inode(struct gains *g, uint64_t id);

#endif
