/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: how the command line reaches a mount.  A Unix socket in /run/holdfast (root) or the
 * user's runtime directory, its path is the mount's user.holdfast.socket.
 *
 * One line asks, one or more lines of JSON answer, whatever bytes names have (base/jsontext.h):
 *   status                      one object, holdfast-mount(8) lists its keys
 *   sync SECONDS                waits; {"done":true} or {"error":"...","code":N}; 0 = for ever
 *   end SECONDS discard|keep    the mount is to end: progress lines {"left":BYTES}, then {"ready":true}: now unmount it; when
 *                               all is released {"done":true} or {"error":...}
 *
 * Thread: one for the socket, one a connection (at most 16).
 */
#ifndef HOLDFAST_FS_CTL_H
#define HOLDFAST_FS_CTL_H

#include "fs/mount.h"

struct ctl;

/* Makes the socket and sets m->socket. */
int ctl_open(struct mount *m, struct ctl **out, struct fault *f);
int ctl_run(struct ctl *c, struct fault *f); /* starts the thread */
/* Was `end` asked for, and how is it to be done? */
bool ctl_ending(struct ctl *c, uint64_t *deadline_ns, bool *discard);
/* Tells those who asked for the end how it was, then closes everything. */
void ctl_close(struct ctl *c, int rc, const struct fault *f);

#endif
