/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as plain files. */
#include "store/dir_sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "store/dir_walk.h"

#define TMP            ".tmp"
#define TMP_NAME_MAX   32
#define LEFTOVER_AGE_S (24 * 3600)
#define WRITE_MOST     (8u << 20) /* one write(2); a signal or a full disk is seen in between */

/* ---- put ---- */

static int sync_dir(int root, const char *path)
{
	scoped(fd_close) int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* EINVAL: a file system that has nothing to sync there */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

/* The directory of a key into out; "." at the top. */
static void dir_of_key(const char *key, char out[DIR_KEY_MAX])
{
	const char *slash = strrchr(key, '/');

	if (slash)
		(void)snprintf(out, DIR_KEY_MAX, "%.*s", (int)(slash - key), key); /* keys fit */
	else
		(void)snprintf(out, DIR_KEY_MAX, "."); /* fits */
}

/* Make one directory, and its name durable.  Another thread may be doing the same: both sync. */
static int make_dir(int root, const char *path)
{
	char above[DIR_KEY_MAX];

	if (mkdirat(root, path, 0777) < 0 && errno != EEXIST)
		return -errno;
	dir_of_key(path, above);
	return sync_dir(root, above);
}

static int make_parents(int root, const char *key)
{
	char path[DIR_KEY_MAX];
	int rc = 0;

	for (const char *slash = strchr(key, '/'); slash && rc == 0;
	     slash = strchr(slash + 1, '/')) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)(slash - key), key); /* keys fit */
		rc = make_dir(root, path);
	}
	return rc;
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len < WRITE_MOST ? len : WRITE_MOST);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* close(2) too may be the one to say that a network file system did not take it. */
static int write_and_close(int fd, const void *data, size_t len)
{
	int rc = write_all(fd, data, len);

	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (close(fd) < 0 && rc == 0 && errno != EINTR)
		rc = -errno;
	return rc;
}

static int create_tmp(int root, char name[TMP_NAME_MAX])
{
	uint64_t random;
	int fd;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	(void)snprintf(name, TMP_NAME_MAX, TMP "/%016llx", (unsigned long long)random); /* fits */
	fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(root, TMP, 0777) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	}
	return fd < 0 ? -errno : fd;
}

/* Age is told by the file system's own clock: that of a file just made. */
static void sweep(int root, time_t now)
{
	int fd = openat(root, TMP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		fd_close(fd);
		return;
	}
	while ((e = readdir(dir))) {
		struct stat st;

		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    now - st.st_mtime > LEFTOVER_AGE_S)
			(void)unlinkat(fd, e->d_name, 0); /* the next writer tries again */
	}
	(void)closedir(dir); /* only read */
}

static void sweep_once(struct dir_root *d, int root, int fd)
{
	struct stat st;

	if (dir_root_first_put(d) && fstat(fd, &st) == 0)
		sweep(root, st.st_mtime);
}

/* I2: over NFS a reply may be lost and the call be sent again, which then says EEXIST of its own
 * success.  The count of names tells; the open asks the server for it. */
