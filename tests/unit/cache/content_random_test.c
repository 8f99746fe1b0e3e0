/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A content under random calls against whole arrays of bytes: what it holds now, and what each
 * view held when it was named.  Uploads and streams read at one step and tell at a later one,
 * as the real ones do; the store keeps what each chunk was made of, so a map that says
 * something untrue is caught.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "fs/cache/content_priv.h"
#include "tests/unit/cache/folder.h"

#define RUNS        60 /* of 300 steps */
#define SPACE       8192
#define PIECE_MOST  1500
#define VIEWS       3
#define UPLOADS     3
#define CHUNKS_MOST 100000
#define ID          0x1234567890abcdef

struct held {
	struct view *v;
	uint8_t data[SPACE];
	uint64_t size;
};

struct upload {
	struct view *v; /* NULL: a stream of the content itself */
	uint64_t stamp, off, len;
	uint8_t data[SPACE];
};

/* What a journal would know. */
struct told {
	uint32_t view;
	struct ranges present, side;
	struct need mapped;
	struct map *referred;
};

struct world {
	uint64_t seed, dice;
	int dirfd;
	struct content_dir *d;
	struct content *c;
	uint8_t data[SPACE];
	uint64_t size;
	struct held views[VIEWS]; /* oldest first */
	size_t view_n;
	struct upload uploads[UPLOADS];
	size_t upload_n;
	uint8_t *chunks[CHUNKS_MOST]; /* the store's; a pack is an index */
	size_t chunk_n;
	struct extents committed;
	struct told told;
};

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t roll(struct world *w, uint64_t sides)
{
	return dice(&w->dice, sides);
}

#define check(w, what)                                                                           \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail_msg("SEED=%llu: not so: %s", (unsigned long long)(w)->seed, #what); \
	} while (0)

static void random_bytes(struct world *w, uint8_t *out, size_t len)
{
	bool zeros = roll(w, 5) == 0;

	for (size_t i = 0; i < len; i++)
		out[i] = zeros ? 0 : (uint8_t)roll(w, 256);
}

/* ---- the store ---- */

static void resolve(struct world *w, const struct extent *e, uint8_t *out)
{
	if (e->kind == EXTENT_ZERO)
		memset(out, 0, e->length);
	else
		memcpy(out, e->kind == EXTENT_INLINE ? e->data : w->chunks[e->place.pack],
		       e->length);
}

static void store_piece(struct world *w, const uint8_t *data, size_t len, struct extents *out)
{
	struct extent e = {.length = len, .kind = EXTENT_CHUNK, .place.pack = w->chunk_n};
	uint8_t *copy;

	if (chunk_is_zero(data, len) && roll(w, 4)) {
		e.kind = EXTENT_ZERO;
		check(w, extents_add(out, &e) == 0);
		return;
	}
	copy = malloc(len);
	memcpy(copy, data, len);
	if (roll(w, 6) == 0) {
		e.kind = EXTENT_INLINE;
		e.data = copy;
	} else {
		check(w, w->chunk_n < CHUNKS_MOST);
		w->chunks[w->chunk_n++] = copy;
	}
	check(w, extents_add(out, &e) == 0);
}

static void store_bytes(struct world *w, const uint8_t *data, size_t len, struct extents *out)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = min(len - at, 1 + roll(w, PIECE_MOST));
		store_piece(w, data + at, n, out);
	}
}

/* ---- notes ---- */

static void tell_present(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct world *w = arg;

	check(w, ranges_add(&w->told.present, off, off + len) == 0);
}

static int tell_absent(void *arg, uint64_t id, uint32_t version, uint64_t off, uint64_t len)
{
	struct world *w = arg;

	check(w, ranges_remove(&w->told.present, off, off + len) == 0);
	return 0;
}

static void told_of(struct world *w, uint32_t view)
{
	if (w->told.view == view)
		return;
	check(w, view > w->told.view);
	ranges_fini(&w->told.side);
	need_fini(&w->told.mapped);
	w->told.view = view;
}

static void tell_preserved(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
			   uint64_t len)
{
	struct world *w = arg;

	told_of(w, view);
	check(w, ranges_add(&w->told.side, off, off + len) == 0);
}

