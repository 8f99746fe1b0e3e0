/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of packs, read in parallel and waited for together.  Inside store/; thread: the owner of
 * the objects' loop, which has nothing else to do meanwhile.
 */
#ifndef HOLDFAST_STORE_GETS_H
#define HOLDFAST_STORE_GETS_H

#include "store/extent.h"
#include "store/objects.h"

struct get {
	struct get *next;
	struct object_req req;
	char key[PACK_KEY_MAX];
	uint8_t *data; /* req.len bytes from req.off on, once gets_wait() has returned 0 */
};

struct gets {
	struct objects *o;
	struct get *list;
	size_t pending;
	bool idle; /* nothing is pending */
};
#define GETS_EMPTY(objects) ((struct gets){.o = (objects), .idle = true})

/* Start one; it lives as long as g.  NULL: no memory. */
struct get *gets_start(struct gets *g, uint64_t pack, uint64_t off, size_t len);
/* Wait for all.  The first that failed is the fault. */
int gets_wait(struct gets *g, struct fault *f);
void gets_fini(struct gets *g); /* cancels what is under way */
SCOPE_VAL(struct gets, gets_fini)

#endif
