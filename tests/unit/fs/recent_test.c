/* SPDX-License-Identifier: Apache-2.0 */
/* Which files were saved last, by the runs and by a base, and how little is read to know. */
#include "fs/recent.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/store/bucket.h"

#define S INT64_C(1000000000)

struct tree {
	struct bucket b;
	struct state *state;
	struct run_builder *run; /* the next commit's */
};

static int make(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	bucket_open(&t->b);
	t->run = run_builder_new();
	*state = t;
	return state_empty(&t->b.format, &t->state);
}

static int end(void **state)
{
	struct tree *t = *state;

	state_unref(t->state);
	run_builder_free(t->run);
	bucket_close(&t->b);
	free(t);
	return 0;
}

/* A name and its inode, saved at `s` seconds. */
static void add(struct tree *t, uint64_t dir, uint64_t id, mode_t mode, int64_t s)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	struct extent zeros = {.kind = EXTENT_ZERO, .length = 1000};
	struct inode_rec rec = {.id = id, .home = dir, .attr = {.mode = mode, .nlink = 1, .mtime_ns = s * S}};
	const struct name_rec name = {.id = id, .home = dir, .type = IFTODT(mode)};
	uint8_t key[RUN_KEY_MAX];
	char text[32];

	if (S_ISREG(mode)) {
		rec.attr.size = zeros.length;
		rec.extents = (struct extents){.v = &zeros, .n = 1};
	}
	assert_int_equal(inode_rec_put(t->run, &rec, 0), 0);
	snprintf(text, sizeof(text), "n%llu", (unsigned long long)id);
	assert_int_equal(name_rec_encode(&name, &value), 0);
	assert_int_equal(run_builder_add(t->run, key, key_of_name(dir, text, strlen(text), key), value.data, value.len), 0);
}

static void add_dir(struct tree *t, uint64_t dir, uint64_t id, int64_t s)
{
	add(t, dir, id, S_IFDIR | 0755, s);
}

static void add_file(struct tree *t, uint64_t dir, uint64_t id, int64_t s)
{
	add(t, dir, id, S_IFREG | 0644, s);
}

static void next_state(struct tree *t, const struct record_head *head, struct run *run)
{
	struct state *next;

	assert_int_equal(state_next(t->state, head, run, &next), 0);
	state_unref(t->state);
	t->state = next;
}

/* What was added since becomes a commit. */
static void commit(struct tree *t)
{
	scoped(run_unref) struct run *run = NULL;
	struct record_head head = *state_head(t->state);

	head.number++;
	assert_int_equal(run_builder_finish(t->run, &run), 0);
	next_state(t, &head, run);
}

/* All so far moves into a base. */
static void make_base(struct tree *t)
{
	struct record_head head = *state_head(t->state);
	struct fault f = FAULT_NONE;

	assert_int_equal(state_pack_base(t->state, &t->b.source, &t->b.sink, &head.base, &f), 0);
	head.base_upto = head.number++;
	next_state(t, &head, NULL);
}

static void find(struct tree *t, struct recent *out)
{
	static const _Atomic bool stop = false;
	struct fault f = FAULT_NONE;

	t->b.reads = t->b.bytes = 0;
	if (recent_find(t->state, &t->b.source, &stop, out, &f) < 0)
		fail_msg("%s", f.text);
}

