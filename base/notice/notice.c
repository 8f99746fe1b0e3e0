/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher: one thread, in which one source is polled and one file is looked at by a timer.
 *
 * I1: what a voice says goes through deadline_hear() and nowhere else. I2: changed() is called when
 * what notice_look() gives differs from what it gave, and not once a poll.
 */
#include "base/notice/notice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/notice/source.h"

#define EVERY_NS      NS_PER_S
#define NEWS_NS       (3 * NS_PER_S) /* a deadline that moves by less is none: clocks jitter */
#define FILE_USUAL_NS (30 * NS_PER_S)

enum {
	LOOKS = 6,       /* rounds for a cloud that is not ready yet, over about a minute */
	SLOWER_MOST = 8, /* polls are so many times rarer while they fail */
	TOLD_AFTER = 3,  /* failures in a row: a stray one is nothing to read about */
};

static const struct place {
	const char *name;
	enum notice_where where;
	const struct notice_ops *ops;
} places[] = {
	{"none",  NOTICE_NOWHERE,  NULL         },
	{"auto",  NOTICE_AUTO,     NULL         },
	{"ec2",   NOTICE_AT_EC2,   &notice_ec2  },
	{"gcp",   NOTICE_AT_GCP,   &notice_gcp  },
	{"azure", NOTICE_AT_AZURE, &notice_azure},
};

enum { PLACES = sizeof(places) / sizeof(places[0]) };

struct notice {
	/* fixed after notice_open() */
	struct notice_conf conf;
	char *file, *dmi;
	bool watches; /* there is a thread */
	struct ask ask;
	/* watching thread */
	struct ear ear;
	struct loop_timer file_timer;
	struct file_watch file_watch;
	unsigned failures; /* in a row */
	/* any thread, under lock */
	pthread_mutex_t lock;
	struct deadline deadline;
	struct notice_view told; /* the last that changed() was called for */
	const char *source;      /* what is watched, or why nothing */
	uint64_t failing_since_ns;
	struct fault last;
};

static uint64_t now_ns(void)
{
	return clock_mono(&clock_system);
}

bool notice_where_of(const char *name, enum notice_where *out)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (strcmp(name, places[i].name) != 0)
			continue;
		*out = places[i].where;
		return true;
	}
	return false;
}

/* ---- hearing ---- */

static bool is_news(const struct notice_view *a, const struct notice_view *b)
{
	uint64_t low = a->flush_by_ns < b->flush_by_ns ? a->flush_by_ns : b->flush_by_ns;
	uint64_t high = a->flush_by_ns < b->flush_by_ns ? b->flush_by_ns : a->flush_by_ns;

	if (a->phase == NOTICE_RUNS && b->phase == NOTICE_RUNS) /* hints are none then */
		return a->number != b->number || a->kind != b->kind || a->at_once != b->at_once ||
		       high - low >= NEWS_NS;
	return a->phase != b->phase || a->hints != b->hints;
}

static void log_news(const struct notice_view *was, const struct notice_view *is, uint64_t now)
{
	uint64_t left_ns = is->deadline_ns > now ? is->deadline_ns - now : 0;

	if (is->phase == NOTICE_RUNS)
		log_warn("notice: %s: %s, in %llu s", notice_voice_name(is->voice),
			 notice_kind_name(is->kind), (unsigned long long)(left_ns / NS_PER_S));
	else if (was->phase == NOTICE_RUNS)
		log_info("notice: over, and we are still here");
	else if (is->phase == NOTICE_HINT)
		log_warn("notice: %s: the risk of an interruption is higher",
			 notice_voice_name(NOTICE_EC2_REBALANCE));
}

static void hear(struct notice *n, const struct notice_word *w)
{
	struct notice_view was, is;
	uint64_t now;
	bool news;

	pthread_mutex_lock(&n->lock);
	now = now_ns(); /* under the lock: it never goes back from word to word */
	deadline_hear(&n->deadline, w, now);
	deadline_view(&n->deadline, now, &is);
	was = n->told;
	news = is_news(&was, &is);
	if (news)
		n->told = is;
	pthread_mutex_unlock(&n->lock);
	if (!news)
		return;
	log_news(&was, &is, now);
	if (n->conf.changed)
		n->conf.changed(n->conf.arg);
}

