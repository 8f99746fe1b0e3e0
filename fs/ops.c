/* SPDX-License-Identifier: Apache-2.0 */
/* FUSE calls: each finds its arguments, calls ns.c or file.c, and replies. */
#include "fs/ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/commit.h"
#include "fs/file.h"
#include "fs/follow.h"
#include "fs/hydrate.h"
#include "fs/ns.h"
#include "fs/park.h"
#include "fs/vxattr.h"

/* Every change passes through the kernel that caches, so what it knows stays true; but see follow.h, and other slots change things. */
#define CACHE_FOREVER_S 86400.0

static struct mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static double cache_s(const struct mount *m)
{
	return m->follower || mount_in_group(m) ? FOLLOW_CACHE_S : CACHE_FOREVER_S;
}

static pid_t caller(fuse_req_t req)
{
	return fuse_req_ctx(req)->pid;
}

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

static void reply_rc(fuse_req_t req, int rc)
{
	(void)fuse_reply_err(req, rc < 0 ? -rc : 0); /* fails if the caller is gone: nothing to do */
}

static struct timespec time_of(int64_t ns)
{
	int64_t s = ns / (int64_t)NS_PER_S, rest = ns % (int64_t)NS_PER_S;

	if (rest < 0) {
		s--;
		rest += (int64_t)NS_PER_S;
	}
	return (struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)rest};
}

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * (int64_t)NS_PER_S + t->tv_nsec;
}

/* uid=, gid=, umask=: what is stored stays as it is. */
static void show_as_asked(const struct mount_opts *o, struct stat *st)
{
	if (o->shown.has_uid)
		st->st_uid = o->shown.uid;
	if (o->shown.has_gid)
		st->st_gid = o->shown.gid;
	if (o->shown.has_mode && !S_ISLNK(st->st_mode))
		st->st_mode = (st->st_mode & S_IFMT) | o->shown.mode;
}

static struct stat stat_of(const struct mount *m, const struct ns_attr *a)
{
	struct stat st = {
		.st_ino = a->ino,
		.st_mode = a->attr.mode,
		.st_nlink = a->attr.nlink,
		.st_uid = a->attr.uid,
		.st_gid = a->attr.gid,
		.st_rdev = a->attr.rdev,
		.st_size = (off_t)a->attr.size,
		.st_blksize = 1 << 20,
		.st_blocks = (blkcnt_t)((a->attr.size + 511) / 512),
		.st_atim = time_of(a->attr.atime_ns),
		.st_mtim = time_of(a->attr.mtime_ns),
		.st_ctim = time_of(a->attr.ctime_ns),
	};

	show_as_asked(&m->opts, &st);
	return st;
}

static struct fuse_entry_param entry_of(const struct mount *m, const struct ns_attr *a)
{
	return (struct fuse_entry_param){.ino = a->id, .attr = stat_of(m, a), .attr_timeout = cache_s(m),
					 .entry_timeout = cache_s(m)};
}

static void reply_entry(fuse_req_t req, int rc, const struct ns_attr *a)
{
	struct fuse_entry_param e;

	if (rc < 0) {
		reply_rc(req, rc);
		return;
	}
	e = entry_of(mount_of(req), a);
	if (fuse_reply_entry(req, &e) < 0) /* the kernel never got the reference */
		ns_forget(mount_of(req), a->id, 1);
}

/* ---- session ---- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->want |= conn->capable & (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ |
					FUSE_CAP_HANDLE_KILLPRIV_V2);
	/* Copies twice and inverts write and rename: never. */
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
	/* With it whoever waits in an O_DIRECT call cannot be killed. */
	conn->want &= ~(unsigned)FUSE_CAP_ASYNC_DIO;
	conn->max_readahead = READ_AHEAD_BYTES;
	conn->max_background = 256; /* what waits costs us a few bytes each */
	conn->congestion_threshold = 192;
	conn->time_gran = 1;
}

