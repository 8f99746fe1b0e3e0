/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: threads that move chunks out in packs and ranges in.  Each owns a loop, its connections
 * and its buffers; a pack stays in its lane from the read of the cache file to the reply.
 * Lanes know file descriptors and extents, nothing of names, inodes or commits.
 *
 * Thread: lanes_*() from any thread; callbacks run on a lane's thread, do one step and return.
 * I1: an extent is reported only after the pack that holds it was acknowledged by the store.
 */
#ifndef HOLDFAST_FS_LANE_LANE_H
#define HOLDFAST_FS_LANE_LANE_H

#include <stdatomic.h>

#include "store/extent.h"
#include "store/objects.h"
#include "store/state.h"

struct lanes;

struct lanes_conf {
	const struct store *store;
	const struct store_format *format;
	unsigned lanes;                   /* 0: min(4, cores) */
	uint64_t (*pack_name)(void *arg); /* next unique pack name; any thread */
	void *arg;
	bool compress; /* let zstd try where the link is the bottleneck */
	int nice;      /* of the lane threads, until lanes_hurry() */
};
int lanes_new(const struct lanes_conf *conf, struct lanes **out, struct fault *f);
/* Cancels everything (callbacks with -ECANCELED), and so what is handed in from then on. */
void lanes_stop(struct lanes *l);
/* Stops them and joins the threads. */
void lanes_free(struct lanes *l);
SCOPE_PTR(struct lanes, lanes_free)

/* ---- out ---- */

/*
 * Bytes [off, off+len) of fd become extents: cut, hashed, looked up in the dedupe index, maybe
 * compressed, packed, sent.  The struct is the caller's and in use until done().
 */
struct upload {
	/* fixed */
	int fd;
	uint64_t off, len;
	/* Cut by content; else on the 1 MiB grid, where an offset in fd is a multiple of it. */
	bool by_content;
	/* More will follow: the last chunk, which that may still move, is left; see taken. */
	bool open_end;
	/* Content of at most CHUNK_INLINE bytes comes back as one INLINE extent, unsent. */
	bool inline_ok;
	/*
	 * Somebody waits: its pack is sent as soon as the lane has nothing more to put into it.
	 * Else one that is still small, or for which others keep the link busy, waits for more, at
	 * most 1 s.
	 */
	bool urgent;
	/*
	 * Bytes that fd no longer holds: called after each read of [off, off+len) with what was
	 * read (zeros behind the end of fd); it overwrites what must come from elsewhere.  Returns
	 * 0, or a negative errno that ends the upload (-ESTALE: the range was changed while it was
	 * read).  Lane thread.  NULL: fd must hold all of it, and one that ends early is -ESTALE.
	 */
	int (*patch)(struct upload *u, uint8_t *data, size_t len, uint64_t off);
	/*
	 * Holes of fd become ZERO extents unread, so that a sparse file costs what it holds: where
	 * patch is NULL, or where patches(), asked after the hole was seen, says that patch would
	 * overwrite nothing in [off, off+len).  NULL beside a patch: holes are read like data.
	 * Lane thread.
	 */
	bool (*patches)(struct upload *u, uint64_t off, uint64_t len);
	/*
	 * All of it is cut and `taken` stands, long before the store has answered: what follows an
	 * open end may be handed in at once, so that the lane never waits for a reply.  `out` is
	 * not to be used yet, and done() may still say that it failed.  Lane thread; may be NULL.
	 */
	void (*cut)(struct upload *u);
	void (*done)(struct upload *u);
	void *arg;
	/* result */
	int rc; /* 0; -ECANCELED; -ESTALE; else what would not go away, with fault */
	struct fault fault;
	struct extents out; /* cover [off, off+taken); the caller ends it; empty if rc < 0 */
	uint64_t taken;     /* = len unless open_end */
	/* lanes' own */
	_Atomic bool cancelled;
	struct upload *next;
	void *priv;
};
void lanes_upload(struct lanes *l, struct upload *u);
/* Asks it to end early; done() still comes (with -ECANCELED unless it was past that). */
void lanes_cancel(struct lanes *l, struct upload *u);

/* Somebody waits for what was handed in so far, though it is not urgent: no pack is held back for more. */
void lanes_press(struct lanes *l);

/* Chunks known to be stored, from records read, besides those sent.  Bounded; forgetting costs a
 * re-send. */
void lanes_known(struct lanes *l, const struct hash128 *hash, uint64_t length,
		 const struct place *at);
/* Packs condemned: forget all that lie in them. */
void lanes_forget_pack(struct lanes *l, uint64_t pack);

/* ---- in ---- */

struct fetch_item {
	const struct extent *extent; /* CHUNK; stays valid until done() */
	uint64_t off;                /* where it goes in the content; the caller's own */
	int rc;                      /* result of this one */
};
enum fetch_rank { FETCH_NOW, FETCH_SOON /* prefetch: only where nothing waits */ };
/* Neighbours in one pack become one GET (small gaps read over); several run at once, over all
 * lanes. */
struct fetch {
	/* fixed */
	struct fetch_item *items;
	size_t n;
	enum fetch_rank rank;
	uint64_t deadline_ns; /* 0: try for ever */
	/*
	 * The content of one item, decoded and verified, len = its extent's length; valid during
	 * the call.  Returns 0, or a negative errno that becomes the item's rc.  Items come in any
	 * order, and on several lanes at the same time.
	 */
	int (*deliver)(struct fetch *x, struct fetch_item *i, const uint8_t *data, size_t len);
	/* One item was delivered (rc 0) or given up (rc).  As deliver().  May be NULL. */
	void (*item_done)(struct fetch *x, struct fetch_item *i);
	void (*done)(struct fetch *x);
	void *arg;
	/* result */
	int rc;             /* the first failure */
	struct fault fault; /* names pack and chunk; -EBADMSG only if a second try was no better */
	_Atomic bool cancelled;
	_Atomic size_t left;
	struct fetch *next;
	void *priv;
};
void lanes_fetch(struct lanes *l, struct fetch *x);
void lanes_fetch_cancel(struct lanes *l, struct fetch *x); /* done() still comes */

/* Blocking reads of pack ranges for state_*(), from threads that are no lane.  Each may take
 * deadline_ms; 0: for ever.  -ESTALE: the pack is gone. */
void lanes_block_source(struct lanes *l, uint64_t deadline_ms, struct block_source *out);
/* Store one blob as a pack of its own; blocks until deadline_ns (0: for ever).  For bases and
 * packed runs. */
int lanes_put_pack(struct lanes *l, const void *data, size_t len, uint64_t deadline_ns,
		   uint64_t *out_pack, struct fault *f);

/* Somebody waits for all that is unsent (a notice, an acknowledgement): the lane threads run at
 * nice 0, and nothing is held back for more.  false: as configured, but while a read waits. */
void lanes_hurry(struct lanes *l, bool hurry);

/* ---- what status shows ---- */
struct lanes_counts {
	uint64_t sent_bytes;    /* bodies of acknowledged packs */
	uint64_t deduped_bytes; /* content that was not sent since the store has it */
	uint64_t fetched_bytes;
	uint64_t queued_bytes; /* uploads not done */
	uint64_t rate_bps; /* bytes a second out, smoothed over the last busy ones; 0: unknown */
	int64_t failing_since_ns; /* monotonic; 0: the last request worked */
	char last_error[256];
};
void lanes_counts(struct lanes *l, struct lanes_counts *out);

#endif
