/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of one version of one inode: how it is made, written, read, and what the store has
 * of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/param.h>
#include <sys/stat.h>

#include "base/aside.h"
#include "fs/cache/content_priv.h"

/* ---- whole transfers ---- */

ssize_t pread_all(int fd, void *data, size_t len, uint64_t off)
{
	size_t sum = 0;

	while (sum < len) {
		ssize_t n = pread(fd, (uint8_t *)data + sum, len - sum, (off_t)(off + sum));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		sum += (size_t)n;
	}
	return (ssize_t)sum;
}

ssize_t pwrite_all(int fd, const void *data, size_t len, uint64_t off)
{
	size_t sum = 0;

	while (sum < len) {
		ssize_t n = pwrite(fd, (const uint8_t *)data + sum, len - sum, (off_t)(off + sum));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		sum += (size_t)n;
	}
	return (ssize_t)sum;
}

/* ---- birth and death ---- */

/* Not among the folder's contents yet; of size 0, all present. */
static int open_content(struct content_dir *d, uint64_t id, uint32_t version, int flags,
			struct content **out, struct fault *f)
{
	struct content *c = calloc(1, sizeof(*c));
	char name[CONTENT_NAME_MAX];

	content_name(id, version, name);
	if (!c)
		return fault_errno(f, -ENOMEM, "cache: contents/%s", name);
	*c = (struct content){.dir = d, .id = id, .version = version, .told = NEVER};
	do {
		c->fd = openat(d->fd, name, flags | O_RDWR | O_CLOEXEC, 0600);
	} while (c->fd < 0 && ballast_helps(d->ballast, -errno));
	if (c->fd < 0) {
		int rc = flags & O_CREAT ? content_dir_missed(d, -errno) : -errno;

		free(c);
		return fault_errno(f, rc, "cache: contents/%s", name);
	}
	atomic_init(&c->refs, 1);
	atomic_init(&c->whole, true);
	atomic_init(&c->in_sequence, true);
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_mutex_init(&c->sync_lock, NULL);
	content_dir_enter(c);
	*out = c;
	return 0;
}

static void close_content(struct content *c, bool delete)
{
	char name[CONTENT_NAME_MAX];

	content_dir_leave(c);
	content_account(c, -atomic_load(&c->bytes));
	if (delete) {
		content_name(c->id, c->version, name);
		(void)unlinkat(c->dir->fd, name, 0); /* one that stays is swept at the next start */
	}
	fd_close(c->fd);
	map_unref(c->map);
	ranges_fini(&c->absent);
	ranges_fini(&c->going);
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_mutex_destroy(&c->sync_lock);
	free(c);
}

struct content *content_ref(struct content *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void content_unref(struct content *c)
{
	if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		close_content(c, !atomic_load(&c->dir->keep));
}

int content_new(struct content_dir *d, uint64_t id, uint32_t version, struct content **out,
		struct fault *f)
{
	return open_content(d, id, version, O_CREAT | O_TRUNC, out, f);
}

/* What of a run of zeros is absent; of a chunk, all of it. */
static int map_absent_entry(struct content *c, uint64_t off, const struct extent *e)
{
	struct range r = {.to = off};
	int rc = 0;

	if (e->kind != EXTENT_ZERO && off + e->length > content_size(c))
		return -EBADMSG;
	if (e->kind != EXTENT_ZERO)
		return map_put(&c->map, off, e);
	while (rc == 0 && ranges_next(&c->absent, r.to, off + e->length, &r)) {
		const struct extent piece = {.kind = EXTENT_ZERO, .length = r.to - r.from};

		rc = map_put(&c->map, r.from, &piece);
	}
	return rc;
}

/* The map of a content whose bytes are here but for the absent ones. */
static int map_absent(struct content *c, const struct extents *x)
{
	uint64_t off = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < x->n; off += x->v[i++].length)
		if (ranges_meets(&c->absent, off, off + x->v[i].length))
			rc = map_absent_entry(c, off, &x->v[i]);
	content_refresh(c, NEVER);
	return rc;
}

int content_of_extents(struct content_dir *d, uint64_t id, uint32_t version,
		       const struct extents *extents, uint64_t size, struct content **out,
		       struct fault *f)
{
	uint64_t bytes = extents_bytes(extents);
	struct content *c;
	int rc;

