/* SPDX-License-Identifier: Apache-2.0 */
/* From a reply to a set of keys: expiry times and the JSON that all but STS speak. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/creds_source.h"
#include "base/iso.h"
#include "base/wipe.h"

/* ---- expiry ---- */

int creds_set_expiry(struct creds_set *set, const char *iso, int64_t now_s, struct fault *f)
{
	int64_t at_s;

	if (!iso_time(iso, &at_s))
		return fault_set(f, -EPROTO, FAULT_FINAL, "expiration is not a time");
	if (at_s <= now_s)
		return fault_set(f, -EKEYEXPIRED, FAULT_SOON, "the keys it gave expired at %.32s",
				 iso);
	set->expires = true;
	set->life_ns = (uint64_t)(at_s - now_s) * NS_PER_S;
	return 0;
}

/* ---- JSON ---- */

/* jansson frees what it copied without wiping it, so secrets are wiped in place before. */
static void json_wipe(json_t *root)
{
	static const char *const secrets[] = {"SecretAccessKey", "Token", "SessionToken"};

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		json_t *value = json_object_get(root, secrets[i]);

		if (json_is_string(value))
			OPENSSL_cleanse((char *)json_string_value(value),
					json_string_length(value));
	}
	json_decref(root);
}
SCOPE_PTR(json_t, json_wipe)

static const char *text_of(const json_t *root, const char *key)
{
	return json_string_value(json_object_get(root, key)); /* NULL if absent or another type */
}

/* The metadata service reports errors with status 200 and a code. */
static int check_code(const json_t *root, struct fault *f)
{
	const char *code = text_of(root, "Code");

	if (!code || strcmp(code, "Success") == 0)
		return 0;
	return fault_set(f, -EACCES, FAULT_FINAL, "refused with %.64s", code);
}

int creds_set_from_json(struct creds_set *set, struct buf *text, const char *token_key,
			int64_t now_s, struct fault *f)
{
	json_error_t where;
	scoped(json_wipe) json_t *root =
		json_loadb((const char *)text->data, text->len, JSON_REJECT_DUPLICATES, &where);
	const char *expiration;
	int rc;

	buf_wipe(text);
	if (!json_is_object(root))
		return fault_set(f, -EPROTO, FAULT_SOON, "the reply is not JSON (line %d)",
				 root ? 1 : where.line);
	rc = check_code(root, f);
	if (rc < 0)
		return rc;
	if (json_object_get(root, "Version") &&
	    json_integer_value(json_object_get(root, "Version")) != 1)
		return fault_set(f, -EPROTO, FAULT_FINAL, "the reply's Version is not 1");
	if (sign_keys_set(&set->keys, text_of(root, "AccessKeyId"),
			  text_of(root, "SecretAccessKey"), text_of(root, token_key)) < 0)
		return fault_set(f, -EPROTO, FAULT_FINAL,
				 "AccessKeyId, SecretAccessKey or %s is missing or malformed",
				 token_key);
	expiration = text_of(root, "Expiration");
	return expiration ? creds_set_expiry(set, expiration, now_s, f) : 0;
}
