/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "s3": one HTTP request a try. */
#include <errno.h>

#include "base/http.h"
#include "base/sign.h"
#include "store/objects.h"
#include "store/retry.h"
#include "store/s3_reply.h"
#include "store/s3_request.h"
#include "store/s3_site.h"

#define ERROR_BODY_MOST (64u << 10)

struct s3 {
	struct s3_site *site;
	struct http_client *http;
	struct signer *signer;
	struct sign_keys keys; /* the last used; large, so not on the stack */
};

/* One try. */
struct attempt {
	struct s3 *s3;
	struct object_req *r; /* NULL: cancelled */
	struct s3_request request;
	struct http_req http;
};

static void attempt_free(struct attempt *a)
{
	if (!a)
		return;
	http_req_fini(&a->http);
	s3_request_fini(&a->request);
	free(a);
}
SCOPE_PTR(struct attempt, attempt_free)

static void answered(struct http_req *h)
{
	scoped(attempt_free) struct attempt *a = h->arg;
	struct object_req *r = a->r;

	if (!r)
		return;
	r->priv.run = NULL;
	r->got = r->op == OBJECT_GET ? h->got : 0;
	r->rc = s3_reply(a->s3->site, &a->request, h, r);
	object_tried(r);
}

/* The largest body that makes sense; an error's has room in any case. */
static size_t body_most(const struct object_req *r)
{
	if (r->op == OBJECT_LIST || (r->op == OBJECT_GET && r->len == 0))
		return 0; /* the client's own bound */
	if (r->op == OBJECT_GET && !r->dest && r->len > ERROR_BODY_MOST)
		return r->len;
	return ERROR_BODY_MOST;
}

/* A PUT may be all with the store, which says nothing while it is at it: the client's own bound. */
static uint64_t stall_ms(const struct object_req *r)
{
	return r->op == OBJECT_PUT ? 0 : retry_stall_ns(r->priv.tries) / NS_PER_MS;
}

static int start(void *me, struct object_req *r)
{
	scoped(attempt_free) struct attempt *a = calloc(1, sizeof(*a));
	struct s3 *s3 = me;
	int rc;

	if (!a)
		return s3_no_memory(r);
	rc = s3_request_build(&a->request, s3->site, s3->signer, &s3->keys, r);
	if (rc < 0)
		return rc;
	a->s3 = s3;
	a->r = r;
	a->http = (struct http_req){
		.method = a->request.method,
		.url = (const char *)a->request.url.data,
		.headers = a->request.headers,
		.body = r->op == OBJECT_PUT ? r->iov : NULL,
		.bodies = r->op == OBJECT_PUT ? r->iovs : 0,
		.dest = r->op == OBJECT_GET ? r->dest : NULL,
		.dest_cap = r->len,
		.most = body_most(r),
		.stall_ms = stall_ms(r),
		.pulse = object_pulse(r),
		.done = answered,
		.arg = a,
	};
	r->priv.run = a;
	http_start(s3->http, &a->http);
	(void)take(&a); /* answered() frees it */
	return 0;
}

static void cancel(void *me, struct object_req *r)
{
	struct s3 *s3 = me;
	struct attempt *a = r->priv.run;

	r->priv.run = NULL;
	a->r = NULL;
	http_cancel(s3->http, &a->http); /* answered() frees it */
}

/* ---- the store, and a thread's way to it ---- */

static int share_s3(const struct store_uri *uri, void **out, struct fault *f)
{
	struct s3_site *s;
	int rc = s3_site_new(uri, &s, f);

	if (rc == 0)
		*out = s;
	return rc;
}

static void unshare_s3(void *shared)
{
	s3_site_free(shared);
}

static void s3_free(struct s3 *s3)
{
	if (!s3)
		return;
	http_client_free(s3->http);
	signer_free(s3->signer);
	sign_keys_fini(&s3->keys);
	free(s3);
}
SCOPE_PTR(struct s3, s3_free)

static void close_s3(void *me)
{
	s3_free(me);
}

static int open_s3(void *shared, struct loop *l, void **out, struct fault *f)
{
	scoped(s3_free) struct s3 *s3 = calloc(1, sizeof(*s3));
	int rc;

	if (!s3)
		return fault_set(f, -ENOMEM, FAULT_SOON, "out of memory");
	s3->site = shared;
	rc = http_client_new(l, s3->site->conf->ca_bundle, &s3->http, f);
	if (rc == 0)
		rc = signer_new(&s3->signer, f);
	if (rc == 0)
		*out = take(&s3);
	return rc;
}

const struct object_ops objects_s3 = {
	.scheme = "s3",
	.share = share_s3,
	.unshare = unshare_s3,
	.open = open_s3,
	.close = close_s3,
	.start = start,
	.cancel = cancel,
};
