/* SPDX-License-Identifier: Apache-2.0 */
/* A profile with role_arn: keys from another profile or source, traded for the role's at STS. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/creds_source.h"

/* The profiles on the way here, so that a cycle is seen. */
struct visit {
	const char *profile;
	const struct visit *from;
};

static bool has_role(const struct aws_conf *c, const char *profile)
{
	return aws_conf_get(c, profile, "role_arn") &&
	       !aws_conf_get(c, profile, "web_identity_token_file");
}

static bool has_keys(const struct aws_conf *c, const char *profile)
{
	return aws_conf_get(c, profile, "aws_access_key_id") ||
	       aws_conf_get(c, profile, "aws_secret_access_key");
}

static bool was_visited(const struct visit *v, const char *profile)
{
	for (; v; v = v->from)
		if (strcmp(v->profile, profile) == 0)
			return true;
	return false;
}

static int assume(struct creds_ask *a, const struct visit *v, struct creds_set *out,
		  struct fault *f);

/* A profile may name itself: then its own static keys are meant.  Any other way back is a cycle. */
static int from_profile(struct creds_ask *a, const struct visit *v, const char *source,
			struct creds_set *out, struct fault *f)
{
	const struct aws_conf *c = a->conf;
	struct visit next = {.profile = source, .from = v};
	bool itself = strcmp(source, v->profile) == 0;

	if (!aws_conf_has_profile(c, source))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "profile %s: its source_profile %s does not exist", v->profile,
				 source);
	if (was_visited(v, source) && !(itself && has_keys(c, source)))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "profile %s: its source_profile %s leads back to it: a cycle",
				 v->profile, source);
	if (has_keys(c, source) || !has_role(c, source))
		return creds_find_in_profile(a, source, out, f);
	return assume(a, &next, out, f);
}

static int from_source(struct creds_ask *a, const struct visit *v, const char *name,
		       struct creds_set *out, struct fault *f)
{
	static const struct {
		const char *name;
		const struct creds_source *source;
	} sources[] = {
		{"Environment",         &creds_environment},
		{"EcsContainer",        &creds_container  },
		{"Ec2InstanceMetadata", &creds_imds       },
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (strcasecmp(name, sources[i].name) != 0)
			continue;
		if (sources[i].source->fetch(a, v->profile, out, f) < 0)
			return fault_in(f, "profile %s: credential_source %s", v->profile, name);
		return 0;
	}
	return fault_set(f, -EINVAL, FAULT_FINAL,
			 "profile %s: credential_source %.64s is not Environment, EcsContainer or "
			 "Ec2InstanceMetadata",
			 v->profile, name);
}

static int find_base(struct creds_ask *a, const struct visit *v, struct creds_set *out,
		     struct fault *f)
{
	const char *profile = aws_conf_get(a->conf, v->profile, "source_profile");
	const char *source = aws_conf_get(a->conf, v->profile, "credential_source");

	if (!profile == !source)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "profile %s: role_arn needs one of source_profile and "
				 "credential_source, and has %s",
				 v->profile, profile ? "both" : "none");
	return profile ? from_profile(a, v, profile, out, f) : from_source(a, v, source, out, f);
}

static int assume(struct creds_ask *a, const struct visit *v, struct creds_set *out,
		  struct fault *f)
{
	scoped(creds_set_fini) struct creds_set base = {.expires = false};
	struct creds_assume how = {
		.role_arn = aws_conf_get(a->conf, v->profile, "role_arn"),
		.session_name = aws_conf_get(a->conf, v->profile, "role_session_name"),
		.external_id = aws_conf_get(a->conf, v->profile, "external_id"),
		.duration_s = aws_conf_get(a->conf, v->profile, "duration_seconds"),
		.by = &base.keys,
	};
	int rc;

	if (aws_conf_get(a->conf, v->profile, "mfa_serial"))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "profile %s: mfa_serial asks for a code that nobody is there to "
				 "type; use credential_process",
				 v->profile);
	rc = find_base(a, v, &base, f);
	if (rc < 0)
		return rc;
	rc = creds_assume(a, &how, out, f);
	if (rc < 0)
		return fault_in(f, "profile %s", v->profile);
	(void)snprintf(a->source, sizeof(a->source), "profile %s, role %s", v->profile,
		       how.role_arn); /* may be cut */
	return 0;
}

static int role_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
		      struct fault *f)
{
	struct visit first = {.profile = profile};

	return assume(a, &first, out, f);
}

const struct creds_source creds_role = {
	.name = "assumed role",
	.applies = has_role,
	.fetch = role_fetch,
};
