/* SPDX-License-Identifier: Apache-2.0 */
/* A naive run: a list kept in order by hand, compared with the real one.  Small and slow on purpose. */
#ifndef HOLDFAST_TESTS_UNIT_STORE_MODEL_H
#define HOLDFAST_TESTS_UNIT_STORE_MODEL_H

#include <assert.h>
#include <string.h>

#include "store/run.h"
#include "tests/unit/store/helpers.h"

struct model_item {
	uint8_t key[RUN_KEY_MAX];
	size_t key_len;
	uint8_t value[96];
	size_t value_len;
	bool removal;
};

struct model {
	struct model_item *v; /* in order of keys */
	size_t n, cap;
};
#define MODEL_EMPTY ((struct model){.v = NULL})

static inline void model_fini(struct model *m)
{
	free(m->v);
	*m = MODEL_EMPTY;
}
SCOPE_VAL(struct model, model_fini)

static inline void model_set(struct model *m, const struct model_item *x)
{
	size_t i = 0;

	while (i < m->n && key_compare(m->v[i].key, m->v[i].key_len, x->key, x->key_len) < 0)
		i++;
	if (i < m->n && key_compare(m->v[i].key, m->v[i].key_len, x->key, x->key_len) == 0) {
		m->v[i] = *x;
		return;
	}
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->v = realloc(m->v, m->cap * sizeof(*m->v));
		assert(m->v);
	}
	memmove(&m->v[i + 1], &m->v[i], (m->n - i) * sizeof(*m->v));
	m->v[i] = *x;
	m->n++;
}

static inline void model_apply(struct model *m, const struct model *newer)
{
	for (size_t i = 0; i < newer->n; i++)
		model_set(m, &newer->v[i]);
}

static inline void model_drop_removals(struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (!m->v[i].removal)
			m->v[n++] = m->v[i];
	}
	m->n = n;
}

/* `n` items over few enough keys (of `dirs` directories) that histories overwrite each other. */
static inline void model_random(struct model *m, uint64_t *seed, size_t n, uint64_t dirs)
{
	for (size_t i = 0; i < n; i++) {
		struct model_item x = {.removal = random_below(seed, 4) == 0};
		uint64_t dir = 1 + random_below(seed, dirs);

		if (random_below(seed, 2)) {
			char name[3] = {(char)('a' + random_below(seed, 6)),
					(char)('a' + random_below(seed, 3)), 0};

			x.key_len = key_of_name(dir, name, 1 + random_below(seed, 2), x.key);
		} else {
			x.key_len = key_of_inode(dir, 1 + random_below(seed, 9),
						 (uint32_t)random_below(seed, 2), x.key);
		}
		if (!x.removal) {
			x.value_len = random_below(seed, sizeof(x.value));
			fill_random(x.value, x.value_len, random_next(seed));
		}
		model_set(m, &x);
	}
}

#endif
