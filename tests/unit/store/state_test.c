/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States: random histories of commits, joins, resets, cumulative records and bases, read back through
 * the store and compared with a naive map; how many reads that takes; and what is refused.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/block.h"
#include "store/pack.h"
#include "tests/unit/store/bucket.h"
#include "tests/unit/store/helpers.h"
#include "tests/unit/store/model.h"

static uint64_t current_seed; /* printed when a history fails */

/* ---- comparing ---- */

struct compare {
	const struct model *m;
	size_t i;
	const uint8_t *prefix;
	size_t prefix_len;
};

static bool has_prefix(const struct model_item *x, const struct compare *c)
{
	return x->key_len >= c->prefix_len && memcmp(x->key, c->prefix, c->prefix_len) == 0;
}

static void skip_others(struct compare *c)
{
	while (c->i < c->m->n && !has_prefix(&c->m->v[c->i], c))
		c->i++;
}

static int each_compared(void *arg, const struct run_item *item)
{
	struct compare *c = arg;
	const struct model_item *x;

	skip_others(c);
	if (c->i == c->m->n)
		return -ERANGE; /* an item too many */
	x = &c->m->v[c->i++];
	if (x->key_len != item->key_len || memcmp(x->key, item->key, x->key_len) != 0 ||
	    x->value_len != item->value_len || memcmp(x->value, item->value, x->value_len) != 0)
		return -EDOM;
	return 0;
}

static void assert_walk(struct bucket *b, struct state *s, const struct model *m,
			const uint8_t *prefix, size_t len)
{
	struct compare c = {.m = m, .prefix = prefix, .prefix_len = len};
	struct fault f = FAULT_NONE;
	int rc = state_walk(s, &b->source, prefix, len, each_compared, &c, &f);

	if (rc != 0)
		fail_msg("seed %llu: walk: %d %s", (unsigned long long)current_seed, rc, f.text);
	skip_others(&c);
	assert_int_equal(c.i, m->n);
}

static void assert_find(struct bucket *b, struct state *s, const struct model *m,
			const struct model_item *x)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	int rc = state_find(s, &b->source, x->key, x->key_len, &value, &f);

	for (size_t i = 0; i < m->n; i++) {
		if (key_compare(m->v[i].key, m->v[i].key_len, x->key, x->key_len) != 0)
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(value.len, m->v[i].value_len);
		assert_memory_equal(value.data, m->v[i].value, value.len);
		return;
	}
	assert_int_equal(rc, -ENOENT);
}

static void assert_state(struct bucket *b, struct state *s, const struct model *m, uint64_t *seed)
{
	scoped(model_fini) struct model probes = MODEL_EMPTY;
	uint8_t prefix[RUN_KEY_MAX];

	assert_walk(b, s, m, (const uint8_t *)"", 0);
	for (uint64_t dir = 1; dir <= 6; dir++) {
		(void)key_of_name(dir, "a", 1, prefix);
		assert_walk(b, s, m, prefix, 8);
		assert_walk(b, s, m, prefix, 10);
	}
	model_random(&probes, seed, 12, 6);
	for (size_t i = 0; i < probes.n; i++)
		assert_find(b, s, m, &probes.v[i]);
}

/* ---- random histories ---- */

#define RECORDS 60

struct history {
	struct bucket *b;
	uint64_t seed;
	uint64_t newest;                   /* number of the newest record */
	struct state *states[RECORDS + 1]; /* as state_next() made them; [0] is empty */
	struct model maps[RECORDS + 1];
	uint64_t tip; /* the record that the next commit extends */
	uint64_t fence;
	/* a base that was built and that the next records may name */
	uint64_t base_upto;
	struct run_ref base;
};

static struct run *run_of(const struct model *m)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	struct run *r = NULL;

	for (size_t i = 0; i < m->n; i++) {
		const struct model_item *x = &m->v[i];

		assert_int_equal(run_builder_add(b, x->key, x->key_len,
						 x->removal ? NULL : x->value, x->value_len),
				 0);
	}
	assert_int_equal(run_builder_finish(b, &r), 0);
	return r;
}

