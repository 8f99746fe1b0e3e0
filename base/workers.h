/* SPDX-License-Identifier: Apache-2.0 */
/* A few threads for blocking calls, started when first needed.  Thread: the loop's. */
#ifndef HOLDFAST_BASE_WORKERS_H
#define HOLDFAST_BASE_WORKERS_H

#include "base/loop.h"

struct workers;

/* kick(arg) is called on a worker's thread when work is finished.  Fails: -ENOMEM. */
int workers_new(void (*kick)(void *arg), void *arg, struct workers **out);
/* Runs what was handed in to its end.  Finished work nobody took is forgotten. */
void workers_free(struct workers *ws);
SCOPE_PTR(struct workers, workers_free)

/* w->run(w) on a thread; w->done is the taker's to call. */
void workers_hand(struct workers *ws, struct loop_work *w);
/* All that has been run since the last call, linked by `next`; NULL if none. */
struct loop_work *workers_take(struct workers *ws);

#endif
