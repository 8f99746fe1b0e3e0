/* SPDX-License-Identifier: Apache-2.0 */
/* The times by which the mount judges: one struct, each field a mount option of the same name. */
#ifndef HOLDFAST_FS_TRACK_POLICY_H
#define HOLDFAST_FS_TRACK_POLICY_H

#include <stdint.h>

#include "base/clock.h"

struct track_policy {
	uint64_t quiet_ns;         /* no change for so long: a moment may be frozen */
	uint64_t commit_gap_ns;    /* least time between two commits */
	uint64_t settle_ns;        /* a set of a new shape still grows if it changed within this */
	uint64_t patience_ns;      /* then an objection that is not renewed is dropped */
	uint64_t patience_most_ns; /* ... and one that is renewed again and again */
	uint64_t shard_wait_ns;    /* a set with every name but fewer shards than its sibling */
	uint64_t writer_long_ns;   /* a writer open for longer holds no quiet moment back */
	uint64_t log_append_ns;    /* O_APPEND by all writers for so long makes a log */
	uint64_t mapped_still_ns;  /* a mapped write not synced is sealed so long after RELEASE */
	uint64_t pid0_still_ns;    /* a FLUSH by pid 0 seals so long after the last write */
	uint64_t ack_wait_ns;      /* sync, fsync=remote and umount wait so long for quiet */
	uint32_t loss_factor;      /* more than so many times the gain may not be deleted */
	const char *logs;          /* patterns of fnmatch(3) on the last name, ':' between them */
};

#define TRACK_LOGS_DEFAULT "*tfevents*:*.log:*.jsonl:*.csv:*.wandb"

#define TRACK_POLICY_DEFAULT \
	((struct track_policy){ \
		.quiet_ns = 1 * NS_PER_S, \
		.commit_gap_ns = 5 * NS_PER_S, \
		.settle_ns = 10 * NS_PER_S, \
		.patience_ns = 600 * NS_PER_S, \
		.patience_most_ns = 3600 * NS_PER_S, \
		.shard_wait_ns = 120 * NS_PER_S, \
		.writer_long_ns = 600 * NS_PER_S, \
		.log_append_ns = 60 * NS_PER_S, \
		.mapped_still_ns = 60 * NS_PER_S, \
		.pid0_still_ns = 10 * NS_PER_S, \
		.ack_wait_ns = 10 * NS_PER_S, \
		.loss_factor = 2, \
		.logs = TRACK_LOGS_DEFAULT, \
	})

#endif
