/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States: runs in memory over a packed base, newest wins.
 * I1: a state never changes; the next one shares its runs and its base.
 * I2: layers are newest first, and all that is older than the base's record may be left out.
 */
#include "store/state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "store/layers.h"
#include "store/merge.h"
#include "store/objects.h"
#include "store/packer.h"

/* ---- making ---- */

struct state *state_new(const struct store_format *fmt, const struct record_head *head, size_t n)
{
	struct state *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct state){.refs = 1,
			    .fmt = *fmt,
			    .head = *head,
			    .layers = calloc(n + 1, sizeof(*s->layers))};
	if (s->layers)
		return s;
	free(s);
	return NULL;
}

void state_lay(struct state *s, struct run *run, uint64_t upto, bool cumulative)
{
	s->layers[s->n++] =
		(struct layer){.run = run_ref(run), .upto = upto, .cumulative = cumulative};
}

struct state *state_ref(struct state *s)
{
	if (s)
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

void state_unref(struct state *s)
{
	if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (size_t i = 0; i < s->n; i++)
		run_unref(s->layers[i].run);
	free(s->layers);
	packed_unref(s->base);
	free(s);
}

int state_empty(const struct store_format *fmt, struct state **out)
{
	struct record_head none = {.store = fmt->id, .slots = 1};
	struct state *s = state_new(fmt, &none, 0);

	if (!s)
		return -ENOMEM;
	*out = s;
	return 0;
}

/* The base that `head` names: the one that s has, or another, whose index is read at first use. */
static int base_of(struct state *s, const struct record_head *head, struct packed **out)
{
	const struct run_ref *have = s->base ? packed_where(s->base) : NULL;

	if (head->base_upto == 0)
		return 0;
	if (have && have->index.pack == head->base.index.pack &&
	    have->index.offset == head->base.index.offset)
		*out = packed_ref(s->base);
	else
		*out = packed_new(&s->fmt, &head->base);
	return *out ? 0 : -ENOMEM;
}

int state_next(struct state *s, const struct record_head *head, struct run *run, struct state **out)
{
	bool cumulative = head->flags & RECORD_CUMULATIVE;
	scoped(state_unref) struct state *next = state_new(&s->fmt, head, s->n + 1);

	if (!next || base_of(s, head, &next->base) < 0)
		return -ENOMEM;
	if (run && (run_count(run) > 0 || cumulative))
		state_lay(next, run, head->number, cumulative);
	for (size_t i = 0; i < s->n && !cumulative; i++) {
		const struct layer *l = &s->layers[i];

		if (l->upto > head->base_upto) /* I2 */
			state_lay(next, l->run, l->upto, l->cumulative);
	}
	*out = take(&next);
	return 0;
}

/* ---- what it says ---- */

const struct record_head *state_head(const struct state *s)
{
	return &s->head;
}

size_t state_depth(const struct state *s)
{
	size_t n = 0;

	while (n < s->n && !s->layers[n].cumulative)
		n++;
	return n;
}

uint64_t state_cumulative_bytes(const struct state *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->n; i++)
		bytes += run_bytes(s->layers[i].run);
	return bytes;
}

#define BASE_LEAST (UINT64_C(1) << 20)

bool state_base_due(const struct state *s)
{
	uint64_t most = s->head.base.bytes / 10;

	return state_cumulative_bytes(s) > (most > BASE_LEAST ? most : BASE_LEAST);
}

int state_cumulative(struct state *s, struct run **out)
{
	scoped(free) struct run **runs = malloc((s->n + 1) * sizeof(*runs));

	if (!runs)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		runs[i] = s->layers[i].run;
	/* Removals stay even where there is no base: the run may come to lie over one that is built
	 * later from an earlier record. */
	return run_merge(runs, s->n, false, out);
}

/* ---- reading ---- */

static int walk_merged(struct merge *m, int (*each)(void *arg, const struct run_item *item),
		       void *arg, struct fault *f)
{
	struct run_item item;
	int rc;

	while ((rc = merge_next(m, &item, f)) > 0) {
		rc = item.value ? each(arg, &item) : 0;
		if (rc != 0)
			return rc;
	}
	return rc;
}

/* near_len: see packed_walk_init(). */
static int walk(struct state *s, struct block_source *src, const void *prefix, size_t prefix_len,
		size_t near_len, int (*each)(void *arg, const struct run_item *item), void *arg,
		struct fault *f)
{
	scoped(packed_walk_fini) struct packed_walk base = PACKED_WALK_EMPTY;
	scoped(free) struct cursor *v = NULL;
	scoped(merge_fini) struct merge m = {.v = NULL};
	size_t n = s->n;
	int rc = 0;

	if (prefix_len > RUN_KEY_MAX)
		return fault_set(f, -EINVAL, FAULT_FINAL, "a prefix of %zu bytes", prefix_len);
	v = malloc((n + 1) * sizeof(*v));
	if (!v)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to walk %zu runs", n);
	for (size_t i = 0; i < n; i++)
		v[i] = cursor_of(s->layers[i].run, prefix, prefix_len);
	if (s->base) {
		rc = packed_walk_init(&base, s->base, src, prefix, prefix_len, near_len, f);
		v[n++] = base.cursor;
	}
	if (rc == 0)
		rc = merge_init(&m, v, n, f);
	return rc < 0 ? rc : walk_merged(&m, each, arg, f);
}

int state_walk(struct state *s, struct block_source *src, const void *prefix, size_t prefix_len,
	       int (*each)(void *arg, const struct run_item *item), void *arg, struct fault *f)
{
	return walk(s, src, prefix, prefix_len, prefix_len, each, arg, f);
}

