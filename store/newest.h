/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the log stands: its newest record, and the newest that a writer made (a commit, a join or
 * a reset; condemnations, pins and stubs may lie above it).  Thread: the owner of the objects' loop.
 */
#ifndef HOLDFAST_STORE_NEWEST_H
#define HOLDFAST_STORE_NEWEST_H

#include "store/record.h"

struct objects;

struct newest {
	uint64_t number;     /* newest record; 0: the log is empty */
	struct hash128 hash; /* of it */
	uint64_t floor;      /* that it repeats */
	struct record_head head; /* of the newest that a writer made; number 0: there is none */
	struct buf raw;          /* the whole of that record */
};
#define NEWEST_EMPTY ((struct newest){.number = 0})

/*
 * Reads the records down from `number` (of log_newest(), or 0).  Owns: ends what *io held, and is ended
 * by newest_fini(), after a failure too.  Fails: as log_read() and record_decode(), the record named.
 */
int newest_read(struct objects *o, const struct store_format *fmt, uint64_t number,
		uint64_t deadline_ns, struct newest *io, struct fault *f);
void newest_fini(struct newest *n); /* leaves NEWEST_EMPTY */
SCOPE_VAL(struct newest, newest_fini)

/* The record whose state is the newest: a join has its predecessor's.  0: the empty state. */
uint64_t newest_state(const struct newest *n);
/* The good moment, for which a reset names itself: the same state.  0: there is none. */
uint64_t newest_good(const struct newest *n);

#endif
