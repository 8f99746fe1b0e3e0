/* SPDX-License-Identifier: Apache-2.0 */
/* See tree.h. */
#include "tests/unit/slot/tree.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* ---- nodes and names ---- */

static struct tree_node *add_node(struct tree *t, const struct tree_node *n)
{
	for (size_t i = 0; i < TREE_MOST; i++) {
		if (t->nodes[i].id != 0)
			continue;
		t->nodes[i] = *n;
		return &t->nodes[i];
	}
	fail_msg("more nodes than a tree has room for");
	return NULL;
}

static void add_name(struct tree *t, uint64_t dir, const char *text, uint64_t id)
{
	for (size_t i = 0; i < TREE_MOST; i++) {
		if (t->names[i].id != 0)
			continue;
		t->names[i] = (struct tree_name){.dir = dir, .id = id};
		(void)snprintf(t->names[i].text, sizeof(t->names[i].text), "%s", text);
		return;
	}
	fail_msg("more names than a tree has room for");
}

void tree_init(struct tree *t)
{
	*t = (struct tree){.next_id = 100};
	add_node(t, &(struct tree_node){.id = ROOT_ID, .home = ROOT_ID, .mode = S_IFDIR | 0755, .nlink = 2});
}

struct tree_node *tree_node(struct tree *t, uint64_t id)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (id && t->nodes[i].id == id)
			return &t->nodes[i];
	return NULL;
}

struct tree_name *tree_name(struct tree *t, uint64_t dir, const char *text)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->names[i].id && t->names[i].dir == dir && strcmp(t->names[i].text, text) == 0)
			return &t->names[i];
	return NULL;
}

struct tree_name *tree_named(struct tree *t, uint64_t id)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (id && t->names[i].id == id)
			return &t->names[i];
	return NULL;
}

static bool is_dir(struct tree *t, uint64_t id)
{
	const struct tree_node *n = tree_node(t, id);

	return n && S_ISDIR(n->mode);
}

static struct tree_name *name_in(struct tree *t, uint64_t dir)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->names[i].id && t->names[i].dir == dir)
			return &t->names[i];
	return NULL;
}

/* ---- changes ---- */

static void dir_changed(struct tree *t, uint64_t dir, bool in_directories)
{
	if (!t->lazy || in_directories)
		tree_node(t, dir)->mtime = tree_node(t, dir)->ctime = ++t->clock;
}

static void drop(struct tree *t, struct tree_name *n)
{
	struct tree_node *to = tree_node(t, n->id);

	dir_changed(t, n->dir, S_ISDIR(to->mode));
	to->ctime = ++t->clock;
	if (S_ISDIR(to->mode)) {
		tree_node(t, n->dir)->nlink--;
		to->id = 0;
	} else if (--to->nlink == 0) {
		to->id = 0;
	}
	n->id = 0;
}

/* FNV-1a with the top bit: apart from ids that are counted. */
static uint64_t dir_id(struct tree *t, uint64_t dir, const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ dir;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	h = (h * UINT64_C(0x9e3779b97f4a7c15)) | UINT64_C(1) << 63;
	return tree_node(t, h) ? t->next_id++ : h;
}

static bool make(struct tree *t, uint64_t dir, const char *text, uint32_t mode, uint64_t content)
{
	bool makes_dir = S_ISDIR(mode);
	struct tree_node n = {.home = dir, .mode = mode, .nlink = makes_dir ? 2 : 1, .content = content};

	if (!is_dir(t, dir) || tree_name(t, dir, text))
		return false;
	n.id = makes_dir ? dir_id(t, dir, text) : t->next_id++;
	n.mtime = n.ctime = ++t->clock;
	add_node(t, &n);
	add_name(t, dir, text, n.id);
	tree_node(t, dir)->nlink += makes_dir;
	dir_changed(t, dir, makes_dir);
	return true;
}

bool tree_write(struct tree *t, uint64_t dir, const char *text, uint64_t content)
{
	struct tree_name *n = tree_name(t, dir, text);
	struct tree_node *to = n ? tree_node(t, n->id) : NULL;

	if (!to)
		return make(t, dir, text, S_IFREG | 0644, content);
	if (!S_ISREG(to->mode))
		return false;
	to->content = content;
	to->mtime = to->ctime = ++t->clock;
	return true;
}

bool tree_symlink(struct tree *t, uint64_t dir, const char *text, uint64_t content)
{
	return make(t, dir, text, S_IFLNK | 0777, content);
}

bool tree_mkdir(struct tree *t, uint64_t dir, const char *text)
{
	return make(t, dir, text, S_IFDIR | 0755, 0);
}

