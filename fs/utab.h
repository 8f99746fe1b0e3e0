/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that umount(8) wants in /run/mount/utab.  Without one it takes each FUSE mount for a
 * plain "fuse", for which there is no umount.fuse.holdfast; with one it reads the kernel's table.
 * mount(8) and umount(8) write that file; only root's do.  Thread: main.
 */
#ifndef HOLDFAST_FS_UTAB_H
#define HOLDFAST_FS_UTAB_H

/* Of `uri` on `dir` (absolute).  As a mount over the network: systemd ends those before the network. */
void utab_add(const char *uri, const char *dir);
void utab_remove(const char *dir);

#endif
