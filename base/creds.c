/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider: one set of keys, one thread that renews it.
 *
 * I1: only the refresh thread asks a source, so there is never more than one request under way.
 * I2: keys that have run out, or that the store has called expired, are not given out; a new
 *     fetch, even of the same keys, makes them good again (the store may have been mistaken).
 * I3: what goes wrong is tried again for ever, slower each time: a role that was taken away may
 *     come back, and a mount must outlive it.
 */
#include "base/creds.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "base/creds_source.h"
#include "base/log.h"
#include "base/wipe.h"

#define LEAD_MOST_NS   (300 * NS_PER_S) /* before expiry; a quarter of the life if shorter */
#define RETRY_FIRST_NS (500 * NS_PER_MS)
#define RETRY_MOST_NS  (60 * NS_PER_S)
#define LIFE_LEAST_NS  NS_PER_S
/* The first search: begin no further try after this, so that one of 3 s still ends within 5 s. */
#define OPEN_TRIES_NS (1500 * NS_PER_MS)

enum stage { STAGE_SEARCHING, STAGE_OPEN, STAGE_FAILED };

struct creds {
	/* fixed after creds_open() */
	bool renews; /* false: creds_fixed() */
	char source[256];
	/* refresh thread */
	struct creds_ask ask;
	const struct creds_source *from;
	unsigned streak;        /* fetches in a row that brought nothing new */
	uint64_t due_ns;        /* 0: never */
	uint64_t not_before_ns; /* whatever the store says */
	bool woken;
	/* posted by any thread, run by the refresh thread */
	struct loop_call wake;
	/* any thread, under lock */
	pthread_mutex_t lock;
	pthread_cond_t stage_changed;
	enum stage stage;
	bool wake_posted;
	struct sign_keys keys;
	uint64_t generation;
	uint64_t until_ns; /* 0: for ever */
	bool refused;      /* the store has called this generation expired */
	struct fault last; /* of the refresh since then */
};

/* ---- when ---- */

/* Between half of `ns` and all of it, so that a fleet started together does not ask together. */
static uint64_t jittered(uint64_t ns)
{
	uint32_t dice = 0;

	if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) != (ssize_t)sizeof(dice))
		dice = 0; /* early boot: no jitter then */
	return ns / 2 + ns / 2 / UINT32_MAX * dice;
}

static uint64_t retry_ns(unsigned streak)
{
	uint64_t ns = RETRY_FIRST_NS;

	if (streak == 0)
		return 0;
	while (--streak > 0 && ns < RETRY_MOST_NS)
		ns *= 2;
	return jittered(ns < RETRY_MOST_NS ? ns : RETRY_MOST_NS);
}

static uint64_t renew_after_ns(uint64_t life_ns)
{
	uint64_t lead_ns = life_ns / 4 < LEAD_MOST_NS ? life_ns / 4 : LEAD_MOST_NS;
	uint64_t after_ns = life_ns - lead_ns - (lead_ns / 4 - jittered(lead_ns / 4));

	return after_ns > LIFE_LEAST_NS ? after_ns : LIFE_LEAST_NS;
}

/* ---- the refresh thread ---- */

static bool same_keys(const struct sign_keys *a, const struct sign_keys *b)
{
	return strcmp(a->access, b->access) == 0 && strcmp(a->secret, b->secret) == 0 &&
	       strcmp(a->token, b->token) == 0;
}

/* Take a fetched set.  Keys that the source merely repeats are no news, but the store may ask
 * again (I2), and if it refuses them again we ask less and less often. */
static void adopt(struct creds *c, const struct creds_set *set, uint64_t asked_ns)
{
	bool news;

	pthread_mutex_lock(&c->lock);
	news = c->generation == 0 || !same_keys(&c->keys, &set->keys);
	c->streak = news ? 0 : c->streak + c->refused;
	if (news || c->refused)
		c->generation++;
	sign_keys_copy(&c->keys, &set->keys);
	c->until_ns = set->expires ? asked_ns + set->life_ns : 0;
	c->refused = false;
	c->last = FAULT_NONE;
	pthread_mutex_unlock(&c->lock);
	c->not_before_ns = asked_ns + retry_ns(c->streak);
	c->due_ns = set->expires ? asked_ns + renew_after_ns(set->life_ns) : 0;
}