bool tree_link(struct tree *t, uint64_t id, uint64_t dir, const char *text)
{
	struct tree_node *n = tree_node(t, id);

	if (!n || S_ISDIR(n->mode) || !is_dir(t, dir) || tree_name(t, dir, text))
		return false;
	n->nlink++;
	n->ctime = ++t->clock;
	add_name(t, dir, text, id);
	dir_changed(t, dir, false);
	return true;
}

bool tree_remove(struct tree *t, uint64_t dir, const char *text)
{
	struct tree_name *n = tree_name(t, dir, text), *in;

	if (!n)
		return false;
	while (is_dir(t, n->id) && (in = name_in(t, n->id)))
		(void)tree_remove(t, in->dir, in->text);
	drop(t, n);
	return true;
}

static bool lies_in(struct tree *t, uint64_t dir, uint64_t what)
{
	while (dir != ROOT_ID && dir != what)
		dir = tree_named(t, dir)->dir;
	return dir == what;
}

bool tree_rename(struct tree *t, uint64_t dir, const char *text, uint64_t to_dir, const char *to_text)
{
	struct tree_name *n = tree_name(t, dir, text), *over = tree_name(t, to_dir, to_text);
	bool moves_dir = n && is_dir(t, n->id);

	if (!n || !is_dir(t, to_dir) || (over && over->id == n->id) || (moves_dir && lies_in(t, to_dir, n->id)))
		return false;
	if (over && (is_dir(t, over->id) != moves_dir || name_in(t, over->id)))
		return false;
	if (over)
		drop(t, over);
	tree_node(t, dir)->nlink -= moves_dir;
	tree_node(t, to_dir)->nlink += moves_dir;
	n->dir = to_dir;
	memmove(n->text, to_text, strlen(to_text) + 1);
	if (!t->lazy)
		tree_node(t, n->id)->ctime = ++t->clock;
	dir_changed(t, dir, moves_dir);
	dir_changed(t, to_dir, moves_dir);
	return true;
}

bool tree_chmod(struct tree *t, uint64_t id, uint32_t mode)
{
	struct tree_node *n = tree_node(t, id);

	if (!n)
		return false;
	n->mode = (n->mode & S_IFMT) | mode;
	n->ctime = ++t->clock;
	return true;
}

/* ---- scripts ---- */

struct at {
	uint64_t dir, id; /* id 0: nothing there */
	char text[NAME_MAX_BYTES + 1];
};

static struct at at_path(struct tree *t, const char *path)
{
	struct at at = {.dir = ROOT_ID, .id = ROOT_ID};

	while (path && *path) {
		size_t len = strcspn(path, "/");
		const struct tree_name *n;

		at.dir = at.id;
		memcpy(at.text, path, len);
		at.text[len] = '\0';
		n = tree_name(t, at.dir, at.text);
		at.id = n ? n->id : 0;
		path += len + (path[len] == '/');
	}
	return at;
}

static bool step(struct tree *t, const char *verb, const char *a, const char *b)
{
	struct at x = at_path(t, a), y = at_path(t, b);

	if (strcmp(verb, "mkdir") == 0)
		return tree_mkdir(t, x.dir, x.text);
	if (strcmp(verb, "write") == 0)
		return tree_write(t, x.dir, x.text, strtoull(b, NULL, 10));
	if (strcmp(verb, "symlink") == 0)
		return tree_symlink(t, x.dir, x.text, strtoull(b, NULL, 10));
	if (strcmp(verb, "rm") == 0)
		return tree_remove(t, x.dir, x.text);
	if (strcmp(verb, "mv") == 0)
		return tree_rename(t, x.dir, x.text, y.dir, y.text);
	if (strcmp(verb, "ln") == 0)
		return tree_link(t, x.id, y.dir, y.text);
	return strcmp(verb, "chmod") == 0 && tree_chmod(t, x.id, (uint32_t)strtoul(b, NULL, 8));
}

