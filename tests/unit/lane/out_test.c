/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: what goes out comes back, once, and is reported only when it is stored. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/base/hand_clock.h"
#include "tests/unit/lane/rig.h"

/* ---- rigs ---- */

static int two_lanes(void **state)
{
	*state = rig_new("s3://fake", 2, false);
	return 0;
}

static int one_lane(void **state)
{
	*state = rig_new("s3://fake", 1, false);
	return 0;
}

static int three_lanes(void **state)
{
	*state = rig_new("s3://fake", 3, false);
	return 0;
}

static int compressing(void **state)
{
	*state = rig_new("s3://fake", 1, true);
	return 0;
}

static int end(void **state)
{
	hand_clock_run();
	fake_release();
	rig_free(*state);
	fake_reset();
	return 0;
}

/* Others have their turn. */
static void nap(void)
{
	usleep(1000);
}

static void wait_for_puts(unsigned n)
{
	while (FAKE_LOOK(fake.in_flight) < n)
		nap();
}

static struct lanes_counts counts(struct rig *g)
{
	struct lanes_counts c;

	lanes_counts(g->lanes, &c);
	return c;
}

static int send_bytes(struct rig *g, const void *data, size_t len, bool by_content,
		      struct upload *u)
{
	scoped(fd_close) int fd = rig_file(data, len);

	*u = (struct upload){.fd = fd, .len = len, .by_content = by_content};
	return rig_upload(g, u);
}

static void assert_comes_back(struct rig *g, const struct extents *x, const uint8_t *want,
			      size_t len)
{
	scoped(free) uint8_t *got = malloc(len + 1);

	assert_int_equal(extents_bytes(x), len);
	memset(got, 0xee, len);
	assert_int_equal(rig_fetch(g, x, got, NULL), 0);
	assert_true(memcmp(got, want, len) == 0);
}

/* Send, read back, compare. */
static void round_trip(struct rig *g, const uint8_t *data, size_t len, bool by_content)
{
	struct upload u;

	assert_int_equal(send_bytes(g, data, len, by_content, &u), 0);
	assert_int_equal(u.taken, len);
	assert_comes_back(g, &u.out, data, len);
	extents_fini(&u.out);
}

static bool same_extents(const struct extents *a, const struct extents *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].length != b->v[i].length || a->v[i].kind != b->v[i].kind ||
		    (a->v[i].kind == EXTENT_CHUNK && !hash_equal(&a->v[i].hash, &b->v[i].hash)))
			return false;
	return true;
}

/* ---- content ---- */

static void random_content_comes_back_however_it_was_cut(void **state)
{
	static const size_t sizes[] = {1,       4095,    256 * KIB,        MIB,
				       MIB + 1, 4 * MIB, 17 * MIB + 12345, 70 * MIB};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		scoped(free) uint8_t *data = rig_bytes(sizes[i], i + 1);

		round_trip(*state, data, sizes[i], true);
		round_trip(*state, data, sizes[i], false);
	}
}

static void the_grid_cut_falls_on_whole_megabytes_of_the_file(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(5 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 5 * MIB);
	struct upload u = {.fd = fd, .off = 300 * KIB, .len = 4 * MIB};

	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(u.out.n, 5);
	assert_int_equal(u.out.v[0].length, MIB - 300 * KIB);
	assert_int_equal(u.out.v[1].length, MIB);
	assert_int_equal(u.out.v[4].length, 300 * KIB);
	assert_comes_back(*state, &u.out, data + 300 * KIB, 4 * MIB);
	extents_fini(&u.out);
}

static void nothing_becomes_no_extent(void **state)
{
	struct upload u;

	assert_int_equal(send_bytes(*state, "", 0, true, &u), 0);
	assert_int_equal(u.out.n, 0);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
}

static void zeros_are_not_sent(void **state)
{
	scoped(free) uint8_t *data = calloc(1, 20 * MIB);

	round_trip(*state, data, 20 * MIB, true);
	round_trip(*state, data, 20 * MIB, false);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
}

static void tiny_content_stays_in_the_record(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(CHUNK_INLINE, 1);
	scoped(fd_close) int fd = rig_file(data, CHUNK_INLINE);
	struct upload u = {.fd = fd, .len = CHUNK_INLINE, .inline_ok = true};

	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(u.out.n, 1);
	assert_int_equal(u.out.v[0].kind, EXTENT_INLINE);
	assert_memory_equal(u.out.v[0].data, data, CHUNK_INLINE);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	extents_fini(&u.out);
}

static void content_a_byte_too_long_for_the_record_is_sent(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(CHUNK_INLINE + 1, 1);
	scoped(fd_close) int fd = rig_file(data, CHUNK_INLINE + 1);
	struct upload u = {.fd = fd, .len = CHUNK_INLINE + 1, .inline_ok = true};

	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(u.out.v[0].kind, EXTENT_CHUNK);
	assert_int_equal(FAKE_LOOK(fake.puts), 1);
	extents_fini(&u.out);
}

