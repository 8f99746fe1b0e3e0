/* SPDX-License-Identifier: Apache-2.0 */
/* See status_text.h. */
#include "tools/status_text.h"

#include <string.h>

#include "tools/words.h"

static const char *text_of(const json_t *status, const char *key)
{
	const char *text = json_string_value(json_object_get(status, key));

	return text ? text : "";
}

static double number_of(const json_t *status, const char *key)
{
	return json_number_value(json_object_get(status, key));
}

static long long count_of(const json_t *status, const char *key)
{
	return (long long)json_integer_value(json_object_get(status, key));
}

static void add_mode(const json_t *status, struct buf *out)
{
	const char *story = text_of(status, "story"), *why = text_of(status, "why_read_only");

	buf_addf(out, "mode     %s", text_of(status, "mode"));
	if (count_of(status, "slots") > 1)
		buf_addf(out, ", slot %lld of %lld", count_of(status, "slot"), count_of(status, "slots"));
	if (*story)
		buf_addf(out, "; %s", story);
	if (*why)
		buf_addf(out, "; %s", why);
	buf_addf(out, "\n");
}

static bool has_all(const json_t *status)
{
	return count_of(status, "good") == count_of(status, "commit") &&
	       number_of(status, "dirty_bytes") <= 0;
}

/* "commit 42, 12 s old".  The age counts while there is more; it is 0 for what an earlier mount froze. */
static void add_good(const json_t *status, struct buf *out)
{
	long long good = count_of(status, "good"), commit = count_of(status, "commit");
	double age = number_of(status, "good_age_seconds");
	char span[WORDS_MAX];

	if (!good && !commit)
		buf_addf(out, "none yet");
	else if (!good)
		buf_addf(out, "none yet; the newest commit is %lld", commit);
	else if (age > 0)
		buf_addf(out, "commit %lld, %s old", good, words_span(age, span));
	else
		buf_addf(out, "commit %lld%s", good,
			 has_all(status) ? ", which holds everything" : "");
}

static void add_unsent(const json_t *status, struct buf *out)
{
	const json_t *flush = json_object_get(status, "flush_seconds");
	double dirty = number_of(status, "dirty_bytes");
	char bytes[WORDS_MAX], rate[WORDS_MAX], span[WORDS_MAX];

	if (dirty <= 0) {
		buf_addf(out, "nothing");
		return;
	}
	buf_addf(out, "%s", words_bytes(dirty, bytes));
	if (json_is_number(flush))
		buf_addf(out, ", %s to flush at %s/s", words_span(json_number_value(flush), span),
			 words_bytes(number_of(status, "rate_bytes_per_second"), rate));
	else
		buf_addf(out, ", time to flush not known yet");
}

/* What keeps the newest from being good. */
static const char *obstacle(const json_t *status)
{
	const char *objection = text_of(status, "objection");

	return *objection ? objection : text_of(status, "held_by");
}

/* "3 writers wait: the disk of the cache is full"; false: none does. */
static bool add_writers(const json_t *status, struct buf *out, const char *head)
{
	long long n = count_of(status, "waiting_writers");

	if (n > 0)
		buf_addf(out, "%s%lld %s: %s", head, n, n == 1 ? "writer waits" : "writers wait", text_of(status, "waiting_why"));
	return n > 0;
}

static bool has_error(const json_t *status)
{
	return *text_of(status, "error") != '\0';
}

static void add_error(const json_t *status, struct buf *out)
{
	double failing = number_of(status, "failing_seconds");
	char span[WORDS_MAX];

	buf_addf(out, "%s", text_of(status, "error"));
	if (failing > 0)
		buf_addf(out, "; for %s now", words_span(failing, span));
	if (count_of(status, "errors") > 1)
		buf_addf(out, "; %lld errors in all", count_of(status, "errors"));
}

/* A mount that only looks has nothing to send. */
static bool only_looks(const json_t *status)
{
	return strcmp(text_of(status, "mode"), "read-only") == 0;
}

