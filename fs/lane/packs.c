/* SPDX-License-Identifier: Apache-2.0 */
/* Packs are filled, sent with If-None-Match, and their end is told to whoever refers to them. */
#include "fs/lane/packs.h"

#include <errno.h>
#include <string.h>

#include "fs/lane/inside.h"

struct pack {
	/* fixed */
	struct packs *owner;
	/* the lane's thread */
	struct pack *next;
	struct pack_builder b;
	bool full;
	bool urgent;
	bool shared; /* its chunks are in the dedupe index */
	uint64_t opened_ns;
	size_t len; /* of the finished object */
	char key[PACK_KEY_MAX];
	struct iovec iov;
	struct object_req req;
};

void packs_init(struct packs *p, struct lane *lane)
{
	*p = (struct packs){.lane = lane, .slots = PACKS_SLOTS};
}

/* ---- buffers ---- */

static void pack_free(struct pack *k)
{
	pack_fini(&k->b);
	free(k);
}

static struct pack *pack_new(struct packs *p)
{
	struct pack *k = calloc(1, sizeof(*k));

	if (k && pack_init(&k->b, NULL) < 0) {
		free(k);
		k = NULL;
	}
	if (k)
		k->owner = p;
	return k;
}

static void free_spare(struct packs *p)
{
	while (p->spare) {
		struct pack *k = p->spare;

		p->spare = k->next;
		pack_free(k);
		if (p->have-- > PACKS_MINE)
			lanes_give_extra(p->lane->all);
	}
}

/* May the lane have one buffer more? */
static bool may_grow(struct packs *p)
{
	if (p->have < PACKS_MINE)
		return true;
	return p->have < PACKS_SLOTS + 1 && lanes_take_extra(p->lane->all);
}

/* NULL: none to be had now.  *rc < 0: none will come back by itself either. */
static struct pack *spare_pack(struct packs *p, int *rc)
{
	struct pack *k = p->spare;

	*rc = 0;
	if (k) {
		p->spare = k->next;
		return k;
	}
	if (!may_grow(p))
		return NULL;
	k = pack_new(p);
	if (k) {
		p->have++;
		return k;
	}
	if (p->have >= PACKS_MINE)
		lanes_give_extra(p->lane->all);
	*rc = p->in_flight > 0 ? 0 : -ENOMEM;
	return NULL;
}

static void idle_long(struct loop_timer *t)
{
	struct packs *p = t->arg;

	if (!p->open && p->in_flight == 0)
		free_spare(p);
}

static void put_away(struct packs *p, struct pack *k)
{
	k->next = p->spare;
	p->spare = k;
	if (p->have > PACKS_MINE && lanes_want_extra(p->lane->all))
		free_spare(p); /* another lane is short of them */
	p->idle.fire = idle_long;
	p->idle.arg = p;
	if (!p->open && p->in_flight == 0)
		loop_timer_start(p->lane->loop, &p->idle,
				 clock_mono(&clock_system) + PACKS_IDLE_NS);
}

void packs_fini(struct packs *p)
{
	loop_timer_stop(p->lane->loop, &p->hold);
	loop_timer_stop(p->lane->loop, &p->idle);
	while (p->spare) {
		struct pack *k = p->spare;

		p->spare = k->next;
		pack_free(k);
	}
}

/* ---- sending ---- */

static void unlink_sent(struct packs *p, struct pack *k)
{
	struct pack **at = &p->sent;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
}

/* Grow slowly: one more PUT at once after every two rounds without a complaint. */
static void note_calm(struct packs *p)
{
	if (p->slots == PACKS_SLOTS || ++p->calm < 2 * p->slots)
		return;
	p->slots++;
	p->calm = 0;
}

static void send_if_due(struct packs *p);

static void pack_ended(struct pack *k, const struct fault *why)
{
	struct packs *p = k->owner;
	struct lane *l = p->lane;
	uint64_t name = k->b.name;

	unlink_sent(p, k);
	p->in_flight--;
	if (!why)
		note_calm(p);
	if (k->shared && known_end(l->all->known, name, why))
		lanes_wake_all(l->all);
	put_away(p, k);
	send_if_due(p);
	out_pack_ended(&l->out, name, why);
}

