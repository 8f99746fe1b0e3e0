/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In memory: what other slots committed meets what was done here and is not committed yet.  The rules are those of
 * rebase.h, between what is live here and what is the base from now on:
 *
 *   a name, a record that is as it was in the base   becomes what they made of it; but what they removed stays while
 *                                                    something in it was changed here
 *   one that was changed here                        stays, and their file is kept beside it as NAME~slotR
 *   one that was removed here                        comes back if they changed it
 *
 * What this slot itself committed before its daemon was killed meets a replayed journal in the same way, which is ahead of it.
 */
#ifndef HOLDFAST_FS_SLOT_MEET_H
#define HOLDFAST_FS_SLOT_MEET_H

#include "fs/move_priv.h"

/*
 * A name may lead elsewhere in v->to than here: are the two files of the same bytes?  Brings what has to make way for
 * theirs into memory.  Blocks; without the lock.
 */
int meet_compare(struct move *v, struct item *x, struct fault *f);
/* Puts all items in place, and tells the journal; under lock. */
void meet_all(struct move *v);

#endif
