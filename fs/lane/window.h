/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window slides over [off, off+len) of an upload's file: what was read is looked at while the
 * next piece comes in behind it.  Holes of a megabyte or more (and one at the end) are stepped over
 * unread.
 *
 *     front | piece piece piece ...      when one half is full, the next piece goes into the other
 *     front | piece piece piece ...      one, and what is not taken yet moves to its front: a chunk
 *                                        always lies in one stretch
 *
 * Thread: the loop's.
 */
#ifndef HOLDFAST_FS_LANE_WINDOW_H
#define HOLDFAST_FS_LANE_WINDOW_H

#include "base/loop.h"
#include "fs/lane/lane.h"

/* Small, so that what is cut and hashed next is still in the CPU's cache. */
#define WINDOW_PIECE (512u << 10)
#define WINDOW_HALF  (CHUNK_MAX + 8 * WINDOW_PIECE)
#define WINDOW_BYTES (2 * (size_t)WINDOW_HALF)

struct window {
	/* fixed while open */
	struct loop *loop;
	struct upload *u;
	uint8_t *mem;                    /* WINDOW_BYTES; the caller's */
	void (*moved)(struct window *w); /* a read has ended: look again, or end where rc < 0 */
	void *arg;
	/* the loop's thread */
	uint64_t next;       /* first offset that was not asked for */
	uint64_t data_until; /* fd is known to have no hole worth a step before this */
	uint64_t hole;       /* so many bytes behind the data are a hole */
	uint8_t *at;         /* bytes read and not taken */
	size_t have;
	struct {
		struct loop_file file;
		uint8_t *mem;
		size_t len, got;
		bool busy;  /* the kernel holds the buffer */
		bool ready; /* got = len bytes lie there */
	} ahead;
	int rc; /* also the owner's, to give up at the end of the read under way */
};

/* Starts the first read.  mem belongs to the window until !window_is_busy(). */
void window_open(struct window *w);

enum window_look {
	WINDOW_WAIT, /* moved() will be called */
	WINDOW_DATA, /* w->have bytes at w->at: cut, then window_take() */
	WINDOW_HOLE, /* w->hole bytes of nothing: window_take() them */
	WINDOW_END,  /* all of it was taken */
};
/*
 * `stuck`: the bytes at hand were looked at and hold no whole chunk; more are wanted.
 * After the last of a stretch there are no more: window_is_last().
 */
enum window_look window_look(struct window *w, bool stuck);
/* Does the data at hand end where a hole or the end of the range begins? */
bool window_is_last(const struct window *w);
/* Is everything up to the end of the range read? */
bool window_is_through(const struct window *w);
void window_take(struct window *w, uint64_t n);
static inline bool window_is_busy(const struct window *w)
{
	return w->ahead.busy;
}

#endif
