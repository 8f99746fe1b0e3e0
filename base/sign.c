/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signature Version 4: key derivation, string to sign, and the two ways to carry the result.
 * This runs for every request of every lane, so algorithms are fetched once, buffers are kept, and
 * the derived key (four of the five HMACs) is remembered for its day, region, service and secret.
 */
#include "base/sign.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sign_canon.h"
#include "base/wipe.h"

enum { SHA256_LEN = 32, STAMP_LEN = 16, DATE_LEN = 8, EXPIRES_MOST = 7 * 24 * 3600 };
enum { SCOPE_MOST = 128 }; /* region and service together; the longest of AWS's are 40 */

struct signer {
	/* fixed after signer_new() */
	EVP_MD *sha256;
	EVP_MAC *hmac;
	EVP_MD_CTX *md;
	EVP_MAC_CTX *mac;
	/* per request, kept for its memory */
	struct sign_canon canon;
	struct buf to_sign;
	struct buf query;
	/* the last derived key, and what it was derived from */
	struct buf derived_from;
	uint8_t derived[SHA256_LEN];
};

/* --- keys --- */

void sign_keys_copy(struct sign_keys *to, const struct sign_keys *from)
{
	memcpy(to->access, from->access, strlen(from->access) + 1);
	memcpy(to->secret, from->secret, strlen(from->secret) + 1);
	memcpy(to->token, from->token, strlen(from->token) + 1);
}

/* Keys become header lines: what could end a line is refused here, once. */
static bool is_printable(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s > '~')
			return false;
	return true;
}

int sign_keys_set(struct sign_keys *k, const char *access, const char *secret, const char *token)
{
	if (!token)
		token = "";
	if (!access || !*access || strlen(access) > SIGN_ACCESS_MAX || !is_printable(access))
		return -EINVAL;
	if (!secret || !*secret || strlen(secret) > SIGN_SECRET_MAX || !is_printable(secret))
		return -EINVAL;
	if (strlen(token) > SIGN_TOKEN_MAX || !is_printable(token))
		return -EINVAL;
	memcpy(k->access, access, strlen(access) + 1);
	memcpy(k->secret, secret, strlen(secret) + 1);
	memcpy(k->token, token, strlen(token) + 1);
	return 0;
}

void sign_keys_fini(struct sign_keys *k)
{
	OPENSSL_cleanse(k, sizeof(*k));
}

/* --- the signer --- */

void signer_free(struct signer *s)
{
	if (!s)
		return;
	EVP_MAC_CTX_free(s->mac);
	EVP_MD_CTX_free(s->md);
	EVP_MAC_free(s->hmac);
	EVP_MD_free(s->sha256);
	sign_canon_fini(&s->canon);
	buf_fini(&s->to_sign);
	buf_fini(&s->query);
	buf_wipe(&s->derived_from);
	OPENSSL_cleanse(s->derived, sizeof(s->derived));
	free(s);
}

static bool fetch_algorithms(struct signer *s)
{
	char name[] = "SHA256";
	OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
			       OSSL_PARAM_construct_end()};

	s->sha256 = EVP_MD_fetch(NULL, name, NULL);
	s->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	s->md = EVP_MD_CTX_new();
	s->mac = s->hmac ? EVP_MAC_CTX_new(s->hmac) : NULL;
	return s->sha256 && s->md && s->mac && EVP_MAC_CTX_set_params(s->mac, params);
}

int signer_new(struct signer **out, struct fault *f)
{
	scoped(signer_free) struct signer *s = calloc(1, sizeof(*s));

	if (!s)
		return fault_set(f, -ENOMEM, FAULT_SOON, "signer: out of memory");
	if (!fetch_algorithms(s))
		return fault_set(f, -ENOTSUP, FAULT_FINAL,
				 "OpenSSL has no SHA256 or HMAC: see the providers in openssl.cnf");
	*out = take(&s);
	return 0;
}

static bool hmac(struct signer *s, const uint8_t *key, size_t key_len, const void *data, size_t len,
		 uint8_t out[SHA256_LEN])
{
	size_t got;

	return EVP_MAC_init(s->mac, key, key_len, NULL) && EVP_MAC_update(s->mac, data, len) &&
	       EVP_MAC_final(s->mac, out, &got, SHA256_LEN);
}

static bool sha256_hex(struct signer *s, const struct iovec *body, int bodies,
		       char out[SIGN_HEX_LEN])
{
	uint8_t hash[SHA256_LEN];

	if (!EVP_DigestInit_ex2(s->md, s->sha256, NULL))
		return false;
	for (int i = 0; i < bodies; i++)
		if (!EVP_DigestUpdate(s->md, body[i].iov_base, body[i].iov_len))
			return false;
	if (!EVP_DigestFinal_ex(s->md, hash, NULL))
		return false;
	hex_of(hash, sizeof(hash), out);
	return true;
}

