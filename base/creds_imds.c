/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role of the EC2 instance, by IMDSv2: a token, the role's name, its keys.  Every fetch takes a
 * new token: that is three small requests in some hours, and no 401 to handle.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/creds_source.h"
#include "base/wipe.h"

#define ROLES "/latest/meta-data/iam/security-credentials/"

/* A second is an eternity on the link-local network; three requests make a bounded search. */
enum { TOTAL_MS = 1000, REPLY_MOST = 64 * 1024, ROLE_MOST = 64 };

static bool imds_applies(const struct aws_conf *c, const char *profile)
{
	return !c->imds_disabled;
}

/* The answer into out.  -EMSGSIZE, -ETIMEDOUT and so on of the network with r's fault. */
static int ask(struct creds_ask *a, const char *method, const char *path, const char *header,
	       struct http_req *r, struct fault *f)
{
	scoped(buf_fini) struct buf url = BUF_EMPTY;
	const char *headers[] = {header, NULL};
	int rc;

	buf_addf(&url, "%s%s", a->conf->imds_endpoint, path);
	*r = (struct http_req){
		.method = method,
		.url = buf_str(&url),
		.headers = headers,
		.connect_ms = TOTAL_MS,
		.total_ms = TOTAL_MS,
		.most = REPLY_MOST,
		.no_proxy = true,
	};
	if (!buf_ok(&url))
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	rc = ask_http(&a->thread, r, f);
	r->url = NULL; /* both end here */
	r->headers = NULL;
	return rc;
}

/* Not an error of anybody: most machines are not EC2 instances. */
static bool nobody_there(int rc)
{
	return rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -ENETUNREACH ||
	       rc == -EHOSTDOWN || rc == -ENETDOWN;
}

/*
 * The reply to this PUT alone carries the hop limit as its TTL: behind one more hop (a container's
 * bridge) it dies on the way, and the request looks as if nobody had answered.
 */
static int no_token(int rc, struct fault *f)
{
	if (rc == -ETIMEDOUT)
		return fault_set(
			f, rc, FAULT_SOON,
			"no answer to PUT /latest/api/token within 1 s: not on EC2, or in a "
			"container and the instance's http-put-response-hop-limit is 1 (set 2)");
	if (nobody_there(rc))
		return fault_set(f, -ENOKEY, FAULT_FINAL, "nobody answers");
	return rc;
}

/* "X-aws-ec2-metadata-token: TOKEN" */
static int take_token(struct creds_ask *a, struct buf *header, struct fault *f)
{
	scoped(creds_req_fini) struct http_req r = {.method = NULL};
	int rc = ask(a, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 60", &r,
		     f);

	if (rc < 0)
		return no_token(rc, f);
	if (r.status == 403)
		return fault_set(f, -ENOKEY, FAULT_FINAL, "switched off for this instance");
	if (r.status != 200)
		return creds_status(&r, "PUT /latest/api/token", f);
	if (r.body_in.len == 0 || memchr(r.body_in.data, '\n', r.body_in.len))
		return fault_set(f, -EPROTO, FAULT_SOON, "PUT /latest/api/token: not a token");
	buf_addf(header, "X-aws-ec2-metadata-token: %s", buf_str(&r.body_in));
	buf_wipe(&r.body_in);
	return buf_ok(header) ? 0 : fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
}

static bool is_role_name(const char *s, size_t len)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+=,.@_-";

	return len > 0 && len <= ROLE_MOST && strspn(s, allowed) >= len;
}

static int take_role(struct creds_ask *a, const char *token, char role[ROLE_MOST + 1],
		     struct fault *f)
{
	scoped(creds_req_fini) struct http_req r = {.method = NULL};
	int rc = ask(a, "GET", ROLES, token, &r, f);
	const char *name;
	size_t len;

	if (rc < 0)
		return rc;
	if (r.status == 404)
		return fault_set(f, -ENOKEY, FAULT_FINAL, "this instance has no role");
	if (r.status != 200)
		return creds_status(&r, "GET " ROLES, f);
	name = buf_str(&r.body_in);
	len = strcspn(name, "\r\n");
	if (!is_role_name(name, len))
		return fault_set(f, -EPROTO, FAULT_SOON, "GET " ROLES ": not a role's name");
	(void)snprintf(role, ROLE_MOST + 1, "%.*s", (int)len, name); /* measured above */
	return 0;
}

static int take_keys(struct creds_ask *a, const char *token, const char *role,
		     struct creds_set *out, struct fault *f)
{
	scoped(creds_req_fini) struct http_req r = {.method = NULL};
	char path[sizeof(ROLES) + ROLE_MOST];
	int rc;

	(void)snprintf(path, sizeof(path), ROLES "%s", role); /* fits */
	rc = ask(a, "GET", path, token, &r, f);
	if (rc < 0)
		return rc;
	if (r.status != 200)
		return creds_status(&r, "GET " ROLES, f);
	return creds_set_from_json(out, &r.body_in, "Token", creds_reply_s(a, &r), f);
}

static int imds_fetch(struct creds_ask *a, const char *profile, struct creds_set *out,
		      struct fault *f)
{
	scoped(buf_wipe) struct buf token = BUF_EMPTY;
	char role[ROLE_MOST + 1] = "";
	int rc = take_token(a, &token, f);

	if (rc == 0)
		rc = take_role(a, buf_str(&token), role, f);
	if (rc == 0)
		rc = take_keys(a, buf_str(&token), role, out, f);
	if (rc < 0)
		return fault_in(f, "instance role%s%s at %.64s", *role ? " " : "", role,
				a->conf->imds_endpoint);
	(void)snprintf(a->source, sizeof(a->source), "instance role %s", role); /* fits */
	return 0;
}

const struct creds_source creds_imds = {
	.name = "instance role",
	.applies = imds_applies,
	.fetch = imds_fetch,
};
