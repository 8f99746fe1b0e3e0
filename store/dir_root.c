/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a file:// store. */
#include "store/dir_root.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dir_root {
	/* fixed after dir_root_new() */
	char *path;
	/* any thread */
	_Atomic unsigned refs;
	/* any thread, under lock */
	pthread_mutex_t lock;
	int fd; /* -1: not there yet */
	bool put;
};

/* ---- the root ---- */

int dir_root_new(const char *path, struct dir_root **out, struct fault *f)
{
	struct dir_root *d = calloc(1, sizeof(*d));

	if (d)
		d->path = strdup(path);
	if (!d || !d->path) {
		free(d);
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	}
	d->refs = 1;
	d->fd = -1;
	pthread_mutex_init(&d->lock, NULL);
	*out = d;
	return 0;
}

struct dir_root *dir_root_ref(struct dir_root *d)
{
	d->refs++;
	return d;
}

void dir_root_unref(struct dir_root *d)
{
	if (!d || --d->refs > 0)
		return;
	fd_close(d->fd);
	pthread_mutex_destroy(&d->lock);
	free(d->path);
	free(d);
}

/* mkdir -p of an absolute path. */
static int make_path(const char *path)
{
	scoped(free) char *p = strdup(path);

	if (!p)
		return -ENOMEM;
	for (char *slash = strchr(p + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(p, 0777) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(p, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

static int open_root(struct dir_root *d, bool make)
{
	int rc = 0;

	if (d->fd >= 0)
		return d->fd;
	if (make)
		rc = make_path(d->path);
	if (rc == 0)
		d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return rc < 0 ? rc : d->fd < 0 ? -errno : d->fd;
}

int dir_root_fd(struct dir_root *d, bool make)
{
	int fd;

	pthread_mutex_lock(&d->lock);
	fd = open_root(d, make);
	pthread_mutex_unlock(&d->lock);
	return fd;
}

bool dir_root_first_put(struct dir_root *d)
{
	bool first;

	pthread_mutex_lock(&d->lock);
	first = !d->put;
	d->put = true;
	pthread_mutex_unlock(&d->lock);
	return first;
}

/* ---- faults ---- */

static const struct answer {
	int errnum;
	int code;
	enum fault_retry retry;
	const char *cure;
} answers[] = {
	{ENOENT, -ENOENT, FAULT_FINAL, ""},
	{ENOTDIR, -ENOENT, FAULT_FINAL, ""},
	{EEXIST, -EEXIST, FAULT_RELOAD, ""},
	{EACCES, -EACCES, FAULT_FINAL, "; give this user access to the store's directory"},
	{EPERM, -EACCES, FAULT_FINAL, "; give this user access to the store's directory"},
	{EROFS, -EACCES, FAULT_FINAL, "; mount its file system for writing"},
	{ENOSPC, -ENOSPC, FAULT_FINAL, "; free some space there"},
	{EDQUOT, -EDQUOT, FAULT_FINAL, "; free some space there"},
	{EINTR, -EINTR, FAULT_SOON, ""},
	{EAGAIN, -EAGAIN, FAULT_SOON, ""},
	{EBUSY, -EBUSY, FAULT_SOON, ""},
	{EIO, -EIO, FAULT_SOON, ""},
	{ENFILE, -ENFILE, FAULT_SOON, "; raise fs.file-max"},
	{EMFILE, -EMFILE, FAULT_SOON, "; raise the limit of open files"},
	{ENOMEM, -ENOMEM, FAULT_SOON, ""},
	{ESTALE, -ESTALE, FAULT_SOON, ""},
	{ETIMEDOUT, -ETIMEDOUT, FAULT_SOON, ""},
};

int dir_fault(const struct dir_root *d, const char *op, const char *key, int rc, struct fault *f)
{
	const struct answer other = {.code = rc, .retry = FAULT_FINAL, .cure = ""};
	const struct answer *a = &other;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i].errnum == -rc)
			a = &answers[i];
	return fault_set(f, a->code, a->retry, "%s %.90s/%.60s: %s%s", op, d->path, key,
			 strerror(-rc), a->cure);
}

/* ---- keys ---- */

bool dir_key_is_valid(const char *key)
{
	size_t len = strlen(key);

	if (len == 0 || len >= DIR_KEY_MAX)
		return false;
	for (const char *s = key;; s++) {
		if (*s == '/' || *s == '.' || *s == '\0')
			return false; /* an empty segment, or one that is not listed */
		s = strchr(s, '/');
		if (!s)
			return true;
	}
}

int dir_refuse_key(const struct dir_root *d, const char *op, const char *key, struct fault *f)
{
	return fault_set(f, -EINVAL, FAULT_FINAL, "%s %.90s/%.60s: not a valid key", op, d->path,
			 key);
}
