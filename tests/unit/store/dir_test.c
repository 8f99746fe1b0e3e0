/* SPDX-License-Identifier: Apache-2.0 */
/* file:// stores: create-only, whole names, lists, ranges, and what other programs leave there. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <cmocka.h>

#include "store/dir_sync.h"
#include "tests/unit/store/scratch.h"

static void put(struct scratch *x, const char *key, const char *data)
{
	assert_int_equal(objects_put(x->objects, key, data, strlen(data), false, 0, &x->f), 0);
}

static void assert_holds(struct scratch *x, const char *key, const char *want)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	assert_int_equal(objects_get(x->objects, key, 0, &body, &x->f), 0);
	assert_int_equal(body.len, strlen(want));
	assert_memory_equal(body.data, want, body.len);
}

/* The keys, each followed by a blank, into out. */
static void list(struct scratch *x, const char *prefix, const char *after, unsigned most, char *out)
{
	struct object_req r = {.op = OBJECT_LIST, .key = prefix, .after = after, .most = most};

	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	*out = '\0';
	for (size_t at = 0; at < r.body.len; at += strlen((char *)r.body.data + at) + 1) {
		strcat(out, (char *)r.body.data + at);
		strcat(out, " ");
	}
	object_req_fini(&r);
}

static void assert_lists(struct scratch *x, const char *prefix, const char *after, unsigned most,
			 const char *want)
{
	char got[1024];

	list(x, prefix, after, most, got);
	assert_string_equal(got, want);
}

static void path_in_store(struct scratch *x, const char *name, char out[256])
{
	snprintf(out, 256, "%s/store/%s", x->dir, name);
}

static void what_is_put_is_read(void **state)
{
	struct scratch *x = *state;

	put(x, "a/b/c", "content");
	assert_holds(x, "a/b/c", "content");
	put(x, "a/b/c", "");
	assert_holds(x, "a/b/c", "");
	put(x, "a/b/c", "more than before");
	assert_holds(x, "a/b/c", "more than before");
}

static void pieces_are_put_as_one(void **state)
{
	struct scratch *x = *state;
	const struct iovec iov[] = {{"one ", 4}, {"", 0}, {"two", 3}};
	struct object_req r = {.op = OBJECT_PUT, .key = "k", .iov = iov, .iovs = 3};

	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	object_req_fini(&r);
	assert_holds(x, "k", "one two");
}

static void a_missing_key_is_enoent_and_named(void **state)
{
	struct scratch *x = *state;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	assert_int_equal(objects_get(x->objects, "not/there", 0, &body, &x->f), -ENOENT);
	assert_int_equal(x->f.retry, FAULT_FINAL);
	assert_non_null(strstr(x->f.text, "not/there"));
	put(x, "dir/file", "x");
	assert_int_equal(objects_get(x->objects, "dir", 0, &body, &x->f), -ENOENT);
	assert_int_equal(objects_get(x->objects, "dir/file/x", 0, &body, &x->f), -ENOENT);
}

static void a_key_is_created_once(void **state)
{
	struct scratch *x = *state;

	assert_int_equal(objects_put(x->objects, "log/1", "mine", 4, true, 0, &x->f), 0);
	assert_int_equal(objects_put(x->objects, "log/1", "theirs", 6, true, 0, &x->f), -EEXIST);
	assert_int_equal(x->f.retry, FAULT_RELOAD);
	assert_non_null(strstr(x->f.text, "log/1"));
	assert_holds(x, "log/1", "mine");
}

enum { RACERS = 8, ROUNDS = 25 };

struct racer {
	pthread_t thread;
	struct dir_root *root;
	pthread_barrier_t *barrier;
	char body[2];
	int wins[ROUNDS];
};

static void *race(void *arg)
{
	struct racer *r = arg;
	char key[32];

	for (int i = 0; i < ROUNDS; i++) {
		struct fault f;

		snprintf(key, sizeof(key), "race/%d/key", i); /* a new directory each time */
		pthread_barrier_wait(r->barrier);
		r->wins[i] = dir_put(r->root, key, r->body, 1, true, &f);
	}
	return NULL;
}

