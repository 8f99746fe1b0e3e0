/* SPDX-License-Identifier: Apache-2.0 */
/* Text of any origin as JSON.  Thread: any. */
#ifndef HOLDFAST_BASE_JSONTEXT_H
#define HOLDFAST_BASE_JSONTEXT_H

#include <jansson.h>

/*
 * A string, the caller's reference: JSON holds UTF-8 only, while names of files are any bytes, and a
 * text that was cut may end inside a character.  Each byte that belongs to no character becomes U+FFFD,
 * so that nothing vanishes.  NULL without memory.
 */
json_t *json_text(const char *text);

#endif
