/* SPDX-License-Identifier: Apache-2.0 */
/* The probe and mkfs against a small S3 that lacks one thing at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/format.h"
#include "tests/unit/store/fake_s3.h"

enum { OBJECTS_MOST = 64 };

struct object {
	char path[128]; /* "" once it is deleted */
	char text[64];
	size_t len;
};

struct server {
	/* what it lacks */
	bool ignores_conditions;
	bool refuses_conditions; /* 501 */
	bool lists_backwards;
	bool ignores_ranges;
	bool ignores_checksums;
	bool reads_old; /* an overwritten or new key shows nothing yet */
	/* the server's thread */
	struct object objects[OBJECTS_MOST];
	unsigned n;
};

#define HEAD(status) "HTTP/1.1 " status " X\r\nConnection: close\r\n"
static void refuse(struct buf *out, int status, const char *code)
{
	buf_addf(out, "HTTP/1.1 %d X\r\nConnection: close\r\n\r\n<Error><Code>%s</Code></Error>",
		 status, code);
}

static struct object *find(struct server *s, const char *path)
{
	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->objects[i].path, path) == 0)
			return &s->objects[i];
	return NULL;
}

/* Of a PUT whose content is its key's name, the probe spoils only this one. */
static bool is_spoiled(const struct fake_request *r)
{
	return strncmp(r->text, "damaged", 7) == 0;
}

static void put(struct server *s, const struct fake_request *r, const char *path, struct buf *out)
{
	bool conditional = strcasestr(r->head, "\r\nIf-None-Match: *");
	struct object *o = find(s, path);

	if (conditional && s->refuses_conditions) {
		refuse(out, 501, "NotImplemented");
		return;
	}
	if (conditional && o && !s->ignores_conditions) {
		refuse(out, 412, "PreconditionFailed");
		return;
	}
	if (is_spoiled(r) && !s->ignores_checksums) {
		refuse(out, 400, "BadDigest");
		return;
	}
	if (!o)
		o = &s->objects[s->n++];
	snprintf(o->path, sizeof(o->path), "%s", path);
	memcpy(o->text, r->text, sizeof(o->text));
	o->len = r->body < sizeof(o->text) ? r->body : sizeof(o->text);
	buf_addf(out, HEAD("200") "Content-Length: 0\r\n\r\n");
}

static void get(struct server *s, const struct fake_request *r, const char *path, struct buf *out)
{
	const struct object *o = find(s, path);
	const char *range = strstr(r->head, "\r\nRange: bytes=");
	int from, to;

	if (!o || s->reads_old) {
		refuse(out, 404, "NoSuchKey");
	} else if (range && !s->ignores_ranges &&
		   sscanf(range, "\r\nRange: bytes=%d-%d", &from, &to) == 2) {
		buf_addf(out, HEAD("206") "Content-Range: bytes %d-%d/%zu\r\nContent-Length: %d\r\n\r\n",
			 from, to, o->len, to - from + 1);
		buf_add(out, o->text + from, (size_t)(to - from + 1));
	} else {
		buf_addf(out, HEAD("200") "Content-Length: %zu\r\n\r\n", o->len);
		buf_add(out, o->text, o->len);
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct object *)a)->path, ((const struct object *)b)->path);
}

/* The value of a query's name, of which only "%2F" needs decoding here. */
static void query(const struct fake_request *r, const char *name, char *out, size_t cap)
{
	const char *at = strstr(r->head, name);
	size_t n = 0;

	for (at = at ? at + strlen(name) : ""; *at && *at != '&' && *at != ' ' && n + 1 < cap; at++) {
		bool slash = strncmp(at, "%2F", 3) == 0;

		out[n++] = slash ? '/' : *at;
		at += slash ? 2 : 0;
	}
	out[n] = '\0';
}

static void list(struct server *s, const struct fake_request *r, struct buf *out)
{
	char prefix[128], after[128], most[16];
	int left;

	query(r, "prefix=", prefix, sizeof(prefix));
	query(r, "start-after=", after, sizeof(after));
	query(r, "max-keys=", most, sizeof(most));
	left = atoi(most);
	qsort(s->objects, s->n, sizeof(s->objects[0]), compare);
	buf_addf(out, HEAD("200") "\r\n<ListBucketResult><IsTruncated>false</IsTruncated>");
	for (unsigned i = 0; i < s->n && left > 0; i++) {
		const char *path = s->objects[s->lists_backwards ? s->n - 1 - i : i].path;
		const char *key = path + strlen("/bkt/");

		if (*path && strncmp(key, prefix, strlen(prefix)) == 0 && strcmp(key, after) > 0) {
			buf_addf(out, "<Contents><Key>%s</Key></Contents>", key);
			left--;
		}
	}
	buf_addf(out, "</ListBucketResult>");
}