static void on_word(struct ear *e, const struct notice_word *w)
{
	hear(e->ask->arg, w);
}

void notice_tell(struct notice *n, uint64_t left_ns)
{
	hear(n, &(struct notice_word){.voice = NOTICE_TOLD,
				      .kind = NOTICE_TERMINATE,
				      .deadline_ns = left_ns ? now_ns() + left_ns : 0});
}

void notice_cancel(struct notice *n)
{
	hear(n, &(struct notice_word){.voice = NOTICE_TOLD, .kind = NOTICE_NOTHING});
}

void notice_look(struct notice *n, struct notice_view *out)
{
	pthread_mutex_lock(&n->lock);
	deadline_view(&n->deadline, now_ns(), out);
	pthread_mutex_unlock(&n->lock);
}

/* ---- the file ---- */

static void on_file_timer(struct loop_timer *t)
{
	struct notice *n = t->arg;

	hear(n, file_look(&n->file_watch));
	loop_timer_start(n->ask.loop, t, now_ns() + n->conf.every_ns);
}

/* ---- where we are ---- */

static void set_source(struct notice *n, const char *source)
{
	pthread_mutex_lock(&n->lock);
	n->source = source;
	pthread_mutex_unlock(&n->lock);
}

static const struct notice_ops *ops_at(enum notice_where where)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (places[i].where == where)
			return places[i].ops;
	}
	return NULL;
}

/* The environment names an endpoint: somebody wants that one. */
static const struct notice_ops *said(struct notice *n)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (places[i].ops && places[i].ops->locate(&n->ear) == EAR_SAID)
			return places[i].ops;
	}
	return NULL;
}

static const struct notice_ops *probed(struct notice *n)
{
	for (size_t i = 0; i < PLACES; i++) {
		const struct notice_ops *o = places[i].ops;

		if (o && !n->ask.stopping && o->locate(&n->ear) != EAR_OFF && o->probe(&n->ear))
			return o;
	}
	return NULL;
}

/* What the firmware does not say is asked for, a few times: the network may come up after us. */
static const struct notice_ops *find(struct notice *n)
{
	const struct notice_ops *o = said(n);
	enum notice_where where;

	if (o)
		return o;
	where = where_by_firmware(n->conf.dmi);
	if (where != NOTICE_AUTO)
		return ops_at(where);
	for (unsigned i = 0; i < LOOKS && !o; i++) {
		o = probed(n);
		if (!o && !ask_pause(&n->ask, NS_PER_S << i))
			return NULL;
	}
	return o;
}

/* ---- polling ---- */

static void note_failure(struct notice *n, const char *name, const struct fault *f)
{
	if (++n->failures == TOLD_AFTER)
		log_warn("notices of %s at %s are not heard: %s", name, n->ear.endpoint, f->text);
	pthread_mutex_lock(&n->lock);
	if (!n->failing_since_ns)
		n->failing_since_ns = now_ns();
	n->last = *f;
	pthread_mutex_unlock(&n->lock);
}

static void note_success(struct notice *n, const char *name)
{
	if (n->failures >= TOLD_AFTER)
		log_info("notices of %s are heard again", name);
	n->failures = 0;
	pthread_mutex_lock(&n->lock);
	n->failing_since_ns = 0;
	pthread_mutex_unlock(&n->lock);
}

/* A second from poll to poll; one that took longer is followed by a breath, one that failed by
 * more. */
static uint64_t pause_ns(const struct notice *n, uint64_t took_ns)
{
	uint64_t every_ns = n->conf.every_ns;

	for (unsigned i = 1; i < n->failures && every_ns < n->conf.every_ns * SLOWER_MOST; i++)
		every_ns *= 2;
	return took_ns < every_ns * 3 / 4 ? every_ns - took_ns : every_ns / 4;
}

static void listen_to(struct notice *n, const struct notice_ops *o, void *s)
{
	uint64_t began_ns;

	do {
		struct fault f = FAULT_NONE;

		began_ns = now_ns();
		if (o->poll(s, &f) == 0)
			note_success(n, o->name);
		else if (!n->ask.stopping)
			note_failure(n, o->name, &f);
	} while (ask_pause(&n->ask, pause_ns(n, now_ns() - began_ns)));
}