static void inline_content_across_a_megabyte_is_one_extent(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(2 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 2 * MIB);
	struct upload u = {.fd = fd, .off = MIB - 100, .len = 200, .inline_ok = true};

	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(u.out.n, 1);
	assert_memory_equal(u.out.v[0].data, data + MIB - 100, 200);
	extents_fini(&u.out);
}

/* ---- holes ---- */

static void a_sparse_file_costs_what_it_holds(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(MIB, 1);
	scoped(fd_close) int fd = rig_file("", 0);
	struct upload u = {.fd = fd, .len = (uint64_t)100 << 30, .by_content = true};

	assert_int_equal(ftruncate(fd, (off_t)u.len), 0);
	assert_int_equal(pwrite(fd, data, MIB, (off_t)50 << 30), MIB);
	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(extents_bytes(&u.out), u.len);
	assert_int_equal(u.out.v[0].kind, EXTENT_ZERO);
	assert_int_equal(u.out.v[0].length, (uint64_t)50 << 30);
	assert_int_equal(u.out.v[u.out.n - 1].kind, EXTENT_ZERO);
	assert_in_range(FAKE_LOOK(fake.put_bytes), MIB, MIB + 64 * KIB);
	extents_fini(&u.out);
}

static void data_between_holes_comes_back(void **state)
{
	const size_t len = 40 * MIB + 777;
	scoped(free) uint8_t *data = calloc(1, len);
	scoped(fd_close) int fd = rig_file("", 0);

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	for (size_t at = 3 * MIB + 5000; at < len - 9 * MIB; at += 9 * MIB + 4096) {
		rig_fill(data + at, 300 * KIB, at);
		assert_int_equal(pwrite(fd, data + at, 300 * KIB, (off_t)at), 300 * KIB);
	}
	for (int by_content = 0; by_content < 2; by_content++) {
		struct upload u = {.fd = fd,
				   .off = 1000,
				   .len = len - 1000,
				   .by_content = by_content};

		assert_int_equal(rig_upload(*state, &u), 0);
		assert_comes_back(*state, &u.out, data + 1000, len - 1000);
		extents_fini(&u.out);
	}
}

static void a_file_shorter_than_the_range_is_stale(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(MIB, 1);
	scoped(fd_close) int fd = rig_file(data, MIB);
	struct upload u = {.fd = fd, .len = MIB + 1};

	assert_int_equal(rig_upload(*state, &u), -ESTALE);
	assert_int_equal(u.out.n, 0);
	assert_non_null(strstr(u.fault.text, "0 to 1048577"));
}

/* ---- patches ---- */

struct patched {
	struct done done; /* first: what rig_upload() puts into arg */
	uint64_t off, len;
	uint8_t with;
	int rc;
	_Atomic uint64_t looked_at;
};
static struct patched side; /* a patch has no other way to a test's data beside the rig's arg */

static int patch_side(struct upload *u, uint8_t *data, size_t len, uint64_t off)
{
	side.looked_at += len;
	for (size_t i = 0; i < len; i++)
		if (off + i >= side.off && off + i < side.off + side.len)
			data[i] = side.with;
	return side.rc;
}

static bool has_side(struct upload *u, uint64_t off, uint64_t len)
{
	return off < side.off + side.len && side.off < off + len;
}

static void what_fd_lost_comes_from_the_patch(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(6 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 3 * MIB); /* cut short since */
	struct upload u = {.fd = fd, .len = 6 * MIB, .patch = patch_side};

	side = (struct patched){.off = 2 * MIB + 9, .len = 4 * MIB - 9, .with = 0x5a};
	memset(data + side.off, side.with, side.len);
	assert_int_equal(rig_upload(*state, &u), 0);
	assert_comes_back(*state, &u.out, data, 6 * MIB);
	extents_fini(&u.out);
}

static void a_hole_is_read_where_bytes_come_from_elsewhere_and_only_there(void **state)
{
	const size_t len = 64 * MIB;
	scoped(free) uint8_t *data = calloc(1, len);
	scoped(fd_close) int fd = rig_file("", 0);
	struct upload u = {.fd = fd, .len = len, .patch = patch_side, .patches = has_side};

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	rig_fill(data + 30 * MIB, 10, 1);
	assert_int_equal(pwrite(fd, data + 30 * MIB, 10, (off_t)(30 * MIB)), 10);
	side = (struct patched){.off = 40 * MIB, .len = 100, .with = 0x5a};
	memset(data + side.off, side.with, side.len);
	assert_int_equal(rig_upload(*state, &u), 0);
	assert_comes_back(*state, &u.out, data, len);
	assert_in_range(side.looked_at, 1, 35 * MIB); /* the hole before 30 MiB was stepped over */
	extents_fini(&u.out);
}

