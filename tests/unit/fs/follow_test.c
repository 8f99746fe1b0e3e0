/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read-only mount that follows a writer of the same store.  No thread follows here: a test looks at
 * the log when it wants to.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "fs/follow.h"
#include "tests/unit/fs/rig.h"

struct heard {
	char text[4096];
	size_t n;
};

static void hear_name(void *arg, uint64_t dir, const char *name)
{
	struct heard *h = arg;

	h->n += (size_t)snprintf(h->text + h->n, sizeof(h->text) - h->n, "name %s;", name);
}

static void hear_inode(void *arg, uint64_t id, int64_t from)
{
	struct heard *h = arg;

	if (id != ROOT_ID)
		h->n += (size_t)snprintf(h->text + h->n, sizeof(h->text) - h->n, "bytes %" PRId64 ";", from);
}

struct pair {
	struct machine *writer, *reader;
	struct heard heard;
};

static struct machine *reader_new(struct rig *r)
{
	struct machine *x = machine_make(r);

	x->m.opts.takeover = false;
	x->m.opts.read_only = true;
	machine_begin(x);
	return x;
}

static void pair_open(struct pair *p, struct rig *r)
{
	*p = (struct pair){.writer = machine_new(r)};
	machine_sync(p->writer);
	p->reader = reader_new(r);
	ears_arm(&p->reader->m.ears, &(struct ears_calls){.name = hear_name, .inode = hear_inode, .arg = &p->heard});
}

static void pair_close(struct pair *p)
{
	machine_lose(p->reader);
	if (p->writer)
		machine_lose(p->writer);
}

static void look(struct pair *p, int want)
{
	struct fault f = FAULT_NONE;
	int rc = follow_look(&p->reader->m, &f);

	if (rc < 0)
		fail_msg("%s", f.text);
	assert_int_equal(rc, want);
}

/* What the writer has is acknowledged, and then shown. */
static void passes_on(struct pair *p)
{
	machine_sync(p->writer);
	look(p, 1);
}

/* All of it is loaded on both sides, so the reader's memory is what is compared. */
static void assert_follows(struct pair *p)
{
	char *want = tree_of(p->writer, true), *got = tree_of(p->reader, true);

	assert_string_equal(got, want);
	free(got);
	free(want);
}

static void assert_reads(struct pair *p, struct handle *h, const char *want)
{
	size_t len = strlen(want);
	char got[256];

	assert_int_equal(file_read(&p->reader->m, h, got, sizeof(got), 0, NULL), len);
	assert_memory_equal(got, want, len);
}

static void do_append(struct machine *x, const char *path, const char *text)
{
	struct handle *h = do_open(x, path, O_CREAT | O_WRONLY | O_APPEND);

	do_write(x, h, text, strlen(text), 0, getpid());
	do_close(x, h, getpid());
}

/* ---- names ---- */

static void what_is_made_moved_and_removed_is_seen(void **state)
{
	struct pair p;

	pair_open(&p, *state);
	assert_follows(&p);
	assert_int_equal(do_make(p.writer, "d", S_IFDIR | 0755, NULL), 0);
	do_put(p.writer, "d/a", "one");
	do_put(p.writer, "d/b", "two");
	assert_int_equal(do_make(p.writer, "l", S_IFLNK | 0777, NULL), 0);
	passes_on(&p);
	assert_follows(&p);
	assert_int_equal(do_make(p.writer, "e", S_IFDIR | 0700, NULL), 0);
	assert_int_equal(do_rename(p.writer, "d", "e/d", 0), 0);
	assert_int_equal(do_unlink(p.writer, "e/d/a"), 0);
	assert_int_equal(do_link(p.writer, "e/d/b", "hard"), 0);
	passes_on(&p);
	assert_follows(&p);
	assert_int_equal(do_unlink(p.writer, "e/d/b"), 0);
	assert_int_equal(do_rmdir(p.writer, "e/d"), 0);
	assert_int_equal(do_rename(p.writer, "hard", "l", RENAME_EXCHANGE), 0);
	passes_on(&p);
	assert_follows(&p);
	pair_close(&p);
}