static bool has_second_name(int root, const char *tmp)
{
	scoped(fd_close) int fd = openat(root, tmp, O_RDONLY | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 2;
}

static int link_once(int root, const char *tmp, const char *key)
{
	return linkat(root, tmp, root, key, 0) < 0 ? -errno : 0;
}

static int name_new(int root, const char *tmp, const char *key)
{
	int rc = link_once(root, tmp, key);

	if (rc == -ENOENT) {
		rc = make_parents(root, key);
		if (rc == 0)
			rc = link_once(root, tmp, key);
	}
	return rc < 0 && has_second_name(root, tmp) ? 0 : rc;
}

/* The same for rename: a second one finds no source, and only we know its name. */
static int name_over(int root, const char *tmp, const char *key)
{
	int rc = renameat(root, tmp, root, key) < 0 ? -errno : 0;

	if (rc != -ENOENT)
		return rc;
	if (faccessat(root, tmp, F_OK, 0) < 0 && errno == ENOENT)
		return 0;
	rc = make_parents(root, key);
	if (rc == 0 && renameat(root, tmp, root, key) < 0)
		rc = -errno;
	return rc;
}

static int put(struct dir_root *d, int root, const char *key, const void *data, size_t len,
	       bool create_only)
{
	char tmp[TMP_NAME_MAX];
	char dir[DIR_KEY_MAX];
	int fd = create_tmp(root, tmp);
	int rc, synced;

	if (fd < 0)
		return fd;
	sweep_once(d, root, fd);
	rc = write_and_close(fd, data, len);
	if (rc == 0)
		rc = create_only ? name_new(root, tmp, key) : name_over(root, tmp, key);
	if (rc < 0 || create_only)
		(void)unlinkat(root, tmp, 0); /* a leftover is swept later */
	if (rc < 0 && rc != -EEXIST)
		return rc;
	/* Also for EEXIST: what made us lose must not vanish in a power cut after we said so. */
	dir_of_key(key, dir);
	synced = sync_dir(root, dir);
	return rc < 0 ? rc : synced;
}

int dir_put(struct dir_root *d, const char *key, const void *data, size_t len, bool create_only,
	    struct fault *f)
{
	int rc;

	if (!dir_key_is_valid(key))
		return dir_refuse_key(d, "PUT", key, f);
	rc = dir_root_fd(d, true);
	if (rc >= 0)
		rc = put(d, rc, key, data, len, create_only);
	return rc < 0 ? dir_fault(d, "PUT", key, rc, f) : 0;
}

/* ---- get ---- */

static int read_range(int fd, uint64_t off, uint64_t len, struct buf *out)
{
	if (buf_reserve(out, len) < 0)
		return -ENOMEM;
	while (len > 0) {
		ssize_t n = pread(fd, out->data + out->len, len, (off_t)off);

		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			out->len += (size_t)n;
			off += (uint64_t)n;
			len -= (uint64_t)n;
		}
	}
	return 0;
}

static int get(int root, const char *key, uint64_t off, uint64_t len, struct buf *out,
	       uint64_t *size)
{
	scoped(fd_close) int fd = openat(root, key, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT; /* "packs" is no key, though there is such a directory */
	if (len == 0)
		len = (uint64_t)st.st_size;
	if (len > DIR_GET_MOST)
		return -EFBIG;
	*size = (uint64_t)st.st_size;
	return read_range(fd, off, len, out);
}

int dir_get(struct dir_root *d, const char *key, uint64_t off, uint64_t len, struct buf *out,
	    uint64_t *size, struct fault *f)
{
	int rc;

	if (!dir_key_is_valid(key))
		return dir_refuse_key(d, "GET", key, f);
	rc = dir_root_fd(d, false);
	if (rc >= 0)
		rc = get(rc, key, off, len, out, size);
	return rc < 0 ? dir_fault(d, "GET", key, rc, f) : 0;
}

/* ---- list and delete ---- */

int dir_list(struct dir_root *d, const char *prefix, const char *after, unsigned most,
	     struct buf *out, struct fault *f)
{
	int rc = dir_root_fd(d, false);

	if (rc >= 0)
		rc = dir_walk(rc, prefix, after, most, out);
	return rc < 0 ? dir_fault(d, "LIST", prefix, rc, f) : 0;
}

int dir_delete(struct dir_root *d, const char *key, struct fault *f)
{
	int rc;

	if (!dir_key_is_valid(key))
		return dir_refuse_key(d, "DELETE", key, f);
	rc = dir_root_fd(d, false);
	if (rc >= 0)
		rc = unlinkat(rc, key, 0) < 0 ? -errno : 0;
	if (rc == 0 || rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	return dir_fault(d, "DELETE", key, rc, f);
}
