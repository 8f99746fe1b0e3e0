/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches: every chunk is checked before it is delivered, and what fails says which one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/lane/in.h"
#include "tests/unit/lane/rig.h"

#define LEN (20 * MIB)

/* A rig with one file stored. */
struct stored {
	struct rig *g;
	uint8_t *data;
	struct extents x;
};

static int store_one(void **state)
{
	struct stored *s = calloc(1, sizeof(*s));
	struct upload u;

	s->g = rig_new("s3://fake", 2, false);
	s->data = rig_bytes(LEN, 1);
	u = (struct upload){.fd = rig_file(s->data, LEN), .len = LEN};
	if (rig_upload(s->g, &u) < 0)
		return -1;
	close(u.fd);
	s->x = u.out;
	*state = s;
	return 0;
}

static int end(void **state)
{
	struct stored *s = *state;

	rig_free(s->g);
	fake_reset();
	extents_fini(&s->x);
	free(s->data);
	free(s);
	return 0;
}

/* Fetch the whole file; its bytes have to be right where rc is 0. */
static int fetch_all(struct stored *s, struct fault *f)
{
	scoped(free) uint8_t *to = calloc(1, LEN);
	int rc = rig_fetch(s->g, &s->x, to, f);

	if (rc == 0)
		assert_true(memcmp(to, s->data, LEN) == 0);
	return rc;
}

static struct lanes_counts counts(struct stored *s)
{
	struct lanes_counts c;

	lanes_counts(s->g->lanes, &c);
	return c;
}

static void neighbours_come_in_one_get_and_a_file_in_several(void **state)
{
	struct stored *s = *state;

	assert_int_equal(fetch_all(s, NULL), 0);
	assert_in_range(FAKE_LOOK(fake.gets), 5, 7); /* 20 MiB in pieces of 4, over two packs */
	assert_int_equal(counts(s).fetched_bytes, LEN);
}

static void no_items_end_at_once(void **state)
{
	struct stored *s = *state;
	const struct extents none = EXTENTS_EMPTY;

	assert_int_equal(rig_fetch(s->g, &none, NULL, NULL), 0);
	assert_int_equal(FAKE_LOOK(fake.gets), 0);
}

static void a_bent_chunk_is_asked_for_once_more(void **state)
{
	struct stored *s = *state;

	FAKE_LOOK(fake.bend_gets = 1);
	assert_int_equal(fetch_all(s, NULL), 0);
	assert_in_range(FAKE_LOOK(fake.gets), 6, 8);
}

static void a_chunk_bent_twice_fails_and_is_named(void **state)
{
	struct stored *s = *state;
	struct fault f;
	char key[PACK_KEY_MAX], hash[33];
	struct extents one = {.v = &s->x.v[3], .n = 1};
	scoped(free) uint8_t *to = calloc(1, MIB);

	FAKE_LOOK(fake.bend_gets = 100);
	assert_int_equal(rig_fetch(s->g, &one, to, &f), -EBADMSG);
	assert_int_equal(FAKE_LOOK(fake.gets), 2);
	pack_key(one.v[0].place.pack, key);
	hex_of(one.v[0].hash.b, 16, hash);
	assert_non_null(strstr(f.text, key));
	assert_non_null(strstr(f.text, hash));
	assert_int_equal(f.code, -EBADMSG);
}

static void the_other_chunks_of_the_get_are_delivered_all_the_same(void **state)
{
	struct stored *s = *state;
	scoped(free) uint8_t *to = calloc(1, LEN);
	struct rig_read r;
	struct fetch x;
	size_t bad = 0;

	memcpy(s->x.v[2].hash.b, "not what was sent", 16);
	rig_want(&s->x, to, &x, &r);
	lanes_fetch(s->g->lanes, &x);
	done_wait(&r.done, 1);
	assert_int_equal(x.rc, -EBADMSG);
	assert_int_equal(r.items, s->x.n);
	for (size_t i = 0; i < x.n; i++)
		bad += x.items[i].rc != 0;
	assert_int_equal(bad, 1);
	assert_int_equal(x.items[2].rc, -EBADMSG);
	assert_true(memcmp(to + 3 * MIB, s->data + 3 * MIB, LEN - 3 * MIB) == 0);
	free(x.items);
}