/* OpenSSL's calls above fail for want of memory and nothing else. */
static int out_of_memory(const struct sign_req *r, struct fault *f)
{
	return fault_set(f, -ENOMEM, FAULT_SOON, "signing %s %s: out of memory", r->method,
			 r->path);
}

int sign_payload(struct signer *s, const struct iovec *body, int bodies, char out[SIGN_HEX_LEN],
		 struct fault *f)
{
	if (!sha256_hex(s, body, bodies, out))
		return fault_set(f, -ENOMEM, FAULT_SOON, "hashing a request body: out of memory");
	return 0;
}

/* --- the signature --- */

/* What a request is signed under.  stamp begins with the date of the scope. */
struct scope {
	char stamp[STAMP_LEN + 1]; /* 20150830T123600Z */
	const char *region;
	const char *service;
};

static bool scope_of(const struct sign_req *r, struct scope *out)
{
	time_t at = (time_t)r->at_s;
	struct tm tm;

	out->region = r->region;
	out->service = r->service;
	return gmtime_r(&at, &tm) && tm.tm_year >= 0 && tm.tm_year < 8000 &&
	       strftime(out->stamp, sizeof(out->stamp), "%Y%m%dT%H%M%SZ", &tm) == STAMP_LEN;
}

static void add_scope(struct buf *b, const struct scope *scope)
{
	buf_addf(b, "%.*s/%s/%s/aws4_request", DATE_LEN, scope->stamp, scope->region,
		 scope->service);
}

static bool has_control(const char *s)
{
	for (; s && *s; s++)
		if ((unsigned char)*s < ' ' || *s == 127)
			return true;
	return false;
}

static int check(const struct sign_req *r, struct scope *scope, struct fault *f)
{
	if (!r->region || !*r->region || !r->service || !*r->service)
		return fault_set(f, -EINVAL, FAULT_FINAL, "signing %s %s: no region or service",
				 r->method, r->path);
	if (strlen(r->region) + strlen(r->service) > SCOPE_MOST)
		return fault_set(f, -EINVAL, FAULT_FINAL, "signing %s %s: region is too long",
				 r->method, r->path);
	if (r->path[0] != '/' || has_control(r->path) || has_control(r->query) ||
	    has_control(r->host) || has_control(r->region))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "signing %s for %s: path, query or region cannot be sent",
				 r->method, r->host);
	if (!scope_of(r, scope))
		return fault_set(f, -EINVAL, FAULT_FINAL, "signing %s %s: impossible time %lld",
				 r->method, r->path, (long long)r->at_s);
	return 0;
}

static bool derive(struct signer *s, const struct scope *scope)
{
	static const char end[] = "aws4_request";
	uint8_t *key = s->derived;

	/* derived_from begins with "AWS4" SECRET, so it serves as the first key as it is. */
	return hmac(s, s->derived_from.data, strlen((const char *)s->derived_from.data),
		    scope->stamp, DATE_LEN, key) &&
	       hmac(s, key, SHA256_LEN, scope->region, strlen(scope->region), key) &&
	       hmac(s, key, SHA256_LEN, scope->service, strlen(scope->service), key) &&
	       hmac(s, key, SHA256_LEN, end, strlen(end), key);
}

/* Make s->derived the key for this secret and scope, unless it is already. */
static bool load_key(struct signer *s, const struct sign_keys *k, const struct scope *scope)
{
	char from[sizeof("AWS4") + SIGN_SECRET_MAX + DATE_LEN + SCOPE_MOST + 8];
	struct buf *had = &s->derived_from;
	int len = snprintf(from, sizeof(from), "AWS4%s%c%.*s/%s/%s", k->secret, '\0', DATE_LEN,
			   scope->stamp, scope->region, scope->service);
	bool ok = len > 0 && (size_t)len < sizeof(from);

	if (ok && (had->len != (size_t)len || memcmp(had->data, from, had->len) != 0)) {
		buf_wipe(had);
		buf_add(had, from, (size_t)len);
		ok = buf_ok(had) && derive(s, scope);
		if (!ok)
			buf_wipe(had); /* s->derived is half made */
	}
	OPENSSL_cleanse(from, sizeof(from));
	return ok;
}

/* Sign what s->canon holds. */
static bool sign_canonical(struct signer *s, const struct sign_keys *k, const struct scope *scope,
			   char signature[SIGN_HEX_LEN])
{
	struct iovec text = {.iov_base = s->canon.text.data, .iov_len = s->canon.text.len};
	uint8_t mac[SHA256_LEN];
	char hash[SIGN_HEX_LEN];

	if (!sha256_hex(s, &text, 1, hash) || !load_key(s, k, scope))
		return false;
	sign_buf_restart(&s->to_sign);
	buf_addf(&s->to_sign, "AWS4-HMAC-SHA256\n%s\n", scope->stamp);
	add_scope(&s->to_sign, scope);
	buf_addf(&s->to_sign, "\n%s", hash);
	if (!buf_ok(&s->to_sign) ||
	    !hmac(s, s->derived, SHA256_LEN, s->to_sign.data, s->to_sign.len, mac))
		return false;
	hex_of(mac, sizeof(mac), signature);
	return true;
}

