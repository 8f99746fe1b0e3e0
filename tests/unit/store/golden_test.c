/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden stores: what each release has written is read by this one, to the byte.
 * tests/golden/make_golden.c tells the story of store-v1.  Expectations stand here by hand, so that
 * a change of the reader and of the generator alike is noticed.
 */
#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/pack.h"
#include "tests/golden/content.h"
#include "tests/unit/store/bucket.h"

#define RECORDS 14

static int open_golden(void **state)
{
	const char *top = getenv("top_srcdir");
	struct bucket *b = malloc(sizeof(*b));
	char dir[PATH_MAX], absolute[PATH_MAX];
	struct fault f = FAULT_NONE;

	(void)snprintf(dir, sizeof(dir), "%s/tests/golden/store-v1", top ? top : ".");
	if (!realpath(dir, absolute))
		fail_msg("%s is missing", dir);
	bucket_open_at(b, absolute);
	if (store_load(b->objects, &b->format, &f) < 0)
		fail_msg("%s", f.text);
	*state = b;
	return 0;
}

static int close_golden(void **state)
{
	bucket_close(*state);
	free(*state);
	return 0;
}

/* ---- the log ---- */

static void the_log_is_read_record_by_record(void **state)
{
	/* clang-format off */
	static const struct {
		uint8_t kind;
		uint16_t flags;
		uint64_t fence, from, good, base_upto, cumulative;
		const char *host;
	} want[RECORDS + 1] = {
		[1]  = {RECORD_JOIN,   0,                               1,  0,  0,  0, 0,  "golden-a"},
		[2]  = {RECORD_COMMIT, RECORD_QUIET,                    1,  1,  0,  0, 0,  "golden-a"},
		[3]  = {RECORD_COMMIT, 0,                               1,  2,  2,  0, 0,  "golden-a"},
		[4]  = {RECORD_COMMIT, RECORD_QUIET,                    1,  3,  2,  0, 0,  "golden-a"},
		[5]  = {RECORD_COMMIT, 0,                               1,  4,  4,  0, 0,  "golden-a"},
		[6]  = {RECORD_COMMIT, RECORD_CUMULATIVE,               1,  5,  4,  0, 6,  "golden-a"},
		[7]  = {RECORD_COMMIT, 0,                               1,  6,  6,  0, 6,  "golden-a"},
		[8]  = {RECORD_COMMIT, 0,                               1,  7,  6,  7, 0,  "golden-a"},
		[9]  = {RECORD_COMMIT, RECORD_PACKED,                   1,  8,  6,  7, 0,  "golden-a"},
		[10] = {RECORD_COMMIT, RECORD_RELEASE,                  1,  9,  9,  7, 0,  "golden-a"},
		[11] = {RECORD_JOIN,   0,                               11, 10, 9,  7, 0,  "golden-b"},
		[12] = {RECORD_COMMIT, 0,                               11, 11, 9,  7, 0,  "golden-b"},
		[13] = {RECORD_RESET,  RECORD_CUMULATIVE,               13, 10, 10, 7, 13, "golden-c"},
		[14] = {RECORD_COMMIT, RECORD_QUIET | RECORD_RELEASE,   13, 13, 14, 7, 13, "golden-c"},
	};
	/* clang-format on */
	struct bucket *b = *state;
	struct hash128 before = {{0}};
	struct fault f = FAULT_NONE;
	uint64_t newest;

	assert_int_equal(log_newest(b->objects, "log", 0, &newest, &f), 0);
	assert_int_equal(newest, RECORDS);
	for (uint64_t n = 1; n <= RECORDS; n++) {
		scoped(buf_fini) struct buf raw = BUF_EMPTY;
		struct record_head h;

		assert_int_equal(log_read(b->objects, "log", n, 0, &raw, &f), 0);
		assert_int_equal(record_decode(&b->format, raw.data, raw.len, &h, NULL, &f), 0);
		assert_int_equal(h.number, n);
		assert_true(hash_equal(&h.prev, &before));
		assert_int_equal(h.kind, want[n].kind);
		assert_int_equal(h.flags, want[n].flags);
		assert_int_equal(h.fence, want[n].fence);
		assert_int_equal(h.from, want[n].from);
		assert_int_equal(h.good, want[n].good);
		assert_int_equal(h.base_upto, want[n].base_upto);
		assert_int_equal(h.cumulative, want[n].cumulative);
		assert_string_equal(h.host, want[n].host);
		assert_int_equal(h.slot, 0);
		assert_int_equal(h.slots, 1);
		assert_int_equal(h.nonce, n * UINT64_C(0x9e3779b97f4a7c15));
		assert_int_equal(h.time_ns,
				 INT64_C(1764460800000000000) + (int64_t)n * 60000000000);
		record_hash(b->format.secret, raw.data, raw.len, &before);
	}
}

