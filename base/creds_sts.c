/* SPDX-License-Identifier: Apache-2.0 */
/* The Security Token Service: keys of a role, against other keys or against a web token. */
#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "base/creds_source.h"
#include "base/wipe.h"

enum { TOTAL_MS = 10000, REPLY_MOST = 256 * 1024, SKEW_S = 240 };

/* ---- the request ---- */

static void make_body(const struct creds_ask *a, const struct creds_assume *how, struct buf *body)
{
	char session[64];

	(void)snprintf(session, sizeof(session), "holdfast-%lld",
		       (long long)(clock_wall(a->clock) / (int64_t)NS_PER_S)); /* fits */
	sign_query_add(body, "Action", how->web_token ? "AssumeRoleWithWebIdentity" : "AssumeRole");
	sign_query_add(body, "Version", "2011-06-15");
	sign_query_add(body, "RoleArn", how->role_arn);
	sign_query_add(body, "RoleSessionName", how->session_name ? how->session_name : session);
	if (how->external_id)
		sign_query_add(body, "ExternalId", how->external_id);
	if (how->duration_s)
		sign_query_add(body, "DurationSeconds", how->duration_s);
	if (how->web_token)
		sign_query_add(body, "WebIdentityToken", how->web_token);
}

/* Where STS is asked: the URL, and its parts as they are signed. */
struct target {
	struct buf url_text;
	struct buf host_text;
	const char *region;
	const char *url;  /* with a path, at least "/" */
	const char *path; /* into url */
	const char *host; /* as libcurl sends it: without the scheme's own port */
};

static void target_fini(struct target *t)
{
	buf_fini(&t->url_text);
	buf_fini(&t->host_text);
}
SCOPE_VAL(struct target, target_fini)

static bool ends_with(const char *s, size_t len, const char *end)
{
	return len >= strlen(end) && memcmp(s + len - strlen(end), end, strlen(end)) == 0;
}

static void cut_host(struct target *t, const char *authority, const char *own_port)
{
	size_t len = strcspn(authority, "/");

	t->path = authority + len;
	if (ends_with(authority, len, own_port))
		len -= strlen(own_port);
	buf_add(&t->host_text, authority, len);
	t->host = buf_str(&t->host_text);
}

static int make_target(const struct aws_conf *c, struct target *t, struct fault *f)
{
	const char *authority;

	t->region = c->region ? c->region : "us-east-1";
	aws_conf_url(c, "sts", t->region, &t->url_text);
	authority = strstr(buf_str(&t->url_text), "://");
	if (!authority)
		return fault_set(f, -EINVAL, FAULT_FINAL, "STS endpoint %.128s is not a URL",
				 buf_str(&t->url_text));
	if (!strchr(authority + 3, '/'))
		buf_add(&t->url_text, "/", 1);
	t->url = buf_str(&t->url_text);
	authority = strstr(t->url, "://"); /* again: the text may have moved */
	if (authority)
		cut_host(t, authority + 3, strncmp(t->url, "https:", 6) == 0 ? ":443" : ":80");
	if (!buf_ok(&t->url_text) || !buf_ok(&t->host_text))
		return fault_set(f, -ENOMEM, FAULT_SOON, "STS: out of memory");
	return 0;
}

static int sign(struct creds_ask *a, const struct target *t, const struct sign_keys *by,
		const char *const *own, const struct iovec *body, int64_t at_s,
		struct sign_headers *out, struct fault *f)
{
	char payload[SIGN_HEX_LEN];
	struct sign_req r = {
		.method = "POST",
		.host = t->host,
		.path = t->path,
		.headers = own,
		.payload = payload,
		.region = t->region,
		.service = "sts",
		.at_s = at_s,
	};
	int rc = sign_payload(a->signer, body, 1, payload, f);

	return rc < 0 ? rc : sign_headers(a->signer, by, &r, out, f);
}

/* One exchange.  by NULL: unsigned. */
static int post(struct creds_ask *a, const struct target *t, const struct sign_keys *by,
		struct buf *form, int64_t at_s, struct http_req *r, struct fault *f)
{
	scoped(sign_headers_fini) struct sign_headers signature = SIGN_HEADERS_EMPTY;
	struct iovec body = {.iov_base = form->data, .iov_len = form->len};
	const char *headers[8] = {
		"Content-Type: application/x-www-form-urlencoded; charset=utf-8",
		"Accept: text/xml",
	};
	size_t n = 2;
	int rc = by ? sign(a, t, by, headers, &body, at_s, &signature, f) : 0;

	if (rc < 0)
		return rc;
	for (size_t i = 0; by && signature.lines[i]; i++)
		headers[n++] = signature.lines[i];
	*r = (struct http_req){
		.method = "POST",
		.url = t->url,
		.headers = headers,
		.body = &body,
		.bodies = 1,
		.total_ms = TOTAL_MS,
		.most = REPLY_MOST,
	};
	rc = ask_http(&a->thread, r, f);
	r->headers = NULL; /* these end here */
	r->body = NULL;
	return rc;
}

/* ---- the reply ---- */

/* The elements that count.  Names are looked at without their place: none is used twice. */
struct reply {
	char access[SIGN_ACCESS_MAX + 2]; /* one more than may be: too long shows as such */
	char secret[SIGN_SECRET_MAX + 2];
	char token[SIGN_TOKEN_MAX + 2];
	char expiration[64];
	char code[64];
};

