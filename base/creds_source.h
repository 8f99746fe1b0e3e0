/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sources of credentials, one file each, and what they share.  Private to creds*.c.
 * Thread: the refresh thread's alone.  A source asks once and reports; creds.c waits and retries.
 * Fault texts never quote a reply's body, a command's output or a token.
 */
#ifndef HOLDFAST_BASE_CREDS_SOURCE_H
#define HOLDFAST_BASE_CREDS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ask.h"
#include "base/awsconf.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/http.h"
#include "base/scope.h"
#include "base/sign.h"

/* What a source yields. */
struct creds_set {
	struct sign_keys keys;
	bool expires;
	uint64_t life_ns; /* if it expires: from the moment it was fetched */
};

static inline void creds_set_fini(struct creds_set *set)
{
	sign_keys_fini(&set->keys);
}
SCOPE_VAL(struct creds_set, creds_set_fini)

/* What sources ask with. */
struct creds_ask {
	/* fixed while the refresh thread runs */
	const struct aws_conf *conf;
	const struct clock *clock;
	struct ask thread;
	struct signer *signer;
	/* refresh thread */
	int64_t skew_s;   /* to add to our wall time, as learned from a Date header */
	char source[256]; /* the source that answered, for people */
};

struct creds_source {
	const char *name;
	/* Is it configured?  Looks at configuration only. */
	bool (*applies)(const struct aws_conf *c, const char *profile);
	/* Fill *out and a->source.  -ENOKEY: it has nothing for us, ask the next. */
	int (*fetch)(struct creds_ask *a, const char *profile, struct creds_set *out,
		     struct fault *f);
	bool from_environment; /* counts only if no profile was asked for by name */
};

extern const struct creds_source creds_environment;
extern const struct creds_source creds_role;
extern const struct creds_source creds_web_identity;
extern const struct creds_source creds_sso; /* refuses, and says what to do */
extern const struct creds_source creds_static_credentials;
extern const struct creds_source creds_process;
extern const struct creds_source creds_static_config;
extern const struct creds_source creds_container;
extern const struct creds_source creds_imds;

/* Find the first configured source that has keys, and fetch them.  *out_source is asked again. */
int creds_find(struct creds_ask *a, const struct creds_source **out_source, struct creds_set *out,
	       struct fault *f);
/* Keys out of one profile alone, for a role's source_profile; the profile's own role excepted. */
int creds_find_in_profile(struct creds_ask *a, const char *profile, struct creds_set *out,
			  struct fault *f);

/* ---- creds_ask.c ---- */

/* Ends a request whose reply may hold secrets. */
void creds_req_fini(struct http_req *r);
SCOPE_VAL(struct http_req, creds_req_fini)
/* The answerer's time if it says one, else ours, corrected by what was learned. */
int64_t creds_reply_s(const struct creds_ask *a, const struct http_req *r);
/* A fault for a status that is not 200; `what` names the request. */
int creds_status(const struct http_req *r, const char *what, struct fault *f);
/* The content of a token file without blanks at its ends.  -EINVAL if empty or over 64 KiB. */
int creds_token_file(const char *path, struct buf *out, struct fault *f);
static inline const char *creds_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* ---- creds_set.c ---- */

/* An ISO 8601 expiration into the set's life, seen from now_s.  -EKEYEXPIRED (SOON) if past. */
int creds_set_expiry(struct creds_set *set, const char *iso, int64_t now_s, struct fault *f);
/* {"AccessKeyId", "SecretAccessKey", token_key, "Expiration"}; a "Code" other than "Success" is the
 * service's refusal.  Wipes `text`. */
int creds_set_from_json(struct creds_set *set, struct buf *text, const char *token_key,
			int64_t now_s, struct fault *f);

/* ---- creds_sts.c ---- */

struct creds_assume {
	const char *role_arn;
	const char *session_name; /* NULL: one of ours */
	const char *external_id;  /* NULL: none */
	const char *duration_s;   /* NULL: the service's default */
	/* one of the two */
	const struct sign_keys *by;
	const char *web_token;
};
int creds_assume(struct creds_ask *a, const struct creds_assume *how, struct creds_set *out,
		 struct fault *f);

#endif