/* ---- trees ---- */

struct listing {
	struct bucket *b;
	struct state *s;
	struct buf text;
	char path[300];
	size_t path_len;
	size_t names; /* in the directory being listed */
};

static void list_dir(struct listing *l, uint64_t dir);

static void list_extents(struct listing *l, const struct extents *x)
{
	static const char kinds[] = "zci";

	for (size_t i = 0; i < x->n && i < 6; i++)
		buf_addf(&l->text, " %c%llu", kinds[x->v[i].kind],
			 (unsigned long long)x->v[i].length);
	if (x->n > 6)
		buf_addf(&l->text, " ... %zu extents", x->n);
}

static void list_inode(struct listing *l, const struct inode_rec *i)
{
	buf_addf(&l->text, "%06o %u %llu %s", i->attr.mode, i->attr.nlink,
		 (unsigned long long)i->attr.size, l->path);
	if (i->symlink)
		buf_addf(&l->text, " -> %s", i->symlink);
	for (uint32_t x = 0; x < i->xattr_n; x++)
		buf_addf(&l->text, " %s=%.*s", i->xattrs[x].name, (int)i->xattrs[x].len,
			 (const char *)i->xattrs[x].value);
	list_extents(l, &i->extents);
	buf_addf(&l->text, "\n");
	assert_int_equal(i->attr.uid, 1000);
	assert_int_equal(i->attr.gid, 100);
	assert_int_equal(i->attr.atime_ns, 1000000001);
	assert_int_equal(i->attr.mtime_ns, INT64_C(1764460800123456789));
	assert_int_equal(i->attr.ctime_ns, -1);
}

static int list_name(void *arg, const char *name, size_t len, const struct name_rec *n)
{
	struct listing *l = arg;
	scoped(inode_rec_fini) struct inode_rec i = {.id = 0};
	size_t parent_len = l->path_len, parent_names = l->names;
	struct fault f = FAULT_NONE;

	if (l->names++ >= 8)
		return 0; /* many/ is counted, not shown */
	l->path_len += (size_t)snprintf(l->path + parent_len, sizeof(l->path) - parent_len, "/%.*s",
					(int)len, name);
	if (state_inode(l->s, &l->b->source, n->home, n->id, &i, &f) < 0)
		fail_msg("%s: %s", l->path, f.text);
	list_inode(l, &i);
	if (n->type == DT_DIR) {
		l->names = 0;
		list_dir(l, n->id);
		l->names = parent_names + 1;
	}
	l->path[parent_len] = '\0';
	l->path_len = parent_len;
	return 0;
}

static void list_dir(struct listing *l, uint64_t dir)
{
	struct fault f = FAULT_NONE;

	if (state_names(l->s, &l->b->source, dir, list_name, l, &f) < 0)
		fail_msg("%s: %s", l->path, f.text);
	if (l->names > 8)
		buf_addf(&l->text, "%s: %zu names\n", l->path, l->names);
}

static void load(struct bucket *b, uint64_t number, struct state **out)
{
	struct fault f = FAULT_NONE;

	if (state_load(b->objects, &b->format, number, NULL, out, &f) < 0)
		fail_msg("%s", f.text);
}

static void assert_tree(struct bucket *b, uint64_t number, const char *want)
{
	scoped(state_unref) struct state *s = NULL;
	struct listing l = {.b = b};

	load(b, number, &s);
	l.s = s;
	list_dir(&l, ROOT_ID);
	assert_string_equal(buf_str(&l.text), want);
	buf_fini(&l.text);
}

#define MODEL_EXTENTS " c1299677 c236323 z3145728 c20000\n"

static void the_first_commits_hold_files_of_every_kind(void **state)
{
	static const char want[] = "042775 2 0 /run\n"
				   "100644 1 30 /run/config.json i30\n"
				   "100640 1 4701728 /run/model.bin" MODEL_EXTENTS;

	assert_tree(*state, 1, "");
	assert_tree(*state, 2, want);
	assert_tree(*state, 3, want);
}

