/* SPDX-License-Identifier: Apache-2.0 */
/* See cachedir.h. */
#include "fs/cachedir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/log.h"

#define OWNER_NAME "store" /* holds the id of the store it is a cache of */
#define LOOKING "/ro"      /* where a read-only mount has its own */
#define SMALLEST 16        /* part of the disk that the cache may have in any case */
#define BALLAST_MOST (UINT64_C(64) << 20)
#define BALLAST_PART 16    /* of a small cache, or a small disk */

/* Where everybody may make one: it must be ours, and nobody else's to write to. */
static int own_dir(const char *dir, struct fault *f)
{
	struct stat st;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return fault_errno(f, -errno, "cache %s", dir);
	if (lstat(dir, &st) < 0)
		return fault_errno(f, -errno, "cache %s", dir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return fault_set(f, -EPERM, FAULT_FINAL,
				 "cache %s is not a directory of ours alone; -o cache=DIR names another", dir);
	return 0;
}

/* /var/cache/holdfast/ID for root, else under the user's own cache directory. */
static int default_path(struct mount *m, struct fault *f)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	char hex[2 * sizeof(m->format.id.b) + 1], dir[PATH_MAX];
	int rc = 0;

	if (geteuid() == 0) {
		(void)snprintf(dir, sizeof(dir), "/var/cache/holdfast");
	} else if (xdg && xdg[0] == '/') {
		(void)snprintf(dir, sizeof(dir), "%s/holdfast", xdg);
	} else if (home && home[0] == '/') {
		(void)snprintf(dir, sizeof(dir), "%s/.cache/holdfast", home);
	} else { /* not /tmp: what is unsent should outlive a boot */
		(void)snprintf(dir, sizeof(dir), "/var/tmp/holdfast-%u", geteuid());
		rc = own_dir(dir, f);
	}
	if (rc < 0)
		return rc;
	hex_of(m->format.id.b, sizeof(m->format.id.b), hex);
	if (asprintf(&m->opts.cache, "%s/%s", dir, hex) < 0) {
		m->opts.cache = NULL;
		return fault_errno(f, -ENOMEM, "cache");
	}
	return 0;
}

static int make_path(const char *path)
{
	scoped(free) char *part = strdup(path);

	if (!part)
		return -ENOMEM;
	for (char *c = part + 1;; c++) {
		char was = *c;

		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (was == '\0')
			return 0;
		*c = was;
	}
}

static bool lies_in(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	return strncmp(inner, outer, n) == 0 && (inner[n] == '/' || inner[n] == '\0');
}

/* Each would wait for the other for ever. */
static int check_places(const struct mount *m, const char *cache, struct fault *f)
{
	char dir[PATH_MAX], store[PATH_MAX];

	if (m->opts.dir && realpath(m->opts.dir, dir) && (lies_in(cache, dir) || lies_in(dir, cache)))
		return fault_set(f, -ELOOP, FAULT_FINAL, "cache %s and mount point %s: one lies in the other", cache, dir);
	if (strncmp(m->opts.uri, "file://", 7) != 0 || !realpath(m->opts.uri + 7, store))
		return 0;
	if (lies_in(cache, store) || lies_in(store, cache))
		return fault_set(f, -ELOOP, FAULT_FINAL, "cache %s and store %s: one lies in the other", cache, store);
	if (m->opts.dir && realpath(m->opts.dir, dir) && (lies_in(store, dir) || lies_in(dir, store)))
		return fault_set(f, -ELOOP, FAULT_FINAL, "mount point %s and store %s: one lies in the other", dir, store);
	return 0;
}

