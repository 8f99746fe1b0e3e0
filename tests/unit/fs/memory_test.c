/* SPDX-License-Identifier: Apache-2.0 */
/* What stays in memory, and who holds it there. */
#include "tests/unit/fs/rig.h"

#include <signal.h>
#include <sys/resource.h>

#include "fs/evict.h"

/* From here on no file grows: the journal takes no entry. */
static void disk_full(bool full)
{
	struct rlimit most;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &most), 0);
	most.rlim_cur = full ? 1 : most.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
}

static uint64_t lookups(struct machine *x)
{
	uint64_t sum = 0;

	mount_lock(&x->m);
	for (const struct node *n = x->m.nodes.by_id; n; n = n->hh.next)
		sum += n->id == ROOT_ID ? 0 : n->lookups;
	mount_unlock(&x->m);
	return sum;
}

static void a_call_that_fails_leaves_no_reference(void **state)
{
	struct machine *x = machine_new(*state);
	struct ns_attr a = {.id = 0};
	uint64_t id;

	do_put(x, "a", "data");
	assert_int_equal(do_make(x, "b", S_IFREG | 0644, &id), 0);
	machine_sync(x);
	forget_all(x);
	assert_int_equal(lookups(x), 0);
	disk_full(true);
	assert_true(ns_make(&x->m, ROOT_ID, "dir", S_IFDIR | 0755, 0, NULL, (struct ns_cred){.uid = 1}, &a) < 0);
	assert_true(ns_make(&x->m, ROOT_ID, "file", S_IFREG | 0644, 0, NULL, (struct ns_cred){.uid = 1}, &a) < 0);
	assert_true(ns_make(&x->m, ROOT_ID, "link", S_IFLNK | 0777, 0, "to", (struct ns_cred){.uid = 1}, &a) < 0);
	assert_true(ns_link(&x->m, id, ROOT_ID, "c", &a) < 0);
	disk_full(false);
	assert_int_equal(ns_make(&x->m, ROOT_ID, "a", S_IFREG | 0644, 0, NULL, (struct ns_cred){.uid = 1}, &a), -EEXIST);
	assert_int_equal(ns_link(&x->m, id, ROOT_ID, "a", &a), -EEXIST);
	assert_int_equal(ns_link(&x->m, UINT64_MAX, ROOT_ID, "new", &a), -ENOENT);
	assert_int_equal(ns_lookup(&x->m, ROOT_ID, "nothing", &a), -ENOENT);
	assert_int_equal(lookups(x), 0);
	assert_int_equal(a.id, 0); /* and nothing was answered */
	machine_lose(x);
}

static bool is_cached(struct machine *x, const char *path)
{
	struct walk w;
	struct node *n;
	bool cached;

	assert_int_equal(walk_to(x, path, &w), 0);
	mount_lock(&x->m);
	n = node_find(&x->m.nodes, w.id);
	cached = n->file->live;
	mount_unlock(&x->m);
	return cached;
}

static void the_cache_drops_what_was_used_longest_ago_and_no_more(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;

	do_put(x, "a", "12345");
	do_put(x, "b", "12345");
	do_put(x, "c", "12345");
	machine_sync(x);
	do_put(x, "unsent", "12345");
	do_close(x, do_open(x, "a", O_RDONLY), getpid());
	h = do_open(x, "b", O_RDONLY);
	x->m.opts.cache_size = 17; /* of 20 */
	evict_to_size(&x->m);
	assert_false(is_cached(x, "c")); /* the oldest, b, is open */
	assert_true(is_cached(x, "a"));
	x->m.opts.cache_size = 1;
	evict_to_size(&x->m);
	assert_false(is_cached(x, "a"));
	assert_true(is_cached(x, "b"));
	assert_true(is_cached(x, "unsent"));
	do_close(x, h, getpid());
	machine_lose(x);
}

static uint64_t nodes(struct machine *x)
{
	uint64_t names, n;

	ns_counts(&x->m, &names, &n);
	return n;
}

static void what_the_kernel_forgets_leaves_memory_with_its_directory(void **state)
{
	struct machine *x = machine_new(*state);
	char path[32], *tree, *again;
	struct walk w;

	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	assert_int_equal(do_make(x, "d/in", S_IFDIR | 0755, NULL), 0);
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "d/in/%d", i);
		assert_int_equal(do_make(x, path, S_IFLNK | 0777, NULL), 0);
	}
	machine_sync(x);
	machine_lose(x);
	x = machine_new(*state);
	tree = tree_of(x, false);
	assert_int_equal(nodes(x), 23);
	assert_int_equal(walk_to(x, "d/in", &w), 0);
	mount_lock(&x->m); /* from above: a directory waits for those in it */
	node_find(&x->m.nodes, w.dir)->lookups = 0;
	node_release(&x->m.nodes, node_find(&x->m.nodes, w.dir));
	mount_unlock(&x->m);
	assert_int_equal(nodes(x), 23);
	forget_all(x);
	assert_int_equal(nodes(x), 1); /* the root */
	again = tree_of(x, false);
	assert_string_equal(again, tree);
	free(tree);
	free(again);
	machine_lose(x);
}

static void a_directory_stays_while_a_name_in_it_is_not_committed(void **state)
{
	struct machine *x = machine_new(*state);
	char *tree;

	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	do_put(x, "d/old", "old");
	machine_sync(x);
	do_put_half(x, "d/tmp", "half"); /* of these two the moment says something else */
	assert_int_equal(do_rename(x, "d/tmp", "d/old", 0), 0);
	machine_sync(x);
	forget_all(x);
	tree = tree_of(x, false);
	assert_string_equal(tree, "/d 40755\n/d/old 100644 x1 half\n");
	free(tree);
	assert_good_is(*state, "/d 40755\n/d/old 100644 x1 old\n");
	machine_lose(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_that_fails_leaves_no_reference, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(the_cache_drops_what_was_used_longest_ago_and_no_more, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(what_the_kernel_forgets_leaves_memory_with_its_directory, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_directory_stays_while_a_name_in_it_is_not_committed, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
