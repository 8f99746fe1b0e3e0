/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics file, held against the rules of Prometheus' text format and of its names. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/metrics.h"

static const struct metrics sample = {
	.mount = "/ckpt",
	.version = "1.0",
	.store = "s3://b/p",
	.mode = "read-write",
	.dirty_bytes = 12345,
	.flush_s = 1.5,
	.fenced = true,
	.commits = UINT64_MAX,
	.puts = 7,
};

static char *text_of(const struct metrics *m)
{
	scoped(buf_fini) struct buf out = BUF_EMPTY;
	char *text;

	metrics_text(m, &out);
	assert_true(buf_ok(&out));
	text = strdup(buf_str(&out));
	assert_non_null(text);
	return text;
}

static void assert_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line \"%s\" in:\n%s", line, text);
}

static void figures_are_where_they_belong(void **state)
{
	scoped(free) char *text = text_of(&sample);

	assert_line(text, "holdfast_info{mount=\"/ckpt\",version=\"1.0\",store=\"s3://b/p\","
			  "mode=\"read-write\"} 1");
	assert_line(text, "# TYPE holdfast_dirty_bytes gauge");
	assert_line(text, "holdfast_dirty_bytes{mount=\"/ckpt\"} 12345");
	assert_line(text, "holdfast_flush_seconds{mount=\"/ckpt\"} 1.500");
	assert_line(text, "holdfast_fenced{mount=\"/ckpt\"} 1");
	assert_line(text, "holdfast_read_only{mount=\"/ckpt\"} 0");
	assert_line(text, "# TYPE holdfast_commits_total counter");
	assert_line(text, "holdfast_commits_total{mount=\"/ckpt\"} 18446744073709551615");
	assert_line(text, "holdfast_store_requests_total{mount=\"/ckpt\",method=\"put\"} 7");
}

static void what_is_unknown_is_not_a_number(void **state)
{
	struct metrics m = sample;
	char *text;

	m.flush_s = NAN;
	text = text_of(&m);
	assert_line(text, "holdfast_flush_seconds{mount=\"/ckpt\"} NaN");
	free(text);
}

static void labels_hold_any_path(void **state)
{
	struct metrics m = sample;
	char *text;

	m.mount = "/a\"b\\c\nd\xff\xc3\xa9";
	m.store = NULL;
	text = text_of(&m);
	assert_line(text, "holdfast_dirty_bytes{mount=\"/a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9\"} "
			  "12345");
	assert_non_null(strstr(text, "store=\"\""));
	free(text);
}

