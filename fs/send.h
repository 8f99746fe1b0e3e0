/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a moment: every view's bytes that the store lacks become uploads, some views at a time.
 * Thread: the committer's; uploads end on lanes.
 */
#ifndef HOLDFAST_FS_SEND_H
#define HOLDFAST_FS_SEND_H

#include "fs/moment.h"

struct sender;

struct sender *sender_new(struct mount *m); /* NULL: no memory */
void sender_free(struct sender *s);         /* cancels, waits for the lanes to let go */
/* x stays the caller's and in use until sender_poll() says otherwise than -EAGAIN. */
void sender_start(struct sender *s, struct moment *x);
/* 0: all of it is in the store; -EAGAIN: not yet; else the first fault, with nothing under way any more. */
int sender_poll(struct sender *s, struct fault *f);
uint64_t sender_bytes(struct sender *s); /* not yet in the store; any thread */

#endif