static void attributes_are_followed(void **state)
{
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "one");
	passes_on(&p);
	assert_follows(&p);
	do_set(p.writer, "a", NS_SET_MODE | NS_SET_MTIME, (struct inode_attr){.mode = 0600, .mtime_ns = 77});
	passes_on(&p);
	assert_follows(&p);
	pair_close(&p);
}

static void only_what_is_new_and_known_is_told(void **state)
{
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "one");
	do_put(p.writer, "b", "one");
	passes_on(&p);
	assert_follows(&p);
	p.heard = (struct heard){.n = 0};
	look(&p, 0);
	assert_string_equal(p.heard.text, "");
	do_put(p.writer, "b", "two!");
	passes_on(&p);
	assert_string_equal(p.heard.text, "bytes 0;");
	assert_follows(&p);
	p.heard = (struct heard){.n = 0};
	assert_int_equal(do_unlink(p.writer, "a"), 0);
	passes_on(&p);
	assert_non_null(strstr(p.heard.text, "name a;"));
	assert_null(strstr(p.heard.text, "name b;"));
	p.heard = (struct heard){.n = 0};
	ears_disarm(&p.reader->m.ears);
	do_put(p.writer, "c", "x");
	passes_on(&p);
	assert_string_equal(p.heard.text, "");
	pair_close(&p);
}

/* ---- bytes ---- */

static void an_open_file_stays_what_it_is_and_a_new_open_reads_the_new(void **state)
{
	struct handle *old, *now;
	struct ns_attr a, b;
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "the old one");
	passes_on(&p);
	old = do_open(p.reader, "a", O_RDONLY);
	assert_int_equal(ns_lookup(&p.reader->m, ROOT_ID, "a", &a), 0);
	do_put(p.writer, "a", "another");
	passes_on(&p);
	assert_non_null(strstr(p.heard.text, "name a;"));
	assert_int_equal(ns_lookup(&p.reader->m, ROOT_ID, "a", &b), 0);
	assert_int_equal(a.ino, b.ino);
	assert_int_not_equal(a.id, b.id);
	now = do_open(p.reader, "a", O_RDONLY);
	assert_reads(&p, old, "the old one");
	assert_reads(&p, now, "another");
	assert_int_equal(file_open(&p.reader->m, a.id, O_RDONLY, getpid(), &(struct handle *){NULL}), -ESTALE);
	do_put(p.writer, "a", "a third");
	passes_on(&p);
	assert_reads(&p, old, "the old one");
	assert_reads(&p, now, "another");
	assert_follows(&p);
	file_release(&p.reader->m, old);
	file_release(&p.reader->m, now);
	assert_follows(&p);
	pair_close(&p);
}

static void versions_leave_memory_together(void **state)
{
	struct handle *old;
	uint64_t names, nodes;
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "the old one");
	passes_on(&p);
	old = do_open(p.reader, "a", O_RDONLY);
	do_put(p.writer, "a", "another");
	passes_on(&p);
	assert_follows(&p);
	file_release(&p.reader->m, old);
	assert_int_equal(do_unlink(p.writer, "a"), 0);
	passes_on(&p);
	forget_all(p.reader);
	ns_counts(&p.reader->m, &names, &nodes);
	assert_int_equal(names, 0);
	assert_int_equal(nodes, 1);
	pair_close(&p);
}

static void a_removed_file_is_read_on_by_who_has_it_open(void **state)
{
	struct handle *h;
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "the old one");
	passes_on(&p);
	h = do_open(p.reader, "a", O_RDONLY);
	assert_int_equal(do_unlink(p.writer, "a"), 0);
	passes_on(&p);
	assert_follows(&p);
	assert_reads(&p, h, "the old one");
	file_release(&p.reader->m, h);
	pair_close(&p);
}