static void note_failure(struct creds *c, const struct fault *f)
{
	c->streak++;
	c->due_ns = clock_mono(c->ask.clock) + retry_ns(c->streak);
	c->not_before_ns = c->due_ns;
	if ((c->streak & (c->streak - 1)) == 0) /* 1, 2, 4, 8 ... */
		log_warn("AWS keys not renewed, try %u: %s", c->streak, f->text);
	pthread_mutex_lock(&c->lock);
	c->last = *f;
	pthread_mutex_unlock(&c->lock);
}

static void refresh(struct creds *c)
{
	scoped(creds_set_fini) struct creds_set set = {.expires = false};
	struct fault f = FAULT_NONE;
	uint64_t asked_ns = clock_mono(c->ask.clock);
	unsigned failures = c->streak;

	if (c->from->fetch(&c->ask, c->ask.conf->profile, &set, &f) < 0) {
		if (!c->ask.thread.stopping)
			note_failure(c, &f);
		return;
	}
	adopt(c, &set, asked_ns);
	if (failures > 0 && c->streak == 0)
		log_info("AWS keys renewed from %s", c->source);
}

static void on_alarm(struct loop_timer *t)
{
	struct creds *c = t->arg;

	c->woken = true;
}

/* The store has called the keys expired. */
static void on_wake(struct loop_call *call)
{
	struct creds *c = call->arg;
	uint64_t now_ns = clock_mono(c->ask.clock);

	pthread_mutex_lock(&c->lock);
	c->wake_posted = false;
	if (c->refused)
		c->due_ns = now_ns > c->not_before_ns ? now_ns : c->not_before_ns;
	pthread_mutex_unlock(&c->lock);
	c->woken = true;
}

/* False when the provider is being closed. */
static bool wait_until_due(struct creds *c)
{
	struct loop_timer alarm = {.fire = on_alarm, .arg = c};
	bool open = !c->ask.thread.stopping;

	while (open && (c->due_ns == 0 || clock_mono(c->ask.clock) < c->due_ns)) {
		c->woken = false;
		if (c->due_ns > 0)
			loop_timer_start(c->ask.thread.loop, &alarm, c->due_ns);
		open = ask_wait(&c->ask.thread, &c->woken);
		loop_timer_stop(c->ask.thread.loop, &alarm);
	}
	return open;
}

static int search(struct creds *c, struct fault *f)
{
	scoped(creds_set_fini) struct creds_set set = {.expires = false};
	uint64_t began_ns = clock_mono(c->ask.clock);
	uint64_t asked_ns;
	int rc;

	for (unsigned try = 1;; try++) {
		asked_ns = clock_mono(c->ask.clock);
		rc = creds_find(&c->ask, &c->from, &set, f);
		if (rc == 0)
			break;
		if (f->retry == FAULT_FINAL ||
		    asked_ns + retry_ns(try) > began_ns + OPEN_TRIES_NS ||
		    !ask_pause(&c->ask.thread, retry_ns(try)))
			return rc;
	}
	adopt(c, &set, asked_ns);
	return 0;
}

static void report(struct creds *c, int rc, const struct fault *f)
{
	pthread_mutex_lock(&c->lock);
	memcpy(c->source, c->ask.source, sizeof(c->source));
	if (rc < 0)
		c->last = *f;
	c->stage = rc < 0 ? STAGE_FAILED : STAGE_OPEN;
	pthread_cond_broadcast(&c->stage_changed);
	pthread_mutex_unlock(&c->lock);
}

static void refresh_run(struct ask *a)
{
	struct creds *c = a->arg;
	struct fault f = FAULT_NONE;
	int rc = signer_new(&c->ask.signer, &f);

	if (rc == 0)
		rc = search(c, &f);
	report(c, rc, &f);
	while (rc == 0 && wait_until_due(c))
		refresh(c);
	signer_free(c->ask.signer);
}