static void tell_mapped(void *arg, uint64_t id, uint32_t version, uint32_t view, uint64_t off,
			const struct extent *e)
{
	struct world *w = arg;

	if (view == 0) {
		check(w, ranges_remove(&w->told.present, off, off + e->length) == 0);
		check(w, map_own(&w->told.referred, 1) == 0);
		(void)map_remove(w->told.referred, off, off + e->length);
		check(w, map_put(&w->told.referred, off, e) == 0);
		return;
	}
	told_of(w, view);
	check(w, need_add(&w->told.mapped, off, e) == 0);
}

static void open_dir(struct world *w)
{
	struct content_notes notes = {.present = tell_present,
				      .preserved = tell_preserved,
				      .mapped = tell_mapped,
				      .absent = tell_absent,
				      .arg = w};

	check(w, content_dir_open(w->dirfd, NULL, &w->d, NULL) == 0);
	content_dir_notes(w->d, &notes);
}

/* ---- what has to hold ---- */

static void check_map(struct world *w, const struct map *m, const uint8_t *data, uint64_t size)
{
	static uint8_t got[SPACE];

	for (size_t i = 0; i < map_count(m); i++) {
		const struct map_entry *e = &m->v[i];

		check(w, map_entry_end(e) <= size);
		check(w, i == 0 || map_entry_end(&m->v[i - 1]) <= e->off);
		resolve(w, &e->e, got);
		check(w, memcmp(got, data + e->off, e->e.length) == 0);
	}
}

static ssize_t read_file(struct world *w, struct content *c, uint8_t *out, size_t len, uint64_t off)
{
	int fd = content_hold(c);
	ssize_t n = pread(fd, out, len, (off_t)off);

	check(w, fd >= 0 && fd == content_fd(c));
	content_unhold(c);
	return n;
}

static void read_as_uploader(struct world *w, struct view *v, uint64_t off, uint64_t len,
			     uint8_t *out)
{
	ssize_t n = read_file(w, v->content, out, len, off);

	check(w, n >= 0);
	memset(out + n, 0, len - (size_t)n);
	check(w, view_patch(v, out, len, off) == 0);
}

static void check_view(struct world *w, const struct held *h)
{
	static uint8_t got[SPACE];
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	struct range r = {.to = 0};
	uint64_t unmapped = 0;
	ssize_t n;

	check_map(w, h->v->map, h->data, h->size);
	while (view_unmapped(h->v, r.to, &r)) {
		unmapped += r.to - r.from;
		read_as_uploader(w, h->v, r.from, r.to - r.from, got);
		check(w, memcmp(got, h->data + r.from, r.to - r.from) == 0);
	}
	check(w, view_extents(h->v, &x) == (unmapped ? -EAGAIN : 0));
	check(w, unmapped || extents_bytes(&x) == h->size);
	n = view_read(h->v, got, SPACE, 0);
	check(w, n == -ENODATA || (n == (ssize_t)h->size && memcmp(got, h->data, h->size) == 0));
}

static void check_present(struct world *w)
{
	static uint8_t got[SPACE];
	struct range r = {.to = 0};

	check(w, read_file(w, w->c, got, SPACE, 0) == (ssize_t)w->size);
	while (ranges_next_gap(&w->c->absent, r.to, w->size, &r))
		check(w, memcmp(got + r.from, w->data + r.from, r.to - r.from) == 0);
}

static void check_all(struct world *w)
{
	struct range gap;

	check(w, content_size(w->c) == w->size);
	check_map(w, w->c->map, w->data, w->size);
	check(w, content_mapped(w->c) ==
			 (map_next_gap(w->c->map, 0, w->size, &gap) ? gap.from : w->size));
	check(w, content_is_whole(w->c) == (w->c->absent.n == 0));
	check_present(w);
	for (size_t i = 0; i < w->c->absent.n; i++)
		check(w,
		      !map_next_gap(w->c->map, w->c->absent.v[i].from, w->c->absent.v[i].to, &gap));
	for (size_t i = 0; i < w->view_n; i++)
		check_view(w, &w->views[i]);
}

/* ---- calls ---- */

static void hydrate(struct world *w, uint64_t off, uint64_t len, bool for_write)
{
	static uint8_t data[SPACE];

	for (;;) {
		scoped(need_fini) struct need n = {.n = 0};

		check(w, content_needs(w->c, off, len, for_write, &n) == 0);
		if (n.n == 0)
			return;
		for (size_t i = 0; i < n.n; i++) {
			resolve(w, &n.extents.v[i], data);
			check(w, content_fill(w->c, data, n.extents.v[i].length, n.offs[i]) == 0);
		}
	}
}

