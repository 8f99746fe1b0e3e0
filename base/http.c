/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client: libcurl's sockets and timer on our loop, requests from start to done(). */
#include "base/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/http_xfer.h"

enum {
	MOST_CONNECTIONS = 64, /* kept open between requests */
	MOST_IDLE = 32,        /* transfers kept, with their buffers */
};

struct http_client {
	/* fixed after http_client_new() */
	struct loop *loop;
	CURLM *multi;
	const char *ca_bundle;
	/* loop thread */
	struct loop_timer timer; /* libcurl's */
	struct xfer *open;
	struct xfer *idle;
	size_t n_idle;
	void *unborn; /* struct http_req: could not be started, not told yet; linked by priv */
	struct loop_timer tell;
};

/* A socket of libcurl's. */
struct sock {
	struct loop_watch watch;
	struct http_client *client;
};

/* ---- requests ---- */

static void link_open(struct http_client *c, struct xfer *x)
{
	x->prev = NULL;
	x->next = c->open;
	if (c->open)
		c->open->prev = x;
	c->open = x;
}

static void unlink_open(struct http_client *c, struct xfer *x)
{
	if (x->next)
		x->next->prev = x->prev;
	if (x->prev)
		x->prev->next = x->next;
	else
		c->open = x->next;
}

static int take_idle(struct http_client *c, struct xfer **out)
{
	struct xfer *x = c->idle;

	if (!x)
		return xfer_new(c, c->ca_bundle, out);
	c->idle = x->next;
	c->n_idle--;
	*out = x;
	return 0;
}

static void give_idle(struct http_client *c, struct xfer *x)
{
	if (c->n_idle == MOST_IDLE) {
		xfer_free(x);
		return;
	}
	x->next = c->idle;
	c->idle = x;
	c->n_idle++;
}

static void finish(struct xfer *x, CURLcode code)
{
	struct http_client *c = x->client;
	struct http_req *r = x->req;

	unlink_open(c, x);
	loop_timer_stop(c->loop, &x->stall);
	(void)curl_multi_remove_handle(c->multi, x->easy); /* it is in there */
	xfer_close(x, code);
	give_idle(c, x);
	r->priv = NULL;
	r->done(r);
}

static void end_early(struct xfer *x, int code, enum fault_retry retry, const char *text)
{
	(void)fault_set(&x->fault, code, retry, "%s", text);
	finish(x, CURLE_ABORTED_BY_CALLBACK);
}

/* done() may start, cancel and finish others: each look begins anew. */
static void finish_done(struct http_client *c)
{
	const CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(c->multi, &left))) {
		struct xfer *x = NULL;
		CURLcode code = m->data.result;

		/* Was set in xfer_new(). */
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
		finish(x, code);
	}
}

static void look_for_stall(struct loop_timer *t)
{
	struct xfer *x = t->arg;
	uint64_t now_ns = clock_mono(&clock_system);

	if (now_ns >= xfer_stalls_at_ns(x) && !xfer_drains(x)) {
		end_early(x, -ETIMEDOUT, FAULT_SOON, "stalled: no byte in either direction");
		return;
	}
	loop_timer_start(x->client->loop, t, xfer_stalls_at_ns(x));
}

static int start(struct http_client *c, struct http_req *r)
{
	struct xfer *x;
	int rc = take_idle(c, &x);

	if (rc < 0)
		return xfer_failed(r, rc, FAULT_SOON, "out of memory");
	rc = xfer_open(x, r);
	if (rc < 0) {
		give_idle(c, x);
		return rc;
	}
	if (curl_multi_add_handle(c->multi, x->easy) != CURLM_OK) { /* goes on from our timer */
		xfer_close(x, CURLE_OUT_OF_MEMORY);
		give_idle(c, x);
		return r->rc;
	}
	r->priv = x;
	link_open(c, x);
	x->stall = (struct loop_timer){.fire = look_for_stall, .arg = x};
	loop_timer_start(c->loop, &x->stall, xfer_stalls_at_ns(x));
	return 0;
}

void http_start(struct http_client *c, struct http_req *r)
{
	r->rc = 0;
	r->fault = FAULT_NONE;
	r->status = 0;
	r->got = 0;
	http_req_fini(r); /* a second try begins without the first one's reply */
	if (start(c, r) == 0)
		return;
	r->priv = c->unborn;
	c->unborn = r;
	loop_timer_start(c->loop, &c->tell, clock_mono(&clock_system));
}

static void tell_unborn(struct loop_timer *t)
{
	struct http_client *c = t->arg;

	while (c->unborn) {
		struct http_req *r = c->unborn;

		c->unborn = r->priv;
		r->priv = NULL;
		r->done(r);
	}
}

static bool remove_unborn(struct http_client *c, const struct http_req *r)
{
	for (void **at = &c->unborn; *at; at = &((struct http_req *)*at)->priv) {
		if (*at == r) {
			*at = r->priv;
			return true;
		}
	}
	return false;
}

void http_cancel(struct http_client *c, struct http_req *r)
{
	if (remove_unborn(c, r)) {
		r->priv = NULL;
		(void)xfer_failed(r, -ECANCELED, FAULT_FINAL, "cancelled");
		r->done(r);
	} else if (r->priv) {
		end_early(r->priv, -ECANCELED, FAULT_FINAL, "cancelled");
	}
}

static void set_flag(struct http_req *r)
{
	*(bool *)r->arg = true;
}

