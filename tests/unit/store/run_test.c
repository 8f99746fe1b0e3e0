/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: against a naive list of the same items, however they were added; and what a decoder refuses. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/run.h"
#include "tests/unit/store/helpers.h"
#include "tests/unit/store/model.h"

static struct run *run_of(const struct model *m, uint64_t *seed)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	struct run *r = NULL;
	size_t from = random_below(seed, m->n ? m->n : 1);

	/* Any order, and every item twice: first with another value. */
	for (size_t i = 0; i < m->n; i++)
		assert_int_equal(run_builder_add(b, m->v[i].key, m->v[i].key_len, "stale", 5), 0);
	for (size_t k = 0; k < m->n; k++) {
		const struct model_item *x = &m->v[(from + k) % m->n];

		assert_int_equal(run_builder_add(b, x->key, x->key_len,
						 x->removal ? NULL : x->value, x->value_len),
				 0);
	}
	assert_int_equal(run_builder_finish(b, &r), 0);
	return r;
}

static void assert_same(const struct run *r, const struct model *m)
{
	assert_int_equal(run_count(r), m->n);
	for (size_t i = 0; i < m->n; i++) {
		const struct model_item *x = &m->v[i];
		struct run_item item;

		run_at(r, i, &item);
		assert_int_equal(item.key_len, x->key_len);
		assert_memory_equal(item.key, x->key, x->key_len);
		assert_int_equal(!item.value, x->removal);
		if (item.value) {
			assert_int_equal(item.value_len, x->value_len);
			assert_memory_equal(item.value, x->value, x->value_len);
		}
		assert_true(run_find(r, x->key, x->key_len, &item));
		assert_int_equal(run_seek(r, x->key, x->key_len), i);
	}
}

static void a_run_holds_what_was_added_last_in_order_of_keys(void **state)
{
	for (uint64_t seed = 1; seed < 40; seed++) {
		uint64_t s = seed;
		scoped(model_fini) struct model m = MODEL_EMPTY;
		scoped(run_unref) struct run *r = NULL;

		model_random(&m, &s, random_below(&s, 60), 12);
		r = run_of(&m, &s);
		assert_same(r, &m);
	}
}

static void encode_and_decode_give_the_same_run(void **state)
{
	for (uint64_t seed = 1; seed < 40; seed++) {
		uint64_t s = seed;
		scoped(model_fini) struct model m = MODEL_EMPTY;
		scoped(run_unref) struct run *r = NULL, *back = NULL;
		scoped(buf_fini) struct buf bytes = BUF_EMPTY, again = BUF_EMPTY;
		struct fault f = FAULT_NONE;

		model_random(&m, &s, random_below(&s, 60), 12);
		r = run_of(&m, &s);
		assert_int_equal(run_encode(r, &bytes), 0);
		assert_int_equal(bytes.len, run_bytes(r));
		assert_int_equal(run_decode(bytes.data, bytes.len, &back, &f), 0);
		assert_same(back, &m);
		assert_int_equal(run_encode(back, &again), 0);
		assert_int_equal(again.len, bytes.len);
		assert_memory_equal(again.data, bytes.data, bytes.len);
	}
}

static void a_merge_lets_the_newest_win(void **state)
{
	for (uint64_t seed = 1; seed < 60; seed++) {
		uint64_t s = seed;
		size_t n = 1 + random_below(&s, 9);
		bool drop = random_below(&s, 2);
		struct run *runs[9] = {NULL};
		scoped(run_unref) struct run *r = NULL;
		scoped(model_fini) struct model all = MODEL_EMPTY;

		for (size_t i = n; i-- > 0;) { /* oldest first into the model */
			scoped(model_fini) struct model m = MODEL_EMPTY;

			model_random(&m, &s, random_below(&s, 30), 8);
			runs[i] = run_of(&m, &s);
			model_apply(&all, &m);
		}
		if (drop)
			model_drop_removals(&all);
		assert_int_equal(run_merge(runs, n, drop, &r), 0);
		assert_same(r, &all);
		for (size_t i = 0; i < n; i++)
			run_unref(runs[i]);
	}
}

