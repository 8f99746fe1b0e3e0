/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents and views, one behaviour a test.  What random calls can find is
 * content_random_test.c's matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "fs/cache/content_priv.h"
#include "tests/unit/cache/folder.h"

#define ID  0xab12
#define MIB (UINT64_C(1) << 20)

static struct extent chunk(uint64_t length, uint64_t pack)
{
	return (struct extent){.length = length, .kind = EXTENT_CHUNK, .place.pack = pack};
}

static struct extents chunks_of(size_t n, uint64_t length)
{
	struct extents x = EXTENTS_EMPTY;

	for (size_t i = 0; i < n; i++) {
		struct extent e = chunk(length, i + 1);

		assert_int_equal(extents_add(&x, &e), 0);
	}
	return x;
}

struct rig {
	struct content_dir *d;
	struct content *c;
	/* what notes said */
	unsigned preserved, mapped, present, absent;
	int refuses; /* what `absent` is answered with */
	struct range last;
};

static void on_preserved(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
			 uint64_t len)
{
	struct rig *r = arg;

	r->preserved++;
	r->last = (struct range){.from = off, .to = off + len};
}

static void on_mapped(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
		      const struct extent *e)
{
	struct rig *r = arg;

	r->mapped++;
	r->last = (struct range){.from = off, .to = off + e->length};
}

static void on_present(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct rig *r = arg;

	r->present++;
	r->last = (struct range){.from = off, .to = off + len};
}

static void rig_open(struct rig *r, struct folder *folder)
{
	struct content_notes notes = {.preserved = on_preserved,
				      .mapped = on_mapped,
				      .present = on_present,
				      .arg = r};

	*r = (struct rig){.d = NULL};
	assert_int_equal(content_dir_open(folder->fd, NULL, &r->d, NULL), 0);
	content_dir_notes(r->d, &notes);
}

static void rig_new(struct rig *r, struct folder *folder, const char *bytes)
{
	rig_open(r, folder);
	assert_int_equal(content_new(r->d, ID, 3, &r->c, NULL), 0);
	assert_int_equal(content_write(r->c, bytes, strlen(bytes), 0, false, NULL), strlen(bytes));
}

static void rig_of_chunks(struct rig *r, struct folder *folder, size_t n, uint64_t length)
{
	scoped(extents_fini) struct extents x = chunks_of(n, length);

	rig_open(r, folder);
	assert_int_equal(content_of_extents(r->d, ID, 3, &x, n * length, &r->c, NULL), 0);
}

static void rig_end(struct rig *r)
{
	content_unref(r->c);
	content_dir_free(r->d);
}

static void assert_view_is(struct view *v, const char *want)
{
	char got[64];

	assert_int_equal(view_size(v), strlen(want));
	assert_int_equal(view_read(v, got, sizeof(got), 0), strlen(want));
	assert_memory_equal(got, want, strlen(want));
}

static void write_text(struct rig *r, const char *text, uint64_t off)
{
	assert_int_equal(content_write(r->c, text, strlen(text), off, false, NULL), strlen(text));
}

/* ---- files ---- */

static void the_file_is_named_by_id_and_version_and_goes_with_the_last_reference(void **state)
{
	struct folder *folder = *state;
	struct rig r;

	rig_new(&r, folder, "x");
	assert_int_equal(faccessat(folder->fd, "contents/12/000000000000ab12.3", F_OK, 0), 0);
	content_unref(content_ref(r.c));
	assert_int_equal(folder_files(folder), 1);
	assert_int_equal(content_dir_bytes(r.d), 1);
	content_unref(take(&r.c));
	assert_int_equal(folder_files(folder), 0);
	assert_int_equal(content_dir_bytes(r.d), 0);
	rig_end(&r);
}

static void a_cache_that_is_to_go_on_keeps_its_files(void **state)
{
	struct folder *folder = *state;
	struct view *v;
	struct rig r;

	rig_new(&r, folder, "sealed");
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "changed", 0);
	content_dir_keep(r.d);
	view_unref(v);
	rig_end(&r);
	assert_int_equal(folder_files(folder), 2);
}

