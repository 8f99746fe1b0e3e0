/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at a store without a mount: the state at one of its moments.  Writes nothing, and asks
 * nobody's leave: a live writer does not notice.  Thread: the caller's; blocks.
 */
#ifndef HOLDFAST_TOOLS_LOOK_H
#define HOLDFAST_TOOLS_LOOK_H

#include "store/state.h"
#include "tools/ref.h"

struct look {
	struct store *store;
	struct loop *loop;
	struct objects *objects;
	struct store_format format;
	struct block_source source;
	struct state *state; /* of an empty store: the empty one, which has not even a top */
	uint64_t number;     /* of its record; 0: the store holds nothing yet */
};

#define LOOK_EMPTY ((struct look){.store = NULL})

/*
 * Fails:  -ENOENT no store, or no such commit; -EUCLEAN no good moment though there are commits;
 *         those of store_new(), store_load(), log.h and state_load().
 */
int look_open(const struct ref *ref, struct look *out, struct fault *f);
void look_close(struct look *l);
SCOPE_VAL(struct look, look_close)

/* What a path leads to. */
struct target {
	uint64_t id, home;
	uint8_t type; /* DT_DIR … */
};
/* Links are not followed.  -ENOENT, -ENOTDIR: with the path in the text. */
int look_up(struct look *l, const char *path, struct target *out, struct fault *f);

#endif
