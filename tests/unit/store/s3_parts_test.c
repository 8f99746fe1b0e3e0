/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts below s3.c: addresses, documents, dates, checksums. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/crc32c.h"
#include "store/s3_answer.h"
#include "store/s3_target.h"
#include "store/s3_xml.h"

/* ---- addresses ---- */

static void a_bucket_is_addressed_by_host_or_by_path(void **state)
{
	static const struct {
		const char *endpoint, *region, *bucket, *key, *host, *url;
	} cases[] = {
		{NULL, "eu-west-1", "bkt", "k", "bkt.s3.eu-west-1.amazonaws.com",
		 "https://bkt.s3.eu-west-1.amazonaws.com/p/k"},
		{NULL, "eu-west-1", "bkt", NULL, "bkt.s3.eu-west-1.amazonaws.com",
		 "https://bkt.s3.eu-west-1.amazonaws.com/"},
		{NULL, "cn-north-1", "bkt", "k", "bkt.s3.cn-north-1.amazonaws.com.cn",
		 "https://bkt.s3.cn-north-1.amazonaws.com.cn/p/k"},
		{NULL, "eu-west-1", "b.k.t", "k", "s3.eu-west-1.amazonaws.com",
		 "https://s3.eu-west-1.amazonaws.com/b.k.t/p/k"},
		{NULL, "us-east-1", "Old_Bucket", "k", "s3.us-east-1.amazonaws.com",
		 "https://s3.us-east-1.amazonaws.com/Old_Bucket/p/k"},
		{"http://127.0.0.1:9000", "x", "bkt", "k", "127.0.0.1:9000",
		 "http://127.0.0.1:9000/bkt/p/k"},
		{"http://127.0.0.1:9000/", "x", "bkt", NULL, "127.0.0.1:9000",
		 "http://127.0.0.1:9000/bkt"},
		{"http://localhost:80", "x", "bkt", "k", "localhost", "http://localhost:80/bkt/p/k"},
		{"https://s3.lan:443", "x", "bkt", "k", "s3.lan", "https://s3.lan:443/bkt/p/k"},
		{"https://s3.lan:80", "x", "bkt", "k", "s3.lan:80", "https://s3.lan:80/bkt/p/k"},
		{"https://gw.lan/store/s3//", "x", "bkt", "k", "gw.lan",
		 "https://gw.lan/store/s3/bkt/p/k"},
		{"http://[::1]:9000", "x", "bkt", "k", "[::1]:9000", "http://[::1]:9000/bkt/p/k"},
		{NULL, "eu-west-1", "bkt", "a b%20+ü?#", "bkt.s3.eu-west-1.amazonaws.com",
		 "https://bkt.s3.eu-west-1.amazonaws.com/p/a%20b%2520%2B%C3%BC%3F%23"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scoped(s3_target_fini) struct s3_target t = S3_TARGET_EMPTY;

		assert_int_equal(s3_target_make(cases[i].endpoint, cases[i].region, cases[i].bucket,
						cases[i].key ? "p/" : NULL, cases[i].key, &t), 0);
		assert_string_equal(buf_str(&t.host), cases[i].host);
		assert_string_equal(buf_str(&t.url), cases[i].url);
		assert_int_equal(buf_str(&t.path)[0], '/');
	}
}

static void an_endpoint_that_is_none_is_named(void **state)
{
	static const char *const wrong[] = {"", "s3.lan", "ftp://s3.lan", "http://", "http:///x",
					    "http://me:secret@s3.lan", "http://s3.lan?x", "http://s 3"};
	struct fault f;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(s3_endpoint_check(wrong[i], &f), -EINVAL);
		assert_non_null(strstr(f.text, wrong[i]));
		assert_non_null(strstr(f.text, "AWS_ENDPOINT_URL"));
	}
	assert_int_equal(s3_endpoint_check("https://s3.lan:9000/base", &f), 0);
}

/* ---- documents ---- */

static bool error_of(const char *text, struct s3_error *e)
{
	return s3_xml_error(text, strlen(text), e);
}

static void an_error_document_is_read(void **state)
{
	struct s3_error e;

	assert_true(error_of(" \r\n <?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code>"
			     "<Message>a &lt;b&gt; c</Message><Region>eu-west-1</Region>"
			     "<Key>Code</Key></Error>", &e));
	assert_string_equal(e.code, "NoSuchKey");
	assert_string_equal(e.message, "a <b> c");
	assert_string_equal(e.region, "eu-west-1");
	assert_true(error_of("<Error xmlns=\"http://s3.amazonaws.com/doc/\"><Code>X</Code></Error>", &e));
	assert_string_equal(e.code, "X");
	assert_true(error_of("<Error><Code>Cut</Code><Mess", &e));
	assert_string_equal(e.code, "Cut");
}