	if (bytes > size)
		return fault_set(f, -EBADMSG, FAULT_FINAL,
				 "inode %llx: extents of %llu bytes in a file of %llu",
				 (unsigned long long)id, (unsigned long long)bytes,
				 (unsigned long long)size);
	rc = open_content(d, id, version, O_CREAT | O_TRUNC, &c, f);
	if (rc < 0)
		return rc;
	rc = ftruncate(c->fd, (off_t)size) < 0 ? -errno : 0;
	if (rc == 0) {
		atomic_store(&c->size, size);
		rc = ranges_add(&c->absent, 0, bytes);
	}
	if (rc == 0)
		rc = map_absent(c, extents);
	if (rc < 0) {
		close_content(c, true);
		return fault_errno(f, rc, "cache: content of inode %llx", (unsigned long long)id);
	}
	*out = c;
	return 0;
}

static int extend(struct content *c, uint64_t from, const struct extents *x, uint64_t size)
{
	uint64_t off = 0, old = content_size(c);
	int rc = size < old ? -EINVAL : map_own(&c->map, 1);

	if (rc == 0 && ftruncate(content_file(c), (off_t)size) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	if (size > old) /* before the size is seen: content_read() asks without the lock */
		atomic_store_explicit(&c->whole, false, memory_order_release);
	if (c->map)
		(void)map_remove(c->map, from, old);
	rc = size > old ? ranges_add(&c->absent, old, size) : 0;
	for (size_t i = 0; rc == 0 && i < x->n; off += x->v[i++].length)
		if (off >= from)
			rc = map_put(&c->map, off, &x->v[i]);
	atomic_store_explicit(&c->size, size, memory_order_release);
	content_refresh(c, from);
	return rc;
}

int content_extend(struct content *c, uint64_t from, const struct extents *extents, uint64_t size)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = extend(c, from, extents, size);
	pthread_mutex_unlock(&c->lock);
	content_rest(c); /* nobody may have it open */
	return rc;
}

/* What of [0, end) `present` lacks is absent. */
static int adopt_present(struct content *c, const struct ranges *present, uint64_t end)
{
	struct range gap = {.to = 0};
	int rc = 0;

	if (!present)
		return 0;
	while (rc == 0 && ranges_next_gap(present, gap.to, end, &gap))
		rc = ranges_add(&c->absent, gap.from, gap.to);
	if (present->n && present->v[present->n - 1].to == NEVER)
		c->told = present->v[present->n - 1].from;
	return rc;
}

/* The base's chunks where it is they that are absent: `referred` took the place of the others. */
static int map_base(struct content *c, const struct extents *base, const struct map *referred)
{
	scoped(ranges_fini) struct ranges all = RANGES_EMPTY;
	int rc = ranges_copy(&c->absent, &all);

	for (size_t i = 0; rc == 0 && i < map_count(referred); i++)
		rc = ranges_remove(&c->absent, referred->v[i].off, map_entry_end(&referred->v[i]));
	if (rc == 0)
		rc = map_absent(c, base);
	ranges_fini(&c->absent);
	c->absent = all;
	all = RANGES_EMPTY;
	return rc;
}

static int map_referred(struct content *c, const struct map *referred)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < map_count(referred); i++) {
		const struct map_entry *m = &referred->v[i];

		if (!ranges_meets(&c->absent, m->off, map_entry_end(m)))
			continue;
		rc = map_absent_entry(c, m->off, &m->e);
		c->refers = true;
	}
	content_refresh(c, NEVER);
	return rc;
}

int content_adopt(struct content_dir *d, uint64_t id, uint32_t version, const struct extents *base,
		  const struct map *referred, const struct ranges *present, struct content **out,
		  struct fault *f)
{
	struct content *c;
	struct stat st;
	int rc = open_content(d, id, version, 0, &c, f);

	if (rc < 0)
		return rc;
	rc = fstat(c->fd, &st) < 0 ? -errno : 0;
	if (rc == 0) {
		uint64_t size = (uint64_t)st.st_size;
		uint64_t end = MAX(extents_bytes(base), map_end(referred));

		atomic_store(&c->size, size);
		content_account(c, (int64_t)st.st_blocks * 512);
		rc = adopt_present(c, present, MIN(size, end));
	}
	if (rc == 0)
		rc = map_base(c, base, referred);
	if (rc == 0)
		rc = map_referred(c, referred);
	if (rc < 0) {
		close_content(c, false);
		return fault_errno(f, rc, "cache: content %u of inode %llx", version,
				   (unsigned long long)id);
	}
	atomic_store(&c->writes, 1); /* what was written before may not be on disk */
	fd_close(take_fd(&c->fd));   /* one of very many, and not asked for yet */
	*out = c;
	return 0;
}

