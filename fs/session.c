/* SPDX-License-Identifier: Apache-2.0 */
/* See session.h. */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/log.h"
#include "fs/fuse.h"
#include "fs/hydrate.h"
#include "fs/ops.h"
#include "fs/park.h"

#define THREADS_MOST 64 /* first looks into directories and acknowledgements wait in one each */
#define FUSE_CONF "/etc/fuse.conf"

struct session {
	struct mount *m;
	struct fuse_session *fuse;
	bool mounted;
	pthread_t server;
};

#if CHANGES_INIT_REPLY
/*
 * The reply to INIT passes through here once: libfuse 3.14 cannot ask for HANDLE_KILLPRIV_V2, without
 * which the kernel sends a GETXATTR before each cached write.  One that can may refuse to let us: Debian's
 * 3.18 is built without custom I/O.
 */
static ssize_t write_reply(int fd, struct iovec *iov, int count, void *userdata)
{
	struct init_reply {
		uint32_t major, minor, max_readahead, flags;
	};

	(void)userdata;
	/* An INIT reply is the only one whose body is 64 bytes and begins with the protocol's version. */
	if (count == 2 && iov[1].iov_len == 64) {
		struct init_reply *r = iov[1].iov_base;

		if (r->major == 7 && r->minor >= 31 && r->minor < 100)
			r->flags |= INIT_HANDLE_KILLPRIV_V2;
	}
	return writev(fd, iov, count);
}

static ssize_t read_request(int fd, void *buf, size_t len, void *userdata)
{
	(void)userdata;
	return read(fd, buf, len);
}

static int change_init_reply(struct fuse_session *fuse)
{
	static const struct fuse_custom_io io = {.writev = write_reply, .read = read_request};

	return fuse_session_custom_io(fuse, &io, fuse_session_fd(fuse));
}
#else
static int change_init_reply(struct fuse_session *fuse)
{
	return 0;
}
#endif

/* fusermount3 goes by it; what we may not read says yes, so that fusermount3 says what is wrong. */
static bool users_may_allow_other(void)
{
	FILE *conf = fopen(FUSE_CONF, "re");
	bool may = !conf && errno != ENOENT;
	char line[256], word[32];

	while (conf && !may && fgets(line, sizeof(line), conf))
		may = sscanf(line, " %31s", word) == 1 && strcmp(word, "user_allow_other") == 0;
	if (conf)
		(void)fclose(conf);
	return may;
}

int session_check(const struct mount_opts *o, struct fault *f)
{
	if (!o->allow_other || geteuid() == 0 || users_may_allow_other())
		return 0;
	return fault_set(f, -EPERM, FAULT_FINAL,
			 "%s: allow_other is for root; for others root puts the line user_allow_other into " FUSE_CONF,
			 o->dir);
}

static int session_args(const struct mount *m, struct fuse_args *args)
{
	scoped(free) char *opts = NULL;

	if (asprintf(&opts, "fsname=%s,subtype=holdfast,default_permissions%s%s%s", m->opts.uri,
		     m->opts.allow_other ? ",allow_other" : "", m->read_only ? ",ro" : "", m->opts.vfs) < 0) {
		opts = NULL;
		return -1;
	}
	for (char *c = opts; *c; c++) /* a comma in the URI would end the option */
		if (*c == ',' && c < opts + 7 + strlen(m->opts.uri))
			*c = '_';
	return fuse_opt_add_arg(args, "holdfast") || fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, opts) ? -1 : 0;
}

/* The last line of what is in the pipe, without its end; "" if nothing is. */
static void read_last_line(int fd, char *out, size_t cap)
{
	ssize_t got = read(fd, out, cap - 1);
	char *line;

	out[got > 0 ? got : 0] = '\0';
	while (got > 0 && out[got - 1] == '\n')
		out[--got] = '\0';
	line = strrchr(out, '\n');
	if (line)
		memmove(out, line + 1, strlen(line));
}

