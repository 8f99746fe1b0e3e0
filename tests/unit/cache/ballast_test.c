/* SPDX-License-Identifier: Apache-2.0 */
/* Ballast is given piece by piece, for want of room only, and made whole again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/cache/ballast.h"
#include "tests/unit/cache/folder.h"

#define BYTES (1u << 20)

static struct ballast *opened(const struct folder *x, uint64_t bytes)
{
	struct ballast *b;

	assert_int_equal(ballast_open(x->fd, bytes, &b, NULL), 0);
	return b;
}

static void it_helps_for_want_of_room_until_all_is_given(void **state)
{
	scoped(ballast_close) struct ballast *b = opened(*state, BYTES);
	unsigned given = 0;

	assert_int_equal(ballast_bytes(b), BYTES);
	assert_false(ballast_helps(b, 0));
	assert_false(ballast_helps(b, -EIO));
	assert_true(ballast_is_whole(b));
	while (ballast_helps(b, given % 2 ? -EDQUOT : -ENOSPC))
		assert_int_equal(ballast_bytes(b), BYTES - ++given * (BYTES / 16));
	assert_int_equal(given, 16);
	assert_false(ballast_is_whole(b));
	assert_true(ballast_fill(b));
	assert_int_equal(ballast_bytes(b), BYTES);
}

static void what_was_given_is_known_to_the_next_mount_and_made_again(void **state)
{
	struct folder *x = *state;
	struct ballast *b = opened(x, BYTES);
	struct stat st;

	assert_true(ballast_helps(b, -ENOSPC));
	ballast_close(b);
	assert_int_equal(fstatat(x->fd, "ballast", &st, 0), 0);
	assert_int_equal(st.st_size, BYTES - BYTES / 16);
	b = opened(x, BYTES / 2);
	assert_int_equal(ballast_bytes(b), BYTES / 2);
	ballast_close(b);
	assert_int_equal(fstatat(x->fd, "ballast", &st, 0), 0);
	assert_int_equal(st.st_size, BYTES / 2);
}

static void without_one_nothing_helps_and_nothing_is_lacking(void **state)
{
	scoped(ballast_close) struct ballast *tiny = opened(*state, 100);

	assert_false(ballast_helps(NULL, -ENOSPC));
	assert_true(ballast_is_whole(NULL));
	assert_false(ballast_helps(tiny, -ENOSPC));
	assert_true(ballast_fill(tiny));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_helps_for_want_of_room_until_all_is_given,
						folder_make, folder_end),
		cmocka_unit_test_setup_teardown(
			what_was_given_is_known_to_the_next_mount_and_made_again, folder_make,
			folder_end),
		cmocka_unit_test_setup_teardown(
			without_one_nothing_helps_and_nothing_is_lacking, folder_make, folder_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