static void watch_place(struct notice *n)
{
	const struct notice_ops *o = ops_at(n->conf.where);
	void *s;

	if (n->conf.where == NOTICE_AUTO)
		o = find(n);
	if (!o) {
		set_source(n, n->conf.where == NOTICE_AUTO ? "auto: no cloud is here" : "none");
		return;
	}
	if (o->locate(&n->ear) == EAR_OFF) {
		set_source(n, "none: the environment forbids to ask");
		return;
	}
	set_source(n, o->name);
	s = o->open(&n->ear);
	if (!s) {
		set_source(n, "none: out of memory");
		return;
	}
	listen_to(n, o, s);
	o->close(s);
}

static void watch(struct ask *a)
{
	struct notice *n = a->arg;
	bool never = false;

	if (n->file)
		on_file_timer(&n->file_timer);
	watch_place(n);
	(void)ask_wait(a, &never); /* for the file, or for the end */
	loop_timer_stop(a->loop, &n->file_timer);
}

static void cannot_watch(struct ask *a, const struct fault *f)
{
	struct notice *n = a->arg;

	log_error("notices are not watched: %s", f->text);
	set_source(n, "none: the watcher did not start");
}

/* ---- opening and closing ---- */

static void forget(struct notice *n)
{
	pthread_mutex_destroy(&n->lock);
	free(n->file);
	free(n->dmi);
	free(n);
}

static bool copy_conf(struct notice *n, const struct notice_conf *conf)
{
	n->conf = *conf;
	n->conf.every_ns = conf->every_ns ? conf->every_ns : EVERY_NS;
	n->dmi = strdup(conf->dmi ? conf->dmi : "/sys/class/dmi/id");
	n->conf.dmi = n->dmi;
	if (conf->file)
		n->file = strdup(conf->file);
	return n->dmi && (n->file || !conf->file);
}

static struct notice *notice_new(const struct notice_conf *conf)
{
	struct notice *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	pthread_mutex_init(&n->lock, NULL); /* does not fail on Linux */
	if (!copy_conf(n, conf)) {
		forget(n);
		return NULL;
	}
	n->watches = conf->where != NOTICE_NOWHERE || conf->file;
	n->source = conf->where == NOTICE_NOWHERE ? "none" : "auto: looking";
	n->deadline.margin_most_ns = conf->margin_most_ns;
	n->deadline.promised_ns = conf->promised_ns;
	n->file_watch.path = n->file;
	n->file_watch.usual_ns = conf->promised_ns ? conf->promised_ns : FILE_USUAL_NS;
	n->file_timer = (struct loop_timer){.fire = on_file_timer, .arg = n};
	n->ear = (struct ear){.ask = &n->ask, .hear = on_word};
	n->ask = (struct ask){.run = watch, .failed = cannot_watch, .arg = n};
	return n;
}

int notice_open(const struct notice_conf *conf, struct notice **out, struct fault *f)
{
	struct notice *n = notice_new(conf);
	int rc;

	if (!n)
		return fault_set(f, -ENOMEM, FAULT_SOON, "notices: out of memory");
	rc = n->watches ? ask_start(&n->ask, "hf-notice") : 0;
	if (rc < 0) {
		forget(n);
		return fault_errno(f, rc, "notices: thread");
	}
	*out = n;
	return 0;
}

void notice_close(struct notice *n)
{
	if (!n)
		return;
	if (n->watches)
		ask_end(&n->ask);
	forget(n);
}

const char *notice_words(struct notice *n, char out[NOTICE_WORDS_MAX])
{
	unsigned long long failing_s;

	pthread_mutex_lock(&n->lock);
	failing_s = (now_ns() - n->failing_since_ns) / NS_PER_S;
	if (n->failing_since_ns)
		(void)snprintf(out, NOTICE_WORDS_MAX, "%s: %s, for %llu s now", n->source,
			       n->last.text, failing_s); /* may be cut */
	else
		(void)snprintf(out, NOTICE_WORDS_MAX, "%s", n->source);
	pthread_mutex_unlock(&n->lock);
	return out;
}
