/* SPDX-License-Identifier: Apache-2.0 */
/* See gauge.h.  Numbers are as those of `holdfast status`: powers of ten. */
#include "fs/notice/gauge.h"

#include "base/clock.h"

struct unit {
	const char *name;
	double bytes;
};

static struct unit unit_of(double bytes)
{
	static const struct unit units[] = {
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15}};
	size_t i = 0;

	while (i < sizeof(units) / sizeof(units[0]) - 1 && bytes >= units[i].bytes * 999.5)
		i++;
	return units[i];
}

static void add_number(struct buf *out, double x)
{
	buf_addf(out, x < 9.95 ? "%.1f" : "%.0f", x);
}

static void add_bytes(struct buf *out, double bytes)
{
	struct unit u = unit_of(bytes);

	add_number(out, bytes / u.bytes);
	buf_addf(out, " %s", u.name);
}

/* Never "0 s short". */
static void add_seconds(struct buf *out, uint64_t ns)
{
	uint64_t s = (ns + NS_PER_S / 2) / NS_PER_S;

	buf_addf(out, "%llu s", (unsigned long long)(s ? s : 1));
}

static const char *name_of(const struct gauge *g, int moment)
{
	const char *name = g->names[moment];

	return name && *name ? name : "commit data";
}

/* "3.1 of 9.4 GB sent", or, where it is not known what was sent, "6.3 GB unsent". */
static void add_sent(const struct gauge *g, int moment, struct buf *out)
{
	double left = (double)plan_bytes(g->in, (unsigned)moment),
	       all = (double)g->total_bytes[moment];
	struct unit u = unit_of(all);

	if (all < left) {
		add_bytes(out, left);
		buf_addf(out, " unsent");
		return;
	}
	add_number(out, (all - left) / u.bytes);
	buf_addf(out, " of ");
	add_number(out, all / u.bytes);
	buf_addf(out, " %s sent", u.name);
}

/* What a new machine would go on with. */
static void add_safe(const struct gauge *g, struct buf *out)
{
	if (g->plan->safe >= 0)
		buf_addf(out, "; %s is safe", name_of(g, g->plan->safe));
	else if (g->good_name)
		buf_addf(out, "; %s is safe", *g->good_name ? g->good_name : "the good moment");
	else
		buf_addf(out, "; nothing is safe yet");
}

static void add_loss(const struct gauge *g, struct buf *out)
{
	buf_addf(out, "%s %s (", g->runs ? "loses" : "would lose", name_of(g, g->plan->lost));
	add_sent(g, g->plan->lost, out);
	if (g->plan->short_ns == PLAN_UNKNOWN) {
		buf_addf(out, ", rate not known yet)");
	} else {
		buf_addf(out, ", ");
		add_seconds(out, g->plan->short_ns);
		buf_addf(out, " short)");
	}
	add_safe(g, out);
}

/* Nothing that would be good is lost.  What is still being written, or a set that grows, is no
 * moment to lose. */
static void add_all(const struct gauge *g, struct buf *out)
{
	const struct plan_step *last = g->plan->n ? &g->plan->steps[g->plan->n - 1] : NULL;

	buf_addf(out, last ? "all durable in " : "everything is durable");
	if (last)
		add_seconds(out, last->ends_ns);
	if (last && !g->runs)
		buf_addf(out, " of %llu", (unsigned long long)(g->in->left_ns / NS_PER_S));
	if (last && last->chance != PLAN_SURE)
		buf_addf(out, ", if the link holds");
	if (g->plan->salvage_n > 0)
		buf_addf(out, ", but for what is not finished");
}

void gauge_words(const struct gauge *g, struct buf *out)
{
	if (g->runs)
		buf_addf(out, "a notice runs, %llu s left: ",
			 (unsigned long long)(g->in->left_ns / NS_PER_S));
	else
		buf_addf(out, "a notice now: ");
	if (g->plan->lost >= 0)
		add_loss(g, out);
	else
		add_all(g, out);
}

bool gauge_warning(const struct gauge *g, struct buf *out)
{
	int lost = g->plan->lost;

	if (lost < 0 || g->plan->short_ns == PLAN_UNKNOWN)
		return false;
	buf_addf(out, "%s (", name_of(g, lost));
	add_bytes(out, (double)(g->total_bytes[lost] ? g->total_bytes[lost]
						     : plan_bytes(g->in, (unsigned)lost)));
	buf_addf(out, ") does not fit a notice of %llu s at ",
		 (unsigned long long)(g->in->left_ns / NS_PER_S));
	add_bytes(out, (double)g->in->rate_bps);
	buf_addf(out, "/s: ");
	add_seconds(out, g->plan->short_ns);
	buf_addf(out, " short; what helps: smaller saves (fewer states, sharded, compressed), a "
		      "faster network, "
		      "or saving so rarely that each is sent before the next");
	return true;
}
