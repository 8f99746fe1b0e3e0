/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast mount: options, the way into the background, signals, and the order of starting and
 * ending.  SIGTERM and SIGINT: flush, unmount, exit, in at most 90 s; a second one, whenever it
 * comes, ends all waiting.  SIGUSR2: the machine is about to go, and nobody says when.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base/log.h"
#include "base/oom.h"
#include "fs/commit.h"
#include "fs/ctl.h"
#include "fs/file.h"
#include "fs/follow.h"
#include "fs/fuse.h"
#include "fs/notice/heed.h"
#include "fs/opts.h"
#include "fs/publish.h"
#include "fs/revert.h"
#include "fs/session.h"
#include "fs/start.h"
#include "fs/supervisor.h"
#include "fs/utab.h"
#include "fs/warm.h"
#include "tools/tools.h"

#define TERM_FLUSH_NS (80 * NS_PER_S)   /* of the 90 s that SIGTERM has */
#define DISCARD_NS (5 * NS_PER_S) /* to release the store: whoever drops data does not wait for a server */
#define UNMOUNTED_NS (24 * 3600 * NS_PER_S) /* umount(8) behind our back: the data is worth a day */

struct program {
	struct mount mount;
	struct session *session;
	struct ctl *ctl;
	struct publisher *publisher;
	int report; /* where the parent waits for the first word; -1 in the foreground */
	pthread_t signals;
	_Atomic bool terminated, ended;
	/* the signal thread's */
	pthread_t flush;
	bool flushes;
};

/* ---- command line ---- */

static int usage(FILE *out)
{
	(void)fprintf(out, "usage: holdfast mount URI DIR [-f] [-o OPTION,...]\n\n"
			   "  -f  stay in the foreground, log to stderr\n");
	opts_help(out);
	return VERB_USAGE;
}

static int complain(const struct fault *f)
{
	(void)fprintf(stderr, "holdfast mount: %s\n", f->text);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct mount_opts *o)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {"foreground", no_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
	struct fault f = FAULT_NONE;
	int c;

	opts_default(o);
	optind = 0;
	while ((c = getopt_long(argc, argv, "fdo:h", longs, NULL)) != -1) {
		if (c == 'f')
			o->foreground = true;
		else if (c == 'd')
			o->foreground = o->debug = true;
		else if (c == 'o' && opts_parse(o, optarg, &f) < 0)
			return complain(&f);
		else if (c == 'h')
			exit(usage(stdout) & 0);
		else if (c == '?')
			return usage(stderr);
	}
	if (argc - optind != 2)
		return usage(stderr);
	o->uri = argv[optind];
	o->dir = argv[optind + 1];
	return opts_check(o, &f) < 0 ? complain(&f) : 0;
}

/* ---- the way into the background ---- */

/* The child tells the parent one line: empty if it serves, else what went wrong. */
static void report(struct program *p, const struct fault *f)
{
	if (p->report < 0) {
		if (f->code)
			log_error("%s", f->text);
		return;
	}
	(void)!write(p->report, f->text, f->code ? strlen(f->text) : 0);
	fd_close(take_fd(&p->report));
}

static int wait_for_child(int fd)
{
	char text[sizeof(((struct fault *)0)->text) + 16] = "";
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	if (n == 1 && text[0] == '\n')
		return VERB_DONE;
	(void)fprintf(stderr, "holdfast mount: %s\n", n ? text : "ended without a word");
	return VERB_FAILED;
}

/*
 * Before any thread is made.  Returns in the child at once, and in the parent when the mount serves
 * or has failed, with what to exit with.
 */
static int into_background(struct program *p, bool *parent)
{
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		(void)fprintf(stderr, "holdfast mount: %s\n", strerror(errno));
		return VERB_FAILED;
	}
	if (pid > 0) {
		fd_close(ends[1]);
		*parent = true;
		rc = wait_for_child(ends[0]);
		fd_close(ends[0]);
		return rc;
	}
	fd_close(ends[0]);
	p->report = ends[1];
	(void)setsid();
	return 0;
}

/* Nobody reads our stderr any more; keep nothing of the caller's open. */
static void let_go_of_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)!chdir("/");
	if (null < 0)
		return;
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	if (!getenv("HOLDFAST_LOG"))
		(void)dup2(null, STDERR_FILENO);
	fd_close(null);
}

