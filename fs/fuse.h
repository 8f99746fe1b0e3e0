/* SPDX-License-Identifier: Apache-2.0 */
/* libfuse's low-level API at the version that was found: 3.12 changed the loop's configuration. */
#ifndef HOLDFAST_FS_FUSE_H
#define HOLDFAST_FS_FUSE_H

#include "base/features.h"

#if HAVE_FUSE_CUSTOM_IO
#define FUSE_USE_VERSION 314
#else
#define FUSE_USE_VERSION 35
#endif
#include <fuse_lowlevel.h>

#endif