/* libfuse and fusermount3 tell stderr why they refuse, and we are to say it in one line: it is theirs meanwhile. */
static int mount_hearing(struct fuse_session *fuse, const char *dir, char *said, size_t cap)
{
	scoped(fd_close) int ours = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	int ends[2], rc;

	*said = '\0';
	if (ours < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return fuse_session_mount(fuse, dir);
	(void)dup2(ends[1], STDERR_FILENO);
	rc = fuse_session_mount(fuse, dir);
	(void)dup2(ours, STDERR_FILENO);
	read_last_line(ends[0], said, cap);
	fd_close(ends[0]);
	fd_close(ends[1]);
	return rc;
}

/* What the kernel never heard of, it need not forget: so a failure is none. */

static void forget_name(void *arg, uint64_t dir, const char *name)
{
	struct session *s = arg;

	(void)fuse_lowlevel_notify_inval_entry(s->fuse, dir, name, strlen(name));
}

static void forget_inode(void *arg, uint64_t id, int64_t from)
{
	struct session *s = arg;

	(void)fuse_lowlevel_notify_inval_inode(s->fuse, id, from, 0);
}

int session_new(struct mount *m, struct session **out, struct fault *f)
{
	scoped(session_free) struct session *s = calloc(1, sizeof(*s));
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char said[1024];
	int rc;

	if (!s || session_args(m, &args) < 0) {
		fuse_opt_free_args(&args);
		return fault_errno(f, -ENOMEM, "session");
	}
	s->m = m;
	s->fuse = fuse_session_new(&args, &ops, sizeof(ops), m);
	fuse_opt_free_args(&args);
	if (!s->fuse)
		return fault_set(f, -EINVAL, FAULT_FINAL, "%s: libfuse refuses the session", m->opts.dir);
	if (mount_hearing(s->fuse, m->opts.dir, said, sizeof(said)) < 0)
		return fault_set(f, -EPERM, FAULT_FINAL, "%.100s: not mounted: %.120s", m->opts.dir,
				 *said ? said : "is /dev/fuse there, and may this user mount?");
	if (*said)
		log_warn("%s: %s", m->opts.dir, said);
	s->mounted = true;
	rc = change_init_reply(s->fuse);
	if (rc < 0)
		return fault_errno(f, rc, "%s: session", m->opts.dir);
	rc = park_new(m, f);
	if (rc < 0)
		return rc;
	ears_arm(&m->ears, &(struct ears_calls){.name = forget_name, .inode = forget_inode, .arg = s});
	*out = take(&s);
	return 0;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	if (s->m)
		park_stop(s->m);
	if (s->mounted)
		fuse_session_unmount(s->fuse);
	if (s->fuse)
		fuse_session_destroy(s->fuse);
	free(s);
}

/*
 * The default of 128 KiB makes too many requests of a large read.  But each fault of a mapping at a random place asks
 * for all of it, and who reads on is read ahead for by us (hydrate_window()).
 */
static void raise_read_ahead(const struct mount *m)
{
	scoped(fd_close) int fd = -1;
	scoped(free) char *path = NULL;
	FILE *info = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	unsigned major = 0, minor = 0;

	while (info && fgets(line, sizeof(line), info)) {
		char where[2048];
		unsigned a, b;

		if (sscanf(line, "%*d %*d %u:%u %*s %2047s", &a, &b, where) == 3 && strcmp(where, m->opts.dir) == 0) {
			major = a;
			minor = b;
		}
	}
	if (info)
		(void)fclose(info);
	if (!minor || asprintf(&path, "/sys/class/bdi/%u:%u/read_ahead_kb", major, minor) < 0) {
		path = NULL;
		return;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "%u", READ_AHEAD_BYTES >> 10) < 0)
		log_debug("%s: not raised (%s); reads come in smaller pieces", path, strerror(errno));
}

static int loop_of(struct session *s)
{
#if FUSE_USE_VERSION >= 312
	struct fuse_loop_config *c = fuse_loop_cfg_create();
	int rc;

	if (!c)
		return -ENOMEM;
	fuse_loop_cfg_set_max_threads(c, THREADS_MOST);
	fuse_loop_cfg_set_idle_threads(c, THREADS_MOST); /* a worker that ends gives its buffer back: keep it */
	rc = fuse_session_loop_mt(s->fuse, c);
	fuse_loop_cfg_destroy(c);
	return rc;
#else
	struct fuse_loop_config c = {.clone_fd = 0, .max_idle_threads = THREADS_MOST};

	return fuse_session_loop_mt(s->fuse, &c);
#endif
}

int session_serve(struct session *s, struct fault *f)
{
	int rc;

	s->server = pthread_self();
	raise_read_ahead(s->m);
	rc = loop_of(s);
	park_stop(s->m); /* whoever waits still: the kernel has no use for an answer any more */
	if (rc < 0)
		return fault_errno(f, rc, "%s: session", s->m->opts.dir);
	return 0;
}

void session_stop(struct session *s)
{
	ears_disarm(&s->m->ears); /* while requests are still answered */
	fuse_session_exit(s->fuse);
	(void)pthread_kill(s->server, SIGUSR1); /* the loop sits in a sem_wait() */
}
