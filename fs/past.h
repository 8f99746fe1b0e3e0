/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads past a full cache.  A chunk that came, was checked, and for which there is no room is not kept on disk: it
 * stands here in memory for those who asked for it, and, while nobody needs the memory, for the next reads of it.
 * At most PAST_MOST bytes, and what readers that are about to be answered wait for.
 *
 * Chunks are known by their hash, so what is here can be out of date for nobody.
 * Thread: any; one lock inside, which is innermost.
 */
#ifndef HOLDFAST_FS_PAST_H
#define HOLDFAST_FS_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/extent.h"

#define PAST_MOST (UINT64_C(32) << 20)

struct mount;
struct past;
struct past_chunk;

struct past *past_new(void); /* NULL: no memory */
void past_free(struct past *p);

/* Is there no room for bytes that come to be read?  Cheap. */
bool past_wanted(struct mount *m);
/* There was none just now. */
void past_disk_is_full(struct mount *m);

/* A copy of chunk e's content.  spare: only where nothing has to go for it.  0 or -ENOMEM. */
int past_put(struct past *p, const struct extent *e, const uint8_t *data, bool spare);
/* `len` bytes of chunk e, from `from` on.  -ENODATA: it is not here. */
int past_get(struct past *p, const struct extent *e, uint64_t from, uint8_t *to, size_t len);
bool past_any(const struct past *p);
bool past_has(struct past *p, const struct extent *e);
/*
 * If nobody has asked for anything since `before_ns` the memory goes; where there is room, if nothing has come since
 * then: what is asked for is better kept.
 */
void past_age(struct past *p, uint64_t before_ns, bool room);

/* Chunks that stay until their reader has run.  Short of memory they may go: he fetches again. */
struct past_held {
	struct past_chunk **v;
	size_t n;
};
void past_hold(struct past *p, struct past_held *h, const struct extent *e);
void past_let_go(struct past *p, struct past_held *h); /* no harm if it holds none */

#endif
