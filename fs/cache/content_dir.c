/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of contents: 256 folders by the id's low byte, what lies in them, who is alive. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/cache/content_priv.h"

#define FOLDERS 256

void content_name(uint64_t id, uint32_t version, char out[CONTENT_NAME_MAX])
{
	(void)snprintf(out, CONTENT_NAME_MAX, "%02x/%016" PRIx64 ".%" PRIu32, (unsigned)(id & 0xff),
		       id, version);
}

void view_name(const struct view *v, char out[CONTENT_NAME_MAX])
{
	size_t len;

	content_name(v->content->id, v->content->version, out);
	len = strlen(out);
	(void)snprintf(out + len, CONTENT_NAME_MAX - len, ".v%" PRIu32, v->number);
}

/* The last one is made last: where it is, all are. */
static int make_folders(int fd)
{
	struct stat st;
	char name[4];

	if (fstatat(fd, "ff", &st, 0) == 0)
		return 0;
	for (unsigned i = 0; i < FOLDERS; i++) {
		(void)snprintf(name, sizeof(name), "%02x", i);
		if (mkdirat(fd, name, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int content_dir_open(int dirfd, struct ballast *ballast, struct content_dir **out, struct fault *f)
{
	scoped(content_dir_free) struct content_dir *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return fault_errno(f, -ENOMEM, "cache: contents");
	d->fd = -1;
	d->ballast = ballast;
	(void)pthread_mutex_init(&d->lock, NULL);
	if (mkdirat(dirfd, "contents", 0700) < 0 && errno != EEXIST)
		return fault_errno(f, -errno, "cache: contents");
	d->fd = openat(dirfd, "contents", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return fault_errno(f, -errno, "cache: contents");
	rc = make_folders(d->fd);
	if (rc < 0)
		return fault_errno(f, rc, "cache: folders of contents");
	*out = take(&d);
	return 0;
}

void content_dir_free(struct content_dir *d)
{
	if (!d)
		return;
	fd_close(d->fd);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

void content_dir_notes(struct content_dir *d, const struct content_notes *notes)
{
	d->notes = *notes;
}

uint64_t content_dir_bytes(const struct content_dir *d)
{
	return atomic_load(&d->bytes);
}

void content_dir_keep(struct content_dir *d)
{
	atomic_store(&d->keep, true);
}

void content_dir_deleted(struct content_dir *d)
{
	atomic_store(&d->deleted, true);
}

bool content_dir_is_deleted(const struct content_dir *d)
{
	return atomic_load(&d->deleted);
}

int content_dir_missed(struct content_dir *d, int rc)
{
	if (rc != -ENOENT)
		return rc;
	content_dir_deleted(d);
	return -EIO;
}

int content_missed(struct content *c, int rc)
{
	char folder[4];

	(void)snprintf(folder, sizeof(folder), "%02x", (unsigned)(c->id & 0xff));
	if (rc == -ENOENT && faccessat(c->dir->fd, folder, F_OK, 0) == 0)
		return -EUCLEAN;
	return content_dir_missed(c->dir, rc);
}

void content_account(struct content *c, int64_t bytes)
{
	atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->dir->bytes, (uint64_t)bytes, memory_order_relaxed);
}

/* What is in the folder: a content by its id and version, or a view's side file. */
struct file_name {
	uint64_t id;
	uint32_t version, view; /* view 0: the content itself */
};

#define CONTENT_KEY_LEN (sizeof(uint64_t) + sizeof(uint32_t))
static_assert(offsetof(struct content, version) - offsetof(struct content, id) == sizeof(uint64_t), "one key");
static_assert(offsetof(struct file_name, version) - offsetof(struct file_name, id) == sizeof(uint64_t), "one key");

void content_dir_enter(struct content *c)
{
	struct content_dir *d = c->dir;

	pthread_mutex_lock(&d->lock);
	HASH_ADD_KEYPTR(hh, d->contents, &c->id, CONTENT_KEY_LEN, c);
	pthread_mutex_unlock(&d->lock);
}

void content_dir_leave(struct content *c)
{
	struct content_dir *d = c->dir;

	pthread_mutex_lock(&d->lock);
	HASH_DEL(d->contents, c);
	pthread_mutex_unlock(&d->lock);
}

int content_dir_sync_name(struct content *c)
{
	char name[4];
	scoped(fd_close) int fd = -1;

	(void)snprintf(name, sizeof(name), "%02x", (unsigned)(c->id & 0xff));
	fd = openat(c->dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? content_dir_missed(c->dir, -errno) : 0;
}

/* ---- what no content names ---- */

static bool parse_name(const char *text, struct file_name *out)
{
	int end = 0;

	*out = (struct file_name){.id = 0};
	if (sscanf(text, "%16" SCNx64 ".%" SCNu32 "%n", &out->id, &out->version, &end) < 2 ||
	    end == 0)
		return false;
	text += end;
	end = 0;
	return !*text ||
	       (sscanf(text, ".v%" SCNu32 "%n", &out->view, &end) == 1 && end && !text[end]);
}

/* A side file is used by the view that opened it; of a content that is only kept, all stay. */
static bool is_used(struct content_dir *d, const struct file_name *n,
		    bool (*keep)(void *arg, uint64_t id, uint32_t version), void *arg)
{
	struct content *c;
	bool used = false;

	HASH_FIND(hh, d->contents, &n->id, CONTENT_KEY_LEN, c);
	if (!c)
		return keep && keep(arg, n->id, n->version);
	if (!n->view)
		return true;
	pthread_mutex_lock(&c->lock);
	for (struct view *v = c->views; v; v = v->next)
		used = used || (v->number == n->view && v->side_fd >= 0);
	pthread_mutex_unlock(&c->lock);
	return used;
}

static int sweep_folder(struct content_dir *d, unsigned folder,
			bool (*keep)(void *arg, uint64_t id, uint32_t version), void *arg)
{
	char name[4];
	struct dirent *e;
	DIR *dir;
	int fd;

	(void)snprintf(name, sizeof(name), "%02x", folder);
	fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int rc = -errno;

		fd_close(fd);
		return rc;
	}
	while ((e = readdir(dir))) {
		struct file_name n;

		if (!parse_name(e->d_name, &n) ||
		    is_used(d, &n, keep, arg))
			continue;
		(void)unlinkat(fd, e->d_name, 0); /* one that cannot go costs space, nothing else */
	}
	(void)closedir(dir);
	return 0;
}

int content_dir_sweep(struct content_dir *d, bool (*keep)(void *arg, uint64_t id, uint32_t version),
		      void *arg)
{
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	for (unsigned i = 0; rc == 0 && i < FOLDERS; i++)
		rc = sweep_folder(d, i, keep, arg);
	pthread_mutex_unlock(&d->lock);
	return rc;
}
