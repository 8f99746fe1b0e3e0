/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one file with two functions.  With clang: -fsanitize=fuzzer and that file.  With
 * any compiler: that file and replay.c, a main that replays files and mutates the seeds.
 */
#ifndef HOLDFAST_TESTS_FUZZ_FUZZ_H
#define HOLDFAST_TESTS_FUZZ_FUZZ_H

#include "base/buf.h"

/* Aborts on a broken promise; the sanitizers see the rest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
/* Seed i to mutate, a whole input that is accepted; false: there are no more. */
bool fuzz_seed(size_t i, struct buf *out);

#define FUZZ_CHECK(what)                  \
	do {                              \
		if (!(what))              \
			__builtin_trap(); \
	} while (0)

#endif
