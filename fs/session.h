/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE session of a mount: from the mount point to the loop and back.  Thread: main. */
#ifndef HOLDFAST_FS_SESSION_H
#define HOLDFAST_FS_SESSION_H

#include "fs/mount.h"

struct session;

/* May we mount as we were asked to?  To be known before the store is touched.  -EPERM. */
int session_check(const struct mount_opts *o, struct fault *f);
int session_new(struct mount *m, struct session **out, struct fault *f);
void session_free(struct session *s);
SCOPE_PTR(struct session, session_free)
/* Serves until it is unmounted or session_stop(). */
int session_serve(struct session *s, struct fault *f);
/* Unmounts; the serving thread returns.  Thread: any. */
void session_stop(struct session *s);

#endif