/* ---- signals ---- */

static void nothing(int sig)
{
	(void)sig;
}

/* While we serve still: a trainer that saves once more is not in our way. */
static void *flush_main(void *arg)
{
	struct program *p = arg;
	struct fault f = FAULT_NONE;

	if (committer_sync(&p->mount, 0, NULL, &f) < 0 && f.code != -ESHUTDOWN)
		log_error("%s: %s; the cache keeps what is unsent", p->mount.opts.uri, f.text);
	session_stop(p->session);
	return NULL;
}

static void first_signal(struct program *p, int sig)
{
	log_info("signal %d: flush and unmount; another one ends without what is unsent", sig);
	p->terminated = true;
	if (p->mount.opts.foreground)
		supervisor_tell("STOPPING=1\nSTATUS=signal %d: sending what is unsent", sig);
	warm_stop(&p->mount);
	committer_hurry(&p->mount, mount_now(&p->mount) + TERM_FLUSH_NS);
	p->flushes = pthread_create(&p->flush, NULL, flush_main, p) == 0;
	if (!p->flushes)
		session_stop(p->session);
}

static void second_signal(struct program *p, int sig)
{
	log_info("signal %d again: ends at once; the cache keeps what is unsent", sig);
	committer_hurry(&p->mount, mount_now(&p->mount));
}

/* One thread waits for what ends us or may soon, until all has ended; all others have these blocked. */
static void *signals_main(void *arg)
{
	struct program *p = arg;
	sigset_t set;
	int sig;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR2);
	for (unsigned ends = 0; sigwait(&set, &sig) == 0 && !p->ended;) {
		if (sig == SIGUSR2)
			(void)heed_tell(&p->mount, 0); /* who only looks has nothing to flush */
		else if (ends++ == 0)
			first_signal(p, sig);
		else
			second_signal(p, sig);
	}
	if (p->flushes)
		(void)pthread_join(p->flush, NULL);
	return NULL;
}

static int watch_signals(struct program *p, struct fault *f)
{
	int rc = -pthread_create(&p->signals, NULL, signals_main, p);

	return rc < 0 ? fault_errno(f, rc, "signal thread") : 0;
}

/* It uses what is about to be freed. */
static void unwatch_signals(struct program *p)
{
	p->ended = true;
	(void)pthread_kill(p->signals, SIGTERM);
	(void)pthread_join(p->signals, NULL);
}

static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGUSR2);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = nothing}, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* ---- a mount's life ---- */

static int begin(struct program *p, struct fault *f)
{
	struct mount *m = &p->mount;
	int rc = session_check(&m->opts, f);

	if (rc == 0)
		rc = mount_start(m, f);
	if (rc < 0)
		return rc;
	rc = ctl_open(m, &p->ctl, f);
	if (rc == 0)
		rc = session_new(m, &p->session, f);
	if (rc == 0)
		rc = warm_run(m, f);
	if (rc == 0)
		rc = ctl_run(p->ctl, f);
	if (rc == 0)
		rc = follow_run(m, f);
	if (rc == 0)
		rc = revert_run(m, f);
	if (rc == 0)
		rc = publish_start(m, &p->publisher, f);
	if (rc == 0)
		rc = watch_signals(p, f);
	if (rc == 0)
		return 0;
	publish_end(p->publisher);
	ears_disarm(&m->ears);
	ctl_close(p->ctl, rc, f);
	session_free(p->session);
	mount_give_up(m);
	return rc;
}

static int end(struct program *p)
{
	struct mount *m = &p->mount;
	struct fault f = FAULT_NONE;
	uint64_t deadline = 0;
	bool discard = false;
	int rc;

	if (m->opts.foreground)
		supervisor_tell("STOPPING=1\nSTATUS=unmounted; the rest is sent");
	ears_disarm(&m->ears);
	warm_stop(m);
	file_release_all(m);
	utab_remove(m->opts.dir); /* not later: who unmounted waits, and may mount something else here */
	if (!ctl_ending(p->ctl, &deadline, &discard))
		deadline = mount_now(m) + (p->terminated ? 5 * NS_PER_S : UNMOUNTED_NS);
	if (discard && !deadline)
		deadline = mount_now(m) + DISCARD_NS;
	rc = mount_end(m, deadline, discard, &f);
	unwatch_signals(p);
	publish_end(p->publisher);
	if (rc < 0)
		log_error("%s: %s; %s %s", m->opts.uri, f.text,
			  m->cache_deleted ? "what was not sent is lost with" : "unsent data stays in", m->opts.cache);
	session_free(take(&p->session));
	ctl_close(p->ctl, rc, &f);
	mount_fini(m);
	return rc < 0 ? VERB_UNSENT : VERB_DONE;
}

