/* SPDX-License-Identifier: Apache-2.0 */
/* Small whole files of each format, as zipfile, torch, safetensors and HDF5 lay them out. */
#ifndef HOLDFAST_TESTS_UNIT_TRACK_WHOLE_FILES_H
#define HOLDFAST_TESTS_UNIT_TRACK_WHOLE_FILES_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* ---- zip ---- */

struct zip_maker {
	struct buf *out;
	struct buf dir;
	size_t from; /* where the archive begins */
	unsigned entries;
};

static inline void zip_add(struct zip_maker *z, const char *name, const void *data, size_t len)
{
	uint32_t at = (uint32_t)(z->out->len - z->from);

	for (int central = 0; central < 2; central++) {
		struct buf *b = central ? &z->dir : z->out;

		buf_add(b, central ? "PK\1\2\0\0" : "PK\3\4", central ? 6 : 4);
		buf_u16(b, 0);
		buf_u16(b, 0);
		buf_u16(b, 0); /* stored */
		buf_u32(b, 0); /* time */
		buf_u32(b, 0); /* CRC */
		buf_u32(b, (uint32_t)len);
		buf_u32(b, (uint32_t)len);
		buf_u16(b, (uint16_t)strlen(name));
		buf_u16(b, central ? 0 : 4);
		if (central) {
			buf_u16(b, 0);
			buf_u16(b, 0);
			buf_u16(b, 0);
			buf_u32(b, 0);
			buf_u32(b, at);
		}
		buf_add(b, name, strlen(name));
		if (!central)
			buf_u32(b, 0x5a5a5a5a); /* an extra field, as torch pads */
	}
	buf_add(z->out, data, len);
	z->entries++;
}

static inline void zip_end(struct zip_maker *z, bool zip64, const char *comment)
{
	struct buf *b = z->out;
	uint32_t dir = (uint32_t)(b->len - z->from), end64;

	buf_add(b, z->dir.data, z->dir.len);
	end64 = (uint32_t)(b->len - z->from);
	if (zip64) {
		buf_add(b, "PK\6\6", 4);
		buf_u64(b, 44);
		buf_u32(b, 0);
		buf_u64(b, 0);
		buf_u64(b, z->entries);
		buf_u64(b, z->entries);
		buf_u64(b, z->dir.len);
		buf_u64(b, dir);
		buf_add(b, "PK\6\7", 4);
		buf_u32(b, 0);
		buf_u64(b, end64);
		buf_u32(b, 1);
	}
	buf_add(b, "PK\5\6\0\0\0\0", 8);
	buf_u16(b, (uint16_t)(zip64 ? 0xffff : z->entries));
	buf_u16(b, (uint16_t)(zip64 ? 0xffff : z->entries));
	buf_u32(b, zip64 ? 0xffffffff : (uint32_t)z->dir.len);
	buf_u32(b, zip64 ? 0xffffffff : dir);
	buf_u16(b, (uint16_t)strlen(comment));
	buf_add(b, comment, strlen(comment));
	buf_fini(&z->dir);
}

static inline void make_zip_of(struct buf *b, bool zip64, const char *comment)
{
	struct zip_maker z = {.out = b, .from = b->len};

	zip_add(&z, "a/weights.npy", "\x93NUMPY and some bytes", 21);
	zip_add(&z, "a/bias.npy", "more", 4);
	zip_end(&z, zip64, comment);
}

static inline void make_zip(struct buf *b)
{
	make_zip_of(b, false, "");
}

static inline void make_zip64(struct buf *b)
{
	make_zip_of(b, true, "");
}

static inline void make_zip_with_comment(struct buf *b)
{
	make_zip_of(b, false, "which every reader looks behind");
}

/* torch DCP: one archive a tensor, end to end. */
static inline void make_zips(struct buf *b)
{
	make_zip(b);
	make_zip64(b);
	make_zip(b);
}

static inline void make_empty_zip(struct buf *b)
{
	struct zip_maker z = {.out = b, .from = b->len};

	zip_end(&z, false, "");
}

/* torch.save({"w": zeros(2), "v": zeros(2), "same": w}), protocol 2. */
#define TORCH_TENSOR(ref, key, size) ref "((X\x07\0\0\0storageq\x03" "ctorch\nFloatStorage\nq\x04" key \
	"X\x03\0\0\0cpuq\x06K" size "tq\x07QK\0K" size "\x85q\x08K\x01\x85q\t\x89" \
	"ccollections\nOrderedDict\nq\n)Rq\x0btq\x0cRq\r"
