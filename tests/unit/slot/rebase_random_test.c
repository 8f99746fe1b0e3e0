/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random changes of three slots to one small tree, each made without knowledge of the others', committed one
 * after the other: the tree stays whole, and nothing that one of them wrote is lost to another who did not
 * know of it.
 *
 * SEED=N plays that history alone; HISTORIES=N as many, from there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/slot/rebase.h"
#include "tests/unit/slot/tree.h"
#include "tests/unit/store/helpers.h"

#define HISTORIES 400
#define ROUNDS    6
#define SLOTS     3

struct history {
	uint64_t seed, random;
	uint64_t next_id, content;
	int64_t clock;
	bool forgets; /* the mount does not know where things are */
	struct tree *mount; /* whose run is being rebased */
	char script[4096];  /* what was done in this round */
	size_t len;
};

static uint64_t below(struct history *h, uint64_t n)
{
	return random_below(&h->random, n);
}

__attribute__((format(printf, 2, 3))) static void said(struct history *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (h->len < sizeof(h->script))
		h->len += (size_t)vsnprintf(h->script + h->len, sizeof(h->script) - h->len, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 2, 3))) static void lost(struct history *h, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_error("%s", h->script);
	fail_msg("seed %lu: %s", h->seed, text);
}

/* ---- what a slot does ---- */

static const char *random_name(struct history *h)
{
	static const char *const names[] = {"a", "b", "c", "d"};

	return names[below(h, 4)];
}

static uint64_t random_dir(struct history *h, struct tree *t)
{
	uint64_t ids[TREE_MOST];
	size_t n = 0;

	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->nodes[i].id && S_ISDIR(t->nodes[i].mode))
			ids[n++] = t->nodes[i].id;
	return ids[below(h, n)];
}

static const struct tree_name *random_entry(struct history *h, struct tree *t)
{
	const struct tree_name *all[TREE_MOST];
	size_t n = 0;

	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->names[i].id)
			all[n++] = &t->names[i];
	return n ? all[below(h, n)] : NULL;
}

/* New, but for what somebody has just written too; now and then of several segments. */
static uint64_t random_content(struct history *h)
{
	if (below(h, 6) > 0)
		h->content++;
	return below(h, 40) == 0 ? 1000 + 20 * h->content : h->content;
}

static void show(struct history *h, struct tree *t, const char *what)
{
	char text[2048];

	tree_show(t, text, sizeof(text));
	said(h, "%s: %s\n", what, text);
}

static void act(struct history *h, struct tree *t)
{
	const struct tree_name *e = random_entry(h, t);
	uint64_t dir = random_dir(h, t), from_dir, id;
	const char *to = random_name(h);
	char from[NAME_MAX_BYTES + 1];
	bool done;

	if (!e || below(h, 5) == 0) {
		done = below(h, 2) ? tree_mkdir(t, dir, to) : tree_write(t, dir, to, random_content(h));
		said(h, "  make %lx/%s %d\n", dir, to, done);
		return;
	}
	from_dir = e->dir;
	id = e->id;
	(void)snprintf(from, sizeof(from), "%s", e->text);
	switch (below(h, 8)) {
	case 0:
	case 1:
		done = tree_write(t, from_dir, from, random_content(h));
		said(h, "  write %lx/%s %d\n", from_dir, from, done);
		return;
	case 2:
	case 3:
		done = tree_remove(t, from_dir, from);
		said(h, "  rm %lx/%s %d\n", from_dir, from, done);
		return;
	case 4:
		done = tree_link(t, id, dir, to);
		said(h, "  ln %lx/%s %lx/%s %d\n", from_dir, from, dir, to, done);
		return;
	case 5:
		done = tree_chmod(t, id, below(h, 2) ? 0700 : 0755);
		return;
	default:
		done = tree_rename(t, from_dir, from, dir, to);
		said(h, "  mv %lx/%s %lx/%s %d\n", from_dir, from, dir, to, done);
	}
}

/* ---- the mount's side of a rebase ---- */

static uint64_t new_id(void *arg)
{
	struct history *h = arg;

	return h->next_id++;
}

/* Sometimes it does not know, or knows better than what was committed. */
static uint64_t parent(void *arg, uint64_t dir)
{
	struct history *h = arg;
	const struct tree_name *n = tree_named(h->mount, dir);

	if (h->forgets)
		return below(h, 2) ? ROOT_ID : 0;
	return n ? n->dir : 0;
}

static bool named(void *arg, uint64_t id, uint64_t *dir, char *name)
{
	struct history *h = arg;
	const struct tree_name *n = h->forgets ? NULL : tree_named(h->mount, id);

	if (!n)
		return false;
	*dir = n->dir;
	memcpy(name, n->text, sizeof(n->text));
	return true;
}

/* ---- what is right ---- */

static bool holds(struct tree *t, uint64_t content)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->nodes[i].id && S_ISREG(t->nodes[i].mode) && t->nodes[i].content == content)
			return true;
	return false;
}

/* An earlier conflict's file may be replaced by a later one's. */
static bool is_aside(struct tree *t, uint64_t id)
{
	for (size_t i = 0; i < TREE_MOST; i++)
		if (t->names[i].id == id && strstr(t->names[i].text, "~slot"))
			return true;
	return false;
}

static bool has(struct tree *t, const struct tree_node *n)
{
	const struct tree_node *has = tree_node(t, n->id);

	return has && has->content == n->content;
}

static void check_written(struct history *h, struct tree *was, struct tree *by, struct tree *out, const char *who)
{
	for (size_t i = 0; i < TREE_MOST; i++) {
		const struct tree_node *n = &by->nodes[i];

		if (n->id && S_ISREG(n->mode) && !has(was, n) && !holds(out, n->content))
			lost(h, "content %lu of %s is lost", n->content, who);
	}
}

