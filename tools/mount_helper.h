/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.holdfast: how mount(8) and fstab(5) call us.  Turns that command line into the one that
 * `holdfast mount` takes.  Thread: any.
 */
#ifndef HOLDFAST_TOOLS_MOUNT_HELPER_H
#define HOLDFAST_TOOLS_MOUNT_HELPER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/fault.h"

struct mount_helper {
	bool fake;         /* mount -f: everything but the mount itself */
	const char *space; /* mount -N: path of the mount namespace that is meant; NULL: ours */
	int argc;          /* for cmd_mount(): "mount", URI, DIR and, if any are left, "-o" options */
	char *argv[6];     /* ended by NULL; points into the caller's argv and into `options` */
	struct buf options;
};

/*
 * argv: PROGRAM URI DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]... [-t TYPE], as mount(8) passes it.
 * Words of OPTIONS that are fstab's business (noauto, _netdev, x-...) are left out.  Uses getopt.
 * Owns:  *out is ended by mount_helper_fini(), after a failure too.
 * Fails: -EINVAL not such a command line; -ENOMEM.
 */
int mount_helper_parse(int argc, char **argv, struct mount_helper *out, struct fault *f);
void mount_helper_fini(struct mount_helper *m);
SCOPE_VAL(struct mount_helper, mount_helper_fini)

#endif
