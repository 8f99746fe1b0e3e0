/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: what a store can do, whatever lies behind it.  Two kinds: s3.c and dir.c (file://).
 *
 * A struct store is the immutable description (URI, endpoint, credentials, options), shared by all
 * threads.  A struct objects is one thread's way to it, bound to that thread's loop.
 * Keys are relative to the store's root: "store.json", "log/…", "packs/ab/…".
 */
#ifndef HOLDFAST_STORE_OBJECTS_H
#define HOLDFAST_STORE_OBJECTS_H

#include <sys/uio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/loop.h"

struct store;
struct objects;
struct http_pulse;

/* ---- the store: any thread ---- */

/* Parse the URI, read the AWS configuration, find credentials.  No request to the store is made.
 * Fails: -EINVAL wrong URI, with the right forms in the text. */
int store_new(const char *uri, struct store **out, struct fault *f);
void store_free(struct store *s); /* after every struct objects of it */
SCOPE_PTR(struct store, store_free)
const char *store_uri(const struct store *s);

/* Requests sent and failed since store_new(), by kind; any thread. */
struct store_counts {
	uint64_t get, put, list, del, errors, retries;
	uint64_t bytes_in, bytes_out;
};
void store_counts(const struct store *s, struct store_counts *out);

/*
 * Time is short: from now on no request waits much longer than most_ns before it is tried again, though
 * the store asks for more; 0: as usual again.
 */
void store_hurry(const struct store *s, uint64_t most_ns);

/*
 * Is a request under way while for least_ns no byte of any went either way, and no answer came?
 * Fills *out then.  Any thread.
 */
struct store_silence {
	uint64_t since_ns; /* nothing was heard since; monotonic */
	char text[sizeof(((struct fault *)0)->text)]; /* what was asked, or how a try failed */
};
bool store_silent(const struct store *s, uint64_t least_ns, struct store_silence *out);

/* ---- requests: the loop's thread ---- */

enum object_op { OBJECT_GET, OBJECT_PUT, OBJECT_LIST, OBJECT_DELETE };

/* Where a request stands between objects.c and the kind of store.  Callers leave it alone. */
struct object_try {
	/* objects.c's */
	struct objects *o;
	struct object_req *next, *prev; /* in o's list of requests under way */
	struct object_req *older, *newer; /* in that of all threads, see silence.h */
	struct loop_timer timer;        /* the next try while waiting, the deadline while trying */
	unsigned phase;
	unsigned tries; /* of this page, where it is a LIST */
	/* the kind's, kept from one try to the next; zeros at the first */
	void *run;               /* what belongs to the try under way */
	unsigned cuts;           /* answers so far whose length was wrong */
	unsigned fixes;          /* corrections so far: region, clock, body */
	uint64_t retry_after_ns; /* set with a PACED fault where the store names a time */
	/* LIST: what the pages so far hold */
	unsigned keys;
	size_t last;      /* offset of the newest key in body */
	bool more;        /* there are keys behind this page */
	struct buf token; /* where the store goes on; empty: behind the newest key */
};

struct object_req {
	/* the caller's, unchanged until done() */
	enum object_op op;
	const char *key;         /* LIST: the prefix */
	uint64_t off, len;       /* GET: a range; len 0: the whole object */
	uint8_t *dest;           /* GET: into this memory (len bytes), else into body */
	const struct iovec *iov; /* PUT */
	int iovs;
	bool create_only;         /* PUT: fails with -EEXIST (RELOAD) if the key exists */
	const uint32_t *checksum; /* PUT: the CRC-32C of iov where it is known, else NULL */
	bool spoil_checksum;      /* PUT: send a wrong one; the probe asks whether anybody looks */
	const char *after;        /* LIST: keys behind this one; may be NULL */
	unsigned most;        /* LIST: at most so many keys; 0: all, in as many pages as it takes */
	uint64_t deadline_ns; /* monotonic: give up then; 0: try for ever */
	bool once;            /* no second try */
	/* A try failed with r->fault, another follows; may be NULL.  It leaves r as it is. */
	void (*retrying)(struct object_req *r);
	void (*done)(struct object_req *r);
	void *arg;
	/* result */
	int rc; /* 0 or a negative errno: -ENOENT, -EEXIST, -EACCES, -ECANCELED … */
	struct fault fault;
	/* GET without dest: the bytes.  LIST: the keys, in order, each NUL-ended. */
	struct buf body;
	size_t got;    /* GET: bytes received; fewer than asked for is a fault, not a result */
	uint64_t size; /* GET: of the whole object where the reply said it, else 0 */
	struct object_try priv;
};

int objects_open(const struct store *s, struct loop *l, struct objects **out, struct fault *f);
void objects_close(struct objects *o); /* cancels what is under way; not from inside a done() */
SCOPE_PTR(struct objects, objects_close)
struct loop *objects_loop(struct objects *o);
const struct store *objects_store(const struct objects *o);

/*
 * Start a request.  Tries again by class until deadline_ns: SOON with jittered exponential
 * back-off from 50 ms to 10 s, PACED the same from 500 ms and obeying Retry-After; FINAL and RELOAD
 * end it.  409 (ConditionalRequestConflict) is SOON.  PUT carries a CRC32C that the store verifies.
 */
void objects_start(struct objects *o, struct object_req *r);
/* done() is called with -ECANCELED before it returns.  Nothing happens to one that is not open. */
void objects_cancel(struct objects *o, struct object_req *r);
/* Cancels everything under way, and what is started from then on.  NULL does nothing. */
void objects_stop(struct objects *o);
/* Start and run the loop until done; for owners of the loop with nothing else to do.  Returns
 * r->rc; f (may be NULL) gets r->fault. */
int objects_do(struct objects *o, struct object_req *r, struct fault *f);
void object_req_fini(struct object_req *r);

/* Small helpers over objects_do(). */
int objects_get(struct objects *o, const char *key, uint64_t deadline_ns, struct buf *out,
		struct fault *f);
int objects_put(struct objects *o, const char *key, const void *data, size_t len, bool create_only,
		uint64_t deadline_ns, struct fault *f);

/* ---- what a kind of store implements ---- */

struct store_uri;

struct object_ops {
	const char *scheme; /* "s3", "file" */
	/* What all threads share: configuration, credentials, what was learned.  Makes no request. */
	int (*share)(const struct store_uri *uri, void **out, struct fault *f);
	void (*unshare)(void *shared);
	/* One thread's way; `shared` outlives it. */
	int (*open)(void *shared, struct loop *l, void **out, struct fault *f);
	void (*close)(void *me); /* no try is under way any more */
	/*
	 * Begin one try.  It ends in one object_tried() from the loop, never from inside start(), with
	 * r->rc, r->fault and the results set; a LIST appends one page by object_listed().
	 * Negative: it did not begin, r->fault says why.
	 */
	int (*start)(void *me, struct object_req *r);
	/* End a try; object_tried() is not called any more, and the caller's memory is free again. */
	void (*cancel)(void *me, struct object_req *r);
};

extern const struct object_ops objects_s3;
extern const struct object_ops objects_dir;

void object_tried(struct object_req *r);
/* Where to note that bytes of a try move, for kinds whose tries take long. */
struct http_pulse *object_pulse(const struct object_req *r);
/* Append a key to a LIST.  -EPROTO if it is not behind the one before it; -ENOMEM. */
int object_listed(struct object_req *r, const char *key, size_t len);
/* The key behind which the next page begins; NULL: from the first. */
const char *object_list_after(const struct object_req *r);
/* How many keys a LIST still wants; UINT_MAX for no bound. */
unsigned object_list_room(const struct object_req *r);
/* The fault of a body that is not what was asked for: SOON at first, -EIO and FINAL when it keeps
 * coming.  `what` continues "GET key: ". */
int object_cut(struct object_req *r, const char *what);
const char *object_op_name(enum object_op op); /* "GET", ... */

#endif
