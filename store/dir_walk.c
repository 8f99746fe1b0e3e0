/* SPDX-License-Identifier: Apache-2.0 */
/* Listing a tree in the order of whole paths, without holding more than one path of directories. */
#include "store/dir_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store/dir_root.h"

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
	return w->after && strcmp(path, w->after) < 0 && strncmp(path, w->after, strlen(path)) != 0;
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
static int visit(struct walk *w, const char *path, const char *begin)
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
			rc = visit(w, key, "");
	}
	return rc;
}

int dir_walk(int root, const char *prefix, const char *after, unsigned most, struct buf *out)
{
	struct walk w = {.root = root, .after = after, .most = most, .out = out};
	const char *slash = strrchr(prefix, '/');
	size_t len = slash ? (size_t)(slash - prefix) : 0;
	char path[DIR_KEY_MAX] = "";

	if (!slash)
		return visit(&w, "", prefix);
	if (len + 1 >= sizeof(path))
		return 0;
	memcpy(path, prefix, len);
	if (!dir_key_is_valid(path))
		return 0; /* nothing has such a name; and it might lead out of the tree */
	path[len] = '/';
	return visit(&w, path, slash + 1);
}