static struct record_head next_head(struct history *h, enum record_kind kind, uint64_t from)
{
	const struct record_head *before = state_head(h->states[from]);
	struct record_head head = {
		.store = h->b->format.id,
		.number = h->newest + 1,
		.kind = (uint8_t)kind,
		.slots = 1,
		.from = from,
		.base_upto = before->base_upto,
		.base = before->base,
		.cumulative = before->cumulative,
	};

	if (kind != RECORD_COMMIT)
		h->fence = head.number;
	head.fence = h->fence;
	return head;
}

/* Append head with run as its body, in the record or in packs. */
static void append(struct history *h, struct record_head *head, struct run *run)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct fault f = FAULT_NONE;
	struct run_ref ref;

	if (run && random_below(&h->seed, 4) == 0) {
		head->flags |= RECORD_PACKED;
		assert_int_equal(run_pack(&h->b->format, &h->b->sink, run, &ref, &f), 0);
		assert_int_equal(run_ref_encode(&ref, &body), 0);
	} else if (run) {
		assert_int_equal(run_encode(run, &body), 0);
	}
	bucket_append(h->b, head, &body);
	assert_int_equal(state_next(h->states[head->from], head, run, &h->states[head->number]), 0);
	h->newest = head->number;
	h->tip = head->number;
}

static void commit(struct history *h)
{
	struct record_head head = next_head(h, RECORD_COMMIT, h->tip);
	scoped(model_fini) struct model delta = MODEL_EMPTY;
	scoped(run_unref) struct run *run = NULL;

	model_random(&delta, &h->seed, random_below(&h->seed, 25), 6);
	run = run_of(&delta);
	model_apply(&h->maps[head.number], &h->maps[h->tip]);
	model_apply(&h->maps[head.number], &delta);
	model_drop_removals(&h->maps[head.number]);
	if (h->base_upto > head.base_upto) {
		head.base_upto = h->base_upto;
		head.base = h->base;
		if (head.cumulative <= head.base_upto)
			head.cumulative = 0;
	}
	if (random_below(&h->seed, 5) == 0) {
		scoped(state_unref) struct state *plain = NULL;
		struct run *all = NULL;

		assert_int_equal(state_next(h->states[h->tip], &head, run, &plain), 0);
		assert_int_equal(state_cumulative(plain, &all), 0);
		run_unref(run);
		run = all;
		head.flags |= RECORD_CUMULATIVE;
		head.cumulative = head.number;
	}
	append(h, &head, run);
}

/* An empty body: a join, or a commit that only moves `good`. */
static void append_empty(struct history *h, enum record_kind kind)
{
	struct record_head head = next_head(h, kind, h->tip);

	model_apply(&h->maps[head.number], &h->maps[h->tip]);
	append(h, &head, NULL);
}

static void reset(struct history *h)
{
	uint64_t from = random_below(&h->seed, h->newest + 1);
	struct record_head head = next_head(h, RECORD_RESET, from);
	scoped(run_unref) struct run *all = NULL;

	h->base_upto = 0; /* that one is of another branch */
	assert_int_equal(state_cumulative(h->states[from], &all), 0);
	head.flags |= RECORD_CUMULATIVE;
	head.cumulative = head.number;
	model_apply(&h->maps[head.number], &h->maps[from]);
	append(h, &head, all);
}

static void build_base(struct history *h)
{
	struct fault f = FAULT_NONE;

	if (h->tip == 0)
		return;
	assert_int_equal(state_pack_base(h->states[h->tip], &h->b->source, &h->b->sink, &h->base,
					 &f),
			 0);
	h->base_upto = h->tip;
}

/* ---- where two states differ ---- */

static const struct model_item *item_of(const struct model *m, const struct model_item *x)
{
	for (size_t i = 0; i < m->n; i++)
		if (key_compare(m->v[i].key, m->v[i].key_len, x->key, x->key_len) == 0)
			return &m->v[i];
	return NULL;
}

/* Of what m says, other says the same or the key is among `keys`. */
static void assert_told(const struct model *m, const struct model *other, const struct run *keys)
{
	struct run_item found;

	for (size_t i = 0; i < m->n; i++) {
		const struct model_item *x = &m->v[i], *y = item_of(other, x);

		if (y && y->value_len == x->value_len && memcmp(x->value, y->value, x->value_len) == 0)
			continue;
		if (!run_find(keys, x->key, x->key_len, &found))
			fail_msg("seed %llu: a key that differs is not told", (unsigned long long)current_seed);
		assert_null(found.value);
	}
}

