/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer of an HTTP client: a libcurl easy handle with what it needs while a request is open.
 * It is used for one request after another.  Thread: the loop's.
 */
#ifndef HOLDFAST_BASE_HTTP_XFER_H
#define HOLDFAST_BASE_HTTP_XFER_H

#include <curl/curl.h>

#include "base/http.h"

struct xfer {
	/* fixed after xfer_new() */
	CURL *easy;
	struct http_client *client;
	/* the client's lists */
	struct xfer *next;
	struct xfer *prev;
	/* the open request's */
	struct http_req *req;
	struct curl_slist *headers;
	int body_part; /* the next byte to send: part of the body, and offset in it */
	size_t body_at;
	struct fault fault; /* why one of our callbacks ended it; code 0: none did */
	char said[CURL_ERROR_SIZE];
	/* its watchdog's */
	struct loop_timer stall;
	uint64_t moved_ns; /* when a byte last went either way */
	int unsent;        /* bytes in the socket at the last look */
};

/* ca_bundle: a path, or NULL for libcurl's own.  Fails: -ENOMEM. */
int xfer_new(struct http_client *c, const char *ca_bundle, struct xfer **out);
void xfer_free(struct xfer *x);
SCOPE_PTR(struct xfer, xfer_free)

/* Make r the open request.  Fails, with r->fault set: -EINVAL (URL), -ENOMEM. */
int xfer_open(struct xfer *x, struct http_req *r);
/* Fill in r's result from libcurl's, and let go of r. */
void xfer_close(struct xfer *x, CURLcode code);

/* When the request is stalled unless a byte moves before. */
uint64_t xfer_stalls_at_ns(const struct xfer *x);
/* Whether the kernel has sent anything since the last look: no callback tells of that. */
bool xfer_drains(struct xfer *x);

/* r's result is a failure: "METHOD URL: text", the URL without its query, which may hold a
 * signature.  Returns code. */
int xfer_failed(struct http_req *r, int code, enum fault_retry retry, const char *text);

#endif
