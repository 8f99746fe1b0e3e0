/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of store/ share: random numbers from a seed that a failing test can print. */
#ifndef HOLDFAST_TESTS_UNIT_STORE_HELPERS_H
#define HOLDFAST_TESTS_UNIT_STORE_HELPERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* SplitMix64. */
static inline uint64_t random_next(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0..below-1 */
static inline uint64_t random_below(uint64_t *seed, uint64_t below)
{
	return random_next(seed) % below;
}

static inline void fill_random(uint8_t *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)random_next(&seed);
}

#endif
