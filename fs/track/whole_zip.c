/* SPDX-License-Identifier: Apache-2.0 */
/* Zips: found from their end, as every reader finds them. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/scope.h"
#include "fs/track/whole_priv.h"

enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, ENTRY_BYTES = 46, LOCAL_BYTES = 30, COMMENT_MOST = 65535 };

#define NO_DIRECTORY "zip without its directory"

/* Counted from the file's begin, whatever was put in front of the archive. */
struct zip {
	uint64_t shift; /* where the archive itself begins */
	uint64_t dir, dir_bytes;
	uint64_t entries;
};

static uint64_t le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n > 0)
		v = v << 8 | p[--n];
	return v;
}

/*
 * The end record within the last `len` bytes of the file, which are `tail`; NULL: not there.  Its comment
 * has to end with the file: an archive inside of this one has an end record, too.
 */
static const uint8_t *find_end(const uint8_t *tail, size_t len)
{
	for (size_t at = len - END_BYTES + 1; at-- > 0;)
		if (memcmp(tail + at, "PK\5\6", 4) == 0 && le(tail + at + 20, 2) == len - at - END_BYTES)
			return tail + at;
	return NULL;
}

/* Places an archive whose directory of z->dir_bytes ends at `end` and says that it lies at `said`. */
static bool place(struct zip *z, uint64_t end, uint64_t said)
{
	if (z->dir_bytes > end || said > end - z->dir_bytes)
		return false;
	z->dir = end - z->dir_bytes;
	z->shift = z->dir - said;
	return true;
}

/* Is there a zip64 end record in front of the end record at `end`?  Then it counts. */
static bool zip64(const struct whole_source *s, uint64_t end, struct zip *z, bool *placed)
{
	uint8_t x[END64_BYTES + LOCATOR_BYTES];

	if (end < sizeof(x) || !whole_get(s, end - sizeof(x), x, sizeof(x)) ||
	    memcmp(x + END64_BYTES, "PK\6\7", 4) != 0)
		return false;
	z->entries = le(x + 32, 8);
	z->dir_bytes = le(x + 40, 8);
	*placed = memcmp(x, "PK\6\6", 4) == 0 && place(z, end - sizeof(x), le(x + 48, 8));
	return true;
}

static bool find_directory(const struct whole_source *s, const uint8_t *record, uint64_t end, struct zip *z)
{
	bool placed = false;

	if (zip64(s, end, z, &placed))
		return placed;
	z->entries = le(record + 10, 2);
	z->dir_bytes = le(record + 12, 4);
	return place(z, end, le(record + 16, 4));
}

static bool ends_with(const uint8_t *name, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && memcmp(name + len - n, end, n) == 0;
}

/* "archive/data/12": one storage of a torch.save(). */
static bool is_storage(const uint8_t *name, size_t len)
{
	size_t digits = 0;

	while (digits < len && name[len - 1 - digits] >= '0' && name[len - 1 - digits] <= '9')
		digits++;
	return digits && ends_with(name, len - digits, "/data/");
}

/* What the directory says of an archive by torch. */
struct torch {
	uint64_t storages;
	uint64_t pickle, pickle_bytes; /* local header of data.pkl, and its length; 0 bytes: none */
	bool script;                   /* a torch.jit archive: it has tensors elsewhere, too */
};

static void note_entry(struct torch *t, const uint8_t *entry, const uint8_t *name, size_t len)
{
	bool stored = le(entry + 10, 2) == 0 && le(entry + 20, 4) == le(entry + 24, 4);

	t->storages += is_storage(name, len);
	if (ends_with(name, len, "/constants.pkl"))
		t->script = true;
	if (!ends_with(name, len, "/data.pkl") || !stored)
		return;
	t->pickle = le(entry + 42, 4);
	t->pickle_bytes = le(entry + 24, 4);
}

/* Stops where it does not understand. */
static struct torch read_directory(const uint8_t *dir, size_t len)
{
	struct reader r = reader_of(dir, len);
	struct torch t = {.storages = 0};

	while (read_left(&r) >= ENTRY_BYTES && memcmp(r.at, "PK\1\2", 4) == 0) {
		const uint8_t *entry = read_bytes(&r, ENTRY_BYTES);
		size_t name_len = le(entry + 28, 2);
		const uint8_t *name = read_bytes(&r, name_len);

		if (!name || !read_bytes(&r, le(entry + 30, 2) + le(entry + 32, 2)))
			break;
		note_entry(&t, entry, name, name_len);
	}
	return t;
}

static bool lacks_storages(const struct whole_source *s, const struct zip *z)
{
	scoped(free) uint8_t *dir = whole_table(s, z->dir, z->dir_bytes), *pickle = NULL;
	uint8_t local[LOCAL_BYTES];
	struct torch t;

	if (!dir)
		return false;
	t = read_directory(dir, z->dir_bytes);
	if (!t.pickle_bytes || t.script || !whole_get(s, z->shift + t.pickle, local, sizeof(local)) ||
	    memcmp(local, "PK\3\4", 4) != 0)
		return false;
	pickle = whole_table(s, z->shift + t.pickle + LOCAL_BYTES + le(local + 26, 2) + le(local + 28, 2),
			     t.pickle_bytes);
	return pickle && torch_storages(pickle, t.pickle_bytes) > t.storages;
}

static enum whole_verdict judge(const struct whole_source *s, const struct zip *z, const char **why)
{
	uint8_t first[4];

	if (z->entries == 0)
		return WHOLE_YES;
	if (z->dir_bytes < ENTRY_BYTES)
		return whole_torn(why, NO_DIRECTORY);
	if (!whole_get(s, z->dir, first, sizeof(first)))
		return WHOLE_UNKNOWN;
	if (memcmp(first, "PK\1\2", 4) != 0)
		return whole_torn(why, NO_DIRECTORY);
	return lacks_storages(s, z) ? whole_torn(why, "torch archive without all of its tensors") : WHOLE_YES;
}

/* Without a comment, which is nearly always, the end record is the last 22 bytes. */
enum whole_verdict whole_zip(const struct whole_source *s, const char **why)
{
	static const size_t tails[] = {END_BYTES, END_BYTES + COMMENT_MOST};
	struct zip z = {.shift = 0};

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		size_t len = tails[i] < s->size ? tails[i] : s->size;
		scoped(free) uint8_t *tail = len < END_BYTES ? NULL : whole_table(s, s->size - len, len);
		const uint8_t *end = tail ? find_end(tail, len) : NULL;

		if (!tail && len >= END_BYTES)
			return WHOLE_UNKNOWN;
		if (end && find_directory(s, end, s->size - len + (uint64_t)(end - tail), &z))
			return judge(s, &z, why);
	}
	return whole_torn(why, NO_DIRECTORY);
}
