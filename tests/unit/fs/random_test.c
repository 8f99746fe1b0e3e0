/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls against a naive model: after each acknowledgement a machine that looks at the store sees what
 * the model says is public, and a daemon that was killed goes on with what was live.
 */
#include "tests/unit/fs/rig.h"

#include "fs/evict.h"
#include "fs/revert.h"

#include <linux/fs.h>
#include <time.h>

#define FILES_MOST 4096
#define NAMES 8  /* in each directory */
#define DIRS 3   /* the root, and two that are never moved */
#define STEPS 120

/* What a file holds, and what it held when it was last finished. */
struct model_file {
	char live[64], whole[64];
	bool finished, ever; /* live is whole; some version was */
};

/* What a name leads to, and what the store says of it; 0: nothing. */
struct model_name {
	unsigned live, base;
	bool cut; /* the base's was unlinked or moved away */
};

struct model {
	struct model_file files[FILES_MOST];
	unsigned files_n; /* 0 is none of them */
	struct model_name names[DIRS * NAMES];
	unsigned seed;
};

static unsigned dice(struct model *m, unsigned n)
{
	return (unsigned)rand_r(&m->seed) % n;
}

static const char *const dirs[DIRS] = {"", "d/", "e/"};

static void path_of(const struct model *m, const struct model_name *e, char out[16])
{
	size_t at = (size_t)(e - m->names);

	snprintf(out, 16, "%sn%zu", dirs[at / NAMES], at % NAMES);
}

static struct model_name *any_name(struct model *m)
{
	unsigned dir = dice(m, DIRS);

	return &m->names[dir * NAMES + dice(m, NAMES)];
}

/* Now: what it leads to in the next moment. */
static void publish(struct model *m)
{
	for (struct model_name *e = m->names; e < m->names + DIRS * NAMES; e++) {
		if (e->live && !m->files[e->live].ever)
			e->base = e->cut ? 0 : e->base;
		else
			e->base = e->live;
		if (e->base == e->live)
			e->cut = false;
	}
}

static unsigned links_of(const struct model *m, unsigned file, bool public)
{
	unsigned n = 0;

	for (const struct model_name *e = m->names; e < m->names + DIRS * NAMES; e++)
		n += (public ? e->base : e->live) == file;
	return n;
}

static char *model_tree(const struct model *m, bool public)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (unsigned d = 1; d <= DIRS; d++) { /* "n…" of the root sorts behind "d" and "e" */
		if (d < DIRS)
			fprintf(out, "/%.1s 40755\n", dirs[d]);
		for (unsigned i = 0; i < NAMES; i++) {
			const struct model_name *e = &m->names[d % DIRS * NAMES + i];
			unsigned file = public ? e->base : e->live;

			if (file)
				fprintf(out, "/%sn%u 100644 x%u %s\n", dirs[d % DIRS], i, links_of(m, file, public),
					public ? m->files[file].whole : m->files[file].live);
		}
	}
	fclose(out);
	return text;
}

static void name_leads_to(struct model_name *e, unsigned file)
{
	if (file && file == e->base)
		e->cut = false;
	e->live = file;
}

/* ---- what processes do ---- */

static void write_one(struct machine *x, struct model *m, struct model_name *e)
{
	bool dies = dice(m, 3) == 0, truncates = dice(m, 2);
	pid_t pid = dies ? NOBODY : getpid();
	struct model_file *file;
	struct handle *h;
	char path[16], text[16];
	size_t at;

	path_of(m, e, path);
	snprintf(text, sizeof(text), "%x.", dice(m, 1000));
	if (!e->live) {
		assert_true(m->files_n < FILES_MOST - 1);
		name_leads_to(e, ++m->files_n);
	}
	file = &m->files[e->live];
	if (truncates || strlen(file->live) + strlen(text) >= sizeof(file->live))
		file->live[0] = '\0', truncates = true;
	at = dice(m, 2) ? strlen(file->live) : 0;
	h = do_open(x, path, O_CREAT | O_RDWR | (truncates ? O_TRUNC : 0));
	do_write(x, h, text, strlen(text), at, pid);
	do_close(x, h, pid);
	if (at + strlen(text) >= strlen(file->live))
		file->live[at + strlen(text)] = '\0';
	memcpy(file->live + at, text, strlen(text));
	file->finished = !dies;
	if (!dies) {
		strcpy(file->whole, file->live);
		file->ever = true;
	}
}

/* As cp(1); of a file that is in the store only, a reference. */
static void copy_one(struct machine *x, struct model *m, struct model_name *from, struct model_name *to)
{
	struct model_file *file;
	struct handle *a, *b;
	char in[16], out[16];
	bool dies = dice(m, 4) == 0;
	pid_t pid = dies ? NOBODY : getpid();
	size_t len;

	if (!from->live || from->live == to->live)
		return;
	len = strlen(m->files[from->live].live);
	path_of(m, from, in);
	path_of(m, to, out);
	if (!to->live) {
		assert_true(m->files_n < FILES_MOST - 1);
		name_leads_to(to, ++m->files_n);
	}
	file = &m->files[to->live];
	a = do_open(x, in, O_RDONLY);
	b = do_open(x, out, O_CREAT | O_WRONLY | O_TRUNC);
	assert_int_equal(file_copy(&x->m, a, 0, b, 0, len, pid, NULL), len);
	do_close(x, b, pid);
	do_close(x, a, pid);
	strcpy(file->live, m->files[from->live].live);
	file->finished = !dies;
	if (!dies) {
		strcpy(file->whole, file->live);
		file->ever = true;
	}
}

