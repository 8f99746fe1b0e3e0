/* SPDX-License-Identifier: Apache-2.0 */
/* What a moment says of names and files that are not finished, and what an acknowledgement means. */
#include "tests/unit/fs/rig.h"

static void what_is_sealed_is_in_the_good_moment(void **state)
{
	struct machine *x = machine_new(*state);

	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	do_put(x, "d/a", "whole");
	machine_sync(x);
	assert_good_is(*state, "/d 40755\n/d/a 100644 x1 whole\n");
	do_put_half(x, "d/a", "half");
	do_put_half(x, "d/b", "half");
	machine_sync(x);
	assert_good_is(*state, "/d 40755\n/d/a 100644 x1 whole\n");
	machine_lose(x);
}

static void a_file_that_is_closed_after_a_sync_is_in_the_next(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;

	h = do_open(x, "a", O_CREAT | O_WRONLY);
	do_write(x, h, "data", 4, 0, getpid());
	machine_sync(x); /* takes the moment although it is not quiet */
	assert_good_is(*state, "");
	do_close(x, h, getpid());
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 data\n");
	machine_lose(x);
}

static void a_sync_ends_while_a_new_file_is_still_being_written(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;

	h = do_open(x, "a", O_CREAT | O_WRONLY);
	for (int i = 0; i < 3; i++) {
		do_write(x, h, "data", 4, 4 * (uint64_t)i, getpid());
		machine_sync(x);
	}
	assert_good_is(*state, "");
	file_release(&x->m, h);
	machine_lose(x);
}

static void a_rename_of_an_unsealed_file_keeps_the_old_one_public(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "a", "old");
	machine_sync(x);
	do_put_half(x, "tmp", "new");
	assert_int_equal(do_rename(x, "tmp", "a", 0), 0);
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 old\n");
	do_put(x, "a", "new whole");
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 new whole\n");
	machine_lose(x);
}

static void a_name_moved_away_and_back_keeps_its_old_file_public(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "a", "old");
	machine_sync(x);
	assert_int_equal(do_rename(x, "a", "b", 0), 0);
	assert_int_equal(do_rename(x, "b", "a", 0), 0);
	do_put_half(x, "tmp", "new");
	assert_int_equal(do_rename(x, "tmp", "a", 0), 0);
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 old\n");
	machine_lose(x);
}

static const struct inode_attr long_ago = {.mtime_ns = 1000 * NS_PER_S};

static void a_time_that_was_set_survives_the_daemon_and_the_machine(void **state)
{
	struct machine *x = machine_new(*state);
	char *before, *after;

	do_put(x, "a", "data");
	do_set(x, "a", NS_SET_MTIME, long_ago);
	do_put(x, "b", "data");
	before = tree_of(x, true);
	machine_restart(x);
	after = tree_of(x, true);
	assert_string_equal(after, before);
	free(after);
	machine_sync(x);
	machine_restart(x);
	machine_sync(x);
	after = good_tree(*state, true);
	assert_string_equal(after, before);
	free(after);
	free(before);
	machine_lose(x);
}

static void a_file_that_was_never_published_outlives_a_compacted_journal(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;
	char *tree;

	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	do_put(x, "d/old", "old");
	machine_sync(x);
	h = do_open(x, "d/new", O_CREAT | O_WRONLY);
	do_write(x, h, "new", 3, 0, getpid());
	do_put_half(x, "d/tmp", "half");
	assert_int_equal(do_rename(x, "d/tmp", "d/old", 0), 0);
	machine_sync(x);
	mount_lock(&x->m);
	x->m.journal_failed = true; /* the committer writes it anew */
	mount_unlock(&x->m);
	do_put(x, "more", "more");
	machine_sync(x);
	assert_false(x->m.journal_failed);
	do_close(x, h, getpid());
	machine_restart(x);
	tree = tree_of(x, false);
	assert_string_equal(tree, "/d 40755\n/d/new 100644 x1 new\n/d/old 100644 x1 half\n/more 100644 x1 more\n");
	free(tree);
	machine_sync(x);
	assert_good_is(*state, "/d 40755\n/d/new 100644 x1 new\n/d/old 100644 x1 old\n/more 100644 x1 more\n");
	machine_lose(x);
}

