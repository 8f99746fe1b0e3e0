/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the process that closes a file dying, and of what?  While a FLUSH waits for our answer its
 * task stands still in the middle of exit(), and /proc/PID/stat shows PF_EXITING and exit_code.
 * A killed trainer's half file is told from a finished one by nothing else.  Thread: any.
 */
#ifndef HOLDFAST_FS_TRACK_DEATH_H
#define HOLDFAST_FS_TRACK_DEATH_H

#include <stdbool.h>
#include <sys/types.h>

enum close_kind {
	CLOSE_CLEAN,   /* a living process, or one that ends with status 0 */
	CLOSE_DYING,   /* it dies of a signal (or will, once this close is over) or with another status:
			* seals nothing */
	CLOSE_UNKNOWN, /* exiting, and we may not see of what: seals nothing */
};

/*
 * What the text of /proc/PID/stat says.  `code_readable`: exit_code (field 52) can be believed;
 * the kernel shows 0 to those who may not see it.  A text that does not parse is CLOSE_UNKNOWN.
 */
enum close_kind death_parse_stat(const char *text, bool code_readable);

/* The Tgid of a /proc/PID/status text, or 0. */
pid_t death_parse_tgid(const char *text);

/*
 * As death_parse_stat() of the live task (a thread id will do, FUSE requests carry one), to be
 * called before its FLUSH is answered.  `code_readable` is what death_probe() said at mount.
 * No /proc, no such task, pid 0 (another PID namespace): CLOSE_UNKNOWN; for pid 0 the caller
 * falls back to time (seal.h) and never asks.
 */
enum close_kind death_of(pid_t pid, bool code_readable);

/* The process a thread belongs to, or `pid` itself if /proc does not say. */
pid_t death_tgid(pid_t pid);

/* At mount: fork a child that exits with 3; can its exit_code be read?  Blocks for milliseconds. */
bool death_probe(void);

#endif