static void a_patch_that_cannot_say_gets_every_hole(void **state)
{
	scoped(fd_close) int fd = rig_file("", 0);
	struct upload u = {.fd = fd, .len = 16 * MIB, .patch = patch_side};

	assert_int_equal(ftruncate(fd, 16 * MIB), 0);
	side = (struct patched){.off = 0};
	assert_int_equal(rig_upload(*state, &u), 0);
	assert_int_equal(side.looked_at, 16 * MIB);
	extents_fini(&u.out);
}

static void a_range_that_changed_under_the_read_ends_the_upload(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(6 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 6 * MIB);
	struct upload u = {.fd = fd, .len = 6 * MIB, .patch = patch_side};

	side = (struct patched){.rc = -ESTALE};
	assert_int_equal(rig_upload(*state, &u), -ESTALE);
	assert_int_equal(u.out.n, 0);
	assert_int_equal(u.taken, 0);
}

/* ---- what need not be sent ---- */

static void the_same_content_is_sent_once(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(20 * MIB, 1);
	uint64_t sent;

	round_trip(*state, data, 20 * MIB, true);
	sent = counts(*state).sent_bytes;
	assert_in_range(sent, 20 * MIB, 20 * MIB + 64 * KIB);
	round_trip(*state, data, 20 * MIB, true);
	assert_int_equal(counts(*state).sent_bytes, sent);
	assert_int_equal(counts(*state).deduped_bytes, 20 * MIB);
}

static void content_that_moved_is_found_again(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(40 * MIB + 100, 1);
	uint64_t sent;

	round_trip(*state, data + 100, 40 * MIB, true);
	sent = counts(*state).sent_bytes;
	round_trip(*state, data, 40 * MIB + 100, true);
	assert_in_range(counts(*state).sent_bytes - sent, 1,
			6 * MIB); /* the first chunk, and what it bent */
}

static void two_lanes_with_the_same_content_send_it_once(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(40 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 40 * MIB);
	struct upload u[2];
	struct done d = DONE_NONE;

	for (int i = 0; i < 2; i++) {
		u[i] = (struct upload){.fd = fd,
				       .len = 40 * MIB,
				       .by_content = true,
				       .urgent = true,
				       .done = rig_upload_done,
				       .arg = &d};
		lanes_upload(g->lanes, &u[i]);
	}
	done_wait(&d, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(u[i].rc, 0);
		assert_comes_back(g, &u[i].out, data, 40 * MIB);
		extents_fini(&u[i].out);
	}
	assert_in_range(counts(g).sent_bytes, 40 * MIB, 40 * MIB + 64 * KIB);
}

static void a_chunk_known_from_a_record_is_not_sent(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(500 * KIB, 1);
	struct place at = {.pack = 42, .offset = 16, .stored = 500 * KIB};
	struct hash128 h;
	struct upload u;

	chunk_hash(g->format.secret, data, 500 * KIB, &h);
	lanes_known(g->lanes, &h, 500 * KIB, &at);
	assert_int_equal(send_bytes(g, data, 500 * KIB, false, &u), 0);
	assert_int_equal(u.out.v[0].place.pack, 42);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	extents_fini(&u.out);
}

static void chunks_of_a_condemned_pack_are_sent_again(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(500 * KIB, 1);
	struct upload u;
	uint64_t pack;

	assert_int_equal(send_bytes(g, data, 500 * KIB, false, &u), 0);
	pack = u.out.v[0].place.pack;
	extents_fini(&u.out);
	lanes_forget_pack(g->lanes, pack);
	assert_int_equal(send_bytes(g, data, 500 * KIB, false, &u), 0);
	assert_int_not_equal(u.out.v[0].place.pack, pack);
	extents_fini(&u.out);
}

/* ---- streaming ---- */

/* Upload what has been "written" so far, in steps, as a streaming mount does. */
static void stream(struct rig *g, int fd, size_t len, bool by_content, struct extents *out)
{
	uint64_t done = 0;

	for (size_t written = 3 * MIB + 17; done < len; written += 5 * MIB + 333) {
		struct upload u = {.fd = fd, .off = done, .by_content = by_content};

		u.open_end = written < len;
		u.len = (u.open_end ? written : len) - done;
		assert_int_equal(rig_upload(g, &u), 0);
		assert_int_equal(extents_bytes(&u.out), u.taken);
		assert_in_range(u.taken, u.open_end ? 0 : u.len, u.len);
		if (u.open_end)
			assert_in_range(u.len - u.taken, 0, CHUNK_MAX);
		for (size_t i = 0; i < u.out.n; i++)
			assert_int_equal(extents_add(out, &u.out.v[i]), 0);
		free(u.out.v);
		done += u.taken;
	}
}

