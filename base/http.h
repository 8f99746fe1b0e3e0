/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP requests on a loop, over a libcurl multi handle.  One http_client a loop; keeps
 * connections.  Knows nothing of AWS.  Thread: the loop's.
 * Proxies and NO_PROXY are libcurl's own from the environment.  Redirects are never followed here.
 * `Expect:` is never sent.  HTTP/1.1 always.  The process ignores SIGPIPE from the first client on; children inherit
 * that.
 *
 * Faults name method and URL, without the query.
 * SOON:  what the network did (-ECONNREFUSED, -ECONNRESET, -ETIMEDOUT, -EHOSTUNREACH, -EPROTO, or
 *        -EIO for what libcurl says of nothing else), and -ENOMEM.
 * FINAL: -EINVAL (URL, CA bundle), -EACCES (a certificate that does not verify), -EMSGSIZE (response
 *        too long), -ECANCELED.
 */
#ifndef HOLDFAST_BASE_HTTP_H
#define HOLDFAST_BASE_HTTP_H

#include <sys/uio.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/loop.h"

struct http_client;
/* ca_bundle: the file whose certificates vouch for servers, which outlives the client; NULL: those that
 * libcurl knows. */
int http_client_new(struct loop *l, const char *ca_bundle, struct http_client **out,
		    struct fault *f);
void http_client_free(struct http_client *c); /* ends open requests with -ECANCELED */
SCOPE_PTR(struct http_client, http_client_free)

/* When a byte of any request that points here last went out, and came in; monotonic. */
struct http_pulse {
	_Atomic uint64_t sent_ns, heard_ns;
};

struct http_req {
	/* the caller's, unchanged until done() */
	const char *method;
	const char *url;
	const char *const *headers; /* "Name: value", ended by NULL; may be NULL */
	const struct iovec *body;   /* sent with Content-Length; may be NULL */
	int bodies;
	uint64_t connect_ms; /* 0: 5 s */
	uint64_t total_ms;   /* 0: none */
	uint64_t stall_ms;   /* no byte either way for so long ends it; 0: 20 s */
	bool no_proxy;       /* metadata services */
	uint8_t *dest;       /* 2xx bodies, at most dest_cap bytes, go here; NULL: body_in */
	size_t dest_cap;
	size_t most; /* a longer response body is an error; 0: 64 MiB */
	struct http_pulse *pulse; /* any thread may look at it; may be NULL */
	void (*done)(struct http_req *r);
	void *arg;
	/* result */
	int rc;             /* 0: a whole response came (any status); else negative errno */
	struct fault fault; /* set when rc < 0; class SOON for what the network did */
	long status;
	struct buf head;    /* of the last reply: "name: value\n", names in lower case */
	struct buf body_in; /* the caller ends it */
	size_t got;         /* body bytes received, wherever they went */
	void *priv;
};

void http_start(struct http_client *c, struct http_req *r);
/* done() is called with -ECANCELED before this returns.  Nothing happens to a request that is not
 * open.  done() is never called from inside http_start(). */
void http_cancel(struct http_client *c, struct http_req *r);
/* Start and run the loop until done; for callers that own the loop and have nothing else to do. */
int http_do(struct http_client *c, struct loop *l, struct http_req *r);

/* Value of a response header, copied into out; false if absent or longer than cap - 1.  `name` in
 * lower case. */
bool http_header(const struct http_req *r, const char *name, char *out, size_t cap);
void http_req_fini(struct http_req *r); /* ends head and body_in */

#endif
