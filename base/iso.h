/* SPDX-License-Identifier: Apache-2.0 */
/* Times as cloud services write them.  Pure; thread: any. */
#ifndef HOLDFAST_BASE_ISO_H
#define HOLDFAST_BASE_ISO_H

#include <stdbool.h>
#include <stdint.h>

/*
 * "2026-11-30T17:25:00Z", with a fraction (dropped) or an offset for the Z, or nothing, which is
 * UTC. Seconds since 1970; false: not such a time.
 */
bool iso_time(const char *text, int64_t *out_s);

#endif
