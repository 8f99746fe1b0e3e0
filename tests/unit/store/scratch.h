/* SPDX-License-Identifier: Apache-2.0 */
/* A store of its own for each test: a scratch directory, a loop and a way in. */
#ifndef HOLDFAST_TESTS_UNIT_STORE_SCRATCH_H
#define HOLDFAST_TESTS_UNIT_STORE_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "store/objects.h"

struct scratch {
	char dir[64]; /* exists; the store is in dir/store, which does not */
	char uri[96];
	struct loop *loop;
	struct store *store;
	struct objects *objects;
	struct fault f;
};

static inline int scratch_remove_one(const char *path, const struct stat *st, int type,
				     struct FTW *at)
{
	return remove(path);
}

/* A cmocka setup and teardown. */
static inline int scratch_make(void **state)
{
	struct scratch *x = calloc(1, sizeof(*x));

	*state = x;
	snprintf(x->dir, sizeof(x->dir), "/tmp/holdfast-unit-XXXXXX");
	if (!mkdtemp(x->dir))
		return -1;
	snprintf(x->uri, sizeof(x->uri), "file://%s/store", x->dir);
	if (loop_new(LOOP_AUTO, &x->loop, &x->f) < 0 || store_new(x->uri, &x->store, &x->f) < 0 ||
	    objects_open(x->store, x->loop, &x->objects, &x->f) < 0) {
		fprintf(stderr, "scratch store: %s\n", x->f.text);
		return -1;
	}
	return 0;
}

static inline int scratch_end(void **state)
{
	struct scratch *x = *state;

	objects_close(x->objects);
	store_free(x->store);
	loop_free(x->loop);
	(void)nftw(x->dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS); /* /tmp is swept anyway */
	free(x);
	return 0;
}

#endif
