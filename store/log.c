/* SPDX-License-Identifier: Apache-2.0 */
/* The log: names, and the four things that are done with it. */
#include "store/log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS     20
#define HALF       UINT64_C(10000000000) /* 10^10: 10^20 - 1 is two halves of ten digits */
#define RANGE_MOST 4096
#define IN_FLIGHT  32
#define DIR_MOST   100

/* ---- names ---- */

/* Names count down from 10^20 - 1, which is more than 64 bits hold. */
void log_key(const char *dir, uint64_t number, char out[LOG_KEY_MAX])
{
	uint64_t high = HALF - 1 - number / HALF;
	uint64_t low = HALF - 1 - number % HALF;

	assert(strlen(dir) <= DIR_MOST);
	(void)snprintf(out, LOG_KEY_MAX, "%s/%010llu%010llu", dir, (unsigned long long)high,
		       (unsigned long long)low); /* fits, as asserted */
}

static uint64_t half_of(const char *digits)
{
	uint64_t v = 0;

	for (int i = 0; i < DIGITS / 2; i++)
		v = v * 10 + (uint64_t)(digits[i] - '0');
	return HALF - 1 - v;
}

uint64_t log_number(const char *dir, const char *key)
{
	size_t len = strlen(dir);
	const char *digits = key + len + 1;
	uint64_t number;

	if (strncmp(key, dir, len) != 0 || key[len] != '/')
		return 0;
	if (strlen(digits) != DIGITS || strspn(digits, "0123456789") != DIGITS)
		return 0;
	if (__builtin_mul_overflow(half_of(digits), HALF, &number) ||
	    __builtin_add_overflow(number, half_of(digits + DIGITS / 2), &number))
		return 0;
	return number;
}

/* ---- reading ---- */

/* A stranger's file that sorts before the records must not hide them. */
static int newest_of(struct objects *o, const char *dir, struct object_req *list, uint64_t *out,
		     struct fault *f)
{
	scoped(buf_fini) struct buf seen = BUF_EMPTY;
	int rc;

	while ((rc = objects_do(o, list, f)) == 0 && list->body.len > 0) {
		*out = log_number(dir, (const char *)list->body.data);
		if (*out > 0)
			return 0;
		seen.len = 0;
		buf_add(&seen, list->body.data, list->body.len);
		if (!buf_ok(&seen))
			return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
		list->after = (const char *)seen.data;
	}
	*out = 0;
	return rc;
}

int log_newest(struct objects *o, const char *dir, uint64_t deadline_ns, uint64_t *out,
	       struct fault *f)
{
	char prefix[LOG_KEY_MAX];
	struct object_req list = {
		.op = OBJECT_LIST,
		.key = prefix,
		.most = 1,
		.deadline_ns = deadline_ns,
	};
	uint64_t newest = 0;
	int rc;

	assert(strlen(dir) <= DIR_MOST);
	(void)snprintf(prefix, sizeof(prefix), "%s/", dir); /* fits, as asserted */
	rc = newest_of(o, dir, &list, &newest, f);
	object_req_fini(&list);
	if (rc < 0)
		return fault_in(f, "newest record of %s", dir);
	*out = newest;
	return 0;
}

int log_read(struct objects *o, const char *dir, uint64_t number, uint64_t deadline_ns,
	     struct buf *out, struct fault *f)
{
	char key[LOG_KEY_MAX];

	log_key(dir, number, key);
	if (objects_get(o, key, deadline_ns, out, f) < 0)
		return fault_in(f, "record %llu of %s", (unsigned long long)number, dir);
	return 0;
}

struct fetch {
	struct object_req req;
	char key[LOG_KEY_MAX];
	bool done;
};

/* Records [first, first + n) into slots[number % IN_FLIGHT]: a window that moves. */
struct window {
	struct objects *o;
	const char *dir;
	uint64_t deadline_ns;
	struct fetch *slots;
};

