/* SPDX-License-Identifier: Apache-2.0 */
/* See status.h. */
#include "fs/status.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/jsontext.h"
#include "fs/commit.h"
#include "fs/follow.h"
#include "fs/notice/heed.h"
#include "fs/park.h"
#include "fs/warm.h"

const char *status_mode(const struct mount *m, bool read_only, const struct commit_status *c)
{
	if (c->fenced)
		return "fenced";
	return read_only ? "read-only" : m->format.unfenced ? "read-write, unfenced" : "read-write";
}

static json_t *seconds(double ns)
{
	return json_real((double)(long long)(ns / 1e6) / 1e3);
}

/* How long everything unsent would take at the measured rate; null while there is no rate yet. */
static json_t *flush_seconds(uint64_t dirty, uint64_t rate)
{
	if (dirty == 0)
		return json_real(0);
	return rate ? seconds((double)dirty / (double)rate * 1e9) : json_null();
}

/* Since the writer froze what a read-only mount shows, by the two machines' clocks. */
static double shown_age_ns(struct mount *m)
{
	int64_t age;

	mount_lock(m);
	age = state_head(m->state)->number ? clock_wall(m->clock) - state_head(m->state)->time_ns : 0;
	mount_unlock(m);
	return age > 0 ? (double)age : 0;
}

static void add_following(json_t *j, struct mount *m, const struct follow_status *w)
{
	(void)json_object_set_new(j, "follow", json_string(w->what));
	(void)json_object_set_new(j, "shown_age_seconds", seconds(m->opts.read_only ? shown_age_ns(m) : 0));
	(void)json_object_set_new(j, "looked_seconds", seconds((double)w->looked_ns));
}

static void add_warm(json_t *j, struct mount *m)
{
	struct warm_status w;

	warm_status(m, &w);
	(void)json_object_set_new(j, "warm", json_string(w.what));
	(void)json_object_set_new(j, "warm_why", json_text(w.why));
	(void)json_object_set_new(j, "warm_files", json_integer((json_int_t)w.files));
	(void)json_object_set_new(j, "warm_bytes", json_integer((json_int_t)w.bytes));
}

/* The log is read by one thread, packs by others: the one that has failed for longer is told of. */
static void add_error(json_t *j, const struct commit_status *c, const struct follow_status *w, uint64_t now)
{
	uint64_t lasts_ns = w->failing_since_ns ? now - w->failing_since_ns : 0;
	bool ours = lasts_ns > c->trouble.lasts_ns || !c->trouble.text[0];

	(void)json_object_set_new(j, "error", json_text(ours ? w->error : c->trouble.text));
	(void)json_object_set_new(j, "failing_seconds", seconds((double)(ours ? lasts_ns : c->trouble.lasts_ns)));
}

char *status_json(struct mount *m)
{
	struct follow_status w;
	struct commit_status c;
	struct lanes_counts l;
	struct store_counts s;
	struct park_counts waiting;
	json_t *j = json_object();
	char *text, why_read_only[sizeof(m->why_read_only)];
	bool read_only;

	mount_lock(m);
	read_only = m->read_only != 0;
	memcpy(why_read_only, m->why_read_only, sizeof(why_read_only));
	waiting = park_counts(m);
	mount_unlock(m);
	committer_status(m, &c);
	lanes_counts(m->lanes, &l);
	store_counts(m->store, &s);
	follow_status(m, &w);
	(void)json_object_set_new(j, "pid", json_integer(getpid()));
	(void)json_object_set_new(j, "store", json_text(m->opts.uri));
	(void)json_object_set_new(j, "mode", json_text(status_mode(m, read_only, &c)));
	(void)json_object_set_new(j, "slot", json_integer(m->opts.slot));
	(void)json_object_set_new(j, "slots", json_integer(m->opts.slots));
	(void)json_object_set_new(j, "attempt", json_integer(m->opts.attempt));
	(void)json_object_set_new(j, "story", json_text(m->story));
	(void)json_object_set_new(j, "cache", json_text(m->opts.cache));
	(void)json_object_set_new(j, "cache_bytes", json_integer((json_int_t)content_dir_bytes(m->contents)));
	(void)json_object_set_new(j, "waiting_writers", json_integer(waiting.for_room));
	(void)json_object_set_new(j, "waiting_why", json_string(waiting.for_room ? room_why(m) : ""));
	(void)json_object_set_new(j, "waiting_for_store", json_integer(waiting.for_bytes));
	(void)json_object_set_new(j, "fence", json_integer((json_int_t)m->fence));
	(void)json_object_set_new(j, "commit", json_integer((json_int_t)c.commit));
	(void)json_object_set_new(j, "good", json_integer((json_int_t)c.good));
	(void)json_object_set_new(j, "good_age_seconds", seconds((double)c.good_age_ns));
	(void)json_object_set_new(j, "objection", json_text(c.objection));
	(void)json_object_set_new(j, "held_by", json_text(c.holder));
	(void)json_object_set_new(j, "torn", json_text(c.torn));
	(void)json_object_set_new(j, "commits", json_integer((json_int_t)c.commits));
	(void)json_object_set_new(j, "dirty_bytes", json_integer((json_int_t)c.dirty_bytes));
	(void)json_object_set_new(j, "flush_seconds", flush_seconds(c.dirty_bytes, l.rate_bps));
	(void)json_object_set_new(j, "rate_bytes_per_second", json_integer((json_int_t)l.rate_bps));
	(void)json_object_set_new(j, "sent_bytes", json_integer((json_int_t)l.sent_bytes));
	(void)json_object_set_new(j, "deduped_bytes", json_integer((json_int_t)l.deduped_bytes));
	(void)json_object_set_new(j, "fetched_bytes", json_integer((json_int_t)l.fetched_bytes));
	(void)json_object_set_new(j, "requests",
				  json_pack("{s:I,s:I,s:I,s:I,s:I}", "get", (json_int_t)s.get, "put", (json_int_t)s.put, "list",
					    (json_int_t)s.list, "delete", (json_int_t)s.del, "retries", (json_int_t)s.retries));
	(void)json_object_set_new(j, "errors", json_integer((json_int_t)s.errors));
	add_error(j, &c, &w, mount_now(m));
	add_following(j, m, &w);
	add_warm(j, m);
	(void)json_object_set_new(j, "gauge", json_text(c.gauge));
	(void)json_object_set_new(j, "notice", heed_json(m));
	(void)json_object_set_new(j, "last_notice", report_json(&c.report, m->clock));
	(void)json_object_set_new(j, "fenced", json_boolean(c.fenced));
	(void)json_object_set_new(j, "why_read_only", json_text(why_read_only));
	(void)json_object_set_new(j, "death_detection", json_text(m->death_detection ? "on" : "off"));
	text = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	return text;
}
