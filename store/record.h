/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a log record, and where a run lies that is too large for one.  holdfast-store(5). */
#ifndef HOLDFAST_STORE_RECORD_H
#define HOLDFAST_STORE_RECORD_H

#include "base/buf.h"
#include "base/fault.h"
#include "store/chunk.h"
#include "store/extent.h"
#include "store/format.h"

enum record_kind {
	RECORD_COMMIT = 1,
	RECORD_JOIN = 2,
	RECORD_RESET = 3,
	RECORD_CONDEMN = 4,
	RECORD_PIN = 5,
	RECORD_UNPIN = 6,
	RECORD_STUB = 7,
};
enum record_flag {
	RECORD_QUIET = 1 << 0,      /* frozen at a quiet instant */
	RECORD_RELEASE = 1 << 1,    /* the writer has ended: the slot is free */
	RECORD_CUMULATIVE = 1 << 2, /* the body is the run (base_upto, number] */
	RECORD_PACKED = 1 << 3,     /* the body is a struct run_ref, the run lies in packs */
};

/* A run in packs: blocks of at most 256 KiB behind an index; `index` is where the index lies. */
struct run_ref {
	struct place index;
	uint32_t index_raw;  /* decoded bytes */
	struct hash128 hash; /* of the decoded index */
	uint64_t bytes;      /* encoded size of the whole run */
};

struct record_head {
	struct store_id store;
	uint64_t number;
	struct hash128 prev; /* hash of record number-1 (its whole object); zeros for number 1 */
	uint8_t kind;
	uint16_t flags;
	uint16_t slot, slots; /* 0 of 1 */
	uint32_t attempt;
	uint64_t fence; /* number of the writer's join or reset (its own number there) */
	uint64_t nonce;
	int64_t time_ns;    /* wall clock of the writer, for people */
	uint64_t from;      /* the record whose state this one extends; 0: the empty state */
	uint64_t good;      /* the commit that a new machine continues; 0: none yet */
	uint64_t calm;      /* slots: read up to here without objection; 0 */
	uint64_t base_upto; /* the base is (0, base_upto]; 0: none */
	struct run_ref base;
	/* Newest record, up to this one, of its branch whose body is (base_upto, it]; 0: none. */
	uint64_t cumulative;
	uint64_t floor; /* resets and pins name nothing below it but `good` and what is pinned; every later record repeats it
			 * (tests/model/stub.pml, NO_FLOOR); 0: none */
	char host[64]; /* of the writer, for the message that refuses a takeover; NUL-ended */
};

#define RECORD_BODY_MAX (16u << 20) /* writers pack a run from 1 MiB on */
#define RUN_REF_BYTES   45

/*
 * header ‖ codec ‖ body (zstd where it pays) ‖ hash.  `body` may be empty.
 * Fails: -EINVAL the header says what no record may; -E2BIG body over RECORD_BODY_MAX; -ENOMEM.
 */
int record_encode(const uint8_t secret[STORE_SECRET_BYTES], const struct record_head *h,
		  const void *body, size_t body_len, struct buf *out);
/*
 * Checks magic, version, store id, hash and bounds.  *body (may be NULL) is decoded, the caller's.
 * Fails: -EBADMSG damaged, not a record, or of another store; -EPROTONOSUPPORT of a later version;
 * -EPROTO its body does not decode; -ENOMEM (SOON).
 */
int record_decode(const struct store_format *s, const void *data, size_t len,
		  struct record_head *out, struct buf *body, struct fault *f);
/* Hash of a whole record object: what the next one's `prev` holds. */
void record_hash(const uint8_t secret[STORE_SECRET_BYTES], const void *data, size_t len,
		 struct hash128 *out);

/* RUN_REF_BYTES.  Decode: -EBADMSG if it names what cannot be in a pack. */
int run_ref_encode(const struct run_ref *r, struct buf *out);
int run_ref_decode(struct reader *r, struct run_ref *out);

#endif
