/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles of torch.save(), read only as far as to count the storages they name.  Each storage is a
 * persistent id: the tuple ('storage', class, '12', 'cpu', 10000) and an opcode Q behind it.  A string
 * that was said before is a reference, so a key stands in a tuple only the first time: which will do.
 */
#include <string.h>

#include "base/buf.h"
#include "fs/track/whole_priv.h"

enum { OP_MARK = '(', OP_STOP = '.', OP_PERSID = 'Q', OP_TEXT = 'X', OP_TEXT_SHORT = 0x8c };

/* What follows an opcode: so many bytes, a line or two, or a length of so many bytes and that much. */
enum { UNKNOWN = 0, LINE = 32, LINES = 33 };
#define BYTES(n) (1 + (n))
#define SIZED(n) (64 + (n))

static const uint8_t arguments[256] = {
	['('] = BYTES(0), [')'] = BYTES(0), ['.'] = BYTES(0), ['0'] = BYTES(0), ['1'] = BYTES(0), ['2'] = BYTES(0),
	['N'] = BYTES(0), ['Q'] = BYTES(0), ['R'] = BYTES(0), [']'] = BYTES(0), ['a'] = BYTES(0), ['b'] = BYTES(0),
	['d'] = BYTES(0), ['e'] = BYTES(0), ['l'] = BYTES(0), ['o'] = BYTES(0), ['s'] = BYTES(0), ['t'] = BYTES(0),
	['u'] = BYTES(0), ['}'] = BYTES(0), [0x81] = BYTES(0), [0x85 ... 0x89] = BYTES(0),
	[0x8f ... 0x94] = BYTES(0), [0x97] = BYTES(0), [0x98] = BYTES(0),
	['K'] = BYTES(1), ['h'] = BYTES(1), ['q'] = BYTES(1), [0x80] = BYTES(1), [0x82] = BYTES(1),
	['M'] = BYTES(2), [0x83] = BYTES(2),
	['J'] = BYTES(4), ['j'] = BYTES(4), ['r'] = BYTES(4), [0x84] = BYTES(4),
	['G'] = BYTES(8), [0x95] = BYTES(8),
	['F'] = LINE, ['I'] = LINE, ['L'] = LINE, ['P'] = LINE, ['S'] = LINE, ['V'] = LINE, ['g'] = LINE, ['p'] = LINE,
	['c'] = LINES, ['i'] = LINES,
	['C'] = SIZED(1), ['U'] = SIZED(1), [0x8a] = SIZED(1), [0x8c] = SIZED(1),
	['B'] = SIZED(4), ['T'] = SIZED(4), ['X'] = SIZED(4), [0x8b] = SIZED(4),
	[0x8d] = SIZED(8), [0x8e] = SIZED(8), [0x96] = SIZED(8),
};

static bool skip_line(struct reader *r)
{
	const uint8_t *end = memchr(r->at, '\n', read_left(r));

	return end && read_bytes(r, (size_t)(end - r->at) + 1);
}

static uint64_t read_length(struct reader *r, unsigned bytes)
{
	return bytes == 1 ? read_u8(r) : bytes == 4 ? read_u32(r) : read_u64(r);
}

/* Past what follows opcode `op`; *text, *len: the bytes of a sized one. */
static bool skip_argument(struct reader *r, uint8_t op, const uint8_t **text, size_t *len)
{
	uint8_t kind = arguments[op];

	if (kind == UNKNOWN)
		return false;
	if (kind == LINE || kind == LINES)
		return skip_line(r) && (kind == LINE || skip_line(r));
	*len = kind > SIZED(0) ? read_length(r, kind - SIZED(0)) : (uint64_t)(kind - BYTES(0));
	*text = r->bad || *len > read_left(r) ? NULL : read_bytes(r, *len);
	return *text != NULL;
}

/* -1: not a number as torch gives storages. */
static int64_t key_of(const uint8_t *text, size_t len)
{
	int64_t key = 0;

	if (len == 0 || len > 9)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		key = 10 * key + text[i] - '0';
	}
	return key;
}

uint64_t torch_storages(const uint8_t *pickle, size_t len)
{
	struct reader r = reader_of(pickle, len);
	uint64_t n = 0;
	int64_t key = -1; /* in the tuple that is being made */

	while (!r.bad) {
		uint8_t op = read_u8(&r);
		const uint8_t *text = NULL;
		size_t text_len = 0;

		if (op == OP_STOP && !r.bad)
			return n;
		if (!skip_argument(&r, op, &text, &text_len))
			break;
		if (op == OP_MARK)
			key = -1;
		else if ((op == OP_TEXT || op == OP_TEXT_SHORT) && key < 0)
			key = key_of(text, text_len);
		else if (op == OP_PERSID && key >= (int64_t)n)
			n = (uint64_t)key + 1;
	}
	return 0;
}
