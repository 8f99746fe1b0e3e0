/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a store's moments is shown, and what is found there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/store/bucket.h"
#include "tools/look.h"
#include "tools/tools.h"

/* A log by hand: each commit makes one file more, so a listing says which state it is of. */
static void open_store(struct bucket *b)
{
	scoped(buf_fini) struct buf json = BUF_EMPTY;

	bucket_open(b);
	assert_int_equal(store_format_encode(&b->format, &json), 0);
	assert_int_equal(objects_put(b->objects, "store.json", json.data, json.len, true, 0, NULL),
			 0);
}

static void add_inode(struct run_builder *run, uint64_t id, uint32_t mode, char *symlink)
{
	struct inode_rec i = {.id = id,
			      .home = ROOT_ID,
			      .symlink = symlink,
			      .attr = {.mode = mode,
				       .nlink = 1,
				       .uid = 12,
				       .gid = 34,
				       .size = symlink ? strlen(symlink) : 0,
				       .mtime_ns = INT64_C(1700000000000000000)}};

	assert_int_equal(inode_rec_put(run, &i, 0), 0);
}

static void add_name(struct run_builder *run, uint64_t dir, const char *name, uint64_t id,
		     uint8_t type)
{
	struct name_rec n = {.id = id, .home = ROOT_ID, .type = type};
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];

	assert_int_equal(name_rec_encode(&n, &value), 0);
	assert_int_equal(run_builder_add(run, key, key_of_name(dir, name, strlen(name), key),
					 value.data, value.len),
			 0);
}

static struct record_head head(const struct bucket *b, uint8_t kind, uint64_t number, uint64_t from,
			       uint64_t good)
{
	return (struct record_head){.store = b->format.id,
				    .number = number,
				    .kind = kind,
				    .slots = 1,
				    .fence = kind == RECORD_COMMIT ? 1 : number,
				    .from = from,
				    .good = good};
}

static void append_run(struct bucket *b, const struct record_head *h, struct run_builder *builder)
{
	scoped(run_unref) struct run *run = NULL;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	assert_int_equal(run_builder_finish(builder, &run), 0);
	assert_int_equal(run_encode(run, &body), 0);
	bucket_append(b, h, &body);
}

static void commit(struct bucket *b, uint64_t number, uint64_t from, uint64_t good,
		   const char *name)
{
	scoped(run_builder_free) struct run_builder *run = run_builder_new();
	struct record_head h = head(b, RECORD_COMMIT, number, from, good);

	add_inode(run, ROOT_ID, S_IFDIR | 0755, NULL);
	add_inode(run, 100 + number, S_IFREG | 0640, NULL);
	add_name(run, ROOT_ID, name, 100 + number, DT_REG);
	append_run(b, &h, run);
}

static void join(struct bucket *b, uint64_t number, uint64_t from, uint64_t good)
{
	struct record_head h = head(b, RECORD_JOIN, number, from, good);

	bucket_append(b, &h, NULL);
}

/* What a verb prints on stdout (or stderr). */
static int run_ls(const struct bucket *b, const char *flags, const char *rest, int fd, char *out,
		  size_t cap)
{
	char ref[128], *argv[] = {"ls", (char *)flags, ref, NULL};
	FILE *to = tmpfile(), *stream = fd == STDOUT_FILENO ? stdout : stderr;
	int saved = dup(fd), rc;
	size_t n;

	(void)snprintf(ref, sizeof(ref), "file://%s%s", b->dir, rest);
	assert_non_null(to);
	(void)fflush(stream);
	assert_true(dup2(fileno(to), fd) >= 0);
	rc = cmd_ls(3, argv);
	(void)fflush(stream);
	(void)dup2(saved, fd);
	fd_close(saved);
	rewind(to);
	n = fread(out, 1, cap - 1, to);
	out[n] = '\0';
	(void)fclose(to);
	return rc;
}

static void assert_lists(const struct bucket *b, const char *flags, const char *rest,
			 const char *want)
{
	char out[1024];

	assert_int_equal(run_ls(b, flags, rest, STDOUT_FILENO, out, sizeof(out)), VERB_DONE);
	assert_string_equal(out, want);
}