/* Of pairs near and far; returns how many were told apart by their layers. */
static unsigned assert_differences(struct history *h)
{
	unsigned told = 0;

	for (uint64_t n = 0; n < RECORDS; n++) {
		for (uint64_t to = n + 1; to <= RECORDS; to += 1 + random_below(&h->seed, 9)) {
			scoped(run_unref) struct run *keys = NULL;

			if (state_differs(h->states[n], h->states[to], &keys) != 0)
				continue;
			told++;
			assert_told(&h->maps[n], &h->maps[to], keys);
			assert_told(&h->maps[to], &h->maps[n], keys);
		}
	}
	return told;
}

static void run_history(struct bucket *b, uint64_t seed)
{
	struct history h = {.b = b, .seed = seed};

	assert_int_equal(state_empty(&b->format, &h.states[0]), 0);
	append_empty(&h, RECORD_JOIN);
	while (h.newest < RECORDS) {
		switch (random_below(&h.seed, 12)) {
		case 0:
			append_empty(&h, RECORD_JOIN);
			break;
		case 1:
			append_empty(&h, RECORD_COMMIT);
			break;
		case 2:
			reset(&h);
			break;
		case 3:
			build_base(&h);
			break;
		default:
			commit(&h);
		}
	}
	for (uint64_t n = 0; n <= RECORDS; n++) {
		scoped(state_unref) struct state *s = NULL;
		struct fault f = FAULT_NONE;

		if (state_load(b->objects, &b->format, n, NULL, &s, &f) < 0)
			fail_msg("seed %llu: %s", (unsigned long long)seed, f.text);
		assert_int_equal(state_head(s)->number, n);
		assert_state(b, s, &h.maps[n], &h.seed);
		assert_state(b, h.states[n], &h.maps[n], &h.seed);
		assert_int_equal(state_depth(s) <= RECORDS, 1);
	}
	assert_true(assert_differences(&h) > RECORDS);
	for (uint64_t n = 0; n <= RECORDS; n++) {
		state_unref(h.states[n]);
		model_fini(&h.maps[n]);
	}
}

static void every_record_of_random_histories_loads_as_a_naive_map(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct bucket b;

		current_seed = seed;
		bucket_open(&b);
		run_history(&b, seed);
		bucket_close(&b);
	}
}

/* ---- a base of many blocks ---- */

#define DIRS  4
#define FILES 6000
_Static_assert(FILES * 60 > BLOCK_AIM, "the names of a directory span blocks");

static void add_name(struct run_builder *b, uint64_t dir, unsigned i)
{
	scoped(buf_fini) struct buf v = BUF_EMPTY;
	struct name_rec n = {.id = dir << 20 | i, .home = dir, .type = DT_REG};
	uint8_t key[RUN_KEY_MAX];
	char name[40];
	int len = snprintf(name, sizeof(name), "shard-%08u-%u.distcp", i, i * 2654435761u);

	assert_int_equal(name_rec_encode(&n, &v), 0);
	assert_int_equal(run_builder_add(b, key, key_of_name(dir, name, (size_t)len, key), v.data,
					 v.len),
			 0);
}

static void add_inode(struct run_builder *b, uint64_t dir, unsigned i)
{
	struct inode_rec rec = {.id = dir << 20 | i,
				.home = dir,
				.attr = {.mode = S_IFREG | 0644, .nlink = 1, .size = 1000}};
	struct extent e = {.kind = EXTENT_CHUNK,
			   .length = 1000,
			   .place = {.pack = i, .offset = 16, .stored = 1000}};

	fill_random(e.hash.b, 16, i);
	assert_int_equal(extents_add(&rec.extents, &e), 0);
	assert_int_equal(inode_rec_put(b, &rec, 0), 0);
	inode_rec_fini(&rec);
}