static void a_missing_file_is_told_by_name(void **state)
{
	struct fault f = FAULT_NONE;
	struct extents none = EXTENTS_EMPTY;
	struct content *c = NULL;
	struct rig r;

	rig_open(&r, *state);
	assert_int_equal(content_adopt(r.d, ID, 9, &none, NULL, NULL, &c, &f), -ENOENT);
	assert_null(c);
	assert_non_null(strstr(f.text, "contents/12/000000000000ab12.9"));
	rig_end(&r);
}

static void extents_beyond_the_size_are_refused(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(2, 100);
	struct fault f = FAULT_NONE;
	struct rig r;

	rig_open(&r, *state);
	assert_int_equal(content_of_extents(r.d, ID, 3, &x, 199, &r.c, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "ab12"));
	assert_int_equal(folder_files(*state), 0);
	rig_end(&r);
}

static bool keeps_version_5(void *arg, uint64_t id, uint32_t version)
{
	return version == 5;
}

static void a_sweep_deletes_what_no_content_names(void **state)
{
	static const char *const others[] = {"contents/12/000000000000ab12.5",
					     "contents/12/000000000000ab12.5.v1",
					     "contents/12/000000000000ab12.6",
					     "contents/12/000000000000ab12.3.v9",
					     "contents/12/a person's own file"};
	struct folder *folder = *state;
	struct view *v;
	struct rig r;

	rig_new(&r, folder, "sealed");
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "changed", 0);
	for (size_t i = 0; i < 5; i++)
		close(openat(folder->fd, others[i], O_CREAT | O_WRONLY, 0600));
	assert_int_equal(content_dir_sweep(r.d, keeps_version_5, NULL), 0);
	assert_int_equal(folder_files(folder),
			 5); /* the content, its view's side file, 5 and 5.v1, the person's */
	assert_int_equal(content_dir_sweep(r.d, NULL, NULL), 0);
	assert_int_equal(folder_files(folder), 3);
	assert_view_is(v, "sealed");
	view_unref(v);
	rig_end(&r);
}

/* ---- views ---- */

static void a_view_keeps_what_is_overwritten_and_what_is_cut(void **state)
{
	struct view *v;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "ab", 2);
	assert_int_equal(r.preserved, 1);
	assert_int_equal(r.last.from, 2);
	assert_int_equal(r.last.to, 4);
	write_text(&r, "cd", 2); /* preserved already */
	assert_int_equal(r.preserved, 1);
	assert_int_equal(content_truncate(r.c, 5), 0);
	assert_int_equal(r.preserved, 2);
	assert_int_equal(content_truncate(r.c, 20), 0);
	write_text(&r, "behind its end", 12);
	assert_int_equal(r.preserved, 2);
	assert_view_is(v, "0123456789");
	assert_true(view_patches(v, 0, 3));
	assert_false(view_patches(v, 0, 2));
	view_unref(v);
	assert_int_equal(folder_files(*state), 1); /* its side file went with it */
	rig_end(&r);
}

static void bytes_that_the_store_has_are_not_copied_but_told_of(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(1, 10);
	char got[10];
	struct view *v;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_map(r.c, content_stamp(r.c), 0, &x), 0);
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "ab", 2);
	write_text(&r, "cd", 2);
	assert_int_equal(r.preserved, 0);
	assert_int_equal(r.mapped, 1);
	assert_int_equal(r.last.to, 10);
	assert_int_equal(view_read(v, got, sizeof(got), 0), -ENODATA); /* from the store, then */
	assert_int_equal(content_mapped(r.c), 0);
	view_unref(v);
	rig_end(&r);
}

