/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: entries, replay, group sync, replacement.  See journal.h. */
#include "fs/cache/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store/crc32c.h"

#define MAGIC        "HFJ1"
#define MAGIC_LEN    4
#define NAME_MAX_LEN 64

struct journal {
	/* fixed */
	int dirfd; /* our own */
	char name[NAME_MAX_LEN];
	struct ballast *ballast;
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t synced_one;
	int fd;
	int error;              /* sticky */
	uint64_t added, synced; /* adds so far, and those of them that are on disk */
	bool syncing;
	/* changed under lock, read without it */
	_Atomic uint64_t bytes;
};

/* ---- entries ---- */

static uint32_t checksum(uint8_t type, const void *body, size_t len)
{
	struct iovec iov[2] = {{.iov_base = &type, .iov_len = 1},
			       {.iov_base = (void *)body, .iov_len = len}};

	return crc32c(iov, len ? 2 : 1);
}

void journal_entry(struct buf *entries, uint8_t type, const void *body, size_t len)
{
	buf_u32(entries, (uint32_t)(len + 1));
	buf_u32(entries, checksum(type, body, len));
	buf_u8(entries, type);
	buf_add(entries, body, len);
}

/* One entry off `in`; false: it is not whole. */
static bool read_entry(struct reader *in, uint8_t *type, const uint8_t **body, size_t *len)
{
	uint32_t all = read_u32(in), sum = read_u32(in);

	if (in->bad || all == 0 || all > read_left(in))
		return false;
	*type = read_u8(in);
	*len = all - 1;
	*body = read_bytes(in, *len);
	return checksum(*type, *body, *len) == sum;
}

/* ---- whole transfers ---- */

