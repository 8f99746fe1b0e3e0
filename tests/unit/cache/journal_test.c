/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what a replay finds after a clean end, a torn one, a wrong byte, a rewrite, a
 * full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "fs/cache/journal.h"
#include "tests/unit/cache/folder.h"

#define NAME "journal"

/* ---- what a replay found ---- */

struct found {
	struct buf bytes; /* type, length, body of each */
	unsigned n, gaps;
	int refuse_at; /* this entry is answered with -ENOMEM; -1: none */
};

static int each(void *arg, uint8_t type, const uint8_t *body, size_t len)
{
	struct found *x = arg;

	if ((int)x->n == x->refuse_at)
		return -ENOMEM;
	if (type == JOURNAL_GAP) {
		x->gaps++;
		return 0;
	}
	buf_u8(&x->bytes, type);
	buf_u32(&x->bytes, (uint32_t)len);
	buf_add(&x->bytes, body, len);
	x->n++;
	return 0;
}

static int open_and_find(struct folder *folder, struct found *x, uint64_t *torn, struct fault *f)
{
	scoped(journal_close) struct journal *j = NULL;

	*x = (struct found){.refuse_at = -1};
	*f = FAULT_NONE;
	return journal_open(folder->fd, NAME, NULL, each, x, &j, torn, f);
}

static struct journal *fresh(struct folder *folder)
{
	struct journal *j = NULL;

	(void)unlinkat(folder->fd, NAME, 0);
	assert_int_equal(journal_open(folder->fd, NAME, NULL, NULL, NULL, &j, NULL, NULL), 0);
	return j;
}

static size_t read_file(struct folder *folder, uint8_t *out, size_t most)
{
	scoped(fd_close) int fd = openat(folder->fd, NAME, O_RDONLY);
	ssize_t n = pread(fd, out, most, 0);

	assert_true(n >= 0);
	return (size_t)n;
}

static void write_file(struct folder *folder, const uint8_t *data, size_t len)
{
	scoped(fd_close) int fd = openat(folder->fd, NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(pwrite(fd, data, len, 0), (ssize_t)len);
}

/* Five entries, one of them empty; ends[i]: the file's length with i of them. */
static void write_five(struct folder *folder, uint64_t ends[6])
{
	scoped(journal_close) struct journal *j = fresh(folder);
	static const char *const bodies[] = {"first", "", "a longer one, to have some bytes", "x",
					     "last"};

	ends[0] = journal_bytes(j);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(journal_add(j, (uint8_t)(i + 1), bodies[i], strlen(bodies[i])), 0);
		ends[i + 1] = journal_bytes(j);
	}
}

/* ---- tests ---- */

static void entries_come_back_in_order(void **state)
{
	struct folder *folder = *state;
	struct found x;
	uint64_t ends[6], torn = 99;
	struct fault f;

	write_five(folder, ends);
	assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
	assert_int_equal(x.n, 5);
	assert_int_equal(torn, 0);
	assert_memory_equal(x.bytes.data, "\1\5\0\0\0first\2\0\0\0\0\3\40\0\0\0a longer",
			    10 + 5 + 13);
	buf_fini(&x.bytes);
}

static void several_entries_go_in_with_one_write(void **state)
{
	struct folder *folder = *state;
	scoped(buf_fini) struct buf many = BUF_EMPTY;
	struct journal *j = fresh(folder);
	struct found x;
	struct fault f;

	journal_entry(&many, JOURNAL_SET, "key", 3);
	journal_entry(&many, JOURNAL_REMOVE, "other", 5);
	assert_int_equal(journal_add_many(j, &many), 0);
	assert_int_equal(journal_bytes(j), 4 + many.len);
	journal_close(j);
	assert_int_equal(open_and_find(folder, &x, NULL, &f), 0);
	assert_int_equal(x.n, 2);
	buf_fini(&x.bytes);

	j = fresh(folder);
	many.failed = true;
	assert_int_equal(journal_add_many(j, &many), -ENOMEM);
	assert_int_equal(journal_add(j, JOURNAL_SET, "key", 3),
			 0); /* nothing was written, so nothing is wrong */
	journal_close(j);
}

static void a_cut_at_any_byte_leaves_the_whole_entries_before_it(void **state)
{
	struct folder *folder = *state;
	uint8_t whole[256], now[256];
	uint64_t ends[6];
	size_t len;

	write_five(folder, ends);
	len = read_file(folder, whole, sizeof(whole));
	assert_int_equal(len, ends[5]);
	for (size_t cut = 0; cut <= len; cut++) {
		unsigned want = 0;
		uint64_t torn = 99;
		struct found x;
		struct fault f;

		while (want < 5 && ends[want + 1] <= cut)
			want++;
		write_file(folder, whole, cut);
		assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
		buf_fini(&x.bytes);
		assert_int_equal(x.n, want);
		assert_int_equal(torn, cut < 4 ? cut : cut - ends[want]);
		assert_int_equal(read_file(folder, now, sizeof(now)),
				 ends[want]); /* cut back, or the magic made whole */
		assert_memory_equal(now, whole, ends[want]);
	}
}

