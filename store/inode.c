/* SPDX-License-Identifier: Apache-2.0 */
/* Values of runs: what a name points at, and what an inode is, as holdfast-store(5) lays them out. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "store/run.h"

#define SYMLINK_MAX     4095
#define XATTR_NAME_MAX  255
#define XATTR_VALUE_MAX (64u << 10)
#define XATTRS_MAX      4096

static int bad(struct fault *f, const char *why)
{
	return fault_set(f, -EBADMSG, FAULT_FINAL, "%s", why);
}

/* ---- names ---- */

int name_rec_encode(const struct name_rec *n, struct buf *out)
{
	buf_u64(out, n->id);
	buf_u64(out, n->home);
	buf_u8(out, n->type);
	return buf_ok(out) ? 0 : -ENOMEM;
}

int name_rec_decode(const void *v, size_t len, struct name_rec *out, struct fault *f)
{
	struct reader r = reader_of(v, len);
	struct name_rec n;

	n.id = read_u64(&r);
	n.home = read_u64(&r);
	n.type = read_u8(&r);
	if (r.bad || read_left(&r) > 0)
		return bad(f, "a name's value has another length");
	if (n.id == 0 || n.home == 0)
		return bad(f, "a name points at no inode");
	*out = n;
	return 0;
}

/* ---- extents ---- */

static void extent_encode(const struct extent *e, struct buf *out)
{
	buf_u8(out, e->kind);
	buf_u64(out, e->length);
	if (e->kind == EXTENT_ZERO)
		return;
	buf_add(out, e->hash.b, sizeof(e->hash.b));
	if (e->kind == EXTENT_INLINE) {
		buf_add(out, e->data, e->length);
		return;
	}
	buf_u64(out, e->place.pack);
	buf_u32(out, e->place.offset);
	buf_u32(out, e->place.stored);
	buf_u8(out, e->place.codec);
}

static int decode_place(struct reader *r, struct extent *e, struct fault *f)
{
	e->place.pack = read_u64(r);
	e->place.offset = read_u32(r);
	e->place.stored = read_u32(r);
	e->place.codec = read_u8(r);
	if (e->length > CHUNK_MAX)
		return bad(f, "an extent is longer than a chunk");
	if (e->place.stored == 0 || e->place.stored > PACK_MAX ||
	    e->place.offset > PACK_MAX - e->place.stored)
		return bad(f, "an extent lies outside its pack");
	return 0;
}

static int decode_inline(struct reader *r, struct extent *e, struct fault *f)
{
	const uint8_t *data;

	if (e->length > CHUNK_INLINE)
		return bad(f, "inline content is longer than 16 KiB");
	data = read_bytes(r, e->length);
	if (!data)
		return 0; /* r->bad is the caller's to see */
	e->data = malloc(e->length);
	if (!e->data)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for inline content");
	memcpy(e->data, data, e->length);
	return 0;
}

static int extent_decode(struct reader *r, struct extent *e, struct fault *f)
{
	const uint8_t *hash;

	*e = (struct extent){.kind = read_u8(r)};
	e->length = read_u64(r);
	if (e->length == 0 || e->length > INT64_MAX)
		return bad(f, "an extent's length is out of bounds");
	if (e->kind == EXTENT_ZERO)
		return 0;
	hash = read_bytes(r, sizeof(e->hash.b));
	if (hash)
		memcpy(e->hash.b, hash, sizeof(e->hash.b));
	switch (e->kind) {
	case EXTENT_CHUNK:
		return decode_place(r, e, f);
	case EXTENT_INLINE:
		return decode_inline(r, e, f);
	default:
		return bad(f, "an extent is of no known kind");
	}
}

static void segment_encode(const struct extents *x, size_t first, struct buf *out)
{
	size_t n = x->n - first < INODE_SEGMENT_EXTENTS ? x->n - first : INODE_SEGMENT_EXTENTS;

	buf_u32(out, (uint32_t)n);
	for (size_t i = first; i < first + n; i++)
		extent_encode(&x->v[i], out);
}

static int segment_decode(struct reader *r, struct inode_rec *io, struct fault *f)
{
	uint32_t n = read_u32(r);
	uint64_t bytes = extents_bytes(&io->extents);

	if (r->bad || n > INODE_SEGMENT_EXTENTS)
		return bad(f, "a segment holds more extents than it may");
	for (uint32_t i = 0; i < n; i++) {
		struct extent e;
		int rc = extent_decode(r, &e, f);

		if (rc == 0 && (r->bad || e.length > io->attr.size - bytes)) {
			free(e.data);
			rc = bad(f, r->bad ? "an extent is cut short"
					   : "extents reach behind the end of the file");
		}
		if (rc < 0)
			return rc;
		bytes += e.length;
		if (extents_add(&io->extents, &e) < 0)
			return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for extents");
	}
	return read_left(r) > 0 ? bad(f, "bytes behind the last extent") : 0;
}

