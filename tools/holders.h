/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a mount busy.  Thread: any. */
#ifndef HOLDFAST_TOOLS_HOLDERS_H
#define HOLDFAST_TOOLS_HOLDERS_H

#include "base/buf.h"

/*
 * Name the processes with a file, a mapping or their working directory in `dir` (absolute, without
 * links): "python (4711), bash (4712)", the first few.  Only links in /proc are read, so that a
 * mount that does not answer is no trouble; what we may not see is not there.  Empty: nobody found.
 */
void holders_name(const char *dir, struct buf *out);

#endif