static void a_write_that_cannot_be_preserved_changes_nothing(void **state)
{
	static uint8_t data[MIB];
	struct rlimit limit;
	uint8_t got[16];
	struct view *v;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_truncate(r.c, MIB), 0);
	write_text(&r, "at the end", MIB - 10);
	assert_int_equal(content_view(r.c, &v), 0);
	memset(data, 'x', sizeof(data));
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = MIB / 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(content_write(r.c, data, MIB, 0, false, NULL), -EFBIG);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(content_read(r.c, got, 10, 0), 10);
	assert_memory_equal(got, "0123456789", 10);
	assert_int_equal(content_read(r.c, got, 16, MIB - 10), 10);
	assert_memory_equal(got, "at the end", 10);
	view_unref(v);
	rig_end(&r);
}

static void a_view_of_a_log_costs_appends_nothing(void **state)
{
	struct view *v;
	struct rig r;
	uint64_t at = 0;

	rig_new(&r, *state, "line\n");
	assert_int_equal(content_view(r.c, &v), 0);
	assert_int_equal(content_write(r.c, "more\n", 5, 0, true, &at), 5);
	assert_int_equal(at, 5);
	assert_int_equal(r.preserved, 0);
	assert_int_equal(folder_files(*state), 1);
	assert_view_is(v, "line\n");
	view_unref(v);
	rig_end(&r);
}

static void a_short_tail_is_sent_again_with_what_follows_and_replaced(void **state)
{
	scoped(extents_fini) struct extents first = chunks_of(1, 5), longer = EXTENTS_EMPTY,
					    all = EXTENTS_EMPTY;
	struct extent ten = chunk(10, 77);
	struct range lacks;
	struct view *v;
	struct rig r;

	assert_int_equal(extents_add(&longer, &ten), 0);
	rig_new(&r, *state, "01234");
	assert_int_equal(content_map(r.c, content_stamp(r.c), 0, &first), 0);
	assert_int_equal(content_write(r.c, "56789", 5, 0, true, NULL), 5);
	assert_int_equal(content_view(r.c, &v), 0);
	assert_int_equal(view_extents(v, &all), -EAGAIN);
	assert_true(view_unmapped(v, 0, &lacks));
	assert_int_equal(lacks.from, 5);
	view_reopen_tail(v);
	assert_true(view_unmapped(v, 0, &lacks));
	assert_int_equal(lacks.from, 0);
	assert_int_equal(lacks.to, 10);
	assert_int_equal(view_map(v, 0, &longer), 0);
	assert_int_equal(view_map(v, 0, &longer), 0); /* twice does no harm */
	assert_int_equal(view_extents(v, &all), 0);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.v[0].place.pack, 77);
	assert_int_equal(content_mapped(r.c), 10);
	view_unref(v);

	assert_int_equal(content_view(r.c, &v), 0); /* the content has the longer one as well */
	extents_fini(&all);
	assert_int_equal(view_extents(v, &all), 0);
	assert_int_equal(all.n, 1);
	view_unref(v);
	rig_end(&r);
}

static void an_upload_of_a_view_does_not_count_where_the_content_went_on(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(2, 5);
	struct view *v;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "x", 7);
	assert_int_equal(view_map(v, 0, &x), 0);
	assert_int_equal(content_mapped(r.c), 5);
	view_unref(v);
	rig_end(&r);
}

/* ---- streaming ---- */

static void a_stream_is_refused_where_a_write_met_it(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(1, 5);
	uint64_t stamp;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_true(content_in_sequence(r.c));
	stamp = content_stamp(r.c);
	assert_int_equal(content_write(r.c, "append", 6, 0, true, NULL), 6);
	assert_int_equal(content_stamp(r.c), stamp);
	assert_true(content_in_sequence(r.c));
	write_text(&r, "x", 7);
	assert_false(content_in_sequence(r.c));
	assert_int_equal(content_map(r.c, stamp, 5, &x), -ESTALE);
	assert_int_equal(content_map(r.c, stamp, 0, &x), 0);
	assert_int_equal(content_mapped(r.c), 5);
	rig_end(&r);
}

