/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a store is: s3://BUCKET[/PREFIX] or file:///DIR.  Nothing in it is %-decoded: a name is
 * written as it is.  Pure; thread: any.
 */
#ifndef HOLDFAST_STORE_URI_H
#define HOLDFAST_STORE_URI_H

#include "base/fault.h"
#include "base/scope.h"

/* One allocation a string; those of the other kind are NULL. */
struct store_uri {
	char *text;   /* without '/' at its end: what people and messages see */
	char *bucket; /* s3 */
	char *prefix; /* s3: "" or "a/b/", put in front of every key */
	char *dir;    /* file: absolute, without '/' at its end */
};

#define STORE_URI_EMPTY ((struct store_uri){.text = NULL})

/*
 * Owns:   *out is the caller's, ended by store_uri_fini().
 * Fails:  -EINVAL not a store; the text has the right forms.  -ENOMEM (SOON).
 */
int store_uri_parse(const char *text, struct store_uri *out, struct fault *f);
void store_uri_fini(struct store_uri *u);
SCOPE_VAL(struct store_uri, store_uri_fini)

#endif
