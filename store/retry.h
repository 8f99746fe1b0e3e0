/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait before a request is tried again.  Pure; thread: any. */
#ifndef HOLDFAST_STORE_RETRY_H
#define HOLDFAST_STORE_RETRY_H

#include <stdint.h>

#include "base/fault.h"

/* What can be known when a try has failed. */
struct retry {
	enum fault_retry class;
	unsigned tries;          /* made so far, at least 1 */
	uint64_t retry_after_ns; /* the store named a time; 0: it did not */
	uint64_t left_ns;        /* until the deadline; UINT64_MAX: there is none */
	uint64_t most_ns;        /* no wait is much longer, whatever the store asks for; 0: as usual */
	uint64_t random;         /* any 64 bits */
};

/*
 * Nanoseconds to wait, or 0 for "give up": the class says so, or too little time is left.
 * SOON doubles from 50 ms to 10 s, PACED from 500 ms to 10 s and never less than the store asked
 * for; each is spread over its upper half, so that many clients do not come back together.
 * Near a deadline the wait is at most half of what is left: the last seconds still see tries.
 */
uint64_t retry_wait_ns(const struct retry *r);

/*
 * How long a try (the first is 1) of what only reads may see no byte either way before it is given up.  Short
 * at first: one connection stands still, and another one moves.  Longer each time: the store is slow, and asking
 * sooner would make it slower.
 */
uint64_t retry_stall_ns(unsigned tries);

#endif