static void stored(struct pack *k)
{
	struct lanes *all = k->owner->lane->all;

	all->sent_bytes += k->len;
	health_sent(&all->health, k->len);
	health_works(&all->health);
	pack_ended(k, NULL);
}

static void lost(struct pack *k)
{
	struct lanes *all = k->owner->lane->all;
	struct fault why = k->req.fault;

	health_sent(&all->health, 0);
	(void)fault_in(&why, "pack %s", k->key); /* the code stays */
	if (why.code != -ECANCELED)
		health_fails(&all->health, &why);
	pack_ended(k, &why);
}

/* A name is used once: somebody else writes with our fence number. */
static void taken_by_others(struct pack *k, const char *how_known)
{
	(void)fault_set(&k->req.fault, -EEXIST, FAULT_FINAL, "the name is taken: %s",
			how_known); /* lost() tells */
	lost(k);
}

/* The end of a pack holds the hashes of all its chunks: equal ends, equal packs. */
static void tail_read(struct object_req *r)
{
	struct pack *k = r->arg;
	bool ours = r->rc == 0 && r->got == r->len &&
		    memcmp(r->body.data, k->b.data + r->off, r->len) == 0;

	object_req_fini(r);
	if (ours)
		stored(k);
	else if (r->rc == -ECANCELED)
		lost(k);
	else
		taken_by_others(k, r->rc == 0 ? "other bytes lie there" : r->fault.text);
}

/*
 * The reply to an earlier try may have been lost on the way: then the object there is ours.  We need not know
 * of that try: libcurl sends a request again by itself if a kept connection ends before any answer.
 */
static void read_tail(struct pack *k)
{
	size_t len = k->b.n * PACK_ENTRY + PACK_TRAILER;

	k->req = (struct object_req){
		.op = OBJECT_GET,
		.key = k->key,
		.off = k->len - len,
		.len = len,
		.done = tail_read,
		.arg = k,
	};
	objects_start(k->owner->lane->objects, &k->req);
}

static void put_done(struct object_req *r)
{
	struct pack *k = r->arg;

	if (r->rc == 0)
		stored(k);
	else if (r->rc == -EEXIST)
		read_tail(k);
	else
		lost(k);
}

/* A try failed and the store is asked again.  If it wants less of us, it gets half. */
static void put_again(struct object_req *r)
{
	struct pack *k = r->arg;
	struct packs *p = k->owner;

	health_fails(&p->lane->all->health, &r->fault);
	if (r->fault.retry != FAULT_PACED)
		return;
	p->calm = 0;
	if (p->in_flight >= p->slots && p->slots > 1)
		p->slots /= 2;
}

static void send_open(struct packs *p)
{
	struct pack *k = take(&p->open);

	loop_timer_stop(p->lane->loop, &p->hold);
	k->len = pack_end(&k->b, p->lane->all->format.secret);
	pack_key(k->b.name, k->key);
	k->iov = (struct iovec){.iov_base = k->b.data, .iov_len = k->len};
	k->req = (struct object_req){
		.op = OBJECT_PUT,
		.key = k->key,
		.iov = &k->iov,
		.iovs = 1,
		.checksum = &k->b.crc,
		.create_only = true,
		.retrying = put_again,
		.done = put_done,
		.arg = k,
	};
	k->next = p->sent;
	p->sent = k;
	p->in_flight++;
	health_send(&p->lane->all->health);
	objects_start(p->lane->objects, &k->req);
}

static bool is_due(const struct packs *p)
{
	const struct pack *k = p->open;

	if (!k || pack_is_empty(&k->b) || p->stopped)
		return false;
	return k->full || clock_mono(&clock_system) >= k->opened_ns + PACKS_HOLD_NS;
}

static void send_if_due(struct packs *p)
{
	if (is_due(p) && p->in_flight < p->slots)
		send_open(p);
}

static void held_long(struct loop_timer *t)
{
	send_if_due(t->arg);
}

