/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as plain files. */
#include "store/dir_sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TMP ".tmp"
#define TMP_NAME_MAX 32
#define LEFTOVER_AGE_S (24 * 3600)
#define WRITE_MOST (8u << 20) /* one write(2); a signal or a full disk is seen in between */

struct dir_root {
	/* fixed after dir_root_new() */
	char *path;
	/* any thread */
	_Atomic unsigned refs;
	/* any thread, under lock */
	pthread_mutex_t lock;
	int fd; /* -1: not there yet */
	bool swept;
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

/* The descriptor, valid as long as d; or a negative errno. */
static int root_fd(struct dir_root *d, bool make)
{
	int fd;

	pthread_mutex_lock(&d->lock);
	fd = open_root(d, make);
	pthread_mutex_unlock(&d->lock);
	return fd;
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

/* rc: what the system said, a negative errno. */
static int fault_of(const struct dir_root *d, const char *op, const char *key, int rc,
		    struct fault *f)
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

static bool key_is_valid(const char *key)
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

static int refuse_key(const struct dir_root *d, const char *op, const char *key, struct fault *f)
{
	return fault_set(f, -EINVAL, FAULT_FINAL, "%s %.90s/%.60s: not a valid key", op, d->path,
			 key);
}

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

	for (const char *slash = strchr(key, '/'); slash && rc == 0; slash = strchr(slash + 1, '/')) {
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
	bool mine;

	pthread_mutex_lock(&d->lock);
	mine = !d->swept;
	d->swept = true;
	pthread_mutex_unlock(&d->lock);
	if (mine && fstat(fd, &st) == 0)
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

	if (!key_is_valid(key))
		return refuse_key(d, "PUT", key, f);
	rc = root_fd(d, true);
	if (rc >= 0)
		rc = put(d, rc, key, data, len, create_only);
	return rc < 0 ? fault_of(d, "PUT", key, rc, f) : 0;
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

	if (!key_is_valid(key))
		return refuse_key(d, "GET", key, f);
	rc = root_fd(d, false);
	if (rc >= 0)
		rc = get(rc, key, off, len, out, size);
	return rc < 0 ? fault_of(d, "GET", key, rc, f) : 0;
}

/* ---- list ---- */

struct walk {
	int root;
	const char *after; /* NULL: from the first */
	unsigned most;
	unsigned found;
	struct buf *out;
};

/* Names of one directory, directories with '/' behind: sorted like that, a walk in order of names
 * gives whole keys in memcmp order ("a-b" before "a/b"). */
struct names {
	struct buf text;
	struct buf index; /* char * */
};

static void names_fini(struct names *n)
{
	buf_fini(&n->text);
	buf_fini(&n->index);
}
SCOPE_VAL(struct names, names_fini)

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_directory(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int read_names(DIR *dir, const char *begin, struct names *out)
{
	struct dirent *e;

	while (errno = 0, (e = readdir(dir))) {
		if (e->d_name[0] == '.' || strncmp(e->d_name, begin, strlen(begin)) != 0)
			continue;
		buf_addf(&out->text, "%s%s", e->d_name, is_directory(dirfd(dir), e) ? "/" : "");
		buf_add(&out->text, "", 1);
	}
	return errno ? -errno : buf_ok(&out->text) ? 0 : -ENOMEM;
}

static int sort_names(struct names *n)
{
	size_t count;

	for (size_t at = 0; at < n->text.len;) {
		char *name = (char *)n->text.data + at;

		buf_add(&n->index, &name, sizeof(name));
		at += strlen(name) + 1;
	}
	if (!buf_ok(&n->index))
		return -ENOMEM;
	count = n->index.len / sizeof(char *);
	if (count > 1)
		qsort(n->index.data, count, sizeof(char *), compare_names);
	return 0;
}

static int load_names(int root, const char *path, const char *begin, struct names *out)
{
	int fd = openat(root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int rc;

	if (!dir) {
		rc = -errno;
		fd_close(fd);
		return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc; /* no such directory: no keys */
	}
	rc = read_names(dir, begin, out);
	(void)closedir(dir); /* only read */
	return rc < 0 ? rc : sort_names(out);
}

/* Nothing in the directory "path/" comes behind w->after. */
static bool lies_before(const struct walk *w, const char *path)
{
	return w->after && strcmp(path, w->after) < 0 &&
	       strncmp(path, w->after, strlen(path)) != 0;
}

static int add_key(struct walk *w, const char *key)
{
	if (w->after && strcmp(key, w->after) <= 0)
		return 0;
	buf_add(w->out, key, strlen(key) + 1);
	w->found++;
	return buf_ok(w->out) ? 0 : -ENOMEM;
}

/* path: "" or ends with '/'; names that begin with `begin`. */
static int walk(struct walk *w, const char *path, const char *begin)
{
	scoped(names_fini) struct names names = {.text = BUF_EMPTY};
	int rc = load_names(w->root, path, begin, &names);
	char *const *v;

	v = (char *const *)(void *)names.index.data;
	for (size_t i = 0; rc == 0 && i < names.index.len / sizeof(*v) && w->found < w->most; i++) {
		char key[DIR_KEY_MAX];
		int len = snprintf(key, sizeof(key), "%s%s", path, v[i]);

		if (len < 0 || (size_t)len >= sizeof(key))
			continue; /* nothing of ours: it could not have been put */
		if (key[len - 1] != '/')
			rc = add_key(w, key);
		else if (!lies_before(w, key))
			rc = walk(w, key, "");
	}
	return rc;
}

int dir_list(struct dir_root *d, const char *prefix, const char *after, unsigned most,
	     struct buf *out, struct fault *f)
{
	struct walk w = {.after = after, .most = most, .out = out};
	const char *slash = strrchr(prefix, '/');
	char path[DIR_KEY_MAX] = "";
	int rc;

	if (strlen(prefix) >= sizeof(path))
		return refuse_key(d, "LIST", prefix, f);
	w.root = root_fd(d, false);
	if (w.root < 0)
		return fault_of(d, "LIST", prefix, w.root, f);
	if (slash)
		memcpy(path, prefix, (size_t)(slash + 1 - prefix));
	rc = walk(&w, path, slash ? slash + 1 : prefix);
	return rc < 0 ? fault_of(d, "LIST", prefix, rc, f) : 0;
}

/* ---- delete ---- */

int dir_delete(struct dir_root *d, const char *key, struct fault *f)
{
	int rc;

	if (!key_is_valid(key))
		return refuse_key(d, "DELETE", key, f);
	rc = root_fd(d, false);
	if (rc >= 0)
		rc = unlinkat(rc, key, 0) < 0 ? -errno : 0;
	if (rc == 0 || rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	return fault_of(d, "DELETE", key, rc, f);
}