/* ---- what is asked without the lock ---- */

uint64_t content_id(const struct content *c)
{
	return c->id;
}

uint32_t content_version(const struct content *c)
{
	return c->version;
}

int content_fd(const struct content *c)
{
	return c->fd;
}

static bool is_short(const struct content *c)
{
	struct stat st;

	return fstat(c->fd, &st) == 0 && (uint64_t)st.st_size < c->size;
}

int content_file(struct content *c)
{
	char name[CONTENT_NAME_MAX];

	if (c->fd >= 0)
		return c->fd;
	content_name(c->id, c->version, name);
	c->fd = openat(c->dir->fd, name, O_RDWR | O_CLOEXEC);
	if (c->fd < 0) {
		errno = -content_missed(c, -errno);
	} else if (is_short(c)) {
		fd_close(take_fd(&c->fd));
		errno = EUCLEAN;
	}
	return c->fd;
}

bool content_is_cut(struct content *c)
{
	return content_file(c) < 0 ? errno == EUCLEAN : is_short(c);
}

int content_check(struct content *c)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = content_is_cut(c) ? -EUCLEAN : 0;
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Under lock. */
static void close_file(struct content *c)
{
	if (!content_dir_is_deleted(c->dir))
		fd_close(take_fd(&c->fd));
}

/* A file that is held already stays so: nobody waits for a write under way. */
static bool hold_more(struct content *c)
{
	unsigned n = atomic_load(&c->holds);

	while (n > 0)
		if (atomic_compare_exchange_weak(&c->holds, &n, n + 1))
			return true;
	return false;
}