#define TORCH_AGAIN(key, size) "h\x02((h\x03h\x04" key "h\x06K" size "tq\x10QK\0K" size "\x85q\x11K\x01\x85q\x12\x89h\n)Rq\x13tq\x14Rq\x15"
static const char torch_pickle[] = "\x80\x02}q\0(X\x01\0\0\0wq\x01"
	TORCH_TENSOR("ctorch._utils\n_rebuild_tensor_v2\nq\x02", "X\x01\0\0\0" "0q\x05", "\x02")
	"X\x01\0\0\0vq\x0e" TORCH_AGAIN("X\x01\0\0\0" "1q\x0f", "\x02")
	"X\x04\0\0\0sameq\x16" TORCH_AGAIN("h\x05", "\x02")
	"X\x05\0\0\0" "12345q\x17" "K\x05" "u.";

/* With the first `storages` of its 2 tensors. */
static inline void make_torch_of(struct buf *b, unsigned storages, bool script)
{
	struct zip_maker z = {.out = b, .from = b->len};

	zip_add(&z, "archive/data.pkl", torch_pickle, sizeof(torch_pickle) - 1);
	if (script)
		zip_add(&z, "archive/constants.pkl", "\x80\x02).", 4);
	if (storages > 0)
		zip_add(&z, "archive/data/0", "01234567", 8);
	if (storages > 1)
		zip_add(&z, "archive/data/1", "01234567", 8);
	zip_add(&z, "archive/version", "3\n", 2);
	zip_end(&z, true, "");
}

static inline void make_torch(struct buf *b)
{
	make_torch_of(b, 2, false);
}

/* ---- safetensors ---- */

#define TENSORS_HEADER "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}," \
		       "\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}   "
#define TENSORS_BYTES 24

static inline void make_tensors(struct buf *b)
{
	buf_u64(b, strlen(TENSORS_HEADER));
	buf_add(b, TENSORS_HEADER, strlen(TENSORS_HEADER));
	buf_add(b, "0123456789abcdef01234567", TENSORS_BYTES);
}

/* ---- HDF5 ---- */

#define HDF5_BYTES 300

static inline void hdf5_addresses(struct buf *b, uint64_t base)
{
	buf_u64(b, base);
	buf_u64(b, UINT64_MAX);
	buf_u64(b, base + HDF5_BYTES);
	buf_u64(b, UINT64_MAX);
}

/* `user`: bytes in front of it. */
static inline void make_hdf5_of(struct buf *b, unsigned version, size_t user, bool open)
{
	size_t end = user + HDF5_BYTES;

	while (b->len < user)
		buf_u8(b, 'u');
	buf_add(b, "\x89HDF\r\n\x1a\n", 8);
	buf_u8(b, (uint8_t)version);
	if (version < 2) {
		buf_add(b, "\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0", 14);
		buf_u8(b, 0);
		if (version == 1)
			buf_u32(b, 32);
	} else {
		buf_u8(b, 8);
		buf_u8(b, 8);
		buf_u8(b, open);
	}
	hdf5_addresses(b, user);
	while (b->len < end)
		buf_u8(b, 'd');
}

static inline void make_hdf5_v0(struct buf *b)
{
	make_hdf5_of(b, 0, 0, false);
}

static inline void make_hdf5_v1(struct buf *b)
{
	make_hdf5_of(b, 1, 0, false);
}

static inline void make_hdf5_v2(struct buf *b)
{
	make_hdf5_of(b, 2, 0, false);
}

static inline void make_hdf5_v3(struct buf *b)
{
	make_hdf5_of(b, 3, 0, false);
}

static inline void make_hdf5_at_512(struct buf *b)
{
	make_hdf5_of(b, 0, 512, false);
}

static inline void make_hdf5_at_8192(struct buf *b)
{
	make_hdf5_of(b, 2, 8192, false);
}

/* All of them; `begins`: shorter than so much it is of no format. */
static const struct whole_file {
	const char *name;
	void (*make)(struct buf *b);
	size_t begins;
} whole_files[] = {
	{"zip", make_zip, 4},
	{"zip64", make_zip64, 4},
	{"zip with a comment", make_zip_with_comment, 4},
	{"three zips in a row", make_zips, 4},
	{"empty zip", make_empty_zip, 4},
	{"torch", make_torch, 4},
	{"safetensors", make_tensors, 10},
	{"HDF5, superblock 0", make_hdf5_v0, 8},
	{"HDF5, superblock 1", make_hdf5_v1, 8},
	{"HDF5, superblock 2", make_hdf5_v2, 8},
	{"HDF5, superblock 3", make_hdf5_v3, 8},
	{"HDF5 behind 512 bytes", make_hdf5_at_512, 520},
	{"HDF5 behind 8192 bytes", make_hdf5_at_8192, 8200},
};

#define WHOLE_FILES (sizeof(whole_files) / sizeof(whole_files[0]))

#endif