static void assert_order(struct tree *t, const uint64_t *ids, size_t n)
{
	scoped(recent_fini) struct recent r = {.v = NULL};

	find(t, &r);
	assert_int_equal(r.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(r.v[i].id, ids[i]);
}

static void the_newest_files_directory_comes_first(void **state)
{
	static const uint64_t ids[] = {201, 200, 301, 300, 10};
	struct tree *t = *state;

	add_dir(t, ROOT_ID, 2, 50);
	add_dir(t, ROOT_ID, 3, 60); /* changed later than the other, and holds older files */
	add_dir(t, ROOT_ID, 4, 70); /* empty */
	add_file(t, ROOT_ID, 10, 5);
	add_file(t, 2, 200, 10);
	add_file(t, 2, 201, 40);
	add_file(t, 3, 300, 20);
	add_file(t, 3, 301, 30);
	commit(t);
	assert_order(t, ids, 5);
	make_base(t);
	assert_order(t, ids, 5);
}

/* 1000 directories of 100 files, the directories in the order of their ids. */
static void make_many(struct tree *t)
{
	for (uint64_t d = 2; d < 1002; d++) {
		add_dir(t, ROOT_ID, d, (int64_t)d);
		for (uint64_t f = 0; f < 100; f++)
			add_file(t, d, d * 1000 + f, (int64_t)d);
	}
	commit(t);
	make_base(t);
}

static void of_a_large_store_little_is_read(void **state)
{
	struct tree *t = *state;
	scoped(recent_fini) struct recent r = {.v = NULL};

	make_many(t);
	find(t, &r);
	assert_int_equal(r.n, (RECENT_DIRS - 1) * 100); /* the root has none */
	assert_int_equal(r.v[0].dir, 1001);
	assert_in_range(t->b.reads, 2, 2 * RECENT_DIRS);
	assert_in_range(t->b.bytes, 1, 2 << 20); /* of 15 MB */
}

static void a_file_saved_anew_deep_in_an_old_place_is_known_by_its_commit(void **state)
{
	struct tree *t = *state;
	scoped(recent_fini) struct recent r = {.v = NULL};

	make_many(t);
	add_file(t, 5, 5007, 5000);
	commit(t);
	find(t, &r);
	assert_int_equal(r.v[0].id, 5007);
	assert_int_equal(r.v[0].dir, 5);
	assert_int_equal(r.v[100].dir, 1001);
}

static void of_very_many_names_the_newest_inodes_are_seen(void **state)
{
	struct tree *t = *state;
	scoped(recent_fini) struct recent r = {.v = NULL};

	for (uint64_t i = 0; i < 5 * RECENT_NAMES; i++)
		add_file(t, ROOT_ID, 10000 - i, 10000 - (int64_t)i);
	commit(t);
	find(t, &r);
	assert_int_equal(r.n, RECENT_NAMES);
	for (size_t i = 0; i < r.n; i++)
		assert_int_equal(r.v[i].id, 10000 - i);
}

static void what_was_removed_is_not_there(void **state)
{
	static const uint64_t ids[] = {11};
	struct tree *t = *state;
	uint8_t key[RUN_KEY_MAX];

	add_dir(t, ROOT_ID, 2, 1);
	add_file(t, 2, 20, 90);
	add_file(t, ROOT_ID, 11, 10);
	commit(t);
	assert_int_equal(run_builder_add(t->run, key, key_of_name(ROOT_ID, "n2", 2, key), NULL, 0), 0);
	assert_int_equal(run_builder_add(t->run, key, key_of_name(2, "n20", 3, key), NULL, 0), 0);
	commit(t);
	assert_order(t, ids, 1);
}

static void once_it_is_to_stop_nothing_is_read(void **state)
{
	static const _Atomic bool stop = true;
	struct tree *t = *state;
	scoped(recent_fini) struct recent r = {.v = NULL};
	struct fault f = FAULT_NONE;

	make_many(t);
	t->b.reads = 0;
	assert_int_equal(recent_find(t->state, &t->b.source, &stop, &r, &f), 0);
	assert_int_equal(t->b.reads, 0);
	assert_int_equal(r.n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_newest_files_directory_comes_first),
		TEST(of_a_large_store_little_is_read),
		TEST(a_file_saved_anew_deep_in_an_old_place_is_known_by_its_commit),
		TEST(of_very_many_names_the_newest_inodes_are_seen),
		TEST(what_was_removed_is_not_there),
		TEST(once_it_is_to_stop_nothing_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
