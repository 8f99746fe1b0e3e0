/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live mount, spoken to over its control socket: one line asks, lines of JSON answer, and each
 * question has a connection of its own.  fs/ctl.h has the protocol.  Thread: one a client.
 */
#ifndef HOLDFAST_TOOLS_CLIENT_H
#define HOLDFAST_TOOLS_CLIENT_H

#include <jansson.h>

#include "base/buf.h"
#include "base/fault.h"

struct client {
	int fd;
	int stop_fd;    /* the caller's; an answer is waited for no more when it can be read; -1: none */
	struct buf got; /* bytes of answers not handed out yet */
};

#define CLIENT_NONE    ((struct client){.fd = -1, .stop_fd = -1})
#define CLIENT_FOREVER (-1)

/*
 * Find the mount that holds `path` and connect.
 * Owns:   *out is ended by client_close().
 * Fails:  -ENOTTY not on a holdfast mount; -ENOTCONN the mount is there and its daemon is not;
 *         -EACCES somebody else's mount; others of getxattr(2) and connect(2).
 */
int client_open(const char *path, struct client *out, struct fault *f);
/* The second half of it: connect to a socket. */
int client_connect(const char *socket_path, struct client *out, struct fault *f);
/* Hanging up takes back an `end` whose unmounting has not been done. */
void client_close(struct client *c);
SCOPE_VAL(struct client, client_close)

/* A pidfd of the mount's daemon, the caller's; -1 where it is not to be seen from here. */
int client_process(const struct client *c);

/* One line, without its end. */
int client_ask(struct client *c, struct fault *f, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * The next line of the answer, the caller's reference.
 * Fails:  -ETIMEDOUT; -EINTR by stop_fd; -EPIPE the mount hung up; -EPROTO not a JSON object.
 */
int client_answer(struct client *c, int timeout_ms, json_t **out, struct fault *f);

/* Open, ask for the status, close.  *text (the caller's) is the line as it came; may be NULL. */
int client_status(const char *path, char **text, json_t **out, struct fault *f);

/* {"error": TEXT, "code": N} as a fault, of the class FINAL; 0 for other answers. */
int client_error(const json_t *answer, struct fault *f);

static inline void json_unref(json_t *j)
{
	json_decref(j);
}
SCOPE_PTR(json_t, json_unref)

#endif
