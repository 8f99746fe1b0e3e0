/* SPDX-License-Identifier: Apache-2.0 */
/* What a mount says of itself: keys are stable and documented in holdfast-mount(8).  Thread: any. */
#ifndef HOLDFAST_FS_STATUS_H
#define HOLDFAST_FS_STATUS_H

#include "fs/mount.h"

/* One JSON object on one line, the caller's; NULL without memory. */
char *status_json(struct mount *m);

#endif
