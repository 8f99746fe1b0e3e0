/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys are looked for, in the order of the AWS tools. */
#include <errno.h>
#include <stddef.h>

#include "base/creds_source.h"

/* ---- single sign-on: known, so that its users are not sent to the instance role ---- */

static bool sso_applies(const struct aws_conf *c, const char *profile)
{
	return aws_conf_get(c, profile, "sso_session") || aws_conf_get(c, profile, "sso_start_url");
}

static int sso_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
		     struct fault *f)
{
	return fault_set(
		f, -EINVAL, FAULT_FINAL,
		"profile %s signs on by SSO, which is left to the aws tool: use a profile with "
		"credential_process = aws configure export-credentials --profile %s",
		profile, profile);
}

const struct creds_source creds_sso = {
	.name = "single sign-on",
	.applies = sso_applies,
	.fetch = sso_fetch,
};

/* ---- the chain ---- */

static const struct creds_source *const chain[] = {
	&creds_environment,
	&creds_role,
	&creds_web_identity,
	&creds_sso,
	&creds_static_credentials,
	&creds_process,
	&creds_static_config,
	&creds_container,
	&creds_imds,
};

static const struct creds_source *const in_profile[] = {
	&creds_web_identity, &creds_sso,           &creds_static_credentials,
	&creds_process,      &creds_static_config,
};

static bool counts(const struct creds_source *source, const struct aws_conf *c)
{
	return !(source->from_environment && c->profile_explicit) && source->applies(c, c->profile);
}

int creds_find(struct creds_ask *a, const struct creds_source **out_source, struct creds_set *out,
	       struct fault *f)
{
	const struct aws_conf *c = a->conf;
	const struct creds_source *last = NULL;
	int rc = fault_set(f, -ENOKEY, FAULT_FINAL, "instance role switched off");

	for (size_t i = 0; rc == -ENOKEY && i < sizeof(chain) / sizeof(chain[0]); i++) {
		if (!counts(chain[i], c))
			continue;
		last = chain[i];
		rc = last->fetch(a, c->profile, out, f);
	}
	if (rc == 0)
		*out_source = last;
	else if (rc == -ENOKEY || last == &creds_imds) /* nobody asked for the instance's role */
		return fault_in(f, "no AWS keys in environment or profile %.32s", c->profile);
	return rc;
}

int creds_find_in_profile(struct creds_ask *a, const char *profile, struct creds_set *out,
			  struct fault *f)
{
	for (size_t i = 0; i < sizeof(in_profile) / sizeof(in_profile[0]); i++)
		if (in_profile[i]->applies(a->conf, profile))
			return in_profile[i]->fetch(a, profile, out, f);
	return fault_set(f, -EINVAL, FAULT_FINAL, "profile %s: a role's source, and holds no keys",
			 profile);
}
