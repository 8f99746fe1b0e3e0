/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gains: what the base has that the good moment has not, and the other way round; kept by name, in the
 * form that vouch() asks for.  A promoted moment is merged in; when the good moment moves to the
 * newest commit the table is empty again.  Its size is that of the difference.
 *
 * Thread: the committer's; gains_merge() and gains_input() take or hold the mount's lock as they say.
 */
#ifndef HOLDFAST_FS_GAIN_H
#define HOLDFAST_FS_GAIN_H

#include "fs/moment.h"
#include "fs/track/vouch.h"

struct gains;

struct gains *gains_new(struct mount *m); /* NULL: no memory */
/* Both take the lock, for the directories that the table held in memory. */
void gains_free(struct gains *g);
void gains_clear(struct gains *g);
bool gains_none(const struct gains *g);

/* A moment was just promoted; under lock.  -ENOMEM: the table is incomplete (the next verdict is NOT_YET until cleared). */
int gains_merge(struct gains *g, struct mount *m, const struct moment *x);

/*
 * An empty table becomes what m->state has that `good`, an earlier state of its branch, has not, as if all of it had
 * been done now; before anybody else uses the mount.  Blocks.
 * Fails, the table empty: -ENOTSUP they lie over different bases; -E2BIG, -ENOENT where something lies was not found;
 * as reading the store does.
 */
int gains_of_states(struct gains *g, struct mount *m, struct state *good, struct fault *f);

/* What both tables say came about when `was` says so, not later. */
void gains_keep_times(struct gains *g, const struct gains *was);

/* Fill `in` for vouch(); takes the lock and may load directories.  The caller sets the fields above the dirs. */
int gains_input(struct gains *g, struct mount *m, struct vouch_input *in);

#endif