static void a_missing_pack_is_named(void **state)
{
	struct stored *s = *state;
	struct extents one = {.v = &s->x.v[0], .n = 1};
	scoped(free) uint8_t *to = calloc(1, MIB);
	struct fault f;
	char key[PACK_KEY_MAX];

	one.v[0].place.pack = 4711;
	pack_key(4711, key);
	assert_int_equal(rig_fetch(s->g, &one, to, &f), -ENOENT);
	assert_non_null(strstr(f.text, key));
	assert_non_null(strstr(f.text, "404"));
}

static void a_place_that_no_pack_can_hold_is_refused(void **state)
{
	struct stored *s = *state;
	struct extents one = {.v = &s->x.v[0], .n = 1};
	scoped(free) uint8_t *to = calloc(1, MIB);
	struct fault f;

	one.v[0].place.offset = PACK_MAX - 10;
	assert_int_equal(rig_fetch(s->g, &one, to, &f), -EPROTO);
	assert_non_null(strstr(f.text, "packs/"));
	assert_int_equal(FAKE_LOOK(fake.gets), 0);
}

static void what_deliver_says_is_the_result(void **state)
{
	struct stored *s = *state;
	struct rig_read r;
	struct fetch x;

	rig_want(&s->x, NULL, &x, &r);
	r.refuse = -ENOSPC;
	lanes_fetch(s->g->lanes, &x);
	done_wait(&r.done, 1);
	assert_int_equal(x.rc, -ENOSPC);
	assert_int_equal(r.items, s->x.n);
	free(x.items);
}

static void a_chunk_wanted_at_two_places_is_delivered_to_both(void **state)
{
	struct stored *s = *state;
	struct extent twice[2] = {s->x.v[1], s->x.v[1]};
	struct extents x = {.v = twice, .n = 2};
	scoped(free) uint8_t *to = calloc(1, 2 * MIB);

	assert_int_equal(rig_fetch(s->g, &x, to, NULL), 0);
	assert_memory_equal(to, s->data + MIB, MIB);
	assert_memory_equal(to + MIB, s->data + MIB, MIB);
	assert_int_equal(FAKE_LOOK(fake.gets), 1);
}

static void a_cancelled_fetch_ends_with_every_item_told(void **state)
{
	struct stored *s = *state;
	scoped(free) uint8_t *to = calloc(1, LEN);
	struct rig_read r;
	struct fetch x;

	FAKE_LOOK(fake.hold_gets = true);
	rig_want(&s->x, to, &x, &r);
	lanes_fetch(s->g->lanes, &x);
	while (FAKE_LOOK(fake.in_flight) < 2)
		usleep(1000);
	lanes_fetch_cancel(s->g->lanes, &x);
	done_wait(&r.done, 1);
	assert_int_equal(x.rc, -ECANCELED);
	assert_int_equal(r.items, s->x.n);
	assert_int_equal(FAKE_LOOK(fake.in_flight), 0);
	free(x.items);
}

static void a_deadline_ends_a_fetch(void **state)
{
	struct stored *s = *state;
	scoped(free) uint8_t *to = calloc(1, LEN);
	struct rig_read r;
	struct fetch x;

	FAKE_LOOK(fake.hold_gets = true);
	rig_want(&s->x, to, &x, &r);
	x.deadline_ns = clock_mono(&clock_system) + 50 * NS_PER_MS;
	lanes_fetch(s->g->lanes, &x);
	done_wait(&r.done, 1);
	assert_int_equal(x.rc, -ETIMEDOUT);
	assert_non_null(strstr(x.fault.text, "packs/"));
	free(x.items);
}

static void who_waits_goes_before_a_prefetch(void **state)
{
	struct stored *s = *state;
	struct extents one = {.v = &s->x.v[0], .n = 1};
	scoped(free) uint8_t *first = calloc(1, MIB);
	const unsigned prefetches = 2 * (IN_SLOTS - 1); /* at once: one slot of each lane stays free */
	struct rig_read r[20];
	struct fetch x[20];

	FAKE_LOOK(fake.hold_gets = true);
	for (int i = 0; i < 20; i++) {
		rig_want(&s->x, NULL, &x[i], &r[i]);
		x[i].rank = FETCH_SOON;
		lanes_fetch(s->g->lanes, &x[i]);
	}
	while (FAKE_LOOK(fake.in_flight) < prefetches)
		usleep(1000);
	assert_int_equal(FAKE_LOOK(fake.in_flight), prefetches);
	FAKE_LOOK(fake.hold_gets = false);
	assert_int_equal(rig_fetch(s->g, &one, first, NULL),
			 0); /* none of the prefetches was answered */
	assert_memory_equal(first, s->data, MIB);
	assert_int_equal(FAKE_LOOK(fake.in_flight), prefetches);
	fake_release();
	for (int i = 0; i < 20; i++) {
		done_wait(&r[i].done, 1);
		assert_int_equal(x[i].rc, 0);
		free(x[i].items);
	}
}