static int take_lock(struct mount *m, struct fault *f)
{
	m->lock_fd = openat(m->cache_fd, "lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (m->lock_fd < 0)
		return fault_errno(f, -errno, "cache %s: lock", m->opts.cache);
	if (flock(m->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return fault_set(f, -EBUSY, FAULT_FINAL, "cache %s is in use by another mount; -o cache=DIR names another",
				 m->opts.cache);
	return fault_errno(f, -errno, "cache %s: lock", m->opts.cache);
}

static int check_owner(struct mount *m, struct fault *f)
{
	char mine[2 * sizeof(m->format.id.b) + 1], has[2 * sizeof(m->format.id.b) + 1] = "";
	scoped(fd_close) int fd = openat(m->cache_fd, OWNER_NAME, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	ssize_t n;

	if (fd < 0)
		return fault_errno(f, -errno, "cache %s: %s", m->opts.cache, OWNER_NAME);
	hex_of(m->format.id.b, sizeof(m->format.id.b), mine);
	n = read(fd, has, sizeof(has) - 1);
	if (n < 0)
		return fault_errno(f, -errno, "cache %s: %s", m->opts.cache, OWNER_NAME);
	if ((size_t)n < sizeof(mine) - 1 && memcmp(has, mine, (size_t)n) == 0) /* new, or torn by a crash */
		return pwrite(fd, mine, sizeof(mine) - 1, 0) == (ssize_t)sizeof(mine) - 1
			       ? 0
			       : fault_errno(f, -EIO, "cache %s: %s", m->opts.cache, OWNER_NAME);
	if (strcmp(has, mine) != 0)
		return fault_set(f, -ESTALE, FAULT_FINAL, "cache %s belongs to another store; -o cache=DIR names another",
				 m->opts.cache);
	return 0;
}

/* realpath() of what may not be there yet: of the part that is, and the rest as given. */
static int resolve(const char *path, char out[PATH_MAX])
{
	scoped(free) char *head = strdup(path);
	const char *rest = path + strlen(path);

	if (!head)
		return -ENOMEM;
	while (!realpath(head, out)) {
		char *slash = strrchr(head, '/');

		if (errno != ENOENT || !slash)
			return -errno;
		rest = path + (slash - head);
		slash[slash == head] = '\0';
	}
	if (strlen(out) + strlen(rest) + 1 > PATH_MAX)
		return -ENAMETOOLONG;
	strcat(out, rest + (strcmp(out, "/") == 0 && *rest == '/'));
	return 0;
}

/* No size given: half of what the disk could give it. */
static int default_size(struct mount *m, struct fault *f)
{
	struct statvfs st;

	if (m->opts.cache_size)
		return 0;
	if (fstatvfs(m->cache_fd, &st) < 0)
		return fault_errno(f, -errno, "cache %s", m->opts.cache);
	/* What is here already takes from what is free; on a full disk 0 would be no limit at all. */
	m->opts.cache_size = (uint64_t)st.f_frsize * MAX(st.f_bavail / 2, st.f_blocks / SMALLEST);
	return 0;
}

/* For the journal, when the disk is full. */
static int open_ballast(struct mount *m, struct fault *f)
{
	struct statvfs st;
	uint64_t bytes = BALLAST_MOST, disk;

	if (fstatvfs(m->cache_fd, &st) < 0)
		return fault_errno(f, -errno, "cache %s", m->opts.cache);
	disk = (uint64_t)st.f_blocks * st.f_frsize;
	bytes = MIN(bytes, MIN(disk, m->opts.cache_size) / BALLAST_PART);
	return ballast_open(m->cache_fd, bytes, &m->ballast, f);
}

int cachedir_open(struct mount *m, struct fault *f)
{
	char real[PATH_MAX];
	int rc = m->opts.cache ? 0 : default_path(m, f);

	if (rc < 0)
		return rc;
	rc = resolve(m->opts.cache, real);
	if (rc < 0)
		return fault_errno(f, rc, "cache %s", m->opts.cache);
	if (m->opts.read_only) /* not among what a writer may have left unsent */
		rc = strlen(real) + strlen(LOOKING) < sizeof(real) ? (strcat(real, LOOKING), 0) : -ENAMETOOLONG;
	if (rc == 0)
		rc = check_places(m, real, f);
	if (rc < 0)
		return rc;
	rc = make_path(real);
	if (rc < 0)
		return fault_set(f, rc, FAULT_FINAL, "cache %s: %s; -o cache=DIR names another", m->opts.cache,
				 strerror(-rc));
	free(m->opts.cache);
	if (!(m->opts.cache = strdup(real)))
		return fault_errno(f, -ENOMEM, "cache");
	m->cache_fd = open(real, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (m->cache_fd < 0)
		return fault_errno(f, -errno, "cache %s", real);
	rc = take_lock(m, f);
	if (rc == 0)
		rc = check_owner(m, f);
	if (rc == 0)
		rc = default_size(m, f);
	return rc < 0 ? rc : open_ballast(m, f);
}

/* By name: an open directory looks well after it was deleted.  All is made in this order, and stays. */
static bool is_there(const struct mount *m)
{
	static const char *const names[] = {"journal", "contents/00", "contents/ff"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (faccessat(m->cache_fd, names[i], F_OK, 0) < 0 && (errno == ENOENT || errno == ENOTDIR))
			return false;
	return true;
}

bool cachedir_deleted(struct mount *m)
{
	if (m->cache_deleted || (!content_dir_is_deleted(m->contents) && is_there(m)))
		return m->cache_deleted;
	m->cache_deleted = true;
	content_dir_deleted(m->contents);
	(void)snprintf(m->why_read_only, sizeof(m->why_read_only), "cache %.200s was deleted", m->opts.cache);
	if (!m->read_only)
		m->read_only = -EIO;
	log_error("%s: %s; changes fail from now on, what is open is still sent", m->opts.dir, m->why_read_only);
	return true;
}