static void check_kept(struct history *h, struct tree *was, struct tree *ours, struct tree *now, struct tree *out)
{
	for (size_t i = 0; i < TREE_MOST; i++) {
		const struct tree_node *n = &was->nodes[i];

		if (!n->id || !S_ISREG(n->mode) || is_aside(was, n->id))
			continue;
		if (has(ours, n) && has(now, n) && !holds(out, n->content))
			lost(h, "content %lu was removed by nobody", n->content);
	}
}

struct differing {
	struct history *h;
	struct state *other;
	struct run *keys;
};

static int each_memory_item(void *arg, const struct run_item *item)
{
	struct differing *d = arg;
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	struct run_item told;
	int rc = state_find(d->other, NULL, item->key, item->key_len, &value, NULL);

	if (rc == 0 && value.len == item->value_len && memcmp(value.data, item->value, value.len) == 0)
		return 0;
	if (!run_find(d->keys, item->key, item->key_len, &told))
		lost(d->h, "memory is not told of a key of %zu bytes in %lx", item->key_len, key_number(item->key, 0));
	return 0;
}

/* What memory has made of the base, and what is there: all that differs is told of. */
static void check_keys(struct history *h, const struct rebase *r, struct run *ours, struct run *out,
		       struct state *now)
{
	scoped(state_unref) struct state *memory = tree_commit(r->was, ours);
	scoped(run_unref) struct run *keys = NULL;
	struct differing d = {.h = h};

	assert_int_equal(rebase_keys(r->theirs, r->theirs_n, ours, out, &keys), 0);
	d.keys = keys;
	d.other = now;
	assert_int_equal(state_walk(memory, NULL, "", 0, each_memory_item, &d, NULL), 0);
	d.other = memory;
	assert_int_equal(state_walk(now, NULL, "", 0, each_memory_item, &d, NULL), 0);
}

/* ---- a round ---- */

struct round {
	struct tree was;
	struct tree trees[SLOTS]; /* what each has made of it */
	struct state *base, *now;
	struct rebase_theirs theirs[SLOTS];
	size_t n;
};

static struct run *rebased(struct history *h, struct round *x, struct run *ours, size_t slot)
{
	struct fault f = FAULT_NONE;
	struct rebase r = {.was = x->base, .now = x->now, .theirs = x->theirs, .theirs_n = x->n,
			   .new_id = new_id, .parent = parent, .named = named, .arg = h};
	static struct tree before, after;
	scoped(state_unref) struct state *next = NULL;
	struct run *out = NULL;
	const char *why;

	h->mount = &x->trees[slot];
	h->forgets = below(h, 2);
	if (rebase(&r, ours, &out, &f) != 0)
		lost(h, "rebase: %s", f.text);
	next = tree_commit(x->now, out);
	tree_of_state(&before, x->now);
	tree_of_state(&after, next);
	why = tree_fault(&after);
	if (why)
		lost(h, "%s", why);
	show(h, &after, "came to");
	check_written(h, &x->was, &x->trees[slot], &after, "ours");
	check_written(h, &x->was, &before, &after, "theirs");
	check_kept(h, &x->was, &x->trees[slot], &before, &after);
	check_keys(h, &r, ours, out, next);
	return out;
}

/* One slot's changes to what it saw, over what the others have committed meanwhile. */
static void change(struct history *h, struct round *x, size_t slot)
{
	struct tree *t = &x->trees[slot];
	scoped(run_unref) struct run *ours = NULL;
	struct state *next;

	*t = x->was;
	t->next_id = h->next_id;
	t->clock = h->clock;
	t->lazy = below(h, 4) == 0;
	said(h, "slot %zu\n", slot);
	for (uint64_t n = 1 + below(h, 6); n > 0; n--)
		act(h, t);
	show(h, t, "wants");
	h->next_id = t->next_id;
	h->clock = t->clock;
	ours = tree_diff(&x->was, t);
	x->theirs[x->n] = (struct rebase_theirs){.run = rebased(h, x, ours, slot), .slot = (unsigned)slot};
	next = tree_commit(x->now, x->theirs[x->n++].run);
	state_unref(x->now);
	x->now = next;
}

static struct state *play_round(struct history *h, struct state *base)
{
	static struct round x;

	x = (struct round){.base = base, .now = state_ref(base)};
	tree_of_state(&x.was, base);
	h->len = 0;
	show(h, &x.was, "was");
	for (size_t slot = 0; slot < SLOTS; slot++)
		change(h, &x, slot);
	for (size_t i = 0; i < x.n; i++)
		run_unref(x.theirs[i].run);
	state_unref(base);
	return x.now;
}

static struct state *first_state(void)
{
	scoped(state_unref) struct state *none = tree_empty_state();
	scoped(run_unref) struct run *run = NULL;
	static struct tree nothing, root;

	tree_init(&root);
	run = tree_diff(&nothing, &root);
	return tree_commit(none, run);
}

static void three_slots_lose_nothing_and_break_nothing(void **state)
{
	const char *only = getenv("SEED"), *many = getenv("HISTORIES");
	uint64_t from = only ? strtoull(only, NULL, 10) : 1;
	uint64_t n = many ? strtoull(many, NULL, 10) : only ? 1 : HISTORIES;

	for (uint64_t seed = from; seed < from + n; seed++) {
		struct history h = {.seed = seed, .random = seed, .next_id = 100};
		struct state *s = first_state();

		for (size_t round = 0; round < ROUNDS; round++)
			s = play_round(&h, s);
		state_unref(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_slots_lose_nothing_and_break_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