/* "commit 42, 12 s old; follows the good moment, last looked 3 s ago". */
static void add_shown(const json_t *status, struct buf *out)
{
	const char *follow = text_of(status, "follow");
	double age = number_of(status, "shown_age_seconds");
	char span[WORDS_MAX];

	if (count_of(status, "commit"))
		buf_addf(out, "commit %lld", count_of(status, "commit"));
	else
		buf_addf(out, "nothing, there is no good moment");
	if (age > 0)
		buf_addf(out, ", %s old", words_span(age, span));
	if (strcmp(follow, "off") == 0)
		buf_addf(out, "; does not follow");
	else if (*follow)
		buf_addf(out, "; follows %s, last looked %s ago",
			 strcmp(follow, "newest") == 0 ? "the newest commit" : "the good moment",
			 words_span(number_of(status, "looked_seconds"), span));
}

/* "a notice runs, 87 s left: all durable in 14 s (terminate by EC2 spot/instance-action)". */
static void add_gauge(const json_t *status, struct buf *out)
{
	const json_t *notice = json_object_get(status, "notice");
	const char *phase = text_of(notice, "phase");

	buf_addf(out, "%s", text_of(status, "gauge"));
	if (strcmp(phase, "runs") == 0)
		buf_addf(out, " (%s by %s)", text_of(notice, "kind"), text_of(notice, "source"));
	else if (strcmp(phase, "hint") == 0)
		buf_addf(out, "; the risk of an interruption is higher");
}

static bool notice_runs(const json_t *status)
{
	return strcmp(text_of(json_object_get(status, "notice"), "phase"), "runs") == 0;
}

/* "notice 1: step-1200/ durable at T-41 s; the trainer answered; 12 MB left". */
static void add_last_notice(const json_t *last, struct buf *out)
{
	const char *brought = text_of(last, "brought"), *trainer = text_of(last, "trainer");
	double left = number_of(last, "left_bytes");
	char bytes[WORDS_MAX];

	buf_addf(out, "notice %lld: ", count_of(last, "number"));
	if (count_of(last, "good"))
		buf_addf(out, "%s durable at T-%.0f s", *brought ? brought : "everything",
			 number_of(last, "durable_seconds_left"));
	else
		buf_addf(out, "nothing more became durable");
	if (*trainer)
		buf_addf(out, "; the trainer %s", strcmp(trainer, "answered") == 0 ? "answered" : "did not answer");
	if (left > 0)
		buf_addf(out, "; %s left", words_bytes(left, bytes));
}

static void add_progress(const json_t *status, struct buf *out)
{
	buf_addf(out, "good     ");
	add_good(status, out);
	buf_addf(out, "\nunsent   ");
	add_unsent(status, out);
	buf_addf(out, "\n");
}

void status_text(const json_t *status, struct buf *out)
{
	const json_t *last = json_object_get(status, "last_notice");
	char bytes[WORDS_MAX];

	buf_addf(out, "store    %s\n", text_of(status, "store"));
	add_mode(status, out);
	if (only_looks(status)) {
		buf_addf(out, "shows    ");
		add_shown(status, out);
		buf_addf(out, "\n");
	} else {
		add_progress(status, out);
	}
	if (*text_of(status, "gauge")) {
		buf_addf(out, "notice   ");
		add_gauge(status, out);
		buf_addf(out, "\n");
	}
	if (json_is_object(last)) {
		buf_addf(out, "last     ");
		add_last_notice(last, out);
		buf_addf(out, "\n");
	}
	if (*obstacle(status))
		buf_addf(out, "waiting  %s\n", obstacle(status));
	if (add_writers(status, out, "full     "))
		buf_addf(out, "\n");
	if (has_error(status)) {
		buf_addf(out, "error    ");
		add_error(status, out);
		buf_addf(out, "\n");
	}
	buf_addf(out, "cache    %s, %s\n", text_of(status, "cache"),
		 words_bytes(number_of(status, "cache_bytes"), bytes));
}

void status_line(const json_t *status, struct buf *out)
{
	if (only_looks(status)) {
		buf_addf(out, "shows ");
		add_shown(status, out);
	} else {
		buf_addf(out, "good ");
		add_good(status, out);
		buf_addf(out, "; unsent ");
		add_unsent(status, out);
	}
	if (notice_runs(status)) {
		buf_addf(out, "; ");
		add_gauge(status, out);
	}
	if (*obstacle(status))
		buf_addf(out, "; waiting: %s", obstacle(status));
	(void)add_writers(status, out, "; full: ");
	if (has_error(status)) {
		buf_addf(out, "; error: ");
		add_error(status, out);
	}
	buf_addf(out, "\n");
}
