/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What configure found on the machine that built us, as constants: every HAVE_* is 0 or 1, so it
 * is asked with `if` where both branches compile and with `#if` where they do not.
 */
#ifndef HOLDFAST_BASE_FEATURES_H
#define HOLDFAST_BASE_FEATURES_H

#if HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

/* fuse_session_custom_io(), libfuse 3.14: we read and write /dev/fuse with buffers of our own. */
#ifndef HAVE_FUSE_CUSTOM_IO
#define HAVE_FUSE_CUSTOM_IO 0
#endif

#endif
