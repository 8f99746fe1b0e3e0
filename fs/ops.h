/* SPDX-License-Identifier: Apache-2.0 */
/* FUSE calls: translation only.  Userdata of the session is the struct mount.  Thread: FUSE workers. */
#ifndef HOLDFAST_FS_OPS_H
#define HOLDFAST_FS_OPS_H

#include "fs/fuse.h"

extern const struct fuse_lowlevel_ops ops;

/* Bit 28 of INIT's flags: set-id bits fall without a GETXATTR before every write.  libfuse 3.14 has no name for it. */
#define INIT_HANDLE_KILLPRIV_V2 (1u << 28)

#endif
