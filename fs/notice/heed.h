/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount heeds of notices: those of the cloud, of a file and of whoever tells it.  The committer looks
 * at each of its ticks and flushes while one runs.  A mount that only looks has nothing to flush, and none of
 * this.  Thread: any, without the lock.
 */
#ifndef HOLDFAST_FS_NOTICE_HEED_H
#define HOLDFAST_FS_NOTICE_HEED_H

#include <jansson.h>

#include "fs/mount.h"

struct heed;

/* Sets m->heed; asks nobody yet, so that no mount is delayed.  Fails: as notice_open(). */
int heed_open(struct mount *m, struct fault *f);
void heed_close(struct mount *m);

void heed_look(struct mount *m, struct notice_view *out); /* calm where nothing is heeded */
/*
 * The same for the committer, at each tick: calls whoever trains, once a notice and once a hint, and sees his
 * answer.  At a notice without any time he is left alone: what he began would only be in the way.
 */
void heed_attend(struct mount *m, struct notice_view *out);

/* The machine goes in so many ns; 0: nobody says when. -EROFS: nothing is heeded. */
int heed_tell(struct mount *m, uint64_t left_ns);
int heed_cancel(struct mount *m);
/* Whoever trains says that he has saved.  -ESRCH: he was not asked to, and no notice runs. */
int heed_answered(struct mount *m);

/* How it stands with whoever trains: "", "called", "answered". */
const char *heed_trainer(struct mount *m);
/* For status: an object, the caller's; NULL: no memory. */
json_t *heed_json(struct mount *m);

#endif
