/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random trainers against the good moment.  Each saves sets of one shape, pauses inside them,
 * keeps a few, deletes before or after it saves, writes other files beside them, and crashes.
 * What is right is told by the history of the files, not by the rules of vouch().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "machine.h"

#define RUNS 60
#define SETS 12

/* Three with names of their own and three shards; saved from a random one on, all around. */
static const char *const shape[] = {
	"config.json", "model.pt", "optimizer.pt", "shard-0.bin", "shard-1.bin", "shard-2.bin",
};
enum { FILES = sizeof(shape) / sizeof(shape[0]) };

struct trainer {
	struct machine m;
	uint64_t seed, random;
	double now_s;
	size_t first_file, keep;
	bool delete_first;
	size_t sets, oldest; /* made; the oldest that is still there */
	double saved_s[SETS][FILES];
	/* as of the good moment before */
	size_t had[SETS];
	bool had_dir[SETS];
	double last_loss_s; /* of a set that was whole in the good moment */
};

static uint64_t below(struct trainer *t, uint64_t limit)
{
	t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (t->random >> 33) % limit;
}

static double clock_s(const struct trainer *t)
{
	return (double)t->m.now_ns / 1e9 - 10000;
}

static void act(struct trainer *t, enum op op, const char *path, uint64_t size)
{
	machine_do(&t->m, &(struct event){.at_s = t->now_s, .op = op, .a = path, .size = size});
}

/* Mostly in a hurry, now and then for longer than settle, never for longer than shard_wait. */
static void pause_a_while(struct trainer *t)
{
	t->now_s += below(t, 3) ? (double)below(t, 8) / 4 : (double)below(t, 100);
}

/* ---- what is right ---- */

static size_t members(const struct trainer *t, size_t set, bool *names_missing)
{
	char path[64];
	size_t have = 0;

	*names_missing = false;
	for (size_t k = 0; k < FILES; k++) {
		(void)snprintf(path, sizeof(path), "step-%zu/%s", set, shape[k]);
		if (moment_find(&t->m.good, path))
			have++;
		else if (strncmp(shape[k], "shard", 5) != 0)
			*names_missing = true;
	}
	return have;
}

static bool has_dir(const struct trainer *t, size_t set)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "step-%zu", set);
	return moment_find(&t->m.good, path);
}

/* Was one of the newest two sets of the good moment before whole?  Then its shape is known. */
static bool shape_was_known(const struct trainer *t, size_t set)
{
	size_t seen = 0;

	for (size_t k = t->sets; k-- > 0 && seen < 2;) {
		if (k == set || t->had[k] == 0)
			continue;
		if (t->had[k] == FILES)
			return true;
		seen++;
	}
	return false;
}

static double last_saved_s(const struct trainer *t, size_t set)
{
	double last_s = 0, frozen_s = (double)t->m.good.frozen_ns / 1e9 - 10000;

	for (size_t k = 0; k < FILES; k++)
		if (t->saved_s[set][k] <= frozen_s && t->saved_s[set][k] > last_s)
			last_s = t->saved_s[set][k];
	return last_s;
}

static bool a_set_is_whole(const struct trainer *t)
{
	bool names_missing;

	for (size_t k = 0; k < t->sets; k++)
		if (members(t, k, &names_missing) == FILES)
			return true;
	return false;
}

static void check_set(struct trainer *t, size_t set)
{
	bool names_missing;
	size_t have = members(t, set, &names_missing);
	/* all shards missing is a name missing */
	bool shards_only = !names_missing && have > 3 && a_set_is_whole(t);
	double idle_s = clock_s(t) - last_saved_s(t, set);

	if (!has_dir(t, set) || have == FILES || !shape_was_known(t, set))
		return;
	/* it was vouched for before, as it is or with some of its files */
	if (t->had[set] > 0 || (t->had_dir[set] && have == 0))
		return;
	if (idle_s < (shards_only ? 120 : 600))
		machine_fault(&t->m, "%zu of %d files of step-%zu, %.2f s after the last", have,
			      FILES, set, idle_s);
}