/* Directories 2..5 of 6 000 files each, as a base of some MiB; *out is the state at record 2. */
static void make_big_base(struct bucket *b, struct state **out)
{
	scoped(run_builder_free) struct run_builder *builder = run_builder_new();
	scoped(run_unref) struct run *run = NULL;
	struct record_head head = {.store = b->format.id,
				   .number = 2,
				   .kind = RECORD_COMMIT,
				   .slots = 1,
				   .fence = 1,
				   .from = 1,
				   .base_upto = 1};
	struct fault f = FAULT_NONE;

	for (uint64_t dir = 2; dir < 2 + DIRS; dir++) {
		for (unsigned i = 1; i <= FILES; i++) {
			add_name(builder, dir, i);
			add_inode(builder, dir, i);
		}
	}
	assert_int_equal(run_builder_finish(builder, &run), 0);
	assert_int_equal(run_pack(&b->format, &b->sink, run, &head.base, &f), 0);
	assert_int_equal(head.base.bytes, run_bytes(run));
	bucket_append(b, &head, NULL);
	if (state_load(b->objects, &b->format, 2, NULL, out, &f) < 0)
		fail_msg("%s", f.text);
}

static int count_name(void *arg, const char *name, size_t len, const struct name_rec *n)
{
	++*(size_t *)arg;
	return 0;
}

static int count_item(void *arg, const struct run_item *item)
{
	++*(size_t *)arg;
	return 0;
}

static void a_directory_of_many_blocks_takes_one_read(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	struct fault f = FAULT_NONE;
	struct bucket b;
	uint8_t key[RUN_KEY_MAX];
	size_t names = 0, items = 0;

	bucket_open(&b);
	make_big_base(&b, &s);
	assert_int_equal(b.reads, 0); /* the index came with the state */
	assert_int_equal(state_names(s, &b.source, 3, count_name, &names, &f), 0);
	assert_int_equal(names, FILES);
	assert_int_equal(b.reads, 1);
	(void)key_of_name(4, "x", 1, key);
	assert_int_equal(state_walk(s, &b.source, key, 8, count_item, &items, &f), 0);
	assert_int_equal(items, 2 * FILES);
	assert_int_equal(b.reads, 2);
	bucket_close(&b);
}

static void one_inode_takes_one_read_and_its_neighbours_none(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	struct fault f = FAULT_NONE;
	struct bucket b;

	bucket_open(&b);
	make_big_base(&b, &s);
	for (unsigned i = 100; i < 110; i++) {
		scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};

		assert_int_equal(state_inode(s, &b.source, 3, 3 << 20 | i, &rec, &f), 0);
		assert_int_equal(rec.extents.n, 1);
		assert_int_equal(rec.extents.v[0].place.pack, i);
	}
	assert_in_range(b.reads, 1, 2); /* two where they lie on a border of blocks */
	bucket_close(&b);
}

static void a_directory_brings_its_inodes_along(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	struct fault f = FAULT_NONE;
	struct bucket b;
	size_t names = 0, bytes;

	bucket_open(&b);
	make_big_base(&b, &s);
	assert_int_equal(state_names(s, &b.source, 3, count_name, &names, &f), 0);
	assert_int_equal(names, FILES);
	bytes = b.bytes;
	for (unsigned i = 1; i <= FILES; i += FILES / 10) {
		scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};

		assert_int_equal(state_inode(s, &b.source, 3, 3 << 20 | i, &rec, &f), 0);
	}
	assert_int_equal(b.reads, 1);
	assert_in_range(bytes, 1, 1 << 20);
	bucket_close(&b);
}

static void what_is_nowhere_is_told_so(void **state)
{
	scoped(state_unref) struct state *s = NULL, *empty = NULL;
	scoped(inode_rec_fini) struct inode_rec rec = {.id = 0};
	struct fault f = FAULT_NONE;
	struct bucket b;
	uint8_t key[RUN_KEY_MAX];
	size_t n = 0;

	bucket_open(&b);
	make_big_base(&b, &s);
	assert_int_equal(state_inode(s, &b.source, 3, 77, &rec, &f), -ENOENT);
	assert_non_null(strstr(f.text, "inode 77"));
	assert_int_equal(state_names(s, &b.source, 1, count_name, &n, &f), 0);
	assert_int_equal(state_names(s, &b.source, UINT64_MAX, count_name, &n, &f), 0);
	assert_int_equal(n, 0);
	assert_int_equal(state_empty(&b.format, &empty), 0);
	assert_int_equal(state_find(empty, NULL, key, key_of_name(1, "a", 1, key), NULL, &f),
			 -ENOENT);
	assert_int_equal(state_head(empty)->number, 0);
	bucket_close(&b);
}

