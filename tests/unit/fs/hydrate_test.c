/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way for two versions of one file. */
#include "fs/hydrate.h"
#include "tests/unit/fs/rig.h"

#define SIZE (100u << 10) /* a chunk: what is shorter stands in the record */
#define TRIES 20

static void came(struct awaited *w)
{
	(void)w;
}

/* Written and committed; a copy of where it lies. */
static struct extents put_version(struct machine *x, unsigned seed)
{
	struct extents out = EXTENTS_EMPTY;
	uint8_t *data = malloc(SIZE);
	struct walk w;
	struct handle *h;

	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)rand_r(&seed);
	h = do_open(x, "a", O_CREAT | O_TRUNC | O_WRONLY);
	do_write(x, h, data, SIZE, 0, getpid());
	do_close(x, h, getpid());
	machine_sync(x);
	assert_int_equal(walk_to(x, "a", &w), 0);
	mount_lock(&x->m);
	assert_int_equal(extents_copy(&node_find(&x->m.nodes, w.id)->file->stored, &out), 0);
	mount_unlock(&x->m);
	free(data);
	return out;
}

static void lose_pack(const struct rig *r, uint64_t pack)
{
	char key[PACK_KEY_MAX], path[192];

	pack_key(pack, key);
	snprintf(path, sizeof(path), "%s/store/%s", r->path, key);
	assert_int_equal(unlink(path), 0);
}

/* Their bytes are in the store only. */
static struct content *absent(struct machine *x, const struct node *n, uint32_t version, const struct extents *e)
{
	struct content *c;

	assert_int_equal(content_of_extents(x->m.contents, n->id, version, e, SIZE, &c, NULL), 0);
	return c;
}

static void a_fetch_that_fails_for_one_version_is_not_held_against_another(void **state)
{
	struct machine *x = machine_new(*state);
	struct extents good = put_version(x, 1), lost = put_version(x, 2);
	struct walk walk;
	struct node *n;

	assert_int_equal(walk_to(x, "a", &walk), 0);
	n = node_find(&x->m.nodes, walk.id);
	lose_pack(*state, lost.v[0].place.pack);
	for (uint32_t i = 0; i < TRIES; i++) { /* it need not be on its way still when the other asks */
		struct content *a = absent(x, n, 100 + 2 * i, &lost), *b = absent(x, n, 101 + 2 * i, &good);
		struct awaited w = {.came = came}, v = {.came = came};
		uint8_t data[16];

		assert_int_equal(hydrate_start(&x->m, n, a, 0, SIZE, false, &w), -EAGAIN);
		assert_int_equal(hydrate_start(&x->m, n, b, 0, SIZE, false, &v), -EAGAIN);
		assert_int_equal(hydrate(&x->m, n, b, 0, SIZE, false), 0);
		assert_int_equal(content_read(b, data, sizeof(data), 0), sizeof(data));
		assert_int_equal(hydrate(&x->m, n, a, 0, SIZE, false), -EIO);
		mount_lock(&x->m);
		assert_int_equal(v.rc, 0);
		hydrate_leave(&w);
		hydrate_leave(&v);
		mount_unlock(&x->m);
		content_unref(a);
		content_unref(b);
	}
	extents_fini(&good);
	extents_fini(&lost);
	machine_lose(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_fetch_that_fails_for_one_version_is_not_held_against_another, rig_make,
						rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