/* Before anything was committed, too. */
static void a_killed_daemon_goes_on_with_what_no_commit_holds(void **state)
{
	struct machine *x = machine_make(*state);
	char *before, *after;

	x->m.opts.policy.quiet_ns = 3600 * NS_PER_S; /* no moment at all */
	machine_begin(x);
	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	do_put(x, "d/a", "data");
	before = tree_of(x, false);
	machine_restart(x);
	after = tree_of(x, false);
	assert_string_equal(after, before);
	free(before);
	free(after);
	machine_lose(x);
}

static void looking_at_a_store_leaves_what_a_killed_writer_has_not_sent(void **state)
{
	struct machine *x = machine_new(*state);
	char *tree;

	do_put(x, "a", "sent");
	machine_sync(x);
	do_put(x, "b", "unsent");
	machine_kill(x);
	x->m.opts.read_only = true;
	x->m.opts.takeover = false;
	machine_begin(x);
	tree = tree_of(x, false);
	assert_string_equal(tree, "/a 100644 x1 sent\n");
	free(tree);
	machine_kill(x);
	x->m.opts.read_only = false;
	machine_begin(x);
	tree = tree_of(x, false);
	assert_string_equal(tree, "/a 100644 x1 sent\n/b 100644 x1 unsent\n");
	free(tree);
	machine_lose(x);
}

/* The mount point was busy, say. */
static void a_mount_that_fails_leaves_what_its_cache_has_not_sent(void **state)
{
	struct machine *x = machine_new(*state);
	char *tree;

	do_put(x, "a", "unsent");
	machine_restart(x);
	mount_give_up(&x->m);
	free(x->m.opts.cache);
	machine_begin(x);
	tree = tree_of(x, false);
	assert_string_equal(tree, "/a 100644 x1 unsent\n");
	free(tree);
	machine_lose(x);
}

static void who_only_opens_a_half_file_does_not_finish_it(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "a", "whole");
	machine_sync(x);
	do_put_half(x, "a", "half");
	do_close(x, do_open(x, "a", O_WRONLY), getpid());
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 whole\n");
	machine_restart(x);
	do_close(x, do_open(x, "a", O_WRONLY), getpid());
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 whole\n");
	machine_lose(x);
}

/* `: >file`: who truncates finishes, whoever wrote before. */
static void a_file_emptied_by_another_process_is_sealed_by_its_close(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;
	struct walk w;

	do_put(x, "a", "text");
	machine_sync(x);
	assert_int_equal(walk_to(x, "a", &w), 0);
	assert_int_equal(file_open(&x->m, w.id, O_WRONLY | O_TRUNC, getppid(), &h), 0);
	do_close(x, h, getppid());
	machine_sync(x);
	assert_good_is(*state, "/a 100644 x1 \n");
	machine_lose(x);
}

/* A log's bytes that arrive while a moment is frozen belong to the next one. */
static void a_log_written_while_it_is_frozen_is_whole_in_the_next_moment(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h = do_open(x, "a.log", O_CREAT | O_WRONLY);

	do_write(x, h, "one ", 4, 0, getpid());
	h->node->file->writing++; /* here file_write() waits for a chunk, say */
	machine_sync(x);
	assert_int_equal(content_write(h->node->file->live, "two", 3, 4, false, &(uint64_t){0}), 3);
	h->node->file->writing--;
	mount_lock(&x->m);
	node_touch(&x->m.nodes, h->node);
	mount_unlock(&x->m);
	machine_sync(x);
	assert_good_is(*state, "/a.log 100644 x1 one two\n");
	file_release(&x->m, h);
	machine_lose(x);
}