static void nothing_merges_to_an_empty_run(void **state)
{
	scoped(run_unref) struct run *r = NULL;
	struct run_item item;

	assert_int_equal(run_merge(NULL, 0, true, &r), 0);
	assert_int_equal(run_count(r), 0);
	assert_int_equal(run_bytes(r), 4);
	assert_int_equal(run_seek(r, "x", 1), 0);
	assert_false(run_find(r, "x", 1, &item));
}

static void a_builder_is_empty_after_it_has_finished(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(run_unref) struct run *first = NULL, *second = NULL;
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_name(1, "a", 1, key);

	assert_int_equal(run_builder_add(b, key, len, "1", 1), 0);
	assert_int_equal(run_builder_finish(b, &first), 0);
	assert_int_equal(run_builder_finish(b, &second), 0);
	assert_int_equal(run_count(first), 1);
	assert_int_equal(run_count(second), 0);
}

static void seek_finds_the_first_key_that_is_not_before(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(run_unref) struct run *r = NULL;
	uint8_t key[RUN_KEY_MAX];

	assert_int_equal(run_builder_add(b, key, key_of_name(7, "b", 1, key), "", 0), 0);
	assert_int_equal(run_builder_add(b, key, key_of_name(7, "bb", 2, key), "", 0), 0);
	assert_int_equal(run_builder_add(b, key, key_of_inode(7, 3, 0, key), "", 0), 0);
	assert_int_equal(run_builder_finish(b, &r), 0);
	assert_int_equal(run_seek(r, key, key_of_name(7, "a", 1, key)), 0);
	assert_int_equal(run_seek(r, key, key_of_name(7, "b", 1, key)), 0);
	assert_int_equal(run_seek(r, key, key_of_name(7, "ba", 2, key)), 1);
	assert_int_equal(run_seek(r, key, key_of_name(7, "c", 1, key)), 2);
	assert_int_equal(run_seek(r, key, key_of_name(8, "a", 1, key)), 3);
}

static void keys_sort_names_before_inodes_and_directories_apart(void **state)
{
	uint8_t a[RUN_KEY_MAX], b[RUN_KEY_MAX];
	size_t a_len, b_len;

	a_len = key_of_name(5, "\xff\xff\xff", 3, a);
	b_len = key_of_inode(5, 1, 0, b);
	assert_true(key_compare(a, a_len, b, b_len) < 0);
	a_len = key_of_inode(5, UINT64_MAX, UINT32_MAX, a);
	b_len = key_of_name(6, "a", 1, b);
	assert_true(key_compare(a, a_len, b, b_len) < 0);
	a_len = key_of_inode(5, 255, 9, a);
	b_len = key_of_inode(5, 256, 0, b);
	assert_true(key_compare(a, a_len, b, b_len) < 0);
	assert_int_equal(key_kind(a, a_len), KEY_INODE);
	assert_int_equal(key_kind(a, a_len - 1), KEY_BAD);
	assert_int_equal(key_kind(a, 9), KEY_BAD);
	a[8] = 9;
	assert_int_equal(key_kind(a, a_len), KEY_BAD);
	memset(a, 0xff, 8);
	a[8] = KEY_CHUNK;
	assert_int_equal(key_kind(a, 25), KEY_CHUNK);
	a[0] = 0;
	assert_int_equal(key_kind(a, 25), KEY_BAD);
}

/* An encoded run of one item with this key and the value "v". */
static void encode_one(const uint8_t *key, size_t key_len, struct buf *out)
{
	buf_u32(out, 1);
	buf_u16(out, (uint16_t)key_len);
	buf_u32(out, 1);
	buf_add(out, key, key_len);
	buf_u8(out, 'v');
}

