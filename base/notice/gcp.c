/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Google Compute Engine: `preempted` is FALSE, then TRUE.  A long poll: the reply comes when the
 * value is another than the one with the ETag that we name, and otherwise after WAIT_S.  That is
 * short, so that a connection that dies silently (a live migration) leaves us deaf for seconds
 * only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/notice/source.h"

#define PREEMPTED "/computeMetadata/v1/instance/preempted"
#define FLAVOR    "Metadata-Flavor: Google"

enum { WAIT_S = 5, WAIT_MS = 7000, ETAG_MOST = 64 };

struct gcp {
	struct ear *ear;
	char etag[ETAG_MOST + 1]; /* of the value that we know; "" for none */
};

/* Others answer at this address too, and some answer everything. */
static bool is_google(const struct http_req *r)
{
	char flavor[16];

	return http_header(r, "metadata-flavor", flavor, sizeof(flavor)) &&
	       strcmp(flavor, "Google") == 0;
}

/* One that could not stand in a URL is none: then it is asked once a second. */
static void keep_etag(struct gcp *s, const struct http_req *r)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

	if (!http_header(r, "etag", s->etag, sizeof(s->etag)) || s->etag[strspn(s->etag, allowed)])
		s->etag[0] = '\0';
}

static int hear(struct gcp *s, const struct ear_get *g, struct http_req *r, struct fault *f)
{
	const char *value = buf_str(&r->body_in);
	size_t len = strcspn(value, " \r\n");

	if (len == 4 && strncmp(value, "TRUE", len) == 0)
		ear_say(s->ear, NOTICE_GCP, NOTICE_TERMINATE);
	else if (len == 5 && strncmp(value, "FALSE", len) == 0)
		ear_say(s->ear, NOTICE_GCP, NOTICE_NOTHING);
	else
		return ear_refuse(g, r, "the reply is not what it should be", f);
	keep_etag(s, r);
	return 0;
}

static int gcp_poll(void *arg, struct fault *f)
{
	struct gcp *s = arg;
	scoped(ear_req_fini) struct http_req r = {.method = NULL};
	char path[sizeof(PREEMPTED) + ETAG_MOST + 64];
	struct ear_get g = {.path = path, .header = FLAVOR, .ms = s->etag[0] ? WAIT_MS : 0};
	int rc;

	(void)snprintf(path, sizeof(path), PREEMPTED);
	if (s->etag[0])
		(void)snprintf(path, sizeof(path),
			       PREEMPTED "?wait_for_change=true&timeout_sec=%d&last_etag=%s",
			       WAIT_S, s->etag); /* fits */
	s->etag[0] = '\0'; /* a failure begins anew */
	rc = ear_get(s->ear, &g, &r, f);
	if (rc < 0)
		return rc;
	if (r.status != 200)
		return ear_refuse(&g, &r, NULL, f);
	if (!is_google(&r))
		return ear_refuse(&g, &r, "the reply lacks " FLAVOR, f);
	return hear(s, &g, &r, f);
}

static void *gcp_open(struct ear *e)
{
	struct gcp *s = calloc(1, sizeof(*s));

	if (s)
		s->ear = e;
	return s;
}

static enum ear_located gcp_locate(struct ear *e)
{
	return ear_locate(e, "GCE_METADATA_HOST", "http://169.254.169.254");
}

static bool gcp_probe(struct ear *e)
{
	static const struct ear_get g = {.path = PREEMPTED, .header = FLAVOR};
	scoped(ear_req_fini) struct http_req r = {.method = NULL};

	return ear_get(e, &g, &r, NULL) == 0 && r.status == 200 && is_google(&r);
}

const struct notice_ops notice_gcp = {
	.name = "gcp",
	.open = gcp_open,
	.poll = gcp_poll,
	.close = free,
	.locate = gcp_locate,
	.probe = gcp_probe,
};
