/* SPDX-License-Identifier: Apache-2.0 */
/* The AWS tools' configuration: the environment before the credentials file before the config. */
#include "base/awsconf.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ini.h"

/* An empty variable counts as none: that is how people switch one off. */
static const char *env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool is_true(const char *value)
{
	return value && strcasecmp(value, "true") == 0;
}

void aws_conf_free(struct aws_conf *c)
{
	if (!c)
		return;
	free(c->profile);
	free(c->region);
	free(c->ca_bundle);
	free(c->imds_endpoint);
	free(c->config_path);
	free(c->credentials_path);
	ini_free(c->config);
	ini_free(c->credentials);
	free(c);
}

/* --- profiles --- */

/* In the config file all profiles but the default one are named [profile NAME]. */
static const char *config_section(const struct aws_conf *c, const char *profile, char *out,
				  size_t cap)
{
	(void)snprintf(out, cap, "profile %s", profile); /* cut: found nowhere */
	if (strcmp(profile, "default") == 0 && !ini_has(c->config, out))
		return profile;
	return out;
}

const char *aws_conf_get(const struct aws_conf *c, const char *profile, const char *key)
{
	char section[512];
	const char *value = ini_get(c->credentials, profile, key);

	if (!value)
		value = ini_get(c->config, config_section(c, profile, section, sizeof(section)),
				key);
	return value && *value ? value : NULL;
}

bool aws_conf_has_profile(const struct aws_conf *c, const char *profile)
{
	char section[512];

	return ini_has(c->credentials, profile) ||
	       ini_has(c->config, config_section(c, profile, section, sizeof(section)));
}

/* --- loading --- */

static int no_memory(struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "AWS configuration: out of memory");
}

static const char *home(void)
{
	const char *named = env("HOME");
	const struct passwd *pw = named ? NULL : getpwuid(getuid());

	if (named)
		return named;
	return pw && pw->pw_dir ? pw->pw_dir : "";
}

/* NULL: out of memory. */
static char *file_path(const char *variable, const char *usual)
{
	const char *path = env(variable);
	char *out;

	if (!path)
		path = usual;
	if (strncmp(path, "~/", 2) != 0)
		return strdup(path);
	return asprintf(&out, "%s%s", home(), path + 1) < 0 ? NULL : out;
}

static int load_files(struct aws_conf *c, struct fault *f)
{
	int rc;

	c->config_path = file_path("AWS_CONFIG_FILE", "~/.aws/config");
	c->credentials_path = file_path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
	if (!c->config_path || !c->credentials_path)
		return no_memory(f);
	rc = ini_load(c->config_path, &c->config, f);
	if (rc < 0)
		return rc;
	return ini_load(c->credentials_path, &c->credentials, f);
}

/* The first of the variables, else the profile's key, else `usual`. */
static const char *choose(const struct aws_conf *c, const char *first, const char *second,
			  const char *key, const char *usual)
{
	const char *value = env(first);

	if (!value && second)
		value = env(second);
	if (!value)
		value = aws_conf_get(c, c->profile, key);
	return value ? value : usual;
}

/* *out stays NULL for NULL.  False: out of memory. */
static bool keep(char **out, const char *value)
{
	if (value)
		*out = strdup(value);
	return !value || *out;
}

