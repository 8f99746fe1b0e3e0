/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of closed files (fs/track/whole.h), read from the cache: a file that is torn by its own
 * header is not sealed, however it was closed.
 *
 * Each version is looked at once, when something asks whether it is sealed.  The committer does that
 * before a freeze and outside the lock, so that hardly anybody else has to; writing costs nothing.
 */
#ifndef HOLDFAST_FS_LOOK_H
#define HOLDFAST_FS_LOOK_H

#include "fs/mount.h"

/* What the content lacks, a constant; NULL: nothing that is known.  Fetches nothing.  Thread: any. */
const char *look_at(struct content *c);

/*
 * Look at every file that would be sealed and was written since it was looked at last; says in the
 * log which are torn.  Thread: the committer's, without the lock.
 */
void look_ahead(struct mount *m);

/* The first file that is not sealed for its header, as text; false: there is none.  Under lock. */
bool look_torn(const struct mount *m, char *out, size_t out_size);

#endif