/* As a write has it that went well. */
static void model_write(struct world *w, const uint8_t *data, size_t len, uint64_t off)
{
	if (len && off > w->size)
		memset(w->data + w->size, 0, off - w->size);
	memcpy(w->data + off, data, len);
	if (len && off + len > w->size)
		w->size = off + len;
}

static void a_write(struct world *w)
{
	static uint8_t data[SPACE];
	bool append = roll(w, 3) == 0;
	uint64_t off = append ? w->size : roll(w, roll(w, 3) ? w->size + 1 : SPACE), at = off;
	size_t len = min(roll(w, roll(w, 4) ? 400 : 4000), SPACE - off);

	random_bytes(w, data, len);
	hydrate(w, off, len, true);
	check(w, content_write(w->c, data, len, append ? 0 : off, append, &at) == (ssize_t)len);
	check(w, at == off);
	model_write(w, data, len, off);
}

/*
 * The disk is full in the middle of it: each byte is the old one or the new one, and the size
 * has not changed.
 */
static void a_write_that_fails(struct world *w)
{
	static uint8_t data[SPACE], now[SPACE];
	uint64_t off = roll(w, SPACE - 1);
	size_t len = min(1 + roll(w, 4000), SPACE - off);
	struct rlimit limit, was;
	ssize_t put;

	random_bytes(w, data, len);
	hydrate(w, off, len, true);
	check(w, getrlimit(RLIMIT_FSIZE, &was) == 0);
	limit = was;
	limit.rlim_cur = roll(w, SPACE);
	check(w, setrlimit(RLIMIT_FSIZE, &limit) == 0);
	put = content_write(w->c, data, len, off, false, NULL);
	check(w, setrlimit(RLIMIT_FSIZE, &was) == 0);
	if (put >= 0) {
		check(w, put == (ssize_t)len);
		model_write(w, data, len, off);
		return;
	}
	check(w, content_size(w->c) == w->size);
	hydrate(w, 0, w->size, false);
	check(w, content_read(w->c, now, SPACE, 0) == (ssize_t)w->size);
	for (uint64_t i = 0; i < w->size; i++)
		check(w, now[i] == w->data[i] ||
				 (i >= off && i < off + len && now[i] == data[i - off]));
	memcpy(w->data, now, w->size);
}

static void a_truncation(struct world *w)
{
	uint64_t size = roll(w, roll(w, 8) ? SPACE : 1);
	int rc;

	while ((rc = content_truncate(w->c, size)) == -ENODATA)
		hydrate(w, size - 1, 1, false);
	check(w, rc == 0);
	if (size > w->size)
		memset(w->data + w->size, 0, size - w->size);
	w->size = size;
}

static void a_hole(struct world *w)
{
	static const int modes[] = {FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
				    FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE, FALLOC_FL_KEEP_SIZE, 0};
	int mode = modes[roll(w, 5)], rc;
	uint64_t off = roll(w, SPACE - 1), len = 1 + roll(w, SPACE - off), size = w->size;

	hydrate(w, off, len, false);
	rc = content_allocate(w->c, off, len, mode);
	if (rc == -EOPNOTSUPP)
		return;
	check(w, rc == 0);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && off + len > size) {
		memset(w->data + size, 0, off + len - size);
		w->size = off + len;
	}
	if ((mode & ~FALLOC_FL_KEEP_SIZE) && off < size)
		memset(w->data + off, 0, min(len, size - off));
}

static void a_read(struct world *w)
{
	static uint8_t data[SPACE];
	uint64_t off = roll(w, SPACE), len = roll(w, SPACE - off);
	uint64_t want = off < w->size ? min(len, w->size - off) : 0;

	hydrate(w, off, len, false);
	check(w, content_read(w->c, data, len, off) == (ssize_t)want);
	check(w, memcmp(data, w->data + off, want) == 0);
}

static int lend(void *arg, const struct extent *e, uint64_t from, uint8_t *to, size_t len)
{
	static uint8_t data[SPACE];
	struct world *w = arg;

	if (roll(w, 5) == 0)
		return -ENODATA;
	resolve(w, e, data);
	memcpy(to, data + from, len);
	return 0;
}