/* --- in headers --- */

void sign_headers_fini(struct sign_headers *h)
{
	buf_fini(&h->text);
}

static void add_authorization(struct signer *s, const struct sign_keys *k,
			      const struct scope *scope, const char *signature, struct buf *out)
{
	buf_addf(out, "Authorization: AWS4-HMAC-SHA256 Credential=%s/", k->access);
	add_scope(out, scope);
	buf_addf(out, ", SignedHeaders=%s, Signature=%s", buf_str(&s->canon.names), signature);
	buf_u8(out, '\0');
}

static void point_at_lines(struct sign_headers *h)
{
	const char *at = (const char *)h->text.data;
	const char *end = at + h->text.len;
	size_t n = 0;

	for (; at < end; at += strlen(at) + 1)
		h->lines[n++] = at;
	h->lines[n] = NULL;
}

int sign_headers(struct signer *s, const struct sign_keys *k, const struct sign_req *r,
		 struct sign_headers *h, struct fault *f)
{
	const char *payload = r->payload ? r->payload : SIGN_EMPTY;
	struct sign_extra extra[4] = {{.name = NULL}};
	char signature[SIGN_HEX_LEN];
	struct scope scope;
	size_t n = 0;
	int rc = check(r, &scope, f);

	if (rc < 0)
		return rc;
	extra[n++] = (struct sign_extra){"x-amz-date", scope.stamp};
	if (sign_service_is_s3(r->service))
		extra[n++] = (struct sign_extra){"x-amz-content-sha256", payload};
	if (*k->token)
		extra[n++] = (struct sign_extra){"x-amz-security-token", k->token};
	if (sign_canon_make(&s->canon, r, r->query, extra, payload) < 0 ||
	    !sign_canonical(s, k, &scope, signature))
		return out_of_memory(r, f);
	sign_buf_restart(&h->text);
	for (const struct sign_extra *x = extra; x->name; x++) {
		buf_addf(&h->text, "%s: %s", x->name, x->value);
		buf_u8(&h->text, '\0');
	}
	add_authorization(s, k, &scope, signature, &h->text);
	if (!buf_ok(&h->text) || !buf_ok(&s->canon.names))
		return out_of_memory(r, f);
	point_at_lines(h);
	return 0;
}

/* --- in the query --- */

static void compose_query(struct signer *s, const struct sign_keys *k, const struct sign_req *r,
			  const struct scope *scope, unsigned expires_s)
{
	scoped(buf_fini) struct buf credential = BUF_EMPTY;
	struct buf *q = &s->query;
	char expires[16];

	(void)snprintf(expires, sizeof(expires), "%u", expires_s); /* at most 10 digits */
	buf_addf(&credential, "%s/", k->access);
	add_scope(&credential, scope);
	sign_buf_restart(q);
	if (r->query)
		buf_add(q, r->query, strlen(r->query));
	sign_query_add(q, "X-Amz-Algorithm", "AWS4-HMAC-SHA256");
	sign_query_add(q, "X-Amz-Credential", buf_str(&credential));
	sign_query_add(q, "X-Amz-Date", scope->stamp);
	sign_query_add(q, "X-Amz-Expires", expires);
	sign_query_add(q, "X-Amz-SignedHeaders", buf_str(&s->canon.names));
	if (*k->token)
		sign_query_add(q, "X-Amz-Security-Token", k->token);
	if (!buf_ok(&credential) || !buf_ok(&s->canon.names))
		q->failed = true;
}

int sign_query(struct signer *s, const struct sign_keys *k, const struct sign_req *r,
	       unsigned expires_s, struct buf *out, struct fault *f)
{
	static const struct sign_extra none = {.name = NULL};
	const char *payload = r->payload;
	char signature[SIGN_HEX_LEN];
	struct scope scope;
	int rc = check(r, &scope, f);

	if (rc < 0)
		return rc;
	if (expires_s < 1 || expires_s > EXPIRES_MOST)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "presigning %s %s: %u s is not within 1 to %d", r->method, r->path,
				 expires_s, EXPIRES_MOST);
	if (!payload)
		payload = sign_service_is_s3(r->service) ? SIGN_UNSIGNED : SIGN_EMPTY;
	if (sign_canon_names(&s->canon, r, &none) < 0)
		return out_of_memory(r, f);
	compose_query(s, k, r, &scope, expires_s);
	if (!buf_ok(&s->query) ||
	    sign_canon_make(&s->canon, r, buf_str(&s->query), &none, payload) < 0 ||
	    !sign_canonical(s, k, &scope, signature))
		return out_of_memory(r, f);
	buf_addf(out, "%s&X-Amz-Signature=%s", buf_str(&s->query), signature);
	return buf_ok(out) ? 0 : out_of_memory(r, f);
}