static void names_that_are_no_names_are_refused_and_shown(void **state)
{
	static const struct {
		const char *name;
		size_t len;
		const char *in_text;
	} cases[] = {
		{"a/b", 3, "\"a/b\""},   {".", 1, "means a directory"},
		{"..", 2, "\"..\""},     {"a\0b", 3, "holds a NUL"},
		{"/", 1, "holds a '/'"}, {"\n/\x7f", 3, "\"?/?\""},
	};
	scoped(run_builder_free) struct run_builder *b = run_builder_new();

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		scoped(buf_fini) struct buf bytes = BUF_EMPTY;
		struct fault f = FAULT_NONE;
		struct run *r = NULL;
		uint8_t key[RUN_KEY_MAX];
		size_t len = key_of_name(1, cases[i].name, cases[i].len, key);

		assert_int_equal(run_builder_add(b, key, len, "v", 1), -EINVAL);
		encode_one(key, len, &bytes);
		assert_int_equal(run_decode(bytes.data, bytes.len, &r, &f), -EBADMSG);
		assert_null(r);
		assert_non_null(strstr(f.text, cases[i].in_text));
		assert_non_null(strstr(f.text, "item 0"));
	}
}

static void names_of_255_bytes_are_the_longest(void **state)
{
	uint8_t key[RUN_KEY_MAX + 1] = {0};

	memset(key + 9, 'n', sizeof(key) - 9);
	for (size_t len = RUN_KEY_MAX; len <= RUN_KEY_MAX + 1; len++) {
		scoped(buf_fini) struct buf bytes = BUF_EMPTY;
		scoped(run_unref) struct run *r = NULL;
		struct fault f = FAULT_NONE;

		encode_one(key, len, &bytes);
		assert_int_equal(run_decode(bytes.data, bytes.len, &r, &f),
				 len == RUN_KEY_MAX ? 0 : -EBADMSG);
	}
	assert_non_null(name_refused(key, 0));
	assert_null(name_refused("...", 3));
	assert_null(name_refused(".a", 2));
}

static void runs_out_of_order_or_doubled_are_refused(void **state)
{
	uint8_t a[RUN_KEY_MAX], b[RUN_KEY_MAX];
	size_t len = key_of_name(1, "a", 1, a);

	(void)key_of_name(1, "b", 1, b);
	for (int doubled = 0; doubled < 2; doubled++) {
		scoped(buf_fini) struct buf bytes = BUF_EMPTY, one = BUF_EMPTY;
		struct fault f = FAULT_NONE;
		struct run *r = NULL;

		encode_one(doubled ? a : b, len, &bytes);
		encode_one(a, len, &one);
		buf_add(&bytes, one.data + 4, one.len - 4);
		bytes.data[0] = 2;
		assert_int_equal(run_decode(bytes.data, bytes.len, &r, &f), -EBADMSG);
		assert_non_null(strstr(f.text, "item 1"));
	}
}

static void truncations_and_bytes_too_many_are_refused(void **state)
{
	uint64_t s = 5;
	scoped(model_fini) struct model m = MODEL_EMPTY;
	scoped(run_unref) struct run *r = NULL;
	scoped(buf_fini) struct buf bytes = BUF_EMPTY;
	struct run *back = NULL;
	struct fault f = FAULT_NONE;

	model_random(&m, &s, 20, 12);
	r = run_of(&m, &s);
	assert_int_equal(run_encode(r, &bytes), 0);
	for (size_t len = 0; len < bytes.len; len++)
		assert_int_equal(run_decode(bytes.data, len, &back, &f), -EBADMSG);
	buf_u8(&bytes, 0);
	assert_int_equal(run_decode(bytes.data, bytes.len, &back, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "behind its end"));
	memset(bytes.data, 0xff, 4); /* a count for which there is no memory */
	assert_int_equal(run_decode(bytes.data, bytes.len, &back, &f), -EBADMSG);
	assert_null(back);
}

/* ---- values ---- */