static void a_stream_is_refused_after_more_writes_than_are_remembered(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(1, 5);
	uint64_t stamp;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	stamp = content_stamp(r.c);
	for (int i = 0; i < 64; i++)
		write_text(&r, "x", 9);
	assert_int_equal(content_map(r.c, stamp, 0, &x), 0);
	write_text(&r, "x", 9);
	assert_int_equal(content_map(r.c, stamp, 0, &x), -ESTALE);
	rig_end(&r);
}

static void it_is_in_sequence_again_once_the_store_has_all(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(2, 5);
	struct rig r;

	rig_new(&r, *state, "0123456789");
	write_text(&r, "x", 0);
	assert_false(content_in_sequence(r.c));
	assert_int_equal(content_map(r.c, content_stamp(r.c), 0, &x), 0);
	assert_true(content_in_sequence(r.c));
	rig_end(&r);
}

/* ---- absent bytes ---- */

static void what_is_absent_is_asked_for_by_chunk(void **state)
{
	uint8_t data[100] = "filled", got[8];
	struct need n = {.n = 0};
	struct rig r;

	rig_of_chunks(&r, *state, 3, 100);
	assert_false(content_is_whole(r.c));
	assert_int_equal(content_size(r.c), 300);
	assert_int_equal(content_mapped(r.c), 300);
	assert_int_equal(content_read(r.c, got, 8, 150), -ENODATA);
	assert_int_equal(content_needs(r.c, 150, 8, false, &n), 0);
	assert_int_equal(n.n, 1);
	assert_int_equal(n.offs[0], 100);
	assert_int_equal(n.extents.v[0].place.pack, 2);
	need_fini(&n);
	assert_int_equal(content_fill(r.c, data, 100, 100), 0);
	assert_int_equal(r.present, 1);
	assert_int_equal(content_read(r.c, got, 8, 100), 8);
	assert_string_equal((char *)got, "filled");
	rig_end(&r);
}

static void a_write_needs_the_chunks_that_it_covers_in_part(void **state)
{
	static const uint8_t data[200] = "new";
	uint8_t old[100] = "old", got[100];
	struct need n = {.n = 0};
	struct rig r;

	rig_of_chunks(&r, *state, 3, 100);
	assert_int_equal(content_needs(r.c, 100, 200, true, &n), 0);
	assert_int_equal(n.n, 0);
	assert_int_equal(content_write(r.c, data, 150, 100, false, NULL), -ENODATA);
	assert_int_equal(content_needs(r.c, 100, 150, true, &n), 0);
	assert_int_equal(n.n, 1);
	assert_int_equal(n.offs[0], 200);
	need_fini(&n);
	assert_int_equal(content_fill(r.c, old, 100, 200), 0);
	assert_int_equal(content_write(r.c, data, 150, 100, false, NULL), 150);
	assert_int_equal(content_fill(r.c, old, 100, 100), 0); /* it comes late: the write wins */
	assert_int_equal(content_read(r.c, got, 100, 100), 100);
	assert_string_equal((char *)got, "new");
	assert_int_equal(content_mapped(r.c), 100);
	rig_end(&r);
}

static void a_cut_in_an_absent_chunk_wants_it_first_and_then_leaves_zeros(void **state)
{
	uint8_t data[100], got[100];
	struct rig r;

	rig_of_chunks(&r, *state, 2, 100);
	memset(data, 'x', sizeof(data));
	assert_int_equal(content_truncate(r.c, 150), -ENODATA);
	assert_int_equal(content_size(r.c), 200);
	assert_int_equal(content_fill(r.c, data, 100, 100), 0);
	assert_int_equal(content_truncate(r.c, 150), 0);
	assert_int_equal(content_truncate(r.c, 200), 0);
	assert_int_equal(content_mapped(r.c), 100);
	assert_int_equal(content_read(r.c, got, 100, 100), 100);
	assert_memory_equal(got, data, 50);
	for (int i = 50; i < 100; i++)
		assert_int_equal(got[i], 0);
	assert_int_equal(content_truncate(r.c, 100), 0); /* between two chunks: nothing is wanted */
	rig_end(&r);
}

