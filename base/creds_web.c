/* SPDX-License-Identifier: Apache-2.0 */
/* Web identity: a token file that the platform (EKS, a CI service) renews, traded for a role. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/creds_source.h"
#include "base/wipe.h"

/* Variables belong to the main profile; the source profile of a role is read without them. */
static const char *look_up(const struct aws_conf *c, const char *profile, const char *variable,
			   const char *key)
{
	bool main_profile = !c->profile_explicit && strcmp(profile, c->profile) == 0;
	const char *value = main_profile ? creds_env(variable) : NULL;

	return value ? value : aws_conf_get(c, profile, key);
}

static const char *token_path(const struct aws_conf *c, const char *profile)
{
	return look_up(c, profile, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
}

static bool web_applies(const struct aws_conf *c, const char *profile)
{
	return token_path(c, profile) != NULL;
}

static int web_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
		     struct fault *f)
{
	const char *path = token_path(a->conf, profile);
	scoped(buf_wipe) struct buf token = BUF_EMPTY;
	struct creds_assume how = {
		.role_arn = look_up(a->conf, profile, "AWS_ROLE_ARN", "role_arn"),
		.session_name =
			look_up(a->conf, profile, "AWS_ROLE_SESSION_NAME", "role_session_name"),
		.duration_s = aws_conf_get(a->conf, profile, "duration_seconds"),
	};
	int rc;

	if (!path)
		return fault_set(f, -ENOKEY, FAULT_FINAL, "no web identity is configured");
	if (!how.role_arn)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "web identity token file %s: no role for it in AWS_ROLE_ARN or in "
				 "role_arn of profile %s",
				 path, profile);
	rc = creds_token_file(path, &token, f);
	if (rc < 0)
		return fault_in(f, "web identity");
	how.web_token = buf_str(&token);
	rc = creds_assume(a, &how, out, f);
	if (rc < 0)
		return fault_in(f, "web identity");
	(void)snprintf(a->source, sizeof(a->source), "web identity, role %s",
		       how.role_arn); /* may be cut */
	return 0;
}

const struct creds_source creds_web_identity = {
	.name = "web identity",
	.applies = web_applies,
	.fetch = web_fetch,
};