static void a_whole_walk_reads_ranges_not_blocks(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	struct fault f = FAULT_NONE;
	struct bucket b;
	size_t items = 0;

	bucket_open(&b);
	make_big_base(&b, &s);
	assert_int_equal(state_walk(s, &b.source, "", 0, count_item, &items, &f), 0);
	assert_int_equal(items, 2 * FILES * DIRS);
	assert_in_range(b.reads, 1, 1 + b.bytes / (8u << 20));
	bucket_close(&b);
}

static void what_was_read_is_kept_but_not_for_ever(void **state)
{
	scoped(run_builder_free) struct run_builder *builder = run_builder_new();
	scoped(run_unref) struct run *run = NULL;
	scoped(state_unref) struct state *s = NULL;
	scoped(free) uint8_t *value = calloc(1, RUN_VALUE_MAX);
	struct record_head head = {
		.number = 2, .kind = RECORD_COMMIT, .slots = 1, .from = 1, .base_upto = 1};
	struct fault f = FAULT_NONE;
	struct bucket b;
	uint8_t key[RUN_KEY_MAX];
	size_t items = 0;

	bucket_open(&b);
	head.store = b.format.id;
	for (uint64_t i = 1; i <= 6; i++) /* six blocks of 4 MiB: more than the cache holds */
		assert_int_equal(run_builder_add(builder, key, key_of_inode(1, i, 0, key), value,
						 RUN_VALUE_MAX),
				 0);
	assert_int_equal(run_builder_finish(builder, &run), 0);
	assert_int_equal(run_pack(&b.format, &b.sink, run, &head.base, &f), 0);
	bucket_append(&b, &head, NULL);
	assert_int_equal(state_load(b.objects, &b.format, 2, NULL, &s, &f), 0);
	assert_int_equal(state_walk(s, &b.source, "", 0, count_item, &items, &f), 0);
	assert_int_equal(items, 6);
	assert_int_equal(b.reads, 1);
	for (uint64_t i = 6; i >= 1; i--) {
		scoped(buf_fini) struct buf got = BUF_EMPTY;

		assert_int_equal(state_find(s, &b.source, key, key_of_inode(1, i, 0, key), &got,
					    &f),
				 0);
		assert_int_equal(b.reads,
				 i >= 4 ? 1 : 1 + (4 - i)); /* 4, 5 and 6 were the last to come */
	}
	bucket_close(&b);
}

static int stop_at_once(void *arg, const struct run_item *item)
{
	return 17;
}

static void a_walk_ends_when_it_is_told_to(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	struct fault f = FAULT_NONE;
	struct bucket b;

	bucket_open(&b);
	make_big_base(&b, &s);
	assert_int_equal(state_walk(s, &b.source, "", 0, stop_at_once, NULL, &f), 17);
	bucket_close(&b);
}

static void a_base_of_a_base_is_the_same(void **state)
{
	scoped(state_unref) struct state *s = NULL, *next = NULL;
	struct record_head head;
	struct fault f = FAULT_NONE;
	struct bucket b;
	size_t items = 0, reads;

	bucket_open(&b);
	make_big_base(&b, &s);
	head = *state_head(s);
	head.number = 3;
	head.from = head.base_upto = 2;
	assert_int_equal(state_pack_base(s, &b.source, &b.sink, &head.base, &f), 0);
	assert_int_equal(head.base.bytes, state_head(s)->base.bytes);
	assert_true(hash_equal(&head.base.hash, &state_head(s)->base.hash)); /* block by block */
	assert_int_equal(state_next(s, &head, NULL, &next), 0);
	reads = b.reads;
	assert_int_equal(state_names(next, &b.source, 5, count_name, &items, &f), 0);
	assert_int_equal(items, FILES);
	assert_int_equal(b.reads - reads, 2); /* its index, then the blocks */
	bucket_close(&b);
}

