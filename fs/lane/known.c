/* SPDX-License-Identifier: Apache-2.0 */
/* The dedupe index: a table of small sets, and the few packs that are under way. */
#include "fs/lane/known.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#define WAYS          8
#define UNDER_WAY_MAX 128

struct entry {
	struct hash128 hash;
	struct place at;
	uint32_t length; /* 0: free */
	uint32_t used;   /* k->now when last found or added */
};

/* A pack that is filled or sent, or whose end somebody has not heard of yet. */
struct under_way {
	uint64_t pack;
	unsigned lane;
	unsigned waiting; /* finds by other lanes, not counted off */
	bool ended;
	struct fault why; /* code 0: stored */
};

/*
 * What a lane was told to place.  Without it two lanes with the same content, in step, would both
 * miss every chunk and send all of it twice.
 */
struct placing {
	struct hash128 hash;
	uint64_t length; /* 0: nothing */
};

struct known {
	/* fixed after known_new() */
	size_t sets; /* a power of two */
	struct entry *entries;
	/* any thread, under lock */
	pthread_mutex_t lock;
	uint32_t now;
	struct under_way packs[UNDER_WAY_MAX];
	size_t n;
	struct placing placing[KNOWN_LANES];
};

int known_new(size_t entries, struct known **out)
{
	scoped(free) struct known *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	for (k->sets = 1; k->sets * WAYS < entries; k->sets *= 2)
		;
	k->entries = calloc(k->sets * WAYS, sizeof(*k->entries));
	if (!k->entries)
		return -ENOMEM;
	pthread_mutex_init(&k->lock, NULL);
	*out = take(&k);
	return 0;
}

void known_free(struct known *k)
{
	if (!k)
		return;
	pthread_mutex_destroy(&k->lock);
	free(k->entries);
	free(k);
}

/* ---- under lock ---- */

static struct entry *set_of(struct known *k, const struct hash128 *hash)
{
	uint64_t h;

	memcpy(&h, hash->b, sizeof(h)); /* a keyed hash: every bit is as good as another */
	return &k->entries[(h & (k->sets - 1)) * WAYS];
}

static struct entry *find(struct known *k, const struct hash128 *hash, uint64_t length)
{
	struct entry *set = set_of(k, hash);

	for (size_t i = 0; length > 0 && i < WAYS; i++)
		if (set[i].length == length && hash_equal(&set[i].hash, hash))
			return &set[i];
	return NULL;
}

/* A free entry of the set, else the one that was not used for the longest. */
static struct entry *make_room(struct known *k, const struct hash128 *hash)
{
	struct entry *set = set_of(k, hash);
	struct entry *oldest = set;

	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].length == 0)
			return &set[i];
		if (k->now - set[i].used > k->now - oldest->used)
			oldest = &set[i];
	}
	return oldest;
}

static struct under_way *under_way(struct known *k, uint64_t pack)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->packs[i].pack == pack)
			return &k->packs[i];
	return NULL;
}

static void drop(struct known *k, struct under_way *p)
{
	*p = k->packs[--k->n];
}

static void count_off(struct known *k, struct under_way *p, unsigned times)
{
	p->waiting -= times;
	if (p->ended && p->waiting == 0)
		drop(k, p);
}

static void forget(struct known *k, uint64_t pack)
{
	for (size_t i = 0; i < k->sets * WAYS; i++)
		if (k->entries[i].at.pack == pack)
			k->entries[i].length = 0;
}

static bool is_placed_by_another(const struct known *k, unsigned lane, const struct hash128 *hash,
				 uint64_t length)
{
	for (unsigned i = 0; i < KNOWN_LANES; i++)
		if (i != lane && k->placing[i].length == length &&
		    hash_equal(&k->placing[i].hash, hash))
			return true;
	return false;
}

/* ---- chunks ---- */

