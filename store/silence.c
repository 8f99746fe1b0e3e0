/* SPDX-License-Identifier: Apache-2.0 */
/* See silence.h. */
#include "store/silence.h"

#include <errno.h>
#include <stdio.h>

void silence_init(struct silence *s)
{
	*s = (struct silence){.oldest = NULL};
	pthread_mutex_init(&s->lock, NULL);
}

void silence_fini(struct silence *s)
{
	pthread_mutex_destroy(&s->lock);
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

void silence_begins(struct silence *s, struct object_req *r, uint64_t now_ns)
{
	pthread_mutex_lock(&s->lock);
	r->priv.older = s->newest;
	r->priv.newer = NULL;
	if (s->newest)
		s->newest->priv.newer = r;
	else
		s->oldest = r;
	s->newest = r;
	if (s->from_ns == 0)
		s->from_ns = now_ns;
	pthread_mutex_unlock(&s->lock);
}

void silence_ends(struct silence *s, struct object_req *r, bool answered)
{
	pthread_mutex_lock(&s->lock);
	if (r->priv.older)
		r->priv.older->priv.newer = r->priv.newer;
	else
		s->oldest = r->priv.newer;
	if (r->priv.newer)
		r->priv.newer->priv.older = r->priv.older;
	else
		s->newest = r->priv.older;
	if (!s->oldest && (answered || !s->said[0])) /* nothing is open, and nothing is known to be wrong */
		s->from_ns = 0;
	pthread_mutex_unlock(&s->lock);
}

/* Nobody was reached, or nobody spoke. */
static bool is_of_network(const struct object_req *r)
{
	return r->rc == -ECONNREFUSED || r->rc == -ECONNRESET || r->rc == -ETIMEDOUT ||
	       r->rc == -EHOSTUNREACH;
}

void silence_tried(struct silence *s, const struct object_req *r, uint64_t now_ns)
{
	pthread_mutex_lock(&s->lock);
	if (is_of_network(r)) {
		(void)snprintf(s->said, sizeof(s->said), "%.*s", (int)sizeof(s->said) - 1,
			       r->fault.text);
	} else {
		s->from_ns = now_ns;
		s->said[0] = '\0';
	}
	pthread_mutex_unlock(&s->lock);
}

/* Under lock. */
static void describe(const struct silence *s, char *text, size_t cap)
{
	const struct object_req *r = s->oldest;

	if (s->said[0])
		(void)snprintf(text, cap, "the store does not answer: %s", s->said);
	else
		(void)snprintf(text, cap, "the store does not answer: %s %.120s",
			       object_op_name(r->op), r->key);
}

bool silence_look(struct silence *s, uint64_t now_ns, uint64_t least_ns, struct store_silence *out)
{
	uint64_t since_ns, moved_ns;
	bool silent;

	pthread_mutex_lock(&s->lock);
	since_ns = later(s->from_ns, s->pulse.heard_ns);
	moved_ns = later(since_ns, s->pulse.sent_ns);
	silent = s->oldest && s->from_ns && now_ns >= moved_ns + least_ns;
	if (silent) {
		out->since_ns = since_ns;
		describe(s, out->text, sizeof(out->text));
	}
	pthread_mutex_unlock(&s->lock);
	return silent;
}