static void streaming_cuts_as_one_go_does(void **state)
{
	const size_t len = 30 * MIB + 4321;
	scoped(free) uint8_t *data = rig_bytes(len, 3);

	for (int by_content = 0; by_content < 2; by_content++) {
		scoped(extents_fini) struct extents streamed = EXTENTS_EMPTY;
		scoped(fd_close) int fd = rig_file(data, len);
		struct upload u;

		stream(*state, fd, len, by_content, &streamed);
		assert_int_equal(send_bytes(*state, data, len, by_content, &u), 0);
		assert_true(same_extents(&u.out, &streamed));
		extents_fini(&u.out);
	}
}

static struct done cut_seen = DONE_NONE;

static void note_cut(struct upload *u)
{
	assert_in_range(u->taken, 1, u->len);
	done_one(&cut_seen);
}

/* All of it lies in packs then, whether those are sent or not. */
static void upload_and_wait_for_cut(struct rig *g, struct upload *u)
{
	cut_seen.n = 0;
	u->cut = note_cut;
	lanes_upload(g->lanes, u);
	done_wait(&cut_seen, 1);
}

/* What has no place in a pack goes through the lane: it has looked at its packs since. */
static void have_a_turn(struct rig *g)
{
	for (int i = 0; i < 2; i++) {
		scoped(fd_close) int fd = rig_file("x", 1);
		struct upload u = {.fd = fd, .len = 1, .inline_ok = true};

		assert_int_equal(rig_upload(g, &u), 0);
		extents_fini(&u.out);
	}
}

static void what_follows_is_handed_in_before_the_store_answers(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(12 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 12 * MIB);
	struct done d = DONE_NONE;
	struct upload first = {.fd = fd,
			       .len = 6 * MIB,
			       .by_content = true,
			       .open_end = true,
			       .urgent = true,
			       .done = rig_upload_done,
			       .arg = &d};
	struct upload second;

	FAKE_LOOK(fake.hold = true);
	upload_and_wait_for_cut(g, &first);
	second = (struct upload){.fd = fd,
				 .off = first.taken,
				 .len = 12 * MIB - first.taken,
				 .by_content = true,
				 .urgent = true,
				 .done = rig_upload_done,
				 .arg = &d};
	lanes_upload(g->lanes, &second);
	assert_int_equal(d.n, 0);
	fake_release();
	done_wait(&d, 2);
	assert_comes_back(g, &first.out, data, first.taken);
	assert_comes_back(g, &second.out, data + first.taken, second.len);
	extents_fini(&first.out);
	extents_fini(&second.out);
}

/* ---- compression ---- */

static void text(uint8_t *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)("abcdefgh"[rig_random(&seed) % 8]);
}

static void content_is_compressed_while_packs_wait_for_the_link(void **state)
{
	struct rig *g = *state;
	const size_t len = 90 * MIB; /* four packs, and what becomes less than a fifth */
	scoped(free) uint8_t *data = malloc(len);
	scoped(fd_close) int fd = -1;
	struct done d = DONE_NONE;
	struct upload u;

	text(data, len, 1);
	fd = rig_file(data, len);
	FAKE_LOOK(fake.hold = true);
	u = (struct upload){
		.fd = fd, .len = len, .urgent = true, .done = rig_upload_done, .arg = &d};
	upload_and_wait_for_cut(g, &u);
	assert_int_equal(FAKE_LOOK(fake.puts), 4);
	fake_release();
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	assert_in_range(FAKE_LOOK(fake.put_bytes), 64 * MIB, len - 12 * MIB);
	assert_comes_back(g, &u.out, data, len);
	extents_fini(&u.out);
}

/* ---- bounds and order ---- */

static void four_packs_are_in_flight_and_no_more(void **state)
{
	struct rig *g = *state;
	const size_t len = 70 * MIB; /* the fifth has room for the end of it, and waits */
	scoped(free) uint8_t *data = rig_bytes(len, 1);
	scoped(fd_close) int fd = rig_file(data, len);
	struct done d = DONE_NONE;
	struct upload u = {
		.fd = fd, .len = len, .urgent = true, .done = rig_upload_done, .arg = &d};

	FAKE_LOOK(fake.hold = true);
	upload_and_wait_for_cut(g, &u);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 4);
	assert_int_equal(counts(g).queued_bytes, len);
	fake_release();
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	assert_int_equal(FAKE_LOOK(fake.puts), 5);
	assert_int_equal(FAKE_LOOK(fake.most_in_flight), 4);
	assert_int_equal(counts(g).queued_bytes, 0);
	assert_true(counts(g).rate_bps > 0);
	extents_fini(&u.out);
}

