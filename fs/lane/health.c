/* SPDX-License-Identifier: Apache-2.0 */
/* What status shows of the store, gathered from all lanes. */
#include "fs/lane/health.h"

#include <string.h>

void health_init(struct health *h)
{
	*h = (struct health){.failing_since_ns = 0};
	pthread_mutex_init(&h->lock, NULL);
}

void health_fini(struct health *h)
{
	pthread_mutex_destroy(&h->lock);
}

void health_send(struct health *h)
{
	uint64_t now = clock_mono(&clock_system);

	pthread_mutex_lock(&h->lock);
	rate_start(&h->rate, now);
	pthread_mutex_unlock(&h->lock);
}

void health_sent(struct health *h, uint64_t bytes)
{
	uint64_t now = clock_mono(&clock_system);

	pthread_mutex_lock(&h->lock);
	rate_stop(&h->rate, now, bytes);
	pthread_mutex_unlock(&h->lock);
}

void health_works(struct health *h)
{
	pthread_mutex_lock(&h->lock);
	h->failing_since_ns = 0;
	pthread_mutex_unlock(&h->lock);
}

void health_fails(struct health *h, const struct fault *f)
{
	uint64_t now = clock_mono(&clock_system);

	pthread_mutex_lock(&h->lock);
	if (h->failing_since_ns == 0)
		h->failing_since_ns = now;
	memcpy(h->last_error, f->text, sizeof(h->last_error));
	pthread_mutex_unlock(&h->lock);
}

uint64_t health_look(struct health *h, uint64_t *failing_since_ns, char last_error[256])
{
	uint64_t now = clock_mono(&clock_system);
	uint64_t bps;

	pthread_mutex_lock(&h->lock);
	bps = rate_bps(&h->rate, now);
	*failing_since_ns = h->failing_since_ns;
	memcpy(last_error, h->last_error, sizeof(h->last_error));
	pthread_mutex_unlock(&h->lock);
	return bps;
}
