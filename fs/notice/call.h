/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call to whoever trains: save once more, the machine goes.  A signal, a command, or both, from a thread of
 * its own, since a file with a number may lie on a disk that hangs, and a command takes what it takes.
 *
 * The command is a shell's, with HOLDFAST_NOTICE_SECONDS, HOLDFAST_NOTICE_KIND and HOLDFAST_MOUNT in its
 * environment and a process group of its own, which is killed at the deadline; what it prints goes to the log.
 */
#ifndef HOLDFAST_FS_NOTICE_CALL_H
#define HOLDFAST_FS_NOTICE_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/scope.h"

struct call;

/* Strings live as long as the call. */
struct call_conf {
	const char *exec; /* NULL: none */
	int signal;       /* 0: none */
	/* Whom it is for: a number, a file that holds one, "cgroup:" and the folder of one. */
	const char *pid;
	const char *mount;
	const char *kind;     /* "terminate" */
	uint64_t flush_by_ns; /* what is saved later is not sent any more; monotonic */
	uint64_t kill_ns;     /* the command's end; monotonic */
};

/* TERM, SIGUSR1, ...; 0: not one that may be asked for. */
int call_signal(const char *name);
/* Does it end a program that was not made for it by its very name?  Then no mere hint may send it. */
bool call_signal_ends(int signal);

int call_start(const struct call_conf *conf, struct call **out, struct fault *f);
/* The command's group, if it still runs, gets SIGTERM. */
void call_end(struct call *c);
SCOPE_PTR(struct call, call_end)

/* Is this process one of those that were signalled? */
bool call_reached(struct call *c, pid_t tgid);

#endif
