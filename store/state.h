/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state: the namespace at one record, as a merge of immutable runs, newest wins: base,
 * cumulative, at most 63 commits.  Immutable, reference-counted; thread: any.
 * Blocks of a packed run (the base) are read on demand through a block_source, which may block.
 */
#ifndef HOLDFAST_STORE_STATE_H
#define HOLDFAST_STORE_STATE_H

#include "store/record.h"
#include "store/run.h"

/* Reads stored bytes of a pack; verified by whoever asked.  Blocks; thread: the caller's. */
struct block_source {
	int (*get)(struct block_source *src, uint64_t pack, uint64_t off, size_t len, uint8_t *dest,
		   struct fault *f);
	void *arg;
	uint64_t deadline_ms; /* the source's own: what one get may take; 0: for ever */
};
/* A source over a struct objects (tools, tests): the caller owns the loop. */
struct objects;
void block_source_objects(struct block_source *out, struct objects *o);

struct state;
struct state *state_ref(struct state *s);
void state_unref(struct state *s);
SCOPE_PTR(struct state, state_unref)

/* The state of an empty store (number 0): a root directory is the caller's to make. */
int state_empty(const struct store_format *fmt, struct state **out);
/*
 * Load the state at record `number`: the record, its cumulative, those between, ∥ base index.
 * `newest_raw` (may be NULL) is the body of `number` where the caller has it already.
 * Round trips: one for record (none with newest_raw), one for the rest in parallel.
 */
int state_load(struct objects *o, const struct store_format *fmt, uint64_t number,
	       const struct buf *newest_raw, struct state **out, struct fault *f);
/* A record's own run, wherever it lies; NULL: it has none.  Blocks; thread: of the objects' loop. */
int record_run(struct objects *o, const struct store_format *fmt, const struct record_head *head,
	       const struct buf *body, struct run **out, struct fault *f);
/*
 * The state after one more record.  `run` may be NULL (an empty body).  Shares everything with `s`.
 * With RECORD_CUMULATIVE, run replaces all since the base.  Where the head names another base, its
 * index is read at first use, and what it covers is let go.  -ENOMEM.
 */
int state_next(struct state *s, const struct record_head *head, struct run *run,
	       struct state **out);

/* Of its record; number 0 when empty. */
const struct record_head *state_head(const struct state *s);
/* Runs since the base, merged: the body of a cumulative record or of a reset. */
int state_cumulative(struct state *s, struct run **out);
uint64_t state_cumulative_bytes(const struct state *s); /* estimate, for "is a base due?" */
/* Has what lies above the base grown so large that a new one pays: 1 MiB, and a tenth of it? */
bool state_base_due(const struct state *s);
size_t state_depth(const struct state *s);              /* runs above the cumulative one */

/*
 * Every item whose key starts with `prefix`, merged, in key order, removals left out.
 * each() returning non-zero ends the walk with that value.
 */
int state_walk(struct state *s, struct block_source *src, const void *prefix, size_t prefix_len,
	       int (*each)(void *arg, const struct run_item *item), void *arg, struct fault *f);
/* One item; -ENOENT if there is none.  *value is the caller's. */
int state_find(struct state *s, struct block_source *src, const void *key, size_t key_len,
	       struct buf *value, struct fault *f);

/* Do the runs above the base say that it is there? */
bool state_has_above_base(const struct state *s, const void *key, size_t key_len);

/* Over the two: a directory's names; an inode with all its segments. */
int state_names(struct state *s, struct block_source *src, uint64_t dir,
		int (*each)(void *arg, const char *name, size_t len, const struct name_rec *n),
		void *arg, struct fault *f);
int state_inode(struct state *s, struct block_source *src, uint64_t home, uint64_t id,
		struct inode_rec *out, struct fault *f);

/*
 * What may differ between two states of one store, as removals of those keys (of an inode some segments
 * only): none that differs is left out.  Told by the runs above the base, so nothing is read.
 * 1: anything may, since their bases differ; *keys stays untouched.  0; -ENOMEM, -EFBIG.
 */
int state_differs(const struct state *a, const struct state *b, struct run **keys);

/*
 * Every item of the runs above the base, newest run first: what an older run says of a key, or that there is
 * one, may be true no more.  Nothing is read.  each() returning non-zero ends it with that value.
 */
int state_recent(const struct state *s, int (*each)(void *arg, const struct run_item *item), void *arg);

/* ---- packed runs ---- */
/*
 * Write a run as blocks and index.  put() stores one blob of at most PACK_MAX bytes as a pack of its
 * own and returns its name; blocks are laid into blobs in order, the index is in the last.
 */
struct pack_sink {
	int (*put)(struct pack_sink *sink, const void *data, size_t len, uint64_t *out_pack,
		   struct fault *f);
	void *arg;
};
int run_pack(const struct store_format *fmt, struct pack_sink *sink, struct run *r,
	     struct run_ref *out, struct fault *f);
/*
 * The body of a record whose run this is (NULL: an empty body): the run itself, or where it lies
 * in packs.  So a 412 never sends much again.  Sets RECORD_PACKED in *flags in that case.
 */
#define RUN_IN_RECORD_MOST (1u << 20)
int run_body(const struct store_format *fmt, struct pack_sink *sink, struct run *r, uint16_t *flags,
	     struct buf *body, struct fault *f);
/* The whole state as one base run, streamed block by block (memory stays bounded). */
int state_pack_base(struct state *s, struct block_source *src, struct pack_sink *sink,
		    struct run_ref *out, struct fault *f);

#endif