/* The file was closed before, and what lives in its mapping comes when that ends. */
static void what_was_written_through_a_mapping_is_there_after_the_umount(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h = do_open(x, "a", O_CREAT | O_RDWR);
	struct fault f = FAULT_NONE;

	do_write(x, h, "....", 4, 0, getpid());
	assert_int_equal(file_flush(&x->m, h, getpid()), 0);
	assert_int_equal(file_write(&x->m, h, "data", 4, 0, 0, true, NULL), 4);
	file_release(&x->m, h);
	machine_sync(x); /* holdfast umount asks before it unmounts */
	assert_int_equal(mount_end(&x->m, mount_now(&x->m) + 20 * NS_PER_S, false, &f), 0);
	assert_good_is(*state, "/a 100644 x1 data\n");
	machine_lose(x);
}

/* Until there is a commit that is not good. */
static struct commit_status wait_for_doubt(struct machine *x)
{
	struct commit_status s;

	do {
		usleep(1000);
		committer_status(&x->m, &s);
	} while (s.good == s.commit || s.in_flight);
	return s;
}

/* By a writer that is killed then. */
static void do_write_half(struct machine *x, const char *path, int flags, const char *text, uint64_t at)
{
	struct handle *h = do_open(x, path, flags | O_WRONLY);

	do_write(x, h, text, strlen(text), at, NOBODY);
	do_close(x, h, NOBODY);
}

static void a_log_is_one_for_the_daemon_that_goes_on(void **state)
{
	struct machine *x = machine_new(*state);

	do_write_half(x, "run.log", O_CREAT | O_APPEND, "one ", 0);
	machine_restart(x);
	do_write_half(x, "run.log", O_APPEND, "two", 4);
	machine_restart(x); /* and for the next one */
	machine_sync(x);
	assert_good_is(*state, "/run.log 100644 x1 one two\n");
	machine_lose(x);
}

static void a_log_that_is_being_rewritten_is_none_for_the_daemon_that_goes_on(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "run.log", "whole");
	machine_sync(x);
	do_write_half(x, "run.log", 0, "half", 0);
	machine_restart(x);
	do_write_half(x, "run.log", O_APPEND, " and more", 5);
	machine_restart(x);
	machine_sync(x);
	assert_good_is(*state, "/run.log 100644 x1 whole\n");
	machine_lose(x);
}

/* ... only because a new daemon did not see it begin. */
static void half_a_set_is_not_found_whole_by_the_daemon_that_goes_on(void **state)
{
	struct machine *x = machine_new(*state);
	struct commit_status s;

	x->m.opts.policy.settle_ns = 3600 * NS_PER_S;
	assert_int_equal(do_make(x, "set", S_IFDIR | 0755, NULL), 0);
	machine_sync(x);
	x->m.opts.policy.commit_gap_ns = 0;
	do_put(x, "set/1", "one of many");
	(void)wait_for_doubt(x);
	machine_restart(x);
	x->m.opts.policy.commit_gap_ns = 0;
	do_put(x, "a.log", "more");
	do {
		s = wait_for_doubt(x); /* for ever, were it found whole */
	} while (s.commits == 0);
	assert_good_is(*state, "/set 40755\n");
	machine_sync(x);
	assert_good_is(*state, "/a.log 100644 x1 more\n/set 40755\n/set/1 100644 x1 one of many\n");
	machine_lose(x);
}

/* What a new daemon holds against the newest commit, as soon as it has judged it. */
static struct commit_status wait_for_verdict(struct machine *x)
{
	struct commit_status s;

	do {
		usleep(1000);
		committer_status(&x->m, &s);
	} while (!s.objection[0] && s.good != s.commit);
	return s;
}

