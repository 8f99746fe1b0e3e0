/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made aside. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/aside.h"

struct meeting {
	pthread_barrier_t both;
	int answer;
};

/* Returns only if somebody else comes, too. */
static int meet(void *arg)
{
	struct meeting *m = arg;

	pthread_barrier_wait(&m->both);
	return m->answer;
}

static void it_runs_beside_its_caller(void **state)
{
	struct meeting m = {.answer = -EIO};
	struct aside a;

	pthread_barrier_init(&m.both, NULL, 2);
	alarm(10); /* a call that is made later never meets us */
	aside_start(&a, meet, &m);
	pthread_barrier_wait(&m.both);
	assert_int_equal(aside_end(&a), -EIO);
	alarm(0);
	pthread_barrier_destroy(&m.both);
}

static int own_thread(void *arg)
{
	*(pthread_t *)arg = pthread_self();
	return 7;
}

static void without_a_thread_to_be_had_it_is_made_by_the_caller(void **state)
{
	pthread_t where;
	struct aside a = {.call = own_thread, .arg = &where};

	assert_int_equal(aside_end(&a), 7);
	assert_true(pthread_equal(where, pthread_self()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_runs_beside_its_caller),
		cmocka_unit_test(without_a_thread_to_be_had_it_is_made_by_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
