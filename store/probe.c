/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe: what a store can do is found by doing it, under probe/<random>/.
 * A store that lacks something is no fault; one that cannot be asked is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "store/format.h"

#define DEADLINE_NS (60 * NS_PER_S) /* for all of it */
#define KEYS        5
#define KEY_MAX     64

struct probe {
	struct objects *o;
	char prefix[KEY_MAX];
	uint64_t deadline_ns;
};

/* In the order of bytes, which is neither that of a dictionary nor that of directories. */
static const char *const names[KEYS] = {"A", "a-b", "a/b", "a0", "b"};
static const int put_order[KEYS] = {3, 0, 4, 2, 1};

static void key_of(const struct probe *p, const char *name, char out[KEY_MAX])
{
	(void)snprintf(out, KEY_MAX, "%.40s%.20s", p->prefix, name); /* fits */
}

/* Content is the name: it tells who wrote it. */
static int put(struct probe *p, const char *name, struct fault *f)
{
	char key[KEY_MAX];

	key_of(p, name, key);
	return objects_put(p->o, key, name, strlen(name), false, p->deadline_ns, f);
}

static bool content_is(const struct buf *b, const char *want)
{
	return b->len == strlen(want) && memcmp(b->data, want, b->len) == 0;
}

/* ---- read after write ---- */

/* Each key is asked for at once after its PUT. */
static int probe_read_after_write(struct probe *p, bool *out, struct fault *f)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	char key[KEY_MAX];
	bool seen = true;

	for (int i = 0; i < KEYS; i++) {
		const char *name = names[put_order[i]];
		int rc = put(p, name, f);

		if (rc < 0)
			return rc;
		key_of(p, name, key);
		rc = objects_get(p->o, key, p->deadline_ns, &body, f);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		seen = seen && rc == 0 && content_is(&body, name);
	}
	*out = seen;
	return 0;
}

/* ---- ordered list ---- */

/* Pages of two, each behind the last key of the one before. */
static int probe_list(struct probe *p, bool *out, struct fault *f)
{
	char after[KEY_MAX] = "";
	bool right = true;
	int n = 0;

	for (int page = 0; page < (KEYS + 1) / 2; page++) {
		struct object_req r = {
			.op = OBJECT_LIST,
			.key = p->prefix,
			.after = after[0] ? after : NULL,
			.most = 2,
			.deadline_ns = p->deadline_ns,
		};
		int rc = objects_do(p->o, &r, f);

		for (size_t at = 0; rc == 0 && at < r.body.len;) {
			const char *key = (const char *)r.body.data + at;

			right = right && n < KEYS && strcmp(key + strlen(p->prefix), names[n]) == 0;
			n++;
			at += strlen(key) + 1;
			(void)snprintf(after, sizeof(after), "%.60s", key); /* as long as ours */
		}
		object_req_fini(&r);
		if (rc < 0 && rc != -EPROTO)
			return rc;
		right = right && rc == 0;
	}
	*out = right && n == KEYS;
	return 0;
}

/* ---- create-only ---- */

struct race {
	struct object_req req[2];
	struct iovec iov[2];
	char key[KEY_MAX];
	bool over[2];
};

static void over(struct object_req *r)
{
	*(bool *)r->arg = true;
}

static const char *const racers[2] = {"one", "two"};

/* Two create-only PUTs of one key at the same time. */
static void run_race(struct probe *p, struct race *x)
{
	key_of(p, "race", x->key);
	for (int i = 0; i < 2; i++) {
		x->iov[i] = (struct iovec){(void *)racers[i], strlen(racers[i])};
		x->req[i] = (struct object_req){
			.op = OBJECT_PUT,
			.key = x->key,
			.iov = &x->iov[i],
			.iovs = 1,
			.create_only = true,
			.deadline_ns = p->deadline_ns,
			.done = over,
			.arg = &x->over[i],
		};
		objects_start(p->o, &x->req[i]);
	}
	for (int i = 0; i < 2; i++)
		loop_run_until(objects_loop(p->o), &x->over[i]);
}

/* How the race went: 1 won, 0 lost, or a negative errno in *f. */
static int outcome(const struct object_req *r, struct fault *f)
{
	if (r->rc == 0)
		return 1;
	if (r->rc == -EEXIST)
		return 0;
	if (f)
		*f = r->fault;
	return r->rc;
}

