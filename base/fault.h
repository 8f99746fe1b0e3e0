/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: a code to act on, a sentence to read, a class to retry by.  Thread: any. */
#ifndef HOLDFAST_BASE_FAULT_H
#define HOLDFAST_BASE_FAULT_H

#include <stdarg.h>

enum fault_retry {
	FAULT_FINAL,  /* same question, same answer: 403, bad key, corrupt data */
	FAULT_SOON,   /* transient: reset, timeout, 500 */
	FAULT_PACED,  /* the store asks for less: 429, 503 SlowDown */
	FAULT_RELOAD, /* our view is old: 412; read the log on, then decide */
};

struct fault {
	int code; /* negative errno, 0 for none */
	enum fault_retry retry;
	char text[256]; /* "commit 42 of run-7: PUT log/…42: 412 Precondition Failed" */
};

#define FAULT_NONE ((struct fault){.code = 0})

/* Fill f (may be NULL) and return code, a negative errno.  Never allocates; long texts are cut. */
int fault_set(struct fault *f, int code, enum fault_retry retry, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Put "what: " in front of f's text and return f->code.  Each caller that knows more does so.
 * Without an f the code is lost: -EIO, so that a failure stays one. */
int fault_in(struct fault *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As fault_set() with FAULT_FINAL and ": strerror(code)" behind the text. */
int fault_errno(struct fault *f, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
