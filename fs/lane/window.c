/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ahead by one piece.  Holes are stepped over in whole megabytes of the file, so that the grid
 * cut finds its chunks where it would without them.
 */
#include "fs/lane/window.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t round_down(uint64_t x, uint64_t unit)
{
	return x - x % unit;
}

static uint64_t round_up(uint64_t x, uint64_t unit)
{
	return round_down(x + unit - 1, unit);
}

static uint64_t end_of(const struct window *w)
{
	return w->u->off + w->u->len;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Where a piece of `len` goes: behind the one before it, or behind the other half's front. */
static uint8_t *room_for(const struct window *w, size_t len)
{
	uint8_t *before = w->ahead.mem + w->ahead.len;
	bool second = w->ahead.mem >= w->mem + WINDOW_HALF;
	const uint8_t *end = w->mem + (second ? WINDOW_BYTES : WINDOW_HALF);

	if (len <= (size_t)(end - before))
		return before;
	return w->mem + (second ? 0 : WINDOW_HALF) + CHUNK_MAX;
}

/* ---- holes ---- */

/* May the file be short of the range?  Only where patch knows what was there. */
static bool reaches_end(const struct window *w)
{
	struct stat st;

	if (w->u->patch)
		return true;
	return fstat(w->u->fd, &st) == 0 && (uint64_t)st.st_size >= end_of(w);
}

/* Bytes at `next` that fd does not hold, by its own account. */
static uint64_t hole_at(const struct window *w)
{
	off_t data = lseek(w->u->fd, (off_t)w->next, SEEK_DATA);
	uint64_t end = end_of(w);

	if (data < 0 && (errno != ENXIO || !reaches_end(w)))
		return 0; /* cannot tell: read it, and hear it then */
	if (data >= 0 && (uint64_t)data < end)
		end = round_down((uint64_t)data, CHUNK_GRID);
	return end > w->next ? end - w->next : 0;
}

static bool is_patched(const struct window *w, uint64_t off, uint64_t len)
{
	struct upload *u = w->u;

	if (!u->patch)
		return false;
	return !u->patches || u->patches(u, off, len);
}

/* The first offset behind `next` where a step over a hole could begin. */
static uint64_t next_hole(const struct window *w)
{
	off_t hole = lseek(w->u->fd, (off_t)w->next, SEEK_HOLE);

	if (hole < 0)
		return end_of(w);
	return round_up((uint64_t)hole > w->next ? (uint64_t)hole : w->next + 1, CHUNK_GRID);
}

/*
 * Asked once a stretch, not once a piece: some file systems walk a whole file to find its first
 * hole.  A hole that is punched behind our back is read as zeros.
 */
static void look_for_hole(struct window *w)
{
	uint64_t hole = hole_at(w);

	if (hole > 0 && !is_patched(w, w->next, hole))
		w->hole = hole;
	else
		w->data_until = hole > 0 ? w->next + hole : next_hole(w);
}

/* ---- reading ---- */

static void read_done(struct loop_file *r, ssize_t rc);

static void read_on(struct window *w)
{
	w->ahead.busy = true;
	w->ahead.file = (struct loop_file){
		.fd = w->u->fd,
		.data = w->ahead.mem + w->ahead.got,
		.len = w->ahead.len - w->ahead.got,
		.off = w->next - w->ahead.len + w->ahead.got,
		.done = read_done,
		.arg = w,
	};
	loop_pread(w->loop, &w->ahead.file);
}

static int piece_read(struct window *w)
{
	struct upload *u = w->u;
	uint8_t *mem = w->ahead.mem;

	if (w->ahead.got < w->ahead.len && !u->patch)
		return -ESTALE; /* fd ends before the range does */
	memset(mem + w->ahead.got, 0, w->ahead.len - w->ahead.got);
	return u->patch ? u->patch(u, mem, w->ahead.len, w->next - w->ahead.len) : 0;
}

static void read_done(struct loop_file *r, ssize_t rc)
{
	struct window *w = r->arg;

	w->ahead.busy = false;
	if (rc > 0)
		w->ahead.got += (size_t)rc;
	if (w->rc == 0 && rc > 0 && w->ahead.got < w->ahead.len) {
		read_on(w);
		return;
	}
	if (w->rc == 0)
		w->rc = rc < 0 ? (int)rc : piece_read(w);
	w->ahead.ready = true;
	w->moved(w); /* may free w */
}

/* Ask for what lies behind all that was asked for: a hole, a piece, or nothing. */
static void ask(struct window *w)
{
	uint64_t end = end_of(w);

	if (w->next == end)
		return;
	if (w->next >= w->data_until)
		look_for_hole(w);
	if (w->hole > 0)
		return;
	end = min_u64(end,
		      min_u64(w->data_until, round_down(w->next + WINDOW_PIECE, WINDOW_PIECE)));
	w->ahead.mem = room_for(w, end - w->next);
	w->ahead.len = end - w->next;
	w->ahead.got = 0;
	w->next = end;
	read_on(w);
}

/* ---- what the cutter sees ---- */

void window_open(struct window *w)
{
	struct upload *u = w->u;

	w->ahead.mem = w->mem + CHUNK_MAX;
	w->next = u->off;
	w->data_until = u->inline_ok && u->len <= CHUNK_INLINE ? u->off + u->len : u->off;
	ask(w);
}

/* What was read ahead joins what is not taken, which moves if that lies in the other half. */
static void step(struct window *w)
{
	uint8_t *from = w->ahead.mem - w->have;

	if (w->have > 0 && w->at != from)
		memcpy(from, w->at, w->have);
	w->at = from;
	w->have += w->ahead.len;
	w->ahead.ready = false;
	ask(w);
}

enum window_look window_look(struct window *w, bool stuck)
{
	if (w->have > 0 && !stuck)
		return WINDOW_DATA;
	if (w->ahead.ready) {
		step(w);
		return WINDOW_DATA;
	}
	if (w->ahead.busy)
		return WINDOW_WAIT;
	if (w->have > 0)
		return WINDOW_DATA;
	return w->hole > 0 ? WINDOW_HOLE : WINDOW_END;
}

bool window_is_last(const struct window *w)
{
	return !w->ahead.busy && !w->ahead.ready && (w->hole > 0 || w->next == end_of(w));
}

bool window_is_through(const struct window *w)
{
	return !w->ahead.busy && !w->ahead.ready && w->hole == 0 && w->next == end_of(w);
}

void window_take(struct window *w, uint64_t n)
{
	if (w->have > 0) {
		w->at += n;
		w->have -= n;
		return;
	}
	w->next += n;
	w->hole = 0;
	ask(w);
}
