/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all kinds of store have in common: who shares what, and the one function that waits and
 * tries again.
 *
 * A request is in one phase.  TRYING: the kind has it, the timer is its deadline.  REFUSED: the
 * try did not even begin; the timer brings us out of the caller's stack.  WAITING: the timer is
 * the next try.  All other time it is IDLE and its caller's.
 */
#include "store/objects.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "store/retry.h"
#include "store/silence.h"
#include "store/uri.h"

#define CUTS_MOST 5

enum { IDLE, TRYING, REFUSED, WAITING };

struct tally {
	_Atomic uint64_t requests[4]; /* by enum object_op */
	_Atomic uint64_t errors, retries, bytes_in, bytes_out;
	_Atomic uint64_t wait_most_ns; /* 0: as usual */
	struct silence silence;
};

struct store {
	/* fixed after store_new() */
	struct store_uri uri;
	const struct object_ops *ops;
	void *shared; /* the kind's, by ops->share() */
	/* any thread */
	struct tally *tally;
};

struct objects {
	const struct store *store;
	struct loop *loop;
	void *me;                 /* the kind's, by ops->open() */
	struct object_req *first; /* requests under way */
	bool stopped;
	uint64_t random;
};

/* ---- the store ---- */

int store_new(const char *uri, struct store **out, struct fault *f)
{
	scoped(store_free) struct store *s = calloc(1, sizeof(*s));
	int rc;

	if (s)
		s->tally = calloc(1, sizeof(*s->tally));
	if (!s || !s->tally)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	silence_init(&s->tally->silence);
	rc = store_uri_parse(uri, &s->uri, f);
	if (rc < 0)
		return rc;
	s->ops = s->uri.bucket ? &objects_s3 : &objects_dir;
	rc = s->ops->share(&s->uri, &s->shared, f);
	if (rc < 0)
		return rc;
	*out = take(&s);
	return 0;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	if (s->shared)
		s->ops->unshare(s->shared);
	store_uri_fini(&s->uri);
	if (s->tally)
		silence_fini(&s->tally->silence);
	free(s->tally);
	free(s);
}

const char *store_uri(const struct store *s)
{
	return s->uri.text;
}

void store_hurry(const struct store *s, uint64_t most_ns)
{
	s->tally->wait_most_ns = most_ns;
}

void store_counts(const struct store *s, struct store_counts *out)
{
	struct tally *t = s->tally;

	*out = (struct store_counts){
		.get = t->requests[OBJECT_GET],
		.put = t->requests[OBJECT_PUT],
		.list = t->requests[OBJECT_LIST],
		.del = t->requests[OBJECT_DELETE],
		.errors = t->errors,
		.retries = t->retries,
		.bytes_in = t->bytes_in,
		.bytes_out = t->bytes_out,
	};
}

bool store_silent(const struct store *s, uint64_t least_ns, struct store_silence *out)
{
	return silence_look(&s->tally->silence, clock_mono(&clock_system), least_ns, out);
}

/* ---- one thread's way to it ---- */

int objects_open(const struct store *s, struct loop *l, struct objects **out, struct fault *f)
{
	struct objects *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	o->store = s;
	o->loop = l;
	if (getrandom(&o->random, sizeof(o->random), 0) < 0 || o->random == 0)
		o->random = clock_mono(&clock_system); /* it only spreads retries */
	rc = s->ops->open(s->shared, l, &o->me, f);
	if (rc < 0) {
		free(o);
		return rc;
	}
	*out = o;
	return 0;
}

void objects_close(struct objects *o)
{
	if (!o)
		return;
	while (o->first)
		objects_cancel(o, o->first);
	o->store->ops->close(o->me);
	free(o);
}

struct loop *objects_loop(struct objects *o)
{
	return o->loop;
}

const struct store *objects_store(const struct objects *o)
{
	return o->store;
}

/* ---- requests ---- */

const char *object_op_name(enum object_op op)
{
	static const char *const names[] = {
		[OBJECT_GET] = "GET",
		[OBJECT_PUT] = "PUT",
		[OBJECT_LIST] = "LIST",
		[OBJECT_DELETE] = "DELETE",
	};

	return names[op];
}

static void link_in(struct objects *o, struct object_req *r)
{
	r->priv.o = o;
	r->priv.prev = NULL;
	r->priv.next = o->first;
	if (o->first)
		o->first->priv.prev = r;
	o->first = r;
}

