/* SPDX-License-Identifier: Apache-2.0 */
/* What a mount says of itself: keys are stable and documented in holdfast-mount(8).  Thread: any. */
#ifndef HOLDFAST_FS_STATUS_H
#define HOLDFAST_FS_STATUS_H

#include "fs/commit.h"

/* "read-write", "fenced", ... */
const char *status_mode(const struct mount *m, bool read_only, const struct commit_status *c);
/* One JSON object on one line, the caller's; NULL without memory. */
char *status_json(struct mount *m);

#endif