int http_do(struct http_client *c, struct loop *l, struct http_req *r)
{
	void (*done)(struct http_req *) = r->done;
	void *arg = r->arg;
	bool flag = false;

	r->done = set_flag;
	r->arg = &flag;
	http_start(c, r);
	loop_run_until(l, &flag);
	r->done = done;
	r->arg = arg;
	return r->rc;
}

/* ---- libcurl on the loop ---- */

static void act(struct http_client *c, curl_socket_t fd, int events)
{
	int running;

	/* Fails only for a handle that is none. */
	(void)curl_multi_socket_action(c->multi, fd, events, &running);
	finish_done(c);
}

static void timer_fired(struct loop_timer *t)
{
	act(t->arg, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct http_client *c = arg;

	if (timeout_ms < 0)
		loop_timer_stop(c->loop, &c->timer);
	else
		loop_timer_start(c->loop, &c->timer,
				 clock_mono(&clock_system) + (uint64_t)timeout_ms * NS_PER_MS);
	return 0;
}

/* The socket itself knows best what went wrong: on an error libcurl is to read and write. */
static void socket_ready(struct loop_watch *w, unsigned events)
{
	struct sock *s = w->arg;
	int what = 0;

	if (events & (POLLIN | POLLHUP | POLLERR))
		what |= CURL_CSELECT_IN;
	if (events & (POLLOUT | POLLERR))
		what |= CURL_CSELECT_OUT;
	act(s->client, w->fd, what); /* s may be gone now */
}

static struct sock *new_socket(struct http_client *c, curl_socket_t fd)
{
	struct sock *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->client = c;
	s->watch = (struct loop_watch){.fd = fd, .ready = socket_ready, .arg = s};
	(void)curl_multi_assign(c->multi, fd, s); /* it asked for this very socket */
	return s;
}

/* libcurl calls this before it closes a socket, so no poll outlives it. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
	static const unsigned events[] = {
		[CURL_POLL_IN] = POLLIN,
		[CURL_POLL_OUT] = POLLOUT,
		[CURL_POLL_INOUT] = POLLIN | POLLOUT,
		[CURL_POLL_REMOVE] = 0,
	};
	struct http_client *c = arg;
	struct sock *s = of_socket;

	if (!s && what == CURL_POLL_REMOVE)
		return 0;
	if (!s)
		s = new_socket(c, fd);
	if (!s)
		return -1;
	if (loop_watch(c->loop, &s->watch, events[what]) < 0)
		return -1;
	if (what == CURL_POLL_REMOVE)
		free(s);
	return 0;
}

/* ---- the client ---- */

/*
 * Once a process.  OpenSSL writes to its sockets with write(2), and libcurl, told to leave signals
 * alone, does not mask what that raises.
 */
static void start_curl(void)
{
	struct sigaction now;

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		(void)signal(SIGPIPE, SIG_IGN);      /* a valid signal, a valid action */
	(void)curl_global_init(CURL_GLOBAL_DEFAULT); /* curl_multi_init() says it if that failed */
}

static int set_multi(struct http_client *c)
{
	int bad = 0;

	bad |= curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	bad |= curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	bad |= curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	bad |= curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	bad |= curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)MOST_CONNECTIONS);
	return bad;
}

int http_client_new(struct loop *l, const char *ca_bundle, struct http_client **out,
		    struct fault *f)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	scoped(http_client_free) struct http_client *c = calloc(1, sizeof(*c));

	(void)pthread_once(&once, start_curl); /* cannot fail */
	if (!c)
		return fault_set(f, -ENOMEM, FAULT_SOON, "HTTP client: out of memory");
	c->loop = l;
	c->ca_bundle = ca_bundle;
	c->timer = (struct loop_timer){.fire = timer_fired, .arg = c};
	c->tell = (struct loop_timer){.fire = tell_unborn, .arg = c};
	c->multi = curl_multi_init();
	if (!c->multi || set_multi(c))
		return fault_set(f, -ENOMEM, FAULT_SOON, "HTTP client: libcurl does not start");
	*out = take(&c);
	return 0;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	while (c->unborn)
		http_cancel(c, c->unborn);
	while (c->open)
		http_cancel(c, c->open->req);
	loop_timer_stop(c->loop, &c->tell);
	while (c->idle) {
		struct xfer *x = take(&c->idle);

		c->idle = x->next;
		xfer_free(x);
	}
	if (c->multi)
		(void)curl_multi_cleanup(c->multi); /* closes the kept connections */
	loop_timer_stop(c->loop, &c->timer);
	free(c);
}

bool http_header(const struct http_req *r, const char *name, char *out, size_t cap)
{
	struct reader head = reader_of(r->head.data, r->head.len);
	size_t len = strlen(name);

	while (read_left(&head) > len + 2) {
		const char *line = (const char *)head.at;
		const char *stop = memchr(line, '\n', read_left(&head));
		size_t all = (size_t)(stop - line); /* each line has its end */

		if (all >= len + 2 && memcmp(line, name, len) == 0 && line[len] == ':') {
			size_t value = all - len - 2;

			if (value >= cap)
				return false;
			memcpy(out, line + len + 2, value);
			out[value] = '\0';
			return true;
		}
		(void)read_bytes(&head, all + 1); /* is there */
	}
	return false;
}

void http_req_fini(struct http_req *r)
{
	buf_fini(&r->head);
	buf_fini(&r->body_in);
}