static void unlink_one(struct machine *x, struct model *m, struct model_name *e)
{
	char path[16];

	path_of(m, e, path);
	assert_int_equal(do_unlink(x, path), e->live ? 0 : -ENOENT);
	if (e->live)
		e->cut = true;
	name_leads_to(e, 0);
}

static void rename_one(struct machine *x, struct model *m, struct model_name *from, struct model_name *to, bool exchange)
{
	unsigned moved = from->live, over = to->live;
	char a[16], b[16];
	int rc;

	path_of(m, from, a);
	path_of(m, to, b);
	rc = do_rename(x, a, b, exchange ? RENAME_EXCHANGE : 0);
	if (!moved || (exchange && !over)) {
		assert_int_equal(rc, -ENOENT);
		return;
	}
	assert_int_equal(rc, 0);
	if (moved == over)
		return;
	from->cut = true;
	to->cut = exchange || to->cut;
	name_leads_to(from, exchange ? over : 0);
	name_leads_to(to, moved);
}

static void link_one(struct machine *x, struct model *m, struct model_name *from, struct model_name *to)
{
	char a[16], b[16];
	int rc;

	path_of(m, from, a);
	path_of(m, to, b);
	rc = do_link(x, a, b);
	assert_int_equal(rc, !from->live ? -ENOENT : to->live ? -EEXIST : 0);
	if (rc == 0)
		name_leads_to(to, from->live);
}

/* -o on_kill=revert: what killed writers left is what the store says of it. */
static void go_back(struct machine *x, struct model *m)
{
	if (!x->m.opts.revert_killed)
		return;
	while (revert_next(&x->m))
		;
	for (struct model_name *e = m->names; e < m->names + DIRS * NAMES; e++) {
		struct model_file *file = &m->files[e->live];

		if (e->live && !file->ever)
			name_leads_to(e, e->cut ? 0 : e->base);
		else if (e->live)
			strcpy(file->live, file->whole);
	}
}

/* ---- what must hold ---- */

static void assert_tree(char *is, char *wanted)
{
	assert_string_equal(is, wanted);
	free(is);
	free(wanted);
}

/* A killed daemon's files are those of killed writers; it no more knows whose names were cut. */
static void kill_and_go_on(struct machine *x, struct model *m)
{
	machine_restart(x);
	for (struct model_name *e = m->names; e < m->names + DIRS * NAMES; e++)
		e->cut = e->live == 0 && e->base != 0;
	go_back(x, m);
	assert_tree(tree_of(x, false), model_tree(m, false));
}

static void step(struct rig *r, struct machine *x, struct model *m)
{
	unsigned what = dice(m, 30);

	if (what < 9)
		write_one(x, m, any_name(m));
	else if (what < 12)
		unlink_one(x, m, any_name(m));
	else if (what < 17)
		rename_one(x, m, any_name(m), any_name(m), what == 16);
	else if (what < 19)
		link_one(x, m, any_name(m), any_name(m));
	else if (what < 20)
		assert_tree(tree_of(x, false), model_tree(m, false));
	else if (what < 21)
		forget_all(x);
	else if (what < 22)
		kill_and_go_on(x, m);
	else if (what < 26)
		copy_one(x, m, any_name(m), any_name(m));
	else if (what < 27)
		(void)evict_some(&x->m, UINT64_MAX / 2);
	else {
		machine_sync(x);
		publish(m);
		assert_tree(good_tree(r, false), model_tree(m, true));
	}
}

static unsigned seed_of_run(void)
{
	const char *given = getenv("SEED");

	return given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
}

static void run(void **state, bool revert)
{
	struct model *m = calloc(1, sizeof(*m));
	struct machine *x = machine_new(*state);
	unsigned seed = seed_of_run();

	print_message("# SEED=%u\n", seed);
	m->seed = seed;
	x->m.opts.revert_killed = revert;
	assert_int_equal(do_make(x, "d", S_IFDIR | 0755, NULL), 0);
	assert_int_equal(do_make(x, "e", S_IFDIR | 0755, NULL), 0);
	for (int i = 0; i < STEPS; i++) {
		step(*state, x, m);
		go_back(x, m);
	}
	machine_lose(x);
	free(m);
}

static void another_machine_gets_what_the_model_says(void **state)
{
	run(state, false);
}

static void and_so_does_this_one_where_a_killed_save_is_taken_back(void **state)
{
	run(state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_machine_gets_what_the_model_says, rig_make, rig_end),
		cmocka_unit_test_setup_teardown(and_so_does_this_one_where_a_killed_save_is_taken_back, rig_make, rig_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