static void links_xattrs_and_renames_are_there(void **state)
{
	assert_tree(*state, 4,
		    "100640 2 4701728 /model-link.bin" MODEL_EXTENTS "042775 2 0 /run\n"
		    "100644 1 30 /run/config.json user.origin=golden i30\n"
		    "120777 1 9 /run/latest -> model.bin\n"
		    "100640 2 4701728 /run/model.bin" MODEL_EXTENTS);
	assert_tree(*state, 5,
		    "100640 2 4701728 /model-link.bin" MODEL_EXTENTS "042775 2 0 /run\n"
		    "120777 1 9 /run/latest -> model.bin\n"
		    "100640 2 4701728 /run/model.bin" MODEL_EXTENTS
		    "100644 1 30 /run/settings.json user.origin=golden i30\n");
}

#define RUN_AT_6                                        \
	"042775 2 0 /run\n"                             \
	"120777 1 9 /run/latest -> model.bin\n"         \
	"100640 1 4701728 /run/model.bin" MODEL_EXTENTS \
	"100644 1 30 /run/settings.json user.origin=golden i30\n"

static void a_cumulative_record_replaces_what_came_before(void **state)
{
	scoped(state_unref) struct state *s = NULL;

	assert_tree(*state, 6, RUN_AT_6);
	load(*state, 6, &s);
	assert_int_equal(state_depth(s), 0);
}

static void a_base_holds_what_was_there_when_it_was_built(void **state)
{
	assert_tree(*state, 7,
		    "040755 2 0 /many\n"
		    "100644 1 0 /many/shard-00000-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00001-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00002-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00003-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00004-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00005-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00006-of-03000.distcp\n"
		    "100644 1 0 /many/shard-00007-of-03000.distcp\n"
		    "/many: 3000 names\n" RUN_AT_6
		    "100600 1 6139905 /sparse.bin c1 z4095 c1 z4095 c1 z4095 ... 2999 extents\n");
}

#define MANY_AT_9                                        \
	"040755 2 0 /many\n"                             \
	"100644 1 0 /many/shard-00002-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00003-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00004-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00005-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00006-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00007-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00008-of-03000.distcp\n" \
	"100644 1 0 /many/shard-00009-of-03000.distcp\n" \
	"/many: 2998 names\n"

static void removals_lie_over_the_base(void **state)
{
	assert_tree(*state, 9, MANY_AT_9 RUN_AT_6);
	assert_tree(*state, 10, MANY_AT_9 RUN_AT_6);
	assert_tree(*state, 11, MANY_AT_9 RUN_AT_6);
}

static void a_reset_leaves_a_branch_behind(void **state)
{
	assert_tree(*state, 12, MANY_AT_9 "100644 1 60 /note.txt i60\n" RUN_AT_6);
	assert_tree(*state, 13, MANY_AT_9 RUN_AT_6);
	assert_tree(*state, 14,
		    MANY_AT_9 "042775 2 0 /run\n"
			      "100640 1 4701728 /run/model.bin" MODEL_EXTENTS
			      "100644 1 30 /run/settings.json user.origin=golden i30\n");
}

/* ---- content ---- */

static void read_extent(struct bucket *b, const struct extent *e, uint8_t *out)
{
	scoped(free) uint8_t *stored = NULL;
	struct fault f = FAULT_NONE;
	struct hash128 hash;

	switch (e->kind) {
	case EXTENT_ZERO:
		memset(out, 0, e->length);
		return;
	case EXTENT_INLINE:
		memcpy(out, e->data, e->length);
		chunk_hash(b->format.secret, out, e->length, &hash);
		assert_true(hash_equal(&hash, &e->hash));
		return;
	default:
		stored = malloc(e->place.stored);
		assert_int_equal(b->source.get(&b->source, e->place.pack, e->place.offset,
					       e->place.stored, stored, &f),
				 0);
		if (chunk_decode(b->format.secret, e->place.codec, stored, e->place.stored,
				 &e->hash, out, e->length, &f) < 0)
			fail_msg("%s", f.text);
	}
}

static void assert_content(struct bucket *b, struct state *s, uint64_t home, uint64_t id,
			   const void *want, size_t len)
{
	scoped(inode_rec_fini) struct inode_rec i = {.id = 0};
	scoped(free) uint8_t *got = malloc(len);
	struct fault f = FAULT_NONE;
	size_t at = 0;

	if (state_inode(s, &b->source, home, id, &i, &f) < 0)
		fail_msg("%s", f.text);
	assert_int_equal(i.attr.size, len);
	for (size_t k = 0; k < i.extents.n; k++) {
		read_extent(b, &i.extents.v[k], got + at);
		at += i.extents.v[k].length;
	}
	assert_memory_equal(got, want, len);
}