/* ---- inodes ---- */

void inode_rec_fini(struct inode_rec *i)
{
	free(i->symlink);
	for (uint32_t x = 0; x < i->xattr_n; x++) {
		free(i->xattrs[x].name);
		free(i->xattrs[x].value);
	}
	free(i->xattrs);
	extents_fini(&i->extents);
	*i = (struct inode_rec){.id = 0};
}

static void attr_encode(const struct inode_attr *a, struct buf *out)
{
	buf_u32(out, a->mode);
	buf_u32(out, a->uid);
	buf_u32(out, a->gid);
	buf_u32(out, a->nlink);
	buf_u32(out, a->rdev);
	buf_u64(out, a->size);
	buf_u64(out, (uint64_t)a->atime_ns);
	buf_u64(out, (uint64_t)a->mtime_ns);
	buf_u64(out, (uint64_t)a->ctime_ns);
}

static void attr_decode(struct reader *r, struct inode_attr *a)
{
	a->mode = read_u32(r);
	a->uid = read_u32(r);
	a->gid = read_u32(r);
	a->nlink = read_u32(r);
	a->rdev = read_u32(r);
	a->size = read_u64(r);
	a->atime_ns = (int64_t)read_u64(r);
	a->mtime_ns = (int64_t)read_u64(r);
	a->ctime_ns = (int64_t)read_u64(r);
}

static void head_encode(const struct inode_rec *i, struct buf *out)
{
	size_t target = i->symlink ? strlen(i->symlink) : 0;

	attr_encode(&i->attr, out);
	buf_u16(out, (uint16_t)target);
	buf_add(out, i->symlink, target);
	buf_u16(out, (uint16_t)i->xattr_n);
	for (uint32_t x = 0; x < i->xattr_n; x++) {
		const struct xattr *a = &i->xattrs[x];

		buf_u8(out, (uint8_t)strlen(a->name));
		buf_u32(out, a->len);
		buf_add(out, a->name, strlen(a->name));
		buf_add(out, a->value, a->len);
	}
}

/* A copy of len bytes with a NUL behind, or NULL (r->bad, or no memory: *oom). */
static char *read_copy(struct reader *r, size_t len, bool *oom)
{
	const uint8_t *data = read_bytes(r, len);
	char *copy = data ? malloc(len + 1) : NULL;

	if (!copy) {
		*oom |= data != NULL;
		return NULL;
	}
	memcpy(copy, data, len);
	copy[len] = '\0';
	return copy;
}

static int xattr_decode(struct reader *r, struct xattr *out, bool *oom, struct fault *f)
{
	size_t name_len = read_u8(r);
	uint32_t len = read_u32(r);
	char *name;

	if (name_len == 0 || len > XATTR_VALUE_MAX)
		return bad(f, "an extended attribute is out of bounds");
	name = read_copy(r, name_len, oom);
	*out = (struct xattr){.name = name, .value = (uint8_t *)read_copy(r, len, oom), .len = len};
	if (name && strlen(name) != name_len)
		return bad(f, "an extended attribute's name holds a NUL");
	return 0;
}

static int decode_xattrs(struct reader *r, struct inode_rec *io, bool *oom, struct fault *f)
{
	uint32_t n = read_u16(r);
	int rc = 0;

	if (r->bad || n > XATTRS_MAX || n > read_left(r) / 6)
		return bad(f, "more extended attributes than fit");
	if (n == 0)
		return 0;
	io->xattrs = calloc(n, sizeof(*io->xattrs));
	if (!io->xattrs)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for extended attributes");
	for (; rc == 0 && io->xattr_n < n; io->xattr_n++)
		rc = xattr_decode(r, &io->xattrs[io->xattr_n], oom, f);
	return rc;
}

static int decode_symlink(struct reader *r, struct inode_rec *io, bool *oom, struct fault *f)
{
	size_t target = read_u16(r);

	if (target > SYMLINK_MAX || (target > 0) != S_ISLNK(io->attr.mode))
		return bad(f, "a symlink's target is out of bounds");
	if (target == 0)
		return 0;
	io->symlink = read_copy(r, target, oom);
	if (io->symlink && strlen(io->symlink) != target)
		return bad(f, "a symlink's target holds a NUL");
	return 0;
}

static int head_decode(struct reader *r, struct inode_rec *io, struct fault *f)
{
	bool oom = false;
	int rc;

	attr_decode(r, &io->attr);
	if (r->bad || io->attr.size > INT64_MAX)
		return bad(f, "attributes are cut short or out of bounds");
	rc = decode_symlink(r, io, &oom, f);
	if (rc == 0)
		rc = decode_xattrs(r, io, &oom, f);
	if (oom)
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for an inode");
	if (rc == 0 && r->bad)
		return bad(f, "it is cut short");
	return rc;
}

