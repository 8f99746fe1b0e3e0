/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint that ECS, EKS and others give to a container by environment variables. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/creds_source.h"
#include "base/wipe.h"

#define ECS_HOST "http://169.254.170.2"
enum { TOTAL_MS = 2000 };

static bool container_applies(const struct aws_conf *c, const char *profile)
{
	return creds_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
	       creds_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* Without TLS the token goes only to this machine, or to what the platforms promise. */
static bool host_is_near(const char *host)
{
	static const char *const known[] = {"localhost", "169.254.170.2", "169.254.170.23",
					    "fd00:ec2::23"};
	struct in6_addr six;
	struct in_addr four;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(host, known[i]) == 0)
			return true;
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* Host out of "http://host:port/...", "http://[host]:port/...".  User names and passwords are not
 * understood, so '@' ends up in the host and is refused with it. */
static bool cut_host(const char *url, char *out, size_t cap)
{
	const char *host = url + strlen("http://");
	const char *ends = *host == '[' ? "]" : ":/?#";
	size_t len;

	host += *host == '[';
	len = strcspn(host, ends);
	return (size_t)snprintf(out, cap, "%.*s", (int)len, host) < cap && !strchr(host, '@');
}

static int check_url(const char *url, struct fault *f)
{
	char host[256];

	if (strncmp(url, "https://", strlen("https://")) == 0)
		return 0;
	if (strncmp(url, "http://", strlen("http://")) != 0)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither http nor https");
	if (!cut_host(url, host, sizeof(host)) || !host_is_near(host))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "AWS_CONTAINER_CREDENTIALS_FULL_URI: plain http only to loopback, "
				 "169.254.170.2, 169.254.170.23 or fd00:ec2::23, not to %.64s",
				 host);
	return 0;
}

/* RELATIVE_URI wins.  Only the other one can point elsewhere, so only that is checked. */
static int make_url(struct buf *url, struct fault *f)
{
	const char *relative = creds_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = creds_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");

	if (relative && relative[0] != '/')
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
	if (relative) {
		buf_addf(url, ECS_HOST "%s", relative);
		return 0;
	}
	if (!full)
		return fault_set(f, -ENOKEY, FAULT_FINAL, "no container endpoint is set");
	buf_addf(url, "%s", full);
	return check_url(full, f);
}

/* "Authorization: TOKEN" or nothing.  The file is read each time: platforms rotate it. */
static int make_authorization(struct buf *line, struct fault *f)
{
	const char *path = creds_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = creds_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	scoped(buf_wipe) struct buf text = BUF_EMPTY;
	int rc;

	if (path) {
		rc = creds_token_file(path, &text, f);
		if (rc < 0)
			return rc;
		token = buf_str(&text);
	}
	if (!token)
		return 0;
	if (strpbrk(token, "\r\n"))
		return fault_set(f, -EINVAL, FAULT_FINAL, "%s holds a line break",
				 path ? path : "AWS_CONTAINER_AUTHORIZATION_TOKEN");
	buf_addf(line, "Authorization: %s", token);
	return 0;
}

static int ask(struct creds_ask *a, const char *url, const char *authorization,
	       struct creds_set *out, struct fault *f)
{
	const char *headers[] = {"Accept: application/json", authorization, NULL};
	scoped(creds_req_fini) struct http_req r = {
		.method = "GET",
		.url = url,
		.headers = headers,
		.connect_ms = TOTAL_MS,
		.total_ms = TOTAL_MS,
		.most = 64 * 1024,
		.no_proxy = true,
	};
	int rc = ask_http(&a->thread, &r, f);

	if (rc < 0)
		return rc;
	if (r.status != 200)
		return creds_status(&r, "GET", f);
	return creds_set_from_json(out, &r.body_in, "Token", creds_reply_s(a, &r), f);
}

static int container_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
			   struct fault *f)
{
	scoped(buf_fini) struct buf url = BUF_EMPTY;
	scoped(buf_wipe) struct buf authorization = BUF_EMPTY;
	int shown;
	int rc = make_url(&url, f);

	if (rc < 0)
		return rc;
	rc = make_authorization(&authorization, f);
	if (rc < 0)
		return fault_in(f, "container endpoint");
	if (!buf_ok(&url) || !buf_ok(&authorization))
		return fault_set(f, -ENOMEM, FAULT_SOON, "container endpoint: out of memory");
	shown = (int)strcspn(buf_str(&url), "?"); /* a query may be a secret */
	rc = ask(a, buf_str(&url), authorization.len > 0 ? buf_str(&authorization) : NULL, out, f);
	if (rc < 0)
		return fault_in(f, "container endpoint %.*s", shown > 96 ? 96 : shown,
				buf_str(&url));
	(void)snprintf(a->source, sizeof(a->source), "container endpoint %.*s", shown,
		       buf_str(&url)); /* may be cut */
	return 0;
}

const struct creds_source creds_container = {
	.name = "container endpoint",
	.applies = container_applies,
	.fetch = container_fetch,
};
