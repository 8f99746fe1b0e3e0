/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small namespace by hand: changed as a mount would, compared into runs, read back from states.
 * What is in a file is one number; 0 is empty, one of 1 000 and more has as many extents.
 */
#ifndef HOLDFAST_TESTS_UNIT_SLOT_TREE_H
#define HOLDFAST_TESTS_UNIT_SLOT_TREE_H

#include "store/state.h"

#define TREE_MOST 192 /* names, and nodes */

struct tree_node {
	uint64_t id, home; /* id 0: free */
	uint32_t mode, nlink;
	uint64_t content; /* of a file; a symlink leads to it as text */
	int64_t mtime, ctime;
};

struct tree_name {
	uint64_t dir, id; /* id 0: free */
	char text[NAME_MAX_BYTES + 1];
};

struct tree {
	struct tree_node nodes[TREE_MOST];
	struct tree_name names[TREE_MOST];
	uint64_t next_id;
	int64_t clock;
	/* Times of what is renamed stay, and of a directory in which files come and go: they are not put for that. */
	bool lazy;
};

/* A root and nothing in it. */
void tree_init(struct tree *t);
struct tree_node *tree_node(struct tree *t, uint64_t id);
struct tree_name *tree_name(struct tree *t, uint64_t dir, const char *text);
/* A name that leads to it, or NULL. */
struct tree_name *tree_named(struct tree *t, uint64_t id);

/* As the calls of that name; false: refused. */
bool tree_write(struct tree *t, uint64_t dir, const char *text, uint64_t content); /* made if absent */
bool tree_symlink(struct tree *t, uint64_t dir, const char *text, uint64_t content);
bool tree_mkdir(struct tree *t, uint64_t dir, const char *text); /* ids of the same directory are the same */
bool tree_link(struct tree *t, uint64_t id, uint64_t dir, const char *text);
bool tree_remove(struct tree *t, uint64_t dir, const char *text); /* with all that is in it */
bool tree_rename(struct tree *t, uint64_t dir, const char *text, uint64_t to_dir, const char *to_text);
bool tree_chmod(struct tree *t, uint64_t id, uint32_t mode);

/*
 * A script: "mkdir a; write a/f 1; symlink l 1; ln a/f g; mv a b; rm b; chmod g 600".  Every step has to work.
 * `text` may be NULL.
 */
void tree_do(struct tree *t, const char *text);
/* "a/f=1 b/ g=1": files, symlinks ("l->1") and empty directories, sorted; modes that are not usual: "g=1[600]". */
void tree_show(struct tree *t, char *out, size_t size);

/* What one has and the other has not, as a commit says it. */
struct run *tree_diff(struct tree *from, struct tree *to);
/* Fails the test where a record does not decode. */
void tree_of_state(struct tree *t, struct state *s);
/* What is wrong with it, or NULL. */
const char *tree_fault(struct tree *t);

/* The state after one more commit. */
struct state *tree_commit(struct state *s, struct run *run);
struct state *tree_empty_state(void);

#endif