uint32_t inode_rec_segments(const struct inode_rec *i)
{
	if (i->extents.n == 0)
		return 1;
	return (uint32_t)((i->extents.n + INODE_SEGMENT_EXTENTS - 1) / INODE_SEGMENT_EXTENTS);
}

int inode_rec_check(const struct inode_rec *i, struct fault *f)
{
	uint64_t bytes = extents_bytes(&i->extents);
	uint64_t want = S_ISREG(i->attr.mode) ? i->attr.size : 0;

	if (bytes == want)
		return 0;
	return fault_set(f, -EBADMSG, FAULT_FINAL,
			 "inode %" PRIu64 ": extents of %" PRIu64 " bytes for %" PRIu64, i->id,
			 bytes, want);
}

/* What could be written but never be read again is refused while its writer can still be told. */
static bool is_within_bounds(const struct inode_rec *i)
{
	if (i->attr.size > INT64_MAX || inode_rec_check(i, NULL) < 0 || i->xattr_n > XATTRS_MAX)
		return false;
	if (S_ISLNK(i->attr.mode) ? !i->symlink || !*i->symlink || strlen(i->symlink) > SYMLINK_MAX
				  : !!i->symlink)
		return false;
	for (uint32_t x = 0; x < i->xattr_n; x++) {
		size_t name_len = strlen(i->xattrs[x].name);

		if (name_len == 0 || name_len > XATTR_NAME_MAX ||
		    i->xattrs[x].len > XATTR_VALUE_MAX)
			return false;
	}
	for (size_t e = 0; e < i->extents.n; e++) {
		static const uint64_t most[] = {INT64_MAX, CHUNK_MAX, CHUNK_INLINE}; /* by kind */

		if (i->extents.v[e].kind > EXTENT_INLINE ||
		    i->extents.v[e].length > most[i->extents.v[e].kind])
			return false;
	}
	return true;
}

int inode_rec_put(struct run_builder *b, const struct inode_rec *i, uint32_t segments_had)
{
	uint32_t segments = inode_rec_segments(i);
	uint8_t key[RUN_KEY_MAX];

	if (!is_within_bounds(i))
		return -EINVAL;
	for (uint32_t s = 0; s < segments; s++) {
		scoped(buf_fini) struct buf v = BUF_EMPTY;
		int rc;

		if (s == 0)
			head_encode(i, &v);
		segment_encode(&i->extents, (size_t)s * INODE_SEGMENT_EXTENTS, &v);
		if (!buf_ok(&v))
			return -ENOMEM;
		rc = run_builder_add(b, key, key_of_inode(i->home, i->id, s, key), v.data, v.len);
		if (rc < 0)
			return rc;
	}
	for (uint32_t s = segments; s < segments_had; s++) {
		int rc = run_builder_add(b, key, key_of_inode(i->home, i->id, s, key), NULL, 0);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int inode_rec_remove(struct run_builder *b, uint64_t home, uint64_t id, uint32_t segments_had)
{
	uint8_t key[RUN_KEY_MAX];

	for (uint32_t s = 0; s < segments_had; s++) {
		int rc = run_builder_add(b, key, key_of_inode(home, id, s, key), NULL, 0);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static uint64_t be_at(const uint8_t *at, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++)
		v = v << 8 | at[i];
	return v;
}

static int decode_segment_at(uint32_t segment, const void *v, size_t len, struct inode_rec *io,
			     struct fault *f)
{
	struct reader r = reader_of(v, len);
	int rc;

	/* All segments but the last are full, so their number says how many extents came before. */
	if (io->extents.n != (size_t)segment * INODE_SEGMENT_EXTENTS)
		return bad(f, "a segment before this one is missing");
	rc = segment == 0 ? head_decode(&r, io, f) : 0;
	return rc < 0 ? rc : segment_decode(&r, io, f);
}

int inode_rec_decode(const uint8_t *key, size_t key_len, const void *v, size_t len,
		     struct inode_rec *io, struct fault *f)
{
	uint64_t home, id;
	uint32_t segment;
	int rc;

	if (key_kind(key, key_len) != KEY_INODE)
		return bad(f, "the key of an inode is none");
	home = be_at(key, 8);
	id = be_at(key + 9, 8);
	segment = (uint32_t)be_at(key + 17, 4);
	if (segment == 0) {
		io->id = id;
		io->home = home;
	}
	if (io->id != id || io->home != home)
		rc = bad(f, "a segment of another inode");
	else
		rc = decode_segment_at(segment, v, len, io, f);
	if (rc < 0 && f)
		return fault_in(f, "inode %" PRIu64 " segment %u", id, segment);
	return rc;
}
