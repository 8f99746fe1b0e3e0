/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: a server is believed only with a certificate that the bundle, or the system, vouches for. */
#include <errno.h>

#include "base/http.h"
#include "tests/unit/base/https_server.h"

struct bench {
	struct https_server *server;
	char url[64];
};

static int set_up(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->server = https_server_start("hello");
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	https_server_stop(b->server);
	free(b);
	return 0;
}

static void get(struct bench *b, const char *host, const char *ca_file, struct http_req *out)
{
	struct fault f = FAULT_NONE;
	struct loop *l = NULL;
	struct http_client *c = NULL;

	(void)snprintf(b->url, sizeof(b->url), "https://%s:%d/x", host, b->server->port);
	*out = (struct http_req){.method = "GET", .url = b->url, .no_proxy = true};
	assert_int_equal(loop_new(LOOP_AUTO, &l, &f), 0);
	assert_int_equal(http_client_new(l, ca_file, &c, &f), 0);
	(void)http_do(c, l, out); /* the caller looks */
	http_client_free(c);
	loop_free(l);
}

static void a_certificate_in_the_bundle_is_believed(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	get(b, "127.0.0.1", b->server->ca_file, &r);
	assert_int_equal(r.rc, 0);
	assert_string_equal(buf_str(&r.body_in), "hello");
	http_req_fini(&r);
}

static void a_certificate_that_nobody_vouches_for_is_refused_for_good(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	get(b, "127.0.0.1", NULL, &r);
	assert_int_equal(r.rc, -EACCES);
	assert_int_equal(r.fault.retry, FAULT_FINAL);
	assert_non_null(strstr(r.fault.text, b->url));
	assert_non_null(strstr(r.fault.text, "certificate"));
	assert_int_equal(r.got, 0);
	http_req_fini(&r);
}

static void a_certificate_of_another_host_is_refused_for_good(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	get(b, "localhost", b->server->ca_file, &r);
	assert_int_equal(r.rc, -EACCES);
	assert_int_equal(r.fault.retry, FAULT_FINAL);
	assert_non_null(strstr(r.fault.text, "localhost"));
	http_req_fini(&r);
}

static void a_bundle_that_is_missing_is_named(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	get(b, "127.0.0.1", "/no/such/bundle.pem", &r);
	assert_int_equal(r.rc, -EINVAL);
	assert_int_equal(r.fault.retry, FAULT_FINAL);
	assert_non_null(strstr(r.fault.text, "/no/such/bundle.pem"));
	http_req_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_certificate_in_the_bundle_is_believed, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			a_certificate_that_nobody_vouches_for_is_refused_for_good, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_certificate_of_another_host_is_refused_for_good,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_bundle_that_is_missing_is_named, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
