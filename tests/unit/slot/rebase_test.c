/* SPDX-License-Identifier: Apache-2.0 */
/* Rebasing one slot's changes over others', by cases.  What the steps are: tree.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/slot/rebase.h"
#include "tests/unit/slot/tree.h"

/* ---- allocations that fail: linked with -Wl,--wrap ---- */

static long allocations_left = -1; /* -1: all succeed */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails_now(void)
{
	return allocations_left > 0 && --allocations_left == 0;
}

void *__wrap_malloc(size_t n)
{
	return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails_now() ? NULL : __real_realloc(p, n);
}

/* ---- the mount's side: what it sees is ours ---- */

static uint64_t new_id(void *arg)
{
	struct tree *ours = arg;

	return ours->next_id++;
}

static uint64_t parent(void *arg, uint64_t dir)
{
	const struct tree_name *n = tree_named(arg, dir);

	return n ? n->dir : 0;
}

static bool named(void *arg, uint64_t id, uint64_t *dir, char *name)
{
	const struct tree_name *n = tree_named(arg, id);

	if (!n)
		return false;
	*dir = n->dir;
	memcpy(name, n->text, sizeof(n->text));
	return true;
}

static uint64_t knows_no_parent(void *arg, uint64_t dir)
{
	return 0;
}

static bool knows_no_name(void *arg, uint64_t id, uint64_t *dir, char *name)
{
	return false;
}

/* ---- a case ---- */

#define THEIRS 2

/* Ours is slot 0, theirs are 1 and 2, whose changes lie one over the other. */
struct merge_case {
	const char *was, *theirs[THEIRS], *ours, *out;
};

struct merging {
	struct state *was, *now, *next;
	struct tree was_tree, ours_tree, out_tree;
	struct rebase_theirs theirs[THEIRS];
	size_t n;
	struct run *ours, *out;
	struct fault f;
	bool lazy;
};

static void commit(struct state **s, struct run *run)
{
	struct state *next = tree_commit(*s, run);

	state_unref(*s);
	*s = next;
}

static void merging_start(struct merging *x, const char *was)
{
	static struct tree nothing;
	scoped(run_unref) struct run *run = NULL;

	*x = (struct merging){.was = tree_empty_state(), .f = FAULT_NONE};
	tree_init(&x->was_tree);
	tree_do(&x->was_tree, was);
	run = tree_diff(&nothing, &x->was_tree);
	commit(&x->was, run);
	x->now = state_ref(x->was);
}

static void merging_theirs(struct merging *x, const char *what)
{
	static struct tree before, after;
	struct rebase_theirs *t = &x->theirs[x->n++];

	tree_of_state(&before, x->now);
	after = before;
	after.next_id = 1000 * x->n;
	after.clock = 1000 * (int64_t)x->n;
	after.lazy = x->lazy;
	tree_do(&after, what);
	*t = (struct rebase_theirs){.run = tree_diff(&before, &after), .slot = (unsigned)x->n};
	commit(&x->now, t->run);
}

static int merge(struct merging *x, bool nameless)
{
	struct rebase r = {.was = x->was, .now = x->now, .theirs = x->theirs, .theirs_n = x->n, .new_id = new_id,
			   .parent = nameless ? knows_no_parent : parent,
			   .named = nameless ? knows_no_name : named, .arg = &x->ours_tree};

	return rebase(&r, x->ours, &x->out, &x->f);
}

static void merging_ours(struct merging *x, const char *what)
{
	x->ours_tree = x->was_tree;
	x->ours_tree.next_id = 5000;
	x->ours_tree.clock = 5000;
	x->ours_tree.lazy = x->lazy;
	tree_do(&x->ours_tree, what);
	x->ours = tree_diff(&x->was_tree, &x->ours_tree);
}

static void merging_out(struct merging *x, bool nameless)
{
	if (merge(x, nameless) != 0)
		fail_msg("%s", x->f.text);
	x->next = tree_commit(x->now, x->out);
	tree_of_state(&x->out_tree, x->next);
}

static void merging_end(struct merging *x)
{
	for (size_t i = 0; i < x->n; i++)
		run_unref(x->theirs[i].run);
	run_unref(x->ours);
	run_unref(x->out);
	state_unref(x->was);
	state_unref(x->now);
	state_unref(x->next);
}