/* ---- names ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct ns_attr a;
	int rc = ns_lookup(mount_of(req), parent, name, &a);

	if (rc == -ENOENT) { /* remembered by the kernel until something of that name is made */
		struct fuse_entry_param none = {.entry_timeout = cache_s(mount_of(req))};

		(void)fuse_reply_entry(req, &none);
		return;
	}
	reply_entry(req, rc, &a);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	ns_forget(mount_of(req), ino, count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		ns_forget(mount_of(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static struct ns_cred cred_of(fuse_req_t req)
{
	const struct fuse_ctx *c = fuse_req_ctx(req);

	return (struct ns_cred){.uid = c->uid, .gid = c->gid};
}

static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev, const char *target)
{
	struct ns_attr a;
	int rc = ns_make(mount_of(req), parent, name, mode, rdev, target, cred_of(req), &a);

	reply_entry(req, rc, &a);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	make(req, parent, name, mode, rdev, NULL);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make(req, parent, name, S_IFDIR | (mode & 07777), 0, NULL);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	make(req, parent, name, S_IFLNK | 0777, 0, target);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct ns_attr a;
	int rc = ns_link(mount_of(req), ino, parent, name, &a);

	reply_entry(req, rc, &a);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_rc(req, ns_unlink(mount_of(req), parent, name));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_rc(req, ns_rmdir(mount_of(req), parent, name));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to, const char *to_name, unsigned flags)
{
	reply_rc(req, ns_rename(mount_of(req), parent, name, to, to_name, flags));
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	scoped(free) char *target = NULL;
	int rc = ns_readlink(mount_of(req), ino, &target);

	if (rc < 0)
		reply_rc(req, rc);
	else
		(void)fuse_reply_readlink(req, target);
}

/* ---- attributes ---- */

static void reply_attr(fuse_req_t req, int rc, const struct ns_attr *a)
{
	struct stat st;

	if (rc < 0) {
		reply_rc(req, rc);
		return;
	}
	st = stat_of(mount_of(req), a);
	(void)fuse_reply_attr(req, &st, cache_s(mount_of(req)));
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ns_attr a;

	(void)fi;
	reply_attr(req, ns_getattr(mount_of(req), ino, &a), &a);
}

static unsigned set_of(const struct stat *st, int to_set, int64_t now, struct inode_attr *to)
{
	unsigned set = 0;

	*to = (struct inode_attr){.mode = st->st_mode, .uid = st->st_uid, .gid = st->st_gid};
	to->atime_ns = to_set & FUSE_SET_ATTR_ATIME_NOW ? now : ns_of(&st->st_atim);
	to->mtime_ns = to_set & FUSE_SET_ATTR_MTIME_NOW ? now : ns_of(&st->st_mtim);
	to->ctime_ns = ns_of(&st->st_ctim);
	set |= to_set & FUSE_SET_ATTR_MODE ? NS_SET_MODE : 0;
	set |= to_set & FUSE_SET_ATTR_UID ? NS_SET_UID : 0;
	set |= to_set & FUSE_SET_ATTR_GID ? NS_SET_GID : 0;
	set |= to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW) ? NS_SET_ATIME : 0;
	set |= to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW) ? NS_SET_MTIME : 0;
	set |= to_set & FUSE_SET_ATTR_CTIME ? NS_SET_CTIME : 0;
	return set;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct inode_attr to;
	struct ns_attr a;
	unsigned set = set_of(st, to_set, clock_wall(m->clock), &to);
	int rc = 0;

	(void)fi;
	if (to_set & FUSE_SET_ATTR_SIZE)
		rc = file_truncate(m, ino, (uint64_t)st->st_size, caller(req));
	if (to_set & FUSE_SET_ATTR_SIZE && fuse_req_ctx(req)->uid != 0)
		set |= NS_SET_KILL_PRIV;
	if (rc == 0)
		rc = ns_setattr(m, ino, set, &to, &a);
	reply_attr(req, rc, &a);
}

/* ---- directories ---- */

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ns_listing *l = calloc(1, sizeof(*l));
	int rc = l ? ns_list(mount_of(req), ino, l) : -ENOMEM;

	if (rc < 0) {
		free(l);
		reply_rc(req, rc);
		return;
	}
	fi->fh = (uintptr_t)l;
	if (fuse_reply_open(req, fi) < 0) {
		ns_listing_fini(l);
		free(l);
	}
}