/* Neither is in the good moment, and when they were made nobody knows any more. */
static void half_a_set_beside_a_whole_one_is_seen_by_the_daemon_that_goes_on(void **state)
{
	struct machine *x = machine_new(*state);
	struct commit_status s;

	assert_int_equal(do_make(x, "ck-1", S_IFDIR | 0755, NULL), 0);
	do_put(x, "ck-1/model", "m");
	do_put(x, "ck-1/state", "s");
	assert_int_equal(do_make(x, "ck-2", S_IFDIR | 0755, NULL), 0);
	do_put(x, "ck-2/model", "m");
	machine_restart(x);
	x->m.opts.policy.commit_gap_ns = 0;
	do_put(x, "a.log", "more");
	do {
		s = wait_for_verdict(x);
	} while (s.commits == 0);
	assert_string_equal(s.objection, "ck-2/ lacks state that ck-1/ has");
	machine_lose(x);
}

static void the_daemon_that_goes_on_knows_what_was_objected_to(void **state)
{
	struct machine *x = machine_new(*state);
	struct commit_status s;

	do_put(x, "big", "of some bytes");
	machine_sync(x);
	x->m.opts.policy.commit_gap_ns = 0;
	assert_int_equal(do_unlink(x, "big"), 0);
	(void)wait_for_doubt(x);
	machine_restart(x);
	s = wait_for_verdict(x);
	assert_non_null(strstr(s.objection, "13 bytes were deleted"));
	assert_int_not_equal(s.good, s.commit);
	machine_lose(x);
}

/* It settles while the daemon is away, so that no more than its names need be known. */
static void what_was_whole_before_a_restart_is_good_without_a_wait(void **state)
{
	struct machine *x = machine_new(*state);
	struct commit_status s;

	x->m.opts.policy.settle_ns = 3600 * NS_PER_S;
	do_put(x, "a", "of a new kind");
	x->m.opts.policy.commit_gap_ns = 0;
	(void)wait_for_doubt(x);
	x->m.opts.policy.settle_ns = 0;
	machine_restart(x);
	s = wait_for_verdict(x);
	assert_string_equal(s.objection, "");
	assert_int_equal(s.good, s.commit);
	machine_lose(x);
}

/* Its first commit: true if it is doubted, false if the machine was so slow that it settled before. */
static bool first_is_doubted(struct machine *x, uint64_t commits)
{
	struct commit_status s;

	do {
		usleep(1000);
		committer_status(&x->m, &s);
	} while (s.commits == commits || s.in_flight);
	return s.good != s.commit;
}

/*
 * False if the machine once paused for so long that the set may rightly be found whole: that shows
 * nothing.
 */
static bool grows_in_doubt(struct machine *x, unsigned set, uint64_t good)
{
	uint64_t last_ns = mount_now(&x->m);
	struct commit_status s;
	char path[64];

	for (int i = 0; i < 400; i++) { /* for longer than it takes to settle */
		uint64_t before_ns = last_ns;

		snprintf(path, sizeof(path), "set%c/more%d", 'a' + set, i);
		do_put(x, path, "another");
		usleep(5000);
		committer_status(&x->m, &s);
		last_ns = mount_now(&x->m);
		if (last_ns - before_ns > x->m.opts.policy.settle_ns / 2)
			return false;
		assert_int_equal(s.good, good);
	}
	return true;
}

/* A set of a shape of its own: no sibling says what is missing.  False as above. */
static bool a_set_grows_in_doubt(struct machine *x, unsigned set)
{
	struct commit_status s;
	char path[64];

	snprintf(path, sizeof(path), "set%c", 'a' + set);
	assert_int_equal(do_make(x, path, S_IFDIR | 0755, NULL), 0);
	machine_sync(x);
	committer_status(&x->m, &s);
	x->m.opts.policy.commit_gap_ns = 0;
	snprintf(path, sizeof(path), "set%c/first", 'a' + set);
	do_put(x, path, "one of many");
	return first_is_doubted(x, s.commits) && grows_in_doubt(x, set, s.good);
}

