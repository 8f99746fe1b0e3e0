/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps data from the store, in one sentence for people: status, sync and umount say the same.
 * Thread: any, under the mount's lock.
 */
#ifndef HOLDFAST_FS_TROUBLE_H
#define HOLDFAST_FS_TROUBLE_H

#include "fs/mount.h"

struct trouble {
	char text[sizeof(((struct fault *)0)->text)]; /* "": none */
	uint64_t lasts_ns; /* nothing has got through for so long; 0: something has */
};

/*
 * commit: the committer's own fault, code 0: none.  It comes first, then a cache that was deleted, then what the
 * lanes met, then a store that just does not answer: the others do not know of a request before it is given up.
 */
void trouble_find(struct mount *m, const struct fault *commit, struct trouble *out);

#endif
