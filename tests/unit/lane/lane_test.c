/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes on a real store, a directory, over both kinds of loop. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/lane/rig.h"

static char dir[64], uri[96];

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/holdfast-unit-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(uri, sizeof(uri), "file://%s/store", dir);
	return setenv("HOLDFAST_LOOP", *state, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int end_dir(void **state)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* /tmp is swept anyway */
	return unsetenv("HOLDFAST_LOOP");
}

static void what_one_machine_sends_another_reads(void **state)
{
	const size_t len = 50 * MIB + 99;
	scoped(free) uint8_t *data = rig_bytes(len, 1);
	scoped(free) uint8_t *got = calloc(1, len);
	scoped(fd_close) int fd = rig_file(data, len);
	struct upload u = {.fd = fd, .len = len, .by_content = true};
	struct rig *g = rig_new(uri, 2, true);

	assert_int_equal(rig_upload(g, &u), 0);
	rig_free(g);
	g = rig_new(uri, 2, true);
	assert_int_equal(rig_fetch(g, &u.out, got, NULL), 0);
	assert_true(memcmp(got, data, len) == 0);
	rig_free(g);
	extents_fini(&u.out);
}

static void a_file_on_disk_is_read_while_it_is_written_to(void **state)
{
	const size_t len = 12 * MIB;
	scoped(free) uint8_t *data = rig_bytes(len, 1);
	scoped(free) uint8_t *got = calloc(1, len);
	scoped(fd_close) int fd = -1;
	struct rig *g = rig_new(uri, 2, false);
	struct upload u;
	char path[96];

	snprintf(path, sizeof(path), "%s/content", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(pwrite(fd, data, len, 0), len);
	assert_int_equal(pwrite(fd, "more", 4, (off_t)len + 50 * (off_t)MIB),
			 4); /* behind what is sent */
	u = (struct upload){.fd = fd, .len = len};
	assert_int_equal(rig_upload(g, &u), 0);
	assert_int_equal(u.out.n, 12);
	assert_int_equal(rig_fetch(g, &u.out, got, NULL), 0);
	assert_true(memcmp(got, data, len) == 0);
	rig_free(g);
	extents_fini(&u.out);
}

static void a_descriptor_that_cannot_be_read_fails_the_upload(void **state)
{
	scoped(fd_close) int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct rig *g = rig_new(uri, 1, false);
	struct upload u = {.fd = fd, .len = 100};

	assert_int_equal(rig_upload(g, &u), -EBADF);
	assert_non_null(strstr(u.fault.text, "upload of bytes 0 to 100"));
	rig_free(g);
}

static void a_store_that_is_in_the_way_fails_the_upload_by_name(void **state)
{
	scoped(fd_close) int fd = rig_file("hello", 5);
	struct upload u = {.fd = fd, .len = 5};
	struct rig *g;
	char path[96];

	snprintf(path, sizeof(path), "%s/store", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/store/packs", dir);
	close(creat(path, 0600));
	g = rig_new(uri, 1, false);
	assert_true(rig_upload(g, &u) < 0);
	assert_non_null(strstr(u.fault.text, "packs/"));
	rig_free(g);
}

#define TEST(name, loop)                                                   \
	{                                                                  \
#name " (" loop ")", name, make_dir, end_dir, (void *)loop \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_one_machine_sends_another_reads, "io_uring"),
		TEST(what_one_machine_sends_another_reads, "epoll"),
		TEST(a_file_on_disk_is_read_while_it_is_written_to, "io_uring"),
		TEST(a_file_on_disk_is_read_while_it_is_written_to, "epoll"),
		TEST(a_descriptor_that_cannot_be_read_fails_the_upload, "io_uring"),
		TEST(a_descriptor_that_cannot_be_read_fails_the_upload, "epoll"),
		TEST(a_store_that_is_in_the_way_fails_the_upload_by_name, "epoll"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
