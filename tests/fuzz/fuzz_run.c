/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and the values in them: refused, or exactly what was given. */
#include <string.h>
#include <sys/stat.h>

#include "store/run.h"
#include "tests/fuzz/fuzz.h"

static void check_inode(const struct run_item *item, struct inode_rec *io)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();

	if (inode_rec_decode(item->key, item->key_len, item->value, item->value_len, io, NULL) <
		    0 ||
	    inode_rec_check(io, NULL) < 0) {
		inode_rec_fini(io);
		return;
	}
	FUZZ_CHECK(!b || inode_rec_put(b, io, 0) == 0); /* what is read can be written */
}

static void check_values(const struct run *r)
{
	scoped(inode_rec_fini) struct inode_rec io = {.id = 0};

	for (size_t i = 0; i < run_count(r); i++) {
		struct run_item item, found;
		struct name_rec n;

		run_at(r, i, &item);
		FUZZ_CHECK(run_find(r, item.key, item.key_len, &found) && found.key == item.key);
		if (!item.value)
			continue;
		if (key_kind(item.key, item.key_len) == KEY_NAME)
			(void)name_rec_decode(item.value, item.value_len, &n, NULL);
		if (key_kind(item.key, item.key_len) != KEY_INODE)
			continue;
		if (item.key[item.key_len - 1] == 0)
			inode_rec_fini(&io); /* a first segment */
		check_inode(&item, &io);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	scoped(run_unref) struct run *r = NULL, *merged = NULL;
	scoped(buf_fini) struct buf again = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	struct run *both[2];

	if (run_decode(data, len, &r, &f) < 0) {
		FUZZ_CHECK(f.code < 0 && f.text[0]);
		return 0;
	}
	FUZZ_CHECK(run_encode(r, &again) == 0);
	FUZZ_CHECK(again.len == len && memcmp(again.data, data, len) == 0);
	check_values(r);
	both[0] = both[1] = r;
	FUZZ_CHECK(run_merge(both, 2, false, &merged) == 0);
	FUZZ_CHECK(run_bytes(merged) == len); /* a run over itself is itself */
	return 0;
}

static void add_file(struct run_builder *b, uint64_t id)
{
	struct inode_rec i = {.id = id, .home = 1, .attr = {.mode = S_IFREG | 0644, .nlink = 1}};
	char value[] = "value", name[] = "user.x";
	struct xattr x = {.name = name, .value = (uint8_t *)value, .len = 5};

	i.xattrs = &x;
	i.xattr_n = 1;
	for (int k = 0; k < 5; k++) {
		struct extent e = {.kind = (uint8_t)(k % 3),
				   .length = 100,
				   .place = {.pack = 1, .offset = 16, .stored = 90}};

		if (e.kind == EXTENT_INLINE)
			e.data = calloc(1, 100);
		FUZZ_CHECK(extents_add(&i.extents, &e) == 0);
	}
	i.attr.size = extents_bytes(&i.extents);
	FUZZ_CHECK(inode_rec_put(b, &i, 2) == 0);
	extents_fini(&i.extents);
}

static void add_symlink(struct run_builder *b)
{
	char target[] = "step-40";
	struct inode_rec i = {.id = 9,
			      .home = 1,
			      .attr = {.mode = S_IFLNK | 0777},
			      .symlink = target};

	FUZZ_CHECK(inode_rec_put(b, &i, 0) == 0);
}

static void add_name(struct run_builder *b, const char *name, uint64_t id)
{
	scoped(buf_fini) struct buf v = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];

	(void)name_rec_encode(&(struct name_rec){.id = id, .home = 1, .type = 8}, &v);
	FUZZ_CHECK(run_builder_add(b, key, key_of_name(1, name, strlen(name), key), v.data,
				   v.len) == 0);
}

bool fuzz_seed(size_t i, struct buf *out)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(run_unref) struct run *r = NULL;

	if (i > 2 || !b)
		return false;
	if (i > 0)
		add_name(b, "model.pt", 2);
	if (i > 1) {
		add_file(b, 2);
		add_file(b, 3);
		add_symlink(b);
	}
	FUZZ_CHECK(run_builder_finish(b, &r) == 0);
	return run_encode(r, out) == 0;
}