static void reply_fini(struct reply *r)
{
	OPENSSL_cleanse(r, sizeof(*r));
}
SCOPE_VAL(struct reply, reply_fini)

struct xml {
	struct reply *reply;
	struct buf text; /* of the element that is open */
};

static void xml_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct xml *x = arg;

	x->text.len = 0;
}

static void xml_text(void *arg, const XML_Char *s, int len)
{
	struct xml *x = arg;

	buf_add(&x->text, s, (size_t)len);
}

static void xml_end(void *arg, const XML_Char *name)
{
	struct xml *x = arg;
	struct reply *r = x->reply;
	const struct {
		const char *name;
		char *to;
		size_t cap;
	} wanted[] = {
		{"AccessKeyId",     r->access,     sizeof(r->access)    },
		{"SecretAccessKey", r->secret,     sizeof(r->secret)    },
		{"SessionToken",    r->token,      sizeof(r->token)     },
		{"Expiration",      r->expiration, sizeof(r->expiration)},
		{"Code",            r->code,       sizeof(r->code)      },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (strcmp(name, wanted[i].name) == 0)
			(void)snprintf(wanted[i].to, wanted[i].cap, "%s", buf_str(&x->text));
	x->text.len = 0;
}

static bool parse_reply(const struct buf *body, struct reply *out)
{
	struct xml x = {.reply = out, .text = BUF_EMPTY};
	XML_Parser parser = XML_ParserCreate(NULL);
	bool ok;

	if (!parser)
		return false;
	XML_SetUserData(parser, &x);
	XML_SetElementHandler(parser, xml_start, xml_end);
	XML_SetCharacterDataHandler(parser, xml_text);
	ok = XML_Parse(parser, (const char *)body->data, (int)body->len, 1) == XML_STATUS_OK &&
	     buf_ok(&x.text);
	XML_ParserFree(parser);
	buf_wipe(&x.text);
	return ok;
}

/* Codes whose status alone would be read wrongly. */
static int refusal(const struct http_req *r, const char *code, struct fault *f)
{
	static const struct {
		const char *code;
		int rc;
		enum fault_retry retry;
	} rows[] = {
		{"Throttling",            -EBUSY,  FAULT_PACED},
		{"ThrottlingException",   -EBUSY,  FAULT_PACED},
		{"RequestLimitExceeded",  -EBUSY,  FAULT_PACED},
		{"IDPCommunicationError", -EIO,    FAULT_SOON },
		{"ExpiredTokenException", -EACCES, FAULT_SOON }, /* the platform renews the file */
		{"ExpiredToken",          -EACCES, FAULT_SOON },
		{"InvalidIdentityToken",  -EACCES, FAULT_FINAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(code, rows[i].code) == 0)
			return fault_set(f, rows[i].rc, rows[i].retry, "%s: status %ld", code,
					 r->status);
	return creds_status(r, *code ? code : "refused", f);
}

static int take_keys(const struct creds_ask *a, struct http_req *r, struct creds_set *out,
		     struct fault *f)
{
	scoped(reply_fini) struct reply reply = {.code = ""};
	bool parsed = parse_reply(&r->body_in, &reply);

	if (r->status != 200)
		return refusal(r, reply.code, f);
	if (!parsed)
		return fault_set(f, -EPROTO, FAULT_SOON, "the reply is not XML");
	if (sign_keys_set(&out->keys, reply.access, reply.secret, reply.token) < 0)
		return fault_set(f, -EPROTO, FAULT_FINAL, "the reply holds no keys");
	return creds_set_expiry(out, reply.expiration, creds_reply_s(a, r), f);
}

/* ---- both together ---- */

static bool clock_is_to_blame(const struct creds_ask *a, const struct http_req *r, int64_t at_s)
{
	int64_t off_s = creds_reply_s(a, r) - at_s;

	return (r->status == 400 || r->status == 403) && (off_s > SKEW_S || off_s < -SKEW_S);
}

static int exchange(struct creds_ask *a, const struct target *t, const struct creds_assume *how,
		    struct buf *form, struct creds_set *out, struct fault *f)
{
	scoped(creds_req_fini) struct http_req r = {.method = NULL};
	int64_t wall_s = clock_wall(a->clock) / (int64_t)NS_PER_S;
	int rc = post(a, t, how->by, form, wall_s + a->skew_s, &r, f);

	if (rc == 0 && how->by && clock_is_to_blame(a, &r, wall_s + a->skew_s)) {
		a->skew_s = creds_reply_s(a, &r) - wall_s;
		creds_req_fini(&r);
		rc = post(a, t, how->by, form, wall_s + a->skew_s, &r, f);
	}
	return rc < 0 ? rc : take_keys(a, &r, out, f);
}

int creds_assume(struct creds_ask *a, const struct creds_assume *how, struct creds_set *out,
		 struct fault *f)
{
	scoped(target_fini) struct target t = {.url_text = BUF_EMPTY};
	scoped(buf_wipe) struct buf form = BUF_EMPTY;
	int rc = make_target(a->conf, &t, f);

	if (rc < 0)
		return rc;
	make_body(a, how, &form);
	if (!buf_ok(&form))
		return fault_set(f, -ENOMEM, FAULT_SOON, "STS: out of memory");
	rc = exchange(a, &t, how, &form, out, f);
	if (rc < 0)
		return fault_in(f, "role %.96s from %.64s", how->role_arn, t.url);
	return 0;
}
