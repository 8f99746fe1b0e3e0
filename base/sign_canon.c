/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical request: method, path, sorted query, sorted headers, payload hash.  What a proxy
 * may rewrite is left out of it, and what two clients may spell in two ways is spelled in one.
 */
#include "base/sign_canon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Offsets into sign_pairs.text, which moves while it grows. */
struct pair {
	size_t name;
	size_t name_len;
	size_t value;
	size_t value_len;
	size_t order; /* equal names stay as they came, where that counts */
};

void sign_canon_fini(struct sign_canon *c)
{
	buf_fini(&c->text);
	buf_fini(&c->names);
	buf_fini(&c->pairs.text);
	buf_fini(&c->pairs.items);
}

bool sign_service_is_s3(const char *service)
{
	static const char *const services[] = {"s3", "s3express", "s3-outposts",
					       "s3-object-lambda"};

	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (strcmp(service, services[i]) == 0)
			return true;
	return false;
}

/* Characters by hand: <ctype.h> asks the locale. */
static bool is_unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void add_encoded(struct buf *b, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";
	char triple[3] = {'%', digits[c >> 4], digits[c & 15]};

	if (is_unreserved(c))
		buf_u8(b, c);
	else
		buf_add(b, triple, sizeof(triple));
}

static void add_path(struct buf *b, const char *raw, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (raw[i] == '/')
			buf_u8(b, '/');
		else
			add_encoded(b, (unsigned char)raw[i]);
	}
}

void sign_path_add(struct buf *b, const char *raw)
{
	add_path(b, raw, strlen(raw));
}

