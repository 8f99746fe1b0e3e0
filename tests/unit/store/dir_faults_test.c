/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file:// on file systems that misbehave.  The linker sends the calls through here: NFS, whose
 * reply is lost and whose call is sent again, and disks that are full or broken.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/store/scratch.h"

static int lost_replies; /* of link and rename */
static int fsync_says;   /* errno of the next fsync of a file; 0: none */
static int files_synced, dirs_synced;

int __real_linkat(int a, const char *from, int b, const char *to, int flags);
int __wrap_linkat(int a, const char *from, int b, const char *to, int flags);
int __real_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_linkat(int a, const char *from, int b, const char *to, int flags)
{
	int rc = __real_linkat(a, from, b, to, flags);

	if (lost_replies-- > 0)
		return __real_linkat(a, from, b, to, flags); /* sent again */
	return rc;
}

int __wrap_renameat(int a, const char *from, int b, const char *to)
{
	int rc = __real_renameat(a, from, b, to);

	if (lost_replies-- > 0)
		return __real_renameat(a, from, b, to);
	return rc;
}

int __wrap_fsync(int fd)
{
	struct stat st;
	int says = fsync_says;

	if (fstat(fd, &st) < 0)
		return -1;
	if (S_ISDIR(st.st_mode)) {
		dirs_synced++;
		return __real_fsync(fd);
	}
	files_synced++;
	if (says == 0)
		return __real_fsync(fd);
	fsync_says = 0;
	errno = says;
	return -1;
}

static int calm_down(void **state)
{
	lost_replies = fsync_says = files_synced = dirs_synced = 0;
	return scratch_make(state);
}

static int put(struct scratch *x, const char *key, const char *data, bool create_only)
{
	return objects_put(x->objects, key, data, strlen(data), create_only, 0, &x->f);
}

static void assert_holds(struct scratch *x, const char *key, const char *want)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	assert_int_equal(objects_get(x->objects, key, 0, &body, &x->f), 0);
	assert_int_equal(body.len, strlen(want));
	assert_memory_equal(body.data, want, body.len);
}

static void a_link_whose_reply_is_lost_is_still_ours(void **state)
{
	struct scratch *x = *state;

	lost_replies = 1;
	assert_int_equal(put(x, "k", "mine", true), 0);
	lost_replies = 1;
	assert_int_equal(put(x, "k", "theirs", true), -EEXIST);
	assert_holds(x, "k", "mine");
}

static void a_rename_whose_reply_is_lost_is_still_done(void **state)
{
	struct scratch *x = *state;

	assert_int_equal(put(x, "a/k", "1", false), 0);
	lost_replies = 1;
	assert_int_equal(put(x, "a/k", "2", false), 0);
	assert_holds(x, "a/k", "2");
}

static void a_full_disk_is_said_and_leaves_nothing(void **state)
{
	struct scratch *x = *state;
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	char keys[300];

	fsync_says = ENOSPC;
	assert_int_equal(put(x, "log/1", "x", true), -ENOSPC);
	assert_int_equal(x->f.retry, FAULT_FINAL);
	assert_non_null(strstr(x->f.text, "log/1"));
	assert_non_null(strstr(x->f.text, "free some space"));
	assert_int_equal(objects_get(x->objects, "log/1", 0, &body, &x->f), -ENOENT);
	snprintf(keys, sizeof(keys), "test -z \"$(ls -A %s/store/.tmp)\"", x->dir);
	assert_int_equal(system(keys), 0);
}

static void a_stale_handle_is_tried_again(void **state)
{
	struct scratch *x = *state;
	struct store_counts n;

	fsync_says = ESTALE;
	assert_int_equal(put(x, "k", "x", true), 0);
	assert_holds(x, "k", "x");
	store_counts(x->store, &n);
	assert_int_equal(n.retries, 1);
}

/* Our own memory stands for the disk: there is nothing to read at its beginning. */
static void a_disk_that_cannot_read_is_eio_in_the_end(void **state)
{
	struct scratch *x = *state;
	struct object_req r = {.op = OBJECT_GET, .key = "bad", .len = 4};
	char path[128];

	assert_int_equal(put(x, "k", "x", true), 0);
	snprintf(path, sizeof(path), "%s/store/bad", x->dir);
	assert_int_equal(symlink("/proc/self/mem", path), 0);
	assert_int_equal(objects_do(x->objects, &r, &x->f), -EIO);
	assert_int_equal(x->f.retry, FAULT_FINAL);
	assert_non_null(strstr(x->f.text, "/bad: Input/output error"));
	object_req_fini(&r);
}

/* The file before its name, the name before success; a new directory's own name as well. */
static void file_and_name_are_synced(void **state)
{
	struct scratch *x = *state;

	assert_int_equal(put(x, "k", "x", true), 0);
	assert_int_equal(files_synced, 1);
	assert_int_equal(dirs_synced, 1);
	assert_int_equal(put(x, "k", "y", false), 0);
	assert_int_equal(files_synced, 2);
	assert_int_equal(dirs_synced, 2);
	assert_int_equal(put(x, "a/b/k", "x", true), 0);
	assert_int_equal(files_synced, 3);
	assert_int_equal(dirs_synced, 5);
	assert_int_equal(put(x, "k", "z", true), -EEXIST); /* what it lost to is made durable too */
	assert_int_equal(dirs_synced, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, calm_down, scratch_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_link_whose_reply_is_lost_is_still_ours),
		TEST(a_rename_whose_reply_is_lost_is_still_done),
		TEST(a_full_disk_is_said_and_leaves_nothing),
		TEST(a_stale_handle_is_tried_again),
		TEST(a_disk_that_cannot_read_is_eio_in_the_end),
		TEST(file_and_name_are_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
