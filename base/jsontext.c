/* SPDX-License-Identifier: Apache-2.0 */
/* See jsontext.h. */
#include "base/jsontext.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* By first byte: how long the character is, and what its second byte may be (RFC 3629). */
static const struct lead {
	uint8_t from, to;
	uint8_t len;
	uint8_t second_from, second_to;
} leads[] = {
	{0x01, 0x7f, 1, 0,    0   },
	{0xc2, 0xdf, 2, 0x80, 0xbf},
	{0xe0, 0xe0, 3, 0xa0, 0xbf},
	{0xe1, 0xec, 3, 0x80, 0xbf},
	{0xed, 0xed, 3, 0x80, 0x9f}, /* no surrogates */
	{0xee, 0xef, 3, 0x80, 0xbf},
	{0xf0, 0xf0, 4, 0x90, 0xbf},
	{0xf1, 0xf3, 4, 0x80, 0xbf},
	{0xf4, 0xf4, 4, 0x80, 0x8f},
};

/* Bytes of the character at `at`; 0: there is none.  The NUL at the end fits no range. */
static size_t character(const uint8_t *at)
{
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		const struct lead *l = &leads[i];

		if (*at < l->from || *at > l->to)
			continue;
		if (l->len > 1 && (at[1] < l->second_from || at[1] > l->second_to))
			return 0;
		for (size_t k = 2; k < l->len; k++)
			if ((at[k] & 0xc0) != 0x80)
				return 0;
		return l->len;
	}
	return 0;
}

static json_t *repaired(const char *text)
{
	scoped(buf_fini) struct buf out = BUF_EMPTY;

	while (*text) {
		size_t len = character((const uint8_t *)text);

		if (len)
			buf_add(&out, text, len);
		else
			buf_add(&out, REPLACEMENT, strlen(REPLACEMENT));
		text += len ? len : 1;
	}
	return buf_ok(&out) ? json_stringn((const char *)out.data, out.len) : NULL;
}

json_t *json_text(const char *text)
{
	json_t *j = json_string(text); /* nearly always */

	return j ? j : repaired(text);
}