struct how {
	bool nameless; /* the mount does not know where anything is */
	bool lazy;     /* fewer records are put: see struct tree */
};

static void check_case(const struct merge_case *c, const struct how *how)
{
	static struct merging x;
	char text[4096];
	const char *why;

	merging_start(&x, c->was);
	x.lazy = how->lazy;
	for (size_t i = 0; i < THEIRS; i++)
		if (c->theirs[i])
			merging_theirs(&x, c->theirs[i]);
	merging_ours(&x, c->ours);
	merging_out(&x, how->nameless);
	why = tree_fault(&x.out_tree);
	tree_show(&x.out_tree, text, sizeof(text));
	if (why || strcmp(text, c->out) != 0)
		fail_msg("was: %s\n  theirs: %s, %s\n  ours: %s\n  came to: %s\n  wanted:  %s\n  %s", c->was, c->theirs[0],
			 c->theirs[1] ? c->theirs[1] : "", c->ours, text, c->out, why ? why : "");
	merging_end(&x);
}

#define check_cases(cases) \
	for (size_t i_ = 0; i_ < sizeof(cases) / sizeof(*(cases)); i_++) \
	check_case(&(cases)[i_], &(struct how){.lazy = false})

/* ---- cases ---- */

/* 247 bytes. */
#define LONG_NAME \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
	"01234567890123456789012345678901234567890123456"

static void one_name_given_by_both(void **state)
{
	static const struct merge_case cases[] = {
		{"", {"write a 1"}, "write b 2", "a=1 b=2"},
		{"", {"write a 1"}, "write a 2", "a=2 a~slot1=1"},
		{"", {"write a 1"}, "write a 1", "a=1"},
		{"", {"write a 1", "write b 1"}, "write a 2; write b 2", "a=2 a~slot1=1 b=2 b~slot2=1"},
		{"", {"write a 1", "rm a; write a 3"}, "write a 2", "a=2 a~slot2=3"},
		{"", {"symlink l 1"}, "symlink l 1", "l->1"},
		{"", {"symlink l 1"}, "symlink l 2", "l->2 l~slot1->1"},
		{"", {"symlink l 1"}, "write l 1", "l=1 l~slot1->1"},
		{"", {"mkdir d; write d/a 1"}, "mkdir d; write d/b 2", "d/a=1 d/b=2"},
		{"", {"mkdir d; mkdir d/e; write d/e/a 1"}, "mkdir d; mkdir d/e; write d/e/a 2", "d/e/a=2 d/e/a~slot1=1"},
		{"", {"mkdir d; write d/a 1"}, "write d 2", "d=2 d~slot1/a=1"},
		{"", {"write d 1"}, "mkdir d; write d/a 2", "d/a=2 d~slot1=1"},
		/* each has put something else in the place of what was there */
		{"write a 1", {"write t 2; mv t a"}, "write t 3; mv t a", "a=3 a~slot1=2"},
		{"write a 1", {"write t 2; mv t a"}, "write t 2; mv t a", "a=2"},
		{"mkdir d; mkdir e", {"mv d x; write x/a 1"}, "mv e x; write x/b 2", "x/b=2 x~slot1/a=1"},
		/* an earlier one is replaced, but not what somebody has just put there */
		{"write a~slot1 7", {"write a 1"}, "write a 2", "a=2 a~slot1=1"},
		{"write a~slot1 7", {"write a 1"}, "write a 2; write a~slot1 8", "a=2 a~slot1.1=1 a~slot1=8"},
		{"", {"write a 1; write a~slot1 7"}, "write a 2", "a=2 a~slot1.1=1 a~slot1=7"},
		{"mkdir a~slot1; write a~slot1/x 7", {"write a 1"}, "write a 2", "a=2 a~slot1.1=1 a~slot1/x=7"},
		/* what is cut is no character in its middle */
		{"", {"write " LONG_NAME "abcdefgh 1"}, "write " LONG_NAME "abcdefgh 2", LONG_NAME "abcdefgh=2 " LONG_NAME "ab~slot1=1"},
		{"", {"write " LONG_NAME "a\xc3\xa4" "defgh 1"}, "write " LONG_NAME "a\xc3\xa4" "defgh 2",
		 LONG_NAME "a~slot1=1 " LONG_NAME "a\xc3\xa4" "defgh=2"},
	};

	check_cases(cases);
}