static void a_log_grows_under_its_open_reader(void **state)
{
	struct handle *h;
	struct pair p;

	pair_open(&p, *state);
	do_append(p.writer, "run.log", "one\n");
	passes_on(&p);
	h = do_open(p.reader, "run.log", O_RDONLY);
	assert_reads(&p, h, "one\n");
	do_append(p.writer, "run.log", "two\n");
	passes_on(&p);
	assert_non_null(strstr(p.heard.text, "bytes 4;"));
	assert_reads(&p, h, "one\ntwo\n");
	do_append(p.writer, "run.log", "three\n");
	passes_on(&p);
	assert_reads(&p, h, "one\ntwo\nthree\n");
	assert_follows(&p);
	file_release(&p.reader->m, h);
	pair_close(&p);
}

static void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		data[i] = (uint8_t)(seed >> 24);
	}
}

/* Chunks of a log that grows are cut anew at its end. */
static void a_large_log_grows_under_a_reader_that_has_only_its_end(void **state)
{
	size_t len = 3 << 20, piece = 100000;
	uint8_t *data = malloc(len + 5 * piece), *got = malloc(len + 5 * piece);
	struct handle *w, *h;
	struct pair p;

	pair_open(&p, *state);
	fill(data, len + 5 * piece, 7);
	w = do_open(p.writer, "run.log", O_CREAT | O_WRONLY | O_APPEND);
	do_write(p.writer, w, data, len, 0, getpid());
	passes_on(&p);
	h = do_open(p.reader, "run.log", O_RDONLY);
	for (int i = 0; i < 5; i++, len += piece) {
		do_write(p.writer, w, data + len, piece, len, getpid());
		passes_on(&p);
		assert_int_equal(file_read(&p.reader->m, h, got, piece, len, NULL), piece);
		assert_memory_equal(got, data + len, piece);
	}
	assert_int_equal(file_read(&p.reader->m, h, got, len, 0, NULL), len);
	assert_memory_equal(got, data, len);
	do_close(p.writer, w, getpid());
	file_release(&p.reader->m, h);
	free(data);
	free(got);
	pair_close(&p);
}

/* It is longer, and its first bytes are others: no reader may see half of each. */
static void a_longer_file_that_begins_otherwise_is_another_version(void **state)
{
	struct handle *h;
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "status.log", "step 1");
	passes_on(&p);
	h = do_open(p.reader, "status.log", O_RDONLY);
	do_put(p.writer, "status.log", "epoch 1, step 2");
	passes_on(&p);
	assert_reads(&p, h, "step 1");
	assert_follows(&p);
	file_release(&p.reader->m, h);
	pair_close(&p);
}

/* ---- far apart ---- */

static void everything_is_right_after_many_commits_and_a_new_base(void **state)
{
	struct handle *h;
	struct pair p;
	char name[32];

	pair_open(&p, *state);
	assert_int_equal(do_make(p.writer, "d", S_IFDIR | 0755, NULL), 0);
	do_append(p.writer, "d/run.log", "line\n");
	passes_on(&p);
	assert_follows(&p);
	h = do_open(p.reader, "d/run.log", O_RDONLY);
	for (int i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "d/f%d", i % 20);
		if (i % 3 == 2)
			(void)do_unlink(p.writer, name);
		else
			do_put(p.writer, name, name);
		do_append(p.writer, "d/run.log", "line\n");
		machine_sync(p.writer);
	}
	look(&p, 1);
	assert_follows(&p);
	file_release(&p.reader->m, h);
	pair_close(&p);
}

static void a_reset_to_an_earlier_moment_is_followed(void **state)
{
	uint64_t early;
	struct pair p;

	pair_open(&p, *state);
	do_put(p.writer, "a", "early");
	do_put(p.writer, "gone later", "x");
	passes_on(&p);
	early = state_head(p.reader->m.state)->number;
	assert_int_equal(do_unlink(p.writer, "gone later"), 0);
	do_put(p.writer, "a", "late");
	do_put(p.writer, "b", "late");
	passes_on(&p);
	assert_follows(&p);
	machine_lose(p.writer);
	p.writer = machine_make(*state);
	p.writer->m.opts.restore = RESTORE_NUMBER;
	p.writer->m.opts.restore_number = early;
	machine_begin(p.writer);
	look(&p, 1);
	assert_follows(&p);
	do_put(p.writer, "c", "new branch");
	passes_on(&p);
	assert_follows(&p);
	pair_close(&p);
}

