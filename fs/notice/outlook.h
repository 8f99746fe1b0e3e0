/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outlook: what a notice would lose now, or what the one that runs loses, from what the committer has in
 * hand: the moment in flight, the one that waits, and what came since, as if it were frozen now.
 *
 * Bytes are those of whole contents.  What the moment in flight has of a file that was changed or deleted since
 * is its own; all else of it belongs to the later ones, too.
 */
#ifndef HOLDFAST_FS_NOTICE_OUTLOOK_H
#define HOLDFAST_FS_NOTICE_OUTLOOK_H

#include "fs/commit_priv.h"

/* Looks once a second, or sooner where something has changed.  Thread: the committer's, without the lock. */
void outlook_look(struct committer *c);
/*
 * "step-1200/", of a promoted moment: the newest name it brought.  One that brought none, or a log alone, leaves out
 * as it is: what came before is still the newest in it.  Under lock.
 */
void outlook_name(struct mount *m, const struct moment *x, char out[OUTLOOK_NAME]);

#endif
