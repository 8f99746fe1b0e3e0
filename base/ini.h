/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The INI dialect of the AWS tools: [section], key = value, lines that begin with '#' or ';', and
 * one level of nesting by indentation.  Keys are in lower case; of two equal ones the later counts.
 * Immutable after loading.  Strings returned live as long as the struct.
 */
#ifndef HOLDFAST_BASE_INI_H
#define HOLDFAST_BASE_INI_H

#include <stdbool.h>

#include "base/fault.h"
#include "base/scope.h"

struct ini;

/* A file that does not exist is an empty one.  Fails: -EINVAL "FILE:LINE: why"; -EFBIG over 1 MiB;
 * what open and read say; -ENOMEM.  The text quotes no value, since values are secrets. */
int ini_load(const char *path, struct ini **out, struct fault *f);
void ini_free(struct ini *ini); /* wipes */
SCOPE_PTR(struct ini, ini_free)

/* Section names have their quotes removed and blanks made one: [profile "a"] is "profile a". */
bool ini_has(const struct ini *ini, const char *section);
/* NULL if absent. */
const char *ini_get(const struct ini *ini, const char *section, const char *key);
/* `sub` from the indented lines below an empty `key =`. */
const char *ini_get_nested(const struct ini *ini, const char *section, const char *key,
			   const char *sub);

#endif
