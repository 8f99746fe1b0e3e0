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
	struct told t = {.in = VOUCH_INPUT_EMPTY, .gains = gains_new(&x->m)};

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

/* ---- what an earlier daemon did: the difference of two states ---- */

static struct state *state_now(struct machine *x)
{
	struct state *s;

	mount_lock(&x->m);
	s = state_ref(x->m.state);
	mount_unlock(&x->m);
	return s;
}

static struct told tell_since(struct machine *x, struct state *good)
{
	struct told t = {.in = VOUCH_INPUT_EMPTY, .gains = gains_new(&x->m)};
	struct fault f = FAULT_NONE;

	assert_non_null(t.gains);
	if (gains_of_states(t.gains, &x->m, good, &f) < 0)
		fail_msg("%s", f.text);
	assert_int_equal(gains_input(t.gains, &x->m, &t.in), 0);
	state_unref(good);
	return t;
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each directory and entry on a line of its own: + gained, - lost, ! rewritten, = kept. */
static char *told_text(const struct told *t)
{
	static const char sign[] = {[VOUCH_KEPT] = '=', [VOUCH_GAINED] = '+', [VOUCH_LOST] = '-', [VOUCH_REWRITTEN] = '!'};
	char *lines[64], *text = NULL;
	size_t n = 0, len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (size_t i = 0; i < t->in.dirs_n; i++) {
		const struct vouch_dir *d = t->in.dirs[i];

		assert_true(asprintf(&lines[n++], "%s/ %c", d->path, sign[d->change]) > 0);
		for (size_t k = 0; k < d->items_n; k++) {
			const struct vouch_entry *e = &d->items[k].e;

			assert_true(asprintf(&lines[n++], "%s/%s %c%s%s %lu %lu", d->path, e->name, sign[e->change],
					     e->is_dir ? " dir" : "", e->is_log ? " log" : "", (unsigned long)e->size,
					     (unsigned long)(e->change == VOUCH_REWRITTEN ? e->old_size : 0)) > 0);
		}
	}
	qsort(lines, n, sizeof(lines[0]), text_cmp);
	for (size_t i = 0; i < n; i++) {
		fprintf(out, "%s\n", lines[i]);
		free(lines[i]);
	}
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_told(const struct told *t, const char *want)
{
	char *text = told_text(t);

	assert_string_equal(text, want);
	free(text);
}

static void what_was_saved_before_a_restart_is_told_of(void **state)
{
	struct machine *x = machine_new(*state);
	struct state *good;
	struct told t;

	assert_int_equal(do_make(x, "run", S_IFDIR | 0755, NULL), 0);
	assert_int_equal(do_make(x, "run/1", S_IFDIR | 0755, NULL), 0);
	assert_int_equal(do_make(x, "run/1/in", S_IFDIR | 0755, NULL), 0);
	do_put(x, "run/1/in/x", "one");
	do_put(x, "run/same", "same");
	do_put(x, "run/last", "last");
	do_put(x, "run/moved", "moved");
	do_put(x, "run/a.log", "log");
	machine_sync(x);
	good = state_now(x);
	assert_int_equal(do_unlink(x, "run/1/in/x"), 0);
	assert_int_equal(do_rmdir(x, "run/1/in"), 0);
	assert_int_equal(do_rmdir(x, "run/1"), 0);
	assert_int_equal(do_make(x, "run/2", S_IFDIR | 0755, NULL), 0);
	machine_sync(x); /* more than one commit lies between the two */
	do_put(x, "run/2/y", "second");
	do_put(x, "run/last", "newest");
	assert_int_equal(do_rename(x, "run/moved", "run/2/moved", 0), 0);
	assert_int_equal(do_link(x, "run/same", "run/link"), 0);
	assert_int_equal(do_unlink(x, "run/a.log"), 0);
	do_put(x, "run/came and went", "nothing");
	machine_sync(x);
	assert_int_equal(do_unlink(x, "run/came and went"), 0);
	machine_sync(x);
	machine_restart(x);
	t = tell_since(x, good);
	assert_told(&t, "run/ =\n"
			"run/1 - dir 0 0\n"
			"run/1/ -\n"
			"run/1/in - dir 0 0\n"
			"run/1/in/ -\n"
			"run/1/in/x - 3 0\n"
			"run/2 + dir 0 0\n"
			"run/2/ +\n"
			"run/2/moved + 0 0\n"
			"run/2/y + 6 0\n"
			"run/a.log - log 3 0\n"
			"run/last ! 6 4\n"
			"run/link + 0 0\n"
			"run/moved - 0 0\n"
			"run/same = 4 0\n");
	told_fini(x, &t);
}

static void a_store_that_was_never_good_gained_all_that_it_has(void **state)
{
	struct machine *x = machine_new(*state);
	struct state *good;
	struct told t;

	assert_int_equal(state_empty(&x->m.format, &good), 0);
	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	do_put(x, "d/a", "data");
	machine_sync(x);
	machine_restart(x);
	t = tell_since(x, good);
	assert_told(&t, "/ =\n/d + dir 0 0\nd/ +\nd/a + 4 0\n");
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
		cmocka_unit_test_setup_teardown(what_was_saved_before_a_restart_is_told_of, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_store_that_was_never_good_gained_all_that_it_has, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
