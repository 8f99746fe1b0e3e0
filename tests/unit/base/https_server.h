/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on 127.0.0.1 that speaks TLS, with a certificate of its own making, and gives every
 * request one answer.  Header-only: each test that includes it has its own.
 */
#ifndef HOLDFAST_TESTS_HTTPS_SERVER_H
#define HOLDFAST_TESTS_HTTPS_SERVER_H

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct https_server {
	const char *body; /* of the answer */
	EVP_PKEY *key;
	X509 *cert;
	SSL_CTX *tls;
	int fd;
	int port;
	pthread_t thread;
	char ca_file[64]; /* holds the certificate, too */
};

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(ext);
	assert_true(X509_add_ext(cert, ext, -1));
	X509_EXTENSION_free(ext);
}

static void make_certificate(struct https_server *b)
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

static void write_ca_file(struct https_server *b)
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

static void answer(SSL *ssl, const char *body)
{
	char head[4096], reply[1024];
	int len = snprintf(reply, sizeof(reply),
			   "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n"
			   "Connection: close\r\n\r\n%s",
			   strlen(body), body);

	if (SSL_accept(ssl) == 1 && SSL_read(ssl, head, sizeof(head)) > 0)
		(void)SSL_write(ssl, reply, len); /* gone if the client is */
	(void)SSL_shutdown(ssl);
}

static void *serve(void *arg)
{
	struct https_server *b = arg;
	int fd;

	while ((fd = accept(b->fd, NULL, NULL)) >= 0) {
		SSL *ssl = SSL_new(b->tls);

		(void)SSL_set_fd(ssl, fd);
		answer(ssl, b->body);
		SSL_free(ssl);
		close(fd);
	}
	return NULL;
}

static struct https_server *https_server_start(const char *body)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct https_server *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->body = body;
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
	return b;
}

static void https_server_stop(struct https_server *b)
{
	(void)shutdown(b->fd, SHUT_RDWR);
	pthread_join(b->thread, NULL);
	close(b->fd);
	(void)unlink(b->ca_file);
	SSL_CTX_free(b->tls);
	X509_free(b->cert);
	EVP_PKEY_free(b->key);
	free(b);
}

#endif