static void a_packed_run_is_readable_as_packs(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct pack_info info;
	struct fault f = FAULT_NONE;
	struct bucket b;
	char key[PACK_KEY_MAX];

	bucket_open(&b);
	make_big_base(&b, &s);
	pack_key(b.last_pack, key);
	assert_int_equal(objects_get(b.objects, key, 0, &raw, &f), 0);
	assert_int_equal(pack_scan(b.format.secret, raw.data, raw.len, &info, NULL, NULL, &f), 0);
	assert_int_equal(info.kind, PACK_RUN);
	assert_true(info.chunks > 4);
	bucket_close(&b);
}

/* Blocks decode and leave memory while other threads use them; run under the thread sanitizer too. */
struct hammer {
	struct state *s;
	struct block_source source;
	const uint8_t *pack; /* the one object, in memory: a struct objects is one thread's */
	int rc;
};

static int get_from_memory(struct block_source *src, uint64_t pack, uint64_t off, size_t len,
			   uint8_t *dest, struct fault *f)
{
	const struct hammer *h = src->arg;

	memcpy(dest, h->pack + off, len);
	return 0;
}

static void *hammer(void *arg)
{
	struct hammer *h = arg;

	for (int i = 0; i < 3 && h->rc == 0; i++) {
		for (uint64_t dir = 2; dir < 2 + DIRS; dir++) {
			size_t names = 0;
			struct fault f = FAULT_NONE;

			h->rc = state_names(h->s, &h->source, dir, count_name, &names, &f);
			if (names != FILES)
				h->rc = -ERANGE;
		}
	}
	return NULL;
}

static void threads_share_a_base(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct hammer h[3];
	pthread_t threads[3];
	struct fault f = FAULT_NONE;
	struct bucket b;
	char key[PACK_KEY_MAX];

	bucket_open(&b);
	make_big_base(&b, &s);
	pack_key(b.last_pack, key);
	assert_int_equal(objects_get(b.objects, key, 0, &raw, &f), 0);
	for (int i = 0; i < 3; i++) {
		h[i] = (struct hammer){.s = s,
				       .source = {.get = get_from_memory, .arg = &h[i]},
				       .pack = raw.data};
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(h[i].rc, 0);
	}
	bucket_close(&b);
}

/* ---- what is refused ---- */

static struct record_head plain_head(struct bucket *b, uint64_t number, uint64_t from)
{
	return (struct record_head){.store = b->format.id,
				    .number = number,
				    .kind = RECORD_COMMIT,
				    .slots = 1,
				    .from = from};
}

static int load_at(struct bucket *b, uint64_t number, struct fault *f)
{
	scoped(state_unref) struct state *s = NULL;

	*f = FAULT_NONE;
	return state_load(b->objects, &b->format, number, NULL, &s, f);
}

static void a_record_under_another_number_is_refused(void **state)
{
	struct bucket b;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct record_head head;
	struct fault f;

	bucket_open(&b);
	head = plain_head(&b, 5, 0);
	assert_int_equal(record_encode(b.format.secret, &head, "", 0, &raw), 0);
	assert_int_equal(log_append(b.objects, "log", 1, raw.data, raw.len, 0, NULL, &f), 0);
	assert_int_equal(load_at(&b, 1, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "record 1: it says that it is record 5"));
	bucket_close(&b);
}

static void a_damaged_record_on_the_chain_is_named(void **state)
{
	struct bucket b;
	struct record_head head;
	struct fault f;

	bucket_open(&b);
	assert_int_equal(log_append(b.objects, "log", 1, "nonsense", 8, 0, NULL, &f), 0);
	head = plain_head(&b, 2, 1);
	bucket_append(&b, &head, NULL);
	head = plain_head(&b, 3, 2);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 3, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "state at 3: record 1"));
	bucket_close(&b);
}

static void a_missing_record_is_named(void **state)
{
	struct bucket b;
	struct record_head head;
	struct fault f;

	bucket_open(&b);
	head = plain_head(&b, 2, 1);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 2, &f), -ENOENT);
	assert_non_null(strstr(f.text, "record 1 "));
	assert_int_equal(load_at(&b, 9, &f), -ENOENT);
	bucket_close(&b);
}

