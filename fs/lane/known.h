/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that need not be sent, by hash: they lie in the store, or in a pack that some lane is
 * sending now.  Bounded: a set of eight entries a bucket, the one least lately used makes room;
 * forgetting costs a re-send.
 *
 * A chunk of a pack under way may be referred to at once, but whoever does has to wait for that
 * pack.  A lane knows the end of its own packs; for those of others it asks known_outcome().
 * I1: what is found and not `pending` was acknowledged by the store.
 *
 * Thread: any; one lock, held for a few lines (known_forget() walks the whole index).
 */
#ifndef HOLDFAST_FS_LANE_KNOWN_H
#define HOLDFAST_FS_LANE_KNOWN_H

#include "store/extent.h"

struct known;

/* At most `entries` chunks (48 bytes each).  0 or -ENOMEM. */
int known_new(size_t entries, struct known **out);
void known_free(struct known *k);
SCOPE_PTR(struct known, known_free)

#define KNOWN_LANES 16

enum known_state {
	KNOWN_NOT,  /* the asking lane places it: known_add(), then known_placed() */
	KNOWN_BUSY, /* another lane places it at this moment: ask again */
	KNOWN_STORED,
	KNOWN_PENDING_OWN, /* in a pack that the asking lane is sending */
	KNOWN_PENDING,     /* in another lane's: counted, until known_outcome() or known_leave() */
};
/* lane: below KNOWN_LANES. */
enum known_state known_find(struct known *k, unsigned lane, const struct hash128 *hash,
			    uint64_t length, struct place *out);
/* The lane has placed what it was told is KNOWN_NOT, or gave up; due before it waits again. */
void known_placed(struct known *k, unsigned lane);
void known_add(struct known *k, const struct hash128 *hash, uint64_t length,
	       const struct place *at);
/* Forget every chunk of a pack. */
void known_forget(struct known *k, uint64_t pack);

/* A pack that `lane` is about to fill.  Before this none of its chunks may be added.  false: too
 * many. */
bool known_begin(struct known *k, unsigned lane, uint64_t pack);
/* It was stored (why NULL), or failed for good.  Returns whether others wait for it. */
bool known_end(struct known *k, uint64_t pack, const struct fault *why);
/* Give a pack up unsent, unless others wait for it: then false, and it has to go on. */
bool known_withdraw(struct known *k, uint64_t pack);
/* Do others wait for it already? */
bool known_is_wanted(struct known *k, uint64_t pack);
/*
 * How a pack of another lane ended, for one that known_find() had returned `times` times; they are
 * counted off once it has.  1: not yet; 0: stored; else its code, *why says more.
 */
int known_outcome(struct known *k, uint64_t pack, unsigned times, struct fault *why);
/* As above for one who does not care any more. */
void known_leave(struct known *k, uint64_t pack, unsigned times);

#endif