static void contents_are_what_was_written(void **state)
{
	struct bucket *b = *state;
	scoped(state_unref) struct state *at_7 = NULL, *at_12 = NULL, *at_14 = NULL;
	scoped(free) uint8_t *model = malloc(GOLDEN_MODEL);
	size_t sparse_len = 4096 * (GOLDEN_SPARSE_N - 1) + 1;
	scoped(free) uint8_t *sparse = calloc(1, sparse_len);
	uint64_t first = UINT64_C(1) << 34, run = first | 1;

	load(b, 7, &at_7);
	load(b, 12, &at_12);
	load(b, 14, &at_14);
	golden_model(model);
	assert_content(b, at_14, run, first | 3, model, GOLDEN_MODEL);
	assert_content(b, at_14, run, first | 2, GOLDEN_CONFIG, strlen(GOLDEN_CONFIG));
	assert_content(b, at_12, ROOT_ID, first | 7, GOLDEN_NOTE, strlen(GOLDEN_NOTE));
	for (size_t i = 0; i < sparse_len; i += 4096)
		sparse[i] = 1;
	assert_content(b, at_7, ROOT_ID, first | 6, sparse, sparse_len);
}

static void the_same_bytes_are_still_cut_alike(void **state)
{
	scoped(free) uint8_t *text = malloc(GOLDEN_TEXT);

	golden_text(text, GOLDEN_TEXT);
	assert_int_equal(chunk_cut(text, GOLDEN_TEXT, true), 1299677);
	assert_int_equal(chunk_cut(text + 1299677, GOLDEN_TEXT - 1299677, true), 236323);
}

struct pack_in_hand {
	const struct bucket *b;
	const uint8_t *data;
	uint8_t *scratch;
};

static int check_chunk(void *arg, const struct pack_entry *e, struct fault *f)
{
	const struct pack_in_hand *x = arg;

	return pack_check(x->b->format.secret, x->data, e, x->scratch, f);
}

static void packs_are_whole_without_any_record(void **state)
{
	static const struct {
		enum pack_kind kind;
		size_t chunks;
		bool named;
	} want[] = {
		{PACK_CHUNKS, 3, true},
		{PACK_CHUNKS, 1, true},
		{PACK_RUN, 3, false}, /* the base: two blocks and their index */
		{PACK_RUN, 2, false}, /* record 9 */
	};
	struct bucket *b = *state;
	scoped(free) uint8_t *scratch = malloc(PACK_MAX);

	for (uint64_t n = 0; n < sizeof(want) / sizeof(*want); n++) {
		scoped(buf_fini) struct buf raw = BUF_EMPTY;
		uint64_t name = UINT64_C(1) << 34 | (n + 1);
		char key[PACK_KEY_MAX];
		struct pack_in_hand x;
		struct pack_info info;
		struct fault f = FAULT_NONE;

		pack_key(name, key);
		assert_int_equal(objects_get(b->objects, key, 0, &raw, &f), 0);
		x = (struct pack_in_hand){.b = b, .data = raw.data, .scratch = scratch};
		if (pack_scan(b->format.secret, raw.data, raw.len, &info, check_chunk, &x, &f) < 0)
			fail_msg("%s: %s", key, f.text);
		assert_int_equal(info.kind, want[n].kind);
		assert_int_equal(info.chunks, want[n].chunks);
		assert_int_equal(info.name, want[n].named ? name : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_log_is_read_record_by_record),
		cmocka_unit_test(the_first_commits_hold_files_of_every_kind),
		cmocka_unit_test(links_xattrs_and_renames_are_there),
		cmocka_unit_test(a_cumulative_record_replaces_what_came_before),
		cmocka_unit_test(a_base_holds_what_was_there_when_it_was_built),
		cmocka_unit_test(removals_lie_over_the_base),
		cmocka_unit_test(a_reset_leaves_a_branch_behind),
		cmocka_unit_test(contents_are_what_was_written),
		cmocka_unit_test(the_same_bytes_are_still_cut_alike),
		cmocka_unit_test(packs_are_whole_without_any_record),
	};

	return cmocka_run_group_tests(tests, open_golden, close_golden);
}