static void of_eight_threads_that_create_a_key_exactly_one_wins(void **state)
{
	struct scratch *x = *state;
	struct racer racers[RACERS];
	pthread_barrier_t barrier;
	char path[256];

	pthread_barrier_init(&barrier, NULL, RACERS);
	path_in_store(x, "", path);
	for (int i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){.barrier = &barrier, .body = {(char)('a' + i)}};
		assert_int_equal(dir_root_new(path, &racers[i].root, &x->f), 0);
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < RACERS; i++)
		pthread_join(racers[i].thread, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		char key[32];
		int winner = -1;

		for (int j = 0; j < RACERS; j++) {
			if (racers[j].wins[i] == 0) {
				assert_int_equal(winner, -1);
				winner = j;
			} else {
				assert_int_equal(racers[j].wins[i], -EEXIST);
			}
		}
		assert_true(winner >= 0);
		snprintf(key, sizeof(key), "race/%d/key", i);
		assert_holds(x, key, racers[winner].body);
	}
	for (int i = 0; i < RACERS; i++)
		dir_root_unref(racers[i].root);
	pthread_barrier_destroy(&barrier);
}

static void keys_are_listed_in_order_of_bytes(void **state)
{
	struct scratch *x = *state;

	put(x, "a/b", "");
	put(x, "a0", "");
	put(x, "a-b", "");
	put(x, "Z", "");
	put(x, "a/a/x", "");
	put(x, "ü", "");
	put(x, "a b%20+", "");
	assert_lists(x, "", NULL, 0, "Z a b%20+ a-b a/a/x a/b a0 ü ");
}

static void a_list_begins_where_it_is_told(void **state)
{
	struct scratch *x = *state;

	put(x, "log/10", "");
	put(x, "log/11", "");
	put(x, "log/20/x", "");
	put(x, "log/20/y", "");
	put(x, "logs", "");
	put(x, "packs/a", "");
	assert_lists(x, "log/", NULL, 0, "log/10 log/11 log/20/x log/20/y ");
	assert_lists(x, "log", NULL, 0, "log/10 log/11 log/20/x log/20/y logs ");
	assert_lists(x, "log/1", NULL, 0, "log/10 log/11 ");
	assert_lists(x, "log/", NULL, 1, "log/10 ");
	assert_lists(x, "log/", "log/10", 2, "log/11 log/20/x ");
	assert_lists(x, "log/", "log/20/x", 0, "log/20/y ");
	assert_lists(x, "log/", "log/20/", 0, "log/20/x log/20/y ");
	assert_lists(x, "log/", "log/20z", 0, "");
	assert_lists(x, "log/", "log/15", 0, "log/20/x log/20/y ");
	assert_lists(x, "nothing/", NULL, 0, "");
	assert_lists(x, "../", NULL, 0, "");
	assert_lists(x, "/etc/", NULL, 0, "");
	assert_lists(x, ".tmp/", NULL, 0, "");
}