static void fetch_all_and_compare(const struct stored *s)
{
	scoped(free) uint8_t *to = calloc(1, LEN);

	assert_int_equal(rig_fetch(s->g, &s->x, to, NULL), 0);
	assert_memory_equal(to, s->data, LEN);
}

/* So often that both lanes know what is usual. */
static void learn_the_pace(const struct stored *s)
{
	for (int i = 0; i < PACE_KNOWN; i++)
		fetch_all_and_compare(s);
	FAKE_LOOK(fake.gets = fake.most_in_flight = 0);
}

static void what_one_connection_keeps_back_comes_over_another(void **state)
{
	struct stored *s = *state;
	unsigned usual;

	learn_the_pace(s);
	fetch_all_and_compare(s);
	usual = FAKE_LOOK(fake.gets);
	FAKE_LOOK(fake.stall_gets = 1);
	fetch_all_and_compare(s); /* or never ends */
	assert_int_equal(FAKE_LOOK(fake.gets), 2 * usual + 1);
	assert_int_equal(FAKE_LOOK(fake.in_flight), 0); /* the late one was cancelled */
}

static void a_twin_that_is_kept_back_too_makes_way_for_another(void **state)
{
	struct stored *s = *state;
	struct extents one = {.v = &s->x.v[0], .n = 1};
	scoped(free) uint8_t *to = calloc(1, MIB);

	learn_the_pace(s);
	FAKE_LOOK(fake.stall_gets = 4);
	assert_int_equal(rig_fetch(s->g, &one, to, NULL), 0); /* or never ends */
	assert_memory_equal(to, s->data, MIB);
	assert_int_equal(FAKE_LOOK(fake.gets), 5);
	assert_int_equal(FAKE_LOOK(fake.most_in_flight), 2);
	assert_int_equal(FAKE_LOOK(fake.in_flight), 0);
}

static void a_late_one_has_its_twin_though_others_queue_for_its_slot(void **state)
{
	struct stored *s = *state;
	const unsigned slots = 2 * IN_SLOTS;
	struct rig_read r[20];
	struct fetch x[20];

	learn_the_pace(s);
	FAKE_LOOK(fake.hold_gets = true);
	for (int i = 0; i < 20; i++) {
		rig_want(&s->x, NULL, &x[i], &r[i]);
		lanes_fetch(s->g->lanes, &x[i]);
	}
	while (FAKE_LOOK(fake.in_flight) < slots + 2 * IN_TWINS)
		usleep(1000);
	fake_release();
	for (int i = 0; i < 20; i++) {
		done_wait(&r[i].done, 1);
		assert_int_equal(x[i].rc, 0);
		free(x[i].items);
	}
	assert_in_range(FAKE_LOOK(fake.most_in_flight), slots + 2, slots + 2 * IN_TWINS);
}

static void a_late_get_and_its_twin_end_with_the_fetch(void **state)
{
	struct stored *s = *state;
	struct extents one = {.v = &s->x.v[0], .n = 1};
	scoped(free) uint8_t *to = calloc(1, LEN);
	struct rig_read r;
	struct fetch x;

	learn_the_pace(s);
	FAKE_LOOK(fake.stall_gets = 2);
	rig_want(&one, to, &x, &r);
	lanes_fetch(s->g->lanes, &x);
	while (FAKE_LOOK(fake.in_flight) < 2)
		usleep(1000);
	lanes_fetch_cancel(s->g->lanes, &x);
	done_wait(&r.done, 1);
	assert_int_equal(x.rc, -ECANCELED);
	assert_int_equal(r.items, 1);
	assert_int_equal(FAKE_LOOK(fake.in_flight), 0);
	free(x.items);
}