static bool is_answer(const struct object_req *r)
{
	return r->rc == 0 || r->rc == -ENOENT || r->fault.retry == FAULT_RELOAD;
}

static void finish(struct object_req *r)
{
	struct objects *o = r->priv.o;

	silence_ends(&o->store->tally->silence, r, is_answer(r));
	loop_timer_stop(o->loop, &r->priv.timer);
	if (r->priv.prev)
		r->priv.prev->priv.next = r->priv.next;
	else
		o->first = r->priv.next;
	if (r->priv.next)
		r->priv.next->priv.prev = r->priv.prev;
	buf_fini(&r->priv.token);
	r->priv.phase = IDLE;
	if (r->rc == 0)
		r->fault = FAULT_NONE; /* of earlier tries */

	r->done(r); /* may free r */
}

static uint64_t time_left(const struct object_req *r)
{
	uint64_t now = clock_mono(&clock_system);

	if (r->deadline_ns == 0)
		return UINT64_MAX;
	return r->deadline_ns > now ? r->deadline_ns - now : 0;
}

static void give_up(struct object_req *r)
{
	struct fault *f = &r->fault;

	if (f->code == 0)
		(void)fault_set(f, -ETIMEDOUT, FAULT_SOON, "%s %s: no answer in time",
				object_op_name(r->op), r->key); /* the code is r->rc */
	else if (r->priv.tries > 1)
		(void)fault_in(f, "gave up after %u tries", r->priv.tries);
	r->rc = f->code;
	silence_tried(&r->priv.o->store->tally->silence, r, clock_mono(&clock_system));
	finish(r);
}

/* xorshift64: good enough to keep clients from marching in step. */
static uint64_t next_random(struct objects *o)
{
	o->random ^= o->random << 13;
	o->random ^= o->random >> 7;
	o->random ^= o->random << 17;
	return o->random;
}

static void wait_or_give_up(struct object_req *r)
{
	struct objects *o = r->priv.o;
	const struct retry how = {
		.class = r->fault.retry,
		.tries = r->priv.tries,
		.retry_after_ns = r->priv.retry_after_ns,
		.left_ns = time_left(r),
		.most_ns = o->store->tally->wait_most_ns,
		.random = next_random(o),
	};
	uint64_t wait = retry_wait_ns(&how);

	if (wait == 0) {
		give_up(r);
		return;
	}
	r->priv.phase = WAITING;
	loop_timer_start(o->loop, &r->priv.timer, clock_mono(&clock_system) + wait);
	if (r->retrying)
		r->retrying(r);
}

static uint64_t put_bytes(const struct object_req *r)
{
	uint64_t sum = 0;

	for (int i = 0; i < r->iovs; i++)
		sum += r->iov[i].iov_len;
	return sum;
}

static int cancelled(struct object_req *r)
{
	return fault_set(&r->fault, -ECANCELED, FAULT_FINAL, "%s %s: cancelled", object_op_name(r->op), r->key);
}

static void try_now(struct object_req *r)
{
	struct objects *o = r->priv.o;
	struct tally *t = o->store->tally;

	t->requests[r->op]++;
	if (r->priv.tries++ > 0)
		t->retries++;
	if (r->op == OBJECT_PUT)
		t->bytes_out += put_bytes(r);
	r->got = 0;
	if (r->op != OBJECT_LIST)
		r->body.len = 0; /* a LIST keeps the pages it has */
	r->priv.retry_after_ns = 0;
	r->priv.more = false;
	r->rc = o->stopped ? cancelled(r) : o->store->ops->start(o->me, r);
	r->priv.phase = r->rc < 0 ? REFUSED : TRYING;
	if (r->rc < 0)
		loop_timer_start(o->loop, &r->priv.timer, clock_mono(&clock_system));
	else if (r->deadline_ns > 0)
		loop_timer_start(o->loop, &r->priv.timer, r->deadline_ns);
}

/* A try has ended: is that the end? */
static void judge(struct object_req *r)
{
	struct tally *t = r->priv.o->store->tally;

	if (!is_answer(r))
		t->errors++;
	silence_tried(&t->silence, r, clock_mono(&clock_system));
	if (r->rc == 0 && r->op == OBJECT_LIST && r->priv.more && object_list_room(r) > 0) {
		r->priv.tries = 0;
		try_now(r);
		return;
	}
	if (r->rc == 0 || r->once || r->fault.retry == FAULT_FINAL ||
	    r->fault.retry == FAULT_RELOAD)
		finish(r);
	else
		wait_or_give_up(r);
}