/* What is absent stays so. */
static void a_read_of_what_is_lent(struct world *w)
{
	static uint8_t data[SPACE];
	uint64_t off = roll(w, SPACE), len = roll(w, SPACE - off);
	uint64_t want = off < w->size ? min(len, w->size - off) : 0;
	uint64_t absent = ranges_bytes(&w->c->absent);
	ssize_t got = content_read_lent(w->c, data, len, off, lend, w);

	check(w, ranges_bytes(&w->c->absent) == absent);
	check(w, got == (ssize_t)want || (got == -ENODATA && ranges_meets(&w->c->absent, off, off + want)));
	check(w, got < 0 || memcmp(data, w->data + off, want) == 0);
}

/* Some of what the newest commit names goes; its blocks now, or when it is written next. */
static void room_is_made(struct world *w)
{
	struct map_entry v[SPACE / 16];
	uint64_t off = 0;
	size_t n = 0;

	for (size_t i = 0; i < w->committed.n && n < SPACE / 16; off += w->committed.v[i++].length)
		if (roll(w, 2))
			v[n++] = (struct map_entry){.off = off, .e = w->committed.v[i]};
	check(w, content_give_up(w->c, v, n) == 0);
	if (roll(w, 2))
		check(w, content_punch(w->c) == 0);
}

/* What the store has of it, or of another file, somewhere else in it. */
static void a_reference(struct world *w)
{
	static uint8_t data[SPACE];
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	uint64_t from = roll(w, w->size + 1), len = roll(w, w->size - from + 1), at, off;

	if (roll(w, 3) == 0) {
		len = roll(w, 3 * PIECE_MOST);
		random_bytes(w, data, len);
		store_bytes(w, data, len, &x);
	} else {
		check(w, content_stored(w->c, from, len, &at, &x) == 0);
		check(w, x.n ? at >= from && at + extents_bytes(&x) <= from + len : at == from + len);
		len = extents_bytes(&x);
		memcpy(data, w->data + at, len);
	}
	if (len == 0)
		return;
	off = roll(w, SPACE - len + 1);
	if (roll(w, 8))
		hydrate(w, off, len, true);
	if (content_refer(w->c, off, &x) == 0)
		model_write(w, data, len, off);
}

static void a_view(struct world *w)
{
	struct held *h = &w->views[w->view_n];

	if (w->view_n == VIEWS)
		return;
	check(w, content_view(w->c, &h->v) == 0);
	memcpy(h->data, w->data, w->size);
	h->size = w->size;
	w->view_n++;
	check(w, view_size(h->v) == w->size);
	if (roll(w, 2))
		view_reopen_tail(h->v);
}

static void forget_view(struct world *w, size_t i)
{
	view_unref(w->views[i].v);
	memmove(&w->views[i], &w->views[i + 1], (w->view_n - i - 1) * sizeof(w->views[0]));
	w->view_n--;
}

/* One whose bytes are all in the store becomes the base; those before it are of no use any more. */
static void a_commit(struct world *w)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	size_t i = roll(w, VIEWS);

	if (i >= w->view_n || view_extents(w->views[i].v, &x) < 0)
		return;
	extents_fini(&w->committed);
	w->committed = x;
	x = EXTENTS_EMPTY;
	for (; i + 1 > 0; i--)
		forget_view(w, 0);
}

static void an_upload_starts(struct world *w)
{
	struct upload *u = &w->uploads[w->upload_n];
	size_t i = roll(w, VIEWS);
	struct range r;

	if (w->upload_n == UPLOADS || i >= w->view_n ||
	    !view_unmapped(w->views[i].v, roll(w, w->views[i].size + 1), &r))
		return;
	*u = (struct upload){.v = view_ref(w->views[i].v),
			     .off = r.from,
			     .len = 1 + roll(w, r.to - r.from)};
	read_as_uploader(w, u->v, u->off, u->len, u->data);
	check(w, memcmp(u->data, w->views[i].data + u->off, u->len) == 0);
	w->upload_n++;
}

static void a_stream_starts(struct world *w)
{
	struct upload *u = &w->uploads[w->upload_n];
	uint64_t from = content_mapped(w->c);

	if (w->upload_n == UPLOADS || from == w->size)
		return;
	*u = (struct upload){.stamp = content_stamp(w->c),
			     .off = from,
			     .len = 1 + roll(w, w->size - from)};
	if (ranges_meets(&w->c->absent, u->off, u->off + u->len))
		return; /* it would be streamed from what is here alone */
	check(w, read_file(w, w->c, u->data, u->len, u->off) == (ssize_t)u->len);
	w->upload_n++;
}

