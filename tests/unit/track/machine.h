/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine made of nothing: a tree, one trainer, and a mount that seals, freezes, commits and
 * moves the good moment by the functions under test.  A script of events drives it; time is its
 * own and goes in steps of 250 ms.  What is asserted is what a new machine would find.
 */
#ifndef HOLDFAST_TESTS_TRACK_MACHINE_H
#define HOLDFAST_TESTS_TRACK_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/track/policy.h"
#include "fs/track/seal.h"
#include "fs/track/vouch.h"

enum op {
	MKDIR,    /* a */
	OPEN,     /* a: O_CREAT | O_TRUNC */
	REOPEN,   /* a: O_CREAT | O_APPEND */
	WRITE,    /* size bytes at the end of a; b: what its content is from now on */
	CLOSE,    /* a */
	SAVE,     /* OPEN, WRITE and CLOSE */
	APPEND,   /* REOPEN, WRITE and CLOSE */
	SYNC_ONE, /* fsync(a) */
	RENAME,   /* a to b, over b if it is there; directories with all below them */
	LINK,     /* a to b */
	UNLINK,   /* a */
	RMTREE,   /* a */
	KILL,     /* the trainer; what comes next is another process */
	ACK,      /* `holdfast sync` */
	NOTICE,   /* size: T in seconds */
	/* what is to be true at that time */
	HAS,   /* the good moment has a; b: with this content */
	LACKS, /* the good moment has no a */
	SAYS,  /* the newest commit is not good, and the reason has a in it; a NULL: it is good */
};

struct event {
	double at_s;
	enum op op;
	const char *a;
	const char *b;
	uint64_t size; /* 0: 1000 bytes */
};

#define MACHINE_PATH_MAX 96

/* What a commit says of one name. */
struct place {
	char path[MACHINE_PATH_MAX];
	bool is_dir, is_log;
	uint64_t inode, version, size;
	uint64_t gained_ns, sealed_ns;
	int64_t mtime_ns;
	const char *content;
};

struct moment {
	struct place *place; /* sorted by path */
	size_t n;
	uint64_t number;
	uint64_t frozen_ns;
	bool quiet;
};

struct machine {
	struct track_policy policy;
	uint64_t now_ns;
	struct moment newest, good;
	struct vouch_reason why; /* about the newest */
	size_t good_moves;
	size_t faults;           /* what was not as it should be, each told by machine_fault() */
	void (*on_good)(struct machine *m); /* each time the good moment has moved */
	void *user;
	/* private */
	struct inode *inode;
	size_t inode_n;
	struct name *name;
	size_t name_n;
	struct writer *writer;
	size_t writer_n;
	struct loss *loss;
	size_t loss_n;
	int pid;
	uint64_t change_ns;  /* last change but of logs */
	uint64_t changed_ns; /* first such change after the newest commit was frozen */
	uint64_t ack_ns, notice_ns;
	bool ask; /* vouch() about the newest commit */
};

void machine_init(struct machine *m);
void machine_fini(struct machine *m);

/* Steps until then, then does it. */
void machine_do(struct machine *m, const struct event *e);
void machine_wait(struct machine *m, double until_s);

/* Say what is wrong at this time; the caller fails once the machine is freed. */
void machine_fault(struct machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const struct place *moment_find(const struct moment *s, const char *path);

#endif