void object_tried(struct object_req *r)
{
	struct objects *o = r->priv.o;

	assert(r->priv.phase == TRYING);
	loop_timer_stop(o->loop, &r->priv.timer);
	if (r->op == OBJECT_GET)
		o->store->tally->bytes_in += r->got;
	judge(r);
}

static void timer_fired(struct loop_timer *t)
{
	struct object_req *r = t->arg;
	struct objects *o = r->priv.o;

	switch (r->priv.phase) {
	case REFUSED:
		judge(r);
		break;
	case WAITING:
		try_now(r);
		break;
	case TRYING:
		o->store->ops->cancel(o->me, r);
		o->store->tally->errors++;
		give_up(r);
		break;
	default:
		assert(!"a timer of no request");
	}
}

void objects_start(struct objects *o, struct object_req *r)
{
	r->rc = 0;
	r->fault = FAULT_NONE;
	r->body.len = 0;
	r->size = 0;
	r->priv = (struct object_try){.timer = {.fire = timer_fired, .arg = r}};
	link_in(o, r);
	silence_begins(&o->store->tally->silence, r, clock_mono(&clock_system));
	try_now(r);
}

void objects_cancel(struct objects *o, struct object_req *r)
{
	if (r->priv.phase == IDLE)
		return;
	if (r->priv.phase == TRYING)
		o->store->ops->cancel(o->me, r);
	r->rc = cancelled(r);
	finish(r);
}

void objects_stop(struct objects *o)
{
	if (!o)
		return;
	o->stopped = true;
	while (o->first)
		objects_cancel(o, o->first);
}

static void set_flag(struct object_req *r)
{
	*(bool *)r->arg = true;
}

int objects_do(struct objects *o, struct object_req *r, struct fault *f)
{
	bool done = false;

	r->done = set_flag;
	r->arg = &done;
	objects_start(o, r);
	loop_run_until(o->loop, &done);
	if (f)
		*f = r->fault;
	return r->rc;
}

void object_req_fini(struct object_req *r)
{
	assert(r->priv.phase == IDLE);
	buf_fini(&r->body);
}

int objects_get(struct objects *o, const char *key, uint64_t deadline_ns, struct buf *out,
		struct fault *f)
{
	struct object_req r = {.op = OBJECT_GET, .key = key, .deadline_ns = deadline_ns};
	int rc = objects_do(o, &r, f);

	if (rc == 0) {
		buf_fini(out);
		*out = r.body;
		r.body = BUF_EMPTY;
	}
	object_req_fini(&r);
	return rc;
}

int objects_put(struct objects *o, const char *key, const void *data, size_t len, bool create_only,
		uint64_t deadline_ns, struct fault *f)
{
	const struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct object_req r = {
		.op = OBJECT_PUT,
		.key = key,
		.iov = &iov,
		.iovs = 1,
		.create_only = create_only,
		.deadline_ns = deadline_ns,
	};
	int rc = objects_do(o, &r, f);

	object_req_fini(&r);
	return rc;
}

/* ---- for the kinds ---- */

struct http_pulse *object_pulse(const struct object_req *r)
{
	return &r->priv.o->store->tally->silence.pulse;
}

const char *object_list_after(const struct object_req *r)
{
	return r->priv.keys > 0 ? (const char *)r->body.data + r->priv.last : r->after;
}

unsigned object_list_room(const struct object_req *r)
{
	return r->most == 0 ? UINT_MAX : r->most - r->priv.keys;
}

int object_listed(struct object_req *r, const char *key, size_t len)
{
	const char *before;
	size_t at = r->body.len;

	if (memchr(key, '\0', len))
		return -EPROTO;
	if (buf_reserve(&r->body, len + 1) < 0) {
		r->body.failed = false; /* nothing was lost, this page comes again */
		return -ENOMEM;
	}
	before = object_list_after(r); /* the buffer may have moved */
	buf_add(&r->body, key, len);
	buf_add(&r->body, "", 1);
	if (before && strcmp((char *)r->body.data + at, before) <= 0) {
		r->body.len = at;
		return -EPROTO;
	}
	r->priv.last = at;
	r->priv.keys++;
	return 0;
}

int object_cut(struct object_req *r, const char *what)
{
	bool again = ++r->priv.cuts < CUTS_MOST;

	return fault_set(&r->fault, -EIO, again ? FAULT_SOON : FAULT_FINAL, "GET %.120s: %s",
			 r->key, what);
}
