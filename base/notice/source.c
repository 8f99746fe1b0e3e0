/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of notices share: bounded requests, and wall times made monotonic. */
#include "base/notice/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_MS = 1000, USUAL_MOST = 16 * 1024 };

void ear_say(struct ear *e, enum notice_voice voice, enum notice_kind kind)
{
	e->hear(e, &(struct notice_word){.voice = voice, .kind = kind});
}

int64_t ear_reply_s(const struct http_req *r)
{
	int64_t s = clock_wall(&clock_system) / (int64_t)NS_PER_S;

	(void)ask_reply_said(r, &s); /* else it stays ours */
	return s;
}

/*
 * Who says when also says what time it is (`Date:`), so our own wall clock may be hours off.  That
 * header counts whole seconds: one is taken off, since early is better than late.  No service gives
 * more notice than most_s: a longer one is the fault of a clock.
 */
void ear_say_until(struct ear *e, enum notice_voice voice, enum notice_kind kind,
		   const struct http_req *r, uint64_t asked_ns, int64_t end_s, int64_t most_s)
{
	struct notice_word w = {.voice = voice, .kind = kind, .deadline_ns = asked_ns};
	int64_t left_s = end_s - ear_reply_s(r) - 1;

	if (left_s > most_s)
		left_s = most_s;
	if (left_s > 0)
		w.deadline_ns += (uint64_t)left_s * NS_PER_S;
	e->hear(e, &w);
}

void ear_req_fini(struct http_req *r)
{
	http_req_fini(r);
}

int ear_get(struct ear *e, const struct ear_get *g, struct http_req *r, struct fault *f)
{
	const char *headers[] = {g->header, NULL};
	char url[NOTICE_ENDPOINT_MOST + 256];
	uint64_t ms = g->ms ? g->ms : USUAL_MS;
	int rc;

	(void)snprintf(url, sizeof(url), "%s%s", e->endpoint, g->path); /* our paths are short */
	*r = (struct http_req){
		.method = g->method ? g->method : "GET",
		.url = url,
		.headers = headers,
		.connect_ms = USUAL_MS,
		.total_ms = ms,
		.stall_ms = ms,
		.most = g->most ? g->most : USUAL_MOST,
		.no_proxy = true,
	};
	rc = ask_http(e->ask, r, f);
	r->url = NULL; /* both end here */
	r->headers = NULL;
	return rc;
}

int ear_refuse(const struct ear_get *g, const struct http_req *r, const char *why, struct fault *f)
{
	const char *method = g->method ? g->method : "GET";

	if (why)
		return fault_set(f, -EPROTO, FAULT_SOON, "%s %s: %s", method, g->path, why);
	return fault_set(f, -EIO, FAULT_SOON, "%s %s: status %ld", method, g->path, r->status);
}

json_t *ear_json(struct http_req *r)
{
	json_t *j = json_loadb((const char *)r->body_in.data, r->body_in.len, 0, NULL);

	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

enum ear_located ear_locate(struct ear *e, const char *variable, const char *usual)
{
	const char *said = getenv(variable);
	bool is_set = said && *said;
	size_t len;

	if (!is_set)
		said = usual;
	(void)snprintf(e->endpoint, sizeof(e->endpoint), "%s%s",
		       strstr(said, "://") ? "" : "http://",
		       said); /* what is too long is no address of a metadata service */
	len = strlen(e->endpoint);
	while (len > 0 && e->endpoint[len - 1] == '/')
		e->endpoint[--len] = '\0';
	return is_set ? EAR_SAID : EAR_USUAL;
}