static void small_files_share_a_pack(void **state)
{
	struct rig *g = *state;
	enum { N = 300 };
	static struct upload u[N];
	struct done d = DONE_NONE;
	int fds[N];

	for (size_t i = 0; i < N; i++) {
		scoped(free) uint8_t *data = rig_bytes(3000, i + 1);

		fds[i] = rig_file(data, 3000);
		u[i] = (struct upload){.fd = fds[i],
				       .len = 3000,
				       .done = rig_upload_done,
				       .arg = &d};
		u[i].urgent = i == N - 1;
		lanes_upload(g->lanes, &u[i]);
	}
	done_wait(&d, N);
	assert_in_range(FAKE_LOOK(fake.puts), 1, 3);
	for (size_t i = 0; i < N; i++) {
		scoped(free) uint8_t *data = rig_bytes(3000, i + 1);

		assert_int_equal(u[i].rc, 0);
		assert_comes_back(g, &u[i].out, data, 3000);
		extents_fini(&u[i].out);
		close(fds[i]);
	}
}

static void what_nobody_waits_for_is_held_for_a_second(void **state)
{
	struct rig *g = *state;
	scoped(fd_close) int fd = rig_file("hello", 5);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = 5, .done = rig_upload_done, .arg = &d};

	hand_clock_stop();
	upload_and_wait_for_cut(g, &u);
	hand_clock_move(NS_PER_S - 1);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	hand_clock_move(1);
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	extents_fini(&u.out);
}

/* In the tests that follow time stands still: what is held then never ends. */
static void a_pack_that_is_large_enough_is_not_held(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(8 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 8 * MIB);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = 8 * MIB, .done = rig_upload_done, .arg = &d};

	hand_clock_stop();
	lanes_upload(g->lanes, &u);
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	extents_fini(&u.out);
}

static void nothing_is_held_back_in_a_hurry(void **state)
{
	struct rig *g = *state;
	scoped(fd_close) int fd = rig_file("hello", 5);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = 5, .done = rig_upload_done, .arg = &d};

	hand_clock_stop();
	upload_and_wait_for_cut(g, &u);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	lanes_hurry(g->lanes, true);
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	lanes_hurry(g->lanes, false);
	extents_fini(&u.out);
}

static void what_is_cut_is_not_held_back_once_somebody_presses(void **state)
{
	struct rig *g = *state;
	scoped(fd_close) int fd = rig_file("hello", 5);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = 5, .done = rig_upload_done, .arg = &d};

	hand_clock_stop();
	upload_and_wait_for_cut(g, &u);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	lanes_press(g->lanes);
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	extents_fini(&u.out);
}

static void a_large_pack_waits_for_more_while_others_keep_the_link_busy(void **state)
{
	struct rig *g = *state;
	size_t len = 2 * PACK_MAX + 8 * MIB;
	scoped(free) uint8_t *data = rig_bytes(len, 1);
	scoped(fd_close) int fd = rig_file(data, len);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = len, .done = rig_upload_done, .arg = &d};

	hand_clock_stop();
	FAKE_LOOK(fake.hold = true);
	upload_and_wait_for_cut(g, &u);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 2);
	fake_release();
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	assert_int_equal(FAKE_LOOK(fake.puts), 3);
	extents_fini(&u.out);
}

static void an_urgent_upload_sends_what_another_held_back(void **state)
{
	struct rig *g = *state;
	scoped(fd_close) int fd = rig_file("hello", 5);
	struct done d = DONE_NONE;
	struct upload u = {.fd = fd, .len = 5, .done = rig_upload_done, .arg = &d};
	struct upload same;

	hand_clock_stop();
	upload_and_wait_for_cut(g, &u);
	have_a_turn(g);
	assert_int_equal(FAKE_LOOK(fake.puts), 0);
	assert_int_equal(send_bytes(g, "hello", 5, false, &same), 0);
	done_wait(&d, 1);
	assert_int_equal(u.rc, 0);
	assert_int_equal(FAKE_LOOK(fake.puts), 1);
	extents_fini(&u.out);
	extents_fini(&same.out);
}

/* An upload whose first read lasts until another has been handed in. */
struct overtaken {
	struct upload u;
	struct done begun, go_on;
	struct done over;
	bool first; /* it has ended, and the other had not */
	const struct done *other;
};

static int wait_in_the_read(struct upload *u, uint8_t *data, size_t len, uint64_t off)
{
	struct overtaken *slow = u->arg;

	done_one(&slow->begun);
	done_wait(&slow->go_on, 1);
	return 0;
}

static void slow_ends(struct upload *u)
{
	struct overtaken *slow = u->arg;

	slow->first = slow->other->n == 0; /* the only lane's thread ends both */
	done_one(&slow->over);
}

