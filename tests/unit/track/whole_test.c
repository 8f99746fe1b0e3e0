/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of files, whole, cut and spoilt.  Files by the libraries themselves: tests/frameworks/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fs/track/whole.h"
#include "tests/unit/track/whole_files.h"

struct memory {
	const struct buf *b;
	uint64_t absent_from; /* bytes from here on are not at hand */
	uint64_t bytes;       /* read so far */
};

static ssize_t read_memory(void *arg, void *data, size_t len, uint64_t off)
{
	struct memory *m = arg;

	assert_true(off + len <= m->b->len);
	if (off + len > m->absent_from)
		return -1;
	m->bytes += len;
	if (len)
		memcpy(data, m->b->data + off, len);
	return (ssize_t)len;
}

static enum whole_verdict look(const struct buf *b, const char **why)
{
	struct memory m = {.b = b, .absent_from = UINT64_MAX};
	struct whole_source s = {.read = read_memory, .arg = &m, .size = b->len};

	return whole_look(&s, why);
}

static void expect(const struct buf *b, enum whole_verdict wanted, const char *name, size_t at)
{
	const char *why;
	enum whole_verdict got = look(b, &why);

	if (got != wanted || (got == WHOLE_TORN) != (*why != '\0'))
		fail_msg("%s, %zu: verdict %d (%s), wanted %d", name, at, got, why, wanted);
}

static void whole_files_are_whole(void **state)
{
	for (size_t i = 0; i < WHOLE_FILES; i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;

		whole_files[i].make(&b);
		expect(&b, WHOLE_YES, whole_files[i].name, b.len);
	}
}

static void a_file_cut_anywhere_is_torn(void **state)
{
	for (size_t i = 0; i < WHOLE_FILES; i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;
		size_t len;

		whole_files[i].make(&b);
		len = b.len;
		for (b.len = 0; b.len < len; b.len++) {
			if (whole_files[i].make == make_zips && b.len > 4) { /* whole with each of them */
				const char *why;
				bool at_end = look(&b, &why) == WHOLE_YES;

				assert_true(at_end == (b.len >= 22 && memcmp(b.data + b.len - 22, "PK\5\6", 4) == 0));
				continue;
			}
			expect(&b, b.len < whole_files[i].begins ? WHOLE_UNKNOWN : WHOLE_TORN, whole_files[i].name, b.len);
		}
	}
}

/* As a file looks that was given its size first, and that whoever wrote it left. */
static void zeros_in_place_of_what_says_the_length_are_torn(void **state)
{
	for (size_t i = 0; i < WHOLE_FILES; i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;
		size_t keep = whole_files[i].begins;
		size_t upto;

		whole_files[i].make(&b);
		/* a zip says it at its end, so all zeros from there are torn; the others at their head */
		upto = memcmp(b.data, "PK", 2) == 0 ? b.len - 22 : keep;
		if (whole_files[i].make == make_zip_with_comment)
			upto -= 40;
		for (size_t at = keep; at <= upto; at++) {
			scoped(buf_fini) struct buf z = BUF_EMPTY;

			buf_add(&z, b.data, b.len);
			memset(z.data + at, 0, z.len - at);
			expect(&z, WHOLE_TORN, whole_files[i].name, at);
		}
	}
}

static void what_is_not_at_hand_is_not_judged(void **state)
{
	for (size_t i = 0; i < WHOLE_FILES; i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;
		struct memory m = {.b = &b};
		struct whole_source s = {.read = read_memory, .arg = &m};
		const char *why;

		whole_files[i].make(&b);
		s.size = b.len;
		for (m.absent_from = 0; m.absent_from < b.len; m.absent_from++)
			assert_int_not_equal(whole_look(&s, &why), WHOLE_TORN);
	}
}

static void a_torch_archive_has_all_storages_that_its_pickle_names(void **state)
{
	static const struct {
		unsigned storages;
		bool script;
		enum whole_verdict wanted;
	} cases[] = {
		{2, false, WHOLE_YES}, {1, false, WHOLE_TORN}, {0, false, WHOLE_TORN},
		{0, true, WHOLE_YES}, /* torch.jit keeps tensors elsewhere, too */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY, behind = BUF_EMPTY;

		make_torch_of(&b, cases[i].storages, cases[i].script);
		expect(&b, cases[i].wanted, "torch", i);
		make_zip(&behind); /* the last of several counts */
		make_torch_of(&behind, cases[i].storages, cases[i].script);
		expect(&behind, cases[i].wanted, "torch behind another", i);
	}
}

