/* SPDX-License-Identifier: Apache-2.0 */
/* See pace.h. */
#include "fs/lane/pace.h"

void pace_answer(struct pace *p, uint64_t took_ns)
{
	if (p->answers++ == 0)
		p->usual_ns = took_ns;
	else
		p->usual_ns = p->usual_ns - p->usual_ns / 8 + took_ns / 8;
}

bool pace_is_late(const struct pace *p, uint64_t ns)
{
	uint64_t least = p->answers < PACE_KNOWN ? PACE_NEW_NS : PACE_LEAST_NS;

	return ns >= least && ns >= PACE_TIMES * p->usual_ns;
}

bool pace_may_ask(const struct pace *p)
{
	return p->seconds < PACE_SPARE + p->answers / PACE_SHARE;
}

void pace_asked(struct pace *p)
{
	p->seconds++;
}