static void answer(void *arg, const struct fake_request *r, unsigned number, struct buf *out)
{
	struct server *s = arg;
	char method[16], path[128];

	assert_int_equal(sscanf(r->head, "%15s %127s", method, path), 2);
	if (strcmp(method, "PUT") == 0) {
		put(s, r, path, out);
	} else if (strcmp(method, "DELETE") == 0) {
		struct object *o = find(s, path);

		if (o)
			o->path[0] = '\0';
		buf_addf(out, HEAD("204") "\r\n");
	} else if (strchr(path, '?')) {
		list(s, r, out);
	} else {
		get(s, r, path, out);
	}
}

/* ---- a client of one ---- */

struct client {
	struct server server;
	struct fake_s3 *fake;
	struct loop *loop;
	struct store *store;
	struct objects *objects;
	struct fault f;
};

static int make(void **state)
{
	struct client *c = calloc(1, sizeof(*c));

	*state = c;
	setenv("AWS_ACCESS_KEY_ID", "AKTEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	setenv("NO_PROXY", "127.0.0.1", 1);
	c->fake = fake_s3_start(answer, &c->server);
	if (loop_new(LOOP_AUTO, &c->loop, &c->f) < 0 || store_new("s3://bkt", &c->store, &c->f) < 0 ||
	    objects_open(c->store, c->loop, &c->objects, &c->f) < 0) {
		print_error("%s\n", c->f.text);
		return -1;
	}
	return 0;
}

static int end(void **state)
{
	struct client *c = *state;

	objects_close(c->objects);
	store_free(c->store);
	loop_free(c->loop);
	fake_s3_stop(c->fake);
	free(c);
	return 0;
}

static struct store_probe probe(struct client *c)
{
	struct store_probe p = {.create_only = false};
	int rc = store_probe(c->objects, &p, &c->f);

	if (rc < 0)
		print_error("%s\n", c->f.text);
	assert_int_equal(rc, 0);
	return p;
}

static void assert_mkfs_refuses(struct client *c, bool unfenced, const char *says)
{
	struct store_format s;

	assert_int_equal(store_make(c->objects, unfenced, &s, &c->f), -ENOTSUP);
	assert_int_equal(c->f.retry, FAULT_FINAL);
	assert_non_null(strstr(c->f.text, says));
	assert_non_null(strstr(c->f.text, "s3://bkt"));
	assert_null(find(&c->server, "/bkt/store.json"));
}

static unsigned objects_left(struct client *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->server.n; i++)
		n += c->server.objects[i].path[0] != '\0';
	return n;
}

static void a_whole_store_passes_and_is_left_clean(void **state)
{
	struct client *c = *state;
	struct store_probe p = probe(c);
	struct store_format s;

	assert_true(p.create_only && p.read_after_write && p.ordered_list && p.ranges && p.checksums);
	assert_int_equal(objects_left(c), 0);
	assert_int_equal(store_make(c->objects, false, &s, &c->f), 0);
	assert_false(s.unfenced);
	assert_int_equal(objects_left(c), 1);
}

static void ignored_conditions_are_found_and_refused(void **state)
{
	struct client *c = *state;
	struct store_probe p;
	struct store_format s;

	c->server.ignores_conditions = true;
	p = probe(c);
	assert_false(p.create_only);
	assert_true(p.read_after_write && p.ordered_list && p.ranges);
	assert_mkfs_refuses(c, false, "--unfenced");
	assert_int_equal(store_make(c->objects, true, &s, &c->f), 0);
	assert_true(s.unfenced);
}

static void conditions_not_implemented_are_an_answer(void **state)
{
	struct client *c = *state;
	struct store_format s;

	c->server.refuses_conditions = true;
	assert_false(probe(c).create_only);
	assert_mkfs_refuses(c, false, "--unfenced");
	assert_int_equal(store_make(c->objects, true, &s, &c->f), 0);
	assert_true(s.unfenced);
}

static void lists_out_of_order_are_found_and_refused(void **state)
{
	struct client *c = *state;

	c->server.lists_backwards = true;
	assert_false(probe(c).ordered_list);
	assert_mkfs_refuses(c, true, "order");
}

static void ignored_ranges_are_found_and_refused(void **state)
{
	struct client *c = *state;

	c->server.ignores_ranges = true;
	assert_false(probe(c).ranges);
	assert_mkfs_refuses(c, true, "ranges");
}

static void ignored_checksums_are_found_and_taken(void **state)
{
	struct client *c = *state;
	struct store_format s;

	c->server.ignores_checksums = true;
	assert_false(probe(c).checksums);
	assert_int_equal(store_make(c->objects, false, &s, &c->f), 0);
}

static void a_store_that_forgets_is_found_out(void **state)
{
	struct client *c = *state;
	struct store_probe p = {.ranges = true};

	c->server.reads_old = true;
	assert_int_equal(store_probe(c->objects, &p, &c->f), 0);
	assert_false(p.read_after_write);
	assert_mkfs_refuses(c, true, "just written");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_store_passes_and_is_left_clean),
		TEST(ignored_conditions_are_found_and_refused),
		TEST(conditions_not_implemented_are_an_answer),
		TEST(lists_out_of_order_are_found_and_refused),
		TEST(ignored_ranges_are_found_and_refused),
		TEST(ignored_checksums_are_found_and_taken),
		TEST(a_store_that_forgets_is_found_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