static void an_urgent_upload_overtakes(void **state)
{
	struct rig *g = *state;
	const size_t len = 100 * MIB;
	scoped(free) uint8_t *data = rig_bytes(len, 1);
	scoped(fd_close) int fd = rig_file(data, len);
	scoped(fd_close) int small = rig_file("hello", 5);
	struct done d = DONE_NONE;
	struct overtaken slow = {
		.u = {.fd = fd, .len = len, .patch = wait_in_the_read, .done = slow_ends},
		.begun = DONE_NONE,
		.go_on = DONE_NONE,
		.over = DONE_NONE,
		.other = &d,
	};
	struct upload fast = {
		.fd = small, .len = 5, .urgent = true, .done = rig_upload_done, .arg = &d};

	slow.u.arg = &slow;
	lanes_upload(g->lanes, &slow.u);
	done_wait(&slow.begun, 1);
	lanes_upload(g->lanes, &fast);
	done_one(&slow.go_on);
	done_wait(&d, 1);
	done_wait(&slow.over, 1);
	assert_false(slow.first);
	assert_int_equal(fast.rc, 0);
	assert_comes_back(g, &slow.u.out, data, len);
	extents_fini(&slow.u.out);
	extents_fini(&fast.out);
}

/* ---- giving up ---- */

static void a_cancelled_upload_ends_and_its_packs_are_not_sent(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(60 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 60 * MIB);
	struct done d = DONE_NONE;
	struct upload u[3];
	uint64_t sent = 0;

	FAKE_LOOK(fake.hold = true);
	for (int i = 0; i < 3; i++) { /* one on each lane, one queued */
		u[i] = (struct upload){.fd = fd,
				       .off = (uint64_t)i * 20 * MIB,
				       .len = 20 * MIB,
				       .urgent = true,
				       .done = rig_upload_done,
				       .arg = &d};
		lanes_upload(g->lanes, &u[i]);
	}
	wait_for_puts(2);
	for (int i = 0; i < 3; i++)
		lanes_cancel(g->lanes, &u[i]);
	done_wait(&d, 3); /* although no PUT was answered */
	for (int i = 0; i < 3; i++)
		assert_int_equal(u[i].rc, -ECANCELED);
	assert_int_equal(FAKE_LOOK(fake.in_flight), 0);
	fake_release();
	assert_int_equal(counts(g).sent_bytes, sent);
	assert_int_equal(counts(g).queued_bytes, 0);
	assert_int_equal(send_bytes(g, data, 20 * MIB, false, &u[0]),
			 0); /* nothing of it is thought stored */
	assert_comes_back(g, &u[0].out, data, 20 * MIB);
	extents_fini(&u[0].out);
}

static void a_pack_that_another_upload_needs_goes_on(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(3 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 3 * MIB);
	struct done first = DONE_NONE, second = DONE_NONE;
	struct upload u = {
		.fd = fd, .len = 3 * MIB, .urgent = true, .done = rig_upload_done, .arg = &first};
	struct upload same = u;

	same.arg = &second;
	FAKE_LOOK(fake.hold = true);
	lanes_upload(g->lanes, &u);
	wait_for_puts(1);
	lanes_upload(g->lanes, &same); /* on the other lane */
	while (counts(g).deduped_bytes < 3 * MIB)
		nap();
	lanes_cancel(g->lanes, &u);
	done_wait(&first, 1);
	assert_int_equal(u.rc, -ECANCELED);
	fake_release();
	done_wait(&second, 1);
	assert_int_equal(same.rc, 0);
	assert_comes_back(g, &same.out, data, 3 * MIB);
	extents_fini(&same.out);
}