/*
 * Exactly one may win, and its content is there.  That none seems to have won is possible too,
 * when the answer to the winner was lost on the way: then either content will do.
 */
static int judge_race(struct probe *p, const struct race *x, bool *out, struct fault *f)
{
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	int won[2], rc;

	for (int i = 0; i < 2; i++) {
		won[i] = outcome(&x->req[i], f);
		if (won[i] < 0)
			return won[i];
	}
	rc = objects_get(p->o, x->key, p->deadline_ns, &body, f);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	*out = rc == 0 && ((content_is(&body, racers[0]) && !won[1]) ||
			   (content_is(&body, racers[1]) && !won[0]));
	return 0;
}

static int probe_create_only(struct probe *p, bool *out, struct fault *f)
{
	struct race x = {.over = {false}};
	int rc;

	run_race(p, &x);
	rc = judge_race(p, &x, out, f);
	for (int i = 0; i < 2; i++)
		object_req_fini(&x.req[i]);
	if (rc == -ENOTSUP) { /* "not implemented" is an answer */
		*out = false;
		return 0;
	}
	return rc;
}

/* ---- ranges and checksums ---- */

static int probe_ranges(struct probe *p, bool *out, struct fault *f)
{
	static const char data[] = "0123456789";
	struct object_req r = {.op = OBJECT_GET, .off = 3, .len = 4, .deadline_ns = p->deadline_ns};
	char key[KEY_MAX];
	int rc;

	key_of(p, "range", key);
	r.key = key;
	rc = objects_put(p->o, key, data, strlen(data), false, p->deadline_ns, f);
	if (rc < 0)
		return rc;
	rc = objects_do(p->o, &r, f);
	*out = rc == 0 && content_is(&r.body, "3456");
	object_req_fini(&r);
	return rc == -EIO || rc == -ENOENT ? 0 : rc; /* the wrong bytes each time, or none */
}

static int probe_checksums(struct probe *p, bool *out, struct fault *f)
{
	static const char data[] = "damaged on the way";
	const struct iovec iov = {(void *)data, strlen(data)};
	struct object_req r = {
		.op = OBJECT_PUT,
		.iov = &iov,
		.iovs = 1,
		.spoil_checksum = true,
		.once = true,
		.deadline_ns = p->deadline_ns,
	};
	char key[KEY_MAX];
	int rc;

	key_of(p, "sum", key);
	r.key = key;
	rc = objects_do(p->o, &r, f);
	object_req_fini(&r);
	*out = rc == -EBADMSG;
	return *out ? 0 : rc;
}

/* ---- all of it ---- */

static int ask(struct probe *p, struct store_probe *out, struct fault *f)
{
	int rc = probe_read_after_write(p, &out->read_after_write, f);

	if (rc == 0)
		rc = probe_list(p, &out->ordered_list, f);
	if (rc == 0)
		rc = probe_create_only(p, &out->create_only, f);
	if (rc == 0)
		rc = probe_ranges(p, &out->ranges, f);
	if (rc == 0)
		rc = probe_checksums(p, &out->checksums, f);
	return rc;
}

static void delete_one(struct probe *p, const char *name)
{
	char key[KEY_MAX];
	struct object_req r = {
		.op = OBJECT_DELETE,
		.key = key,
		.once = true,
		.deadline_ns = p->deadline_ns,
	};

	key_of(p, name, key);
	(void)objects_do(p->o, &r, NULL); /* a few bytes left over harm nobody */
	object_req_fini(&r);
}

static void clean_up(struct probe *p)
{
	for (int i = 0; i < KEYS; i++)
		delete_one(p, names[i]);
	delete_one(p, "race");
	delete_one(p, "range");
	delete_one(p, "sum");
}

int store_probe(struct objects *o, struct store_probe *out, struct fault *f)
{
	struct probe p = {.o = o, .deadline_ns = clock_mono(&clock_system) + DEADLINE_NS};
	struct store_probe found = {.create_only = false};
	uint64_t random;
	int rc;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return fault_errno(f, -errno, "random number");
	(void)snprintf(p.prefix, sizeof(p.prefix), "probe/%016llx/", (unsigned long long)random);
	rc = ask(&p, &found, f);
	clean_up(&p);
	if (rc < 0)
		return fault_in(f, "probe");
	*out = found;
	return 0;
}
