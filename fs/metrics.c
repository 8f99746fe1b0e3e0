/* SPDX-License-Identifier: Apache-2.0 */
/* See metrics.h. */
#include "fs/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jsontext.h"

enum value { COUNT, REAL, FLAG };

/* One row a family of one sample. */
static const struct family {
	const char *name, *type, *help;
	enum value value;
	size_t at;
} families[] = {
#define ROW(name, type, value, field, help) {"holdfast_" name, type, help, value, offsetof(struct metrics, field)}
	ROW("dirty_bytes",               "gauge",   COUNT, dirty_bytes,     "Bytes that are not in the store yet."),
	ROW("flush_seconds",             "gauge",   REAL,  flush_s,         "Time that sending them would take at the measured rate; NaN while there is none."),
	ROW("upload_bytes_per_second",   "gauge",   COUNT, rate_bps,        "Measured rate of sending while there was something to send; 0 while unknown."),
	ROW("good_age_seconds",          "gauge",   REAL,  good_age_s,      "Age of the moment that a new machine would go on with, while there is more than it holds."),
	ROW("failing_seconds",           "gauge",   REAL,  failing_s,       "For how long nothing has got through to the store."),
	ROW("commit",                    "gauge",   COUNT, commit,          "Number of the newest commit."),
	ROW("good_commit",               "gauge",   COUNT, good,            "Number of the commit that a new machine would go on with."),
	ROW("cache_bytes",               "gauge",   COUNT, cache_bytes,     "Bytes of content in the cache."),
	ROW("waiting_writers",           "gauge",   COUNT, waiting_writers, "Writers that wait for room in the cache."),
	ROW("read_only",                 "gauge",   FLAG,  read_only,       "1 while the mount refuses changes."),
	ROW("fenced",                    "gauge",   FLAG,  fenced,          "1 once another writer has taken over."),
	ROW("notice_loss_bytes",         "gauge",   COUNT, loss_bytes,      "Unsent bytes of the newest save that an interruption notice now would lose; 0 if none."),
	ROW("notice_short_seconds",      "gauge",   REAL,  short_s,         "Time that a notice now would be too short for it."),
	ROW("notice_active",             "gauge",   FLAG,  notice_runs,     "1 while a notice of interruption runs."),
	ROW("notice_hint_active",        "gauge",   FLAG,  notice_hint,     "1 while the cloud says that an interruption is likely."),
	ROW("notice_left_seconds",       "gauge",   REAL,  notice_left_s,   "Time to the deadline of the notice that runs."),
	ROW("notices_total",             "counter", COUNT, notices,         "Notices of interruption."),
	ROW("commits_total",             "counter", COUNT, commits,         "Commits made."),
	ROW("errors_total",              "counter", COUNT, errors,          "Requests to the store that failed."),
	ROW("sent_bytes_total",          "counter", COUNT, sent_bytes,      "Bytes sent to the store in packs."),
	ROW("deduplicated_bytes_total",  "counter", COUNT, deduped_bytes,   "Bytes that were not sent since the store has them."),
	ROW("fetched_bytes_total",       "counter", COUNT, fetched_bytes,   "Bytes fetched from the store."),
	ROW("store_retries_total",       "counter", COUNT, retries,         "Requests to the store that were tried again."),
#undef ROW
};

/* ---- text ---- */

static void add_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Label values are UTF-8 with three escapes. */
static void add_label(struct buf *out, const char *name, const char *text)
{
	json_t *clean = json_text(text ? text : "");
	const char *s = clean ? json_string_value(clean) : "";

	buf_addf(out, "%s=\"", name);
	for (; *s; s++) {
		if (*s == '\n')
			buf_addf(out, "\\n");
		else if (*s == '"' || *s == '\\')
			buf_addf(out, "\\%c", *s);
		else
			buf_add(out, s, 1);
	}
	buf_addf(out, "\"");
	json_decref(clean);
}

static void add_count(struct buf *out, uint64_t count)
{
	buf_addf(out, " %llu\n", (unsigned long long)count);
}

static void add_value(struct buf *out, const struct family *f, const struct metrics *m)
{
	const char *field = (const char *)m + f->at;
	double real;

	switch (f->value) {
	case COUNT:
		add_count(out, *(const uint64_t *)(const void *)field);
		break;
	case FLAG:
		add_count(out, *(const bool *)field);
		break;
	case REAL:
		real = *(const double *)(const void *)field;
		if (real != real)
			buf_addf(out, " NaN\n");
		else
			buf_addf(out, " %.3f\n", real);
		break;
	}
}

static void add_info(struct buf *out, const struct metrics *m)
{
	add_head(out, "holdfast_info", "gauge", "What is mounted; always 1.");
	buf_addf(out, "holdfast_info{");
	add_label(out, "mount", m->mount);
	buf_addf(out, ",");
	add_label(out, "version", m->version);
	buf_addf(out, ",");
	add_label(out, "store", m->store);
	buf_addf(out, ",");
	add_label(out, "mode", m->mode);
	buf_addf(out, "} 1\n");
}

static void add_requests(struct buf *out, const struct metrics *m)
{
	static const char name[] = "holdfast_store_requests_total";
	const struct {
		const char *method;
		uint64_t n;
	} rows[] = {{"get", m->gets}, {"put", m->puts}, {"list", m->lists}, {"delete", m->deletes}};

	add_head(out, name, "counter", "Requests to the store, by kind.");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		buf_addf(out, "%s{", name);
		add_label(out, "mount", m->mount);
		buf_addf(out, ",method=\"%s\"}", rows[i].method);
		add_count(out, rows[i].n);
	}
}

void metrics_text(const struct metrics *m, struct buf *out)
{
	add_info(out, m);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct family *f = &families[i];

		add_head(out, f->name, f->type, f->help);
		buf_addf(out, "%s{", f->name);
		add_label(out, "mount", m->mount);
		buf_addf(out, "}");
		add_value(out, f, m);
	}
	add_requests(out, m);
}

/* ---- file ---- */

static int write_all(int fd, const struct buf *text)
{
	size_t done = 0;

	while (done < text->len) {
		ssize_t n = write(fd, text->data + done, text->len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int write_aside(const char *path, const struct buf *text)
{
	scoped(fd_close) int fd = -1;

	if (unlink(path) < 0 && errno != ENOENT) /* whoever left it, and whatever it is */
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0) /* the collector is another user, whatever our umask */
		return -errno;
	return write_all(fd, text);
}

int metrics_write(const char *path, const struct buf *text, struct fault *f)
{
	scoped(buf_fini) struct buf aside = BUF_EMPTY;
	int rc;

	buf_addf(&aside, "%s.new", path);
	if (!buf_ok(text) || !buf_ok(&aside))
		return fault_set(f, -ENOMEM, FAULT_SOON, "metrics file %s: out of memory", path);
	rc = write_aside(buf_str(&aside), text);
	if (rc == 0 && rename(buf_str(&aside), path) < 0)
		rc = -errno;
	return rc < 0 ? fault_errno(f, rc, "metrics file %s", path) : 0;
}

void metrics_remove(const char *path)
{
	(void)unlink(path); /* it may never have been written */
}