static void an_upload_ends(struct world *w)
{
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	size_t i = roll(w, UPLOADS);
	struct upload *u = &w->uploads[i];

	if (i >= w->upload_n)
		return;
	store_bytes(w, u->data, u->len, &x);
	if (u->v)
		check(w, view_map(u->v, u->off, &x) == 0);
	else if (content_map(w->c, u->stamp, u->off, &x) == 0)
		check(w, memcmp(u->data, w->data + u->off, u->len) == 0);
	view_unref(u->v);
	*u = w->uploads[--w->upload_n];
}

/* ---- a life, and the next ---- */

static void uploads_end(struct world *w)
{
	while (w->upload_n)
		view_unref(w->uploads[--w->upload_n].v);
}

/* The daemon is killed: what is on disk and in the journal goes on. */
static void a_restart(struct world *w)
{
	struct held newest = w->view_n ? w->views[w->view_n - 1] : (struct held){.v = NULL};
	uint32_t number = newest.v ? view_number(newest.v) : 0;
	bool goes_on = number && number == w->c->views_made;

	uploads_end(w);
	content_dir_keep(w->d);
	while (w->view_n)
		forget_view(w, 0);
	content_unref(take(&w->c));
	content_dir_free(take(&w->d));

	open_dir(w);
	check(w, content_adopt(w->d, ID, 7, &w->committed, w->told.referred, &w->told.present, &w->c, NULL) == 0);
	if (goes_on) {
		if (w->told.view != number) /* nothing changed since it was named */
			told_of(w, number);
		check(w, view_adopt(w->c, number, newest.size, &w->told.side, &w->told.mapped,
				    &newest.v) == 0);
		w->views[w->view_n++] = newest;
	} else {
		told_of(w, w->told.view + 1); /* the next one starts afresh */
		w->c->views_made = w->told.view;
	}
	check(w, content_dir_sweep(w->d, NULL, NULL) == 0);
}

static void begin(struct world *w)
{
	open_dir(w);
	if (roll(w, 3) == 0) {
		check(w, content_new(w->d, ID, 7, &w->c, NULL) == 0);
		return;
	}
	w->size = roll(w, SPACE);
	random_bytes(w, w->data, w->size);
	store_bytes(w, w->data, w->size, &w->committed);
	check(w, content_of_extents(w->d, ID, 7, &w->committed, w->size, &w->c, NULL) == 0);
}

static void end(struct world *w, struct folder *folder)
{
	uploads_end(w);
	while (w->view_n)
		forget_view(w, 0);
	content_unref(w->c);
	check(w, content_dir_bytes(w->d) == 0);
	content_dir_free(w->d);
	check(w, folder_files(folder) == 0);
	while (w->chunk_n)
		free(w->chunks[--w->chunk_n]);
	extents_fini(&w->committed);
	ranges_fini(&w->told.present);
	ranges_fini(&w->told.side);
	need_fini(&w->told.mapped);
	map_unref(w->told.referred);
}

static void step(struct world *w)
{
	static const struct {
		void (*call)(struct world *w);
		unsigned weight;
	} calls[] = {{a_write, 30},        {a_write_that_fails, 3},
		     {a_truncation, 4},    {a_hole, 4},
		     {a_read, 10},         {a_reference, 10}, {a_view, 10},
		     {room_is_made, 8},    {a_read_of_what_is_lent, 6},
		     {a_commit, 8},        {an_upload_starts, 12},
		     {a_stream_starts, 6}, {an_upload_ends, 18},
		     {a_restart, 2}};
	unsigned sum = 0, at;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		sum += calls[i].weight;
	at = (unsigned)roll(w, sum);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (at < calls[i].weight) {
			calls[i].call(w);
			break;
		}
		at -= calls[i].weight;
	}
}

static void views_never_change_and_maps_never_lie(void **state)
{
	struct folder *folder = *state;
	struct world *w = calloc(1, sizeof(*w));
	uint64_t first = dice_seed(1);

	(void)signal(SIGXFSZ, SIG_IGN);
	for (uint64_t seed = first; seed < first + (getenv("SEED") ? 1 : RUNS); seed++) {
		*w = (struct world){.seed = seed,
				    .dice = seed * 0x9e3779b97f4a7c15,
				    .dirfd = folder->fd};
		begin(w);
		for (int i = 0; i < 300; i++) {
			step(w);
			check_all(w);
		}
		end(w, folder);
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(views_never_change_and_maps_never_lie, folder_make,
						folder_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
