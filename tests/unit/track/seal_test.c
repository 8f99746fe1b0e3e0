/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of cases for sealed(), is_log() and quiet_holds(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fs/track/seal.h"

#define S(seconds) ((uint64_t)(seconds) * NS_PER_S)

/* All cases write at second 1000 at the latest and look on at `now_s`. */
struct seal_case {
	const char *name;
	struct seal_facts facts;
	uint64_t now_s;
	bool sealed;
};

static const struct seal_case seal_cases[] = {
	{"never touched in this mount", {.last_write_ns = 0}, 1, true},
	{"written and still open",
	 {.last_write_ns = S(1000), .writers_open = 1, .first_writer_open_ns = S(990)},
	 1001, false},
	{"written, then closed by its writer",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000)}, 1000, true},
	{"closed, then written by another",
	 {.last_write_ns = S(1000), .clean_close_ns = S(999), .writers_open = 1}, 5000, false},
	{"one of two descriptors closed (numpy)",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1001), .writers_open = 1}, 1001, true},
	{"SQLite: open throughout, fdatasync after the last write",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .writers_open = 1,
	  .first_writer_open_ns = S(10)}, 1001, true},
	{"SQLite: written since its fdatasync",
	 {.last_write_ns = S(1000), .clean_close_ns = S(998), .writers_open = 1,
	  .first_writer_open_ns = S(10)}, 1001, false},
	{"writer killed in the middle",
	 {.last_write_ns = S(1000), .killed_ns = S(1001), .last_release_ns = S(1001)}, 90000, false},
	{"killed after it had synced all of it",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .killed_ns = S(1001)}, 1002, true},
	{"mapped, released, not yet still for 60 s",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .last_release_ns = S(990)},
	 1059, false},
	{"mapped, released, still for 60 s",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .last_release_ns = S(990)},
	 1060, true},
	{"mapped, still, the RELEASE came late",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .last_release_ns = S(1030)},
	 1061, false},
	{"mapped and still mapped, so still open",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .writers_open = 1}, 9000, false},
	{"mapped, its process killed",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .killed_ns = S(1001)}, 9000, false},
	{"mapped, then msync",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .clean_close_ns = S(1000),
	  .writers_open = 1}, 1001, true},
	{"a FLUSH of pid 0, 9 s ago",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .clean_close_is_pid0 = true},
	 1009, false},
	{"a FLUSH of pid 0, 10 s ago",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .clean_close_is_pid0 = true},
	 1010, true},
	{"closed, and torn by its header",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .torn = true}, 90000, false},
	{"torn, and synced as it is",
	 {.last_write_ns = S(1000), .clean_close_ns = S(1000), .torn = true,
	  .clean_close_is_sync = true}, 1000, true},
	{"mapped, still for long, and torn",
	 {.last_write_ns = S(1000), .last_write_unknown = true, .torn = true}, 9000, false},
	{"a FLUSH of pid 0 before the last write",
	 {.last_write_ns = S(1000), .clean_close_ns = S(999), .clean_close_is_pid0 = true},
	 2000, false},
};

static void sealing_follows_its_table(void **state)
{
	const struct track_policy p = TRACK_POLICY_DEFAULT;

	for (size_t i = 0; i < sizeof(seal_cases) / sizeof(seal_cases[0]); i++) {
		const struct seal_case *c = &seal_cases[i];

		if (sealed(&c->facts, &p, S(c->now_s)) != c->sealed)
			fail_msg("%s: sealed() should say %d", c->name, c->sealed);
	}
}

struct log_case {
	const char *name;
	struct log_facts facts;
	uint64_t now_s;
	bool log;
};

static const struct log_case log_cases[] = {
	{"TF event file, never closed",
	 {.name = "events.out.tfevents.1700.host", .only_grown_since_seal = true}, 1000, true},
	{"TF event file that was truncated",
	 {.name = "events.out.tfevents.1700.host", .only_grown_since_seal = false}, 1000, false},
	{"train.log", {.name = "train.log", .only_grown_since_seal = true}, 1000, true},
	{"metrics.jsonl", {.name = "metrics.jsonl", .only_grown_since_seal = true}, 1000, true},
	{"metrics.csv", {.name = "metrics.csv", .only_grown_since_seal = true}, 1000, true},
	{"run-abc.wandb", {.name = "run-abc.wandb", .only_grown_since_seal = true}, 1000, true},
	{"metrics.csv rewritten whole", {.name = "metrics.csv"}, 1000, false},
	{"a log's ending in the middle",
	 {.name = "x.log.pt", .only_grown_since_seal = true}, 1000, false},
	{"LightGBM reopens with O_APPEND: not for long",
	 {.name = "model.txt", .only_grown_since_seal = true,
	  .all_writers_append_since_ns = S(999)},
	 1000, false},
	{"any name, O_APPEND for 59 s",
	 {.name = "out", .only_grown_since_seal = true, .all_writers_append_since_ns = S(941)},
	 1000, false},
	{"any name, O_APPEND for 60 s",
	 {.name = "out", .only_grown_since_seal = true, .all_writers_append_since_ns = S(940)},
	 1000, true},
	{"O_APPEND for long, but truncated in between",
	 {.name = "out", .all_writers_append_since_ns = S(1)}, 1000, false},
	{"a checkpoint", {.name = "model.pt", .only_grown_since_seal = true}, 1000, false},
};