static void what_a_killed_writer_leaves_is_never_listed(void **state)
{
	struct scratch *x = *state;
	pid_t pid;
	int status;
	char path[256];
	int n = 0;

	put(x, "log/1", "whole");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* a writer that is killed before it gives its file a name */
		path_in_store(x, ".tmp/0123456789abcdef", path);
		n = open(path, O_CREAT | O_WRONLY, 0666);
		if (n >= 0 && write(n, "half", 4) == 4)
			(void)kill(getpid(), SIGKILL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	path_in_store(x, ".tmp/0123456789abcdef", path);
	assert_int_equal(access(path, F_OK), 0);
	path_in_store(x, "log/.nfs000123", path);
	n = open(path, O_CREAT | O_WRONLY, 0666);
	assert_true(n >= 0);
	close(n);
	assert_lists(x, "", NULL, 0, "log/1 ");
	assert_lists(x, "log/", NULL, 0, "log/1 ");
}

static bool leftover_is_there(struct scratch *x, const char *name)
{
	char path[256];

	path_in_store(x, name, path);
	return access(path, F_OK) == 0;
}

static void leave(struct scratch *x, const char *name, int age_s)
{
	char path[256];
	struct utimbuf t = {time(NULL) - age_s, time(NULL) - age_s};
	int fd;

	path_in_store(x, name, path);
	fd = open(path, O_CREAT | O_WRONLY, 0666);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(utime(path, &t), 0);
}

static void old_leftovers_are_swept_and_young_ones_kept(void **state)
{
	struct scratch *x = *state;
	char path[256];
	struct dir_root *root;

	path_in_store(x, "", path);
	assert_int_equal(mkdir(path, 0777), 0);
	path_in_store(x, ".tmp", path);
	assert_int_equal(mkdir(path, 0777), 0);
	leave(x, ".tmp/old", 25 * 3600);
	leave(x, ".tmp/young", 3600);
	path_in_store(x, "", path);
	assert_int_equal(dir_root_new(path, &root, &x->f), 0);
	assert_int_equal(dir_put(root, "k", "x", 1, true, &x->f), 0);
	assert_false(leftover_is_there(x, ".tmp/old"));
	assert_true(leftover_is_there(x, ".tmp/young"));
	dir_root_unref(root);
}

static int count_entries(struct scratch *x, const char *name)
{
	char path[256];
	char command[300];
	char line[32];
	FILE *p;

	path_in_store(x, name, path);
	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", path);
	p = popen(command, "r");
	assert_non_null(p);
	assert_non_null(fgets(line, sizeof(line), p));
	pclose(p);
	return atoi(line);
}

static void no_temporary_file_stays_behind(void **state)
{
	struct scratch *x = *state;

	put(x, "k", "1");
	put(x, "k", "2");
	assert_int_equal(objects_put(x->objects, "l", "1", 1, true, 0, &x->f), 0);
	assert_int_equal(objects_put(x->objects, "l", "2", 1, true, 0, &x->f), -EEXIST);
	assert_int_equal(objects_put(x->objects, "k/below", "2", 1, true, 0, &x->f), -ENOENT);
	assert_int_equal(count_entries(x, ".tmp"), 0);
}

static void a_range_is_read_into_the_callers_memory(void **state)
{
	struct scratch *x = *state;
	uint8_t into[4] = {0};
	struct object_req r = {.op = OBJECT_GET, .key = "k", .off = 3, .len = 4, .dest = into};

	put(x, "k", "0123456789");
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_memory_equal(into, "3456", 4);
	assert_int_equal(r.got, 4);
	assert_int_equal(r.size, 10);
	object_req_fini(&r);
}

static void a_range_beyond_the_end_is_eio_and_no_short_read(void **state)
{
	struct scratch *x = *state;
	struct object_req r = {.op = OBJECT_GET, .key = "k", .off = 8, .len = 4};

	put(x, "k", "0123456789");
	assert_int_equal(objects_do(x->objects, &r, &x->f), -EIO);
	assert_int_equal(x->f.retry, FAULT_FINAL);
	assert_non_null(strstr(x->f.text, "GET k"));
	object_req_fini(&r);
}

static void deleting_twice_is_no_fault(void **state)
{
	struct scratch *x = *state;
	struct object_req r = {.op = OBJECT_DELETE, .key = "a/b"};
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	put(x, "a/b", "x");
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_int_equal(objects_do(x->objects, &r, &x->f), 0);
	assert_int_equal(objects_get(x->objects, "a/b", 0, &body, &x->f), -ENOENT);
	object_req_fini(&r);
}

static void a_key_that_leaves_the_store_is_refused(void **state)
{
	static const char *const keys[] = {"", "/x", "../x", "a/../x", "a//x", "a/", ".tmp/x"};
	struct scratch *x = *state;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		assert_int_equal(objects_put(x->objects, keys[i], "", 0, false, 0, &x->f), -EINVAL);
		assert_int_equal(x->f.retry, FAULT_FINAL);
	}
}

static void a_store_that_is_unmounted_is_not_written_below_its_mount_point(void **state)
{
	struct scratch *x = *state;
	char path[256], away[256];

	put(x, "k", "1");
	path_in_store(x, "", path);
	snprintf(away, sizeof(away), "%s/away", x->dir);
	path[strlen(path) - 1] = '\0';
	assert_int_equal(rename(path, away), 0); /* stands for umount -l */
	assert_int_equal(mkdir(path, 0777), 0);
	put(x, "l", "2");
	assert_false(leftover_is_there(x, "l"));
	snprintf(away, sizeof(away), "%s/away/l", x->dir);
	assert_int_equal(access(away, F_OK), 0);
}

static void a_file_in_place_of_the_directory_is_said(void **state)
{
	struct scratch *x = *state;
	char path[256];
	int fd;

	path_in_store(x, "", path);
	path[strlen(path) - 1] = '\0';
	fd = open(path, O_CREAT | O_WRONLY, 0666);
	assert_true(fd >= 0);
	close(fd);
	assert_true(objects_put(x->objects, "k", "x", 1, false, 0, &x->f) < 0);
	assert_int_equal(x->f.retry, FAULT_FINAL);
	assert_non_null(strstr(x->f.text, "Not a directory"));
}

