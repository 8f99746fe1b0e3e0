/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming: chunks of a large file leave while it is still being written, so that little is left to
 * send when it is closed.  Only files written in sequence; at most one upload a file.  Thread: any.
 */
#ifndef HOLDFAST_FS_STREAM_H
#define HOLDFAST_FS_STREAM_H

#include "fs/mount.h"

/* Bytes were written to c, the live content of n, which is open. */
void stream_kick(struct mount *m, struct node *n, struct content *c);

#endif
