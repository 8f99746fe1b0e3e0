/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of a notice, in one record: when it was heard, what became durable and how long before the deadline,
 * what was left.  Status shows that of the newest one; it is put into the store, once, as
 * notices/FENCE-TIME.json (holdfast-store(5)), when the time for the flush is up, or the notice or the mount is
 * over before.  Nothing reads it back: it is for whoever asks afterwards what happened.  Pure but for its clock.
 */
#ifndef HOLDFAST_FS_NOTICE_REPORT_H
#define HOLDFAST_FS_NOTICE_REPORT_H

#include <jansson.h>

#include "base/clock.h"
#include "base/notice/notice.h"

#define REPORT_NAME 256

/* Times are monotonic, 0: not. */
struct report {
	uint64_t number; /* 0: there was no notice */
	enum notice_kind kind;
	enum notice_voice voice;
	uint64_t seen_ns, deadline_ns;
	int64_t seen_ms; /* since 1970: a daemon that goes on counts its notices anew, under the same fence */
	const char *trainer;    /* "", "called", "answered" */
	uint64_t good;          /* the newest moment that became good while it ran; 0: none did */
	uint64_t durable_ns;    /* when */
	char name[REPORT_NAME]; /* what it brought */
	uint64_t left_bytes;    /* changed, and not in the store */
};

void report_begin(struct report *r, const struct notice_view *v, const struct clock *clock);
/* The caller's; JSON null if there was none; NULL: no memory. */
json_t *report_json(const struct report *r, const struct clock *clock);
/* A monotonic time as people have it: "2026-11-30T17:25:00Z".  The caller's. */
json_t *report_time(const struct clock *clock, uint64_t at_ns);

#endif
