/* SPDX-License-Identifier: Apache-2.0 */
/* See look.h. */
#include "tools/look.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "store/log.h"
#include "store/newest.h"

#define WITHIN_NS (60 * NS_PER_S) /* a store that fails for longer is a fault */

static uint64_t deadline(void)
{
	return clock_mono(&clock_system) + WITHIN_NS;
}

static int choose(const struct ref *ref, const struct newest *newest, uint64_t *out,
		  struct fault *f)
{
	switch (ref->which) {
	case REF_NEWEST:
		*out = newest_state(newest);
		return 0;
	case REF_NUMBER:
		if (ref->number > newest->head.number)
			return fault_set(f, -ENOENT, FAULT_FINAL,
					 "no commit %" PRIu64 ": the newest record is %" PRIu64,
					 ref->number, newest->head.number);
		*out = ref->number;
		return 0;
	case REF_GOOD:
		break;
	}
	if (!newest->head.good && newest_state(newest))
		return fault_set(f, -EUCLEAN, FAULT_FINAL,
				 "no good moment yet; @newest is commit %" PRIu64,
				 newest_state(newest));
	*out = newest->head.good;
	return 0;
}

static int open_store(const char *uri, struct look *l, struct fault *f)
{
	int rc = store_new(uri, &l->store, f);

	if (rc == 0)
		rc = loop_new(LOOP_AUTO, &l->loop, f);
	if (rc == 0)
		rc = objects_open(l->store, l->loop, &l->objects, f);
	if (rc < 0)
		return rc;
	block_source_objects(&l->source, l->objects);
	return store_load(l->objects, &l->format, f);
}

int look_open(const struct ref *ref, struct look *out, struct fault *f)
{
	scoped(look_close) struct look l = LOOK_EMPTY;
	scoped(newest_fini) struct newest newest = NEWEST_EMPTY;
	uint64_t number;
	int rc = open_store(ref->uri, &l, f);

	if (rc < 0)
		return rc; /* names the store itself */
	rc = log_newest(l.objects, "log", deadline(), &number, f);
	if (rc == 0)
		rc = newest_read(l.objects, &l.format, number, deadline(), &newest, f);
	if (rc == 0)
		rc = choose(ref, &newest, &l.number, f);
	if (rc == 0)
		rc = state_load(l.objects, &l.format, l.number, NULL, &l.state, f);
	if (rc < 0)
		return fault_in(f, "%s", ref->uri);
	*out = l;
	l = LOOK_EMPTY;
	return 0;
}

void look_close(struct look *l)
{
	state_unref(l->state);
	objects_close(l->objects);
	loop_free(l->loop);
	store_free(l->store);
	*l = LOOK_EMPTY;
}

/* ---- paths ---- */

static int enter(struct look *l, const char *name, size_t len, struct target *io, struct fault *f)
{
	scoped(buf_fini) struct buf value = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];
	struct name_rec rec;
	int rc;

	if (io->type != DT_DIR)
		return fault_set(f, -ENOTDIR, FAULT_FINAL, "not a directory");
	if (len > NAME_MAX_BYTES)
		return fault_set(f, -ENOENT, FAULT_FINAL, "no such file or directory");
	rc = state_find(l->state, &l->source, key, key_of_name(io->id, name, len, key), &value, f);
	if (rc == -ENOENT)
		return fault_set(f, rc, FAULT_FINAL, "no such file or directory");
	if (rc == 0)
		rc = name_rec_decode(value.data, value.len, &rec, f);
	if (rc < 0)
		return rc;
	*io = (struct target){.id = rec.id, .home = rec.home, .type = rec.type};
	return 0;
}

int look_up(struct look *l, const char *path, struct target *out, struct fault *f)
{
	struct target at = {.id = ROOT_ID, .home = ROOT_ID, .type = DT_DIR};

	for (const char *name = path; *name;) {
		size_t len = strcspn(name, "/");
		int rc = enter(l, name, len, &at, f);

		if (rc < 0)
			return fault_in(f, "%.*s", (int)(name + len - path), path);
		name += len;
		name += *name == '/';
	}
	*out = at;
	return 0;
}
