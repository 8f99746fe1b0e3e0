/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of `holdfast`, one a file.  Each is a small program: argv[0] is the verb's name, so
 * that getopt_long() reads the rest as usual; what it returns is the exit status of the process.
 * It prints its own errors, one line each, beginning with "holdfast VERB: ".
 */
#ifndef HOLDFAST_TOOLS_TOOLS_H
#define HOLDFAST_TOOLS_TOOLS_H

enum verb_status {
	VERB_DONE = 0,
	VERB_FAILED = 1,
	VERB_USAGE = 2,  /* the command line is wrong; nothing was done */
	VERB_UNSENT = 3, /* done, but not everything written is in the store */
	VERB_ELSEWHERE = 4, /* unmounted where it was asked for, and alive in another place */
};

int cmd_ls(int argc, char **argv);
int cmd_mkfs(int argc, char **argv);
int cmd_mount(int argc, char **argv); /* fs/main.c */
int cmd_notice(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_sync(int argc, char **argv);
int cmd_umount(int argc, char **argv);

#endif
