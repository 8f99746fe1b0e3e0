/* SPDX-License-Identifier: Apache-2.0 */
/* See publish.h. */
#include "fs/publish.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cond.h"
#include "base/features.h"
#include "base/log.h"
#include "fs/commit.h"
#include "fs/metrics.h"
#include "fs/notice/heed.h"
#include "fs/park.h"
#include "fs/status.h"

#define EVERY_NS   (15 * NS_PER_S)
#define FLUSHED_NS NS_PER_S

struct publisher {
	struct mount *m;
	pthread_t thread;
	bool failed; /* the thread's: the log has it */
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t end;
	bool ending;
};

static double seconds(uint64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

static void add_notice(struct mount *m, struct metrics *x)
{
	struct notice_view v;
	uint64_t now = mount_now(m);

	heed_look(m, &v);
	x->notice_runs = v.phase == NOTICE_RUNS;
	x->notice_hint = v.phase == NOTICE_HINT;
	x->notice_left_s = x->notice_runs && v.deadline_ns > now ? seconds(v.deadline_ns - now) : 0;
	x->notices = v.number;
}

static void add_counts(struct mount *m, struct metrics *x)
{
	struct lanes_counts l;
	struct store_counts s;

	lanes_counts(m->lanes, &l);
	store_counts(m->store, &s);
	x->rate_bps = l.rate_bps;
	x->sent_bytes = l.sent_bytes;
	x->deduped_bytes = l.deduped_bytes;
	x->fetched_bytes = l.fetched_bytes;
	x->gets = s.get;
	x->puts = s.put;
	x->lists = s.list;
	x->deletes = s.del;
	x->retries = s.retries;
	x->errors = s.errors;
}

static double flush_s(uint64_t dirty, uint64_t rate)
{
	if (dirty == 0)
		return 0;
	return rate ? (double)dirty / (double)rate : NAN;
}

static int write_once(struct mount *m, struct fault *f)
{
	scoped(buf_fini) struct buf text = BUF_EMPTY;
	struct metrics x = {.mount = m->opts.dir, .version = PACKAGE_VERSION, .store = m->opts.uri};
	struct commit_status c;

	committer_status(m, &c);
	add_counts(m, &x);
	add_notice(m, &x);
	mount_lock(m);
	x.read_only = m->read_only != 0;
	x.waiting_writers = park_counts(m).for_room;
	mount_unlock(m);
	x.mode = status_mode(m, x.read_only, &c);
	x.dirty_bytes = c.dirty_bytes;
	x.flush_s = flush_s(c.dirty_bytes, x.rate_bps);
	x.good_age_s = seconds(c.good_age_ns);
	x.failing_s = seconds(c.trouble.lasts_ns);
	x.commit = c.commit;
	x.good = c.good;
	x.commits = c.commits;
	x.fenced = c.fenced;
	x.cache_bytes = content_dir_bytes(m->contents);
	x.loss_bytes = c.lost_bytes;
	x.short_s = seconds(c.short_ns);
	metrics_text(&x, &text);
	if (!buf_ok(&text))
		return fault_errno(f, -ENOMEM, "metrics");
	return metrics_write(m->opts.metrics, &text, f);
}

static bool wait_for_next(struct publisher *p)
{
	uint64_t until = mount_now(p->m) + EVERY_NS;
	bool ending;

	pthread_mutex_lock(&p->lock);
	/* A second at a time: a notice may begin meanwhile. */
	while (!p->ending && mount_now(p->m) < until) {
		(void)cond_wait_until(&p->end, &p->lock, mount_now(p->m) + FLUSHED_NS);
		if (p->m->flushing)
			break;
	}
	ending = p->ending;
	pthread_mutex_unlock(&p->lock);
	return !ending;
}

static void *publish_main(void *arg)
{
	struct publisher *p = arg;

	while (wait_for_next(p)) {
		struct fault f = FAULT_NONE;
		bool failed = write_once(p->m, &f) < 0;

		if (failed && !p->failed)
			log_warn("metrics: %s", f.text);
		p->failed = failed;
	}
	metrics_remove(p->m->opts.metrics);
	return NULL;
}

/* A file of our own would change the mount each time it is written. */
static bool is_inside(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int publish_start(struct mount *m, struct publisher **out, struct fault *f)
{
	struct publisher *p;
	int rc;

	*out = NULL;
	if (!m->opts.metrics)
		return 0;
	if (is_inside(m->opts.metrics, m->opts.dir))
		return fault_set(f, -EINVAL, FAULT_FINAL, "option metrics=%s: lies in the mount",
				 m->opts.metrics);
	rc = write_once(m, f);
	if (rc < 0)
		return fault_in(f, "option metrics");
	p = calloc(1, sizeof(*p));
	if (!p)
		return fault_errno(f, -ENOMEM, "metrics");
	p->m = m;
	(void)pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->end);
	rc = -pthread_create(&p->thread, NULL, publish_main, p);
	if (rc == 0) {
		*out = p;
		return 0;
	}
	(void)pthread_cond_destroy(&p->end);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
	return fault_errno(f, rc, "metrics thread");
}

void publish_end(struct publisher *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_signal(&p->end);
	pthread_mutex_unlock(&p->lock);
	(void)pthread_join(p->thread, NULL);
	(void)pthread_cond_destroy(&p->end);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}
