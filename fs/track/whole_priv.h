/* SPDX-License-Identifier: Apache-2.0 */
/* What whole.c shares with the formats that have a file of their own. */
#ifndef HOLDFAST_FS_TRACK_WHOLE_PRIV_H
#define HOLDFAST_FS_TRACK_WHOLE_PRIV_H

#include <stdbool.h>

#include "fs/track/whole.h"

/* False: not inside the file, or not at hand. */
bool whole_get(const struct whole_source *s, uint64_t off, void *data, size_t len);
/* The same, allocated; NULL also if it is longer than WHOLE_TABLE_MOST. */
uint8_t *whole_table(const struct whole_source *s, uint64_t off, uint64_t len);

static inline enum whole_verdict whole_torn(const char **why, const char *text)
{
	*why = text;
	return WHOLE_TORN;
}

/* fs/track/whole_zip.c: it begins as a zip. */
enum whole_verdict whole_zip(const struct whole_source *s, const char **why);

/*
 * fs/track/whole_torch.c: how many storages the pickle of a torch.save() names.  They are numbered
 * from 0.  0 as well where the pickle is none or is not understood.
 */
uint64_t torch_storages(const uint8_t *pickle, size_t len);

#endif
