/* SPDX-License-Identifier: Apache-2.0 */
/* Store URIs: what is refused here would otherwise be a puzzle many requests later. */
#include "store/uri.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define S3         "s3://"
#define DIRECTORY  "file://"
#define BUCKET_MIN 3
#define BUCKET_MAX 63
#define PREFIX_MAX 512  /* S3's keys end at 1 024 bytes */
#define DIR_MAX    3072 /* leaves room for keys in PATH_MAX */

void store_uri_fini(struct store_uri *u)
{
	free(u->text);
	free(u->bucket);
	free(u->prefix);
	free(u->dir);
	*u = STORE_URI_EMPTY;
}

static int refuse(struct fault *f, const char *text, const char *why)
{
	return fault_set(f, -EINVAL, FAULT_FINAL,
			 "'%.100s' %s: a store is s3://BUCKET[/PREFIX] or file:///DIRECTORY", text,
			 why);
}

/* NULL on lack of memory. */
static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...)
{
	char *out = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&out, fmt, ap) < 0)
		out = NULL;
	va_end(ap);
	return out;
}

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return true;
	return false;
}

/* A copy with runs of '/' made one and none at its end. */
static char *tidy(const char *path)
{
	char *out = malloc(strlen(path) + 1);
	size_t len = 0;

	if (!out)
		return NULL;
	for (; *path; path++)
		if (*path != '/' || len == 0 || out[len - 1] != '/')
			out[len++] = *path;
	while (len > 0 && out[len - 1] == '/')
		len--;
	out[len] = '\0';
	return out;
}

static bool bucket_is_valid(const char *b, size_t len)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	return len >= BUCKET_MIN && len <= BUCKET_MAX && strspn(b, allowed) >= len && b[0] != '.';
}

/* Servers and HTTP libraries fold "." and ".." away, each in its own way. */
static bool has_dot_segment(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if ((len == 1 && path[0] == '.') || (len == 2 && path[0] == '.' && path[1] == '.'))
			return true;
		path += len;
		path += strspn(path, "/");
	}
	return false;
}

static int finish(struct store_uri *u, bool whole, struct store_uri *out, struct fault *f)
{
	if (!whole)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	*out = *u;
	*u = STORE_URI_EMPTY;
	return 0;
}

static int parse_s3(const char *text, struct store_uri *out, struct fault *f)
{
	scoped(store_uri_fini) struct store_uri u = STORE_URI_EMPTY;
	scoped(free) char *path = NULL;
	const char *bucket = text + strlen(S3);
	size_t len = strcspn(bucket, "/");

	if (len == 0)
		return refuse(f, text, "names no bucket");
	if (!bucket_is_valid(bucket, len))
		return refuse(f, text, "has no valid bucket name");
	if (strpbrk(bucket + len, "?#"))
		return refuse(f, text, "has '?' or '#' in its prefix");
	if (has_dot_segment(bucket + len))
		return refuse(f, text, "has '.' or '..' in its prefix");
	path = tidy(bucket + len + strspn(bucket + len, "/"));
	if (path && strlen(path) > PREFIX_MAX)
		return refuse(f, text, "has a prefix over 512 bytes");
	u.bucket = strndup(bucket, len);
	if (path && u.bucket) {
		u.prefix = format("%s%s", path, *path ? "/" : "");
		u.text = format(S3 "%s%s%s", u.bucket, *path ? "/" : "", path);
	}
	return finish(&u, u.prefix && u.text, out, f);
}

static int parse_dir(const char *text, struct store_uri *out, struct fault *f)
{
	scoped(store_uri_fini) struct store_uri u = STORE_URI_EMPTY;
	const char *dir = text + strlen(DIRECTORY);

	if (*dir != '/')
		return refuse(f, text, "is not absolute");
	if (strlen(dir) > DIR_MAX)
		return refuse(f, text, "is too long");
	u.dir = tidy(dir);
	if (u.dir && !*u.dir)
		return refuse(f, text, "is the root directory");
	if (u.dir)
		u.text = format(DIRECTORY "%s", u.dir);
	return finish(&u, u.text, out, f);
}

int store_uri_parse(const char *text, struct store_uri *out, struct fault *f)
{
	if (has_control(text))
		return refuse(f, text, "has control characters");
	if (strncmp(text, S3, strlen(S3)) == 0)
		return parse_s3(text, out, f);
	if (strncmp(text, DIRECTORY, strlen(DIRECTORY)) == 0)
		return parse_dir(text, out, f);
	if (text[0] == '/')
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "'%.100s' is not a store URI: write file://%.100s", text, text);
	return refuse(f, text, "is not a store URI");
}