static void a_name_record_reads_back(void **state)
{
	scoped(buf_fini) struct buf v = BUF_EMPTY;
	struct name_rec n = {.id = 12, .home = 34, .type = DT_REG}, back;
	struct fault f = FAULT_NONE;

	assert_int_equal(name_rec_encode(&n, &v), 0);
	assert_int_equal(name_rec_decode(v.data, v.len, &back, &f), 0);
	assert_int_equal(back.id, 12);
	assert_int_equal(back.home, 34);
	assert_int_equal(back.type, DT_REG);
	for (size_t len = 0; len < v.len; len++)
		assert_int_equal(name_rec_decode(v.data, len, &back, &f), -EBADMSG);
	buf_u8(&v, 0);
	assert_int_equal(name_rec_decode(v.data, v.len, &back, &f), -EBADMSG);
	memset(v.data, 0, 8);
	assert_int_equal(name_rec_decode(v.data, v.len - 1, &back, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "no inode"));
}

/* A file with `n` extents of all kinds, xattrs included.  Ended by inode_rec_fini(). */
static void make_file(struct inode_rec *i, size_t n)
{
	*i = (struct inode_rec){
		.id = 42,
		.home = 7,
		.attr = {.mode = S_IFREG | 0640,
			 .uid = 1,
			 .gid = 2,
			 .nlink = 3,
			 .atime_ns = -1,
			 .mtime_ns = 5,
			 .ctime_ns = 6},
		.xattrs = calloc(2, sizeof(struct xattr)),
		.xattr_n = 2,
	};
	i->xattrs[0] =
		(struct xattr){.name = strdup("user.a"), .value = (uint8_t *)strdup("x"), .len = 1};
	i->xattrs[1] = (struct xattr){.name = strdup("user.empty"),
				      .value = (uint8_t *)strdup(""),
				      .len = 0};
	for (size_t k = 0; k < n; k++) {
		struct extent e = {.kind = (uint8_t)(k % 3),
				   .length = k % 3 == EXTENT_INLINE ? 10 : CHUNK_MAX};

		e.hash.b[3] = (uint8_t)k;
		if (e.kind == EXTENT_CHUNK)
			e.place = (struct place){.pack = k << 34,
						 .offset = 16,
						 .stored = PACK_MAX - 16,
						 .codec = 1};
		if (e.kind == EXTENT_INLINE)
			e.data = (uint8_t *)strdup("0123456789");
		assert_int_equal(extents_add(&i->extents, &e), 0);
		i->attr.size += e.length;
	}
}

static int read_back(const struct run *r, struct inode_rec *out, struct fault *f)
{
	*out = (struct inode_rec){.id = 0};
	for (size_t i = 0; i < run_count(r); i++) {
		struct run_item item;
		int rc;

		run_at(r, i, &item);
		rc = item.value ? inode_rec_decode(item.key, item.key_len, item.value,
						   item.value_len, out, f)
				: 0;
		if (rc < 0)
			return rc;
	}
	return inode_rec_check(out, f);
}

/* Field by field: what lies between them may differ. */
static void assert_same_attr(const struct inode_attr *a, const struct inode_attr *b)
{
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->nlink, b->nlink);
	assert_int_equal(a->rdev, b->rdev);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->atime_ns, b->atime_ns);
	assert_int_equal(a->mtime_ns, b->mtime_ns);
	assert_int_equal(a->ctime_ns, b->ctime_ns);
}