static void what_is_not_good_yet_is_shown_to_who_asks_for_the_newest(void **state)
{
	struct pair p;

	pair_open(&p, *state);
	p.reader->m.opts.follow = FOLLOW_NEWEST;
	do_put(p.writer, "a", "x");
	passes_on(&p);
	assert_follows(&p);
	pair_close(&p);
}

static void a_store_without_a_moment_is_empty_until_there_is_one(void **state)
{
	struct pair p = {.writer = NULL};
	char *empty;

	p.reader = reader_new(*state);
	empty = tree_of(p.reader, false);
	assert_string_equal(empty, "");
	free(empty);
	p.writer = machine_new(*state);
	do_put(p.writer, "a", "x");
	passes_on(&p);
	assert_follows(&p);
	pair_close(&p);
}

/* ---- what is gone ---- */

static int remove_pack(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return type == FTW_F ? remove(path) : 0;
}

static void lose_packs(struct rig *r)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/store/packs", r->path);
	if (nftw(dir, remove_pack, 16, FTW_PHYS) != 0)
		fail_msg("%s: %s", dir, strerror(errno));
}

static void bytes_that_are_gone_with_their_moment_are_stale(void **state)
{
	struct rig *r = *state;
	char got[16], text[3 * CHUNK_INLINE];
	struct ns_attr a;
	struct pair p;
	struct handle *h;

	pair_open(&p, r);
	fill((uint8_t *)text, sizeof(text) - 1, 3);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + (uint8_t)text[i] % 26);
	text[sizeof(text) - 1] = '\0';
	do_put(p.writer, "a", text);
	passes_on(&p);
	/* Nothing is fetched by this open, as the pack is gone by then: only its bytes are missed. */
	lose_packs(r);
	h = do_open(p.reader, "a", O_RDONLY);
	assert_int_equal(file_read(&p.reader->m, h, got, sizeof(got), 0, NULL), -EIO); /* it is still the good moment */
	text[0] = '!';
	do_put(p.writer, "a", text);
	passes_on(&p);
	assert_int_equal(file_read(&p.reader->m, h, got, sizeof(got), 0, NULL), -ESTALE);
	file_release(&p.reader->m, h);
	assert_int_equal(ns_lookup(&p.reader->m, ROOT_ID, "a", &a), 0);
	assert_int_equal(file_open(&p.reader->m, a.id, O_RDONLY, getpid(), &h), 0);
	assert_int_equal(file_read(&p.reader->m, h, got, sizeof(got), 0, NULL), sizeof(got));
	assert_int_equal(got[0], '!');
	file_release(&p.reader->m, h);
	pair_close(&p);
}

static void a_log_that_cannot_be_read_leaves_what_is_shown(void **state)
{
	struct rig *r = *state;
	struct follow_status s;
	struct fault f = FAULT_NONE;
	char from[128], to[128], *before, *after;
	struct pair p;

	pair_open(&p, r);
	do_put(p.writer, "a", "x");
	passes_on(&p);
	before = tree_of(p.reader, true);
	snprintf(from, sizeof(from), "%s/store/log", r->path);
	snprintf(to, sizeof(to), "%s/store/aside", r->path);
	assert_int_equal(rename(from, to), 0);
	assert_true(follow_look(&p.reader->m, &f) < 0);
	after = tree_of(p.reader, true);
	assert_string_equal(after, before);
	follow_status(&p.reader->m, &s);
	assert_true(s.failing_since_ns > 0);
	assert_non_null(strstr(s.error, "the log ends at record 0"));
	assert_int_equal(rename(to, from), 0);
	do_put(p.writer, "b", "y");
	passes_on(&p);
	follow_status(&p.reader->m, &s);
	assert_int_equal(s.failing_since_ns, 0);
	assert_string_equal(s.error, "");
	assert_follows(&p);
	free(before);
	free(after);
	pair_close(&p);
}

