/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -o on_kill=revert: a file whose writer was killed is shown as a commit has it, once nobody has it open for
 * writing any more.
 *
 *   last sealed here, and not in a commit yet   that version, which is live again
 *   last sealed in a commit                     that one: its bytes come from the store when they are read
 *   never sealed                                its names lead where they did in the newest commit, or nowhere
 *
 * Who has it open for reading reads what it goes back to; a file that was never sealed he keeps, as one that was
 * unlinked.  A log is no such file: what it has is committed.  After a restart every file that was being
 * written is a killed writer's.
 *
 * One thread, since the kernel is told (fs/ears.h).  A restart in the middle does the rest: until the last entry
 * in the journal says otherwise the file is what the killed writer left.
 */
#ifndef HOLDFAST_FS_REVERT_H
#define HOLDFAST_FS_REVERT_H

#include "fs/mount.h"

/* Starts the thread, if it is asked for; after a daemon's fork. */
int revert_run(struct mount *m, struct fault *f);
/* Ends it; after lanes_stop(). */
void revert_free(struct mount *m);
/* A writer of a file has gone.  Under lock. */
void revert_kick(struct mount *m);

/* The next file that is to go back; false: there is none.  Thread: the one there is, or a test's that runs none. */
bool revert_next(struct mount *m);

#endif