static void a_wrong_byte_anywhere_costs_its_entry_and_leaves_a_gap(void **state)
{
	struct folder *folder = *state;
	uint8_t whole[256], now[256];
	uint64_t ends[6];
	size_t len;

	write_five(folder, ends);
	len = read_file(folder, whole, sizeof(whole));
	for (size_t at = 0; at < len; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			bool last = at >= ends[4]; /* a torn end looks the same */
			uint64_t torn = 99;
			struct found x;
			struct fault f;

			whole[at] ^= (uint8_t)(1u << bit);
			write_file(folder, whole, len);
			assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
			buf_fini(&x.bytes);
			assert_int_equal(x.n, at < 4 ? 5 : 4);
			assert_int_equal(x.gaps, last ? 0 : 1);
			assert_int_equal(torn, last ? len - ends[4] : 0);
			assert_int_equal(read_file(folder, now, sizeof(now)), last ? ends[4] : len);
			assert_memory_equal(now, whole, last ? ends[4] : len);
			whole[at] ^= (uint8_t)(1u << bit);
		}
	}
}

static void what_holds_no_entry_is_no_journal(void **state)
{
	struct folder *folder = *state;
	static const uint8_t zeros[100];
	struct found x;
	struct fault f;

	write_file(folder, zeros, sizeof(zeros));
	assert_int_equal(open_and_find(folder, &x, NULL, &f), -EBADMSG);
	assert_non_null(strstr(f.text, NAME));
	buf_fini(&x.bytes);
}

static void what_is_added_after_a_torn_end_is_found(void **state)
{
	struct folder *folder = *state;
	scoped(journal_close) struct journal *j = NULL;
	uint8_t whole[256];
	uint64_t ends[6], torn;
	struct found x;
	struct fault f;

	write_five(folder, ends);
	(void)read_file(folder, whole, sizeof(whole));
	write_file(folder, whole, ends[4] + 3);
	assert_int_equal(journal_open(folder->fd, NAME, NULL, NULL, NULL, &j, &torn, NULL), 0);
	assert_int_equal(torn, 3);
	assert_int_equal(journal_add(j, JOURNAL_SET, "after", 5), 0);
	assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
	assert_int_equal(x.n, 5);
	assert_int_equal(torn, 0);
	assert_memory_equal(x.bytes.data + x.bytes.len - 5, "after", 5);
	buf_fini(&x.bytes);
}

static void zeros_behind_the_end_are_no_entry(void **state)
{
	struct folder *folder = *state;
	uint8_t whole[512] = {0};
	uint64_t ends[6], torn;
	struct found x;
	struct fault f;

	write_five(folder, ends);
	(void)read_file(folder, whole, sizeof(whole));
	write_file(folder, whole, sizeof(whole));
	assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
	assert_int_equal(x.n, 5);
	assert_int_equal(torn, sizeof(whole) - ends[5]);
	buf_fini(&x.bytes);
}

static void a_reader_that_refuses_an_entry_stops_the_open_and_changes_nothing(void **state)
{
	struct folder *folder = *state;
	struct found x = {.refuse_at = 2};
	struct fault f = FAULT_NONE;
	struct journal *j = (struct journal *)&x;
	uint64_t ends[6];
	uint8_t now[256];

	write_five(folder, ends);
	assert_int_equal(journal_open(folder->fd, NAME, NULL, each, &x, &j, NULL, &f), -ENOMEM);
	assert_ptr_equal(j, &x);
	assert_non_null(strstr(f.text, "journal: entry at byte"));
	assert_int_equal(read_file(folder, now, sizeof(now)), ends[5]);
	buf_fini(&x.bytes);
}

static void a_rewrite_keeps_what_was_added_since_its_mark(void **state)
{
	struct folder *folder = *state;
	scoped(journal_close) struct journal *j = fresh(folder);
	scoped(buf_fini) struct buf entries = BUF_EMPTY;
	struct found x;
	struct fault f = FAULT_NONE;
	uint64_t mark;

	for (int i = 0; i < 100; i++)
		assert_int_equal(journal_add(j, JOURNAL_SET, "many", 4), 0);
	mark = journal_mark(j);
	journal_entry(&entries, JOURNAL_WRITER, "all of it", 9);
	assert_int_equal(journal_add(j, JOURNAL_DIRTY, "meanwhile", 9), 0);
	assert_int_equal(journal_rewrite(j, mark, &entries, &f), 0);
	assert_int_equal(journal_add(j, JOURNAL_DIRTY, "later", 5), 0);
	assert_int_equal(journal_sync(j), 0);
	assert_int_equal(folder_files(folder), 1);

	assert_int_equal(open_and_find(folder, &x, NULL, &f), 0);
	assert_int_equal(x.n, 3);
	assert_int_equal(x.bytes.data[0], JOURNAL_WRITER);
	assert_int_equal(x.bytes.data[14], JOURNAL_DIRTY);
	assert_int_equal(x.bytes.data[28], JOURNAL_DIRTY);
	buf_fini(&x.bytes);
}

