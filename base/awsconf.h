/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment, ~/.aws/config and ~/.aws/credentials say, read once as the AWS tools read
 * them.  Immutable after aws_conf_load(), so any thread may look.
 */
#ifndef HOLDFAST_BASE_AWSCONF_H
#define HOLDFAST_BASE_AWSCONF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/scope.h"

struct ini;

/* Strings are NULL where nothing is configured, unless a default is named. */
struct aws_conf {
	char *profile;         /* "default" unless named */
	bool profile_explicit; /* named to aws_conf_load(): environment keys do not count then */
	char *region;          /* AWS_REGION, AWS_DEFAULT_REGION, profile */
	char *ca_bundle;       /* AWS_CA_BUNDLE, profile ca_bundle */
	char *imds_endpoint;   /* without '/' at its end; default http://169.254.169.254 */
	bool imds_disabled;    /* AWS_EC2_METADATA_DISABLED */
	bool endpoints_ignored; /* AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, profile */
	char *config_path;      /* for messages */
	char *credentials_path;
	/* awsconf.c's */
	struct ini *config;
	struct ini *credentials;
};

/*
 * profile: NULL for AWS_PROFILE, AWS_DEFAULT_PROFILE, "default".
 * Files that do not exist are empty.
 * Fails:  -ENOENT the named profile is in neither file; -EINVAL a file does not parse (the text
 *         says "FILE:LINE: why"); -EACCES and others from open; -ENOMEM.  Fault: FINAL.
 */
int aws_conf_load(const char *profile, struct aws_conf **out, struct fault *f);
void aws_conf_free(struct aws_conf *c);
SCOPE_PTR(struct aws_conf, aws_conf_free)

/*
 * The endpoint configured for a service ("s3", "sts", "ec2", "cloudwatch"): AWS_ENDPOINT_URL_S3,
 * AWS_ENDPOINT_URL, the profile's `services` section, the profile's endpoint_url.  NULL: none, use
 * AWS's own.  May end in '/'.  Valid as long as c and the environment.
 */
const char *aws_conf_endpoint(const struct aws_conf *c, const char *service);

/* As above, with AWS's own regional endpoint where none is configured.  Appends a URL without
 * '/' at its end: "https://sts.eu-west-1.amazonaws.com". */
void aws_conf_url(const struct aws_conf *c, const char *service, const char *region,
		  struct buf *out);

/* "amazonaws.com", "amazonaws.com.cn", ...: the domain that serves a region. */
const char *aws_dns_suffix(const char *region);

/* A key of a profile, the credentials file first (as the AWS tools); NULL if absent. */
const char *aws_conf_get(const struct aws_conf *c, const char *profile, const char *key);
bool aws_conf_has_profile(const struct aws_conf *c, const char *profile);

#endif
