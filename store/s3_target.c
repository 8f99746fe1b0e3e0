/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of buckets and keys. */
#include "store/s3_target.h"

#include <errno.h>
#include <string.h>

#include "base/awsconf.h"
#include "base/sign.h"

void s3_target_fini(struct s3_target *t)
{
	buf_fini(&t->host);
	buf_fini(&t->path);
	buf_fini(&t->url);
}

/* Length of "http://" or "https://", 0 for anything else. */
static size_t scheme_length(const char *url)
{
	if (strncmp(url, "https://", 8) == 0)
		return 8;
	return strncmp(url, "http://", 7) == 0 ? 7 : 0;
}

int s3_endpoint_check(const char *endpoint, struct fault *f)
{
	size_t scheme = scheme_length(endpoint);
	size_t host = scheme ? strcspn(endpoint + scheme, "/") : 0;

	if (host == 0 || memchr(endpoint + scheme, '@', host) || strpbrk(endpoint, "?# \t\r\n"))
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "the S3 endpoint '%.100s' is not http(s)://HOST[:PORT]: "
				 "check AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and the profile",
				 endpoint);
	return 0;
}

/* One DNS label below the region's own name, so that its certificate covers it. */
static bool is_label(const char *bucket)
{
	return bucket[strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

/* The Host header leaves out the scheme's own port. */
static size_t without_port(const char *host, size_t len, bool tls)
{
	const char *port = tls ? ":443" : ":80";
	size_t n = strlen(port);

	return len > n && memcmp(host + len - n, port, n) == 0 ? len - n : len;
}

/* Host and base path of a configured endpoint. */
static void add_endpoint(const char *endpoint, struct s3_target *out)
{
	size_t scheme = scheme_length(endpoint);
	const char *host = endpoint + scheme;
	size_t len = strcspn(host, "/");
	size_t base = strlen(host + len);

	while (base > 0 && host[len + base - 1] == '/')
		base--;
	buf_add(&out->host, host, without_port(host, len, scheme == 8));
	buf_add(&out->path, host + len, base);
	buf_add(&out->url, endpoint, scheme + len);
}

static void add_aws(const char *region, const char *bucket, struct s3_target *out)
{
	if (is_label(bucket))
		buf_addf(&out->host, "%s.", bucket);
	buf_addf(&out->host, "s3.%s.%s", region, aws_dns_suffix(region));
	buf_addf(&out->url, "https://");
	buf_add(&out->url, out->host.data, out->host.len);
}

int s3_target_make(const char *endpoint, const char *region, const char *bucket, const char *prefix,
		   const char *key, struct s3_target *out)
{
	bool by_path = endpoint || !is_label(bucket);

	if (endpoint)
		add_endpoint(endpoint, out);
	else
		add_aws(region, bucket, out);
	if (by_path) {
		buf_addf(&out->path, "/");
		sign_path_add(&out->path, bucket);
	}
	if (key || !by_path)
		buf_addf(&out->path, "/");
	if (key) {
		sign_path_add(&out->path, prefix);
		sign_path_add(&out->path, key);
	}
	buf_add(&out->url, out->path.data, out->path.len);
	return buf_ok(&out->host) && buf_ok(&out->path) && buf_ok(&out->url) ? 0 : -ENOMEM;
}
