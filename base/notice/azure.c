/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Azure scheduled events: a list for all machines of a group, of which those count that name ours,
 * or that name nobody.  The first request ever switches the feature on for this machine and may
 * take two minutes; so it may take that long.  Events are never acknowledged here: that would bring
 * the end forward.
 *
 * Nobody has agreed on a variable for the address (AZURE_POD_IDENTITY_AUTHORITY_HOST is for keys
 * alone), so there is one of ours.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/notice/source.h"

#define EVENTS "/metadata/scheduledevents?api-version=2020-07-01"
#define NAME   "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
#define HEADER "Metadata: true"

enum {
	FIRST_MS = 130 * 1000,
	LATER_MS = 2000,
	EVENTS_MOST = 256 * 1024,
	NAME_MOST = 128,
	NAME_TRIES = 3,
	AHEAD_MOST_S = 15 * 60, /* farther off (hardware that decays: days) is no notice yet */
};

struct azure {
	struct ear *ear;
	bool answered;
	unsigned name_tries;
	char name[NAME_MOST];
};

/* The end that an event announces; kind NOTICE_NOTHING: it is none of ours. */
struct end {
	enum notice_kind kind;
	int64_t at_s; /* 0: not said */
};

static const struct {
	const char *type;
	enum notice_kind kind;
} types[] = {
	{"Preempt",   NOTICE_TERMINATE},
	{"Terminate", NOTICE_TERMINATE},
	{"Redeploy",  NOTICE_TERMINATE}, /* the local disk is lost */
	{"Reboot",    NOTICE_STOP     },
	/* "Freeze" is a pause of seconds */
};

static const char *text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text ? text : "";
}

static enum notice_kind kind_of(const json_t *event)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcasecmp(text_of(event, "EventType"), types[i].type) == 0)
			return types[i].kind;
	}
	return NOTICE_NOTHING;
}

static bool names_us(const struct azure *s, const json_t *event)
{
	const json_t *names = json_object_get(event, "Resources");
	const json_t *name;
	size_t i;

	if (!s->name[0] || json_array_size(names) == 0)
		return true;
	json_array_foreach (names, i, name) {
		if (json_is_string(name) && strcasecmp(json_string_value(name), s->name) == 0)
			return true;
	}
	return false;
}

/* "Mon, 19 Sep 2016 18:29:47 GMT"; empty, or in the past, once it has started. */
static struct end end_of(const struct azure *s, const json_t *event, int64_t now_s)
{
	struct end end = {.kind = names_us(s, event) ? kind_of(event) : NOTICE_NOTHING};
	time_t at = curl_getdate(text_of(event, "NotBefore"), NULL);

	if (at > 0)
		end.at_s = (int64_t)at;
	if (strcasecmp(text_of(event, "EventStatus"), "Started") == 0 && end.at_s == 0)
		end.at_s = now_s;
	if (end.at_s > now_s + AHEAD_MOST_S)
		end.kind = NOTICE_NOTHING;
	return end;
}

/* One that says no time has least time. */
static bool is_sooner(struct end a, struct end b)
{
	return a.kind != NOTICE_NOTHING && (b.kind == NOTICE_NOTHING || a.at_s < b.at_s);
}

static void say(struct azure *s, const struct http_req *r, uint64_t asked_ns, const json_t *events)
{
	struct end soonest = {.kind = NOTICE_NOTHING};
	int64_t now_s = ear_reply_s(r);
	const json_t *event;
	size_t i;

	json_array_foreach (events, i, event) {
		struct end end = end_of(s, event, now_s);

		if (is_sooner(end, soonest))
			soonest = end;
	}
	if (soonest.kind != NOTICE_NOTHING && soonest.at_s)
		ear_say_until(s->ear, NOTICE_AZURE, soonest.kind, r, asked_ns, soonest.at_s,
			      AHEAD_MOST_S);
	else
		ear_say(s->ear, NOTICE_AZURE, soonest.kind);
}

/* Without our name every event counts: better a flush too many. */
static void learn_name(struct azure *s)
{
	static const struct ear_get g = {.path = NAME, .header = HEADER};
	scoped(ear_req_fini) struct http_req r = {.method = NULL};

	if (s->name[0] || s->name_tries++ >= NAME_TRIES)
		return;
	if (ear_get(s->ear, &g, &r, NULL) == 0 && r.status == 200 &&
	    r.body_in.len < sizeof(s->name))
		(void)snprintf(s->name, sizeof(s->name), "%s", buf_str(&r.body_in)); /* measured */
	s->name[strcspn(s->name, " \r\n")] = '\0';
}

static int azure_poll(void *arg, struct fault *f)
{
	struct azure *s = arg;
	struct ear_get g = {.path = EVENTS,
			    .header = HEADER,
			    .ms = s->answered ? LATER_MS : FIRST_MS,
			    .most = EVENTS_MOST};
	scoped(ear_req_fini) struct http_req r = {.method = NULL};
	uint64_t asked_ns;
	json_t *j, *events;
	int rc;

	learn_name(s);
	asked_ns = clock_mono(&clock_system);
	rc = ear_get(s->ear, &g, &r, f);
	if (rc < 0)
		return rc;
	if (r.status != 200)
		return ear_refuse(&g, &r, NULL, f);
	j = ear_json(&r);
	events = json_object_get(j, "Events");
	if (json_is_array(events))
		say(s, &r, s->answered ? asked_ns : clock_mono(&clock_system), events);
	else
		rc = ear_refuse(&g, &r, "the reply is not what it should be", f);
	s->answered |= rc == 0;
	json_decref(j);
	return rc;
}

static void *azure_open(struct ear *e)
{
	struct azure *s = calloc(1, sizeof(*s));

	if (s)
		s->ear = e;
	return s;
}

static enum ear_located azure_locate(struct ear *e)
{
	return ear_locate(e, "HOLDFAST_AZURE_METADATA_HOST", "http://169.254.169.254");
}

static bool azure_probe(struct ear *e)
{
	static const struct ear_get g = {.path = NAME, .header = HEADER};
	scoped(ear_req_fini) struct http_req r = {.method = NULL};

	return ear_get(e, &g, &r, NULL) == 0 && r.status == 200 && r.body_in.len > 0;
}

const struct notice_ops notice_azure = {
	.name = "azure",
	.open = azure_open,
	.poll = azure_poll,
	.close = free,
	.locate = azure_locate,
	.probe = azure_probe,
};
