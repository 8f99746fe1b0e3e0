/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: a server is believed only with a certificate that AWS_CA_BUNDLE, or the system, vouches for. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/http.h"

/* A server with a certificate of its own making, which is written to ca_file as well. */
struct bench {
	EVP_PKEY *key;
	X509 *cert;
	SSL_CTX *tls;
	int fd;
	int port;
	pthread_t thread;
	char ca_file[64];
	char url[64];
};

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(ext);
	assert_true(X509_add_ext(cert, ext, -1));
	X509_EXTENSION_free(ext);
}

static void make_certificate(struct bench *b)
{
	X509_NAME *name;

	b->key = EVP_EC_gen("P-256");
	b->cert = X509_new();
	assert_non_null(b->key);
	assert_non_null(b->cert);
	(void)X509_set_version(b->cert, X509_VERSION_3);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(b->cert), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(b->cert), -3600);
	(void)X509_gmtime_adj(X509_getm_notAfter(b->cert), 3600);
	(void)X509_set_pubkey(b->cert, b->key);
	name = X509_get_subject_name(b->cert);
	(void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"test", -1, -1,
					 0);
	(void)X509_set_issuer_name(b->cert, name);
	add_extension(b->cert, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(b->cert, NID_subject_alt_name, "IP:127.0.0.1");
	assert_true(X509_sign(b->cert, b->key, EVP_sha256()) > 0);
}

static void write_ca_file(struct bench *b)
{
	FILE *file;
	int fd;

	(void)snprintf(b->ca_file, sizeof(b->ca_file), "/tmp/https_test.XXXXXX");
	fd = mkstemp(b->ca_file);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_true(PEM_write_X509(file, b->cert));
	assert_int_equal(fclose(file), 0);
}

static void answer(SSL *ssl)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
				    "Connection: close\r\n\r\nhello";
	char head[4096];

	if (SSL_accept(ssl) == 1 && SSL_read(ssl, head, sizeof(head)) > 0)
		(void)SSL_write(ssl, reply, sizeof(reply) - 1); /* gone if the client is */
	(void)SSL_shutdown(ssl);
}

static void *serve(void *arg)
{
	struct bench *b = arg;
	int fd;

	while ((fd = accept(b->fd, NULL, NULL)) >= 0) {
		SSL *ssl = SSL_new(b->tls);

		(void)SSL_set_fd(ssl, fd);
		answer(ssl);
		SSL_free(ssl);
		close(fd);
	}
	return NULL;
}

static int set_up(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct bench *b = calloc(1, sizeof(*b));

	(void)signal(SIGPIPE, SIG_IGN); /* this server writes as OpenSSL does */
	make_certificate(b);
	write_ca_file(b);
	b->tls = SSL_CTX_new(TLS_server_method());
	assert_true(SSL_CTX_use_certificate(b->tls, b->cert) == 1);
	assert_true(SSL_CTX_use_PrivateKey(b->tls, b->key) == 1);
	b->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(b->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(b->fd, 8), 0);
	assert_int_equal(getsockname(b->fd, (struct sockaddr *)&at, &len), 0);
	b->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&b->thread, NULL, serve, b), 0);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	(void)shutdown(b->fd, SHUT_RDWR);
	pthread_join(b->thread, NULL);
	close(b->fd);
	(void)unlink(b->ca_file);
	(void)unsetenv("AWS_CA_BUNDLE");
	SSL_CTX_free(b->tls);
	X509_free(b->cert);
	EVP_PKEY_free(b->key);
	free(b);
	return 0;
}

static void get(struct bench *b, const char *host, struct http_req *out)
{
	struct fault f = FAULT_NONE;
	struct loop *l = NULL;
	struct http_client *c = NULL;

	(void)snprintf(b->url, sizeof(b->url), "https://%s:%d/x", host, b->port);
	*out = (struct http_req){.method = "GET", .url = b->url, .no_proxy = true};
	assert_int_equal(loop_new(LOOP_AUTO, &l, &f), 0);
	assert_int_equal(http_client_new(l, &c, &f), 0);
	(void)http_do(c, l, out); /* the caller looks */
	http_client_free(c);
	loop_free(l);
}

static void a_certificate_in_the_bundle_is_believed(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	assert_int_equal(setenv("AWS_CA_BUNDLE", b->ca_file, 1), 0);
	get(b, "127.0.0.1", &r);
	assert_int_equal(r.rc, 0);
	assert_string_equal(buf_str(&r.body_in), "hello");
	http_req_fini(&r);
}

static void a_certificate_that_nobody_vouches_for_is_refused_for_good(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	get(b, "127.0.0.1", &r);
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

	assert_int_equal(setenv("AWS_CA_BUNDLE", b->ca_file, 1), 0);
	get(b, "localhost", &r);
	assert_int_equal(r.rc, -EACCES);
	assert_int_equal(r.fault.retry, FAULT_FINAL);
	assert_non_null(strstr(r.fault.text, "localhost"));
	http_req_fini(&r);
}

static void a_bundle_that_is_missing_is_named(void **state)
{
	struct bench *b = *state;
	struct http_req r;

	assert_int_equal(setenv("AWS_CA_BUNDLE", "/no/such/bundle.pem", 1), 0);
	get(b, "127.0.0.1", &r);
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
