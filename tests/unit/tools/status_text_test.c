/* SPDX-License-Identifier: Apache-2.0 */
/* A status in words, from the JSON that a mount sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/client.h"
#include "tools/status_text.h"

static void assert_words(void (*render)(const json_t *, struct buf *), const char *json,
			 const char *want)
{
	scoped(json_unref) json_t *status = json_loads(json, 0, NULL);
	scoped(buf_fini) struct buf out = BUF_EMPTY;

	assert_non_null(status);
	render(status, &out);
	assert_string_equal(buf_str(&out), want);
}

static void a_mount_at_rest_has_nothing_to_explain(void **state)
{
	assert_words(status_text,
		     "{\"store\":\"s3://b/run\",\"mode\":\"read-write\",\"story\":\"continues "
		     "commit 41\","
		     "\"commit\":42,\"good\":42,\"good_age_seconds\":0.0,\"dirty_bytes\":0,"
		     "\"flush_seconds\":0.0,\"objection\":\"\",\"held_by\":\"\",\"error\":\"\","
		     "\"errors\":3,"
		     "\"cache\":\"/c\",\"cache_bytes\":1500}",
		     "store    s3://b/run\n"
		     "mode     read-write; continues commit 41\n"
		     "good     commit 42, which holds everything\n"
		     "unsent   nothing\n"
		     "cache    /c, 1.5 KB\n");
}

static void a_slot_says_which_it_is(void **state)
{
	assert_words(status_text,
		     "{\"store\":\"s3://b/run\",\"mode\":\"read-write\",\"slot\":1,\"slots\":4,\"attempt\":2,"
		     "\"story\":\"joins attempt 2, continues commit 41\","
		     "\"commit\":42,\"good\":42,\"good_age_seconds\":0.0,\"dirty_bytes\":0,"
		     "\"flush_seconds\":0.0,\"objection\":\"\",\"held_by\":\"\",\"error\":\"\","
		     "\"errors\":0,\"cache\":\"/c\",\"cache_bytes\":1500}",
		     "store    s3://b/run\n"
		     "mode     read-write, slot 1 of 4; joins attempt 2, continues commit 41\n"
		     "good     commit 42, which holds everything\n"
		     "unsent   nothing\n"
		     "cache    /c, 1.5 KB\n");
}

static void what_is_unsent_and_why_is_said(void **state)
{
	assert_words(
		status_text,
		"{\"store\":\"s3://b/run\",\"mode\":\"fenced\",\"why_read_only\":\"host-2 has it\","
		"\"commit\":44,\"good\":42,\"good_age_seconds\":12.4,\"dirty_bytes\":1300000000,"
		"\"rate_bytes_per_second\":310000000,\"flush_seconds\":4.19,"
		"\"objection\":\"step-2/ lacks a.pt\",\"held_by\":\"b.pt\","
		"\"error\":\"PUT: 403\",\"errors\":3,\"failing_seconds\":180,"
		"\"cache\":\"/c\",\"cache_bytes\":0}",
		"store    s3://b/run\n"
		"mode     fenced; host-2 has it\n"
		"good     commit 42, 12 s old\n"
		"unsent   1.3 GB, 4.2 s to flush at 310 MB/s\n"
		"waiting  step-2/ lacks a.pt\n"
		"error    PUT: 403; for 3.0 min now; 3 errors in all\n"
		"cache    /c, 0 bytes\n");
}

static void writers_without_room_are_counted(void **state)
{
	static const char json[] = "{\"store\":\"s3://b/run\",\"mode\":\"read-write\",\"commit\":2,"
				   "\"good\":2,\"waiting_writers\":3,\"waiting_why\":\"the disk of "
				   "the cache is full\",\"cache\":\"/c\",\"cache_bytes\":0}";

	assert_words(status_text, json,
		     "store    s3://b/run\n"
		     "mode     read-write\n"
		     "good     commit 2, which holds everything\n"
		     "unsent   nothing\n"
		     "full     3 writers wait: the disk of the cache is full\n"
		     "cache    /c, 0 bytes\n");
	assert_words(status_line, json,
		     "good commit 2, which holds everything; unsent nothing; "
		     "full: 3 writers wait: the disk of the cache is full\n");
}

static void a_line_a_second_says_the_same_in_short(void **state)
{
	assert_words(status_line,
		     "{\"commit\":3,\"good\":0,\"dirty_bytes\":2000,\"flush_seconds\":null,"
		     "\"held_by\":\"b.pt\",\"error\":\"PUT: 403\"}",
		     "good none yet; the newest commit is 3; unsent 2.0 KB, time to flush not "
		     "known yet; "
		     "waiting: b.pt; error: PUT: 403\n");
}

static void what_an_earlier_mount_made_good_does_not_hold_what_is_unsent(void **state)
{
	assert_words(status_line,
		     "{\"commit\":3,\"good\":3,\"good_age_seconds\":0.0,\"dirty_bytes\":5,\"flush_"
		     "seconds\":0.0}",
		     "good commit 3; unsent 5 bytes, 0.0 s to flush at 0 bytes/s\n");
}

static void a_mount_that_only_looks_has_nothing_to_send(void **state)
{
	assert_words(
		status_text,
		"{\"store\":\"s3://b/run\",\"mode\":\"read-only\",\"story\":\"began with commit 4\","
		"\"commit\":9,\"good\":9,\"cache\":\"/c\",\"cache_bytes\":0,\"follow\":\"good\","
		"\"shown_age_seconds\":12.0,\"looked_seconds\":3.0}",
		"store    s3://b/run\n"
		"mode     read-only; began with commit 4\n"
		"shows    commit 9, 12 s old; follows the good moment, last looked 3.0 s ago\n"
		"cache    /c, 0 bytes\n");
	assert_words(status_line, "{\"mode\":\"read-only\",\"commit\":0,\"follow\":\"off\"}",
		     "shows nothing, there is no good moment; does not follow\n");
	assert_words(status_line,
		     "{\"mode\":\"read-only\",\"commit\":3,\"follow\":\"newest\",\"looked_seconds\":90.0,"
		     "\"error\":\"LIST log/: refused\",\"failing_seconds\":89.0}",
		     "shows commit 3; follows the newest commit, last looked 90 s ago; error: LIST log/: refused; for 89 s now\n");
}

static void a_status_of_another_version_is_shown_as_far_as_it_goes(void **state)
{
	assert_words(status_line, "{\"dirty_bytes\":\"many\",\"good\":null}",
		     "good none yet; unsent nothing\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_at_rest_has_nothing_to_explain),
		cmocka_unit_test(a_slot_says_which_it_is),
		cmocka_unit_test(what_is_unsent_and_why_is_said),
		cmocka_unit_test(writers_without_room_are_counted),
		cmocka_unit_test(a_line_a_second_says_the_same_in_short),
		cmocka_unit_test(what_an_earlier_mount_made_good_does_not_hold_what_is_unsent),
		cmocka_unit_test(a_mount_that_only_looks_has_nothing_to_send),
		cmocka_unit_test(a_status_of_another_version_is_shown_as_far_as_it_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
