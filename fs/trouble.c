/* SPDX-License-Identifier: Apache-2.0 */
/* See trouble.h. */
#include "fs/trouble.h"

#include <stdio.h>

#define SILENT_NS (2 * NS_PER_S) /* well below what a person gives us with --timeout */

static void lasts(struct trouble *t, uint64_t now_ns, uint64_t since_ns)
{
	if (now_ns > since_ns && now_ns - since_ns > t->lasts_ns)
		t->lasts_ns = now_ns - since_ns;
}

static void take_text(struct trouble *t, const char *text)
{
	if (!t->text[0])
		(void)snprintf(t->text, sizeof(t->text), "%s", text);
}

void trouble_find(struct mount *m, const struct fault *commit, struct trouble *out)
{
	struct lanes_counts l;
	struct store_silence s;
	uint64_t now_ns = mount_now(m);

	*out = (struct trouble){.lasts_ns = 0};
	if (commit->code)
		take_text(out, commit->text);
	if (m->cache_deleted)
		take_text(out, m->why_read_only);
	lanes_counts(m->lanes, &l);
	if (l.failing_since_ns) {
		take_text(out, l.last_error);
		lasts(out, now_ns, (uint64_t)l.failing_since_ns);
	}
	if (store_silent(m->store, SILENT_NS, &s)) {
		take_text(out, s.text);
		lasts(out, now_ns, s.since_ns);
	}
}