static void an_inode_of_many_segments_reads_back(void **state)
{
	static const size_t sizes[] = {0, 1, 1023, 1024, 1025, 3000};

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		scoped(run_builder_free) struct run_builder *b = run_builder_new();
		scoped(inode_rec_fini) struct inode_rec i, back = {.id = 0};
		scoped(run_unref) struct run *r = NULL;
		struct fault f = FAULT_NONE;

		make_file(&i, sizes[k]);
		assert_int_equal(inode_rec_put(b, &i, 0), 0);
		assert_int_equal(run_builder_finish(b, &r), 0);
		assert_int_equal(run_count(r), inode_rec_segments(&i));
		assert_int_equal(run_count(r), sizes[k] == 0 ? 1 : (sizes[k] + 1023) / 1024);
		assert_int_equal(read_back(r, &back, &f), 0);
		assert_int_equal(back.id, 42);
		assert_int_equal(back.home, 7);
		assert_same_attr(&back.attr, &i.attr);
		assert_int_equal(back.xattr_n, 2);
		assert_string_equal(back.xattrs[0].name, "user.a");
		assert_memory_equal(back.xattrs[0].value, "x", 1);
		assert_int_equal(back.xattrs[1].len, 0);
		assert_int_equal(back.extents.n, sizes[k]);
		for (size_t e = 0; e < sizes[k]; e++) {
			const struct extent *x = &i.extents.v[e], *y = &back.extents.v[e];

			assert_int_equal(x->length, y->length);
			assert_int_equal(x->kind, y->kind);
			assert_true(hash_equal(&x->hash, &y->hash) || x->kind == EXTENT_ZERO);
			assert_int_equal(x->place.pack, y->place.pack);
			assert_int_equal(x->place.stored, y->place.stored);
			assert_int_equal(x->place.codec, y->place.codec);
			if (x->data)
				assert_memory_equal(x->data, y->data, x->length);
		}
	}
}

static void a_symlink_reads_back(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(inode_rec_fini) struct inode_rec back = {.id = 0};
	scoped(run_unref) struct run *r = NULL;
	char target[] = "../latest";
	struct inode_rec i = {.id = 2,
			      .home = 1,
			      .attr = {.mode = S_IFLNK | 0777, .size = 9},
			      .symlink = target};
	struct fault f = FAULT_NONE;

	assert_int_equal(inode_rec_put(b, &i, 0), 0);
	assert_int_equal(run_builder_finish(b, &r), 0);
	assert_int_equal(read_back(r, &back, &f), 0);
	assert_string_equal(back.symlink, target);
	i.symlink = NULL;
	assert_int_equal(inode_rec_put(b, &i, 0), -EINVAL);
}

static void a_file_that_shrinks_removes_its_segments(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(inode_rec_fini) struct inode_rec i;
	scoped(run_unref) struct run *r = NULL;
	struct run_item item;

	make_file(&i, 1500);
	assert_int_equal(inode_rec_put(b, &i, 4), 0);
	assert_int_equal(inode_rec_remove(b, 7, 43, 2), 0);
	assert_int_equal(run_builder_finish(b, &r), 0);
	assert_int_equal(run_count(r), 6);
	for (size_t k = 0; k < 6; k++) {
		run_at(r, k, &item);
		assert_int_equal(item.value != NULL, k < 2);
	}
}

static void a_missing_segment_is_noticed(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(inode_rec_fini) struct inode_rec i, back = {.id = 0}, first = {.id = 0};
	scoped(run_unref) struct run *r = NULL;
	struct fault f = FAULT_NONE;
	struct run_item s0, s1, s2;

	make_file(&i, 3000);
	assert_int_equal(inode_rec_put(b, &i, 0), 0);
	assert_int_equal(run_builder_finish(b, &r), 0);
	run_at(r, 0, &s0);
	run_at(r, 1, &s1);
	run_at(r, 2, &s2);
	assert_int_equal(inode_rec_decode(s0.key, s0.key_len, s0.value, s0.value_len, &back, &f),
			 0);
	assert_int_equal(inode_rec_decode(s2.key, s2.key_len, s2.value, s2.value_len, &back, &f),
			 -EBADMSG);
	assert_non_null(strstr(f.text, "inode 42 segment 2"));
	assert_int_equal(inode_rec_decode(s0.key, s0.key_len, s0.value, s0.value_len, &first, &f),
			 0);
	assert_int_equal(inode_rec_decode(s1.key, s1.key_len, s1.value, s1.value_len, &first, &f),
			 0);
	assert_int_equal(inode_rec_check(&first, &f), -EBADMSG); /* the last one */
	assert_non_null(strstr(f.text, "inode 42"));
}

static void extents_that_do_not_add_up_are_not_written(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(inode_rec_fini) struct inode_rec i;

	make_file(&i, 2);
	i.attr.size++;
	assert_int_equal(inode_rec_put(b, &i, 0), -EINVAL);
}

