/* SPDX-License-Identifier: Apache-2.0 */
/* A cache whose journal is damaged: what was written is in the tree or in salvage/, and the journal is kept. */
#include "fs/evict.h"
#include "tests/unit/fs/rig.h"

#define FILES 6

/* What file i of a rig's newest machine holds: all of them write into one store. */
static const char *text_of(const struct rig *r, unsigned i, char out[32])
{
	snprintf(out, 32, "words %u of cache %u.", i, r->caches);
	return out;
}

static int journal_fd(struct machine *x)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/journal", x->cache);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	return fd;
}

/* A machine whose daemon was killed with six files that no commit holds; its journal's length. */
static struct machine *killed(struct rig *r, size_t *len)
{
	struct machine *x = machine_new(r);
	char path[32], text[32];
	struct stat st;

	do_put(x, "sent", "sent words");
	machine_sync(x);
	snprintf(path, sizeof(path), "d%u", r->caches);
	assert_int_equal(do_make(x, path, S_IFDIR | 0755, NULL), 0);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "d%u%s%u", r->caches, i % 2 ? "/" : "-", i);
		do_put(x, path, text_of(r, i, text));
	}
	assert_int_equal(fstatat(x->m.cache_fd, "journal", &st, 0), 0);
	*len = (size_t)st.st_size;
	machine_kill(x);
	return x;
}