static const char *usual_imds(const struct aws_conf *c)
{
	const char *mode = choose(c, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", NULL,
				  "ec2_metadata_service_endpoint_mode", "ipv4");

	return strcasecmp(mode, "ipv6") == 0 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

static void cut_slashes(char *url)
{
	size_t len = strlen(url);

	while (len > 0 && url[len - 1] == '/')
		url[--len] = '\0';
}

static int fill(struct aws_conf *c, struct fault *f)
{
	const char *imds = choose(c, "AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL,
				  "ec2_metadata_service_endpoint", usual_imds(c));

	if (!keep(&c->region, choose(c, "AWS_REGION", "AWS_DEFAULT_REGION", "region", NULL)) ||
	    !keep(&c->ca_bundle, choose(c, "AWS_CA_BUNDLE", NULL, "ca_bundle", NULL)) ||
	    !keep(&c->imds_endpoint, imds))
		return no_memory(f);
	cut_slashes(c->imds_endpoint);
	c->imds_disabled = is_true(env("AWS_EC2_METADATA_DISABLED"));
	c->endpoints_ignored = is_true(choose(c, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", NULL,
					      "ignore_configured_endpoint_urls", NULL));
	return 0;
}

/* The default profile may be missing; one that was named may not. */
static int check_profile(const struct aws_conf *c, struct fault *f)
{
	if (strcmp(c->profile, "default") == 0 || aws_conf_has_profile(c, c->profile))
		return 0;
	return fault_set(f, -ENOENT, FAULT_FINAL, "AWS profile %s: neither in %s nor in %s",
			 c->profile, c->config_path, c->credentials_path);
}

int aws_conf_load(const char *profile, struct aws_conf **out, struct fault *f)
{
	scoped(aws_conf_free) struct aws_conf *c = calloc(1, sizeof(*c));
	const char *named = profile ? profile : env("AWS_PROFILE");
	int rc;

	if (!named)
		named = env("AWS_DEFAULT_PROFILE");
	if (!c || !keep(&c->profile, named ? named : "default"))
		return no_memory(f);
	c->profile_explicit = profile != NULL;
	rc = load_files(c, f);
	if (rc < 0)
		return rc;
	rc = check_profile(c, f);
	if (rc < 0)
		return rc;
	rc = fill(c, f);
	if (rc < 0)
		return rc;
	*out = take(&c);
	return 0;
}

/* --- endpoints --- */

static const char *env_for_service(const char *service)
{
	char name[128];
	int prefix = snprintf(name, sizeof(name), "AWS_ENDPOINT_URL_%s", service);

	if (prefix < 0 || (size_t)prefix >= sizeof(name))
		return NULL;
	for (char *p = name; *p; p++) {
		if (*p >= 'a' && *p <= 'z')
			*p -= 'a' - 'A';
		else if (*p == '-' || *p == ' ')
			*p = '_';
	}
	return env(name);
}

static const char *services_section(const struct aws_conf *c, const char *service)
{
	const char *name = aws_conf_get(c, c->profile, "services");
	char section[512];
	const char *url;

	if (!name)
		return NULL;
	(void)snprintf(section, sizeof(section), "services %s", name); /* cut: found nowhere */
	url = ini_get_nested(c->config, section, service, "endpoint_url");
	return url && *url ? url : NULL;
}

const char *aws_conf_endpoint(const struct aws_conf *c, const char *service)
{
	const char *url;

	if (c->endpoints_ignored)
		return NULL;
	url = env_for_service(service);
	if (!url)
		url = env("AWS_ENDPOINT_URL");
	if (!url)
		url = services_section(c, service);
	if (!url)
		url = aws_conf_get(c, c->profile, "endpoint_url");
	return url;
}

const char *aws_dns_suffix(const char *region)
{
	static const struct {
		const char *prefix;
		const char *suffix;
	} partitions[] = {
		{"cn-",      "amazonaws.com.cn"  },
		{"us-isob-", "sc2s.sgov.gov"     },
		{"us-isof-", "csp.hci.ic.gov"    },
		{"us-iso-",  "c2s.ic.gov"        },
		{"eu-isoe-", "cloud.adc-e.uk"    },
		{"eusc-",    "amazonaws.eu"      },
		{"",         "amazonaws.com"     },
	};
	size_t i = 0;

	while (strncmp(region, partitions[i].prefix, strlen(partitions[i].prefix)) != 0)
		i++; /* the last row ends it */
	return partitions[i].suffix;
}

void aws_conf_url(const struct aws_conf *c, const char *service, const char *region,
		  struct buf *out)
{
	const char *configured = aws_conf_endpoint(c, service);
	size_t len;

	if (!configured) {
		buf_addf(out, "https://%s.%s.%s", service, region, aws_dns_suffix(region));
		return;
	}
	len = strlen(configured);
	while (len > 0 && configured[len - 1] == '/')
		len--;
	buf_add(out, configured, len);
}