static void a_removal_loses_against_a_change(void **state)
{
	static const struct merge_case cases[] = {
		{"write a 1", {"rm a"}, "rm a", ""},
		{"write a 1", {"rm a"}, "chmod a 600", ""},
		{"write a 1", {"chmod a 600"}, "rm a", ""},
		{"write a 1", {"rm a"}, "write a 2", "a=2"},
		{"write a 1", {"write a 2"}, "rm a", "a=2"},
		{"write a 1", {"rm a; write a 2"}, "rm a", "a=2"},
		{"write a 1", {"rm a"}, "rm a; write a 2", "a=2"},
		{"write a 1; write b 2", {"rm a; ln b a"}, "rm a", "a=2 b=2"},
		{"write a 1", {"mv a b"}, "rm a", "b=1"},
		{"write a 1", {"rm a"}, "mv a b", "b=1"},
		{"write a 1", {"rm a; write a 2"}, "mv a b", "a=2 b=1"},
		{"write a 1", {"write a 2"}, "write t 3; mv t a", "a=3 a~slot1=2"},
		{"write a 1", {"write t 2; mv t a"}, "write a 3", "a=3 a~slot1=2"},
		{"write a 1", {"write a 2"}, "write t 2; mv t a", "a=2"},
		{"write a 1; ln a b", {"rm a; rm b"}, "write a 2", "a=2 b=2"},
		{"write a 1; ln a b", {"rm a; rm b"}, "write b 2; write t 9; mv t a", "a=9 b=2"},
		{"write a 1; ln a b", {"rm a"}, "rm b", "b=1"},
		{"write a 1; ln a b", {"write a 2"}, "write t 3; mv t a", "a=3 b=2"},
		{"write a 1; ln a b", {"write a 2"}, "rm a; rm b", "a=2 b=2"},
		{"write a 1", {"ln a b"}, "rm a", "b=1"},
		{"write a 1", {"rm a"}, "ln a b", "b=1"},
	};

	check_cases(cases);
}

static void a_directory_that_gained_something_stays(void **state)
{
	static const struct merge_case cases[] = {
		{"mkdir d", {"write d/a 1"}, "rm d", "d/a=1"},
		{"mkdir d", {"rm d"}, "write d/a 1", "d/a=1"},
		{"mkdir d; mkdir d/e; write d/e/x 1; write d/y 2", {"rm d"}, "write d/e/a 3", "d/e/a=3"},
		{"mkdir d; mkdir d/e; write d/e/x 1; write d/y 2", {"write d/e/a 3"}, "rm d", "d/e/a=3"},
		{"mkdir d; write d/x 1", {"rm d"}, "write d/x 2", "d/x=2"},
		{"mkdir d; write d/x 1", {"write d/x 2"}, "rm d", "d/x=2"},
		{"mkdir d; chmod d 700", {"rm d"}, "chmod d 711; write d/a 1", "d/[711] d/a=1"},
		{"mkdir d; chmod d 700", {"rm d"}, "mkdir d/e", "d/[700] d/e/"},
		{"mkdir d", {"rm d"}, "chmod d 700", ""},
		/* something else is in its place */
		{"mkdir d", {"rm d; write d 1"}, "write d/a 2", "d/a=2 d~slot1=1"},
		{"mkdir d", {"write d/a 1"}, "rm d; write d 2", "d=2 d~slot1/a=1"},
		{"mkdir d; mkdir e", {"write e/a 1"}, "mv d e", "e/ e~slot1/a=1"},
		/* moved */
		{"mkdir d; mkdir e", {"mv d e/d"}, "write d/a 1", "e/d/a=1"},
		{"mkdir d; mkdir e", {"mv d e/d"}, "rm d; rm e", "e/d/"},
		{"mkdir d; mkdir e", {"rm e"}, "mv d e/d", "e/d/"},
		{"mkdir d; write d/x 1", {"rm d"}, "mv d e", "e/"},
		{"mkdir d; write d/x 1", {"mv d/x y; rm d"}, "mv d e", "e/ y=1"},
	};

	check_cases(cases);
}

