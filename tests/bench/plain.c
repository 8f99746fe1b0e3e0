/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measure of a store's speed: objects of 16 MiB, eight connections, nothing else.
 *
 *     plain put|get URL OBJECTS
 *
 * URL/0, URL/1 ... are written, or read and thrown away.  The keys come from AWS_ACCESS_KEY_ID and
 * AWS_SECRET_ACCESS_KEY.  Prints the seconds it took and its own CPU seconds.
 */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/sign.h"

#define CONNECTIONS 8
#define OBJECT_BYTES ((size_t)16 << 20)

struct plain {
	/* fixed */
	bool put;
	const char *url;
	char host[128];
	const char *path; /* of url, with its '/' */
	uint8_t *data;    /* what every object holds */
	struct sign_keys keys;
	struct signer *signer;
	/* moves */
	CURLM *multi;
	unsigned next, objects, active, failed;
};

struct transfer {
	struct plain *plain;
	CURL *easy;
	struct curl_slist *headers;
	size_t sent;
};

static size_t give(char *to, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t left = OBJECT_BYTES - t->sent, len = size * n < left ? size * n : left;

	memcpy(to, t->plain->data + t->sent, len);
	t->sent += len;
	return len;
}

static size_t drop(char *from, size_t size, size_t n, void *arg)
{
	return size * n;
}

static int sign(struct transfer *t, const char *path)
{
	struct plain *p = t->plain;
	scoped(sign_headers_fini) struct sign_headers h = SIGN_HEADERS_EMPTY;
	struct fault f = FAULT_NONE;
	struct sign_req r = {.method = p->put ? "PUT" : "GET", .host = p->host, .path = path,
			     .payload = SIGN_UNSIGNED, .region = "us-east-1", .service = "s3", .at_s = time(NULL)};

	if (sign_headers(p->signer, &p->keys, &r, &h, &f) < 0) {
		(void)fprintf(stderr, "plain: %s\n", f.text);
		return -1;
	}
	curl_slist_free_all(t->headers);
	t->headers = curl_slist_append(NULL, "Expect:");
	for (size_t i = 0; h.lines[i]; i++)
		t->headers = curl_slist_append(t->headers, h.lines[i]);
	return 0;
}

/* The transfer's next object; without one it rests. */
static int begin(struct transfer *t)
{
	struct plain *p = t->plain;
	char url[512], path[256];

	if (p->next == p->objects)
		return 0;
	(void)snprintf(url, sizeof(url), "%s/%u", p->url, p->next);
	(void)snprintf(path, sizeof(path), "%s/%u", p->path, p->next++);
	if (sign(t, path) < 0)
		return -1;
	t->sent = 0;
	curl_easy_setopt(t->easy, CURLOPT_URL, url);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	p->active++;
	return curl_multi_add_handle(p->multi, t->easy) == CURLM_OK ? 0 : -1;
}

static int transfer_init(struct transfer *t, struct plain *p)
{
	*t = (struct transfer){.plain = p, .easy = curl_easy_init()};
	if (!t->easy)
		return -1;
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	curl_easy_setopt(t->easy, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, 512L << 10);
	if (p->put) {
		curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(t->easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
		curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)OBJECT_BYTES);
		curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, give);
		curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
	}
	return begin(t);
}

static int ended(struct plain *p, const CURLMsg *m)
{
	struct transfer *t;

	curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
	if (m->data.result != CURLE_OK && p->failed++ == 0)
		(void)fprintf(stderr, "plain: %s: %s\n", p->url, curl_easy_strerror(m->data.result));
	curl_multi_remove_handle(p->multi, t->easy);
	p->active--;
	return begin(t);
}

static int run(struct plain *p)
{
	struct transfer transfers[CONNECTIONS];
	int running, left;
	CURLMsg *m;

	for (size_t i = 0; i < CONNECTIONS; i++)
		if (transfer_init(&transfers[i], p) < 0)
			return -1;
	while (p->active) {
		curl_multi_poll(p->multi, NULL, 0, 1000, NULL);
		curl_multi_perform(p->multi, &running);
		while ((m = curl_multi_info_read(p->multi, &left)))
			if (m->msg == CURLMSG_DONE && ended(p, m) < 0)
				return -1;
	}
	for (size_t i = 0; i < CONNECTIONS; i++) {
		curl_easy_cleanup(transfers[i].easy);
		curl_slist_free_all(transfers[i].headers);
	}
	return p->failed ? -1 : 0;
}

static int plain_init(struct plain *p, char **argv)
{
	const char *access = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
	const char *host = strstr(argv[2], "://");
	struct fault f;
	uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

	if (!host || !(p->path = strchr(host + 3, '/')) || !access || !secret)
		return -1;
	p->put = strcmp(argv[1], "put") == 0;
	p->url = argv[2];
	p->objects = (unsigned)strtoul(argv[3], NULL, 10);
	(void)snprintf(p->host, sizeof(p->host), "%.*s", (int)(p->path - host - 3), host + 3);
	p->data = malloc(OBJECT_BYTES);
	p->multi = curl_multi_init();
	if (!p->data || !p->multi || sign_keys_set(&p->keys, access, secret, NULL) < 0)
		return -1;
	for (size_t i = 0; i < OBJECT_BYTES; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p->data + i, &x, sizeof(x));
	}
	return signer_new(&p->signer, &f);
}

static double cpu_s(void)
{
	struct rusage r;

	(void)getrusage(RUSAGE_SELF, &r); /* cannot fail for ourselves */
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	struct plain p = {.next = 0};
	uint64_t start;
	double cpu;

	if (argc != 4 || curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || plain_init(&p, argv) < 0) {
		(void)fprintf(stderr, "usage: plain put|get URL OBJECTS\n");
		return 2;
	}
	start = clock_mono(&clock_system);
	cpu = cpu_s();
	if (run(&p) < 0)
		return 1;
	printf("%.6f %.3f\n", (double)(clock_mono(&clock_system) - start) / NS_PER_S, cpu_s() - cpu);
	signer_free(p.signer);
	curl_multi_cleanup(p.multi);
	free(p.data);
	return 0;
}
