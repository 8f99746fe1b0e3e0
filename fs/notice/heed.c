/* SPDX-License-Identifier: Apache-2.0 */
/* See heed.h. */
#include "fs/notice/heed.h"

#include <errno.h>
#include <time.h>

#include "base/jsontext.h"

struct heed {
	struct notice *notice;
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
	free(h);
}

void heed_look(struct mount *m, struct notice_view *out)
{
	*out = (struct notice_view){.phase = NOTICE_CALM};
	if (m->heed)
		notice_look(m->heed->notice, out);
}

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

/* By the wall clock, which those who read it go by: "2026-11-30T17:25:00Z". */
static json_t *wall_time(const struct mount *m, uint64_t at_ns, uint64_t now_ns)
{
	time_t at = (time_t)((clock_wall(m->clock) + (int64_t)(at_ns - now_ns)) / (int64_t)NS_PER_S);
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&at, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm); /* a year has four digits */
	return json_string(text);
}

static const char *phase_name(enum notice_phase phase)
{
	return phase == NOTICE_RUNS ? "runs" : phase == NOTICE_HINT ? "hint" : "calm";
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
	return json_pack("{s:s,s:I,s:s,s:o,s:f,s:o}", "phase", phase_name(v.phase), "number",
			 (json_int_t)v.number, "kind", runs ? notice_kind_name(v.kind) : "", "source",
			 runs ? json_string(notice_voice_name(v.voice)) : json_text(words), "seconds_left",
			 runs ? left_s(v.deadline_ns, now) : 0.0, "deadline",
			 runs ? wall_time(m, v.deadline_ns, now) : json_string(""));
}