static void flip(struct machine *x, off_t at)
{
	int fd = journal_fd(x);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void zero(struct machine *x, off_t at, size_t len)
{
	static const uint8_t zeros[1024];
	int fd = journal_fd(x);

	assert_true(len <= sizeof(zeros));
	assert_int_equal(pwrite(fd, zeros, len, at), (ssize_t)len);
	close(fd);
}

static void cut(struct machine *x, off_t at)
{
	int fd = journal_fd(x);

	assert_int_equal(ftruncate(fd, at), 0);
	close(fd);
}

/* Is there a file of that content in the cache's salvage/? */
static bool is_salvaged(struct machine *x, const char *text)
{
	char path[160], data[64];
	bool found = false;
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/salvage", x->cache);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		int fd = openat(dirfd(dir), e->d_name, O_RDONLY);
		ssize_t n = read(fd, data, sizeof(data));

		found = found || (n == (ssize_t)strlen(text) && memcmp(data, text, (size_t)n) == 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool is_kept_aside(struct machine *x)
{
	struct stat st;

	return fstatat(x->m.cache_fd, "journal.damaged", &st, 0) == 0;
}

/* How many of the six are in the tree; each of the others has to be in salvage/ for `all`. */
static unsigned in_tree(struct rig *r, struct machine *x, bool all)
{
	char *tree = tree_of(x, false), text[32];
	unsigned n = 0;

	assert_non_null(strstr(tree, "/sent 100644 x1 sent words\n"));
	assert_null(strstr(tree, "no inode"));
	for (unsigned i = 0; i < FILES; i++) {
		bool there = strstr(tree, text_of(r, i, text));

		n += there;
		if (all && !there && !is_salvaged(x, text))
			fail_msg("'%s' is neither in salvage/ nor in\n%s", text, tree);
	}
	free(tree);
	return n;
}

static void a_flipped_bit_costs_no_more_than_its_entry(void **state)
{
	size_t len, most = 0;

	for (unsigned i = 0; i < 16; i++) {
		struct machine *x = killed(*state, &len);
		unsigned n;

		flip(x, (off_t)(len * (2 * i + 1) / 32));
		machine_begin(x);
		assert_true(is_kept_aside(x));
		n = in_tree(*state, x, true);
		most = n > most ? n : most;
		if (strstr(x->m.story, "went on with the cache"))
			assert_in_range(n, 3, FILES); /* at worst the directory's */
		machine_restart(x); /* and all that was used is told of anew */
		assert_int_equal(in_tree(*state, x, true), n);
		machine_sync(x);
		machine_lose(x);
	}
	assert_int_equal(most, FILES); /* a time, say */
}

static void a_zeroed_block_costs_what_it_told_of(void **state)
{
	size_t len;

	for (unsigned i = 0; i < 4; i++) {
		struct machine *x = killed(*state, &len);

		zero(x, (off_t)(len * i / 4), len / 8);
		machine_begin(x);
		assert_true(is_kept_aside(x));
		(void)in_tree(*state, x, true);
		do_put(x, "more", "more");
		machine_sync(x);
		machine_lose(x);
	}
}

static void a_tail_that_is_cut_off_costs_no_more_than_what_was_told_last(void **state)
{
	size_t len;
	struct machine *x = killed(*state, &len);

	cut(x, (off_t)len - 3);
	machine_begin(x);
	assert_false(is_kept_aside(x)); /* a killed machine leaves such */
	assert_in_range(in_tree(*state, x, false), FILES - 1, FILES);
	machine_lose(x);
}

static void an_empty_journal_leaves_all_in_salvage(void **state)
{
	size_t len;
	struct machine *x = killed(*state, &len);

	cut(x, 0);
	machine_begin(x);
	assert_int_equal(in_tree(*state, x, true), 0);
	machine_lose(x);
}

static void what_is_no_journal_makes_way_and_leaves_all_in_salvage(void **state)
{
	size_t len;
	struct machine *x = killed(*state, &len);

	cut(x, 0);
	zero(x, 0, 900);
	machine_begin(x);
	assert_true(is_kept_aside(x));
	assert_int_equal(in_tree(*state, x, true), 0);
	machine_lose(x);
}

#define MIB (UINT64_C(1) << 20)

/* Noise, so that no part of it is stored as zeros. */
static void fill(uint8_t *data, size_t len)
{
	uint64_t dice = 1;

	for (size_t i = 0; i < len; i++) {
		dice = dice * UINT64_C(6364136223846793005) + 1;
		data[i] = (uint8_t)(dice >> 56);
	}
}

/* What made room is told of once.  If that is lost, zeros must not pass for what was there. */
static void a_gap_that_told_of_bytes_given_up_shows_no_zeros(void **state)
{
	struct machine *x = machine_new(*state);
	scoped(free) uint8_t *data = malloc(6 * MIB), *got = malloc(6 * MIB);
	struct handle *h = do_open(x, "f", O_CREAT | O_TRUNC | O_WRONLY);
	struct stat before;

	fill(data, 6 * MIB);
	do_write(x, h, data, 6 * MIB, 0, getpid());
	do_close(x, h, getpid());
	machine_sync(x);
	forget_all(x);
	assert_int_equal(fstatat(x->m.cache_fd, "journal", &before, 0), 0);
	assert_true(evict_some(&x->m, MIB));
	h = do_open(x, "f", O_RDWR);
	do_write(x, h, "changed", 7, 6 * MIB - 7, getpid());
	do_close(x, h, getpid());
	machine_kill(x);

	flip(x, before.st_size + 12); /* in the entry that says so */
	machine_begin(x);
	assert_true(is_kept_aside(x));
	h = do_open(x, "f", O_RDONLY);
	assert_int_equal(file_read(&x->m, h, got, 6 * MIB, 0, NULL), 6 * MIB);
	assert_memory_equal(got, data, 6 * MIB);
	do_close(x, h, getpid());
	machine_lose(x);
}

static void a_directory_in_place_of_the_journal_makes_way(void **state)
{
	size_t len;
	struct machine *x = killed(*state, &len);
	char path[160];

	snprintf(path, sizeof(path), "%s/journal", x->cache);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	machine_begin(x);
	assert_true(is_kept_aside(x));
	assert_int_equal(in_tree(*state, x, true), 0);
	machine_lose(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_flipped_bit_costs_no_more_than_its_entry, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_zeroed_block_costs_what_it_told_of, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_tail_that_is_cut_off_costs_no_more_than_what_was_told_last, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(an_empty_journal_leaves_all_in_salvage, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(what_is_no_journal_makes_way_and_leaves_all_in_salvage, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_gap_that_told_of_bytes_given_up_shows_no_zeros, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_directory_in_place_of_the_journal_makes_way, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
