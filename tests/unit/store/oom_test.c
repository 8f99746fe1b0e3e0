/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory: the whole way of a state through its formats, with the n-th allocation failing, for
 * every n.  It fails as -ENOMEM, nothing leaks, and the next try works.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/pack.h"
#include "store/state.h"

/* ---- allocations that fail: linked with -Wl,--wrap ---- */

static long allocations_left = -1; /* -1: all succeed */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails_now(void)
{
	return allocations_left > 0 && --allocations_left == 0;
}

void *__wrap_malloc(size_t n)
{
	return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails_now() ? NULL : __real_realloc(p, n);
}

/* ---- a store of one pack ---- */

static const struct store_format format = {.format = 1, .id = {{1}}, .secret = {2}};

struct one_pack {
	uint8_t data[64 << 10];
	size_t len;
};

static int put(struct pack_sink *sink, const void *data, size_t len, uint64_t *out_pack,
	       struct fault *f)
{
	struct one_pack *p = sink->arg;

	assert_in_range(len, 1, sizeof(p->data));
	memcpy(p->data, data, len);
	p->len = len;
	*out_pack = 5;
	return 0;
}

static int get(struct block_source *src, uint64_t pack, uint64_t off, size_t len, uint8_t *dest,
	       struct fault *f)
{
	const struct one_pack *p = src->arg;

	assert_int_equal(pack, 5);
	assert_true(off + len <= p->len);
	memcpy(dest, p->data + off, len);
	return 0;
}

/* ---- the way ---- */

static int make_inode(struct run_builder *b)
{
	scoped(inode_rec_fini) struct inode_rec i = {.id = 2,
						     .home = 1,
						     .attr = {.mode = S_IFREG | 0644, .size = 103}};
	char name[] = "user.a", value[] = "x";
	struct xattr x = {.name = name, .value = (uint8_t *)value, .len = 1};
	struct extent e = {.kind = EXTENT_INLINE, .length = 3, .data = malloc(3)};
	int rc;

	if (!e.data)
		return -ENOMEM;
	memcpy(e.data, "abc", 3);
	rc = extents_add(&i.extents, &e);
	if (rc == 0)
		rc = extents_add(&i.extents, &(struct extent){.kind = EXTENT_ZERO, .length = 100});
	i.xattrs = &x;
	i.xattr_n = 1;
	if (rc == 0)
		rc = inode_rec_put(b, &i, 0);
	i.xattrs = NULL; /* not owned */
	i.xattr_n = 0;
	return rc;
}

static int make_run(struct run **out)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(buf_fini) struct buf v = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];
	int rc = b ? 0 : -ENOMEM;

	if (rc == 0)
		rc = name_rec_encode(&(struct name_rec){.id = 2, .home = 1, .type = DT_REG}, &v);
	for (char c = 'a'; rc == 0 && c <= 'z'; c++)
		rc = run_builder_add(b, key, key_of_name(1, &c, 1, key), v.data, v.len);
	if (rc == 0)
		rc = make_inode(b);
	return rc < 0 ? rc : run_builder_finish(b, out);
}

/* Through a record and back. */
static int through_a_record(struct run *run, struct run **out, struct record_head *head,
			    struct fault *f)
{
	struct record_head h = {.store = format.id, .number = 1, .kind = RECORD_COMMIT, .slots = 1};
	scoped(buf_fini) struct buf body = BUF_EMPTY, raw = BUF_EMPTY, back = BUF_EMPTY;
	int rc = run_encode(run, &body);

	if (rc == 0)
		rc = record_encode(format.secret, &h, body.data, body.len, &raw);
	if (rc == 0)
		rc = record_decode(&format, raw.data, raw.len, head, &back, f);
	return rc < 0 ? rc : run_decode(back.data, back.len, out, f);
}

static int count(void *arg, const struct run_item *item)
{
	++*(size_t *)arg;
	return 0;
}

static int read_all(struct state *s, struct block_source *src, struct fault *f)
{
	scoped(inode_rec_fini) struct inode_rec i = {.id = 0};
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];
	size_t items = 0;
	int rc = state_walk(s, src, "", 0, count, &items, f);

	if (rc == 0)
		assert_int_equal(items, 27);
	if (rc == 0)
		rc = state_inode(s, src, 1, 2, &i, f);
	return rc < 0 ? rc : state_find(s, src, key, key_of_name(1, "q", 1, key), &value, f);
}

static int over_a_base(struct state *s, struct one_pack *pack, struct fault *f)
{
	struct pack_sink sink = {.put = put, .arg = pack};
	struct block_source src = {.get = get, .arg = pack};
	scoped(state_unref) struct state *next = NULL;
	struct record_head h = *state_head(s);
	int rc = state_pack_base(s, NULL, &sink, &h.base, f);

	h.number = 2;
	h.from = h.base_upto = 1;
	if (rc == 0)
		rc = state_next(s, &h, NULL, &next);
	return rc < 0 ? rc : read_all(next, &src, f);
}

static int the_whole_way(struct one_pack *pack, struct fault *f)
{
	scoped(run_unref) struct run *run = NULL, *back = NULL, *since = NULL;
	scoped(state_unref) struct state *empty = NULL, *s = NULL;
	struct record_head h;
	int rc = make_run(&run);

	if (rc == 0)
		rc = through_a_record(run, &back, &h, f);
	if (rc == 0)
		rc = state_empty(&format, &empty);
	if (rc == 0)
		rc = state_next(empty, &h, back, &s);
	if (rc == 0)
		rc = read_all(s, NULL, f);
	if (rc == 0)
		rc = state_cumulative(s, &since);
	return rc < 0 ? rc : over_a_base(s, pack, f);
}

static void every_allocation_may_fail(void **state)
{
	struct one_pack *pack = __real_malloc(sizeof(*pack));
	long n = 0;
	int rc;

	do {
		struct fault f = FAULT_NONE;

		allocations_left = ++n;
		rc = the_whole_way(pack, &f);
		if (rc < 0) {
			assert_int_equal(rc, -ENOMEM);
			assert_true(f.code == 0 || (f.code == -ENOMEM && f.retry == FAULT_SOON));
			assert_int_equal(allocations_left, 0);
		}
		assert_in_range(n, 1, 1000);
	} while (allocations_left == 0); /* until fewer than n are made */
	assert_int_equal(rc, 0);
	assert_in_range(n, 30, 1000);
	allocations_left = -1;
	free(pack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