static void assert_complains(const struct bucket *b, const char *rest, const char *want)
{
	char out[1024];

	assert_int_equal(run_ls(b, "-R", rest, STDERR_FILENO, out, sizeof(out)), VERB_FAILED);
	assert_non_null(strstr(out, want));
	assert_non_null(strstr(out, b->dir));
	assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

static void an_empty_store_is_an_empty_directory(void **state)
{
	struct bucket b;

	open_store(&b);
	assert_lists(&b, "--", "", "");
	join(&b, 1, 0, 0);
	assert_lists(&b, "--", "@newest", "");
	assert_complains(&b, ":a", "a: no such file or directory");
	bucket_close(&b);
}

static void the_good_moment_is_shown_unless_another_is_asked_for(void **state)
{
	struct bucket b;

	open_store(&b);
	join(&b, 1, 0, 0);
	commit(&b, 2, 0, 0, "two");
	assert_complains(&b, "", "no good moment yet; @newest is commit 2");
	commit(&b, 3, 2, 3, "three");
	commit(&b, 4, 3, 3, "four");
	assert_lists(&b, "--", "", "three\ntwo\n");
	assert_lists(&b, "--", "@good:", "three\ntwo\n");
	assert_lists(&b, "--", "@newest", "four\nthree\ntwo\n");
	assert_lists(&b, "--", "@2", "two\n");
	assert_complains(&b, "@5", "no commit 5: the newest record is 4");
	bucket_close(&b);
}

static void a_writer_that_has_only_joined_changes_nothing(void **state)
{
	struct bucket b;

	open_store(&b);
	join(&b, 1, 0, 0);
	commit(&b, 2, 0, 2, "two");
	join(&b, 3, 2, 2);
	assert_lists(&b, "--", "", "two\n");
	assert_lists(&b, "--", "@newest", "two\n");
	bucket_close(&b);
}

static void directories_are_entered_and_links_are_not(void **state)
{
	struct bucket b;
	scoped(run_builder_free) struct run_builder *run = run_builder_new();
	struct record_head h;
	char out[1024];

	open_store(&b);
	join(&b, 1, 0, 0);
	h = head(&b, RECORD_COMMIT, 2, 0, 2);
	add_inode(run, ROOT_ID, S_IFDIR | 0755, NULL);
	add_inode(run, 50, S_IFDIR | 02770, NULL);
	add_inode(run, 51, S_IFREG | 04711, NULL);
	add_inode(run, 52, S_IFLNK | 0777, "sub/f");
	add_name(run, ROOT_ID, "sub", 50, DT_DIR);
	add_name(run, 50, "f", 51, DT_REG);
	add_name(run, ROOT_ID, "last", 52, DT_LNK);
	append_run(&b, &h, run);

	assert_lists(&b, "--", ":sub/", "f\n");
	assert_lists(&b, "--", ":sub/f", "sub/f\n");
	assert_lists(&b, "-R", "", "/:\nlast\nsub\n\n/sub:\nf\n");
	assert_complains(&b, ":sub/f/g", "sub/f/g: not a directory");
	assert_complains(&b, ":last/g", "last/g: not a directory");
	assert_complains(&b, ":sub/x", "sub/x: no such file or directory");
	(void)setenv("TZ", "UTC", 1);
	assert_lists(&b, "-l", ":last",
		     "lrwxrwxrwx   1    12    34            5 2023-11-14 22:13:20 last -> sub/f\n");
	assert_lists(&b, "-l", ":sub/f",
		     "-rws--x--x   1    12    34            0 2023-11-14 22:13:20 sub/f\n");
	assert_int_equal(run_ls(&b, "-l", "", STDOUT_FILENO, out, sizeof(out)), VERB_DONE);
	assert_non_null(
		strstr(out, "drwxrws---   1    12    34            0 2023-11-14 22:13:20 sub\n"));
	bucket_close(&b);
}

static void where_there_is_no_store_the_cure_is_named(void **state)
{
	struct bucket b;

	bucket_open(&b); /* without a store.json */
	assert_complains(&b, "", "holdfast mkfs");
	bucket_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_store_is_an_empty_directory),
		cmocka_unit_test(the_good_moment_is_shown_unless_another_is_asked_for),
		cmocka_unit_test(a_writer_that_has_only_joined_changes_nothing),
		cmocka_unit_test(directories_are_entered_and_links_are_not),
		cmocka_unit_test(where_there_is_no_store_the_cure_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
