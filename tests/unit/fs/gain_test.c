/* SPDX-License-Identifier: Apache-2.0 */
/* What vouch() is told of gains and losses: by moments that the test itself freezes. */
#include "tests/unit/fs/rig.h"

#include "fs/gain.h"
#include "fs/track/vouch_set.h"

struct told {
	struct vouch_input in;
	struct gains *gains;
};

static void freeze(struct machine *x, struct moment **out)
{
	mount_lock(&x->m);
	assert_int_equal(moment_freeze(&x->m, mount_now(&x->m), out), 0);
	mount_unlock(&x->m);
}

/* It becomes the base, and what vouch() would then be asked. */
static struct told promote(struct machine *x, struct moment *moment)
{
	struct told t = {.in = VOUCH_INPUT_EMPTY, .gains = gains_new()};

	assert_non_null(t.gains);
	mount_lock(&x->m);
	moment_promote(&x->m, moment);
	assert_int_equal(gains_merge(t.gains, &x->m, moment), 0);
	mount_unlock(&x->m);
	assert_int_equal(gains_input(t.gains, &x->m, &t.in), 0);
	moment_free(moment);
	return t;
}

static struct told tell(struct machine *x)
{
	struct moment *moment;

	freeze(x, &moment);
	return promote(x, moment);
}

static void told_fini(struct machine *x, struct told *t)
{
	vouch_input_fini(&t->in);
	gains_free(t->gains);
	machine_lose(x);
}

/* The entry of that name in the root; NULL: none. */
static const struct vouch_entry *entry(const struct told *t, const char *name)
{
	for (size_t i = 0; i < t->in.dirs_n; i++)
		for (size_t k = 0; t->in.dirs[i]->path[0] == '\0' && k < t->in.dirs[i]->items_n; k++)
			if (strcmp(t->in.dirs[i]->items[k].e.name, name) == 0)
				return &t->in.dirs[i]->items[k].e;
	return NULL;
}

/* As objection 3 counts them. */
static void assert_bytes(const struct told *t, uint64_t gained, uint64_t lost)
{
	uint64_t got = 0, gone = 0;

	for (size_t i = 0; i < t->in.dirs_n; i++)
		for (size_t k = 0; k < t->in.dirs[i]->items_n; k++) {
			const struct vouch_entry *e = &t->in.dirs[i]->items[k].e;

			got += e->change == VOUCH_GAINED || e->change == VOUCH_REWRITTEN ? e->size : 0;
			gone += e->change == VOUCH_LOST ? e->size : e->change == VOUCH_REWRITTEN ? e->old_size : 0;
		}
	assert_int_equal(got, gained);
	assert_int_equal(gone, lost);
}

static void a_rewrite_is_told_of_by_the_name_that_the_moment_has(void **state)
{
	struct machine *x = machine_new(*state);
	struct moment *moment;
	struct told t;

	do_put(x, "a", "old");
	machine_sync(x);
	do_put(x, "a", "newer");
	freeze(x, &moment);
	assert_int_equal(do_rename(x, "a", "b", 0), 0);
	t = promote(x, moment);
	assert_null(entry(&t, "b"));
	assert_non_null(entry(&t, "a"));
	assert_int_equal(entry(&t, "a")->change, VOUCH_REWRITTEN);
	assert_bytes(&t, 5, 3);
	told_fini(x, &t);
}

static void a_rewrite_of_what_is_unlinked_meanwhile_is_told_of(void **state)
{
	struct machine *x = machine_new(*state);
	struct moment *moment;
	struct told t;

	do_put(x, "a", "old");
	machine_sync(x);
	do_put(x, "a", "newer");
	freeze(x, &moment);
	assert_int_equal(do_unlink(x, "a"), 0);
	t = promote(x, moment);
	assert_non_null(entry(&t, "a"));
	assert_int_equal(entry(&t, "a")->change, VOUCH_REWRITTEN);
	assert_bytes(&t, 5, 3);
	told_fini(x, &t);
}

static void a_further_link_is_no_gain(void **state)
{
	struct machine *x = machine_new(*state);
	struct told t;

	do_put(x, "a", "data");
	machine_sync(x);
	assert_int_equal(do_link(x, "a", "b"), 0);
	assert_int_equal(do_link(x, "a", "c"), 0);
	t = tell(x);
	assert_int_equal(entry(&t, "b")->change, VOUCH_GAINED);
	assert_bytes(&t, 0, 0);
	told_fini(x, &t);
}

static void a_link_less_is_no_loss(void **state)
{
	struct machine *x = machine_new(*state);
	struct told t;

	do_put(x, "a", "data");
	assert_int_equal(do_link(x, "a", "b"), 0);
	machine_sync(x);
	assert_int_equal(do_unlink(x, "a"), 0);
	t = tell(x);
	assert_int_equal(entry(&t, "a")->change, VOUCH_LOST);
	assert_bytes(&t, 0, 0);
	told_fini(x, &t);
}

static void a_file_of_two_names_counts_once(void **state)
{
	struct machine *x = machine_new(*state);
	struct told t;

	do_put(x, "old", "data");
	assert_int_equal(do_link(x, "old", "old too"), 0);
	machine_sync(x);
	assert_int_equal(do_unlink(x, "old"), 0);
	assert_int_equal(do_unlink(x, "old too"), 0);
	do_put(x, "new", "longer");
	assert_int_equal(do_link(x, "new", "new too"), 0);
	t = tell(x);
	assert_bytes(&t, 6, 4);
	told_fini(x, &t);
}

static void a_file_that_is_moved_and_rewritten_counts_both_ways(void **state)
{
	struct machine *x = machine_new(*state);
	struct told t;

	do_put(x, "a", "data");
	machine_sync(x);
	assert_int_equal(do_rename(x, "a", "b", 0), 0);
	do_put(x, "b", "longer");
	t = tell(x);
	assert_bytes(&t, 6, 4);
	told_fini(x, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_rewrite_is_told_of_by_the_name_that_the_moment_has, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_rewrite_of_what_is_unlinked_meanwhile_is_told_of, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_further_link_is_no_gain, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_link_less_is_no_loss, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_file_of_two_names_counts_once, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_file_that_is_moved_and_rewritten_counts_both_ways, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
