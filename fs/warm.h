/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a mount the files that were saved last come before anybody asks for them: whoever continues reads these
 * (recent.h says which).  At most half of the cache is filled so, and half of what its disk has free.
 *
 * It is never ahead of anybody: little is asked for at once, nothing while a reader waits for the store.  A reader
 * who waits for one of those files is followed into its directory; one who waits for another file, a save
 * that is being sent, or a full cache ends it for good.
 *
 * Thread: one of its own, which ends with its work.  Functions: any, without the lock, unless it is said.
 */
#ifndef HOLDFAST_FS_WARM_H
#define HOLDFAST_FS_WARM_H

#include "fs/mount.h"

/* Starts the thread, if it is wanted; after a daemon's fork, before anybody asks for status. */
int warm_run(struct mount *m, struct fault *f);
/* The mount ends: nothing more is asked for.  Does not wait. */
void warm_stop(struct mount *m);
/* Ends the thread, whatever it waits for; after lanes_stop(). */
void warm_free(struct mount *m);

/* Somebody waits for bytes of n.  Under lock. */
void warm_missed(const struct mount *m, const struct node *n);

struct warm_status {
	const char *what; /* "off", "looking", "fetching", "done", "stopped" */
	char why[160];    /* it stopped; "" */
	uint64_t files, bytes; /* that came so */
};
void warm_status(struct mount *m, struct warm_status *out);

#endif
