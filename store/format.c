/* SPDX-License-Identifier: Apache-2.0 */
/* store.json: {"format": 1, "id": "<32 hex>", "secret": "<384 hex>", "unfenced": false} */
#include "store/format.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <jansson.h>

#define KEY             "store.json"
#define DEADLINE_NS     (30 * NS_PER_S) /* a person waits */
#define STORE_JSON_MOST (64u << 10)

static void json_end(json_t *j)
{
	json_decref(j);
}
SCOPE_PTR(json_t, json_end)

static uint64_t deadline(void)
{
	return clock_mono(&clock_system) + DEADLINE_NS;
}

/* ---- the encoding ---- */

int store_format_encode(const struct store_format *s, struct buf *out)
{
	char id[2 * sizeof(s->id.b) + 1];
	char secret[2 * sizeof(s->secret) + 1];

	hex_of(s->id.b, sizeof(s->id.b), id);
	hex_of(s->secret, sizeof(s->secret), secret);
	buf_addf(out,
		 "{\"format\": %u,\n \"id\": \"%s\",\n \"secret\": \"%s\",\n \"unfenced\": %s}\n",
		 s->format, id, secret, s->unfenced ? "true" : "false");
	return buf_ok(out) ? 0 : -ENOMEM;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Exactly len bytes of lower-case hex. */
static bool unhex(const char *hex, uint8_t *out, size_t len)
{
	if (!hex || strlen(hex) != 2 * len)
		return false;
	for (size_t i = 0; i < len; i++) {
		int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int corrupt(struct fault *f, const char *why)
{
	return fault_set(f, -EPROTO, FAULT_FINAL, KEY " is damaged: %s", why);
}

int store_format_decode(const void *data, size_t len, struct store_format *out, struct fault *f)
{
	json_error_t why;
	scoped(json_end) json_t *j = NULL;
	struct store_format s = {.format = STORE_FORMAT};
	json_int_t format;
	const json_t *unfenced;

	if (len > STORE_JSON_MOST)
		return corrupt(f, "it is too large");
	j = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		return corrupt(f, why.text);
	format = json_integer_value(json_object_get(j, "format"));
	if (format <= 0)
		return corrupt(f, "it has no \"format\"");
	if (format != STORE_FORMAT)
		return fault_set(f, -EPROTONOSUPPORT, FAULT_FINAL,
				 "the store has format %lld and this holdfast reads format %d: use "
				 "a newer one",
				 (long long)format, STORE_FORMAT);
	if (!unhex(json_string_value(json_object_get(j, "id")), s.id.b, sizeof(s.id.b)))
		return corrupt(f, "\"id\" is not 32 hex digits");
	if (!unhex(json_string_value(json_object_get(j, "secret")), s.secret, sizeof(s.secret)))
		return corrupt(f, "\"secret\" is not 384 hex digits");
	unfenced = json_object_get(j, "unfenced");
	if (!json_is_boolean(unfenced))
		return corrupt(f, "\"unfenced\" is not true or false");
	s.unfenced = json_is_true(unfenced);
	*out = s;
	return 0;
}

/* ---- load and make ---- */

int store_load(struct objects *o, struct store_format *out, struct fault *f)
{
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	const char *uri = store_uri(objects_store(o));
	int rc = objects_get(o, KEY, deadline(), &raw, f);

	if (rc == -ENOENT)
		return fault_set(f, rc, FAULT_FINAL,
				 "no store at %.100s: `holdfast mkfs %.100s` makes one", uri, uri);
	if (rc < 0)
		return rc;
	rc = store_format_decode(raw.data, raw.len, out, f);
	return rc < 0 ? fault_in(f, "%.100s", uri) : 0;
}

static int exists(struct objects *o, struct fault *f)
{
	return fault_set(f, -EEXIST, FAULT_FINAL, "there is a store at %.150s already",
			 store_uri(objects_store(o)));
}

/* Refuse to build on what is not there. */
static int judge_probe(const struct store_probe *p, bool unfenced, struct fault *f)
{
	const char *lacks = NULL;

	if (!p->read_after_write)
		lacks = "does not return what was just written";
	else if (!p->ordered_list)
		lacks = "does not list keys in order";
	else if (!p->ranges)
		lacks = "does not serve ranges";
	if (lacks)
		return fault_set(f, -ENOTSUP, FAULT_FINAL, "it %s: no store can be kept there",
				 lacks);
	if (!p->create_only && !unfenced)
		return fault_set(
			f, -ENOTSUP, FAULT_FINAL,
			"it ignores If-None-Match, so two writers could not be told apart; "
			"--unfenced makes a store for one writer at a time, kept by you");
	return 0;
}

static int invent(struct store_format *s)
{
	if (getrandom(s->id.b, sizeof(s->id.b), 0) != sizeof(s->id.b) ||
	    getrandom(s->secret, sizeof(s->secret), 0) != sizeof(s->secret))
		return -errno;
	return 0;
}

/* As in log_append(): of our own earlier try it may be said that it exists. */
static int write_once(struct objects *o, const struct buf *raw, bool create_only, struct fault *f)
{
	scoped(buf_fini) struct buf there = BUF_EMPTY;
	int rc = objects_put(o, KEY, raw->data, raw->len, create_only, deadline(), f);

	if (rc != -EEXIST)
		return rc;
	rc = objects_get(o, KEY, deadline(), &there, f);
	if (rc < 0)
		return rc;
	if (there.len != raw->len || memcmp(there.data, raw->data, raw->len) != 0)
		return exists(o, f);
	return 0;
}

int store_make(struct objects *o, bool unfenced, struct store_format *out, struct fault *f)
{
	const char *uri = store_uri(objects_store(o));
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct store_format s = {.format = STORE_FORMAT};
	struct store_probe probe;
	int rc;

	rc = objects_get(o, KEY, deadline(), &raw, f);
	if (rc == 0)
		return exists(o, f);
	if (rc != -ENOENT)
		return rc;
	rc = store_probe(o, &probe, f);
	if (rc == 0)
		rc = judge_probe(&probe, unfenced, f);
	if (rc < 0)
		return fault_in(f, "%.100s", uri);
	s.unfenced = !probe.create_only;
	rc = invent(&s);
	if (rc < 0)
		return fault_errno(f, rc, "random numbers for a new store");
	if (store_format_encode(&s, &raw) < 0)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	rc = write_once(o, &raw, probe.create_only, f);
	if (rc == 0)
		*out = s;
	return rc;
}
