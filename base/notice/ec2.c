/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EC2, by IMDSv2: three items that are absent (404) on a quiet day.
 *
 * A token lives for hours and is renewed in time, or when it is refused (401): one PUT, one repeat.
 * The reply to that PUT dies at a container's bridge where the instance's hop limit is 1; then it
 * is asked without a token, which an instance may allow, and for a token ever less often.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/awsconf.h"
#include "base/iso.h"
#include "base/notice/source.h"

#define ACTION  "/latest/meta-data/spot/instance-action"
#define REBAL   "/latest/meta-data/events/recommendations/rebalance"
#define SCALING "/latest/meta-data/autoscaling/target-lifecycle-state"

#define TOKEN_PATH     "/latest/api/token"
#define TOKEN_TTL_S    "21600"
#define TOKEN_LIFE_NS  (UINT64_C(21600) * NS_PER_S / 4 * 3) /* renewed after */
#define PUT_AGAIN_MOST 64 /* seconds */

enum {
	TOKEN_MOST = 512,
	ABSENT_ENOUGH = 3, /* times in a row: one stray 404 withdraws no notice */
	SELDOM = 5,        /* what is no countdown is asked for every so many polls */
	NOTICE_MOST_S = 120,
};

struct ec2;

static int hear_action(struct ec2 *s, struct http_req *r);
static int hear_rebalance(struct ec2 *s, struct http_req *r);
static int hear_scaling(struct ec2 *s, struct http_req *r);

static const struct item {
	const char *path;
	enum notice_voice voice;
	unsigned every; /* polls */
	/* A 200.  -EPROTO: it is not what it should be. */
	int (*hear)(struct ec2 *s, struct http_req *r);
} items[] = {
	{ACTION,  NOTICE_EC2_ACTION,    1,      hear_action   },
	{REBAL,   NOTICE_EC2_REBALANCE, SELDOM, hear_rebalance},
	{SCALING, NOTICE_EC2_SCALING,   SELDOM, hear_scaling  },
};

enum { ITEMS = sizeof(items) / sizeof(items[0]) };

struct ec2 {
	struct ear *ear;
	char token[TOKEN_MOST + 64]; /* the whole header; "" for none */
	uint64_t token_until_ns;
	uint64_t put_after_ns, put_again_s;
	bool put_silent; /* the last PUT was never answered */
	uint64_t asked_ns;
	unsigned turn;
	unsigned absent[ITEMS];
};

static uint64_t now_ns(void)
{
	return clock_mono(&clock_system);
}

/* ---- what is said ---- */

/* Any object with an action is a notice, and so is one with a time; mocks have had other keys
 * than EC2. */
static int hear_action(struct ec2 *s, struct http_req *r)
{
	json_t *j = ear_json(r);
	const char *action = json_string_value(json_object_get(j, "action"));
	const char *time = json_string_value(json_object_get(j, "time"));
	enum notice_kind kind = NOTICE_TERMINATE;
	int64_t end_s;

	if (!action)
		action = json_string_value(json_object_get(j, "instance-action"));
	if (action && strcmp(action, "stop") == 0)
		kind = NOTICE_STOP;
	if (action && strcmp(action, "hibernate") == 0)
		kind = NOTICE_HIBERNATE;
	if (time && iso_time(time, &end_s))
		ear_say_until(s->ear, NOTICE_EC2_ACTION, kind, r, s->asked_ns, end_s,
			      NOTICE_MOST_S);
	else if (action || time)
		ear_say(s->ear, NOTICE_EC2_ACTION, kind);
	json_decref(j);
	return action || time ? 0 : -EPROTO;
}

/* {"noticeTime": …}, which says when it was decided and nothing of what is to come. */
static int hear_rebalance(struct ec2 *s, struct http_req *r)
{
	json_t *j = ear_json(r);
	bool is_one = json_object_get(j, "noticeTime");

	if (is_one)
		ear_say(s->ear, NOTICE_EC2_REBALANCE, NOTICE_REBALANCE);
	json_decref(j);
	return is_one ? 0 : -EPROTO;
}

/* "InService", "Standby", "Warmed:Stopped" …, and "Terminated" for an instance that the group
 * lets go. */
static int hear_scaling(struct ec2 *s, struct http_req *r)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:-";
	static const char end[] = "Terminated";
	const char *state = buf_str(&r->body_in);
	size_t len = strcspn(state, " \r\n");

	if (len == 0 || len > 64 || strspn(state, letters) < len)
		return -EPROTO;
	ear_say(s->ear, NOTICE_EC2_SCALING,
		len >= strlen(end) && strncmp(state + len - strlen(end), end, strlen(end)) == 0
			? NOTICE_TERMINATE
			: NOTICE_NOTHING);
	return 0;
}

/* ---- the token ---- */

/* The reply's body as a header, if it can be one. */
static bool keep_token(struct ec2 *s, struct http_req *r)
{
	const char *token = buf_str(&r->body_in);

	if (!*token || strlen(token) > TOKEN_MOST || strpbrk(token, "\r\n"))
		return false;
	(void)snprintf(s->token, sizeof(s->token), "X-aws-ec2-metadata-token: %s",
		       token); /* fits */
	s->token_until_ns = s->asked_ns + TOKEN_LIFE_NS;
	s->put_again_s = 0;
	return true;
}

