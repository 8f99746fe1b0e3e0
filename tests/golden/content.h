/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the golden store hold, made anew by whoever compares. */
#ifndef HOLDFAST_TESTS_GOLDEN_CONTENT_H
#define HOLDFAST_TESTS_GOLDEN_CONTENT_H

#include <stdio.h>
#include <string.h>

#include "tests/unit/store/helpers.h"

/* The parts of run/model.bin. */
#define GOLDEN_TEXT   (1500u << 10) /* cut by content, shrinks */
#define GOLDEN_ZEROS  (3u << 20)
#define GOLDEN_RANDOM 20000u /* one raw chunk */
#define GOLDEN_MODEL  (GOLDEN_TEXT + GOLDEN_ZEROS + GOLDEN_RANDOM)

#define GOLDEN_CONFIG "{\"hidden\": 768, \"layers\": 12}\n"
#define GOLDEN_NOTE   "written after the good moment, and left behind by the reset\n"

/* Sparse file with more extents than a segment holds: one byte of data, 4 095 zeros, and so on. */
#define GOLDEN_SPARSE_N 1500u

/* Empty files in many/, enough names for a base of several blocks. */
#define GOLDEN_MANY 3000u

/* Lines of 64 bytes that count. */
static inline void golden_text(uint8_t *out, size_t len)
{
	for (size_t at = 0; at < len; at += 64) {
		char line[80];

		(void)snprintf(line, sizeof(line), "step %08zu of 01000000: %-36s\n", at / 64,
			       "saved; nothing whole was lost");
		memcpy(out + at, line, len - at < 64 ? len - at : 64);
	}
}

static inline void golden_model(uint8_t *out)
{
	memset(out, 0, GOLDEN_MODEL);
	golden_text(out, GOLDEN_TEXT);
	fill_random(out + GOLDEN_TEXT + GOLDEN_ZEROS, GOLDEN_RANDOM, 20261130);
}

#endif