static void count(struct object_req *r)
{
	++*(int *)r->arg;
}

static void a_cancelled_request_lets_go_of_the_callers_memory(void **state)
{
	struct scratch *x = *state;
	size_t len = 4 << 20;
	uint8_t *data = malloc(len);
	struct iovec iov = {data, len};
	int calls = 0;
	struct object_req r = {
		.op = OBJECT_PUT,
		.key = "k",
		.iov = &iov,
		.iovs = 1,
		.done = count,
		.arg = &calls,
	};

	memset(data, 'x', len);
	objects_start(x->objects, &r);
	assert_int_equal(calls, 0);
	objects_cancel(x->objects, &r);
	free(data); /* the sanitizer watches whether a thread still reads it */
	assert_int_equal(calls, 1);
	assert_int_equal(r.rc, -ECANCELED);
	objects_cancel(x->objects, &r);
	assert_int_equal(calls, 1);
	object_req_fini(&r);
}

static void a_stop_cancels_what_is_under_way_and_what_comes_later(void **state)
{
	struct scratch *x = *state;
	int calls = 0;
	struct object_req r = {.op = OBJECT_GET, .key = "k", .done = count, .arg = &calls};

	put(x, "k", "x");
	objects_start(x->objects, &r);
	objects_stop(x->objects);
	assert_int_equal(calls, 1);
	assert_int_equal(r.rc, -ECANCELED);
	object_req_fini(&r);
	r = (struct object_req){.op = OBJECT_GET, .key = "k"};
	assert_int_equal(objects_do(x->objects, &r, NULL), -ECANCELED);
	object_req_fini(&r);
	objects_stop(NULL);
}

static void closing_cancels_what_is_under_way(void **state)
{
	struct scratch *x = *state;
	struct object_req r[3];
	int calls = 0;

	put(x, "k", "x");
	for (int i = 0; i < 3; i++) {
		r[i] = (struct object_req){
			.op = OBJECT_GET, .key = "k", .done = count, .arg = &calls};
		objects_start(x->objects, &r[i]);
	}
	objects_close(x->objects);
	x->objects = NULL;
	assert_int_equal(calls, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(r[i].rc, -ECANCELED);
		object_req_fini(&r[i]);
	}
}

static void a_deadline_in_the_past_is_etimedout(void **state)
{
	struct scratch *x = *state;
	struct object_req r = {.op = OBJECT_GET, .key = "k", .deadline_ns = 1};

	assert_int_equal(objects_do(x->objects, &r, &x->f), -ETIMEDOUT);
	assert_non_null(strstr(x->f.text, "GET k"));
	object_req_fini(&r);
}

static void requests_are_counted(void **state)
{
	struct scratch *x = *state;
	struct store_counts c;
	char keys[64];

	put(x, "k", "12345");
	assert_holds(x, "k", "12345");
	list(x, "", NULL, 0, keys);
	store_counts(x->store, &c);
	assert_int_equal(c.put, 1);
	assert_int_equal(c.get, 1);
	assert_int_equal(c.list, 1);
	assert_int_equal(c.bytes_out, 5);
	assert_int_equal(c.bytes_in, 5);
	assert_int_equal(c.errors, 0);
	assert_int_equal(c.retries, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_put_is_read),
		TEST(pieces_are_put_as_one),
		TEST(a_missing_key_is_enoent_and_named),
		TEST(a_key_is_created_once),
		TEST(of_eight_threads_that_create_a_key_exactly_one_wins),
		TEST(keys_are_listed_in_order_of_bytes),
		TEST(a_list_begins_where_it_is_told),
		TEST(what_a_killed_writer_leaves_is_never_listed),
		TEST(old_leftovers_are_swept_and_young_ones_kept),
		TEST(no_temporary_file_stays_behind),
		TEST(a_range_is_read_into_the_callers_memory),
		TEST(a_range_beyond_the_end_is_eio_and_no_short_read),
		TEST(deleting_twice_is_no_fault),
		TEST(a_key_that_leaves_the_store_is_refused),
		TEST(a_store_that_is_unmounted_is_not_written_below_its_mount_point),
		TEST(a_file_in_place_of_the_directory_is_said),
		TEST(a_cancelled_request_lets_go_of_the_callers_memory),
		TEST(a_stop_cancels_what_is_under_way_and_what_comes_later),
		TEST(closing_cancels_what_is_under_way),
		TEST(a_deadline_in_the_past_is_etimedout),
		TEST(requests_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