static int run(struct program *p)
{
	struct fault f = FAULT_NONE;
	int rc = begin(p, &f);

	if (rc < 0) {
		report(p, &f);
		return VERB_FAILED;
	}
	log_info("%s on %s: %s", p->mount.opts.uri, p->mount.opts.dir, p->mount.story);
	utab_add(p->mount.opts.uri, p->mount.opts.dir);
	if (p->report >= 0) {
		(void)!write(p->report, "\n", 1);
		fd_close(take_fd(&p->report));
		let_go_of_terminal();
	} else {
		/* Only here: in the background NOTIFY_SOCKET is that of somebody's service who mounts. */
		supervisor_tell("READY=1\nSTATUS=%s on %s: %s", p->mount.opts.uri, p->mount.opts.dir, p->mount.story);
	}
	if (session_serve(p->session, &f) < 0)
		log_error("%s", f.text);
	return end(p);
}

/* One above the other would be found by nobody, and take the lower one's line of utab with it when it ends. */
static bool is_mounted(const char *real, const struct stat *st)
{
	return st->st_ino == FUSE_ROOT_ID && getxattr(real, "user.holdfast.socket", NULL, 0) >= 0;
}

static int check_dir(struct mount_opts *o, char real[PATH_MAX])
{
	struct stat st;
	struct statvfs fs;

	if (!realpath(o->dir, real) || stat(real, &st) < 0) {
		(void)fprintf(stderr, "holdfast mount: %s: %s\n", o->dir, strerror(errno));
		return VERB_FAILED;
	}
	if (!S_ISDIR(st.st_mode)) {
		(void)fprintf(stderr, "holdfast mount: %s is not a directory\n", o->dir);
		return VERB_FAILED;
	}
	/* The kernel still knows the root of a mount whose program was killed: over it we would only hide it. */
	if (statvfs(real, &fs) < 0 && errno == ENOTCONN) {
		(void)fprintf(stderr, "holdfast mount: %s: what was mounted there has died; 'holdfast umount' removes it\n", real);
		return VERB_FAILED;
	}
	if (is_mounted(real, &st)) {
		(void)fprintf(stderr, "holdfast mount: %s: a store is mounted there already; 'holdfast umount' ends that\n", real);
		return VERB_FAILED;
	}
	o->dir = real;
	return 0;
}

/* Each open file of a trainer is one of ours; the soft limit is for programs that use select(2). */
static void raise_open_files(void)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_cur == most.rlim_max)
		return;
	most.rlim_cur = most.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &most);
}

/* A trainer that is killed starts again from what we hold; without us it has nothing to save into. */
static void ask_to_be_spared(void)
{
	int rc = geteuid() == 0 ? oom_spare_us() : 0;

	if (rc < 0)
		log_debug("oom_score_adj: %s; the kernel may kill us before a trainer", strerror(-rc));
}

int cmd_mount(int argc, char **argv)
{
	struct program *p = calloc(1, sizeof(*p));
	char real[PATH_MAX];
	bool parent = false;
	int rc = p ? parse(argc, argv, &p->mount.opts) : VERB_FAILED;

	if (rc == 0)
		rc = check_dir(&p->mount.opts, real);
	if (rc == 0) {
		p->report = -1;
		log_setup("holdfast mount", p->mount.opts.debug ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
			  !p->mount.opts.foreground && !getenv("HOLDFAST_LOG"));
		block_signals();
		raise_open_files();
		if (!p->mount.opts.foreground)
			rc = into_background(p, &parent);
	}
	if (rc == 0 && !parent) {
		ask_to_be_spared();
		rc = run(p);
	}
	if (p)
		opts_fini(&p->mount.opts);
	free(p);
	return rc;
}
