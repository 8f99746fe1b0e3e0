/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the committer (commit.h): what commit.c and the committer of a group share. */
#ifndef HOLDFAST_FS_COMMIT_PRIV_H
#define HOLDFAST_FS_COMMIT_PRIV_H

#include "base/notice/notice.h"
#include "fs/commit.h"
#include "fs/gain.h"
#include "fs/notice/meter.h"
#include "fs/notice/report.h"
#include "fs/send.h"

struct slots;

#define OUTLOOK_NAME REPORT_NAME

/* What is being put on the log. */
struct record {
	struct record_head head;
	struct run *run;
	struct buf raw; /* I1 */
	bool unsure;    /* it may be there already: no answer came */
	bool on_log;    /* its number is taken by it */
};

struct committer {
	struct mount *m;
	pthread_t thread;
	bool running;

	/* the thread's */
	struct loop *loop;
	struct objects *objects;
	struct hash128 hash; /* of record `number` */
	struct gains *gains;
	struct moment *flying, *pending;
	struct sender *sender; /* moves flying's bytes */
	struct record record;
	struct slots *slots; /* of a group (slot/commit_group.c); NULL: the only writer */
	uint64_t gap_from_ns;   /* when the last commit was frozen */
	uint64_t retry_ns;      /* not before */
	uint64_t put_until_ns;  /* a run's pack is given up; 0: never */
	bool lanes_over;        /* nothing can be packed any more */
	uint64_t looked_ns;     /* at the log, or put something on it */
	bool newest_quiet;      /* facts of the newest commit, for vouch() */
	struct holder newest_holder;
	uint64_t newest_seq, newest_frozen_ns;
	uint64_t changed_ns;    /* first change after it, if another moment was frozen since; else m->first_change_ns */
	uint64_t vouch_ns;      /* ask again then; 0: only a newer commit can change the verdict */
	uint64_t vouched_ack_ns;
	uint64_t blind_until_ns; /* what an earlier daemon committed since the good moment could not be told; 0: it is in the gains */

	struct meter meter;
	uint64_t reported, report_next_ns; /* the notice whose report is stored; that of another is not tried before */
	struct { /* notice/outlook.c */
		uint64_t looked_ns, good, named; /* named: the good moment that good_name is of */
		unsigned in_hand;
		bool warned;
		char newest_name[OUTLOOK_NAME], good_name[OUTLOOK_NAME];
	} looked;

	/* under the mount's lock */
	struct {
		char text[512];
		uint64_t lost_bytes, short_ns, unsent_bytes;
	} outlook;
	struct report report;   /* of the newest notice */
	pthread_cond_t wake;    /* for the thread */
	pthread_cond_t moved;   /* for those who wait for it */
	_Atomic bool kicked, ending; /* looked at without it, too */
	uint64_t number, good, newest, floor;
	uint64_t durable_seq;   /* changes up to here are in `good` */
	struct notice_view notice; /* as of this step */
	unsigned waiters;
	uint64_t ack_ns;        /* since when the oldest of them waits; 0: none */
	uint64_t give_up_ns;    /* they wait no longer than this; 0: as they were told */
	bool releasing;         /* all is acknowledged, the last record is made */
	uint64_t good_frozen_ns;
	uint64_t commits;
	_Atomic bool fenced;    /* as these */
	struct vouch_reason why;
	struct fault fault;     /* the newest that keeps commits back */
	uint64_t faults;
};

/* Somebody else's record ends this writer. */
void commit_go_read_only(struct committer *c, const struct record_head *by);
/* The state that the next record extends. */
struct state *commit_tree(struct committer *c);
/* A record of this writer behind the newest one, which says nothing yet. */
struct record_head commit_next_head(struct committer *c);
/* Encodes c->record.head and run. */
int commit_record_make(struct committer *c, struct fault *f);
void commit_record_drop(struct record *r);
/*
 * Make the record if there is none, and put it on the log.  0: it is there and c->record still holds it.
 * -ECANCELED: the number went to another one, so this one was dropped.
 */
int commit_put_record(struct committer *c, int (*make)(struct committer *c, struct fault *f));
/* Is the newest commit (the one in flight included) good?  Sets why and vouch_ns. */
bool commit_newest_is_good(struct committer *c);
/* What keeps commits back, for status and the log. */
void commit_faulted(struct committer *c, const struct fault *f);

#endif
