/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main for fuzz targets where there is no libFuzzer.
 *
 *     fuzz_x FILE...        replay these inputs
 *     fuzz_x [-n COUNT] [-s SEED]   mutate the target's seeds, the same way for the same SEED
 *
 * Speaks TAP, so that `make check` runs a few seconds of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/store/helpers.h"

static int replay_file(const char *path)
{
	scoped(buf_fini) struct buf data = BUF_EMPTY;
	FILE *in = fopen(path, "rb");
	uint8_t part[4096];
	size_t n;

	if (!in) {
		perror(path);
		return 1;
	}
	while ((n = fread(part, 1, sizeof(part), in)) > 0)
		buf_add(&data, part, n);
	(void)fclose(in); /* read only */
	(void)LLVMFuzzerTestOneInput(data.data, data.len);
	return 0;
}

static const uint8_t interesting[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff};

static void mutate_once(struct buf *b, uint64_t *seed)
{
	size_t at = random_below(seed, b->len);
	size_t n = 1 + random_below(seed, 8);

	switch (random_below(seed, 6)) {
	case 0:
		b->data[at] ^= (uint8_t)(1u << random_below(seed, 8));
		return;
	case 1:
		b->data[at] = interesting[random_below(seed, sizeof(interesting))];
		return;
	case 2:
		b->data[at] = (uint8_t)random_next(seed);
		return;
	case 3: /* cut short */
		b->len = at;
		return;
	case 4: /* take bytes out */
		n = n < b->len - at ? n : b->len - at;
		memmove(b->data + at, b->data + at + n, b->len - at - n);
		b->len -= n;
		return;
	default: /* double bytes */
		if (buf_reserve(b, n) < 0)
			return;
		memmove(b->data + at + n, b->data + at, b->len - at);
		b->len += n;
	}
}

/* The input as an allocation of exactly its length, so that an overrun is seen. */
static void run_exact(const struct buf *b)
{
	scoped(free) uint8_t *exact = malloc(b->len + !b->len);

	if (!exact)
		return;
	if (b->len > 0)
		memcpy(exact, b->data, b->len);
	(void)LLVMFuzzerTestOneInput(exact, b->len);
}

static void mutate_seed(size_t i, unsigned long count, uint64_t *seed)
{
	scoped(buf_fini) struct buf original = BUF_EMPTY;

	if (!fuzz_seed(i, &original))
		return;
	run_exact(&original);
	for (unsigned long k = 0; k < count; k++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;

		buf_add(&b, original.data, original.len);
		for (uint64_t m = 1 + random_below(seed, 4); m > 0 && b.len > 0; m--)
			mutate_once(&b, seed);
		run_exact(&b);
	}
}

static size_t count_seeds(void)
{
	size_t n = 0;

	for (;; n++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;

		if (!fuzz_seed(n, &b))
			return n;
	}
}

int main(int argc, char **argv)
{
	unsigned long count = 20000;
	uint64_t seed = 1;
	int option, failed = 0;
	size_t seeds = count_seeds();

	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		if (option == 'n')
			count = strtoul(optarg, NULL, 10);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	printf("1..1\n# seed %llu\n", (unsigned long long)seed);
	(void)fflush(stdout); /* so that it is seen if an input ends the program */
	for (int i = optind; i < argc; i++)
		failed |= replay_file(argv[i]);
	for (size_t i = 0; optind == argc && i < seeds; i++)
		mutate_seed(i, count / seeds, &seed);
	printf("%s 1 no input broke a promise\n", failed ? "not ok" : "ok");
	return failed;
}
