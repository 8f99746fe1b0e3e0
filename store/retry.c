/* SPDX-License-Identifier: Apache-2.0 */
/* Back-off with jitter. */
#include "store/retry.h"

#include "base/clock.h"

#define SOON_FIRST_NS       (50 * NS_PER_MS)
#define PACED_FIRST_NS      (500 * NS_PER_MS)
#define WAIT_MOST_NS        (10 * NS_PER_S)
#define RETRY_AFTER_MOST_NS (300 * NS_PER_S) /* a store that asks for hours is asked again */
#define LEFT_LEAST_NS       (20 * NS_PER_MS) /* no answer comes in less */
#define STALL_FIRST_NS      (3 * NS_PER_S)
#define STALL_MOST_NS       (20 * NS_PER_S)

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t doubled(uint64_t first, unsigned tries, uint64_t most)
{
	uint64_t ns = first;

	for (unsigned i = 1; i < tries && ns < most; i++)
		ns *= 2;
	return lesser(ns, most);
}

uint64_t retry_wait_ns(const struct retry *r)
{
	uint64_t first = r->class == FAULT_PACED ? PACED_FIRST_NS : SOON_FIRST_NS;
	uint64_t most, wait, asked = r->retry_after_ns;

	if (r->class != FAULT_SOON && r->class != FAULT_PACED)
		return 0;
	if (r->left_ns < LEFT_LEAST_NS)
		return 0;
	most = doubled(first, r->tries, r->most_ns ? r->most_ns : WAIT_MOST_NS);
	wait = most / 2 + r->random % (most / 2);
	if (asked > 0) {
		asked = lesser(asked, r->most_ns ? r->most_ns : RETRY_AFTER_MOST_NS);
		wait = asked + r->random % (asked / 8 + 1);
		return wait < r->left_ns ? wait : 0;
	}
	return wait < r->left_ns / 2 ? wait : r->left_ns / 2;
}

uint64_t retry_stall_ns(unsigned tries)
{
	uint64_t ns = STALL_FIRST_NS;

	for (unsigned i = 1; i < tries && ns < STALL_MOST_NS; i++)
		ns *= 2;
	return ns < STALL_MOST_NS ? ns : STALL_MOST_NS;
}
