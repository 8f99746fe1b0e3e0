/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sources of notices, one file each, and what they share.  Private to notice/. Thread: the
 * watching thread's alone.  A source asks once and says what it heard; notice.c waits between its
 * polls, longer after failures, and logs.  Fault texts never quote a reply's body.
 */
#ifndef HOLDFAST_BASE_NOTICE_SOURCE_H
#define HOLDFAST_BASE_NOTICE_SOURCE_H

#include <jansson.h>

#include "base/ask.h"
#include "base/notice/notice.h"

enum { NOTICE_ENDPOINT_MOST = 256 };

/* What a source asks with and whom it tells. */
struct ear {
	struct ask *ask;
	char endpoint[NOTICE_ENDPOINT_MOST]; /* "http://169.254.169.254"; no '/' at its end */
	void (*hear)(struct ear *e, const struct notice_word *w);
};

enum ear_located {
	EAR_OFF,   /* the environment forbids to ask */
	EAR_USUAL, /* where it always is */
	EAR_SAID,  /* where the environment says, which is as good as a choice of this source */
};

struct notice_ops {
	const char *name; /* as `-o notice=` has it */
	/* The source's own, for the calls below; NULL: no memory. */
	void *(*open)(struct ear *e);
	/*
	 * Ask once, and say what was heard; what could not be heard is not said, so that a failure
	 * withdraws nothing.  Every wait in it is bounded. Fails: the text is for people, once a
	 * streak.
	 */
	int (*poll)(void *s, struct fault *f);
	void (*close)(void *s);
	/* ---- finding out where we are ---- */
	/* Where it answers, into e->endpoint. */
	enum ear_located (*locate)(struct ear *e);
	/* Is it there, and is it itself?  At most 1 s. */
	bool (*probe)(struct ear *e);
};

extern const struct notice_ops notice_ec2;
extern const struct notice_ops notice_gcp;
extern const struct notice_ops notice_azure;

/* ---- where.c ---- */

/* By what the firmware says; `dmi` is a directory as /sys/class/dmi/id. */
enum notice_where where_by_firmware(const char *dmi);

/* ---- file.c ---- */

struct file_watch {
	const char *path;
	uint64_t usual_ns; /* from its last change to the end, where it holds no number */
	/* file.c's own */
	struct notice_word says;
	uint64_t ino;
	int64_t changed_ns;
};
/* What the file says now. */
const struct notice_word *file_look(struct file_watch *w);

/* ---- source.c ---- */

/* Seconds since 1970 when the reply was made, by the service's clock if it says, else by ours. */
int64_t ear_reply_s(const struct http_req *r);
/* Say it; a deadline is given as seconds since 1970 by the clock of the reply r, asked at
 * asked_ns. */
void ear_say(struct ear *e, enum notice_voice voice, enum notice_kind kind);
void ear_say_until(struct ear *e, enum notice_voice voice, enum notice_kind kind,
		   const struct http_req *r, uint64_t asked_ns, int64_t end_s, int64_t most_s);

struct ear_get {
	const char *method; /* NULL: GET */
	const char *path;   /* with its query */
	const char *header; /* may be NULL */
	uint64_t ms;        /* all of it may take so long; 0: 1 s */
	size_t most;        /* bytes of the body; 0: 16 KiB */
};
void ear_req_fini(struct http_req *r);
SCOPE_VAL(struct http_req, ear_req_fini)
/* 0: a whole reply, of any status.  Fails: as http.h says, with method, path and why. */
int ear_get(struct ear *e, const struct ear_get *g, struct http_req *r, struct fault *f);
/* The fault for a reply that is of no use; `why` NULL: its status. */
int ear_refuse(const struct ear_get *g, const struct http_req *r, const char *why, struct fault *f);
/* The body, if it is a JSON object; NULL if not.  The caller's. */
json_t *ear_json(struct http_req *r);

/* A variable of the environment as the endpoint: with "http://" in front where it lacks a
 * scheme. */
enum ear_located ear_locate(struct ear *e, const char *variable, const char *usual);

#endif
