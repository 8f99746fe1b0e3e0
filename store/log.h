/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: numbered create-only records with opaque bodies, log/<20 digits>, names counting down
 * from 10^20-1 so that a LIST of one key finds the newest.  Commits are one user, job events
 * another.
 * I1: a number is used once.
 * I2: the newest is found by LIST, never by a hint (tests/model/no-tip.pml).
 * Thread: the owner of the objects' loop.
 */
#ifndef HOLDFAST_STORE_LOG_H
#define HOLDFAST_STORE_LOG_H

#include "store/objects.h"

#define LOG_KEY_MAX 128 /* dir: at most 100 bytes */
/* `dir` is "log", or a job's "jobs/NAME/events". */
void log_key(const char *dir, uint64_t number, char out[LOG_KEY_MAX]);
/* 0 if the key is no record's name. */
uint64_t log_number(const char *dir, const char *key);

/* *out = 0: the log is empty. */
int log_newest(struct objects *o, const char *dir, uint64_t deadline_ns, uint64_t *out,
	       struct fault *f);
int log_read(struct objects *o, const char *dir, uint64_t number, uint64_t deadline_ns,
	     struct buf *out, struct fault *f);
/* Records first..last (at most 4 096) in parallel; each(arg, number, data) in order of number. */
int log_read_range(struct objects *o, const char *dir, uint64_t first, uint64_t last,
		   uint64_t deadline_ns,
		   int (*each)(void *arg, uint64_t number, const struct buf *data, struct fault *f),
		   void *arg, struct fault *f);
/*
 * One PUT of `number` with If-None-Match: *.  On 412 the record is read: if it is byte for byte
 * ours, an earlier try of ours had worked and this is success.  Else -EEXIST (RELOAD), *theirs (may
 * be NULL) holds it.
 */
int log_append(struct objects *o, const char *dir, uint64_t number, const void *data, size_t len,
	       uint64_t deadline_ns, struct buf *theirs, struct fault *f);

#endif