static void zeros_and_inline_bytes_come_without_a_fetch(void **state)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	struct extent in = {.kind = EXTENT_INLINE, .length = 5, .data = (uint8_t *)strdup("abcde")};
	struct extent hole = {.kind = EXTENT_ZERO, .length = UINT64_C(1) << 40};
	struct need n = {.n = 0};
	uint8_t got[8];
	struct rig r;

	assert_int_equal(extents_add(&x, &in), 0);
	assert_int_equal(extents_add(&x, &hole), 0);
	rig_open(&r, *state);
	assert_int_equal(content_of_extents(r.d, ID, 3, &x, 5 + hole.length, &r.c, NULL), 0);
	assert_int_equal(content_write(r.c, "z", 1, 10 * MIB, false, NULL),
			 1); /* a run of zeros can be cut */
	assert_int_equal(content_needs(r.c, 0, 8, false, &n), 0);
	assert_int_equal(n.n, 0);
	assert_int_equal(content_read(r.c, got, 8, 0), 8);
	assert_memory_equal(got, "abcde\0\0", 8);
	assert_int_equal(content_needs(r.c, 10 * MIB - 4, 8, false, &n), 0);
	assert_int_equal(content_read(r.c, got, 8, 10 * MIB - 4), 8);
	assert_memory_equal(got, "\0\0\0\0z\0\0", 8);
	assert_true(content_is_whole(r.c));
	rig_end(&r);
}

/* [0, 10) [10, 20) of the store; it then has [10, 17) [17, 40) instead of the second. */
static int on_absent(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct rig *r = arg;

	r->absent++;
	r->last = (struct range){.from = off, .to = off + len};
	return r->refuses;
}

/* Ten chunks of 1 MiB, all of them here. */
static void rig_of_whole_chunks(struct rig *r, struct folder *folder)
{
	scoped(free) uint8_t *data = malloc(MIB);

	rig_of_chunks(r, folder, 10, MIB);
	r->d->notes.absent = on_absent;
	memset(data, 'x', MIB);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(content_fill(r->c, data, MIB, i * MIB), 0);
	assert_true(content_is_whole(r->c));
}

static struct map_entry entry(unsigned i)
{
	return (struct map_entry){.off = i * MIB, .e = chunk(MIB, i + 1)};
}

static void what_the_store_has_makes_room_and_the_journal_knows_first(void **state)
{
	const struct map_entry v[] = {entry(2), entry(3), entry(9)};
	struct rig r;
	char got;

	rig_of_whole_chunks(&r, *state);
	assert_int_equal(content_give_up(r.c, v, 3), 0);
	assert_int_equal(r.absent, 2);
	assert_int_equal(r.last.from, 9 * MIB);
	assert_int_equal(content_read(r.c, &got, 1, 4 * MIB - 1), -ENODATA);
	assert_int_equal(content_read(r.c, &got, 1, 4 * MIB), 1);
	assert_int_equal(content_punch(r.c), 0);
	assert_int_equal(content_bytes(r.c), 7 * MIB);
	assert_int_equal(content_size(r.c), 10 * MIB);
	rig_end(&r);
}

static void what_the_journal_refuses_stays(void **state)
{
	const struct map_entry v[] = {entry(2)};
	struct rig r;

	rig_of_whole_chunks(&r, *state);
	r.refuses = -EIO;
	assert_int_equal(content_give_up(r.c, v, 1), -EIO);
	assert_true(content_is_whole(r.c));
	rig_end(&r);
}

static void another_chunk_than_the_store_has_there_stays(void **state)
{
	const struct map_entry v[] = {{.off = 2 * MIB, .e = chunk(MIB, 77)}, {.off = 3 * MIB + 1, .e = chunk(MIB, 4)}};
	struct rig r;

	rig_of_whole_chunks(&r, *state);
	assert_int_equal(content_give_up(r.c, v, 2), 0);
	assert_true(content_is_whole(r.c));
	rig_end(&r);
}