static void what_is_no_error_document_is_none(void **state)
{
	static const char *const texts[] = {"", "  ", "plain", "<html><Code>X</Code></html>",
					    "<CopyResult><Error><Code>X</Code></Error></CopyResult>"};
	struct s3_error e;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(error_of(texts[i], &e));
}

static void a_long_code_is_cut(void **state)
{
	char text[400] = "<Error><Code>";
	struct s3_error e;

	memset(text + 13, 'x', 200);
	strcpy(text + 213, "</Code></Error>");
	assert_true(error_of(text, &e));
	assert_int_equal(strlen(e.code), sizeof(e.code) - 1);
}

static void documents_that_mean_harm_are_refused(void **state)
{
	static char endless[20000];
	static const char *const texts[] = {
		"<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult>&a;</ListBucketResult>",
		"<ListBucketResult><a><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a></a></a>"
		"</ListBucketResult>",
		"<ListBucketResult><Contents><Key>a</Key></Contents>",
		"<Other></Other>",
		"",
		endless,
	};
	struct s3_page p = S3_PAGE_EMPTY;

	memset(endless, 'k', sizeof(endless) - 1);
	memcpy(endless, "<ListBucketResult><Contents><Key>", 33);
	memcpy(endless + 20000 - 44, "</Key></Contents></ListBucketResult>", 37);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(s3_xml_page(texts[i], strlen(texts[i]), &p), -EPROTO);
		assert_null(p.keys.data);
	}
}

static void a_page_is_read_whatever_the_order_of_its_elements(void **state)
{
	static const char text[] =
		"<ListBucketResult><Contents><Key>a%2Bb+c</Key><Owner><ID>Key</ID></Owner></Contents>"
		"<Contents><Size>3</Size><Key>b%zz%4</Key></Contents><CommonPrefixes><Key>no</Key>"
		"</CommonPrefixes><IsTruncated>true</IsTruncated>"
		"<NextContinuationToken>t+/=%20</NextContinuationToken>"
		"<EncodingType>url</EncodingType></ListBucketResult>";
	scoped(s3_page_fini) struct s3_page p = S3_PAGE_EMPTY;

	assert_int_equal(s3_xml_page(text, strlen(text), &p), 0);
	assert_int_equal(p.keys.len, 13);
	assert_memory_equal(p.keys.data, "a+b c\0b%zz%4", 13);
	assert_true(p.truncated);
	assert_string_equal((char *)p.token.data, "t+/=%20");
}

/* ---- headers ---- */

static void dates_are_read(void **state)
{
	assert_int_equal(s3_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
	assert_int_equal(s3_date("Tue, 29 Feb 2028 00:00:00 GMT"), 1835395200);
	assert_int_equal(s3_date("Sun, 06 Now 1994 08:49:37 GMT"), -1);
	assert_int_equal(s3_date("Sun, 06 anF 1994 08:49:37 GMT"), -1);
	assert_int_equal(s3_date("784111777"), -1);
	assert_int_equal(s3_date(""), -1);
}

static void content_ranges_are_read(void **state)
{
	static const char *const wrong[] = {"", "bytes", "bytes 1-2", "bytes 1-2/", "bytes -2/3",
					    "bytes 1-2/3x", "bytes 1-99999999999999999999/3",
					    "items 1-2/3", "bytes */3"};
	uint64_t first, last, total;

	assert_true(s3_content_range("bytes 3-6/10", &first, &last, &total));
	assert_int_equal(first, 3);
	assert_int_equal(last, 6);
	assert_int_equal(total, 10);
	assert_true(s3_content_range("bytes 0-18446744073709551615/*", &first, &last, &total));
	assert_true(last == UINT64_MAX);
	assert_int_equal(total, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(s3_content_range(wrong[i], &first, &last, &total));
}

static void crc32c_is_castagnolis(void **state)
{
	const struct iovec whole = {(char *)"123456789", 9};
	const struct iovec parts[] = {{(char *)"1234", 4}, {NULL, 0}, {(char *)"56789", 5}};
	uint8_t zeros[32] = {0}; /* RFC 3720, B.4 */
	const struct iovec rfc = {zeros, sizeof(zeros)};

	assert_int_equal(crc32c(&whole, 1), 0xe3069283);
	assert_int_equal(crc32c(parts, 3), 0xe3069283);
	assert_int_equal(crc32c(&rfc, 1), 0x8a9136aa);
	assert_int_equal(crc32c(NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_is_addressed_by_host_or_by_path),
		cmocka_unit_test(an_endpoint_that_is_none_is_named),
		cmocka_unit_test(an_error_document_is_read),
		cmocka_unit_test(what_is_no_error_document_is_none),
		cmocka_unit_test(a_long_code_is_cut),
		cmocka_unit_test(documents_that_mean_harm_are_refused),
		cmocka_unit_test(a_page_is_read_whatever_the_order_of_its_elements),
		cmocka_unit_test(dates_are_read),
		cmocka_unit_test(content_ranges_are_read),
		cmocka_unit_test(crc32c_is_castagnolis),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
