/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranges of packs at once. */
#include "store/gets.h"

#include <errno.h>

static void got(struct object_req *r)
{
	struct gets *g = r->arg;

	if (--g->pending == 0)
		g->idle = true;
}

struct get *gets_start(struct gets *g, uint64_t pack, uint64_t off, size_t len)
{
	struct get *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->data = malloc(len);
	if (!x->data) {
		free(x);
		return NULL;
	}
	pack_key(pack, x->key);
	x->req = (struct object_req){
		.op = OBJECT_GET,
		.key = x->key,
		.off = off,
		.len = len,
		.dest = x->data,
		.done = got,
		.arg = g,
	};
	x->next = g->list;
	g->list = x;
	g->pending++;
	g->idle = false;
	objects_start(g->o, &x->req);
	return x;
}

int gets_wait(struct gets *g, struct fault *f)
{
	loop_run_until(objects_loop(g->o), &g->idle);
	for (const struct get *x = g->list; x; x = x->next) {
		if (x->req.rc < 0)
			return fault_set(f, x->req.rc, x->req.fault.retry, "%s", x->req.fault.text);
	}
	return 0;
}

void gets_fini(struct gets *g)
{
	while (g->list) {
		struct get *x = g->list;

		g->list = x->next;
		objects_cancel(g->o, &x->req);
		object_req_fini(&x->req);
		free(x->data);
		free(x);
	}
}