void tree_do(struct tree *t, const char *text)
{
	scoped(free) char *copy = strdup(text ? text : "");
	char *rest = copy, *line;

	while ((line = strsep(&rest, ";"))) {
		char *save = NULL, *verb = strtok_r(line, " ", &save), *a, *b;

		if (!verb)
			continue;
		a = strtok_r(NULL, " ", &save);
		b = strtok_r(NULL, " ", &save);
		if (!step(t, verb, a, b))
			fail_msg("\"%s %s %s\" in \"%s\"", verb, a, b ? b : "", text);
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *path_of(struct tree *t, const struct tree_name *n)
{
	scoped(free) char *dir = n->dir == ROOT_ID ? NULL : path_of(t, tree_named(t, n->dir));
	char *path = NULL;

	assert_true(asprintf(&path, "%s%s%s", dir ? dir : "", dir ? "/" : "", n->text) > 0);
	return path;
}

static char *line_of(struct tree *t, const struct tree_name *n)
{
	scoped(free) char *path = path_of(t, n);
	const struct tree_node *to = tree_node(t, n->id);
	unsigned mode = to->mode & 07777, usual = S_ISDIR(to->mode) ? 0755 : S_ISLNK(to->mode) ? 0777 : 0644;
	char *line = NULL, what[32] = "/", how[16] = "";

	if (!S_ISDIR(to->mode))
		(void)snprintf(what, sizeof(what), S_ISLNK(to->mode) ? "->%lu" : "=%lu", to->content);
	if (mode != usual)
		(void)snprintf(how, sizeof(how), "[%o]", mode);
	assert_true(asprintf(&line, "%s%s%s", path, what, how) > 0);
	return line;
}

void tree_show(struct tree *t, char *out, size_t size)
{
	char *lines[TREE_MOST];
	size_t n = 0, len = 0;

	for (size_t i = 0; i < TREE_MOST; i++) {
		const struct tree_name *name = &t->names[i];

		if (name->id && !(is_dir(t, name->id) && name_in(t, name->id) && (tree_node(t, name->id)->mode & 0777) == 0755))
			lines[n++] = line_of(t, name);
	}
	qsort(lines, n, sizeof(*lines), by_path);
	out[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s", i ? " " : "", lines[i]);
		free(lines[i]);
	}
}

/* ---- runs ---- */

static uint32_t extents_of(uint64_t content)
{
	return content >= 1000 ? (uint32_t)content : content > 0;
}

static struct inode_rec record_of(const struct tree_node *n)
{
	struct inode_rec rec = {.id = n->id, .home = n->home};

	rec.attr = (struct inode_attr){.mode = n->mode, .nlink = n->nlink, .mtime_ns = n->mtime, .ctime_ns = n->ctime};
	if (S_ISLNK(n->mode))
		assert_true(asprintf(&rec.symlink, "%lu", n->content) > 0);
	for (uint32_t i = 0; S_ISREG(n->mode) && i < extents_of(n->content); i++) {
		struct extent e = {.kind = EXTENT_CHUNK, .length = 10, .place = {.pack = 1, .stored = 10}};

		memcpy(e.hash.b, &n->content, sizeof(n->content));
		memcpy(e.hash.b + 8, &i, sizeof(i));
		assert_int_equal(extents_add(&rec.extents, &e), 0);
		rec.attr.size += e.length;
	}
	return rec;
}

static uint32_t segments_of(const struct tree_node *n)
{
	uint32_t extents = n && S_ISREG(n->mode) ? extents_of(n->content) : 0;

	return !n ? 0 : extents ? (extents + INODE_SEGMENT_EXTENTS - 1) / INODE_SEGMENT_EXTENTS : 1;
}

static bool is_same_node(const struct tree_node *a, const struct tree_node *b)
{
	return a->mode == b->mode && a->nlink == b->nlink && a->content == b->content && a->mtime == b->mtime &&
	       a->ctime == b->ctime;
}

static void put_node(struct run_builder *b, struct tree *from, const struct tree_node *n)
{
	const struct tree_node *had = tree_node(from, n->id);
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};

	if (had && is_same_node(had, n))
		return;
	rec = record_of(n);
	assert_int_equal(inode_rec_put(b, &rec, segments_of(had)), 0);
}

static void put_name(struct run_builder *b, struct tree *from, struct tree *to, const struct tree_name *n)
{
	const struct tree_name *had = tree_name(from, n->dir, n->text);
	const struct tree_node *node = tree_node(to, n->id);
	struct name_rec rec = {.id = n->id, .home = node->home, .type = (uint8_t)IFTODT(node->mode)};
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];

	if (had && had->id == n->id)
		return;
	assert_int_equal(name_rec_encode(&rec, &value), 0);
	assert_int_equal(run_builder_add(b, key, key_of_name(n->dir, n->text, strlen(n->text), key), value.data, value.len), 0);
}

struct run *tree_diff(struct tree *from, struct tree *to)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	struct run *out = NULL;
	uint8_t key[RUN_KEY_MAX];

	for (size_t i = 0; i < TREE_MOST; i++) {
		const struct tree_node *n = &from->nodes[i];
		const struct tree_name *e = &from->names[i];

		if (n->id && !tree_node(to, n->id))
			assert_int_equal(inode_rec_remove(b, n->home, n->id, segments_of(n)), 0);
		if (e->id && !tree_name(to, e->dir, e->text))
			assert_int_equal(run_builder_add(b, key, key_of_name(e->dir, e->text, strlen(e->text), key), NULL, 0), 0);
		if (to->nodes[i].id)
			put_node(b, from, &to->nodes[i]);
		if (to->names[i].id)
			put_name(b, from, to, &to->names[i]);
	}
	assert_int_equal(run_builder_finish(b, &out), 0);
	return out;
}

