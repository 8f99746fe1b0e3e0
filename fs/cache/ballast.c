/* SPDX-License-Identifier: Apache-2.0 */
/* See ballast.h. */
#include "fs/cache/ballast.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define PIECES 16 /* given one after the other: a journal entry needs little, and others take what is free */

struct ballast {
	/* fixed */
	int fd;
	uint64_t piece;
	/* changed under lock, read without it */
	pthread_mutex_t lock;
	atomic_uint held; /* pieces */
};

static bool set_held(struct ballast *b, unsigned n)
{
	if (ftruncate(b->fd, (off_t)(n * b->piece)) < 0)
		return false;
	b->held = n;
	return true;
}

/* Under lock. */
static int hold_one(struct ballast *b)
{
	if (fallocate(b->fd, 0, (off_t)(b->held * b->piece), (off_t)b->piece) == 0) {
		b->held++;
		return 0;
	}
	return -errno;
}

static int hold_all(struct ballast *b)
{
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	while (rc == 0 && b->held < PIECES)
		rc = hold_one(b);
	if (rc < 0)
		(void)set_held(b, b->held); /* what a half piece took */
	pthread_mutex_unlock(&b->lock);
	return rc;
}

int ballast_open(int dirfd, uint64_t bytes, struct ballast **out, struct fault *f)
{
	scoped(ballast_close) struct ballast *b = calloc(1, sizeof(*b));
	struct stat st;
	int rc;

	if (!b)
		return fault_errno(f, -ENOMEM, "cache: ballast");
	(void)pthread_mutex_init(&b->lock, NULL);
	b->piece = bytes / PIECES & ~UINT64_C(4095);
	b->fd = openat(dirfd, "ballast", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (b->fd < 0 || fstat(b->fd, &st) < 0)
		return fault_errno(f, -errno, "cache: ballast");
	if (b->piece)
		b->held = (uint64_t)st.st_size / b->piece < PIECES ? (unsigned)((uint64_t)st.st_size / b->piece) : PIECES;
	(void)set_held(b, b->held); /* that of a mount with another size, perhaps */
	rc = b->piece ? hold_all(b) : 0;
	if (rc < 0 && !ballast_is_short(rc) && rc != -EOPNOTSUPP)
		return fault_errno(f, rc, "cache: ballast");
	if (rc == -EOPNOTSUPP)
		b->piece = 0;
	*out = take(&b);
	return 0;
}

void ballast_close(struct ballast *b)
{
	if (!b)
		return;
	fd_close(b->fd);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

bool ballast_helps(struct ballast *b, int rc)
{
	bool gave;

	if (!b || !ballast_is_short(rc))
		return false;
	pthread_mutex_lock(&b->lock);
	gave = b->held > 0 && set_held(b, b->held - 1);
	pthread_mutex_unlock(&b->lock);
	return gave;
}

bool ballast_is_whole(const struct ballast *b)
{
	return !b || b->piece == 0 || b->held == PIECES;
}

bool ballast_fill(struct ballast *b)
{
	return ballast_is_whole(b) || hold_all(b) == 0;
}

uint64_t ballast_bytes(const struct ballast *b)
{
	return b ? b->held * b->piece : 0;
}