static void lanes_that_go_away_end_every_fetch(void **state)
{
	struct stored *s = *state;
	scoped(free) uint8_t *to = calloc(1, LEN);
	struct rig_read r[9];
	struct fetch x[9];

	FAKE_LOOK(fake.hold_gets = true);
	for (int i = 0; i < 9; i++) {
		rig_want(&s->x, to, &x[i], &r[i]);
		lanes_fetch(s->g->lanes, &x[i]);
	}
	lanes_free(s->g->lanes);
	s->g->lanes = NULL;
	for (int i = 0; i < 9; i++) {
		assert_int_equal(r[i].done.n, 1);
		assert_int_equal(x[i].rc, -ECANCELED);
		free(x[i].items);
	}
}

/* ---- for threads that wait ---- */

static void a_blob_is_stored_as_a_pack_and_its_ranges_are_read(void **state)
{
	struct stored *s = *state;
	scoped(free) uint8_t *blob = rig_bytes(300 * KIB, 9);
	uint8_t got[1000];
	struct block_source src;
	uint64_t pack = 0;
	struct fault f;

	assert_int_equal(lanes_put_pack(s->g->lanes, blob, 300 * KIB, 0, &pack, &f), 0);
	assert_true(pack != 0);
	lanes_block_source(s->g->lanes, 1000, &src);
	assert_int_equal(src.get(&src, pack, 5000, sizeof(got), got, &f), 0);
	assert_memory_equal(got, blob + 5000, sizeof(got));
}

static void a_block_that_is_not_there_is_named(void **state)
{
	struct stored *s = *state;
	uint8_t got[10];
	struct block_source src;
	struct fault f;
	char key[PACK_KEY_MAX];

	lanes_block_source(s->g->lanes, 0, &src);
	assert_int_equal(src.get(&src, 4711, 0, sizeof(got), got, &f), -ESTALE);
	pack_key(4711, key);
	assert_non_null(strstr(f.text, key));
}

static void a_block_that_does_not_come_ends_with_its_deadline(void **state)
{
	struct stored *s = *state;
	uint8_t got[10];
	struct block_source src;
	struct fault f;

	FAKE_LOOK(fake.hold_gets = true);
	lanes_block_source(s->g->lanes, 50, &src);
	assert_int_equal(src.get(&src, s->x.v[0].place.pack, 0, sizeof(got), got, &f), -ETIMEDOUT);
	assert_non_null(strstr(f.text, "packs/"));
}

static void a_blob_whose_name_is_taken_fails(void **state)
{
	struct stored *s = *state;
	uint64_t pack = 0;
	struct fault f;

	s->g->names--;
	assert_int_equal(lanes_put_pack(s->g->lanes, "blob", 4, 0, &pack, &f), -EEXIST);
	assert_int_equal(pack, 0);
	assert_non_null(strstr(f.text, "packs/"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, store_one, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(neighbours_come_in_one_get_and_a_file_in_several),
		TEST(no_items_end_at_once),
		TEST(a_bent_chunk_is_asked_for_once_more),
		TEST(a_chunk_bent_twice_fails_and_is_named),
		TEST(the_other_chunks_of_the_get_are_delivered_all_the_same),
		TEST(a_missing_pack_is_named),
		TEST(a_place_that_no_pack_can_hold_is_refused),
		TEST(what_deliver_says_is_the_result),
		TEST(a_chunk_wanted_at_two_places_is_delivered_to_both),
		TEST(a_cancelled_fetch_ends_with_every_item_told),
		TEST(a_deadline_ends_a_fetch),
		TEST(who_waits_goes_before_a_prefetch),
		TEST(what_one_connection_keeps_back_comes_over_another),
		TEST(a_twin_that_is_kept_back_too_makes_way_for_another),
		TEST(a_late_one_has_its_twin_though_others_queue_for_its_slot),
		TEST(a_late_get_and_its_twin_end_with_the_fetch),
		TEST(lanes_that_go_away_end_every_fetch),
		TEST(a_blob_is_stored_as_a_pack_and_its_ranges_are_read),
		TEST(a_block_that_is_not_there_is_named),
		TEST(a_block_that_does_not_come_ends_with_its_deadline),
		TEST(a_blob_whose_name_is_taken_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