int content_hold(struct content *c)
{
	int rc;

	if (hold_more(c))
		return c->fd;
	pthread_mutex_lock(&c->lock);
	rc = content_file(c) < 0 ? -errno : c->fd;
	if (rc >= 0)
		atomic_fetch_add(&c->holds, 1);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void content_unhold(struct content *c)
{
	unsigned n = atomic_load(&c->holds);

	while (n > 1)
		if (atomic_compare_exchange_weak(&c->holds, &n, n - 1))
			return;
	pthread_mutex_lock(&c->lock);
	if (atomic_fetch_sub(&c->holds, 1) == 1)
		close_file(c);
	pthread_mutex_unlock(&c->lock);
}

void content_rest(struct content *c)
{
	pthread_mutex_lock(&c->lock);
	if (atomic_load(&c->holds) == 0)
		close_file(c);
	pthread_mutex_unlock(&c->lock);
}

uint64_t content_bytes(struct content *c)
{
	return (uint64_t)MAX(atomic_load(&c->bytes), 0);
}

uint64_t content_size(struct content *c)
{
	return atomic_load_explicit(&c->size, memory_order_acquire);
}

bool content_is_whole(struct content *c)
{
	return atomic_load_explicit(&c->whole, memory_order_acquire);
}

bool content_has(struct content *c, uint64_t from, uint64_t to)
{
	bool has;

	pthread_mutex_lock(&c->lock);
	has = !ranges_meets(&c->absent, from, to);
	pthread_mutex_unlock(&c->lock);
	return has;
}

bool content_in_sequence(struct content *c)
{
	return atomic_load_explicit(&c->in_sequence, memory_order_acquire);
}

uint64_t content_mapped(struct content *c)
{
	return atomic_load_explicit(&c->mapped, memory_order_acquire);
}

/*
 * A write is counted after its bytes are there: one under way now, whose bytes may be read
 * half, is counted later than this and found by content_map(), which waits for it.
 */
uint64_t content_stamp(struct content *c)
{
	return atomic_load_explicit(&c->stamp, memory_order_acquire);
}

/* ---- bookkeeping of a change ---- */

void content_note_present(struct content *c, uint64_t from, uint64_t to)
{
	const struct content_notes *n = &c->dir->notes;

	if (n->present && from < to)
		n->present(n->arg, c->id, c->version, from, to - from);
}

void content_refresh(struct content *c, uint64_t lost_from)
{
	uint64_t size = content_size(c), at = MIN(content_mapped(c), MIN(lost_from, size));
	struct range gap;

	at = map_next_gap(c->map, at, size, &gap) ? gap.from : size;
	atomic_store_explicit(&c->mapped, at, memory_order_release);
	atomic_store_explicit(&c->whole, c->absent.n == 0, memory_order_release);
	if (at == size)
		atomic_store_explicit(&c->in_sequence, true, memory_order_release);
}

/* Before [from, to), which is below the size, changes.  On failure nothing may. */
static int change_begin(struct content *c, uint64_t from, uint64_t to)
{
	int rc = views_preserve(c, from, to);

	if (rc == 0 && map_meets(c->map, from, to))
		rc = map_own(&c->map, c->absent.n + 1);
	return rc;
}

/* What is still absent (a failed write changed part of the rest) keeps its place in the map. */
static uint64_t map_lose(struct content *c, uint64_t from, uint64_t to)
{
	struct range r = {.to = from};
	uint64_t low = NEVER, lost;

	if (!map_meets(c->map, from, to))
		return NEVER;
	while (ranges_next_gap(&c->absent, r.to, to, &r)) {
		lost = map_remove(c->map, r.from, r.to);
		low = MIN(low, lost);
	}
	return low;
}

void content_note_written(struct content *c, uint64_t from, uint64_t to)
{
	uint64_t stamp = atomic_load(&c->stamp) + 1;

	c->written[stamp % WRITES_KEPT] = (struct range){.from = from, .to = to};
	atomic_store_explicit(&c->stamp, stamp, memory_order_release);
	atomic_store_explicit(&c->in_sequence, false, memory_order_release);
}

/* After it did, or may have in part (done < 0). */
static int change_end(struct content *c, uint64_t from, uint64_t to, int done)
{
	bool came = ranges_meets(&c->absent, from, to);
	int rc = done;

	if (rc == 0)
		rc = ranges_remove(&c->absent, from, to);
	if (rc == 0 && came)
		content_note_present(c, from, to);
	content_note_written(c, from, to);
	content_refresh(c, map_lose(c, from, to));
	return rc;
}

void content_grow_begin(struct content *c)
{
	uint64_t size = content_size(c);

	if (size >= c->told)
		return;
	content_note_present(c, size, NEVER);
	c->told = size;
}

static void grow_end(struct content *c, uint64_t size)
{
	atomic_store_explicit(&c->size, size, memory_order_release);
}

void content_recount(struct content *c)
{
	struct stat st;

	if (fstat(content_file(c), &st) == 0)
		content_account(c, (int64_t)st.st_blocks * 512 - atomic_load(&c->bytes));
}

/* ---- bytes ---- */

static int write_at(struct content *c, const void *data, size_t len, uint64_t off)
{
	uint64_t size = content_size(c), end = off + len;
	bool over = off < size;
	ssize_t put;
	int rc = 0;

	if (over && content_cuts_absent(c, off, end))
		return -ENODATA;
	if (c->going.n)
		(void)punch_now(c);
	if (over)
		rc = change_begin(c, off, MIN(end, size));
	if (rc < 0)
		return rc;
	if (end > size)
		content_grow_begin(c);
	put = pwrite_all(content_file(c), data, len, off);
	atomic_fetch_add(&c->writes, 1);
	rc = put < 0 ? (int)put : 0;
	if (over)
		rc = change_end(c, off, MIN(end, size), rc);
	if (end <= size)
		return rc;
	if (rc < 0) {
		/* What of it went in goes again; to shorten needs no space. */
		(void)!ftruncate(content_file(c), (off_t)size);
		return rc;
	}
	content_account(c, (int64_t)(end - MAX(off, size)));
	grow_end(c, end);
	return 0;
}

ssize_t content_write(struct content *c, const void *data, size_t len, uint64_t off, bool append,
		      uint64_t *out_off)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (append)
		off = content_size(c);
	if (off > INT64_MAX - len)
		rc = -EFBIG;
	else if (len > 0)
		rc = write_at(c, data, len, off);
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		return rc;
	if (out_off)
		*out_off = off;
	return (ssize_t)len;
}

/* The entry that the new end would cut, if its bytes are not here.  A run of zeros can be cut. */
static bool end_is_absent(const struct content *c, uint64_t size)
{
	size_t i = map_find(c->map, size);
	const struct map_entry *e;

	if (i == map_count(c->map))
		return false;
	e = &c->map->v[i];
	return e->off < size && e->e.kind != EXTENT_ZERO && ranges_meets(&c->absent, e->off, size);
}

