/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the notices heard so far amount to.  Pure: the caller brings the clock and the lock.
 *
 * Several voices may speak of one interruption, each again and again, each wrong in its own way:
 * times are approximate (108 s have been seen where 120 are promised), move (a mock says "in two
 * minutes" at every request), lie in the past (EC2 gave up), or are missing.  Hence:
 *   - a notice begins when a voice announces an end while none is running; it has a number, and
 *     whoever signals a trainer does so once a number;
 *   - its first deadline stands; whatever is said later only shortens it;
 *   - no time said: the voice's usual one counts.  A time in the past, and hibernation, promise
 *     nothing: NOTICE_UNPROMISED_NS;
 *   - it is over when no voice announces an end any more (withdrawn, false), or NOTICE_OVERDUE_NS
 *     after its deadline with us alive.  What a voice then merely goes on saying is no news; an end
 *     that is still to come, or that it announces after silence, is a new notice;
 *   - a rebalance recommendation is a hint and no notice: checkpoint, raise the rate, go on.  It
 *     stays where it is (and a mock dates it anew at each request), so only its appearing is news.
 *
 * All times are monotonic nanoseconds, and never go back from call to call.
 */
#ifndef HOLDFAST_BASE_NOTICE_DEADLINE_H
#define HOLDFAST_BASE_NOTICE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define NOTICE_MARGIN_LEAST_NS NS_PER_S
#define NOTICE_MARGIN_MOST_NS  (20 * NS_PER_S)
#define NOTICE_UNPROMISED_NS   (10 * NS_PER_S)
#define NOTICE_OVERDUE_NS      (60 * NS_PER_S)

enum notice_voice {
	NOTICE_EC2_ACTION,    /* spot/instance-action */
	NOTICE_EC2_REBALANCE, /* events/recommendations/rebalance */
	NOTICE_EC2_SCALING,   /* autoscaling/target-lifecycle-state */
	NOTICE_GCP,           /* instance/preempted */
	NOTICE_AZURE,         /* scheduled events */
	NOTICE_FILE,          /* a file that appeared */
	NOTICE_TOLD,          /* SIGUSR2, `holdfast notice`: each word of it is news */
	NOTICE_VOICES
};

enum notice_kind { /* of ends the more urgent is the higher */
	NOTICE_NOTHING,   /* the voice announces nothing, or nothing any more */
	NOTICE_REBALANCE, /* a hint */
	NOTICE_TERMINATE,
	NOTICE_STOP,
	NOTICE_HIBERNATE,
};

/* "EC2 spot/instance-action"; "terminate". */
const char *notice_voice_name(enum notice_voice v);
const char *notice_kind_name(enum notice_kind k);

struct notice_word {
	enum notice_voice voice;
	enum notice_kind kind;
	uint64_t deadline_ns; /* as said; may lie in the past; 0: no time was said */
};

/* Embed it; all zeros but the options is the start. */
struct deadline {
	/* options */
	uint64_t margin_most_ns; /* 0: NOTICE_MARGIN_MOST_NS */
	uint64_t promised_ns;    /* where no time is said; 0: the voice's usual one */
	/* deadline.c's own */
	struct {
		enum notice_kind kind;
		bool spent; /* what it says belongs to a notice that is over */
	} voices[NOTICE_VOICES];
	uint64_t number, hints;
	bool running;
	enum notice_voice voice; /* that set the deadline */
	enum notice_kind kind;
	bool promised;
	uint64_t seen_ns, at_ns, flush_by_ns;
};

void deadline_hear(struct deadline *d, const struct notice_word *w, uint64_t now_ns);

enum notice_phase {
	NOTICE_CALM, /* nothing, or what was is over: train on */
	NOTICE_HINT, /* checkpoint now, flush at a higher rate, go on */
	NOTICE_RUNS, /* the machine is going away: nothing but the flush matters */
};

struct notice_view {
	enum notice_phase phase;
	uint64_t number;      /* of notices that began: signal the trainer once for each */
	uint64_t hints;       /* of hints that were given: checkpoint once for each */
	uint64_t again_ns;    /* when time alone changes this view; 0: never */
	/* RUNS */
	enum notice_voice voice;
	enum notice_kind kind;
	bool at_once;         /* stop, hibernate, no time promised: do not wait for the trainer */
	uint64_t seen_ns;     /* when it began */
	uint64_t deadline_ns; /* when the machine goes, as far as is known */
	uint64_t flush_by_ns; /* ... less clamp(T/3, 1 s, margin_most), T from when it was heard */
};
void deadline_view(const struct deadline *d, uint64_t now_ns, struct notice_view *out);

#endif