enum known_state known_find(struct known *k, unsigned lane, const struct hash128 *hash,
			    uint64_t length, struct place *out)
{
	enum known_state state = KNOWN_NOT;
	struct under_way *p;
	struct entry *e;

	pthread_mutex_lock(&k->lock);
	e = find(k, hash, length);
	if (e) {
		e->used = ++k->now;
		*out = e->at;
		p = under_way(k, e->at.pack);
		state = !p || p->ended    ? KNOWN_STORED
			: p->lane == lane ? KNOWN_PENDING_OWN
					  : KNOWN_PENDING;
		if (state == KNOWN_PENDING)
			p->waiting++;
	} else if (is_placed_by_another(k, lane, hash, length)) {
		state = KNOWN_BUSY;
	} else {
		k->placing[lane] = (struct placing){.hash = *hash, .length = length};
	}
	pthread_mutex_unlock(&k->lock);
	return state;
}

void known_placed(struct known *k, unsigned lane)
{
	pthread_mutex_lock(&k->lock);
	k->placing[lane].length = 0;
	pthread_mutex_unlock(&k->lock);
}

void known_add(struct known *k, const struct hash128 *hash, uint64_t length, const struct place *at)
{
	struct entry *e;

	if (length == 0 || length > CHUNK_MAX)
		return;
	pthread_mutex_lock(&k->lock);
	e = find(k, hash, length);
	if (!e)
		e = make_room(k, hash);
	*e = (struct entry){.hash = *hash, .at = *at, .length = (uint32_t)length, .used = ++k->now};
	pthread_mutex_unlock(&k->lock);
}

void known_forget(struct known *k, uint64_t pack)
{
	pthread_mutex_lock(&k->lock);
	forget(k, pack);
	pthread_mutex_unlock(&k->lock);
}

/* ---- packs under way ---- */

bool known_begin(struct known *k, unsigned lane, uint64_t pack)
{
	bool room;

	pthread_mutex_lock(&k->lock);
	room = k->n < UNDER_WAY_MAX;
	if (room)
		k->packs[k->n++] = (struct under_way){.pack = pack, .lane = lane};
	pthread_mutex_unlock(&k->lock);
	return room;
}

bool known_end(struct known *k, uint64_t pack, const struct fault *why)
{
	struct under_way *p;
	bool wanted = false;

	pthread_mutex_lock(&k->lock);
	p = under_way(k, pack);
	if (why)
		forget(k, pack); /* before the mark: nobody finds it as stored */
	if (p) {
		wanted = p->waiting > 0;
		p->ended = true;
		p->why = why ? *why : FAULT_NONE;
		if (!wanted)
			drop(k, p);
	}
	pthread_mutex_unlock(&k->lock);
	return wanted;
}

bool known_withdraw(struct known *k, uint64_t pack)
{
	struct under_way *p;
	bool wanted;

	pthread_mutex_lock(&k->lock);
	p = under_way(k, pack);
	wanted = p && p->waiting > 0;
	if (!wanted) {
		forget(k, pack);
		if (p)
			drop(k, p);
	}
	pthread_mutex_unlock(&k->lock);
	return !wanted;
}

bool known_is_wanted(struct known *k, uint64_t pack)
{
	const struct under_way *p;
	bool wanted;

	pthread_mutex_lock(&k->lock);
	p = under_way(k, pack);
	wanted = p && p->waiting > 0;
	pthread_mutex_unlock(&k->lock);
	return wanted;
}

int known_outcome(struct known *k, uint64_t pack, unsigned times, struct fault *why)
{
	struct under_way *p;
	int rc;

	pthread_mutex_lock(&k->lock);
	p = under_way(k, pack);
	assert(p); /* the caller is counted */
	rc = p->ended ? p->why.code : 1;
	if (rc < 0)
		*why = p->why;
	if (rc != 1)
		count_off(k, p, times);
	pthread_mutex_unlock(&k->lock);
	return rc;
}

void known_leave(struct known *k, uint64_t pack, unsigned times)
{
	struct under_way *p;

	pthread_mutex_lock(&k->lock);
	p = under_way(k, pack);
	assert(p); /* the caller is counted */
	count_off(k, p, times);
	pthread_mutex_unlock(&k->lock);
}