static void fetched(struct object_req *r)
{
	*(bool *)r->arg = true;
}

static void fetch(struct window *w, uint64_t number)
{
	struct fetch *x = &w->slots[number % IN_FLIGHT];

	object_req_fini(&x->req);
	log_key(w->dir, number, x->key);
	x->done = false;
	x->req = (struct object_req){
		.op = OBJECT_GET,
		.key = x->key,
		.deadline_ns = w->deadline_ns,
		.done = fetched,
		.arg = &x->done,
	};
	objects_start(w->o, &x->req);
}

static void end_fetches(struct window *w)
{
	for (int i = 0; i < IN_FLIGHT; i++) {
		objects_cancel(w->o, &w->slots[i].req);
		object_req_fini(&w->slots[i].req);
	}
}

static struct fetch *await(struct window *w, uint64_t number)
{
	struct fetch *x = &w->slots[number % IN_FLIGHT];

	loop_run_until(objects_loop(w->o), &x->done);
	return x;
}

static int read_in_order(struct window *w, uint64_t first, uint64_t last,
			 int (*each)(void *arg, uint64_t number, const struct buf *data,
				     struct fault *f),
			 void *arg, struct fault *f)
{
	uint64_t asked = first;

	for (uint64_t n = first; n <= last; n++) {
		const struct fetch *x;
		int rc;

		while (asked <= last && asked < n + IN_FLIGHT)
			fetch(w, asked++);
		x = await(w, n);
		if (x->req.rc < 0)
			return fault_set(f, x->req.rc, x->req.fault.retry, "record %llu of %s: %s",
					 (unsigned long long)n, w->dir, x->req.fault.text);
		rc = each(arg, n, &x->req.body, f);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int log_read_range(struct objects *o, const char *dir, uint64_t first, uint64_t last,
		   uint64_t deadline_ns,
		   int (*each)(void *arg, uint64_t number, const struct buf *data, struct fault *f),
		   void *arg, struct fault *f)
{
	struct window w = {.o = o, .dir = dir, .deadline_ns = deadline_ns};
	int rc;

	assert(first > last || last - first < RANGE_MOST);
	w.slots = calloc(IN_FLIGHT, sizeof(*w.slots));
	if (!w.slots)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	rc = read_in_order(&w, first, last, each, arg, f);
	end_fetches(&w);
	free(w.slots);
	return rc;
}

/* ---- appending ---- */

/* The number is taken.  By us, if a try of which we saw no answer had worked: content tells. */
static int look_who_won(struct objects *o, const char *dir, uint64_t number, const void *data,
			size_t len, uint64_t deadline_ns, struct buf *theirs, struct fault *f)
{
	scoped(buf_fini) struct buf there = BUF_EMPTY;
	int rc = log_read(o, dir, number, deadline_ns, &there, f);

	if (rc < 0)
		return rc;
	if (there.len == len && (len == 0 || memcmp(there.data, data, len) == 0)) {
		if (f)
			*f = FAULT_NONE;
		return 0;
	}
	if (theirs) {
		buf_fini(theirs);
		*theirs = there;
		there = BUF_EMPTY;
	}
	return fault_set(f, -EEXIST, FAULT_RELOAD, "record %llu of %s is another writer's",
			 (unsigned long long)number, dir);
}

int log_append(struct objects *o, const char *dir, uint64_t number, const void *data, size_t len,
	       uint64_t deadline_ns, struct buf *theirs, struct fault *f)
{
	char key[LOG_KEY_MAX];
	int rc;

	assert(number > 0);
	log_key(dir, number, key);
	rc = objects_put(o, key, data, len, true, deadline_ns, f);
	if (rc == -EEXIST)
		return look_who_won(o, dir, number, data, len, deadline_ns, theirs, f);
	if (rc < 0)
		return fault_in(f, "record %llu of %s", (unsigned long long)number, dir);
	return 0;
}
