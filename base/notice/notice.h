/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices of an interruption: one thread watches the cloud that we run in, and a file; others may
 * tell of one.  What all of it amounts to is deadline.h's to say.
 *
 * Opening delays nobody: where we are is found out by that thread.  It asks once a second or waits
 * in a long poll, every request has a bound in time and in bytes, and redirects and proxies are not
 * followed.  At most 2 s of CPU time an hour.  A source that fails is told of once, and when it is
 * back; nothing that was heard is withdrawn by a failure.
 *
 * Endpoints: AWS_EC2_METADATA_SERVICE_ENDPOINT (or the profile's) and AWS_EC2_METADATA_DISABLED,
 * GCE_METADATA_HOST, HOLDFAST_AZURE_METADATA_HOST.
 *
 * How a mount uses it:
 *   - notice_open() after a daemon's fork, with changed() = committer_kick(); notice_close() first
 *     at the end;
 *   - SIGUSR2 calls notice_tell(n, 0), from the thread that waits for signals; so does the control
 *     socket for `holdfast notice DIR [--seconds N]`, and notice_cancel() for `--cancel`;
 *   - the committer asks notice_look() at each of its ticks, or when changed() was called and at
 *     again_ns: RUNS with a number that it has not seen: signal the trainer (not if at_once), then
 *     plan (fs/notice/plan.h) with flush_by_ns - now as the seconds left; CALM again: as before.
 *     HINT with hints that it has not seen: signal the trainer once, lanes_hurry().
 * An agent does the same from its own loop, passes `deadline_ns - now` on to its mounts, and
 * reports the rest.
 *
 * Thread: any.
 */
#ifndef HOLDFAST_BASE_NOTICE_H
#define HOLDFAST_BASE_NOTICE_H

#include "base/fault.h"
#include "base/notice/deadline.h"
#include "base/scope.h"

struct notice;

enum notice_where {
	NOTICE_NOWHERE, /* no cloud is watched */
	NOTICE_AUTO,
	NOTICE_AT_EC2,
	NOTICE_AT_GCP,
	NOTICE_AT_AZURE,
};

struct notice_conf {
	enum notice_where where;
	const char *file; /* local; that it appears is a notice, until it goes; NULL: none */
	uint64_t margin_most_ns; /* see struct deadline */
	uint64_t promised_ns;
	/* The view that notice_look() gives is another; called without any lock, from the thread
	 * that caused it (the watching one, or a teller's), which it must not block.  May be NULL. */
	void (*changed)(void *arg);
	void *arg;
	/* for tests */
	const char *dmi;   /* NULL: /sys/class/dmi/id */
	uint64_t every_ns; /* from poll to poll; 0: 1 s */
};

/* "none", "auto", "ec2", "gcp", "azure"; false: none of them. */
bool notice_where_of(const char *name, enum notice_where *out);

/* Strings of conf are copied.  Fails: -ENOMEM, or what starting a thread says. */
int notice_open(const struct notice_conf *conf, struct notice **out, struct fault *f);
/* Ends the thread, whatever it waits for; at once. */
void notice_close(struct notice *n);
SCOPE_PTR(struct notice, notice_close)

void notice_look(struct notice *n, struct notice_view *out);
/* Somebody knows: the machine goes in so many ns; 0: he does not say when. */
void notice_tell(struct notice *n, uint64_t left_ns);
/* What was told holds no longer.  What a cloud says is not touched. */
void notice_cancel(struct notice *n);

/*
 * For people and status: "ec2", "auto: looking", "auto: no cloud is here",
 * "ec2: GET /latest/…: status 500, for 12 s now".  Returns out.
 */
enum { NOTICE_WORDS_MAX = 384 };
const char *notice_words(struct notice *n, char out[NOTICE_WORDS_MAX]);

#endif