static void logs_follow_their_table(void **state)
{
	const struct track_policy p = TRACK_POLICY_DEFAULT;

	for (size_t i = 0; i < sizeof(log_cases) / sizeof(log_cases[0]); i++) {
		const struct log_case *c = &log_cases[i];

		if (is_log(&c->facts, &p, S(c->now_s)) != c->log)
			fail_msg("%s: is_log() should say %d", c->name, c->log);
	}
}

static void log_patterns_are_an_option(void **state)
{
	struct track_policy p = TRACK_POLICY_DEFAULT;
	const struct log_facts log = {.name = "train.log", .only_grown_since_seal = true};
	const struct log_facts out = {.name = "rank0.out", .only_grown_since_seal = true};

	p.logs = ":*.err::*.out:";
	assert_false(is_log(&log, &p, S(1)));
	assert_true(is_log(&out, &p, S(1)));
	p.logs = "";
	assert_false(is_log(&out, &p, S(1)));
}

/* When a file lets go of the quiet moment: asked at second 1000, 0 is "it does not hold it". */
struct hold_case {
	const char *name;
	struct seal_facts facts;
	struct log_facts log;
	uint64_t until_s;
};

static const struct hold_case hold_cases[] = {
	{"sealed", {.last_write_ns = S(999), .clean_close_ns = S(999)}, {.name = "a.pt"}, 0},
	{"being written",
	 {.last_write_ns = S(999), .writers_open = 1, .first_writer_open_ns = S(990)},
	 {.name = "a.pt"}, 1590},
	{"a writer open for 10 min",
	 {.last_write_ns = S(999), .writers_open = 1, .first_writer_open_ns = S(400)},
	 {.name = "a.h5"}, 0},
	{"a log being written",
	 {.last_write_ns = S(999), .writers_open = 1, .first_writer_open_ns = S(990)},
	 {.name = "a.log", .only_grown_since_seal = true}, 0},
	{"a killed writer's file",
	 {.last_write_ns = S(990), .killed_ns = S(991), .last_release_ns = S(991)},
	 {.name = "a.pt"}, 1591},
	{"... something older was sealed by another",
	 {.last_write_ns = S(990), .killed_ns = S(991), .newest_other_seal_ns = S(980)},
	 {.name = "a.pt"}, 1591},
	{"... something newer was sealed by another",
	 {.last_write_ns = S(990), .killed_ns = S(991), .newest_other_seal_ns = S(995)},
	 {.name = "a.pt"}, 0},
	{"... killed longer ago than patience",
	 {.last_write_ns = S(300), .killed_ns = S(400)}, {.name = "a.pt"}, 0},
	{"... and opened again by the next trainer",
	 {.last_write_ns = S(998), .writers_open = 1, .first_writer_open_ns = S(997)},
	 {.name = "a.pt"}, 1597},
	{"mapped, released", {.last_write_ns = S(990), .last_write_unknown = true,
	 .last_release_ns = S(991)}, {.name = "a.npy"}, 1051},
	{"closed by pid 0", {.last_write_ns = S(995), .clean_close_ns = S(995),
	 .clean_close_is_pid0 = true}, {.name = "a.pt"}, 1005},
	{"torn, for patience", {.last_write_ns = S(990), .clean_close_ns = S(991), .torn = true},
	 {.name = "a.pt"}, 1591},
	{"... closed by pid 0", {.last_write_ns = S(990), .clean_close_ns = S(991), .torn = true,
	 .clean_close_is_pid0 = true}, {.name = "a.pt"}, 1591},
	{"... something newer was sealed by another",
	 {.last_write_ns = S(990), .clean_close_ns = S(991), .torn = true,
	  .newest_other_seal_ns = S(995)}, {.name = "a.pt"}, 0},
	{"... for longer than patience",
	 {.last_write_ns = S(300), .clean_close_ns = S(390), .torn = true}, {.name = "a.pt"}, 0},
	{"... one of two descriptors closed (numpy)",
	 {.last_write_ns = S(990), .clean_close_ns = S(991), .torn = true, .writers_open = 1,
	  .first_writer_open_ns = S(980)}, {.name = "a.npz"}, 1580},
	{"... and a log",
	 {.last_write_ns = S(990), .clean_close_ns = S(991), .torn = true},
	 {.name = "a.log", .only_grown_since_seal = true}, 0},
	{"left by nobody we saw", {.last_write_ns = S(990), .last_release_ns = S(992)},
	 {.name = "a.pt"}, 1592},
};

static void holding_a_quiet_moment_follows_its_table(void **state)
{
	const struct track_policy p = TRACK_POLICY_DEFAULT;

	for (size_t i = 0; i < sizeof(hold_cases) / sizeof(hold_cases[0]); i++) {
		const struct hold_case *c = &hold_cases[i];
		uint64_t until_ns = quiet_holds_until(&c->facts, &c->log, &p, S(1000));

		if (until_ns != S(c->until_s))
			fail_msg("%s: held until %llu, not %llu", c->name,
				 (unsigned long long)(until_ns / NS_PER_S),
				 (unsigned long long)c->until_s);
		assert_int_equal(quiet_holds(&c->facts, &c->log, &p, S(1000)), until_ns != 0);
		/* I3: what it says is when it lets go */
		assert_false(until_ns && quiet_holds(&c->facts, &c->log, &p, until_ns));
		assert_false(until_ns && !quiet_holds(&c->facts, &c->log, &p, until_ns - 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sealing_follows_its_table),
		cmocka_unit_test(logs_follow_their_table),
		cmocka_unit_test(log_patterns_are_an_option),
		cmocka_unit_test(holding_a_quiet_moment_follows_its_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