/* ---- states ---- */

struct reading {
	struct tree *t;
	struct inode_rec rec; /* whose segments are being read */
	struct fault f;
};

static void end_inode(struct reading *r)
{
	struct inode_rec *i = &r->rec;
	struct tree_node n = {.id = i->id, .home = i->home, .mode = i->attr.mode, .nlink = i->attr.nlink,
			      .mtime = i->attr.mtime_ns, .ctime = i->attr.ctime_ns};

	if (i->id == 0)
		return;
	if (inode_rec_check(i, &r->f) < 0)
		fail_msg("%s", r->f.text);
	if (i->symlink)
		n.content = strtoull(i->symlink, NULL, 10);
	else if (i->extents.n > 0)
		memcpy(&n.content, i->extents.v[0].hash.b, sizeof(n.content));
	if (S_ISREG(n.mode) && i->extents.n != extents_of(n.content))
		fail_msg("inode %lu: %zu extents of content %lu", n.id, i->extents.n, n.content);
	add_node(r->t, &n);
	inode_rec_fini(i);
}

static int each_item(void *arg, const struct run_item *item)
{
	struct reading *r = arg;
	struct name_rec n;
	char text[NAME_MAX_BYTES + 1] = "";

	if (key_kind(item->key, item->key_len) == KEY_NAME) {
		assert_int_equal(name_rec_decode(item->value, item->value_len, &n, &r->f), 0);
		memcpy(text, item->key + 9, item->key_len - 9);
		add_name(r->t, key_number(item->key, 0), text, n.id);
		return 0;
	}
	if (key_number(item->key, 9) != r->rec.id)
		end_inode(r);
	if (inode_rec_decode(item->key, item->key_len, item->value, item->value_len, &r->rec, &r->f) < 0)
		fail_msg("%s", r->f.text);
	return 0;
}

void tree_of_state(struct tree *t, struct state *s)
{
	struct reading r = {.t = t, .f = FAULT_NONE};

	*t = (struct tree){.next_id = 100};
	assert_int_equal(state_walk(s, NULL, "", 0, each_item, &r, &r.f), 0);
	end_inode(&r);
}

struct state *tree_empty_state(void)
{
	static const struct store_format format = {.format = 1, .id = {{1}}, .secret = {2}};
	struct state *s = NULL;

	assert_int_equal(state_empty(&format, &s), 0);
	return s;
}

struct state *tree_commit(struct state *s, struct run *run)
{
	struct record_head head = *state_head(s);
	struct state *next = NULL;

	head.number++;
	assert_int_equal(state_next(s, &head, run, &next), 0);
	return next;
}

/* ---- is it whole? ---- */

static const char *name_fault(struct tree *t, const struct tree_name *n)
{
	uint64_t dir = n->dir;

	if (!is_dir(t, dir))
		return "a name lies in no directory";
	if (!tree_node(t, n->id))
		return "a name leads to no inode";
	for (size_t depth = 0; dir != ROOT_ID; depth++) {
		const struct tree_name *up = tree_named(t, dir);

		if (!up)
			return "a name lies in a directory without a name";
		if (depth > TREE_MOST)
			return "a directory lies in itself";
		dir = up->dir;
	}
	return NULL;
}

static const char *node_fault(struct tree *t, const struct tree_node *n)
{
	uint32_t names = 0, dirs = 0;

	for (size_t i = 0; i < TREE_MOST; i++) {
		names += t->names[i].id == n->id;
		dirs += t->names[i].id && t->names[i].dir == n->id && is_dir(t, t->names[i].id);
	}
	if (!S_ISDIR(n->mode))
		return names == 0 ? "an inode without a name" : names != n->nlink ? "a file's link count" : NULL;
	if (names != (n->id != ROOT_ID))
		return "a directory without a name, or with several";
	return n->nlink != 2 + dirs ? "a directory's link count" : NULL;
}

const char *tree_fault(struct tree *t)
{
	const char *why = tree_node(t, ROOT_ID) ? NULL : "no root";

	for (size_t i = 0; !why && i < TREE_MOST; i++) {
		if (t->names[i].id)
			why = name_fault(t, &t->names[i]);
		if (!why && t->nodes[i].id)
			why = node_fault(t, &t->nodes[i]);
	}
	return why;
}