static void a_rewrite_that_fails_leaves_the_journal(void **state)
{
	struct folder *folder = *state;
	scoped(journal_close) struct journal *j = fresh(folder);
	struct buf entries = {.failed = true};
	struct found x;
	struct fault f = FAULT_NONE;

	assert_int_equal(journal_add(j, JOURNAL_SET, "kept", 4), 0);
	assert_int_equal(journal_rewrite(j, journal_mark(j), &entries, &f), -ENOMEM);
	assert_non_null(strstr(f.text, "journal.new"));
	assert_int_equal(journal_add(j, JOURNAL_SET, "too", 3), 0);
	assert_int_equal(folder_files(folder), 1);
	assert_int_equal(open_and_find(folder, &x, NULL, &f), 0);
	assert_int_equal(x.n, 2);
	buf_fini(&x.bytes);
}

static void limit_files(rlim_t most)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_is_remembered_until_a_rewrite_works(void **state)
{
	struct folder *folder = *state;
	scoped(journal_close) struct journal *j = fresh(folder);
	scoped(buf_fini) struct buf entries = BUF_EMPTY;
	char body[100] = "";
	struct found x;
	struct fault f = FAULT_NONE;
	uint64_t torn;
	int rc, added = 0;

	(void)signal(SIGXFSZ, SIG_IGN);
	limit_files(1000);
	while ((rc = journal_add(j, JOURNAL_SET, body, sizeof(body))) == 0)
		added++;
	assert_int_equal(rc, -EFBIG);
	assert_int_equal(journal_add(j, JOURNAL_SET, "", 0), -EFBIG); /* it would have fitted */
	limit_files(RLIM_INFINITY);
	assert_int_equal(journal_add(j, JOURNAL_SET, "", 0), -EFBIG);
	assert_int_equal(open_and_find(folder, &x, &torn, &f), 0);
	assert_int_equal(x.n, added);
	assert_int_equal(torn, 0); /* what the failed write left was cut off */
	buf_fini(&x.bytes);

	journal_entry(&entries, JOURNAL_WRITER, "anew", 4);
	assert_int_equal(journal_rewrite(j, journal_mark(j), &entries, &f), 0);
	assert_int_equal(journal_add(j, JOURNAL_SET, body, sizeof(body)), 0);
	assert_int_equal(journal_sync(j), 0);
}

/* ---- threads ---- */

#define THREADS 4
#define EACH    300

struct worker {
	pthread_t thread;
	struct journal *j;
	uint8_t number;
	bool syncs;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t i = 0; i < EACH; i++) {
		uint8_t body[5] = {w->number, (uint8_t)i, (uint8_t)(i >> 8), 0, 0};

		if (journal_add(w->j, JOURNAL_SET, body, sizeof(body)) < 0)
			return w;
		if (w->syncs && i % 16 == 0 && journal_sync(w->j) < 0)
			return w;
	}
	return NULL;
}

static void entries_of_many_threads_and_of_rewrites_are_all_found_in_order(void **state)
{
	struct folder *folder = *state;
	struct journal *j = fresh(folder);
	struct worker workers[THREADS];
	uint32_t next[THREADS] = {0};
	struct found x;
	struct fault f = FAULT_NONE;

	for (uint8_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.j = j, .number = i, .syncs = i % 2};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 10; i++) { /* each keeps what is there, as one large entry would */
		scoped(buf_fini) struct buf entries = BUF_EMPTY;
		uint64_t mark = journal_mark(j);
		uint8_t now[THREADS * EACH * 16];
		size_t len = read_file(folder, now, sizeof(now));

		assert_true(len >= mark);
		buf_add(&entries, now + 4, mark - 4);
		assert_int_equal(journal_rewrite(j, mark, &entries, &f), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		assert_int_equal(pthread_join(workers[i].thread, &failed), 0);
		assert_null(failed);
	}
	journal_close(j);

	assert_int_equal(open_and_find(folder, &x, NULL, &f), 0);
	assert_int_equal(x.n, THREADS * EACH);
	for (unsigned i = 0; i < x.n; i++) {
		const uint8_t *body = x.bytes.data + i * 10 + 5;

		assert_int_equal(body[1] | body[2] << 8, next[body[0]]++);
	}
	buf_fini(&x.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_back_in_order),
		cmocka_unit_test(several_entries_go_in_with_one_write),
		cmocka_unit_test(a_cut_at_any_byte_leaves_the_whole_entries_before_it),
		cmocka_unit_test(a_wrong_byte_anywhere_costs_its_entry_and_leaves_a_gap),
		cmocka_unit_test(what_holds_no_entry_is_no_journal),
		cmocka_unit_test(what_is_added_after_a_torn_end_is_found),
		cmocka_unit_test(zeros_behind_the_end_are_no_entry),
		cmocka_unit_test(a_reader_that_refuses_an_entry_stops_the_open_and_changes_nothing),
		cmocka_unit_test(a_rewrite_keeps_what_was_added_since_its_mark),
		cmocka_unit_test(a_rewrite_that_fails_leaves_the_journal),
		cmocka_unit_test(a_full_disk_is_remembered_until_a_rewrite_works),
		cmocka_unit_test(entries_of_many_threads_and_of_rewrites_are_all_found_in_order),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_end);
}