static void check_good_moment(struct machine *m)
{
	struct trainer *t = m->user;
	bool names_missing, was_whole = false;

	for (size_t k = 0; k < t->sets; k++) {
		check_set(t, k);
		was_whole |= t->had[k] == FILES;
	}
	/* P8 */
	if (was_whole && !a_set_is_whole(t) && clock_s(t) - t->last_loss_s < 600)
		machine_fault(m, "no whole set is left, %.2f s after the last was deleted",
			      clock_s(t) - t->last_loss_s);
	for (size_t k = 0; k < t->sets; k++) {
		t->had[k] = members(t, k, &names_missing);
		t->had_dir[k] = has_dir(t, k);
	}
}

/* ---- what a trainer does ---- */

static void delete_oldest(struct trainer *t)
{
	char path[64];

	while (t->sets - t->oldest > t->keep - t->delete_first) {
		(void)snprintf(path, sizeof(path), "step-%zu", t->oldest);
		act(t, RMTREE, path, 0);
		if (t->had[t->oldest++] == FILES)
			t->last_loss_s = t->now_s;
		pause_a_while(t);
	}
}

/* The first `files` of a set. */
static void save_set(struct trainer *t, size_t files)
{
	size_t set = t->sets++;
	char path[64];

	(void)snprintf(path, sizeof(path), "step-%zu", set);
	act(t, MKDIR, path, 0);
	for (size_t k = 0; k < files; k++) {
		size_t file = (t->first_file + k) % FILES;

		pause_a_while(t);
		(void)snprintf(path, sizeof(path), "step-%zu/%s", set, shape[file]);
		act(t, OPEN, path, 0);
		t->now_s += (double)below(t, 8) / 4;
		act(t, WRITE, path, 1000);
		if (k + 1 < files || files == FILES) {
			act(t, CLOSE, path, 0);
			t->saved_s[set][file] = t->now_s;
		}
	}
	if (files == FILES)
		return;
	act(t, KILL, NULL, 0);
	/* the next trainer may start at once, or when all patience has ended */
	t->now_s += below(t, 2) ? 5 : 700;
}

static void write_other_files(struct trainer *t)
{
	for (uint64_t n = below(t, 4); n > 0; n--) {
		pause_a_while(t);
		act(t, APPEND, "train.log", 50);
		act(t, SAVE, "metrics.json", 60);
	}
}

static void train(struct trainer *t)
{
	while (t->sets < SETS) {
		size_t files = below(t, 5) ? FILES : 1 + below(t, FILES - 1);

		write_other_files(t);
		if (t->delete_first)
			delete_oldest(t);
		save_set(t, files);
		if (!t->delete_first && files == FILES)
			delete_oldest(t);
	}
}

static void trainer_init(struct trainer *t, uint64_t seed)
{
	*t = (struct trainer){.seed = seed, .random = seed};
	machine_init(&t->m);
	t->m.user = t;
	t->m.on_good = check_good_moment;
	t->first_file = below(t, FILES);
	t->keep = 1 + below(t, 3);
	t->delete_first = below(t, 2);
}

static void no_half_set_is_good_beside_a_whole_one(void **state)
{
	static struct trainer t;
	size_t moves = 0;

	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		trainer_init(&t, seed);
		train(&t);
		/* every objection ends by time */
		machine_wait(&t.m, t.now_s + 4000);
		if (t.m.good.number != t.m.newest.number)
			machine_fault(&t.m, "not good in the end: %s", t.m.why.text);
		moves += t.m.good_moves;
		machine_fini(&t.m);
		if (t.m.faults)
			fail_msg("seed %llu", (unsigned long long)seed);
	}
	/* a rule that never lets anything pass would pass the above */
	assert_true(moves > RUNS * SETS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_half_set_is_good_beside_a_whole_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
