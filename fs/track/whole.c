/* SPDX-License-Identifier: Apache-2.0 */
/* Formats by their first bytes, and those two that say at their head how long they are. */
#include "fs/track/whole.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fs/track/whole_priv.h"

#define HDF5_MAGIC "\x89HDF\r\n\x1a\n"
#define HDF5_FIRST 512           /* the first place behind a user block; each next one is twice it */
#define HDF5_LAST (1u << 20)     /* a longer user block is not looked behind */
#define SAFETENSORS_MOST 100000000u /* the format's own limit of its header */

bool whole_get(const struct whole_source *s, uint64_t off, void *data, size_t len)
{
	return off <= s->size && len <= s->size - off && s->read(s->arg, data, len, off) == (ssize_t)len;
}

uint8_t *whole_table(const struct whole_source *s, uint64_t off, uint64_t len)
{
	uint8_t *data = len <= WHOLE_TABLE_MOST ? malloc(len + 1) : NULL;

	if (data && whole_get(s, off, data, len))
		return data;
	free(data);
	return NULL;
}

/* ---- HDF5 ---- */

static uint64_t read_sized(struct reader *r, unsigned size)
{
	return size == 2 ? read_u16(r) : size == 4 ? read_u32(r) : read_u64(r);
}

struct superblock {
	unsigned version;
	unsigned address_bytes;
	bool open;    /* a writer has it, or died with it */
	uint64_t end; /* of the file, as it says */
	size_t bytes; /* up to and with `end` */
};

static bool read_superblock(const uint8_t *block, size_t len, struct superblock *b)
{
	static const uint8_t addresses_at[] = {24, 28, 12, 12};
	struct reader r;

	b->version = block[8];
	if (b->version > 3)
		return false;
	b->address_bytes = block[b->version < 2 ? 13 : 9];
	b->open = b->version == 3 && block[11] & 1;
	r = reader_of(block + addresses_at[b->version], len - addresses_at[b->version]);
	(void)read_sized(&r, b->address_bytes); /* the base address, which `end` counts in */
	(void)read_sized(&r, b->address_bytes); /* free space, or the superblock's extension */
	b->end = read_sized(&r, b->address_bytes); /* all ones, "not known yet", is behind any end */
	b->bytes = (size_t)(r.at - block);
	return b->address_bytes == 0 || b->address_bytes == 2 || b->address_bytes == 4 || b->address_bytes == 8;
}

static enum whole_verdict whole_hdf5(const struct whole_source *s, uint64_t at, const char **why)
{
	uint8_t block[64] = {0};
	size_t len = s->size - at < sizeof(block) ? (size_t)(s->size - at) : sizeof(block);
	struct superblock b;

	if (!whole_get(s, at, block, len) || !read_superblock(block, sizeof(block), &b))
		return WHOLE_UNKNOWN;
	if (b.address_bytes == 0 || b.end == 0 || len < b.bytes)
		return whole_torn(why, "HDF5 with half a superblock");
	if (b.open)
		return whole_torn(why, "HDF5 that its writer has not closed");
	if (b.end > s->size)
		return whole_torn(why, "HDF5 shorter than its superblock says");
	return WHOLE_YES;
}

static bool find_hdf5(const struct whole_source *s, uint64_t *at)
{
	uint8_t magic[8];

	for (*at = 0; *at <= HDF5_LAST; *at = *at ? 2 * *at : HDF5_FIRST) {
		if (!whole_get(s, *at, magic, sizeof(magic)))
			return false;
		if (memcmp(magic, HDF5_MAGIC, sizeof(magic)) == 0)
			return true;
	}
	return false;
}

/* ---- safetensors ---- */

/* Where the data of the last tensor ends; false: not of safetensors. */
static bool tensors_end(const json_t *header, uint64_t *end)
{
	const char *name;
	json_t *tensor;

	*end = 0;
	json_object_foreach((json_t *)header, name, tensor) {
		json_t *offsets = json_object_get(tensor, "data_offsets");
		json_int_t to = json_integer_value(json_array_get(offsets, 1));

		if (strcmp(name, "__metadata__") == 0)
			continue;
		if (json_array_size(offsets) != 2 || to < 0)
			return false;
		if ((uint64_t)to > *end)
			*end = (uint64_t)to;
	}
	return true;
}

static enum whole_verdict judge_tensors(const struct whole_source *s, const uint8_t *text, uint64_t len,
					const char **why)
{
	json_t *header;
	uint64_t end;
	bool known;

	if (memchr(text, '\0', len)) /* the file was given its size, and its bytes never came */
		return whole_torn(why, "safetensors with half a header");
	header = json_loadb((const char *)text, len, 0, NULL);
	known = json_is_object(header) && tensors_end(header, &end);
	json_decref(header);
	if (!known)
		return WHOLE_UNKNOWN;
	if (end > s->size - len - 8)
		return whole_torn(why, "safetensors shorter than its header says");
	if (end < s->size - len - 8)
		return whole_torn(why, "safetensors longer than its header says");
	return WHOLE_YES;
}

static bool begins_as_tensors(const uint8_t head[16], uint64_t *len)
{
	struct reader r = reader_of(head, 16);

	*len = read_u64(&r);
	return *len >= 2 && *len <= SAFETENSORS_MOST && head[8] == '{' && (head[9] == '"' || head[9] == '}');
}

static enum whole_verdict whole_tensors(const struct whole_source *s, uint64_t len, const char **why)
{
	enum whole_verdict verdict;
	uint8_t *text;

	if (len > s->size - 8)
		return whole_torn(why, "safetensors with half a header");
	text = whole_table(s, 8, len);
	verdict = text ? judge_tensors(s, text, len, why) : WHOLE_UNKNOWN;
	free(text);
	return verdict;
}

/* ---- all of them ---- */

enum whole_verdict whole_look(const struct whole_source *s, const char **why)
{
	uint8_t head[16] = {0};
	uint64_t at;

	*why = "";
	if (!whole_get(s, 0, head, s->size < sizeof(head) ? s->size : sizeof(head)))
		return WHOLE_UNKNOWN;
	if (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0)
		return whole_zip(s, why);
	if (begins_as_tensors(head, &at))
		return whole_tensors(s, at, why);
	if (find_hdf5(s, &at))
		return whole_hdf5(s, at, why);
	return WHOLE_UNKNOWN;
}