/* Offset n is the n-th entry of the listing made at opendir, so unlinking meanwhile skips nothing. */
static const char *listed(const struct ns_listing *l, off_t at, struct stat *st)
{
	if (at < 2) {
		*st = (struct stat){.st_ino = at == 0 ? l->dir : l->parent, .st_mode = S_IFDIR};
		return at == 0 ? "." : "..";
	}
	if ((size_t)at - 2 >= l->n)
		return NULL;
	*st = (struct stat){.st_ino = l->v[at - 2].id, .st_mode = DTTOIF(l->v[at - 2].type)};
	return l->v[at - 2].name;
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct ns_listing *l = (struct ns_listing *)(uintptr_t)fi->fh;
	scoped(free) char *out = malloc(size);
	const char *name;
	struct stat st;
	size_t used = 0;

	if (off == 0 && l->read) { /* rewinddir(): as it is now */
		struct ns_listing again;

		if (ns_list(mount_of(req), ino, &again) == 0) {
			ns_listing_fini(l);
			*l = again;
		}
	}
	l->read = true;
	while (out && (name = listed(l, off, &st))) {
		size_t need = fuse_add_direntry(req, out + used, size - used, name, &st, off + 1);

		if (need > size - used)
			break;
		used += need;
		off++;
	}
	if (!out)
		reply_rc(req, -ENOMEM);
	else
		(void)fuse_reply_buf(req, out, used);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ns_listing *l = (struct ns_listing *)(uintptr_t)fi->fh;

	(void)ino;
	ns_listing_fini(l);
	free(l);
	reply_rc(req, 0);
}

/* Whoever waits until the store has it. */
struct good_waiter {
	struct mount *m;
	_Atomic bool given_up;
};

static void gives_up(fuse_req_t req, void *arg)
{
	struct good_waiter *w = arg;

	(void)req;
	w->given_up = true;
	committer_look(w->m);
}

/* A signal ends it with -EINTR: unanswered, it would leave a process that cannot be killed. */
static int wait_until_good(fuse_req_t req)
{
	struct good_waiter w = {.m = mount_of(req)};
	int rc;

	fuse_req_interrupt_func(req, gives_up, &w); /* calls it, if the signal was before us */
	rc = committer_sync(w.m, 0, &w.given_up, NULL);
	fuse_req_interrupt_func(req, NULL, NULL); /* none is under way behind this */
	return rc == -ECANCELED ? -EINTR : rc;
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	int rc = m->journal ? journal_sync(m->journal) : 0;

	(void)ino;
	(void)datasync;
	(void)fi;
	if (rc == 0 && m->opts.fsync_remote)
		rc = wait_until_good(req);
	reply_rc(req, rc);
}

/* ---- files ---- */

/*
 * A handle that only writes goes past the page cache (a third of the CPU); others are cached, and
 * mapped.  What another handle wrote past the cache is not trusted to be in it.  The kernel follows
 * cached writes only with the FSYNC that O_SYNC and O_DSYNC ask for.
 */
static void open_mode(fuse_req_t req, struct fuse_file_info *fi, struct handle *h)
{
	h->kill_priv = fuse_req_ctx(req)->uid != 0;
	fi->fh = (uintptr_t)h;
	fi->direct_io = (h->flags & O_ACCMODE) == O_WRONLY && !(h->flags & (O_SYNC | O_DSYNC)) &&
			!mount_of(req)->opts.sync;
	fi->keep_cache = !fi->direct_io && !h->past_cache;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h;
	int rc = file_open(mount_of(req), ino, fi->flags, caller(req), &h);

	if (rc < 0) {
		reply_rc(req, rc);
		return;
	}
	open_mode(req, fi, h);
	if (fuse_reply_open(req, fi) < 0)
		file_release(mount_of(req), h);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	struct fuse_entry_param e;
	struct handle *h;
	struct ns_attr a;
	int rc;

	for (;;) {
		rc = ns_make(m, parent, name, S_IFREG | (mode & 07777), 0, NULL, cred_of(req), &a);
		if (rc != -EEXIST || fi->flags & O_EXCL)
			break;
		rc = ns_lookup(m, parent, name, &a); /* another process was faster */
		if (rc != -ENOENT)
			break; /* else one more, and unlinked it */
	}
	if (rc == 0) {
		rc = file_open(m, a.id, fi->flags, caller(req), &h);
		if (rc < 0)
			ns_forget(m, a.id, 1);
	}
	if (rc < 0) {
		reply_rc(req, rc);
		return;
	}
	e = entry_of(m, &a);
	open_mode(req, fi, h);
	if (fuse_reply_create(req, &e, fi) < 0) {
		file_release(m, h);
		ns_forget(m, a.id, 1);
	}
}