static int shrink(struct content *c, uint64_t size)
{
	uint64_t old = content_size(c);
	int rc;

	if (end_is_absent(c, size))
		return -ENODATA;
	if (c->going.n)
		(void)punch_now(c);
	rc = change_begin(c, size, old);
	if (rc < 0)
		return rc;
	rc = ftruncate(content_file(c), (off_t)size) < 0 ? -errno : 0;
	if (rc < 0)
		return rc;
	(void)ranges_remove(&c->absent, size, NEVER); /* a tail: no hole, so it cannot fail */
	grow_end(c, size);
	return change_end(c, size, old, 0);
}

static int grow(struct content *c, uint64_t size)
{
	content_grow_begin(c);
	if (ftruncate(content_file(c), (off_t)size) < 0)
		return -errno;
	grow_end(c, size);
	return 0;
}

int content_truncate(struct content *c, uint64_t size)
{
	int rc = 0;

	if (size > INT64_MAX)
		return -EFBIG;
	pthread_mutex_lock(&c->lock);
	if (size < content_size(c))
		rc = shrink(c, size);
	else if (size > content_size(c))
		rc = grow(c, size);
	atomic_fetch_add(&c->writes, 1);
	content_recount(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int allocate(struct content *c, uint64_t off, uint64_t len, int mode)
{
	bool zeroes = mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
	bool grows = !(mode & FALLOC_FL_KEEP_SIZE) && off + len > content_size(c);
	uint64_t to = MIN(off + len, content_size(c));
	int rc = 0;

	zeroes = zeroes && off < to;
	if (zeroes && content_cuts_absent(c, off, off + len))
		return -ENODATA;
	if (c->going.n)
		(void)punch_now(c);
	if (zeroes)
		rc = change_begin(c, off, to);
	if (rc < 0)
		return rc;
	if (grows)
		content_grow_begin(c);
	rc = fallocate(content_file(c), mode, (off_t)off, (off_t)len) < 0 ? -errno : 0;
	if (zeroes)
		rc = change_end(c, off, to, rc);
	if (rc == 0 && grows)
		grow_end(c, off + len);
	return rc;
}

int content_allocate(struct content *c, uint64_t off, uint64_t len, int mode)
{
	int rc;

	switch (mode) {
	case 0:
	case FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE:
	case FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE:
	case FALLOC_FL_ZERO_RANGE:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (len == 0)
		return -EINVAL;
	if (off > INT64_MAX || len > INT64_MAX - off)
		return -EFBIG;
	pthread_mutex_lock(&c->lock);
	rc = allocate(c, off, len, mode);
	atomic_fetch_add(&c->writes, 1);
	content_recount(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/*
 * Without the lock, but with a hold: else the file might be closed under it, and its number be
 * another's.
 */
static ssize_t read_held(struct content *c, void *data, size_t len, uint64_t off)
{
	int fd = content_hold(c);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = pread_all(fd, data, len, off);
	content_unhold(c);
	return n == -EIO ? -EUCLEAN : n;
}

/* Only what is here; a punch meanwhile is the caller's to notice. */
static ssize_t read_present(struct content *c, void *data, size_t len, uint64_t off)
{
	bool absent = false;

	if (!content_is_whole(c)) {
		pthread_mutex_lock(&c->lock);
		absent = ranges_meets(&c->absent, off, off + len);
		pthread_mutex_unlock(&c->lock);
	}
	return absent ? -ENODATA : read_held(c, data, len, off);
}

ssize_t content_read(struct content *c, void *data, size_t len, uint64_t off)
{
	uint64_t size = content_size(c); /* the file may be longer by what is absent: see extend() */
	uint64_t punches;
	ssize_t got;

	if (off > INT64_MAX)
		return -EINVAL;
	if (off >= size)
		return 0;
	len = MIN(len, size - off);
	do { /* else zeros may have been read that are none */
		punches = atomic_load(&c->punches);
		got = read_present(c, data, len, off);
	} while (got >= 0 && atomic_load(&c->punches) != punches);
	if (got >= 0 && (size_t)got < len && content_check(c) < 0)
		return -EUCLEAN; /* else it was cut through us meanwhile */
	return got;
}

/* ---- data and holes ---- */

/*
 * The next absent byte at or after `off` that is not of a run of zeros; `*end`: where that
 * entry does.
 */
static uint64_t next_stored(struct content *c, uint64_t off, uint64_t *end)
{
	struct range r;

	for (size_t i = map_find(c->map, off); c->absent.n && i < map_count(c->map); i++) {
		const struct map_entry *m = &c->map->v[i];

		*end = map_entry_end(m);
		if (m->e.kind != EXTENT_ZERO && ranges_next(&c->absent, MAX(off, m->off), *end, &r))
			return r.from;
	}
	*end = NEVER;
	return NEVER;
}

static off_t seek_data(struct content *c, uint64_t off)
{
	uint64_t end, stored = next_stored(c, off, &end);
	off_t here = lseek(content_file(c), (off_t)off, SEEK_DATA);

	if (here < 0 && errno != ENXIO)
		return -errno;
	if (here < 0 && stored == NEVER)
		return -ENXIO;
	return here < 0 ? (off_t)stored : (off_t)MIN((uint64_t)here, stored);
}

static off_t seek_hole(struct content *c, uint64_t off, uint64_t size)
{
	while (off < size) {
		uint64_t end;
		off_t here = lseek(content_file(c), (off_t)off, SEEK_HOLE);

		if (here < 0)
			return -errno;
		if (next_stored(c, (uint64_t)here, &end) != (uint64_t)here)
			return here;
		off = end;
	}
	return (off_t)size;
}

off_t content_seek(struct content *c, off_t off, int whence)
{
	off_t at;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	pthread_mutex_lock(&c->lock);
	if (off < 0 || (uint64_t)off >= content_size(c))
		at = -ENXIO;
	else
		at = whence == SEEK_DATA ? seek_data(c, (uint64_t)off)
					 : seek_hole(c, (uint64_t)off, content_size(c));
	pthread_mutex_unlock(&c->lock);
	return at;
}

/* ---- sync ---- */

static int sync_name(void *content)
{
	return content_dir_sync_name(content);
}

static int sync_bytes(struct content *c)
{
	uint64_t writes = atomic_load(&c->writes);

	if (writes == c->synced)
		return 0;
	if (fdatasync(c->fd) < 0)
		return -errno;
	c->synced = writes;
	return 0;
}

/* Under sync_lock.  Together: one after the other they are two commits of the disk's own journal. */
static int sync_new(struct content *c)
{
	struct aside name;
	int rc, name_rc;

	aside_start(&name, sync_name, c);
	rc = sync_bytes(c);
	name_rc = aside_end(&name);
	c->name_synced = name_rc == 0;
	return rc < 0 ? rc : name_rc;
}

/* Its times are the journal's matter, so fdatasync will do in either case. */
int content_sync(struct content *c)
{
	int rc;

	pthread_mutex_lock(&c->sync_lock);
	rc = c->name_synced ? sync_bytes(c) : sync_new(c);
	pthread_mutex_unlock(&c->sync_lock);
	return rc;
}

/* ---- what the store has ---- */

static bool written_since(const struct content *c, uint64_t stamp, uint64_t from, uint64_t to)
{
	uint64_t now = atomic_load(&c->stamp);

	if (now - stamp > WRITES_KEPT)
		return true; /* more than we remember */
	for (uint64_t i = stamp + 1; i <= now; i++) {
		const struct range *w = &c->written[i % WRITES_KEPT];

		if (w->from < to && from < w->to)
			return true;
	}
	return false;
}

int content_learn(struct content *c, uint64_t off, const struct extent *e)
{
	uint64_t size = content_size(c);
	struct extent cut = *e;
	int rc = 0;

	if (e->kind == EXTENT_ZERO && off < size)
		cut.length = MIN(e->length, size - off);
	if (off + cut.length <= size)
		rc = map_put(&c->map, off, &cut);
	if (rc == 0)
		rc = views_learn(c, off, e);
	content_refresh(c, NEVER);
	return rc;
}

int content_map(struct content *c, uint64_t stamp, uint64_t off, const struct extents *x)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (written_since(c, stamp, off, off + extents_bytes(x)))
		rc = -ESTALE;
	for (size_t i = 0; rc == 0 && i < x->n; off += x->v[i++].length)
		rc = content_learn(c, off, &x->v[i]);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int content_present(struct content *c, struct ranges *out)
{
	scoped(ranges_fini) struct ranges r = RANGES_EMPTY;
	struct range gap = {.to = 0};
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (rc == 0 && ranges_next_gap(&c->absent, gap.to, NEVER, &gap))
		rc = ranges_add(&r, gap.from, gap.to);
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		return rc;
	*out = r;
	r = RANGES_EMPTY;
	return 0;
}
