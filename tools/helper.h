/* SPDX-License-Identifier: Apache-2.0 */
/* What the helpers of mount(8) and umount(8) have in common.  Thread: main. */
#ifndef HOLDFAST_TOOLS_HELPER_H
#define HOLDFAST_TOOLS_HELPER_H

#include "base/fault.h"

/* A verb's status (tools.h) as mount(8) and umount(8) number them. */
int helper_status(int verb_status);

/* Join the mount namespace at the path that -N gave; NULL: stay. */
int helper_enter(const char *space, struct fault *f);

#endif
