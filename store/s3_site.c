/* SPDX-License-Identifier: Apache-2.0 */
/* An S3 store's shared part. */
#include "store/s3_site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/s3_target.h"

#define REGION_DEFAULT "us-east-1" /* S3 there tells where a bucket is */

void s3_site_region(struct s3_site *s, char out[S3_REGION_MAX])
{
	pthread_mutex_lock(&s->region_lock);
	memcpy(out, s->region, S3_REGION_MAX);
	pthread_mutex_unlock(&s->region_lock);
}

/* It becomes part of a host name: nothing else may come in. */
static bool region_is_valid(const char *region)
{
	size_t len = strlen(region);

	return len > 0 && len < S3_REGION_MAX &&
	       strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

int s3_site_learn_region(struct s3_site *s, const char *region)
{
	if (!region_is_valid(region))
		return -EINVAL;
	pthread_mutex_lock(&s->region_lock);
	(void)snprintf(s->region, S3_REGION_MAX, "%s", region); /* fits: it is valid */
	pthread_mutex_unlock(&s->region_lock);
	return 0;
}

static int64_t local_now_s(void)
{
	return clock_wall(&clock_system) / (int64_t)NS_PER_S;
}

int64_t s3_site_now_s(const struct s3_site *s)
{
	return local_now_s() + s->skew_s;
}

void s3_site_learn_time(struct s3_site *s, int64_t now_s)
{
	s->skew_s = now_s - local_now_s();
}

static int configure(struct s3_site *s, struct fault *f)
{
	const char *region;
	int rc = aws_conf_load(NULL, &s->conf, f);

	if (rc < 0)
		return rc;
	s->endpoint = aws_conf_endpoint(s->conf, "s3");
	rc = s->endpoint ? s3_endpoint_check(s->endpoint, f) : 0;
	if (rc < 0)
		return rc;
	region = s->conf->region ? s->conf->region : REGION_DEFAULT;
	if (s3_site_learn_region(s, region) < 0)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "'%.60s' is not a region: check AWS_REGION", region);
	return creds_open(s->conf, &s->creds, f);
}

int s3_site_new(const struct store_uri *uri, struct s3_site **out, struct fault *f)
{
	scoped(s3_site_free) struct s3_site *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	pthread_mutex_init(&s->region_lock, NULL);
	s->uri = uri;
	rc = configure(s, f);
	if (rc < 0)
		return fault_in(f, "%.100s", uri->text);
	*out = take(&s);
	return 0;
}

void s3_site_free(struct s3_site *s)
{
	if (!s)
		return;
	creds_free(s->creds);
	aws_conf_free(s->conf);
	pthread_mutex_destroy(&s->region_lock);
	free(s);
}
