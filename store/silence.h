/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the store answer?  A request that is refused says so; one that nobody answers says nothing
 * until it is given up, and a person looks sooner.  So all requests under way, of all threads, are
 * known here by age, with when a byte was last heard.  Thread: any; one lock, held for a few lines.
 */
#ifndef HOLDFAST_STORE_SILENCE_H
#define HOLDFAST_STORE_SILENCE_H

#include <pthread.h>

#include "base/http.h"
#include "store/objects.h"

struct silence {
	struct http_pulse pulse; /* of any of them */
	pthread_mutex_t lock;
	/* under lock */
	struct object_req *oldest, *newest; /* under way; linked by priv.older and priv.newer */
	uint64_t from_ns; /* when the first one after the last answer began; 0: all are answered */
	char said[200];   /* how the network failed a try since; "" */
};

void silence_init(struct silence *s);
void silence_fini(struct silence *s);
/* From the first try of a request to its end, the waits between tries included. */
void silence_begins(struct silence *s, struct object_req *r, uint64_t now_ns);
void silence_ends(struct silence *s, struct object_req *r, bool answered);
/* A try has ended, with a result or with r->fault, which may be the store's answer as well. */
void silence_tried(struct silence *s, const struct object_req *r, uint64_t now_ns);
/* As store_silent(). */
bool silence_look(struct silence *s, uint64_t now_ns, uint64_t least_ns, struct store_silence *out);

#endif
