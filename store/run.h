/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: sorted lists of (key -> value or removal), immutable once made, reference-counted.
 * A commit's body, a cumulative record and a base are all runs.  Thread: any (refs are atomic).
 *
 * Keys are byte strings in memcmp order (integers in them big-endian):
 *     dir(8) 0x00 name(1..255)         a name        -> struct name_rec
 *     home(8) 0x01 id(8) segment(4)    an inode      -> struct inode_rec, 1 024 extents a segment
 *     ff*8 0x02 hash(16)               a chunk       -> place (reserved: dedupe index)
 * `home` is the directory an inode was created in, for ever: so a directory's names and its
 * inodes lie side by side in a base and one range read brings both.
 */
#ifndef HOLDFAST_STORE_RUN_H
#define HOLDFAST_STORE_RUN_H

#include "base/buf.h"
#include "base/fault.h"
#include "store/extent.h"

#define NAME_MAX_BYTES        255
#define ROOT_ID               UINT64_C(1) /* id and home of the root directory are 1 */
#define RUN_KEY_MAX           (8 + 1 + NAME_MAX_BYTES)
#define INODE_SEGMENT_EXTENTS 1024
/* Bounds that keep one item from filling a pack, and one run from filling memory. */
#define RUN_VALUE_MAX (4u << 20)
#define RUN_BYTES_MAX (1u << 30)

struct run_item {
	const uint8_t *key;
	size_t key_len;
	const uint8_t *value; /* NULL: removal */
	size_t value_len;
};

struct run;
struct run *run_ref(struct run *r);
void run_unref(struct run *r);
SCOPE_PTR(struct run, run_unref)

/* A builder takes items in any order; of two with one key the later wins. */
struct run_builder;
struct run_builder *run_builder_new(void); /* NULL: no memory */
void run_builder_free(struct run_builder *b);
SCOPE_PTR(struct run_builder, run_builder_free)
/*
 * Copies.  value NULL: removal.
 * Fails: -EINVAL no such key, or a refused name; -E2BIG longer than RUN_VALUE_MAX; -ENOMEM.
 */
int run_builder_add(struct run_builder *b, const void *key, size_t key_len, const void *value,
		    size_t value_len);
/* Ends the builder's content: it is empty afterwards.  -ENOMEM; -EFBIG past RUN_BYTES_MAX. */
int run_builder_finish(struct run_builder *b, struct run **out);

size_t run_count(const struct run *r);
size_t run_bytes(const struct run *r); /* encoded size */
/* Items stay valid while the run is referenced. */
void run_at(const struct run *r, size_t i, struct run_item *out);
/* First index whose key is >= key. */
size_t run_seek(const struct run *r, const void *key, size_t key_len);
/* false: the run says nothing about key (a removal is something). */
bool run_find(const struct run *r, const void *key, size_t key_len, struct run_item *out);

/*
 * The encoding.  Decode checks order, bounds, key kinds and names ("/", ".", "..", NUL, over-long:
 * refused); values are checked where they are decoded.  -EBADMSG, with the item in the text.
 */
int run_encode(const struct run *r, struct buf *out);
int run_decode(const void *data, size_t len, struct run **out, struct fault *f);

/* Merge, newest first: runs[0] wins.  drop_removals for a base, which has nothing below it. */
int run_merge(struct run *const *runs, size_t n, bool drop_removals, struct run **out);

/* ---- keys ---- */
size_t key_of_name(uint64_t dir, const char *name, size_t len, uint8_t out[RUN_KEY_MAX]);
size_t key_of_inode(uint64_t home, uint64_t id, uint32_t segment, uint8_t out[RUN_KEY_MAX]);
/* The number at `at` in a key: of a name its directory (0), of an inode its home (0) and its id (9). */
static inline uint64_t key_number(const uint8_t *key, size_t at)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 8; i++)
		v = v << 8 | key[at + i];
	return v;
}
/* Of an inode: the key that its attributes are under. */
static inline bool key_is_first_segment(const uint8_t *key, size_t len)
{
	return len == 21 && key[8] == 1 && !key[17] && !key[18] && !key[19] && !key[20];
}
enum key_kind { KEY_NAME = 0, KEY_INODE = 1, KEY_CHUNK = 2, KEY_BAD = 255 };
enum key_kind key_kind(const uint8_t *key, size_t len);
/* memcmp order, a prefix before what it begins. */
int key_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);
/* Why a name is refused ("holds a '/'"), or NULL. */
const char *name_refused(const void *name, size_t len);

/* ---- values ---- */
struct name_rec {
	uint64_t id;
	uint64_t home; /* of the inode */
	uint8_t type;  /* DT_REG, DT_DIR, DT_LNK … */
};
struct xattr {
	char *name;
	uint8_t *value;
	uint32_t len;
};
struct inode_attr {
	uint32_t mode; /* with S_IFMT */
	uint32_t uid, gid;
	uint32_t nlink;
	uint32_t rdev;
	uint64_t size;
	int64_t atime_ns, mtime_ns, ctime_ns; /* since 1970 */
};
struct inode_rec {
	uint64_t id, home;
	struct inode_attr attr;
	char *symlink; /* NUL-ended, owned; NULL if none */
	struct xattr *xattrs;
	uint32_t xattr_n;
	struct extents extents;
};
void inode_rec_fini(struct inode_rec *i);
SCOPE_VAL(struct inode_rec, inode_rec_fini)

int name_rec_encode(const struct name_rec *n, struct buf *out);
int name_rec_decode(const void *v, size_t len, struct name_rec *out, struct fault *f);
/*
 * All segments into a builder: one item a segment, and removals of segments [has, had) that exist no
 * more.  -EINVAL: a regular file's extents do not add up to its size, or something is longer than a
 * reader accepts; or the builder's errors.
 */
int inode_rec_put(struct run_builder *b, const struct inode_rec *i, uint32_t segments_had);
uint32_t inode_rec_segments(const struct inode_rec *i);
int inode_rec_remove(struct run_builder *b, uint64_t home, uint64_t id, uint32_t segments_had);
/*
 * Segment 0 starts the record (*io is then empty: {0}), further ones append extents; call in order.
 * Whether all have been seen shows in inode_rec_check().  -EBADMSG, with the inode in the text.
 */
int inode_rec_decode(const uint8_t *key, size_t key_len, const void *v, size_t len,
		     struct inode_rec *io, struct fault *f);
/* After the last segment: a regular file's extents add up to its size, others have none.
 * -EBADMSG. */
int inode_rec_check(const struct inode_rec *i, struct fault *f);

#endif