static void a_bad_name_is_refused_with_its_record(void **state)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct bucket b;
	struct record_head head;
	struct fault f;
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_name(1, "../evil", 7, key);

	bucket_open(&b);
	buf_u32(&body, 1);
	buf_u16(&body, (uint16_t)len);
	buf_u32(&body, 0);
	buf_add(&body, key, len);
	head = plain_head(&b, 1, 0);
	bucket_append(&b, &head, &body);
	head = plain_head(&b, 2, 1);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 2, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "record 1: "));
	assert_non_null(strstr(f.text, "\"../evil\""));
	bucket_close(&b);
}

static void a_chain_that_passes_its_cumulative_record_by_is_refused(void **state)
{
	struct bucket b;
	struct record_head head;
	struct fault f;

	bucket_open(&b);
	for (uint64_t n = 1; n <= 3; n++) {
		head = plain_head(&b, n, n - 1);
		bucket_append(&b, &head, NULL);
	}
	head = plain_head(&b, 4, 2);
	head.cumulative = 3;
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 4, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "record 4 extends 2, which passes"));
	bucket_close(&b);
}

static void a_cumulative_run_that_starts_behind_the_base_is_refused(void **state)
{
	struct bucket b;
	struct record_head head;
	struct fault f;
	scoped(run_unref) struct run *none = NULL;

	bucket_open(&b);
	assert_int_equal(run_merge(NULL, 0, true, &none), 0);
	head = plain_head(&b, 1, 0);
	bucket_append(&b, &head, NULL);
	head = plain_head(&b, 2, 1);
	head.flags = RECORD_CUMULATIVE;
	head.cumulative = 2;
	head.base_upto = 1;
	assert_int_equal(run_pack(&b.format, &b.sink, none, &head.base, &f), 0);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 2, &f), 0);
	head = plain_head(&b, 3, 2);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 3, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "record 2: its run starts at 1"));
	bucket_close(&b);
}

static void a_stub_has_no_state(void **state)
{
	struct bucket b;
	struct record_head head;
	struct fault f;

	bucket_open(&b);
	head = plain_head(&b, 1, 0);
	head.kind = RECORD_STUB;
	bucket_append(&b, &head, NULL);
	head = plain_head(&b, 2, 1);
	bucket_append(&b, &head, NULL);
	assert_int_equal(load_at(&b, 1, &f), -ESTALE);
	assert_int_equal(load_at(&b, 2, &f), -ESTALE);
	assert_non_null(strstr(f.text, "record 1 is a stub"));
	bucket_close(&b);
}

static void the_record_in_hand_is_not_read_again(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct store_counts before, after;
	struct bucket b;
	struct record_head head;
	struct fault f = FAULT_NONE;

	bucket_open(&b);
	head = plain_head(&b, 1, 0);
	bucket_append(&b, &head, NULL);
	assert_int_equal(log_read(b.objects, "log", 1, 0, &raw, &f), 0);
	store_counts(b.store, &before);
	assert_int_equal(state_load(b.objects, &b.format, 1, &raw, &s, &f), 0);
	store_counts(b.store, &after);
	assert_int_equal(after.get, before.get);
	bucket_close(&b);
}

static void a_damaged_block_is_refused_with_its_pack(void **state)
{
	scoped(state_unref) struct state *s = NULL;
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct hammer h;
	struct fault f = FAULT_NONE;
	struct bucket b;
	char key[PACK_KEY_MAX];
	size_t names = 0;

	bucket_open(&b);
	make_big_base(&b, &s);
	pack_key(b.last_pack, key);
	assert_int_equal(objects_get(b.objects, key, 0, &raw, &f), 0);
	raw.data[PACK_HEADER + 1000] ^= 1;
	h = (struct hammer){.source = {.get = get_from_memory, .arg = &h}, .pack = raw.data};
	assert_true(state_names(s, &h.source, 2, count_name, &names, &f) < 0);
	assert_non_null(strstr(f.text, key));
	assert_non_null(strstr(f.text, "block 0"));
	bucket_close(&b);
}

