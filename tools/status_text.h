/* SPDX-License-Identifier: Apache-2.0 */
/* A mount's status in words.  Pure: JSON in, text out; what is missing is left out.  Thread: any. */
#ifndef HOLDFAST_TOOLS_STATUS_TEXT_H
#define HOLDFAST_TOOLS_STATUS_TEXT_H

#include <jansson.h>

#include "base/buf.h"

/* A few lines, each "what   how it stands". */
void status_text(const json_t *status, struct buf *out);
/* All of it that matters from one second to the next, on one line with its end. */
void status_line(const json_t *status, struct buf *out);

#endif