/* Is there a reason to send a pack that is not full? */
static bool is_wanted(const struct packs *p)
{
	const struct pack *k = p->open;

	if (k->urgent || p->lane->all->hurry || is_due(p))
		return true;
	if (k->b.len >= PACKS_SMALL && p->in_flight <= PACKS_BUSY)
		return true;
	return k->shared && known_is_wanted(p->lane->all->known, k->b.name);
}

void packs_rest(struct packs *p)
{
	struct pack *k = p->open;
	bool pressed = atomic_exchange(&p->lane->pressed, false);

	if (!k || pack_is_empty(&k->b))
		return;
	k->urgent |= pressed; /* it holds the last of what was handed in */
	if (p->in_flight >= p->slots)
		return;
	if (is_wanted(p)) {
		send_open(p);
		return;
	}
	p->hold.fire = held_long;
	p->hold.arg = p;
	loop_timer_start(p->lane->loop, &p->hold, k->opened_ns + PACKS_HOLD_NS);
}

/* ---- filling ---- */

static int open_pack(struct packs *p)
{
	struct lanes *all = p->lane->all;
	struct pack *k;
	int rc;

	k = spare_pack(p, &rc);
	if (!k)
		return rc;
	pack_begin(&k->b, PACK_CHUNKS, all->conf.pack_name(all->conf.arg));
	k->full = k->urgent = false;
	k->shared = known_begin(all->known, p->lane->index, k->b.name);
	k->opened_ns = clock_mono(&clock_system);
	p->open = k;
	return 1;
}

/* Packs wait for the link, not for us: there is time to make them smaller. */
static bool link_is_slow(const struct packs *p)
{
	return p->lane->all->conf.compress && p->in_flight >= p->slots;
}

/* Bytes laid at pack_at(), 0 if there is no room. */
static size_t lay(struct packs *p, const uint8_t *data, size_t len, enum codec *codec)
{
	struct pack_builder *b = &p->open->b;
	size_t room = pack_room(b);
	size_t got = 0;

	*codec = CODEC_ZSTD;
	if (room > 0 && link_is_slow(p) && chunk_compressible(data, len))
		got = chunk_compress(data, len, pack_at(b), room);
	if (got > 0)
		return got;
	if (len > room)
		return 0;
	*codec = CODEC_RAW;
	memcpy(pack_at(b), data, len);
	return len;
}

int packs_add(struct packs *p, const struct hash128 *hash, const uint8_t *data, size_t len,
	      bool urgent, struct place *out)
{
	enum codec codec;
	size_t stored_len;
	int rc;

	for (;;) {
		send_if_due(p);
		if (p->open && p->open->full)
			return 0;
		rc = p->open ? 1 : open_pack(p);
		if (rc <= 0)
			return rc;
		stored_len = lay(p, data, len, &codec);
		if (stored_len > 0)
			break;
		p->open->full = true; /* an empty one has room for any chunk, so this ends */
	}
	pack_commit(&p->open->b, codec, stored_len, hash, len, out);
	p->open->urgent |= urgent;
	if (p->open->shared)
		known_add(p->lane->all->known, hash, len, out);
	return 1;
}

void packs_want(struct packs *p, uint64_t pack)
{
	if (p->open && p->open->b.name == pack)
		p->open->urgent = true;
}

/* ---- giving up ---- */

void packs_stop(struct packs *p)
{
	struct lane *l = p->lane;

	p->stopped = true;
	if (p->open) {
		(void)known_withdraw(l->all->known,
				     p->open->b.name); /* who waits for it is stopped as well */
		put_away(p, take(&p->open));
	}
	while (p->sent)
		objects_cancel(l->objects, &p->sent->req);
}

void packs_drop(struct packs *p, uint64_t pack)
{
	struct lane *l = p->lane;
	struct pack *k = p->sent;

	if (p->open && p->open->b.name == pack) {
		if (known_withdraw(l->all->known, pack))
			put_away(p, take(&p->open));
		return;
	}
	while (k && k->b.name != pack)
		k = k->next;
	if (k && known_withdraw(l->all->known, pack)) {
		k->shared = false;
		objects_cancel(l->objects, &k->req);
	}
}