static void a_damaged_packed_body_is_refused_with_its_record(void **state)
{
	scoped(run_builder_free) struct run_builder *builder = run_builder_new();
	scoped(run_unref) struct run *run = NULL;
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct bucket b;
	struct record_head head;
	struct run_ref ref;
	struct fault f = FAULT_NONE;

	bucket_open(&b);
	add_name(builder, 1, 1);
	assert_int_equal(run_builder_finish(builder, &run), 0);
	assert_int_equal(run_pack(&b.format, &b.sink, run, &ref, &f), 0);
	ref.hash.b[0] ^= 1;
	assert_int_equal(run_ref_encode(&ref, &body), 0);
	head = plain_head(&b, 1, 0);
	head.flags = RECORD_PACKED;
	bucket_append(&b, &head, &body);
	assert_int_equal(load_at(&b, 1, &f), -EBADMSG);
	assert_non_null(strstr(f.text, "record 1: index of a run"));
	bucket_close(&b);
}

static void a_packed_body_larger_than_a_pack_reads_back(void **state)
{
	scoped(run_builder_free) struct run_builder *builder = run_builder_new();
	scoped(run_unref) struct run *run = NULL, *back = NULL;
	scoped(state_unref) struct state *s = NULL;
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	scoped(free) uint8_t *value = malloc(RUN_VALUE_MAX);
	struct bucket b;
	struct record_head head;
	struct run_ref ref;
	struct fault f = FAULT_NONE;
	uint8_t key[RUN_KEY_MAX];

	bucket_open(&b);
	fill_random(value, RUN_VALUE_MAX,
		    3); /* items of the greatest length, which do not shrink */
	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(run_builder_add(builder, key, key_of_inode(1, i, 0, key), value,
						 RUN_VALUE_MAX),
				 0);
	add_name(builder, 1, 1);
	assert_int_equal(run_builder_finish(builder, &run), 0);
	assert_int_equal(run_pack(&b.format, &b.sink, run, &ref, &f), 0);
	assert_int_equal(run_ref_encode(&ref, &body), 0);
	head = plain_head(&b, 1, 0);
	head.flags = RECORD_PACKED;
	bucket_append(&b, &head, &body);
	assert_int_equal(state_load(b.objects, &b.format, 1, NULL, &s, &f), 0);
	assert_int_equal(state_cumulative(s, &back), 0);
	assert_int_equal(run_count(back), 6);
	assert_int_equal(run_bytes(back), run_bytes(run));
	assert_int_equal(run_builder_add(builder, key, key_of_inode(1, 9, 0, key), value,
					 RUN_VALUE_MAX + 1),
			 -E2BIG);
	bucket_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_record_of_random_histories_loads_as_a_naive_map),
		cmocka_unit_test(a_directory_of_many_blocks_takes_one_read),
		cmocka_unit_test(one_inode_takes_one_read_and_its_neighbours_none),
		cmocka_unit_test(a_directory_brings_its_inodes_along),
		cmocka_unit_test(what_is_nowhere_is_told_so),
		cmocka_unit_test(a_whole_walk_reads_ranges_not_blocks),
		cmocka_unit_test(what_was_read_is_kept_but_not_for_ever),
		cmocka_unit_test(a_walk_ends_when_it_is_told_to),
		cmocka_unit_test(a_base_of_a_base_is_the_same),
		cmocka_unit_test(a_packed_run_is_readable_as_packs),
		cmocka_unit_test(threads_share_a_base),
		cmocka_unit_test(a_record_under_another_number_is_refused),
		cmocka_unit_test(a_damaged_record_on_the_chain_is_named),
		cmocka_unit_test(a_missing_record_is_named),
		cmocka_unit_test(a_bad_name_is_refused_with_its_record),
		cmocka_unit_test(a_chain_that_passes_its_cumulative_record_by_is_refused),
		cmocka_unit_test(a_cumulative_run_that_starts_behind_the_base_is_refused),
		cmocka_unit_test(a_stub_has_no_state),
		cmocka_unit_test(the_record_in_hand_is_not_read_again),
		cmocka_unit_test(a_damaged_block_is_refused_with_its_pack),
		cmocka_unit_test(a_damaged_packed_body_is_refused_with_its_record),
		cmocka_unit_test(a_packed_body_larger_than_a_pack_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
