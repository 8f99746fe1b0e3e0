/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read and write them.  Pure; thread: any. */
#ifndef HOLDFAST_TOOLS_WORDS_H
#define HOLDFAST_TOOLS_WORDS_H

#include "base/buf.h"

#define WORDS_MAX 24

/* "0 bytes", "1 byte", "17 KB", "1.3 GB": powers of ten, two digits at least.  Returns out. */
const char *words_bytes(double bytes, char out[WORDS_MAX]);
/* "0.4 s", "12 s", "4 min", "2.5 h", "3 days".  Returns out. */
const char *words_span(double seconds, char out[WORDS_MAX]);
/* Seconds from a command line: "90", "0.5".  false: not a positive number, or over ten years. */
bool words_parse_seconds(const char *text, double *out);

#endif
