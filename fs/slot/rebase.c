/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two sides touch at all, and what memory has to learn afterwards.  See rebase.h. */
#include <errno.h>
#include <string.h>

#include "fs/slot/rebase_priv.h"

/* ---- do they touch? ---- */

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What a run says of names and inodes, as far as another has to know. */
struct outline {
	uint64_t *removed; /* ids of inodes, sorted */
	size_t n;
	bool names_a_directory; /* it may have moved one */
};

static void outline_fini(struct outline *o)
{
	free(o->removed);
}
SCOPE_VAL(struct outline, outline_fini)

static int outline_of(const struct run *run, struct outline *out, struct fault *f)
{
	size_t n = run_count(run);
	struct run_item item;
	struct name_rec name;

	out->removed = malloc((n + 1) * sizeof(*out->removed));
	if (!out->removed)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory to look at a run of %zu items", n);
	for (size_t i = 0; i < n; i++) {
		run_at(run, i, &item);
		if (!item.value && key_is_first_segment(item.key, item.key_len))
			out->removed[out->n++] = key_number(item.key, 9);
		if (!item.value || key_kind(item.key, item.key_len) != KEY_NAME)
			continue;
		if (name_rec_decode(item.value, item.value_len, &name, f) < 0)
			return -EBADMSG;
		out->names_a_directory |= name.type == DT_DIR;
	}
	qsort(out->removed, out->n, sizeof(*out->removed), by_id);
	return 0;
}

/* Does a run say a key that the other says too, or put a name where the other removes the directory? */
static bool meets(const struct run *run, const struct run *other, const struct outline *others)
{
	size_t n = run_count(run);
	struct run_item item, same;

	for (size_t i = 0; i < n; i++) {
		uint64_t dir;

		run_at(run, i, &item);
		dir = key_number(item.key, 0);
		if (run_find(other, item.key, item.key_len, &same))
			return true;
		if (item.value && key_kind(item.key, item.key_len) == KEY_NAME &&
		    bsearch(&dir, others->removed, others->n, sizeof(dir), by_id))
			return true;
	}
	return false;
}

static int touch_each_other(const struct run *ours, const struct run *theirs, bool *out, struct fault *f)
{
	scoped(outline_fini) struct outline a = {.n = 0}, b = {.n = 0};
	int rc = outline_of(ours, &a, f);

	if (rc == 0)
		rc = outline_of(theirs, &b, f);
	if (rc == 0)
		*out = (a.names_a_directory && b.names_a_directory) || meets(ours, theirs, &b) ||
		       meets(theirs, ours, &a);
	return rc;
}

/* ---- theirs as one ---- */

static int merged(const struct rebase_theirs *theirs, size_t n, struct run **out)
{
	scoped(free) struct run **runs = malloc((n + 1) * sizeof(*runs));
	size_t has = 0;

	if (!runs)
		return -ENOMEM;
	while (n-- > 0)
		if (theirs[n].run)
			runs[has++] = theirs[n].run;
	return run_merge(runs, has, false, out);
}

int rebase(const struct rebase *r, struct run *ours, struct run **out, struct fault *f)
{
	scoped(run_unref) struct run *theirs = NULL;
	struct rebasing w = {.r = r, .ours = ours, .f = f};
	bool touch = false;
	int rc = merged(r->theirs, r->theirs_n, &theirs);

	if (rc < 0)
		return rebase_oom(&w);
	rc = touch_each_other(ours, theirs, &touch, f);
	if (rc < 0)
		return rc;
	if (!touch) {
		*out = run_ref(ours);
		return 0;
	}
	w.theirs = theirs;
	rc = rebase_load(&w);
	if (rc == 0)
		rc = rebase_names(&w);
	if (rc == 0)
		rc = rebase_split(&w);
	if (rc == 0)
		rc = rebase_inodes(&w, out);
	rebase_unload(&w);
	if (rc < 0 && f && f->code != rc)
		return fault_errno(f, rc, "cannot rebase a run of %zu items", run_count(ours));
	return rc;
}

/* ---- what memory has to learn ---- */

static bool says(const struct run *run, const struct run_item *key, struct run_item *out)
{
	return run && run_find(run, key->key, key->key_len, out);
}

static bool is_same_value(const struct run_item *a, const struct run_item *b)
{
	if (!a->value || !b->value)
		return a->value == b->value;
	return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

/* Each key of `run` of which ours and what was committed do not say the same. */
static int add_keys(struct run_builder *keys, const struct run *run, const struct run *ours,
		    const struct run *committed)
{
	size_t n = run ? run_count(run) : 0;
	struct run_item item, a, b;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		run_at(run, i, &item);
		if (says(ours, &item, &a) && says(committed, &item, &b) && is_same_value(&a, &b))
			continue;
		rc = run_builder_add(keys, item.key, item.key_len, NULL, 0);
	}
	return rc;
}

int rebase_keys(const struct rebase_theirs *theirs, size_t theirs_n, struct run *ours, struct run *out,
		struct run **keys)
{
	scoped(run_builder_free) struct run_builder *b = run_builder_new();
	scoped(run_unref) struct run *before = NULL, *committed = NULL;
	int rc = b ? merged(theirs, theirs_n, &before) : -ENOMEM;

	if (rc == 0)
		rc = run_merge((struct run *[]){out ? out : before, before}, 2, false, &committed);
	if (rc == 0)
		rc = add_keys(b, committed, ours, committed);
	if (rc == 0)
		rc = add_keys(b, ours, ours, committed);
	return rc < 0 ? rc : run_builder_finish(b, keys);
}