static void one_thing_renamed_twice_has_one_name(void **state)
{
	static const struct merge_case cases[] = {
		{"write a 1", {"mv a b"}, "mv a c", "c=1"},
		{"write a 1", {"mv a b"}, "mv a b", "b=1"},
		{"mkdir d; write d/x 1", {"mv d e; write e/y 2"}, "mv d f; write f/z 3", "f/x=1 f/y=2 f/z=3"},
		{"", {"mkdir d; mv d e; write e/a 1"}, "mkdir d; write d/b 2", "e/a=1 e/b=2"},
		{"", {"mkdir d; write d/a 1"}, "mkdir d; mv d e; write e/b 2", "d/a=1 d/b=2"},
		{"", {"mkdir d; mv d e; write d 1"}, "mkdir d; write d/b 2", "d=1 e/b=2"},
		{"write a 1", {"ln a b"}, "ln a c", "a=1 b=1 c=1"},
		{"write a 1", {"ln a b"}, "mv a c", "b=1 c=1"},
		{"write a 1; ln a b", {"mv a c"}, "mv b d", "c=1 d=1"},
		{"write a 1; write b 2", {"mv b k"}, "mv a k; mv b c", "c=2 k=1"},
		{"write a 1; write b 2", {"mv a t; mv b a; mv t b"}, "chmod a 600", "a=2 b=1[600]"},
	};

	check_cases(cases);
}

static void no_directory_comes_to_lie_in_itself(void **state)
{
	static const struct merge_case cases[] = {
		{"mkdir a; mkdir b", {"mv a b/a"}, "mv b a/b", "b/a/"},
		{"mkdir a; mkdir b; mkdir b/c", {"mv a b/c/a"}, "mv b a/b", "b/c/a/"},
		{"mkdir a; mkdir b; mkdir c", {"mv b c/b"}, "mv c a/c; mv a b/a", "c/b/a/"},
		/* under a name that they gave it */
		{"mkdir a; mkdir b", {"mv a b/a; mv b c"}, "mv b a/b", "c/a/"},
		/* what was replaced by the move is back */
		{"mkdir a; mkdir b; mkdir a/e", {"mv a b/a"}, "mv b a/e", "b/a/e/"},
		/* what they have there has gone beside it already */
		{"mkdir a; mkdir b", {"mkdir b/k; mv b a/b"}, "mv a b/k", "a/b/k~slot1/"},
		/* in one that both have made */
		{"mkdir a; mkdir c", {"mkdir c/d; mv c/d a/b"}, "mkdir c/d; mv a c/d/a", "a/b/ c/"},
		/* in a directory that only we have */
		{"mkdir a; mkdir b", {"mv a b/a"}, "mkdir a/n; mv b a/n/b", "b/a/n/"},
		/* in one that they removed */
		{"mkdir p; mkdir p/d; mkdir q", {"rm p/d; mv p q/p"}, "mv q p/d/q", "q/p/d/"},
	};

	check_cases(cases);
}

static void a_file_changed_by_both_is_two(void **state)
{
	static const struct merge_case cases[] = {
		{"write a 1", {"write a 2"}, "write a 3", "a=3 a~slot1=2"},
		{"write a 1", {"write a 2"}, "write a 2", "a=2"},
		{"write a 1", {"write a 2", "write a 3"}, "write a 4", "a=4 a~slot2=3"},
		{"write a 1", {"write a 2; mv a b"}, "write a 3", "b=3 b~slot1=2"},
		{"write a 1", {"write a 2"}, "write a 3; mv a b", "b=3 b~slot1=2"},
		{"write a 1; ln a b", {"write a 2; rm a"}, "write a 3; rm b", "b=3 b~slot1=2"},
		{"mkdir d; write d/a 1", {"write d/a 2"}, "write d/a 3", "d/a=3 d/a~slot1=2"},
		{"write a 1", {"write a 2; mv a b"}, "write a 3; write b 3", "b=3 b~slot1=3 b~slot1~slot1=2"},
		/* several segments, that grow and shrink */
		{"write a 1", {"write a 3000"}, "write a 2", "a=2 a~slot1=3000"},
		{"write a 1", {"write a 2"}, "write a 3000", "a=3000 a~slot1=2"},
		{"write a 2500", {"write a 3000"}, "write a 1024", "a=1024 a~slot1=3000"},
		{"write a 3000", {"rm a"}, "write a 2000", "a=2000"},
		{"write a 1", {"write a 3000"}, "rm a", "a=3000"},
		{"write a 3000", {"chmod a 600"}, "write t 1; mv t a", "a=1"},
	};

	check_cases(cases);
}