static void put_later(struct ec2 *s, int rc)
{
	s->put_silent = rc == -ETIMEDOUT;
	s->put_again_s = s->put_again_s ? s->put_again_s * 2 : 1;
	if (s->put_again_s > PUT_AGAIN_MOST)
		s->put_again_s = PUT_AGAIN_MOST;
	s->put_after_ns = now_ns() + s->put_again_s * NS_PER_S;
}

/* Without a token it is still worth asking; a network that is down says so at the next request. */
static void take_token(struct ec2 *s)
{
	static const struct ear_get put = {
		.method = "PUT",
		.path = TOKEN_PATH,
		.header = "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_TTL_S};
	scoped(ear_req_fini) struct http_req r = {.method = NULL};
	int rc;

	s->token[0] = '\0';
	if (now_ns() < s->put_after_ns)
		return;
	s->asked_ns = now_ns();
	rc = ear_get(s->ear, &put, &r, NULL);
	if (rc < 0 || r.status != 200 || !keep_token(s, &r))
		put_later(s, rc);
}

static bool has_token(const struct ec2 *s)
{
	return s->token[0] && now_ns() < s->token_until_ns;
}

/* ---- asking ---- */

static int refused(const struct ec2 *s, const struct ear_get *g, const struct http_req *r,
		   struct fault *f)
{
	static const char hop_limit[] = "wants a token, and PUT " TOKEN_PATH
					" is not answered within 1 s; in a container set "
					"the instance's http-put-response-hop-limit to 2";

	if (r->status == 401 && s->put_silent)
		return ear_refuse(g, r, hop_limit, f);
	return ear_refuse(g, r, r->status == 200 ? "the reply is not what it should be" : NULL, f);
}

static int request(struct ec2 *s, struct ear_get *g, struct http_req *r, struct fault *f)
{
	g->header = s->token[0] ? s->token : NULL;
	s->asked_ns = now_ns();
	return ear_get(s->ear, g, r, f);
}

static int ask(struct ec2 *s, struct ear_get *g, struct http_req *r, struct fault *f)
{
	int rc;

	if (!has_token(s))
		take_token(s);
	rc = request(s, g, r, f);
	if (rc < 0 || r->status != 401)
		return rc;
	take_token(s);
	if (!s->token[0])
		return 0;
	ear_req_fini(r);
	return request(s, g, r, f);
}

static int look(struct ec2 *s, size_t i, struct fault *f)
{
	scoped(ear_req_fini) struct http_req r = {.method = NULL};
	struct ear_get g = {.path = items[i].path};
	int rc = ask(s, &g, &r, f);

	if (rc < 0)
		return rc;
	if (r.status == 404) {
		if (++s->absent[i] >= ABSENT_ENOUGH)
			ear_say(s->ear, items[i].voice, NOTICE_NOTHING);
		return 0;
	}
	if (r.status != 200 || items[i].hear(s, &r) < 0)
		return refused(s, &g, &r, f);
	s->absent[i] = 0;
	return 0;
}

static int ec2_poll(void *arg, struct fault *f)
{
	struct ec2 *s = arg;
	unsigned turn = s->turn++;

	for (size_t i = 0; i < ITEMS; i++) {
		int rc = turn % items[i].every == 0 ? look(s, i, f) : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

static void *ec2_open(struct ear *e)
{
	struct ec2 *s = calloc(1, sizeof(*s));

	if (s)
		s->ear = e;
	return s;
}

/* ---- where ---- */

static enum ear_located ec2_locate(struct ear *e)
{
	static const char variable[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
	scoped(aws_conf_free) struct aws_conf *c = NULL;
	enum ear_located where = ear_locate(e, variable, "http://169.254.169.254");
	const char *off = getenv("AWS_EC2_METADATA_DISABLED");

	if (off && strcasecmp(off, "true") == 0)
		return EAR_OFF;
	/* The profile may say where, too; one that cannot be read is told of by whoever needs
	 * its keys. */
	if (where == EAR_USUAL && aws_conf_load(NULL, &c, NULL) == 0)
		(void)snprintf(e->endpoint, sizeof(e->endpoint), "%s", c->imds_endpoint);
	return where;
}

static bool ec2_probe(struct ear *e)
{
	static const struct ear_get get = {.path = "/latest/meta-data/instance-id", .ms = 500};
	static const struct ear_get put = {.method = "PUT", .path = TOKEN_PATH, .ms = 500,
					   .header = "X-aws-ec2-metadata-token-ttl-seconds: 60"};
	scoped(ear_req_fini) struct http_req got = {.method = NULL};
	scoped(ear_req_fini) struct http_req taken = {.method = NULL};

	if (ear_get(e, &put, &taken, NULL) == 0 && taken.status == 200 && taken.body_in.len > 0)
		return true;
	return ear_get(e, &get, &got, NULL) == 0 &&
	       (got.status == 401 || (got.status == 200 && got.body_in.len > 2 &&
				      strncmp(buf_str(&got.body_in), "i-", 2) == 0));
}

const struct notice_ops notice_ec2 = {
	.name = "ec2",
	.open = ec2_open,
	.poll = ec2_poll,
	.close = free,
	.locate = ec2_locate,
	.probe = ec2_probe,
};