/* Workers keep one buffer each for replies: a fresh 1 MiB a read would cost more than the read. */
static pthread_key_t reply_key;
static pthread_once_t reply_once = PTHREAD_ONCE_INIT;

static void reply_buffer_free(void *b)
{
	buf_fini(b);
	free(b);
}

static void reply_key_make(void)
{
	(void)pthread_key_create(&reply_key, reply_buffer_free);
}

/* At least `size` bytes, this thread's; NULL without memory. */
static uint8_t *reply_buffer(size_t size)
{
	struct buf *b;

	(void)pthread_once(&reply_once, reply_key_make);
	b = pthread_getspecific(reply_key);
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b || pthread_setspecific(reply_key, b) != 0) {
			free(b);
			return NULL;
		}
	}
	return buf_reserve(b, size) == 0 ? b->data : NULL;
}

/* A READ, WRITE or COPY_FILE_RANGE, which may have to wait. */
struct call {
	struct parked parked;
	struct mount *m;
	struct handle *h, *to;
	size_t size;
	off_t off, to_off;
	pid_t tid;
	const char *data; /* the request's, until it is kept */
	char *kept;
};

static struct call *call_of(struct parked *p)
{
	return (struct call *)p;
}

static void call_free(struct call *c)
{
	past_let_go(c->m->past, &c->parked.bytes.held);
	free(c->kept);
	free(c);
}

static void run_call(fuse_req_t req, const struct call *as)
{
	struct call *c = malloc(sizeof(*c));

	if (!c) {
		reply_rc(req, -ENOMEM);
		return;
	}
	*c = *as;
	c->parked.req = req;
	c->m = mount_of(req);
	park_run(c->m, &c->parked);
}

static ssize_t run_read(struct parked *p)
{
	struct call *c = call_of(p);
	uint8_t *data = reply_buffer(c->size);

	return data ? file_read(c->m, c->h, data, c->size, (uint64_t)c->off, &p->bytes) : -ENOMEM;
}

static void answer_read(struct parked *p, ssize_t rc)
{
	struct call *c = call_of(p);

	if (rc < 0)
		reply_rc(p->req, (int)rc);
	else /* this thread's buffer, which run_read() filled */
		(void)fuse_reply_buf(p->req, (const char *)reply_buffer(c->size), (size_t)rc);
	call_free(c);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino;
	run_call(req, &(struct call){.parked = {.run = run_read, .answer = answer_read}, .h = handle_of(fi), .size = size,
				     .off = off});
}

/* What needs room in the cache: not tried while there is none, and while nothing was written may be tried again. */
static ssize_t with_room(struct call *c, ssize_t (*put)(struct call *c))
{
	enum room is = room_now(c->m);
	ssize_t rc;

	if (is == ROOM_DISK_FULL || (is == ROOM_CACHE_FULL && !c->parked.mapped))
		return -ENOSPC;
	rc = put(c);
	if (ballast_is_short((int)rc))
		room_disk_is_full(c->m);
	return rc;
}

static ssize_t put_write(struct call *c)
{
	return file_write(c->m, c->h, c->data, c->size, (uint64_t)c->off, c->tid, c->parked.mapped, &c->parked.bytes);
}

static ssize_t run_write(struct parked *p)
{
	return with_room(call_of(p), put_write);
}

static int keep_write(struct parked *p)
{
	struct call *c = call_of(p);

	c->kept = malloc(c->size);
	if (!c->kept)
		return -ENOMEM;
	memcpy(c->kept, c->data, c->size);
	c->data = c->kept;
	return 0;
}