/* Its moment was quiet and nothing of it settled before the next files came, without a pause. */
static void a_set_that_goes_on_growing_is_not_found_whole(void **state)
{
	struct machine *x = machine_new(*state);
	unsigned set = 0;

	x->m.opts.policy.settle_ns = 1 * NS_PER_S;
	x->m.opts.policy.quiet_ns = 100 * NS_PER_MS;
	while (set < 20 && !a_set_grows_in_doubt(x, set))
		set++;
	assert_in_range(set, 0, 19);
	machine_lose(x);
}

static struct stat journal_of(const struct machine *x)
{
	struct stat st;

	assert_int_equal(fstatat(x->m.cache_fd, "journal", &st, 0), 0);
	return st;
}

static bool is_another(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

static void a_journal_that_has_to_be_long_is_not_written_anew_again_and_again(void **state)
{
	struct machine *x = machine_new(*state);
	static char value[60 << 10];
	struct stat before, now;
	struct walk at;
	char path[32];

	for (int i = 0; i < 160; i++) { /* 9 MiB that no commit takes over: moments are for acknowledgements here */
		snprintf(path, sizeof(path), "n%d", i);
		do_put(x, path, "data");
		assert_int_equal(walk_to(x, path, &at), 0);
		assert_int_equal(ns_setxattr(&x->m, at.id, "user.long", value, sizeof(value), 0), 0);
	}
	now = journal_of(x);
	for (int i = 0; i < 10 && (i == 0 || is_another(&before, &now)); i++) { /* once it is, of course */
		before = now;
		usleep(400 * 1000); /* four ticks: where it is done in each of them, it is seen */
		now = journal_of(x);
	}
	assert_in_range(now.st_size, 9 << 20, 1 << 30);
	assert_false(is_another(&before, &now));
	machine_lose(x);
}

/* ---- torn by its header ---- */

#define HALF_A_ZIP "PK\3\4 and so on"
#define EMPTY_ZIP_HEAD "PK\5\6"

static const char empty_zip[22] = EMPTY_ZIP_HEAD;

static const char *torn_of(struct machine *x)
{
	static char text[320];
	struct commit_status s;

	committer_status(&x->m, &s);
	snprintf(text, sizeof(text), "%s", s.torn);
	return text;
}

static void half_a_zip_that_was_closed_stays_as_it_was(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "ck.pt", "the one before");
	machine_sync(x);
	do_put(x, "ck.pt", HALF_A_ZIP);
	do_put(x, "new.pt", HALF_A_ZIP);
	do_put(x, "other", "whole");
	machine_sync(x);
	assert_non_null(strstr(torn_of(x), ".pt: zip without its directory"));
	assert_good_is(*state, "/ck.pt 100644 x1 the one before\n/other 100644 x1 whole\n");

	do_put(x, "ck.pt", "the one after");
	do_put(x, "new.pt", "whole now");
	machine_sync(x);
	assert_string_equal(torn_of(x), "");
	assert_good_is(*state, "/ck.pt 100644 x1 the one after\n/new.pt 100644 x1 whole now\n/other 100644 x1 whole\n");
	machine_lose(x);
}

static void half_a_zip_is_not_what_the_next_overwrite_keeps(void **state)
{
	struct machine *x = machine_new(*state);

	do_put(x, "ck.pt", "the one before");
	do_put(x, "ck.pt", HALF_A_ZIP); /* whole, but in no commit: named by the overwrite */
	do_put_half(x, "ck.pt", "by one who died");
	machine_sync(x);
	assert_good_is(*state, "/ck.pt 100644 x1 the one before\n");
	machine_lose(x);
}