static void inodes_cut_short_or_flipped_never_overrun(void **state)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(inode_rec_fini) struct inode_rec i;
	scoped(run_unref) struct run *r = NULL;
	struct run_item item;

	make_file(&i, 9);
	assert_int_equal(inode_rec_put(b, &i, 0), 0);
	assert_int_equal(run_builder_finish(b, &r), 0);
	run_at(r, 0, &item);
	for (size_t len = 0; len < item.value_len; len++) {
		scoped(inode_rec_fini) struct inode_rec back = {.id = 0};
		scoped(free) uint8_t *exact = malloc(len + !len); /* so that an overrun is seen */
		struct fault f = FAULT_NONE;

		memcpy(exact, item.value, len);
		assert_int_equal(inode_rec_decode(item.key, item.key_len, exact, len, &back, &f),
				 -EBADMSG);
		assert_non_null(strstr(f.text, "inode 42"));
	}
	for (size_t at = 0; at < item.value_len; at++) {
		scoped(inode_rec_fini) struct inode_rec back = {.id = 0};
		scoped(free) uint8_t *copy = malloc(item.value_len);

		memcpy(copy, item.value, item.value_len);
		copy[at] ^= 0xff;
		(void)inode_rec_decode(item.key, item.key_len, copy, item.value_len, &back,
				       NULL); /* no overrun is all */
	}
}

static void zero_runs_join_and_copies_own_their_content(void **state)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY, copy = EXTENTS_EMPTY;
	struct extent zero = {.kind = EXTENT_ZERO, .length = 100};
	struct extent text = {.kind = EXTENT_INLINE, .length = 3, .data = (uint8_t *)strdup("abc")};
	struct extent none = {.kind = EXTENT_INLINE, .length = 0, .data = malloc(1)};

	assert_int_equal(extents_add(&x, &zero), 0);
	assert_int_equal(extents_add(&x, &zero), 0);
	assert_int_equal(extents_add(&x, &text), 0);
	assert_int_equal(extents_add(&x, &none), 0);
	assert_int_equal(extents_add(&x, &zero), 0);
	assert_int_equal(x.n, 3);
	assert_int_equal(x.v[0].length, 200);
	assert_int_equal(extents_bytes(&x), 303);
	assert_int_equal(extents_copy(&x, &copy), 0);
	assert_int_equal(copy.n, 3);
	assert_ptr_not_equal(copy.v[1].data, x.v[1].data);
	assert_memory_equal(copy.v[1].data, "abc", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_holds_what_was_added_last_in_order_of_keys),
		cmocka_unit_test(encode_and_decode_give_the_same_run),
		cmocka_unit_test(a_merge_lets_the_newest_win),
		cmocka_unit_test(nothing_merges_to_an_empty_run),
		cmocka_unit_test(a_builder_is_empty_after_it_has_finished),
		cmocka_unit_test(seek_finds_the_first_key_that_is_not_before),
		cmocka_unit_test(keys_sort_names_before_inodes_and_directories_apart),
		cmocka_unit_test(names_that_are_no_names_are_refused_and_shown),
		cmocka_unit_test(names_of_255_bytes_are_the_longest),
		cmocka_unit_test(runs_out_of_order_or_doubled_are_refused),
		cmocka_unit_test(truncations_and_bytes_too_many_are_refused),
		cmocka_unit_test(a_name_record_reads_back),
		cmocka_unit_test(an_inode_of_many_segments_reads_back),
		cmocka_unit_test(a_symlink_reads_back),
		cmocka_unit_test(a_file_that_shrinks_removes_its_segments),
		cmocka_unit_test(a_missing_segment_is_noticed),
		cmocka_unit_test(extents_that_do_not_add_up_are_not_written),
		cmocka_unit_test(inodes_cut_short_or_flipped_never_overrun),
		cmocka_unit_test(zero_runs_join_and_copies_own_their_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