/* Between the two halves of making room bytes may come: they are not punched. */
static void what_is_written_before_its_blocks_go_stays(void **state)
{
	const struct map_entry v[] = {entry(2), entry(3)};
	scoped(free) uint8_t *data = malloc(MIB);
	struct rig r;
	char got;

	rig_of_whole_chunks(&r, *state);
	assert_int_equal(content_give_up(r.c, v, 2), 0);
	memset(data, 'y', MIB);
	assert_int_equal(content_fill(r.c, data, MIB, 2 * MIB), 0);
	assert_int_equal(content_punch(r.c), 0);
	assert_int_equal(content_read(r.c, &got, 1, 3 * MIB - 1), 1);
	assert_int_equal(got, 'y');
	rig_end(&r);
}

static void a_longer_version_keeps_what_is_here_and_lacks_the_rest(void **state)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	struct extent parts[] = {chunk(10, 1), chunk(7, 8), chunk(23, 9)};
	struct need n = {.n = 0};
	uint8_t got[40];
	struct rig r;

	rig_of_chunks(&r, *state, 2, 10);
	assert_int_equal(content_fill(r.c, "0123456789", 10, 10), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(extents_add(&x, &parts[i]), 0);
	assert_int_equal(content_extend(r.c, 10, &x, 40), 0);
	assert_int_equal(content_size(r.c), 40);
	assert_int_equal(content_read(r.c, got, 10, 10), 10);
	assert_memory_equal(got, "0123456789", 10);
	assert_int_equal(content_read(r.c, got, 11, 10), -ENODATA);
	assert_int_equal(content_needs(r.c, 0, 40, false, &n), 0);
	assert_int_equal(n.n, 2);
	assert_int_equal(n.offs[0], 0);
	assert_int_equal(n.extents.v[0].place.pack, 1);
	assert_int_equal(n.offs[1], 17);
	assert_int_equal(n.extents.v[1].place.pack, 9);
	need_fini(&n);
	assert_int_equal(content_fill(r.c, "xxxabcdefghijklmnopqrst", 23, 17), 0);
	assert_int_equal(content_read(r.c, got, 40, 10), 30);
	assert_memory_equal(got, "0123456789abcdefghijklmnopqrst", 30); /* only what was absent came in */
	assert_int_equal(content_extend(r.c, 0, &x, 39), -EINVAL);
	rig_end(&r);
}

static void absent_bytes_are_data_to_seek(void **state)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	struct extent one = chunk(MIB, 1), hole = {.kind = EXTENT_ZERO, .length = MIB};
	struct rig r;

	assert_int_equal(extents_add(&x, &hole), 0);
	assert_int_equal(extents_add(&x, &one), 0);
	assert_int_equal(extents_add(&x, &hole), 0);
	rig_open(&r, *state);
	assert_int_equal(content_of_extents(r.d, ID, 3, &x, 3 * MIB, &r.c, NULL), 0);
	assert_int_equal(content_seek(r.c, 0, SEEK_DATA), MIB);
	assert_int_equal(content_seek(r.c, MIB + 5, SEEK_DATA), MIB + 5);
	assert_int_equal(content_seek(r.c, MIB + 5, SEEK_HOLE), 2 * MIB);
	assert_int_equal(content_seek(r.c, 0, SEEK_HOLE), 0);
	assert_int_equal(content_seek(r.c, 2 * MIB, SEEK_DATA), -ENXIO);
	assert_int_equal(content_seek(r.c, 3 * MIB, SEEK_HOLE), -ENXIO);
	rig_end(&r);
}

static void a_mode_that_moves_bytes_is_refused(void **state)
{
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_allocate(r.c, 0, 4096, FALLOC_FL_COLLAPSE_RANGE), -EOPNOTSUPP);
	assert_int_equal(content_allocate(r.c, 0, 0, 0), -EINVAL);
	assert_int_equal(content_allocate(r.c, INT64_MAX, 10, 0), -EFBIG);
	assert_int_equal(content_write(r.c, "x", 1, INT64_MAX, false, NULL), -EFBIG);
	rig_end(&r);
}

/* ---- restarts ---- */

