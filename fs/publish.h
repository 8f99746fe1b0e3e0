/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the mount in a file, for `-o metrics=PATH` (fs/metrics.h): every 15 s, and every second while a
 * notice runs, from a thread of its own, since the disk of PATH may block.  The file goes with the mount.
 */
#ifndef HOLDFAST_FS_PUBLISH_H
#define HOLDFAST_FS_PUBLISH_H

#include "fs/mount.h"

struct publisher;

/* *out NULL: nobody wants any.  Fails: PATH cannot be written, or lies in the mount. */
int publish_start(struct mount *m, struct publisher **out, struct fault *f);
/* Before the mount is taken apart. */
void publish_end(struct publisher *p);

#endif
