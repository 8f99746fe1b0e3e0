/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for each test, on disk, and dice that a failing test can throw again. */
#ifndef HOLDFAST_TESTS_UNIT_CACHE_FOLDER_H
#define HOLDFAST_TESTS_UNIT_CACHE_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
	char path[64];
	int fd;
};

static inline int folder_remove_one(const char *path, const struct stat *st, int type,
				    struct FTW *at)
{
	return remove(path);
}

/* A cmocka setup and teardown. */
static inline int folder_make(void **state)
{
	struct folder *x = calloc(1, sizeof(*x));

	*state = x;
	snprintf(x->path, sizeof(x->path), "/tmp/holdfast-cache-XXXXXX");
	if (!mkdtemp(x->path))
		return -1;
	x->fd = open(x->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return x->fd < 0 ? -1 : 0;
}

static inline int folder_end(void **state)
{
	struct folder *x = *state;

	close(x->fd);
	(void)nftw(x->path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS); /* /tmp is swept anyway */
	free(x);
	return 0;
}

static unsigned folder_files_n; /* nftw() has no argument to pass on */
static inline int folder_count_one(const char *path, const struct stat *st, int type,
				   struct FTW *at)
{
	folder_files_n += type == FTW_F;
	return 0;
}

/* Files below it, at any depth. */
static inline unsigned folder_files(const struct folder *x)
{
	folder_files_n = 0;
	(void)nftw(x->path, folder_count_one, 16, FTW_PHYS);
	return folder_files_n;
}

/* xorshift64*: SEED=n in the environment starts a failed run again. */
static inline uint64_t dice_seed(uint64_t otherwise)
{
	const char *seed = getenv("SEED");

	return seed ? strtoull(seed, NULL, 0) : otherwise;
}

static inline uint64_t dice(uint64_t *state, uint64_t sides)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * UINT64_C(2685821657736338717) >> 11) % sides;
}

#endif