static void a_view_and_its_content_are_adopted_as_they_were(void **state)
{
	scoped(ranges_fini) struct ranges side = RANGES_EMPTY;
	struct extents none = EXTENTS_EMPTY;
	uint32_t number;
	struct view *v;
	char got[16];
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(content_view(r.c, &v), 0);
	write_text(&r, "ab", 2);
	assert_int_equal(content_truncate(r.c, 8), 0);
	number = view_number(v);
	assert_int_equal(view_side(v, &side), 0);
	content_dir_keep(r.d);
	view_unref(v);
	rig_end(&r);

	rig_open(&r, *state);
	assert_int_equal(content_adopt(r.d, ID, 3, &none, NULL, NULL, &r.c, NULL), 0);
	assert_int_equal(view_adopt(r.c, number, 10, &side, &(struct need){.n = 0}, &v), 0);
	assert_int_equal(content_dir_sweep(r.d, NULL, NULL), 0);
	assert_view_is(v, "0123456789");
	assert_int_equal(content_read(r.c, got, 16, 0), 8);
	assert_memory_equal(got, "01ab4567", 8);
	write_text(&r, "x", 0);
	assert_int_equal(r.preserved, 1);
	assert_view_is(v, "0123456789");
	view_unref(v);
	assert_int_equal(content_view(r.c, &v), 0);
	assert_true(view_number(v) > number);
	view_unref(v);
	rig_end(&r);
}

static void a_view_whose_side_file_is_gone_is_not_adopted(void **state)
{
	scoped(ranges_fini) struct ranges side = RANGES_EMPTY;
	struct view *v = NULL;
	struct rig r;

	rig_new(&r, *state, "0123456789");
	assert_int_equal(ranges_add(&side, 2, 4), 0);
	assert_int_equal(view_adopt(r.c, 4, 10, &side, &(struct need){.n = 0}, &v), -ENOENT);
	assert_null(v);
	rig_end(&r);
}

static void what_was_told_present_is_and_the_rest_is_fetched(void **state)
{
	scoped(extents_fini) struct extents x = chunks_of(3, 100);
	scoped(ranges_fini) struct ranges present = RANGES_EMPTY;
	static const uint8_t data[100] = "here";
	uint8_t got[100];
	struct rig r;

	rig_of_chunks(&r, *state, 3, 100);
	assert_int_equal(content_fill(r.c, data, 100, 100), 0);
	assert_int_equal(content_write(r.c, data, 100, 400, false, NULL),
			 100); /* it grows: told before */
	assert_int_equal(r.last.from, 300);
	assert_true(r.last.to == UINT64_MAX);
	assert_int_equal(content_present(r.c, &present), 0);
	assert_int_equal(present.n, 2);
	content_dir_keep(r.d);
	rig_end(&r);

	rig_open(&r, *state);
	assert_int_equal(content_adopt(r.d, ID, 3, &x, NULL, &present, &r.c, NULL), 0);
	assert_int_equal(content_size(r.c), 500);
	assert_int_equal(content_mapped(r.c),
			 100); /* the middle one may be changed, for all that is known */
	assert_int_equal(content_read(r.c, got, 100, 0), -ENODATA);
	assert_int_equal(content_read(r.c, got, 100, 100), 100);
	assert_string_equal((char *)got, "here");
	assert_int_equal(content_read(r.c, got, 100, 400), 100);
	assert_string_equal((char *)got, "here");
	rig_end(&r);
}

/* ---- threads ---- */

#define WRITERS 3
#define WRITES  400

struct writer {
	pthread_t thread;
	struct content *c;
	char letter;
};

