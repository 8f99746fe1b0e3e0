/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of runs: byte strings whose memcmp order lays a directory's names and inodes side by side. */
#include <assert.h>
#include <string.h>

#include "store/run.h"

static uint8_t *put_be(uint8_t *at, uint64_t v, size_t bytes)
{
	for (size_t i = bytes; i-- > 0;)
		*at++ = (uint8_t)(v >> (8 * i));
	return at;
}

size_t key_of_name(uint64_t dir, const char *name, size_t len, uint8_t out[RUN_KEY_MAX])
{
	uint8_t *at = put_be(out, dir, 8);

	assert(len > 0 && len <= NAME_MAX_BYTES);
	*at++ = KEY_NAME;
	memcpy(at, name, len);
	return 9 + len;
}

size_t key_of_inode(uint64_t home, uint64_t id, uint32_t segment, uint8_t out[RUN_KEY_MAX])
{
	uint8_t *at = put_be(out, home, 8);

	*at++ = KEY_INODE;
	at = put_be(at, id, 8);
	at = put_be(at, segment, 4);
	return (size_t)(at - out);
}

enum key_kind key_kind(const uint8_t *key, size_t len)
{
	static const uint8_t chunks[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if (len < 10 || len > RUN_KEY_MAX)
		return KEY_BAD;
	switch (key[8]) {
	case KEY_NAME:
		return KEY_NAME;
	case KEY_INODE:
		return len == 8 + 1 + 8 + 4 ? KEY_INODE : KEY_BAD;
	case KEY_CHUNK:
		return len == 8 + 1 + 16 && memcmp(key, chunks, 8) == 0 ? KEY_CHUNK : KEY_BAD;
	default:
		return KEY_BAD;
	}
}

int key_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	size_t both = a_len < b_len ? a_len : b_len;
	int order = both ? memcmp(a, b, both) : 0;

	if (order != 0)
		return order;
	return a_len < b_len ? -1 : a_len > b_len;
}

const char *name_refused(const void *name, size_t len)
{
	if (len == 0)
		return "is empty";
	if (len > NAME_MAX_BYTES)
		return "is longer than 255 bytes";
	if (memchr(name, '/', len))
		return "holds a '/'";
	if (memchr(name, '\0', len))
		return "holds a NUL";
	if ((len == 1 && memcmp(name, ".", 1) == 0) || (len == 2 && memcmp(name, "..", 2) == 0))
		return "means a directory";
	return NULL;
}
