/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URI[@COMMIT][:PATH]: a store, one of its moments, and a place in it.  Pure; thread: any.
 *
 * Both marks may stand in a directory's name or in a path as well, so:
 *   - the first @good, @newest or @NUMBER with ':' or nothing behind it is the commit; all before it
 *     is the URI, all behind it the path;
 *   - without one the path begins at the first ':' behind the scheme's "://".
 * Whoever has a ':' in a URI, or an "@7" in a path, writes @good out.
 */
#ifndef HOLDFAST_TOOLS_REF_H
#define HOLDFAST_TOOLS_REF_H

#include <stdint.h>

#include "base/fault.h"
#include "base/scope.h"

enum ref_which { REF_GOOD, REF_NEWEST, REF_NUMBER };

struct ref {
	char *uri;
	enum ref_which which;
	uint64_t number; /* REF_NUMBER */
	char *path;      /* names with one '/' between them; "" for the top */
};

#define REF_EMPTY ((struct ref){.uri = NULL})

/*
 * Owns:   *out is the caller's, ended by ref_fini().
 * Fails:  -EINVAL a path with "." or ".." in it, or no commit number; -ENOMEM.  The URI is not looked at.
 */
int ref_parse(const char *text, struct ref *out, struct fault *f);
void ref_fini(struct ref *r);
SCOPE_VAL(struct ref, ref_fini)

#endif
