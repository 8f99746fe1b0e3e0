/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. */
#include "fs/notice/report.h"

#include <time.h>

#include "base/jsontext.h"

/* Since 1970. */
static int64_t wall_ms(const struct clock *clock, uint64_t at_ns)
{
	return (clock_wall(clock) + (int64_t)(at_ns - clock_mono(clock))) / (int64_t)NS_PER_MS;
}

void report_begin(struct report *r, const struct notice_view *v, const struct clock *clock)
{
	*r = (struct report){.number = v->number,
			     .seen_ns = v->seen_ns,
			     .seen_ms = wall_ms(clock, v->seen_ns),
			     .trainer = ""};
}

json_t *report_time(const struct clock *clock, uint64_t at_ns)
{
	time_t at = (time_t)(wall_ms(clock, at_ns) / 1000);
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&at, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ",
			       &tm); /* a year has four digits */
	return json_string(text);
}

/* How long before the deadline; less than 0: after it. */
static double seconds_left(const struct report *r, uint64_t at_ns)
{
	return (double)((int64_t)(r->deadline_ns - at_ns) / (int64_t)NS_PER_MS) / 1e3;
}

json_t *report_json(const struct report *r, const struct clock *clock)
{
	json_t *j = r->number ? json_object() : json_null();

	if (!r->number || !j)
		return j;
	(void)json_object_set_new(j, "number", json_integer((json_int_t)r->number));
	(void)json_object_set_new(j, "kind", json_string(notice_kind_name(r->kind)));
	(void)json_object_set_new(j, "source", json_string(notice_voice_name(r->voice)));
	(void)json_object_set_new(j, "seen", report_time(clock, r->seen_ns));
	(void)json_object_set_new(j, "deadline", report_time(clock, r->deadline_ns));
	(void)json_object_set_new(j, "trainer", json_string(r->trainer));
	(void)json_object_set_new(j, "good", json_integer((json_int_t)r->good));
	(void)json_object_set_new(j, "brought", json_text(r->name));
	(void)json_object_set_new(j, "durable",
				  r->good ? report_time(clock, r->durable_ns) : json_string(""));
	(void)json_object_set_new(j, "durable_seconds_left",
				  r->good ? json_real(seconds_left(r, r->durable_ns))
					  : json_null());
	(void)json_object_set_new(j, "left_bytes", json_integer((json_int_t)r->left_bytes));
	return j;
}