static void half_a_zip_that_was_synced_is_taken_as_it_is(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h;

	do_put(x, "part.zip.aa", HALF_A_ZIP);
	machine_sync(x);
	assert_good_is(*state, "");
	h = do_open(x, "part.zip.aa", O_RDONLY); /* sync(1) */
	assert_int_equal(file_fsync(&x->m, h), 0);
	do_close(x, h, getpid());
	assert_string_equal(torn_of(x), "");
	machine_restart(x);
	machine_sync(x);
	assert_good_is(*state, "/part.zip.aa 100644 x1 " HALF_A_ZIP "\n");
	machine_lose(x);
}

static void half_a_zip_by_synced_writes_is_half_a_zip(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h = do_open(x, "a", O_CREAT | O_WRONLY | O_SYNC);

	do_write(x, h, HALF_A_ZIP, strlen(HALF_A_ZIP), 0, getpid());
	assert_int_equal(file_fsync(&x->m, h), 0); /* as the kernel does behind the write */
	do_close(x, h, getpid());
	machine_sync(x);
	assert_good_is(*state, "");
	machine_lose(x);
}

/* numpy closes a second descriptor of what it goes on to write. */
static void a_zip_goes_on_behind_a_close_and_a_killed_daemon(void **state)
{
	struct machine *x = machine_new(*state);
	struct handle *h = do_open(x, "a.npz", O_CREAT | O_WRONLY);
	struct handle *again;

	do_write(x, h, "PK\3\4", 4, 0, getpid());
	assert_int_equal(file_flush(&x->m, h, getpid()), 0);
	machine_sync(x);
	assert_good_is(*state, "");
	do_write(x, h, "more", 4, 4, getpid()); /* not sealed any more, for the journal too */
	file_release(&x->m, h);
	machine_restart(x);
	assert_string_equal(torn_of(x), "");
	again = do_open(x, "a.npz", O_WRONLY);
	do_write(x, again, empty_zip, sizeof(empty_zip), 0, getpid());
	do_close(x, again, getpid());
	machine_sync(x);
	assert_string_equal(torn_of(x), "");
	machine_lose(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_sealed_is_in_the_good_moment, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_file_that_is_closed_after_a_sync_is_in_the_next, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_sync_ends_while_a_new_file_is_still_being_written, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_rename_of_an_unsealed_file_keeps_the_old_one_public, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_name_moved_away_and_back_keeps_its_old_file_public, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_time_that_was_set_survives_the_daemon_and_the_machine, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_file_that_was_never_published_outlives_a_compacted_journal, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_journal_that_has_to_be_long_is_not_written_anew_again_and_again, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_killed_daemon_goes_on_with_what_no_commit_holds, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(looking_at_a_store_leaves_what_a_killed_writer_has_not_sent, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_mount_that_fails_leaves_what_its_cache_has_not_sent, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(who_only_opens_a_half_file_does_not_finish_it, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_file_emptied_by_another_process_is_sealed_by_its_close, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_log_written_while_it_is_frozen_is_whole_in_the_next_moment, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(what_was_written_through_a_mapping_is_there_after_the_umount, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(half_a_zip_that_was_closed_stays_as_it_was, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(half_a_zip_is_not_what_the_next_overwrite_keeps, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(half_a_zip_that_was_synced_is_taken_as_it_is, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(half_a_zip_by_synced_writes_is_half_a_zip, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_zip_goes_on_behind_a_close_and_a_killed_daemon, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_log_is_one_for_the_daemon_that_goes_on, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_log_that_is_being_rewritten_is_none_for_the_daemon_that_goes_on, rig_make,
						rig_end),
		cmocka_unit_test_setup_teardown(half_a_set_is_not_found_whole_by_the_daemon_that_goes_on, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(half_a_set_beside_a_whole_one_is_seen_by_the_daemon_that_goes_on, rig_make,
						rig_end),
		cmocka_unit_test_setup_teardown(the_daemon_that_goes_on_knows_what_was_objected_to, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(what_was_whole_before_a_restart_is_good_without_a_wait, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(a_set_that_goes_on_growing_is_not_found_whole, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
