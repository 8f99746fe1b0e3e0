/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory as a store: the blocking calls behind file://.  Thread: any.
 *
 * I1: a name appears with its whole content, synced, or not at all.
 * I2: a create-only name is given once, on NFS too.
 * What a killed writer leaves behind lies in .tmp/; names with a segment that begins with '.' are
 * no keys, so that and NFS's own .nfs* files are never listed.
 */
#ifndef HOLDFAST_STORE_DIR_SYNC_H
#define HOLDFAST_STORE_DIR_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/dir_root.h"

#define DIR_GET_MOST (64u << 20) /* larger objects are read by ranges */

/* Fails, all four: -EINVAL not a key; -ENOENT; -EACCES; -ENOSPC, -EDQUOT; others SOON where the
 * next try may go better. */

/* -EEXIST (RELOAD): create_only, and the key exists.  Makes directories as needed. */
int dir_put(struct dir_root *d, const char *key, const void *data, size_t len, bool create_only,
	    struct fault *f);
/* len 0: the whole object.  out holds what there is of the range, which may be less than len. */
int dir_get(struct dir_root *d, const char *key, uint64_t off, uint64_t len, struct buf *out,
	    uint64_t *size, struct fault *f);
/* Keys that begin with prefix, behind `after` (may be NULL), in memcmp order, each NUL-ended; at
 * most `most`. */
int dir_list(struct dir_root *d, const char *prefix, const char *after, unsigned most,
	     struct buf *out, struct fault *f);
/* A key that is not there is no fault. */
int dir_delete(struct dir_root *d, const char *key, struct fault *f);

#endif