static void lanes_that_go_away_end_every_upload(void **state)
{
	struct rig *g = rig_new("s3://fake", 2, false);
	scoped(free) uint8_t *data = rig_bytes(60 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 60 * MIB);
	struct done d = DONE_NONE;
	struct upload u[6];

	FAKE_LOOK(fake.hold = true);
	for (int i = 0; i < 6; i++) {
		u[i] = (struct upload){.fd = fd,
				       .off = (uint64_t)i * 10 * MIB,
				       .len = 10 * MIB,
				       .urgent = i % 2,
				       .done = rig_upload_done,
				       .arg = &d};
		lanes_upload(g->lanes, &u[i]);
	}
	if (*state)
		wait_for_puts(2);
	rig_free(g);
	assert_int_equal(d.n, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(u[i].rc, -ECANCELED);
	fake_reset();
}

/* ---- a store that fails ---- */

static void a_final_failure_ends_the_upload_and_names_the_pack(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(MIB, 1);
	struct upload u;

	FAKE_LOOK((fake.fail_code = -EACCES, fake.fail_class = FAULT_FINAL, fake.fail_puts = 1));
	assert_int_equal(send_bytes(g, data, MIB, true, &u), -EACCES);
	assert_int_equal(u.fault.code, -EACCES);
	assert_non_null(strstr(u.fault.text, "packs/"));
	assert_int_equal(u.out.n, 0);
	assert_true(counts(g).failing_since_ns != 0);
	assert_non_null(strstr(counts(g).last_error, "packs/"));
	round_trip(g, data, MIB, true); /* and its chunks are not thought stored */
	assert_int_equal(counts(g).failing_since_ns, 0);
}

static void a_failed_pack_fails_the_upload_of_another_lane_too(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(3 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 3 * MIB);
	struct done d = DONE_NONE;
	struct upload u[2];

	FAKE_LOOK((fake.hold = true, fake.fail_code = -EDQUOT, fake.fail_class = FAULT_FINAL,
		   fake.fail_puts = 1));
	for (int i = 0; i < 2; i++) {
		u[i] = (struct upload){.fd = fd,
				       .len = 3 * MIB,
				       .urgent = true,
				       .done = rig_upload_done,
				       .arg = &d};
		lanes_upload(g->lanes, &u[i]);
		wait_for_puts(1);
	}
	while (counts(g).deduped_bytes < 3 * MIB)
		nap();
	fake_release();
	done_wait(&d, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(u[i].rc, -EDQUOT);
		assert_non_null(strstr(u[i].fault.text, "packs/"));
	}
}

static void a_passing_failure_is_tried_again(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(MIB, 1);

	FAKE_LOOK((fake.fail_code = -EIO, fake.fail_class = FAULT_SOON, fake.fail_puts = 2));
	round_trip(*state, data, MIB, true);
	assert_int_equal(FAKE_LOOK(fake.puts), 3);
}

static void a_store_that_asks_for_less_gets_less_at_once(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(150 * MIB, 1);
	scoped(fd_close) int fd = rig_file(data, 150 * MIB);
	struct done d = DONE_NONE;
	struct upload u = {
		.fd = fd, .len = 150 * MIB, .urgent = true, .done = rig_upload_done, .arg = &d};
	unsigned after;

	FAKE_LOOK((fake.hold = true, fake.fail_code = -EBUSY, fake.fail_class = FAULT_PACED,
		   fake.fail_puts = 4));
	lanes_upload(g->lanes, &u);
	wait_for_puts(4);
	fake_release(); /* all four are told to slow down */
	FAKE_LOOK(fake.most_in_flight = 0);
	done_wait(&d, 1);
	after = FAKE_LOOK(fake.most_in_flight);
	assert_int_equal(u.rc, 0);
	assert_in_range(after, 1, 4); /* those four are tried again; new ones came one by one */
	assert_comes_back(g, &u.out, data, 150 * MIB);
	extents_fini(&u.out);
}

static void a_reply_that_was_lost_is_no_conflict(void **state)
{
	scoped(free) uint8_t *data = rig_bytes(MIB, 1);

	FAKE_LOOK(fake.lose_replies = 1);
	round_trip(*state, data, MIB, true);
	assert_int_equal(FAKE_LOOK(fake.puts), 2);
}

static void a_pack_name_that_others_use_is_a_fault(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(2 * MIB, 1);
	struct upload u;

	assert_int_equal(send_bytes(g, data, MIB, true, &u), 0);
	extents_fini(&u.out);
	g->names--;
	assert_int_equal(send_bytes(g, data + MIB, MIB, true, &u), -EEXIST);
	assert_non_null(strstr(u.fault.text, "packs/"));
	assert_non_null(strstr(u.fault.text, "taken"));
}

static void a_taken_name_is_a_fault_even_after_a_lost_try(void **state)
{
	struct rig *g = *state;
	scoped(free) uint8_t *data = rig_bytes(2 * MIB, 1);
	struct upload u;

	assert_int_equal(send_bytes(g, data, MIB, true, &u), 0);
	extents_fini(&u.out);
	g->names--;
	FAKE_LOOK((fake.fail_code = -EIO, fake.fail_class = FAULT_SOON, fake.fail_puts = 1));
	assert_int_equal(send_bytes(g, data + MIB, MIB, true, &u), -EEXIST);
	assert_non_null(strstr(u.fault.text, "taken"));
}

/* ---- all of it at once ---- */

enum { MANY = 60 };

/* One upload in three is cancelled at some time, one PUT in four fails, half of them for good. */
static void disturb(struct rig *g, struct upload *u, size_t handed, uint64_t *seed)
{
	uint64_t x = rig_random(seed);

	if (x % 3 == 0)
		lanes_cancel(g->lanes, &u[x / 3 % handed]);
	if (x % 4 == 0)
		FAKE_LOOK((fake.fail_code = -EIO,
			   fake.fail_class = x % 8 ? FAULT_SOON : FAULT_FINAL, fake.fail_puts = 1));
	if (x % 5 == 0)
		usleep((useconds_t)(x / 5 % 2000));
}

static void every_upload_ends_once_whatever_happens_to_it(void **state)
{
	struct rig *g = *state;
	const size_t len = 12 * MIB;
	scoped(free) uint8_t *data = rig_bytes(len, 5);
	scoped(fd_close) int fd = rig_file(data, len);
	static struct upload u[MANY];
	struct done d = DONE_NONE;
	uint64_t seed = clock_mono(&clock_system);
	size_t whole = 0;

	print_message("seed %llu\n", (unsigned long long)seed);
	for (size_t i = 0; i < MANY; i++) {
		uint64_t off = rig_random(&seed) % len;

		u[i] = (struct upload){.fd = fd, .off = off, .done = rig_upload_done, .arg = &d};
		u[i].len = rig_random(&seed) % (rig_random(&seed) % 4 ? len : 9000);
		u[i].by_content = rig_random(&seed) % 2;
		u[i].urgent = rig_random(&seed) % 2;
		u[i].len = u[i].len < len - off ? u[i].len : len - off;
		lanes_upload(g->lanes, &u[i]);
		disturb(g, u, i + 1, &seed);
	}
	done_wait(&d, MANY);
	FAKE_LOOK(fake.fail_puts = 0);
	for (size_t i = 0; i < MANY; i++) {
		assert_true(u[i].rc == 0 || u[i].rc == -ECANCELED || u[i].rc == -EIO);
		whole += u[i].rc == 0;
		if (u[i].rc == 0)
			assert_comes_back(g, &u[i].out, data + u[i].off, u[i].len);
		extents_fini(&u[i].out);
	}
	assert_in_range(whole, 1, MANY);
	assert_int_equal(d.n, MANY);
	assert_int_equal(counts(g).queued_bytes, 0);
}

#define TEST(name, rig) cmocka_unit_test_setup_teardown(name, rig, end)

int main(void)
{
	static int later = 1;
	const struct CMUnitTest tests[] = {
		TEST(random_content_comes_back_however_it_was_cut, two_lanes),
		TEST(the_grid_cut_falls_on_whole_megabytes_of_the_file, two_lanes),
		TEST(nothing_becomes_no_extent, one_lane),
		TEST(zeros_are_not_sent, one_lane),
		TEST(tiny_content_stays_in_the_record, one_lane),
		TEST(content_a_byte_too_long_for_the_record_is_sent, one_lane),
		TEST(inline_content_across_a_megabyte_is_one_extent, one_lane),
		TEST(a_sparse_file_costs_what_it_holds, one_lane),
		TEST(data_between_holes_comes_back, two_lanes),
		TEST(a_file_shorter_than_the_range_is_stale, one_lane),
		TEST(what_fd_lost_comes_from_the_patch, one_lane),
		TEST(a_hole_is_read_where_bytes_come_from_elsewhere_and_only_there, one_lane),
		TEST(a_patch_that_cannot_say_gets_every_hole, one_lane),
		TEST(a_range_that_changed_under_the_read_ends_the_upload, one_lane),
		TEST(the_same_content_is_sent_once, two_lanes),
		TEST(content_that_moved_is_found_again, two_lanes),
		TEST(two_lanes_with_the_same_content_send_it_once, two_lanes),
		TEST(a_chunk_known_from_a_record_is_not_sent, one_lane),
		TEST(chunks_of_a_condemned_pack_are_sent_again, one_lane),
		TEST(streaming_cuts_as_one_go_does, two_lanes),
		TEST(what_follows_is_handed_in_before_the_store_answers, one_lane),
		TEST(content_is_compressed_while_packs_wait_for_the_link, compressing),
		TEST(four_packs_are_in_flight_and_no_more, one_lane),
		TEST(small_files_share_a_pack, one_lane),
		TEST(what_nobody_waits_for_is_held_for_a_second, one_lane),
		TEST(a_pack_that_is_large_enough_is_not_held, one_lane),
		TEST(nothing_is_held_back_in_a_hurry, one_lane),
		TEST(what_is_cut_is_not_held_back_once_somebody_presses, one_lane),
		TEST(a_large_pack_waits_for_more_while_others_keep_the_link_busy, one_lane),
		TEST(an_urgent_upload_sends_what_another_held_back, one_lane),
		TEST(an_urgent_upload_overtakes, one_lane),
		TEST(a_cancelled_upload_ends_and_its_packs_are_not_sent, two_lanes),
		TEST(a_pack_that_another_upload_needs_goes_on, two_lanes),
		cmocka_unit_test(lanes_that_go_away_end_every_upload),
		cmocka_unit_test_prestate(lanes_that_go_away_end_every_upload, &later),
		TEST(a_final_failure_ends_the_upload_and_names_the_pack, one_lane),
		TEST(a_failed_pack_fails_the_upload_of_another_lane_too, two_lanes),
		TEST(a_passing_failure_is_tried_again, one_lane),
		TEST(a_store_that_asks_for_less_gets_less_at_once, one_lane),
		TEST(a_reply_that_was_lost_is_no_conflict, one_lane),
		TEST(a_pack_name_that_others_use_is_a_fault, one_lane),
		TEST(every_upload_ends_once_whatever_happens_to_it, three_lanes),
		TEST(a_taken_name_is_a_fault_even_after_a_lost_try, one_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