/* Its letter, at the end, and over the first bytes. */
static void *append(void *arg)
{
	struct writer *w = arg;
	char line[64], got[64];

	memset(line, w->letter, sizeof(line));
	for (int i = 0; i < WRITES; i++) {
		uint64_t at;

		if (content_write(w->c, line, sizeof(line), 0, true, &at) != sizeof(line) ||
		    at % sizeof(line))
			return w;
		if (i % 8 == 0 &&
		    content_write(w->c, line, sizeof(line), 0, false, NULL) != sizeof(line))
			return w;
		if (content_read(w->c, got, sizeof(got), at) != sizeof(got) ||
		    memcmp(got, line, sizeof(got)) != 0)
			return w;
		if (i % 32 == 0 && (content_hold(w->c) < 0 || content_sync(w->c) < 0))
			return w;
		if (i % 32 == 0)
			content_unhold(w->c);
	}
	return NULL;
}

static void assert_lines_are_whole(const uint8_t *data, size_t len)
{
	assert_int_equal(len % 64, 0);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(data[i], data[i - i % 64]);
}

static void views_taken_between_writes_of_many_threads_hold_whole_writes(void **state)
{
	static uint8_t data[2][WRITERS * WRITES * 64];
	struct writer writers[WRITERS];
	struct rig r;

	rig_open(&r, *state);
	assert_int_equal(content_new(r.d, ID, 3, &r.c, NULL), 0);
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.c = r.c, .letter = (char)('a' + i)};
		assert_int_equal(pthread_create(&writers[i].thread, NULL, append, &writers[i]), 0);
	}
	for (int i = 0; i < 100; i++) {
		struct view *v;
		ssize_t n;

		assert_int_equal(content_view(r.c, &v), 0);
		n = view_read(v, data[0], sizeof(data[0]), 0);
		assert_int_equal(n, view_size(v));
		assert_lines_are_whole(data[0], (size_t)n);
		assert_int_equal(pread(content_hold(r.c), data[1], (size_t)n, 0),
				 n); /* as an uploader reads */
		content_unhold(r.c);
		assert_int_equal(view_patch(v, data[1], (size_t)n, 0), 0);
		assert_memory_equal(data[0], data[1], (size_t)n);
		view_unref(v);
	}
	for (int i = 0; i < WRITERS; i++) {
		void *failed;

		assert_int_equal(pthread_join(writers[i].thread, &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(content_size(r.c), WRITERS * WRITES * 64);
	rig_end(&r);
}

#define test(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(the_file_is_named_by_id_and_version_and_goes_with_the_last_reference),
		test(a_cache_that_is_to_go_on_keeps_its_files),
		test(a_missing_file_is_told_by_name),
		test(extents_beyond_the_size_are_refused),
		test(a_sweep_deletes_what_no_content_names),
		test(a_view_keeps_what_is_overwritten_and_what_is_cut),
		test(bytes_that_the_store_has_are_not_copied_but_told_of),
		test(a_write_that_cannot_be_preserved_changes_nothing),
		test(a_view_of_a_log_costs_appends_nothing),
		test(a_short_tail_is_sent_again_with_what_follows_and_replaced),
		test(an_upload_of_a_view_does_not_count_where_the_content_went_on),
		test(a_stream_is_refused_where_a_write_met_it),
		test(a_stream_is_refused_after_more_writes_than_are_remembered),
		test(it_is_in_sequence_again_once_the_store_has_all),
		test(what_is_absent_is_asked_for_by_chunk),
		test(a_write_needs_the_chunks_that_it_covers_in_part),
		test(a_cut_in_an_absent_chunk_wants_it_first_and_then_leaves_zeros),
		test(zeros_and_inline_bytes_come_without_a_fetch),
		test(what_the_store_has_makes_room_and_the_journal_knows_first),
		test(what_the_journal_refuses_stays),
		test(another_chunk_than_the_store_has_there_stays),
		test(what_is_written_before_its_blocks_go_stays),
		test(a_longer_version_keeps_what_is_here_and_lacks_the_rest),
		test(absent_bytes_are_data_to_seek),
		test(a_mode_that_moves_bytes_is_refused),
		test(a_view_and_its_content_are_adopted_as_they_were),
		test(a_view_whose_side_file_is_gone_is_not_adopted),
		test(what_was_told_present_is_and_the_rest_is_fetched),
		test(views_taken_between_writes_of_many_threads_hold_whole_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
