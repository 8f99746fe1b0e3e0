/* SPDX-License-Identifier: Apache-2.0 */
/* scoped() and take(): a local names how it ends, a failure is one return. */
#ifndef HOLDFAST_BASE_SCOPE_H
#define HOLDFAST_BASE_SCOPE_H

#include <stdlib.h>
#include <unistd.h>

/*
 * `scoped(buf_fini) struct buf b = BUF_EMPTY;` ends b when it leaves scope.  The end needs a
 * wrapper beside its prototype: SCOPE_VAL for embedded structs (end takes a pointer to the
 * variable), SCOPE_PTR for pointers (end takes the pointer itself, NULL included).
 * Never scope memory that the kernel or an upload still holds.
 */
#define scoped(end) __attribute__((cleanup(end##_scoped)))
#define SCOPE_VAL(type, end) \
	static inline void end##_scoped(type *v) { end(v); }
#define SCOPE_PTR(type, end) \
	static inline void end##_scoped(type **p) { end(*p); }

/* Hand a scoped pointer on: yields its value and leaves NULL behind. */
#define take(p) \
	({ \
		__typeof__(*(p)) taken_ = *(p); \
		*(p) = NULL; \
		taken_; \
	})

static inline void free_scoped(void *p)
{
	free(*(void **)p);
}

static inline void fd_close(int fd)
{
	if (fd >= 0)
		(void)close(fd); /* nothing to do about it here: callers that care close by hand */
}
static inline void fd_close_scoped(int *fd)
{
	fd_close(*fd);
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#endif
