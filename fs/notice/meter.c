/* SPDX-License-Identifier: Apache-2.0 */
/* See meter.h. */
#include "fs/notice/meter.h"

static bool is_full(const struct meter_stretch *s)
{
	return s->ns >= METER_MOST_NS || (s->ns >= METER_LEAST_NS && s->bytes >= METER_LEAST_BYTES);
}

void meter_tick(struct meter *m, uint64_t now_ns, uint64_t sent_bytes, bool busy)
{
	if (m->seen_ns && m->busy) {
		m->open.ns += now_ns - m->seen_ns;
		m->open.bytes += sent_bytes - m->seen_bytes;
	}
	m->seen_ns = now_ns;
	m->seen_bytes = sent_bytes;
	m->busy = busy;
	if (!is_full(&m->open))
		return;
	m->closed[m->n++ % METER_STRETCHES] = m->open;
	m->open = (struct meter_stretch){.bytes = 0};
}

static unsigned known(const struct meter *m)
{
	return m->n < METER_STRETCHES ? m->n : METER_STRETCHES;
}

static double rate_of(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns * (double)NS_PER_S : 0;
}

/* The open stretch counts too: a link that breaks down is not to look fast until it closes. */
static double mean(const struct meter *m)
{
	uint64_t bytes = m->open.bytes, ns = m->open.ns;

	for (unsigned i = 0; i < known(m); i++) {
		bytes += m->closed[i].bytes;
		ns += m->closed[i].ns;
	}
	return rate_of(bytes, ns);
}

uint64_t meter_rate(const struct meter *m)
{
	double bps = mean(m);

	return bps > 0 && bps < 1 ? 1 : (uint64_t)bps;
}

/* The mean distance from the mean, which is 0.8 of the deviation of what is spread normally. */
uint64_t meter_spread(const struct meter *m)
{
	double middle = mean(m), off = 0, least = known(m) < 3 ? middle / 4 : 0, spread;

	for (unsigned i = 0; i < known(m); i++) {
		double d = rate_of(m->closed[i].bytes, m->closed[i].ns) - middle;

		off += d < 0 ? -d : d;
	}
	spread = known(m) ? off / known(m) * 1.25 : 0;
	return (uint64_t)(spread > least ? spread : least);
}
