/* SPDX-License-Identifier: Apache-2.0 */
/* What all threads share of an S3 store: configuration, credentials, and what answers taught. */
#ifndef HOLDFAST_STORE_S3_SITE_H
#define HOLDFAST_STORE_S3_SITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/awsconf.h"
#include "base/creds.h"
#include "store/uri.h"

#define S3_REGION_MAX 32

struct s3_site {
	/* fixed after s3_site_new() */
	const struct store_uri *uri;
	struct aws_conf *conf;
	struct creds *creds;
	const char *endpoint; /* NULL: AWS */
	/* any thread */
	_Atomic int64_t skew_s; /* the store's clock less ours */
	pthread_mutex_t region_lock;
	char region[S3_REGION_MAX]; /* under region_lock */
};

/* uri outlives it.  Fails as aws_conf_load() and creds_open() do; -EINVAL region or endpoint. */
int s3_site_new(const struct store_uri *uri, struct s3_site **out, struct fault *f);
void s3_site_free(struct s3_site *s);
SCOPE_PTR(struct s3_site, s3_site_free)

void s3_site_region(struct s3_site *s, char out[S3_REGION_MAX]);
/* -EINVAL: no name of a region. */
int s3_site_learn_region(struct s3_site *s, const char *region);

/* Seconds since 1970 by the store's clock, as far as it is known. */
int64_t s3_site_now_s(const struct s3_site *s);
void s3_site_learn_time(struct s3_site *s, int64_t now_s);

#endif
