/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual extended attributes, on every file and directory of a mount, in no list:
 *   user.holdfast.state   where its content stands: "durable", "sent", "sealed", "open" or "log"
 *   user.holdfast.sync    reading it waits until the good moment holds everything; then as state
 *   user.holdfast.socket  path of the control socket: how the command line finds the program
 * Thread: FUSE workers.
 */
#ifndef HOLDFAST_FS_VXATTR_H
#define HOLDFAST_FS_VXATTR_H

#include "fs/mount.h"

bool vxattr_is(const char *name);
/* Is the caller to wait until the good moment holds everything, before vxattr_get()? */
bool vxattr_waits(const char *name, size_t size);
/* As getxattr(2): the length, or a negative errno; -ENODATA for names that are not there. */
ssize_t vxattr_get(struct mount *m, uint64_t id, const char *name, char *value, size_t size);

#endif