static void refresh_failed(struct ask *a, const struct fault *f)
{
	report(a->arg, f->code, f);
}

/* ---- the provider ---- */

static struct creds *creds_new(const struct aws_conf *conf)
{
	struct creds *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ask.conf = conf;
	c->ask.clock = &clock_system;
	c->ask.thread = (struct ask){.run = refresh_run,
				     .failed = refresh_failed,
				     .arg = c,
				     .ca_bundle = conf ? conf->ca_bundle : NULL};
	c->wake = (struct loop_call){.fn = on_wake, .arg = c};
	pthread_mutex_init(&c->lock, NULL); /* neither fails on Linux */
	pthread_cond_init(&c->stage_changed, NULL);
	return c;
}

static void creds_delete(struct creds *c)
{
	pthread_cond_destroy(&c->stage_changed);
	pthread_mutex_destroy(&c->lock);
	sign_keys_fini(&c->keys);
	free(c);
}

static enum stage await_search(struct creds *c, struct fault *f)
{
	enum stage stage;

	pthread_mutex_lock(&c->lock);
	while (c->stage == STAGE_SEARCHING)
		pthread_cond_wait(&c->stage_changed, &c->lock);
	stage = c->stage;
	if (stage == STAGE_FAILED && f)
		*f = c->last;
	pthread_mutex_unlock(&c->lock);
	return stage;
}

int creds_open(const struct aws_conf *conf, struct creds **out, struct fault *f)
{
	struct fault why = FAULT_NONE;
	struct creds *c = creds_new(conf);
	int rc;

	if (!c)
		return fault_set(f, -ENOMEM, FAULT_SOON, "AWS keys: out of memory");
	rc = ask_start(&c->ask.thread, "hf-creds");
	if (rc < 0) {
		creds_delete(c);
		return fault_errno(f, rc, "AWS keys: thread");
	}
	if (await_search(c, &why) == STAGE_FAILED) {
		ask_end(&c->ask.thread);
		creds_delete(c);
		if (f)
			*f = why;
		return why.code;
	}
	c->renews = true;
	*out = c;
	return 0;
}

int creds_fixed(const struct sign_keys *keys, struct creds **out, struct fault *f)
{
	struct creds *c = creds_new(NULL);

	if (!c)
		return fault_set(f, -ENOMEM, FAULT_SOON, "AWS keys: out of memory");
	sign_keys_copy(&c->keys, keys);
	c->generation = 1;
	memcpy(c->source, "fixed", sizeof("fixed"));
	*out = c;
	return 0;
}

void creds_free(struct creds *c)
{
	if (!c)
		return;
	if (c->renews)
		ask_end(&c->ask.thread);
	creds_delete(c);
}

static int not_now(const struct creds *c, struct fault *f)
{
	return fault_set(f, -EAGAIN, FAULT_SOON, "AWS keys from %s have expired and %s%s",
			 c->source, c->last.code ? "are not renewed: " : "are being renewed",
			 c->last.text);
}

int creds_get(struct creds *c, struct sign_keys *out, uint64_t *generation, struct fault *f)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (c->refused || (c->until_ns > 0 && clock_mono(&clock_system) >= c->until_ns)) {
		rc = not_now(c, f);
	} else {
		sign_keys_copy(out, &c->keys);
		if (generation)
			*generation = c->generation;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void creds_expired(struct creds *c, uint64_t generation)
{
	bool post;

	if (!c->renews)
		return;
	pthread_mutex_lock(&c->lock);
	post = generation == c->generation && !c->refused && !c->wake_posted;
	if (generation == c->generation)
		c->refused = true;
	c->wake_posted |= post;
	pthread_mutex_unlock(&c->lock);
	if (post)
		loop_post(c->ask.thread.loop, &c->wake);
}

const char *creds_source(const struct creds *c)
{
	return c->source;
}