/* ---- pace ---- */

static void looks_become_rarer_until_something_moves(void **state)
{
	uint64_t gap = 0, want[] = {1, 2, 4, 8, 15, 15};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		gap = follow_gap(gap, false);
		assert_int_equal(gap, want[i] * NS_PER_S);
	}
	assert_int_equal(follow_gap(gap, true), NS_PER_S);
}

static void a_thread_that_waits_ends_at_once(void **state)
{
	struct machine *x = reader_new(*state);
	struct fault f = FAULT_NONE;

	assert_int_equal(follow_run(&x->m, &f), 0);
	follow_read_on(&x->m); /* it has looked at least once */
	machine_lose(x);
}

/* As the kernel does: it waits for a request that may wait for the follower. */
struct waiting_kernel {
	struct machine *x;
	_Atomic unsigned told;
};

static void *read_on(void *arg)
{
	follow_read_on(arg);
	return NULL;
}

static void wait_for_a_request(void *arg, uint64_t id, const char *name)
{
	struct waiting_kernel *k = arg;
	pthread_t request;

	(void)id;
	(void)name;
	assert_int_equal(pthread_create(&request, NULL, read_on, &k->x->m), 0);
	assert_int_equal(pthread_join(request, NULL), 0); /* or waits for a minute */
	k->told++;
}

static void hear_nothing(void *arg, uint64_t id, int64_t from)
{
	(void)arg;
	(void)id;
	(void)from;
}

static void a_request_that_the_kernel_waits_for_does_not_wait_for_the_telling(void **state)
{
	struct pair p;
	struct waiting_kernel k;
	struct fault f = FAULT_NONE;
	uint64_t begin;

	pair_open(&p, *state);
	k = (struct waiting_kernel){.x = p.reader};
	do_put(p.writer, "a", "1");
	passes_on(&p);
	assert_follows(&p);
	ears_arm(&p.reader->m.ears, &(struct ears_calls){.name = wait_for_a_request, .inode = hear_nothing, .arg = &k});
	assert_int_equal(do_unlink(p.writer, "a"), 0);
	machine_sync(p.writer);
	begin = clock_mono(&clock_system);
	assert_int_equal(follow_run(&p.reader->m, &f), 0);
	follow_read_on(&p.reader->m); /* answered before it is told */
	while (!k.told && clock_mono(&clock_system) - begin < 50 * NS_PER_S)
		(void)sched_yield();
	ears_disarm(&p.reader->m.ears);
	assert_int_equal(k.told, 1);
	assert_true(clock_mono(&clock_system) - begin < 50 * NS_PER_S); /* a wait that was given up lasts 60 */
	pair_close(&p);
}

#define test(f) cmocka_unit_test_setup_teardown(f, rig_make, rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(what_is_made_moved_and_removed_is_seen),
		test(attributes_are_followed),
		test(only_what_is_new_and_known_is_told),
		test(an_open_file_stays_what_it_is_and_a_new_open_reads_the_new),
		test(versions_leave_memory_together),
		test(a_removed_file_is_read_on_by_who_has_it_open),
		test(a_log_grows_under_its_open_reader),
		test(a_large_log_grows_under_a_reader_that_has_only_its_end),
		test(a_longer_file_that_begins_otherwise_is_another_version),
		test(everything_is_right_after_many_commits_and_a_new_base),
		test(a_reset_to_an_earlier_moment_is_followed),
		test(what_is_not_good_yet_is_shown_to_who_asks_for_the_newest),
		test(a_store_without_a_moment_is_empty_until_there_is_one),
		test(bytes_that_are_gone_with_their_moment_are_stale),
		test(a_log_that_cannot_be_read_leaves_what_is_shown),
		test(looks_become_rarer_until_something_moves),
		test(a_thread_that_waits_ends_at_once),
		test(a_request_that_the_kernel_waits_for_does_not_wait_for_the_telling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