static void answer_written(struct parked *p, ssize_t rc)
{
	if (rc < 0)
		reply_rc(p->req, (int)rc);
	else
		(void)fuse_reply_write(p->req, (size_t)rc);
	call_free(call_of(p));
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino;
	run_call(req, &(struct call){
			      .parked = {.run = run_write, .keep = keep_write, .answer = answer_written, .mapped = fi->writepage},
			      .h = handle_of(fi), .size = size, .off = off, .data = data,
			      /* A write out of the page cache (a mapping) has no caller worth the name. */
			      .tid = fi->writepage ? 0 : caller(req)});
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	reply_rc(req, file_flush(mount_of(req), handle_of(fi), caller(req)));
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	file_release(mount_of(req), handle_of(fi));
	reply_rc(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct mount *m = mount_of(req);
	int rc;

	(void)ino;
	(void)datasync;
	rc = file_fsync(m, handle_of(fi));
	if (rc == 0 && m->opts.fsync_remote)
		rc = wait_until_good(req);
	reply_rc(req, rc);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
	(void)ino;
	reply_rc(req, file_allocate(mount_of(req), handle_of(fi), mode, (uint64_t)off, (uint64_t)len, caller(req)));
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	off_t at = file_seek(mount_of(req), handle_of(fi), off, whence);

	(void)ino;
	if (at < 0)
		reply_rc(req, (int)at);
	else
		(void)fuse_reply_lseek(req, at);
}

static ssize_t put_copy(struct call *c)
{
	return file_copy(c->m, c->h, (uint64_t)c->off, c->to, (uint64_t)c->to_off, c->size, c->tid, &c->parked.bytes);
}

static ssize_t run_copy(struct parked *p)
{
	return with_room(call_of(p), put_copy);
}

static void op_copy_file_range(fuse_req_t req, fuse_ino_t ino, off_t off, struct fuse_file_info *fi, fuse_ino_t to_ino,
			       off_t to_off, struct fuse_file_info *to_fi, size_t len, int flags)
{
	(void)ino;
	(void)to_ino;
	if (flags)
		reply_rc(req, -EINVAL);
	else
		run_call(req, &(struct call){.parked = {.run = run_copy, .answer = answer_written}, .h = handle_of(fi),
					     .to = handle_of(to_fi), .size = len, .off = off, .to_off = to_off,
					     .tid = caller(req)});
}

/* ---- the rest ---- */

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct mount *m = mount_of(req);
	struct statvfs st;
	uint64_t names, nodes;

	(void)ino;
	if (fstatvfs(m->cache_fd, &st) < 0) {
		reply_rc(req, -errno);
		return;
	}
	ns_counts(m, &names, &nodes);
	/* A store has no size of its own: what the cache's disk has free is what a save can take at once. */
	st.f_files = nodes + (1u << 30);
	st.f_ffree = st.f_favail = 1u << 30;
	st.f_namemax = NAME_MAX_BYTES;
	(void)fuse_reply_statfs(req, &st);
}

static void reply_xattr(fuse_req_t req, ssize_t rc, const char *value, size_t size)
{
	if (rc < 0)
		reply_rc(req, (int)rc);
	else if (size == 0)
		(void)fuse_reply_xattr(req, (size_t)rc);
	else
		(void)fuse_reply_buf(req, value, (size_t)rc);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	scoped(free) char *value = malloc(size ? size : 1);
	ssize_t rc = value && vxattr_waits(name, size) ? wait_until_good(req) : 0;

	if (rc == 0 && value && vxattr_is(name))
		rc = vxattr_get(mount_of(req), ino, name, value, size);
	else if (rc == 0)
		rc = value ? ns_getxattr(mount_of(req), ino, name, value, size) : -ENOMEM;
	reply_xattr(req, rc, value, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	scoped(free) char *list = malloc(size ? size : 1);
	ssize_t rc = list ? ns_listxattr(mount_of(req), ino, list, size) : -ENOMEM;

	reply_xattr(req, rc, list, size);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	if (vxattr_is(name))
		reply_rc(req, -EPERM);
	else
		reply_rc(req, ns_setxattr(mount_of(req), ino, name, value, size, flags));
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	reply_rc(req, vxattr_is(name) ? -EPERM : ns_removexattr(mount_of(req), ino, name));
}

/* Locks are left out: the kernel then keeps them, which is right on one host. */
const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.copy_file_range = op_copy_file_range,
};
