/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials as the AWS tools find them, kept fresh.  One struct creds a process, shared by all
 * threads; a thread of its own (a loop and an HTTP client) renews temporary keys before they
 * expire, one request at a time.  No secret ever reaches a log line or a fault.
 *
 * Order: environment; the profile's role, web identity, static keys, credential_process;
 * container endpoint; instance role.  The first that is configured decides: it is not passed over
 * when it fails.
 */
#ifndef HOLDFAST_BASE_CREDS_H
#define HOLDFAST_BASE_CREDS_H

#include <stdint.h>

#include "base/awsconf.h"
#include "base/fault.h"
#include "base/scope.h"
#include "base/sign.h"

struct creds;

/*
 * Find the source and fetch the first keys.  Blocks: under 5 s where only the instance role is
 * left to try, up to a minute for a credential_process.  Starts a thread, so a daemon forks first.
 * conf must outlive it.
 * Fails:  -ENOKEY no source is configured (the text says what was looked at); -EACCES a source
 *         refuses; -EINVAL a source is configured wrongly, a cycle of profiles included;
 *         -ETIMEDOUT, -ECONNREFUSED and others of the network (SOON).
 */
int creds_open(const struct aws_conf *conf, struct creds **out, struct fault *f);
/* Keys that never change: tests, the local cloud. */
int creds_fixed(const struct sign_keys *keys, struct creds **out, struct fault *f);
void creds_free(struct creds *c); /* ends a fetch that is under way; wipes */
SCOPE_PTR(struct creds, creds_free)

/*
 * Copy the current keys.  Thread: any.  Never blocks on the network.
 * *generation counts up with each new set: pass it to creds_expired().  May be NULL.
 * Fails:  -EAGAIN (SOON) the keys have expired and new ones are being fetched; the text names the
 *         source and its last failure.
 */
int creds_get(struct creds *c, struct sign_keys *out, uint64_t *generation, struct fault *f);

/* The store answered that this set has expired: renew at once.  Without effect for an older
 * generation or while a fetch is under way.  Thread: any. */
void creds_expired(struct creds *c, uint64_t generation);

/* "environment", "profile research (role arn:...)", "instance role trainer": for status. */
const char *creds_source(const struct creds *c);

#endif
