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

/* libfuse asks for it since 3.17; an older one lets us change its reply to INIT, from 3.14 on: session.c. */
#ifndef FUSE_CAP_HANDLE_KILLPRIV_V2
#define FUSE_CAP_HANDLE_KILLPRIV_V2 0
#define CHANGES_INIT_REPLY HAVE_FUSE_CUSTOM_IO
#else
#define CHANGES_INIT_REPLY 0
#endif

#endif
