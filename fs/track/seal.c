/* SPDX-License-Identifier: Apache-2.0 */
/* sealed(), is_log() and quiet_holds(): pure functions of what the mount noted about one file. */
#include "fs/track/seal.h"

#include <fnmatch.h>
#include <string.h>

static bool passed(uint64_t since_ns, uint64_t wait_ns, uint64_t now_ns)
{
	return now_ns >= since_ns && now_ns - since_ns >= wait_ns;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* The kernel writes mapped pages when it likes, so only a long stillness tells that it is over. */
static bool mapped_write_is_over(const struct seal_facts *s, const struct track_policy *p,
				 uint64_t now_ns)
{
	return s->last_write_unknown && s->writers_open == 0 && !s->killed_ns &&
	       passed(later(s->last_write_ns, s->last_release_ns), p->mapped_still_ns, now_ns);
}

bool sealed(const struct seal_facts *s, const struct track_policy *p, uint64_t now_ns)
{
	if (s->last_write_ns == 0)
		return true;
	if (s->torn && !s->clean_close_is_sync)
		return false;
	if (s->clean_close_ns < s->last_write_ns)
		return mapped_write_is_over(s, p, now_ns);
	return !s->clean_close_is_pid0 || passed(s->last_write_ns, p->pid0_still_ns, now_ns);
}

static bool matches_one_of(const char *patterns, const char *name)
{
	char one[256];

	while (*patterns) {
		size_t len = strcspn(patterns, ":");

		if (len > 0 && len < sizeof(one)) {
			memcpy(one, patterns, len);
			one[len] = '\0';
			if (fnmatch(one, name, 0) == 0)
				return true;
		}
		patterns += len + (patterns[len] == ':');
	}
	return false;
}

bool is_log_name(const char *name, const struct track_policy *p)
{
	return matches_one_of(p->logs, name);
}

bool is_log(const struct log_facts *l, const struct track_policy *p, uint64_t now_ns)
{
	if (!l->only_grown_since_seal)
		return false;
	if (l->all_writers_append_since_ns &&
	    passed(l->all_writers_append_since_ns, p->log_append_ns, now_ns))
		return true;
	return is_log_name(l->name, p);
}

/* Nobody will finish it: let go once the work has gone on elsewhere, or after `patience`. */
static uint64_t given_up_until(const struct seal_facts *s, const struct track_policy *p, uint64_t since_ns)
{
	if (s->newest_other_seal_ns > since_ns)
		return s->newest_other_seal_ns;
	return since_ns + p->patience_ns;
}

/* When an unsealed file lets go by time alone, whatever the time is now. */
static uint64_t unsealed_until(const struct seal_facts *s, const struct track_policy *p)
{
	if (s->torn && !s->writers_open)
		return given_up_until(s, p, later(s->clean_close_ns, s->last_write_ns));
	if (s->clean_close_ns >= s->last_write_ns && !s->torn) /* by pid 0 */
		return s->last_write_ns + p->pid0_still_ns;
	if (s->writers_open)
		return s->first_writer_open_ns + p->writer_long_ns;
	if (s->killed_ns)
		return given_up_until(s, p, s->killed_ns);
	if (s->last_write_unknown)
		return later(s->last_write_ns, s->last_release_ns) + p->mapped_still_ns;
	return later(s->last_write_ns, s->last_release_ns) + p->patience_ns;
}

uint64_t quiet_holds_until(const struct seal_facts *s, const struct log_facts *l,
			   const struct track_policy *p, uint64_t now_ns)
{
	uint64_t until_ns;

	if (sealed(s, p, now_ns) || is_log(l, p, now_ns))
		return 0;
	until_ns = unsealed_until(s, p);
	return until_ns > now_ns ? until_ns : 0;
}

bool quiet_holds(const struct seal_facts *s, const struct log_facts *l,
		 const struct track_policy *p, uint64_t now_ns)
{
	return quiet_holds_until(s, l, p, now_ns) != 0;
}
