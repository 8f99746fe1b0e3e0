/* SPDX-License-Identifier: Apache-2.0 */
/* Keys written down: in the environment, in a profile. */
#include <errno.h>
#include <stdio.h>

#include "base/creds_source.h"
#include "base/ini.h"

/* ---- environment ---- */

static bool environment_applies(const struct aws_conf *c, const char *profile)
{
	return creds_env("AWS_ACCESS_KEY_ID") != NULL;
}

static int environment_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
			     struct fault *f)
{
	const char *access = creds_env("AWS_ACCESS_KEY_ID");
	const char *secret = creds_env("AWS_SECRET_ACCESS_KEY");
	const char *token = creds_env("AWS_SESSION_TOKEN");
	const char *expiration = creds_env("AWS_CREDENTIAL_EXPIRATION");

	if (!access)
		return fault_set(f, -ENOKEY, FAULT_FINAL, "AWS_ACCESS_KEY_ID is not set");
	if (!secret)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
	if (sign_keys_set(&out->keys, access, secret, token) < 0)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN is "
				 "too long or not printable");
	(void)snprintf(a->source, sizeof(a->source), "environment"); /* fits */
	if (!expiration)
		return 0;
	return creds_set_expiry(out, expiration, clock_wall(a->clock) / (int64_t)NS_PER_S, f);
}

const struct creds_source creds_environment = {
	.name = "environment",
	.applies = environment_applies,
	.fetch = environment_fetch,
	.from_environment = true,
};

/* ---- profile ---- */

static bool credentials_apply(const struct aws_conf *c, const char *profile)
{
	return ini_get(c->credentials, profile, "aws_access_key_id") != NULL;
}

static bool config_applies(const struct aws_conf *c, const char *profile)
{
	return aws_conf_get(c, profile, "aws_access_key_id") != NULL;
}

/* The files are read again, since tools that log people in rewrite them. */
static int profile_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
			 struct fault *f)
{
	scoped(aws_conf_free) struct aws_conf *fresh = NULL;
	const char *access;
	const char *secret;
	int rc = aws_conf_load(profile, &fresh, f);

	if (rc < 0)
		return rc;
	access = aws_conf_get(fresh, profile, "aws_access_key_id");
	secret = aws_conf_get(fresh, profile, "aws_secret_access_key");
	if (!access || !secret)
		return fault_set(f, -EINVAL, FAULT_FINAL, "profile %s: %s is missing", profile,
				 access ? "aws_secret_access_key" : "aws_access_key_id");
	if (sign_keys_set(&out->keys, access, secret,
			  aws_conf_get(fresh, profile, "aws_session_token")) < 0)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "profile %s: a key or token is too long or not printable",
				 profile);
	(void)snprintf(a->source, sizeof(a->source), "profile %s", profile); /* may be cut */
	return 0;
}

const struct creds_source creds_static_credentials = {
	.name = "keys in the credentials file",
	.applies = credentials_apply,
	.fetch = profile_fetch,
};

const struct creds_source creds_static_config = {
	.name = "keys in the config file",
	.applies = config_applies,
	.fetch = profile_fetch,
};