static int write_all(int fd, const uint8_t *data, size_t len, struct ballast *ballast)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && (errno == EINTR || ballast_helps(ballast, -errno)))
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_all(int fd, struct buf *out)
{
	struct stat st;
	size_t size;

	if (fstat(fd, &st) < 0)
		return -errno;
	size = (size_t)st.st_size;
	if (buf_reserve(out, size) < 0)
		return -ENOMEM;
	while (out->len < size) {
		ssize_t n = read(fd, out->data + out->len, size - out->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		out->len += (size_t)n;
	}
	return 0;
}

/* ---- open ---- */

/* Moves `in` to the next whole entry; false: there is none. */
static bool find_entry(struct reader *in)
{
	while (read_left(in) > 0) {
		struct reader probe = *in;
		const uint8_t *body;
		uint8_t type;
		size_t len;

		if (read_entry(&probe, &type, &body, &len))
			return true;
		(void)read_u8(in);
	}
	return false;
}

/*
 * Tells of every whole entry from `from` on (0: there is no magic), and of a gap before one that does not begin
 * where it should.  *end: where the last of them ends; or what each() refused with.
 */
static int replay(const struct buf *raw, size_t from,
		  int (*each)(void *arg, uint8_t type, const uint8_t *body, size_t len), void *arg,
		  size_t *end)
{
	struct reader in = reader_of(raw->data + from, raw->len - from);
	const uint8_t *next = from ? in.at : NULL;

	*end = from;
	while (find_entry(&in)) {
		const uint8_t *body = NULL;
		uint8_t type = 0;
		size_t len = 0;
		int rc = 0;

		if (in.at != next && each)
			rc = each(arg, JOURNAL_GAP, NULL, 0);
		(void)read_entry(&in, &type, &body, &len);
		if (rc == 0 && each)
			rc = each(arg, type, body, len);
		if (rc < 0)
			return rc;
		next = in.at;
		*end = (size_t)(next - raw->data);
	}
	return 0;
}

/* A file that was being made when its maker died holds a part of the magic. */
static bool is_unborn(const struct buf *raw)
{
	return raw->len < MAGIC_LEN &&
	       memcmp(raw->len ? (const char *)raw->data : "", MAGIC, raw->len) == 0;
}

static int take_in(struct journal *j,
		   int (*each)(void *arg, uint8_t type, const uint8_t *body, size_t len), void *arg,
		   uint64_t *torn, struct fault *f)
{
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	size_t end = 0;
	int rc = read_all(j->fd, &raw);

	if (rc < 0)
		return fault_errno(f, rc, "cache: %s", j->name);
	if (!is_unborn(&raw)) {
		bool ours = raw.len >= MAGIC_LEN && memcmp(raw.data, MAGIC, MAGIC_LEN) == 0;

		rc = replay(&raw, ours ? MAGIC_LEN : 0, each, arg, &end);
		if (rc < 0)
			return fault_errno(f, rc, "cache: %s: entry at byte %zu", j->name, end);
		if (end == 0)
			return fault_set(f, -EBADMSG, FAULT_FINAL,
					 "cache: %s is not a journal of ours", j->name);
	}
	*torn = raw.len - end;
	rc = ftruncate(j->fd, (off_t)end) < 0 ? -errno : 0;
	if (rc == 0 && end == 0)
		rc = write_all(j->fd, (const uint8_t *)MAGIC, MAGIC_LEN, j->ballast);
	if (rc < 0)
		return fault_errno(f, rc, "cache: %s", j->name);
	atomic_store(&j->bytes, end ? end : MAGIC_LEN);
	return 0;
}

int journal_open(int dirfd, const char *name, struct ballast *ballast,
		 int (*each)(void *arg, uint8_t type, const uint8_t *body, size_t len), void *arg,
		 struct journal **out, uint64_t *torn, struct fault *f)
{
	scoped(journal_close) struct journal *j = calloc(1, sizeof(*j));
	uint64_t cut = 0;
	int rc;

	if (!j)
		return fault_errno(f, -ENOMEM, "cache: %s", name);
	j->fd = -1;
	j->ballast = ballast;
	(void)pthread_mutex_init(&j->lock, NULL);
	(void)pthread_cond_init(&j->synced_one, NULL);
	(void)snprintf(j->name, sizeof(j->name), "%s", name);
	j->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	if (j->dirfd >= 0)
		j->fd = openat(dirfd, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (j->fd < 0)
		return fault_errno(f, -errno, "cache: %s", name);
	rc = take_in(j, each, arg, &cut, f);
	if (rc < 0)
		return rc;
	j->added = 1; /* what was found, or the magic, may not be on disk */
	if (torn)
		*torn = cut;
	*out = take(&j);
	return 0;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	fd_close(j->fd);
	fd_close(j->dirfd);
	(void)pthread_cond_destroy(&j->synced_one);
	(void)pthread_mutex_destroy(&j->lock);
	free(j);
}

uint64_t journal_bytes(const struct journal *j)
{
	return atomic_load(&j->bytes);
}

/* ---- add ---- */

/* Under lock.  What a failed write left is cut off, so that a replay finds whole entries only. */
static int append(struct journal *j, const struct buf *entries)
{
	uint64_t bytes = atomic_load(&j->bytes);
	int rc = j->error;

	if (rc < 0)
		return rc;
	rc = write_all(j->fd, entries->data, entries->len, j->ballast);
	if (rc < 0) {
		(void)!ftruncate(j->fd, (off_t)bytes); /* else a replay ends there: all the same */
		return j->error = rc;
	}
	atomic_store(&j->bytes, bytes + entries->len);
	j->added++;
	return 0;
}

int journal_add_many(struct journal *j, const struct buf *entries)
{
	int rc;

	if (!buf_ok(entries))
		return -ENOMEM;
	pthread_mutex_lock(&j->lock);
	rc = append(j, entries);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

int journal_add(struct journal *j, uint8_t type, const void *body, size_t len)
{
	scoped(buf_fini) struct buf entry = BUF_EMPTY;

	journal_entry(&entry, type, body, len);
	return journal_add_many(j, &entry);
}

/* ---- sync ---- */

/*
 * Under lock, which is let go meanwhile.  One that fails is not tried again: the kernel has
 * forgotten the pages.
 */
static void sync_once(struct journal *j)
{
	uint64_t upto = j->added;
	int fd = j->fd, rc;

	j->syncing = true;
	pthread_mutex_unlock(&j->lock);
	rc = fdatasync(fd) < 0 ? -errno : 0;
	pthread_mutex_lock(&j->lock);
	j->syncing = false;
	if (rc < 0)
		j->error = rc;
	else
		j->synced = upto;
	pthread_cond_broadcast(&j->synced_one);
}

int journal_sync(struct journal *j)
{
	uint64_t upto;
	int rc;

	pthread_mutex_lock(&j->lock);
	upto = j->added;
	while (j->synced < upto && j->error == 0) {
		if (j->syncing)
			pthread_cond_wait(&j->synced_one, &j->lock);
		else
			sync_once(j);
	}
	rc = j->synced < upto ? j->error : 0;
	pthread_mutex_unlock(&j->lock);
	return rc;
}

/* ---- rewrite ---- */

uint64_t journal_mark(struct journal *j)
{
	return journal_bytes(j);
}

/* Under lock: what the old file got behind `mark`. */
static int copy_tail(struct journal *j, uint64_t mark, int fd)
{
	uint64_t bytes = atomic_load(&j->bytes);
	scoped(free) uint8_t *tail = malloc(bytes - mark + 1);
	ssize_t n;

	if (!tail)
		return -ENOMEM;
	n = pread(j->fd, tail, bytes - mark, (off_t)mark);
	if (n < 0)
		return -errno;
	return (uint64_t)n == bytes - mark ? write_all(fd, tail, (size_t)n, j->ballast) : -EIO;
}

/* Under lock: from here on fd, which holds `bytes`, is the journal. */
static int replace(struct journal *j, uint64_t mark, int fd, const char *fresh, uint64_t bytes)
{
	int rc;

	while (j->syncing) /* the old file */
		pthread_cond_wait(&j->synced_one, &j->lock);
	if (mark > atomic_load(&j->bytes))
		return -ESTALE; /* another rewrite came first */
	rc = copy_tail(j, mark, fd);
	if (rc == 0 && fdatasync(fd) < 0)
		rc = -errno;
	if (rc == 0 && renameat(j->dirfd, fresh, j->dirfd, j->name) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	fd_close(j->fd);
	j->fd = fd;
	/* It is renamed: a folder that cannot be synced is the next sync's failure. */
	j->error = fsync(j->dirfd) < 0 ? -errno : 0;
	j->synced = j->added;
	atomic_store(&j->bytes, bytes + atomic_load(&j->bytes) - mark);
	pthread_cond_broadcast(&j->synced_one);
	return 0;
}

/* The bulk, which nobody has to wait for. */
static int write_bulk(int fd, const struct buf *entries, struct ballast *ballast)
{
	int rc = buf_ok(entries) ? write_all(fd, (const uint8_t *)MAGIC, MAGIC_LEN, ballast) : -ENOMEM;

	if (rc == 0)
		rc = write_all(fd, entries->data, entries->len, ballast);
	if (rc == 0 && fdatasync(fd) < 0)
		rc = -errno;
	return rc;
}

int journal_rewrite(struct journal *j, uint64_t mark, const struct buf *entries, struct fault *f)
{
	char fresh[NAME_MAX_LEN + 8];
	int fd, rc;

	(void)snprintf(fresh, sizeof(fresh), "%s.new", j->name);
	fd = openat(j->dirfd, fresh, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fault_errno(f, -errno, "cache: %s", fresh);
	rc = write_bulk(fd, entries, j->ballast);
	if (rc == 0) {
		pthread_mutex_lock(&j->lock);
		rc = replace(j, mark, fd, fresh, MAGIC_LEN + entries->len);
		pthread_mutex_unlock(&j->lock);
	}
	if (rc == 0)
		return 0;
	fd_close(fd);
	(void)unlinkat(j->dirfd, fresh, 0); /* one that stays is written over */
	return fault_errno(f, rc, "cache: %s", fresh);
}
