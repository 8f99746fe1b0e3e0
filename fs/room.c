/* SPDX-License-Identifier: Apache-2.0 */
/* See room.h. */
#include "fs/room.h"

#include "base/log.h"
#include "fs/evict.h"
#include "fs/park.h"

#define STEP_BYTES (UINT64_C(64) << 20) /* dropped at once when the disk is full */
#define LOOK_GAP_NS (20 * NS_PER_MS)
#define TOLD_NS (60 * NS_PER_S)
#define VAIN_NS (10 * NS_PER_S) /* nothing that we do makes room: others have so long to make some */

void room_disk_is_full(struct mount *m)
{
	uint64_t now = mount_now(m), told = atomic_load(&m->room_told_ns);

	mount_lock(m);
	park_look_later(m); /* a reader that found it out does not wait for room */
	mount_unlock(m);
	if (atomic_exchange(&m->room, ROOM_DISK_FULL) == ROOM_DISK_FULL || (told && now - told < TOLD_NS))
		return; /* it is tried again each tick */
	atomic_store(&m->room_told_ns, now);
	log_warn("cache %s: its disk is full; writers wait, and what is read is not kept", m->opts.cache);
}

static enum room look_at_disk(struct mount *m, bool *hope)
{
	if (atomic_load(&m->room) != ROOM_DISK_FULL && ballast_is_whole(m->ballast))
		return ROOM_FREE;
	*hope = evict_some(m, STEP_BYTES);
	return ballast_fill(m->ballast) ? ROOM_FREE : ROOM_DISK_FULL;
}

enum room room_look(struct mount *m)
{
	bool hope = false, help;
	enum room is;

	evict_to_size(m);
	is = look_at_disk(m, &hope);
	mount_lock(m);
	help = !m->read_only && evict_will_help(m);
	if (is == ROOM_FREE && help && evict_over(m))
		is = ROOM_CACHE_FULL;
	if (help || hope)
		m->room_hope_ns = mount_now(m);
	mount_unlock(m);
	atomic_store(&m->room, is);
	atomic_store(&m->room_looked_ns, mount_now(m));
	return is;
}

/* Where looking did not help a moment ago, each write of a file that is larger than the cache would look at all files. */
static bool looked_just_now(const struct mount *m)
{
	return mount_now(m) - atomic_load(&m->room_looked_ns) < LOOK_GAP_NS;
}

void room_may_go(struct mount *m)
{
	if (!evict_due(m))
		return;
	mount_lock(m);
	if (looked_just_now(m))
		park_look_later(m);
	else
		park_look(m);
	mount_unlock(m);
}

enum room room_now(struct mount *m)
{
	enum room is = atomic_load(&m->room);

	if (is != ROOM_FREE || (!evict_over(m) && ballast_is_whole(m->ballast)))
		return is;
	if (ballast_is_whole(m->ballast) && looked_just_now(m)) {
		mount_lock(m);
		park_look_later(m); /* this may be the last write for long */
		mount_unlock(m);
		return is;
	}
	return room_look(m);
}

bool room_gives_up(const struct mount *m, uint64_t since_ns, uint64_t now, bool mapped)
{
	uint64_t from = since_ns > m->room_hope_ns ? since_ns : m->room_hope_ns;

	if (m->opts.full_gives_up && now - since_ns >= m->opts.full_ns)
		return true;
	return now - (mapped ? since_ns : from) >= VAIN_NS;
}

const char *room_why(const struct mount *m)
{
	switch (atomic_load(&m->room)) {
	case ROOM_CACHE_FULL:
		return "the cache is full of what the store lacks";
	case ROOM_DISK_FULL:
		return "the disk of the cache is full";
	case ROOM_FREE:
		break;
	}
	return "";
}
