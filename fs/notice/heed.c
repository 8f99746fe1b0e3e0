/* SPDX-License-Identifier: Apache-2.0 */
/* See heed.h. */
#include "fs/notice/heed.h"

#include <errno.h>

#include "base/jsontext.h"
#include "base/log.h"
#include "fs/notice/call.h"
#include "fs/notice/report.h"

#define HINT_NS (120 * NS_PER_S) /* that a command may take for one */

struct heed {
	struct notice *notice;
	/* the committer's */
	struct call *call;      /* the newest */
	uint64_t number, hints; /* that were seen */
	/* under the mount's lock */
	uint64_t called_ns, answered_ns; /* 0: not, for this notice */
};

int heed_open(struct mount *m, struct fault *f)
{
	struct notice_conf conf = {.where = m->opts.notice.where,
				   .file = m->opts.notice.file,
				   .margin_most_ns = m->opts.notice.margin_ns};
	struct heed *h = calloc(1, sizeof(*h));
	int rc = h ? notice_open(&conf, &h->notice, f) : fault_errno(f, -ENOMEM, "notices");

	m->heed = h;
	if (rc < 0)
		heed_close(m);
	return rc;
}

void heed_close(struct mount *m)
{
	struct heed *h = take(&m->heed);

	if (!h)
		return;
	notice_close(h->notice);
	call_end(h->call);
	free(h);
}

void heed_look(struct mount *m, struct notice_view *out)
{
	*out = (struct notice_view){.phase = NOTICE_CALM};
	if (m->heed)
		notice_look(m->heed->notice, out);
}

/* ---- whoever trains ---- */

static void call_trainer(struct mount *m, const struct notice_view *v, const char *kind)
{
	struct call_conf conf = {.exec = m->opts.notice.exec,
				 .signal = m->opts.notice.signal,
				 .pid = m->opts.notice.pid,
				 .mount = m->opts.dir,
				 .kind = kind};
	struct heed *h = m->heed;
	struct fault f = FAULT_NONE;
	uint64_t now = mount_now(m);

	conf.flush_by_ns = v->phase == NOTICE_RUNS ? v->flush_by_ns : now + HINT_NS;
	conf.kill_ns = v->phase == NOTICE_RUNS ? v->deadline_ns : now + HINT_NS;
	if (v->phase != NOTICE_RUNS && call_signal_ends(conf.signal))
		conf.signal = 0;
	if (!conf.exec && !conf.signal)
		return;
	call_end(take(&h->call));
	mount_lock(m);
	h->called_ns = now;
	mount_unlock(m);
	if (call_start(&conf, &h->call, &f) < 0)
		log_error("notice: %s", f.text);
}

/* Under lock. */
static void answered(struct heed *h, uint64_t now)
{
	if (h->answered_ns)
		return;
	h->answered_ns = now;
	log_info("notice: the trainer has answered");
}

/* Has one of those who were signalled saved since? */
static void look_for_answer(struct mount *m)
{
	struct heed *h = m->heed;

	mount_lock(m);
	if (h->called_ns && !h->answered_ns && m->last_seal_ns > h->called_ns && h->call &&
	    call_reached(h->call, m->last_seal_tgid))
		answered(h, m->last_seal_ns);
	mount_unlock(m);
}

static void forget_answer(struct mount *m)
{
	mount_lock(m);
	m->heed->called_ns = m->heed->answered_ns = 0;
	mount_unlock(m);
}

void heed_attend(struct mount *m, struct notice_view *out)
{
	struct heed *h = m->heed;

	heed_look(m, out);
	if (!h)
		return;
	if (out->phase == NOTICE_RUNS && h->number != out->number) {
		forget_answer(m);
		if (!out->at_once)
			call_trainer(m, out, notice_kind_name(out->kind));
	} else if (out->phase == NOTICE_HINT && h->hints != out->hints) {
		forget_answer(m);
		call_trainer(m, out, notice_kind_name(NOTICE_REBALANCE));
	}
	h->number = out->number;
	h->hints = out->hints;
	look_for_answer(m);
}

int heed_answered(struct mount *m)
{
	struct notice_view v;
	bool asked;

	heed_look(m, &v);
	if (!m->heed)
		return -EROFS;
	mount_lock(m);
	asked = m->heed->called_ns || v.phase != NOTICE_CALM;
	if (asked)
		answered(m->heed, mount_now(m));
	mount_unlock(m);
	return asked ? 0 : -ESRCH;
}

/* ---- who tells ---- */

int heed_tell(struct mount *m, uint64_t left_ns)
{
	if (!m->heed)
		return -EROFS;
	notice_tell(m->heed->notice, left_ns);
	return 0;
}

int heed_cancel(struct mount *m)
{
	if (!m->heed)
		return -EROFS;
	notice_cancel(m->heed->notice);
	return 0;
}

/* ---- for status ---- */

static double left_s(uint64_t until_ns, uint64_t now_ns)
{
	return until_ns > now_ns ? (double)((until_ns - now_ns) / NS_PER_MS) / 1e3 : 0;
}

static const char *phase_name(enum notice_phase phase)
{
	return phase == NOTICE_RUNS ? "runs" : phase == NOTICE_HINT ? "hint" : "calm";
}

const char *heed_trainer(struct mount *m)
{
	const char *state = "";

	mount_lock(m);
	if (m->heed && m->heed->answered_ns)
		state = "answered";
	else if (m->heed && m->heed->called_ns)
		state = "called";
	mount_unlock(m);
	return state;
}

json_t *heed_json(struct mount *m)
{
	char words[NOTICE_WORDS_MAX] = "none";
	uint64_t now = mount_now(m);
	struct notice_view v;
	bool runs;

	heed_look(m, &v);
	runs = v.phase == NOTICE_RUNS;
	if (m->heed && !runs)
		(void)notice_words(m->heed->notice, words);
	return json_pack("{s:s,s:I,s:s,s:o,s:f,s:o,s:s}", "phase", phase_name(v.phase), "number",
			 (json_int_t)v.number, "kind", runs ? notice_kind_name(v.kind) : "",
			 "source",
			 runs ? json_string(notice_voice_name(v.voice)) : json_text(words),
			 "seconds_left", runs ? left_s(v.deadline_ns, now) : 0.0, "deadline",
			 runs ? report_time(m->clock, v.deadline_ns) : json_string(""), "trainer",
			 heed_trainer(m));
}
