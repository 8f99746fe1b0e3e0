/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umount.fuse.holdfast: what umount(8) runs instead of unmounting by itself.  Thread: main.
 */
#ifndef HOLDFAST_TOOLS_UMOUNT_HELPER_H
#define HOLDFAST_TOOLS_UMOUNT_HELPER_H

#include <stdbool.h>

#include "base/fault.h"

struct umount_helper {
	bool lazy;  /* -l: out of sight now, ended when nobody uses it any more */
	bool force; /* -f: calls that wait fail */
	const char *dir;
	const char *space; /* -N: path of the mount namespace that is meant; NULL: ours */
};

/*
 * argv: PROGRAM DIR [-flnrv] [-N NAMESPACE] [-t TYPE], as umount(8) passes it.  Uses getopt.
 * Fails: -EINVAL not such a command line.
 */
int umount_helper_parse(int argc, char **argv, struct umount_helper *out, struct fault *f);

/* As `holdfast umount`, or at once with -l and -f.  Prints its errors; a status of tools.h. */
int umount_helper_run(const struct umount_helper *u);

#endif