/* 1: *out is the newest word on key, a removal perhaps.  0: nobody says anything. */
static int find(struct state *s, struct block_source *src, const void *key, size_t key_len,
		struct run **held, struct run_item *out, struct fault *f)
{
	for (size_t i = 0; i < s->n; i++) {
		if (run_find(s->layers[i].run, key, key_len, out))
			return 1;
	}
	return s->base ? packed_find(s->base, src, key, key_len, held, out, f) : 0;
}

bool state_has_above_base(const struct state *s, const void *key, size_t key_len)
{
	struct run_item item;

	for (size_t i = 0; i < s->n; i++)
		if (run_find(s->layers[i].run, key, key_len, &item))
			return item.value != NULL;
	return false;
}

int state_find(struct state *s, struct block_source *src, const void *key, size_t key_len,
	       struct buf *value, struct fault *f)
{
	scoped(run_unref) struct run *held = NULL;
	scoped(buf_fini) struct buf copy = BUF_EMPTY;
	struct run_item item = {.value = NULL};
	int rc = find(s, src, key, key_len, &held, &item, f);

	if (rc < 0)
		return rc;
	if (!item.value)
		return fault_set(f, -ENOENT, FAULT_FINAL, "no such item at record %" PRIu64,
				 s->head.number);
	buf_add(&copy, item.value, item.value_len);
	if (!buf_ok(&copy))
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for %zu bytes", item.value_len);
	*value = copy;
	copy = BUF_EMPTY;
	return 0;
}

/* ---- names and inodes ---- */

struct names_walk {
	int (*each)(void *arg, const char *name, size_t len, const struct name_rec *n);
	void *arg;
	struct fault *f;
};

static int each_name(void *arg, const struct run_item *item)
{
	struct names_walk *w = arg;
	const char *name = (const char *)item->key + 9;
	size_t len = item->key_len - 9;
	struct name_rec n;
	int rc = name_rec_decode(item->value, item->value_len, &n, w->f);

	if (rc < 0)
		return w->f ? fault_in(w->f, "name \"%.*s\"", (int)len, name) : rc;
	return w->each(w->arg, name, len, &n);
}

int state_names(struct state *s, struct block_source *src, uint64_t dir,
		int (*each)(void *arg, const char *name, size_t len, const struct name_rec *n),
		void *arg, struct fault *f)
{
	struct names_walk w = {.each = each, .arg = arg, .f = f};
	uint8_t key[RUN_KEY_MAX];

	/* The 9 bytes before the name are what is walked.  Who asks for names asks for inodes next:
	 * those of this directory share the first 8, and save a round trip. */
	(void)key_of_name(dir, "x", 1, key);
	return walk(s, src, key, 9, 8, each_name, &w, f);
}

struct inode_walk {
	struct inode_rec rec;
	struct fault *f;
};

static int each_segment(void *arg, const struct run_item *item)
{
	struct inode_walk *w = arg;

	return inode_rec_decode(item->key, item->key_len, item->value, item->value_len, &w->rec,
				w->f);
}

int state_inode(struct state *s, struct block_source *src, uint64_t home, uint64_t id,
		struct inode_rec *out, struct fault *f)
{
	struct inode_walk w = {.f = f};
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_inode(home, id, 0, key) - sizeof(uint32_t); /* all segments */
	int rc = state_walk(s, src, key, len, each_segment, &w, f);

	if (rc == 0 && w.rec.id == 0)
		rc = fault_set(f, -ENOENT, FAULT_FINAL, "no inode %" PRIu64 " at record %" PRIu64,
			       id, s->head.number);
	if (rc == 0)
		rc = inode_rec_check(&w.rec, f);
	if (rc < 0) {
		inode_rec_fini(&w.rec);
		return rc;
	}
	*out = w.rec;
	return 0;
}

int state_recent(const struct state *s, int (*each)(void *arg, const struct run_item *item), void *arg)
{
	struct run_item item;
	int rc = 0;

	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; rc == 0 && k < run_count(s->layers[i].run); k++) {
			run_at(s->layers[i].run, k, &item);
			rc = each(arg, &item);
		}
	}
	return rc;
}

/* ---- a base ---- */

struct base_walk {
	struct packer packer;
	struct fault *f;
};

static int each_base_item(void *arg, const struct run_item *item)
{
	struct base_walk *w = arg;

	return packer_add(&w->packer, item, w->f);
}

int state_pack_base(struct state *s, struct block_source *src, struct pack_sink *sink,
		    struct run_ref *out, struct fault *f)
{
	struct base_walk w = {.f = f};
	int rc = packer_init(&w.packer, &s->fmt, sink, f);

	if (rc == 0)
		rc = state_walk(s, src, "", 0, each_base_item, &w, f);
	if (rc == 0)
		rc = packer_end(&w.packer, out, f);
	packer_fini(&w.packer);
	return rc;
}

/* ---- a source of blocks ---- */

static int get_object(struct block_source *src, uint64_t pack, uint64_t off, size_t len,
		      uint8_t *dest, struct fault *f)
{
	char key[PACK_KEY_MAX];
	struct object_req r = {.op = OBJECT_GET, .key = key, .off = off, .len = len, .dest = dest};
	int rc;

	pack_key(pack, key);
	rc = objects_do(src->arg, &r, f);
	object_req_fini(&r);
	return rc;
}

void block_source_objects(struct block_source *out, struct objects *o)
{
	*out = (struct block_source){.get = get_object, .arg = o};
}