static void what_the_mount_does_not_know_is_looked_for(void **state)
{
	static const struct merge_case cases[] = {
		{"mkdir d; write d/a 1", {"write d/a 2"}, "write d/a 3", "d/a=3 d/a~slot1=2"},
		{"write a 1; ln a b", {"write a 2"}, "write a 3; rm a", "b=3 b~slot1=2"},
		/* not in the directory that it was made in */
		{"mkdir d; write d/a 1; mv d/a b", {"write b 2"}, "write b 3", "b=3 b~slot1=2 d/"},
		{"mkdir a; mkdir a/z; mkdir p", {"mv p a/z/p"}, "mv a p/a", "a/z/p/"},
		{"mkdir z; mkdir a; mv z a/y; mkdir p", {"mv p a/y/p"}, "mv a p/a", "a/y/p/"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_case(&cases[i], &(struct how){.nameless = true});
}

static void attributes_are_the_later_ones(void **state)
{
	static const struct merge_case cases[] = {
		{"write a 1", {"chmod a 600"}, "write a 2", "a=2[600]"},
		{"write a 1", {"write a 2"}, "chmod a 600", "a=2[600]"},
		{"write a 1", {"chmod a 600"}, "chmod a 640", "a=1[640]"},
		{"write a 1", {"ln a b"}, "chmod a 600", "a=1[600] b=1[600]"},
		{"write a 1", {"write a 3000"}, "chmod a 600", "a=3000[600]"},
		{"mkdir d", {"chmod d 700"}, "write d/a 1", "d/[700] d/a=1"},
		{"mkdir d", {"chmod d 700"}, "chmod d 711", "d/[711]"},
	};

	check_cases(cases);
}

/* ---- the run itself ---- */

static void what_does_not_meet_is_left_as_it_is(void **state)
{
	static const struct {
		const char *was, *theirs, *ours;
	} cases[] = {
		{"mkdir d; mkdir e", "write d/a 1", "write e/b 2"},
		{"mkdir d; mkdir e; write d/a 1; write e/b 1", "rm d/a", "write e/b 2; chmod e/b 600"},
		{"mkdir d; mkdir e; write d/a 1; write e/b 1", "mv d/a d/c", "ln e/b e/c; rm e/b"},
		{"mkdir d; mkdir e", "mkdir d/n; write d/n/a 1", "write e/b 1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static struct merging x;

		merging_start(&x, cases[i].was);
		merging_theirs(&x, cases[i].theirs);
		merging_ours(&x, cases[i].ours);
		merging_out(&x, false);
		assert_ptr_equal(x.out, x.ours);
		merging_end(&x);
	}
}

static void what_meets_only_in_the_tree_is_seen(void **state)
{
	static const struct merge_case cases[] = {
		{"mkdir p; mkdir q; mkdir p/a; mkdir q/b", {"mv q/b p/a/b"}, "mv p/a q/b/a", "p/a/b/ q/"},
		{"mkdir d; mkdir d/e", {"rm d/e"}, "write d/e/a 1", "d/e/a=1"},
		{"mkdir d; mkdir d/e", {"write d/e/a 1"}, "rm d/e", "d/e/a=1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_case(&cases[i], &(struct how){.lazy = true});
}

static void times_of_a_directory_that_both_changed_are_the_later_ones(void **state)
{
	static struct merging x;

	merging_start(&x, "mkdir d");
	merging_theirs(&x, "write d/a 1");
	merging_ours(&x, "write d/b 1");
	merging_out(&x, false);
	assert_int_equal(tree_node(&x.out_tree, tree_name(&x.out_tree, ROOT_ID, "d")->id)->mtime, 5002);
	merging_end(&x);
	merging_start(&x, "write d 1");
	merging_theirs(&x, "write d 2");
	merging_ours(&x, "chmod d 600");
	merging_out(&x, false);
	assert_int_equal(tree_node(&x.out_tree, tree_name(&x.out_tree, ROOT_ID, "d")->id)->mtime, 1001);
	merging_end(&x);
}

static void a_run_that_does_not_decode_is_refused(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	static struct merging x;
	uint8_t key[RUN_KEY_MAX];

	merging_start(&x, "");
	merging_theirs(&x, "write a 1");
	assert_int_equal(run_builder_add(b, key, key_of_name(ROOT_ID, "a", 1, key), "what", 4), 0);
	assert_int_equal(run_builder_finish(b, &x.ours), 0);
	assert_int_equal(merge(&x, false), -EBADMSG);
	assert_null(x.out);
	assert_string_not_equal(x.f.text, "");
	merging_end(&x);
}

/* With the n-th allocation failing, for every n; that nothing leaks is the sanitizer's to say. */
static void without_memory_it_fails_and_can_be_tried_again(void **state)
{
	static struct merging x;
	char text[256];
	size_t failed = 0;
	int rc = -ENOMEM;

	merging_start(&x, "mkdir d; mkdir d/e; write d/e/a 1; write b 1; mkdir p; mkdir q");
	merging_theirs(&x, "rm d; write b 2; mv p q/p; write f 1");
	merging_ours(&x, "write d/e/a 2; write b 3; mv q p/q; write f 2");
	for (long n = 1; rc == -ENOMEM; n++) {
		allocations_left = n;
		rc = merge(&x, false);
		allocations_left = -1;
		failed += rc == -ENOMEM;
		assert_true(rc == 0 || x.f.code == -ENOMEM);
	}
	assert_int_equal(rc, 0);
	assert_true(failed > 50);
	x.next = tree_commit(x.now, x.out);
	tree_of_state(&x.out_tree, x.next);
	tree_show(&x.out_tree, text, sizeof(text));
	assert_string_equal(text, "b=3 b~slot1=2 d/e/a=2 f=2 f~slot1=1 q/p/");
	merging_end(&x);
}

/* ---- what memory is told ---- */

static bool tells(const struct run *keys, uint64_t dir, const char *name)
{
	uint8_t key[RUN_KEY_MAX];
	struct run_item item;

	return run_find(keys, key, key_of_name(dir, name, strlen(name), key), &item) && !item.value;
}

static void memory_is_told_what_it_does_not_have(void **state)
{
	scoped(run_unref) struct run *keys = NULL, *without = NULL;
	static struct merging x;

	merging_start(&x, "write gone 1; write changed 1");
	merging_theirs(&x, "write a 1; write theirs 2; mkdir d; write changed 2");
	merging_ours(&x, "write a 2; write ours 3; mkdir d; rm gone; rm changed");
	merging_out(&x, false);
	assert_int_equal(rebase_keys(x.theirs, x.n, x.ours, x.out, &keys), 0);
	assert_true(tells(keys, ROOT_ID, "theirs"));
	assert_true(tells(keys, ROOT_ID, "a~slot1"));
	assert_true(tells(keys, ROOT_ID, "changed")); /* we removed it, and nobody but us says a word of the name */
	assert_false(tells(keys, ROOT_ID, "ours"));
	assert_false(tells(keys, ROOT_ID, "gone"));
	assert_false(tells(keys, ROOT_ID, "a")); /* ours won */
	assert_false(tells(keys, ROOT_ID, "d")); /* the same on both sides */
	/* nothing of ours */
	assert_int_equal(rebase_keys(x.theirs, x.n, NULL, NULL, &without), 0);
	assert_int_equal(run_count(without), run_count(x.theirs[0].run));
	merging_end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_name_given_by_both),
		cmocka_unit_test(a_removal_loses_against_a_change),
		cmocka_unit_test(a_directory_that_gained_something_stays),
		cmocka_unit_test(one_thing_renamed_twice_has_one_name),
		cmocka_unit_test(no_directory_comes_to_lie_in_itself),
		cmocka_unit_test(a_file_changed_by_both_is_two),
		cmocka_unit_test(what_the_mount_does_not_know_is_looked_for),
		cmocka_unit_test(attributes_are_the_later_ones),
		cmocka_unit_test(what_does_not_meet_is_left_as_it_is),
		cmocka_unit_test(what_meets_only_in_the_tree_is_seen),
		cmocka_unit_test(times_of_a_directory_that_both_changed_are_the_later_ones),
		cmocka_unit_test(a_run_that_does_not_decode_is_refused),
		cmocka_unit_test(without_memory_it_fails_and_can_be_tried_again),
		cmocka_unit_test(memory_is_told_what_it_does_not_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