static void a_pickle_that_is_not_understood_is_believed(void **state)
{
	static const struct {
		const char *pickle;
		size_t len;
	} cases[] = {
		{"", 0}, {"\x80\x02", 2}, {"\x80\x02\xff.", 4}, {"(X\xff\xff\xff\xff" "0Q.", 8},
		{"(X\x01\0\0\0" "9Q", 8}, /* no end */
		{"(\x8d\xff\xff\xff\xff\xff\xff\xff\xffQ.", 12},
		{"(X\x0a\0\0\0" "9999999999Q.", 18}, /* no number of torch's */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;
		struct zip_maker z = {.out = &b};

		zip_add(&z, "a/data.pkl", cases[i].pickle, cases[i].len);
		zip_end(&z, false, "");
		expect(&b, WHOLE_YES, "pickle", i);
	}
}

struct bytes_case {
	const char *name;
	const char *bytes;
	size_t len;
	enum whole_verdict wanted;
};

#define BYTES_CASE(name, bytes, wanted) {name, bytes, sizeof(bytes) - 1, wanted}

static const struct bytes_case bytes_cases[] = {
	BYTES_CASE("empty", "", WHOLE_UNKNOWN),
	BYTES_CASE("text", "epoch,loss\n1,0.5\n", WHOLE_UNKNOWN),
	BYTES_CASE("zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", WHOLE_UNKNOWN),
	BYTES_CASE("JSON", "{\"step\": 1}\n", WHOLE_UNKNOWN),
	BYTES_CASE("a length and JSON that is no header",
		   "\x0b\0\0\0\0\0\0\0{\"step\": 1}tail", WHOLE_UNKNOWN),
	BYTES_CASE("a length and no JSON", "\x05\0\0\0\0\0\0\0{\"ab}", WHOLE_UNKNOWN),
	BYTES_CASE("no tensors", "\x08\0\0\0\0\0\0\0{}      ", WHOLE_YES),
	BYTES_CASE("tensors and bytes that no tensor has", "\x08\0\0\0\0\0\0\0{}      x", WHOLE_TORN),
	BYTES_CASE("a length beyond the format's", "\xff\xff\xff\xff\0\0\0\0{\"a\": 1}", WHOLE_UNKNOWN),
	BYTES_CASE("HDF5 of a version to come",
		   "\x89HDF\r\n\x1a\n\x04\x08\x08\0............................................", WHOLE_UNKNOWN),
	BYTES_CASE("a zip whose directory would begin before it",
		   "PK\5\6\0\0\0\0\1\0\1\0\x2e\0\0\0\0\0\0\0\0\0", WHOLE_TORN),
};

static void bytes_follow_their_table(void **state)
{
	for (size_t i = 0; i < sizeof(bytes_cases) / sizeof(bytes_cases[0]); i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;

		buf_add(&b, bytes_cases[i].bytes, bytes_cases[i].len);
		expect(&b, bytes_cases[i].wanted, bytes_cases[i].name, i);
	}
}

static void an_hdf5_that_a_writer_has_open_is_torn(void **state)
{
	for (unsigned version = 2; version <= 3; version++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;

		make_hdf5_of(&b, version, 0, true);
		expect(&b, version == 3 ? WHOLE_TORN : WHOLE_YES, "open", version);
	}
}

/* Of 64 MiB of anything some KiB are read, of a zip without a directory the length of a comment. */
static void little_is_read(void **state)
{
	static const char *const heads[] = {"PK\3\4", "\x93NUMPY", "\xff\xff\xff\5\0\0\0\0{\"", "\x89HDF\r\n\x1a\n"};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		scoped(buf_fini) struct buf b = BUF_EMPTY;
		struct memory m = {.b = &b, .absent_from = UINT64_MAX};
		struct whole_source s = {.read = read_memory, .arg = &m, .size = 64u << 20};
		const char *why;

		assert_int_equal(buf_reserve(&b, s.size), 0);
		memset(b.data, 0, s.size);
		b.len = s.size;
		memcpy(b.data, heads[i], i == 2 ? 10 : i == 0 ? 4 : 6 + 2 * (i == 3));
		(void)whole_look(&s, &why);
		assert_in_range(m.bytes, 1, 66000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_files_are_whole),
		cmocka_unit_test(a_file_cut_anywhere_is_torn),
		cmocka_unit_test(zeros_in_place_of_what_says_the_length_are_torn),
		cmocka_unit_test(what_is_not_at_hand_is_not_judged),
		cmocka_unit_test(a_torch_archive_has_all_storages_that_its_pickle_names),
		cmocka_unit_test(a_pickle_that_is_not_understood_is_believed),
		cmocka_unit_test(bytes_follow_their_table),
		cmocka_unit_test(an_hdf5_that_a_writer_has_open_is_torn),
		cmocka_unit_test(little_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
