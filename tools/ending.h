/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a mount is ended: it first acknowledges what is unsent, then lets itself be unmounted by us,
 * then says how it all ended.  Thread: the caller's; blocks.
 */
#ifndef HOLDFAST_TOOLS_ENDING_H
#define HOLDFAST_TOOLS_ENDING_H

#include "tools/client.h"

struct ending {
	/* the caller's */
	double timeout_s; /* 0: none */
	bool discard;     /* do not wait for what is unsent: drop it */
	void (*progress)(void *arg, uint64_t left_bytes, const char *why); /* may be NULL */
	int (*unmount)(void *arg, struct fault *f);
	/*
	 * Called each second between the unmounting and the end: what keeps it, as a fault, or 0.
	 * May be NULL.
	 */
	int (*kept)(void *arg, struct fault *f);
	void *arg;
	/* result */
	bool unmounted; /* if not, the mount goes on as if nobody had asked */
};

/*
 * Have the conversation, up to its end.
 * Fails:  -ETIMEDOUT not acknowledged in time; what unmount(), kept() and client.h say; the mount's own codes.
 */
int ending_run(struct client *c, struct ending *e, struct fault *f);

/*
 * Unmount a mount point (absolute, without links): umount2(2) with MNT_DETACH, MNT_FORCE or 0, or
 * fusermount3 where that is not for us.  -EBUSY, and others.
 */
int ending_unmount(const char *dir, int flags, struct fault *f);

#endif