void sign_query_add(struct buf *b, const char *name, const char *value)
{
	if (b->len > 0)
		buf_u8(b, '&');
	for (; *name; name++)
		add_encoded(b, (unsigned char)*name);
	buf_u8(b, '=');
	for (; value && *value; value++)
		add_encoded(b, (unsigned char)*value);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decoding first makes "%7e", "%7E" and "~" one, as a server sees them after its own decoding. */
static void add_recoded(struct buf *b, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = s[i] == '%' && i + 2 < len ? hex_digit(s[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(s[i + 2]) : -1;

		if (low < 0) {
			add_encoded(b, (unsigned char)s[i]);
		} else {
			add_encoded(b, (unsigned char)(high << 4 | low));
			i += 2;
		}
	}
}

/* --- pairs --- */

static void pairs_clear(struct sign_pairs *p)
{
	sign_buf_restart(&p->text);
	sign_buf_restart(&p->items);
}

static bool pairs_ok(const struct sign_pairs *p)
{
	return buf_ok(&p->text) && buf_ok(&p->items);
}

static size_t pairs_count(const struct sign_pairs *p)
{
	return p->items.len / sizeof(struct pair);
}

static void pairs_put(struct sign_pairs *p, struct pair item)
{
	item.order = pairs_count(p);
	buf_add(&p->items, &item, sizeof(item));
}

static int compare_text(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	if (order != 0)
		return order;
	return (a_len > b_len) - (a_len < b_len);
}

static int by_name(const struct pair *x, const struct pair *y, const uint8_t *text)
{
	return compare_text(text + x->name, x->name_len, text + y->name, y->name_len);
}

static int by_name_and_value(const void *a, const void *b, void *arg)
{
	const struct pair *x = a;
	const struct pair *y = b;
	const uint8_t *text = arg;
	int order = by_name(x, y, text);

	if (order != 0)
		return order;
	return compare_text(text + x->value, x->value_len, text + y->value, y->value_len);
}

static int by_name_and_order(const void *a, const void *b, void *arg)
{
	const struct pair *x = a;
	const struct pair *y = b;
	int order = by_name(x, y, arg);

	if (order != 0)
		return order;
	return (x->order > y->order) - (x->order < y->order);
}

/* Short of memory, nothing is left to walk; pairs_ok() says so at the end. */
static struct pair *pairs_sort(struct sign_pairs *p, int (*by)(const void *, const void *, void *))
{
	struct pair *items = (struct pair *)(void *)p->items.data;

	if (!pairs_ok(p))
		p->items.len = 0;
	if (pairs_count(p) > 1)
		qsort_r(items, pairs_count(p), sizeof(*items), by, p->text.data);
	return items;
}

/* --- path --- */

/* Drops the last segment of what stands behind `root`, its '/' with it. */
static void drop_segment(struct buf *b, size_t root)
{
	while (b->len > root && b->data[b->len - 1] != '/')
		b->len--;
	if (b->len > root)
		b->len--;
}

/* RFC 3986 dot segments, and runs of '/' as one.  A '/' at the end is kept. */
static void add_normalised(struct buf *b, const char *path)
{
	size_t root = b->len;
	bool slash_at_end = false;

	while (*path) {
		size_t len = strcspn(path, "/");
		bool dot = len == 1 && path[0] == '.';
		bool dots = len == 2 && path[0] == '.' && path[1] == '.';

		slash_at_end = len == 0 || dot || dots || path[len] == '/';
		if (dots) {
			drop_segment(b, root);
		} else if (len > 0 && !dot) {
			buf_u8(b, '/');
			add_path(b, path, len);
		}
		path += len + (path[len] == '/');
	}
	if (slash_at_end || b->len == root)
		buf_u8(b, '/');
}

static void put_path(struct sign_canon *c, const struct sign_req *r)
{
	if (sign_service_is_s3(r->service))
		buf_add(&c->text, r->path, strlen(r->path));
	else
		add_normalised(&c->text, r->path);
	buf_u8(&c->text, '\n');
}

/* --- query --- */

static void take_parameter(struct sign_pairs *p, const char *at, size_t len)
{
	const char *eq = memchr(at, '=', len);
	size_t name_len = eq ? (size_t)(eq - at) : len;
	struct pair item = {.name = p->text.len};

	add_recoded(&p->text, at, name_len);
	item.name_len = p->text.len - item.name;
	item.value = p->text.len;
	if (eq)
		add_recoded(&p->text, eq + 1, len - name_len - 1);
	item.value_len = p->text.len - item.value;
	pairs_put(p, item);
}

static void put_query(struct sign_canon *c, const char *query)
{
	struct sign_pairs *p = &c->pairs;
	struct pair *items;

	pairs_clear(p);
	for (const char *at = query ? query : ""; *at;) {
		size_t len = strcspn(at, "&");

		if (len > 0)
			take_parameter(p, at, len);
		at += len + (at[len] == '&');
	}
	items = pairs_sort(p, by_name_and_value);
	for (size_t i = 0; i < pairs_count(p); i++) {
		if (i > 0)
			buf_u8(&c->text, '&');
		buf_add(&c->text, p->text.data + items[i].name, items[i].name_len);
		buf_u8(&c->text, '=');
		buf_add(&c->text, p->text.data + items[i].value, items[i].value_len);
	}
	buf_u8(&c->text, '\n');
	if (!pairs_ok(p))
		c->text.failed = true; /* the headers use the pairs again */
}

/* --- headers --- */

/* Hop-by-hop headers and those that libraries and load balancers set after signing; the last row
 * is what signing makes itself. */
static bool is_left_out(const char *name, size_t len)
{
	static const char *const names[] = {
		"connection", "expect",  "keep-alive",        "proxy-authenticate",
		"te",         "trailer", "transfer-encoding", "proxy-authorization",
		"upgrade",    "user-agent",    "x-amzn-trace-id",
		"host",       "authorization", "x-amz-date", "x-amz-security-token",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
			return true;
	return false;
}

static void add_lower(struct buf *b, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf_u8(b, (uint8_t)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + ('a' - 'A') : s[i]));
}

/* Blanks at the ends go, runs of them become one space. */
static void add_trimmed(struct buf *b, const char *s)
{
	bool gap = false;
	size_t start = b->len;

	for (; *s; s++) {
		if (is_blank(*s)) {
			gap = b->len > start;
			continue;
		}
		if (gap)
			buf_u8(b, ' ');
		gap = false;
		buf_u8(b, (uint8_t)*s);
	}
}

static void take_header(struct sign_pairs *p, const char *name, size_t name_len, const char *value)
{
	struct pair item = {.name = p->text.len};

	add_lower(&p->text, name, name_len);
	item.name_len = p->text.len - item.name;
	item.value = p->text.len;
	add_trimmed(&p->text, value);
	item.value_len = p->text.len - item.value;
	pairs_put(p, item);
}

static bool is_extra(const struct sign_extra *extra, const char *name, size_t len)
{
	for (; extra->name; extra++)
		if (strlen(extra->name) == len && strncasecmp(name, extra->name, len) == 0)
			return true;
	return false;
}

static struct pair *take_headers(struct sign_canon *c, const struct sign_req *r,
				 const struct sign_extra *extra)
{
	struct sign_pairs *p = &c->pairs;

	pairs_clear(p);
	take_header(p, "host", strlen("host"), r->host);
	for (const char *const *h = r->headers; h && *h; h++) {
		size_t len = strcspn(*h, ":");

		if ((*h)[len] == ':' && !is_left_out(*h, len) && !is_extra(extra, *h, len))
			take_header(p, *h, len, *h + len + 1);
	}
	for (; extra->name; extra++)
		take_header(p, extra->name, strlen(extra->name), extra->value);
	return pairs_sort(p, by_name_and_order);
}

static bool same_name(const struct sign_pairs *p, const struct pair *x, const struct pair *y)
{
	return by_name(x, y, p->text.data) == 0;
}

static void put_names(struct sign_canon *c, const struct pair *items)
{
	const struct sign_pairs *p = &c->pairs;

	sign_buf_restart(&c->names);
	for (size_t i = 0; i < pairs_count(p); i++) {
		if (i > 0 && same_name(p, &items[i - 1], &items[i]))
			continue;
		if (i > 0)
			buf_u8(&c->names, ';');
		buf_add(&c->names, p->text.data + items[i].name, items[i].name_len);
	}
}

static void put_headers(struct sign_canon *c, const struct pair *items)
{
	const struct sign_pairs *p = &c->pairs;

	for (size_t i = 0; i < pairs_count(p); i++) {
		if (i > 0 && same_name(p, &items[i - 1], &items[i])) {
			buf_u8(&c->text, ',');
		} else {
			if (i > 0)
				buf_u8(&c->text, '\n');
			buf_add(&c->text, p->text.data + items[i].name, items[i].name_len);
			buf_u8(&c->text, ':');
		}
		buf_add(&c->text, p->text.data + items[i].value, items[i].value_len);
	}
	buf_add(&c->text, "\n\n", 2);
}

int sign_canon_names(struct sign_canon *c, const struct sign_req *r, const struct sign_extra *extra)
{
	put_names(c, take_headers(c, r, extra));
	return pairs_ok(&c->pairs) && buf_ok(&c->names) ? 0 : -ENOMEM;
}

int sign_canon_make(struct sign_canon *c, const struct sign_req *r, const char *query,
		    const struct sign_extra *extra, const char *payload)
{
	const struct pair *items;

	sign_buf_restart(&c->text);
	buf_add(&c->text, r->method, strlen(r->method));
	buf_u8(&c->text, '\n');
	put_path(c, r);
	put_query(c, query);
	items = take_headers(c, r, extra);
	put_headers(c, items);
	put_names(c, items);
	buf_add(&c->text, c->names.data, c->names.len);
	buf_u8(&c->text, '\n');
	buf_add(&c->text, payload, strlen(payload));
	if (!pairs_ok(&c->pairs) || !buf_ok(&c->text) || !buf_ok(&c->names))
		return -ENOMEM;
	return 0;
}
