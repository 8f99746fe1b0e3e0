/* SPDX-License-Identifier: Apache-2.0 */
/* How the store treats us: the rate out, and since when it fails.  Thread: any; one lock. */
#ifndef HOLDFAST_FS_LANE_HEALTH_H
#define HOLDFAST_FS_LANE_HEALTH_H

#include <pthread.h>

#include "base/fault.h"
#include "fs/lane/rate.h"

struct health {
	pthread_mutex_t lock;
	struct rate rate;
	uint64_t failing_since_ns; /* 0: the last request worked */
	char last_error[256];      /* kept when it works again */
};

void health_init(struct health *h);
void health_fini(struct health *h);
void health_send(struct health *h);                 /* a PUT begins */
void health_sent(struct health *h, uint64_t bytes); /* and ends; 0: nothing got through */
void health_works(struct health *h);
void health_fails(struct health *h, const struct fault *f);
/* bytes a second; 0: unknown */
uint64_t health_look(struct health *h, uint64_t *failing_since_ns, char last_error[256]);

#endif