static bool ends_with(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

/* HELP, TYPE, then its samples and no other's; a name once; counters and nothing else end in
 * _total. */
static void every_family_keeps_the_rules(void **state)
{
	scoped(free) char *text = text_of(&sample);
	char names[64][64], *rest = text, *line;
	size_t n = 0, samples = 1;

	assert_true(ends_with(text, "\n"));
	while ((line = strsep(&rest, "\n")) && *line) {
		char type[16], help[256];

		if (*line != '#') {
			assert_true(n > 0 && strncmp(line, names[n - 1], strlen(names[n - 1])) == 0);
			assert_int_equal(line[strlen(names[n - 1])], '{');
			/* No time: the collector refuses it. */
			assert_null(strchr(strrchr(line, '}') + 2, ' '));
			samples++;
			continue;
		}
		assert_true(samples > 0);
		samples = 0;
		assert_int_equal(sscanf(line, "# HELP %63s %255[^\n]", names[n], help), 2);
		assert_true(ends_with(help, ".") && !strchr(help, '\\'));
		line = strsep(&rest, "\n");
		assert_int_equal(sscanf(line, "# TYPE %63s %15s", help, type), 2);
		assert_string_equal(help, names[n]);
		assert_int_equal(strspn(help, "abcdefghijklmnopqrstuvwxyz_"), strlen(help));
		assert_int_equal(strcmp(type, "counter") == 0, ends_with(help, "_total"));
		for (size_t i = 0; i < n; i++)
			assert_string_not_equal(names[i], names[n]);
		n++;
	}
	assert_true(n > 20 && samples > 0);
}

/* ---- the file ---- */

struct place {
	char dir[64], path[96], aside[112];
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->dir, "/tmp/holdfast-metrics.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->path, sizeof(p->path), "%s/holdfast.prom", p->dir);
	(void)snprintf(p->aside, sizeof(p->aside), "%s.new", p->path);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;

	(void)unlink(p->path); /* not every test leaves them */
	(void)unlink(p->aside);
	(void)rmdir(p->dir);
	free(p);
	return 0;
}

static void put(const struct place *p, const char *content)
{
	scoped(buf_fini) struct buf text = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	buf_addf(&text, "%s", content);
	if (metrics_write(p->path, &text, &f) < 0)
		fail_msg("%s", f.text);
}

static void assert_content(const struct place *p, const char *content)
{
	char got[64] = "";
	FILE *in = fopen(p->path, "re");

	assert_non_null(in);
	(void)!fgets(got, sizeof(got), in); /* empty is compared, too */
	assert_int_equal(fclose(in), 0);
	assert_string_equal(got, content);
}

static void a_reader_keeps_the_file_that_it_has_open(void **state)
{
	const struct place *p = *state;
	char got[16] = "";
	FILE *in;

	put(p, "old\n");
	in = fopen(p->path, "re");
	assert_non_null(in);
	put(p, "new\n");
	assert_non_null(fgets(got, sizeof(got), in));
	assert_string_equal(got, "old\n");
	assert_int_equal(fclose(in), 0);
	assert_content(p, "new\n");
	assert_int_equal(access(p->aside, F_OK), -1);
}

static void everybody_may_read_it(void **state)
{
	const struct place *p = *state;
	mode_t was = umask(077);
	struct stat st;

	put(p, "x\n");
	(void)umask(was);
	assert_int_equal(stat(p->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
}

/* A link there must not lead us to somebody's file. */
static void what_lies_in_the_way_is_replaced_and_not_followed(void **state)
{
	const struct place *p = *state;

	put(p, "victim\n");
	assert_int_equal(rename(p->path, p->aside), 0);
	assert_int_equal(link(p->aside, p->path), 0);
	put(p, "x\n");
	assert_content(p, "x\n");
	assert_int_equal(symlink(p->path, p->aside), 0);
	put(p, "y\n");
	assert_content(p, "y\n");
}

static void a_failure_names_the_file_and_leaves_the_old_one(void **state)
{
	scoped(buf_fini) struct buf text = BUF_EMPTY;
	const struct place *p = *state;
	struct fault f = FAULT_NONE;

	put(p, "old\n");
	assert_int_equal(mkdir(p->aside, 0700), 0);
	buf_addf(&text, "new\n");
	assert_true(metrics_write(p->path, &text, &f) < 0);
	assert_non_null(strstr(f.text, p->path));
	assert_content(p, "old\n");
	assert_int_equal(rmdir(p->aside), 0);
	assert_int_equal(metrics_write("/nonexistent/x.prom", &text, &f), -ENOENT);
}

static void it_is_gone_with_the_mount(void **state)
{
	const struct place *p = *state;

	put(p, "x\n");
	metrics_remove(p->path);
	assert_int_equal(access(p->path, F_OK), -1);
	metrics_remove(p->path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_where_they_belong),
		cmocka_unit_test(what_is_unknown_is_not_a_number),
		cmocka_unit_test(labels_hold_any_path),
		cmocka_unit_test(every_family_keeps_the_rules),
		TEST(a_reader_keeps_the_file_that_it_has_open),
		TEST(everybody_may_read_it),
		TEST(what_lies_in_the_way_is_replaced_and_not_followed),
		TEST(a_failure_names_the_file_and_leaves_the_old_one),
		TEST(it_is_gone_with_the_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
