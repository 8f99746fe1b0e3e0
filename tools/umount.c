/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast umount: end a mount, and say whether everything is where another machine would find it.
 * A failure before the unmounting leaves the mount as it was.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "tools/ending.h"
#include "tools/holders.h"
#include "tools/mounts.h"
#include "tools/tools.h"
#include "tools/words.h"

#define GONE_WITHIN_MS 10000

struct umount {
	double timeout_s;
	bool discard;
	const char *dir;     /* as it was named */
	char real[PATH_MAX]; /* as the kernel knows it */
	struct mounts_fs fs;
	json_t *status;      /* before the end */
	int stop_fd;         /* Ctrl-C can be read from it; -1 */
	bool progress_shown;
};

static int usage(void)
{
	fputs("holdfast umount: usage: holdfast umount [--timeout SECONDS] [--discard] DIR\n",
	      stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct umount *out)
{
	static const struct option options[] = {
		{"timeout", required_argument, NULL, 't'},
		{"discard", no_argument, NULL, 'd'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			out->discard = true;
		else if (c != 't' || !words_parse_seconds(optarg, &out->timeout_s))
			return usage();
	}
	if (argc - optind != 1)
		return usage();
	out->dir = argv[optind];
	return 0;
}

/* ---- what is shown ---- */

static void show_progress(void *arg, uint64_t left_bytes, const char *why)
{
	struct umount *u = arg;
	char bytes[WORDS_MAX];

	if (left_bytes > 0)
		fprintf(stderr, "\r\033[K%s left", words_bytes((double)left_bytes, bytes));
	else
		fprintf(stderr, "\r\033[Kwaiting for the good moment");
	if (*why)
		fprintf(stderr, ": %.100s", why);
	u->progress_shown = true;
}

static void clear_progress(struct umount *u)
{
	if (u->progress_shown)
		fputs("\r\033[K", stderr);
	u->progress_shown = false;
}

static int complain(const struct umount *u, const char *text, enum verb_status status)
{
	fprintf(stderr, "holdfast umount: %s: %s\n", u->dir, text);
	return status;
}

/* ---- the end, one step after the other ---- */

static int unmount(void *arg, struct fault *f)
{
	struct umount *u = arg;

	clear_progress(u);
	return ending_unmount(u->real, 0, f);
}

/* Unmounted here, it serves whoever has it in another place, until that one lets go of it. */
static int kept(void *arg, struct fault *f)
{
	const struct umount *u = arg;
	scoped(buf_fini) struct buf who = BUF_EMPTY;

	if (mounts_show("self", &u->fs, NULL))
		return fault_set(f, -EXDEV, FAULT_FINAL, "it is mounted in another place too");
	holders_elsewhere(&u->fs, &who);
	if (who.len)
		return fault_set(f, -EXDEV, FAULT_FINAL, "it lives on in the mount namespace of %.180s", buf_str(&who));
	holders_name(u->real, &u->fs, &who);
	if (who.len)
		return fault_set(f, -EXDEV, FAULT_FINAL, "it lives on, in use by %.180s", buf_str(&who));
	return 0;
}

/* Only a mount's top can be unmounted, and the kernel says no more than "invalid argument". */
static int check_top(struct umount *u, struct fault *f)
{
	if (mounts_find("self", u->real, &u->fs))
		return 0;
	return fault_set(f, -EINVAL, FAULT_FINAL, "%s lies inside a mount: name the mount itself",
			 u->dir);
}

/* It has said its last word; what it holds (the cache's lock) is free when it is gone. */
static void wait_gone(int process)
{
	struct pollfd p = {.fd = process, .events = POLLIN};

	if (process >= 0)
		(void)poll(&p, 1, GONE_WITHIN_MS);
}

static bool is_fenced(const struct umount *u)
{
	return json_is_true(json_object_get(u->status, "fenced"));
}

/* Nothing of it can be sent any more, so there is nothing to wait for; its cache keeps the rest. */
static int end_fenced(struct umount *u, struct ending *e, struct fault *f)
{
	int rc = unmount(u, f);

	if (rc < 0)
		return rc;
	e->unmounted = true;
	return fault_set(f, -EROFS, FAULT_FINAL, "%s",
			 json_string_value(json_object_get(u->status, "why_read_only")));
}

/* Ctrl-C ends the waiting, not us: whether it is mounted still has to be said. */
static int watch_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL); /* for the helper that unmounts, too */
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int end_mount(struct umount *u, struct ending *e, struct fault *f)
{
	scoped(client_close) struct client c = CLIENT_NONE;
	scoped(fd_close) int process = -1;
	int rc = client_open(u->real, &c, f);

	if (rc < 0)
		return rc;
	process = client_process(&c);
	c.stop_fd = u->stop_fd = watch_signals();
	if (is_fenced(u) && !u->discard) {
		client_close(&c); /* it waits for those who are connected */
		rc = end_fenced(u, e, f);
	} else {
		rc = ending_run(&c, e, f);
	}
	if (e->unmounted && rc != -EXDEV && rc != -EINTR)
		wait_gone(process);
	return rc;
}

/* Was anything not in the good moment when a mount was ended that was not to wait for it? */
static bool was_behind(const json_t *status)
{
	return json_number_value(json_object_get(status, "dirty_bytes")) > 0 ||
	       json_number_value(json_object_get(status, "good_age_seconds")) > 0 ||
	       json_integer_value(json_object_get(status, "good")) !=
		       json_integer_value(json_object_get(status, "commit"));
}

static int say_discarded(const struct umount *u)
{
	char bytes[WORDS_MAX], text[128];

	(void)snprintf(text, sizeof(text),
		       "unmounted; what came after commit %lld is discarded, %s of it not sent",
		       (long long)json_integer_value(json_object_get(u->status, "good")),
		       words_bytes(json_number_value(json_object_get(u->status, "dirty_bytes")),
				   bytes));
	return complain(u, text, VERB_UNSENT);
}

static int say_unsent(const struct umount *u, int rc, const struct fault *f)
{
	const char *cache = json_string_value(json_object_get(u->status, "cache"));
	char text[PATH_MAX + sizeof(f->text) + 100];

	if (rc == -EINTR)
		(void)snprintf(text, sizeof(text),
			       "unmounted; interrupted: the mount's process goes on with what is left, "
			       "and what it cannot send stays in %s",
			       cache ? cache : "the cache");
	else if (u->discard)
		(void)snprintf(text, sizeof(text), "unmounted; what was not sent is discarded; %s",
			       f->text);
	else
		(void)snprintf(text, sizeof(text),
			       "unmounted, but %s; what was not sent is in %s%s", f->text,
			       cache ? cache : "the cache",
			       rc == -EROFS ? "" : " and is sent when it is mounted again");
	return complain(u, text, VERB_UNSENT);
}

/* All that was written until then is in the store, and more may come. */
static int say_kept(const struct umount *u, const struct fault *f)
{
	char text[sizeof(f->text) + 100];

	(void)snprintf(text, sizeof(text), "unmounted here, but %s; the store is not released",
		       f->text);
	return complain(u, text, VERB_ELSEWHERE);
}

static int say_busy(const struct umount *u)
{
	scoped(buf_fini) struct buf who = BUF_EMPTY;
	char text[512];

	holders_name(u->real, u->fs.minor ? &u->fs : NULL, &who);
	(void)snprintf(text, sizeof(text), "still mounted: in use by %s",
		       who.len ? buf_str(&who) : "a process or another mount");
	return complain(u, text, VERB_FAILED);
}

static int say_still_mounted(const struct umount *u, int rc, const struct fault *f)
{
	char text[sizeof(f->text) + 100];

	if (rc == -EBUSY)
		return say_busy(u);
	if (rc == -EINTR)
		return complain(u, "still mounted: interrupted", VERB_FAILED);
	(void)snprintf(text, sizeof(text),
		       "still mounted: %s; --discard unmounts without waiting for it", f->text);
	return complain(u, text, rc == -ETIMEDOUT ? VERB_UNSENT : VERB_FAILED);
}

/* A mount whose daemon has died serves nobody, and its cache is not in danger. */
static int bury(struct umount *u)
{
	struct fault f = FAULT_NONE;

	if (!realpath(u->dir, u->real))
		return complain(u, strerror(errno), VERB_FAILED);
	(void)!chdir("/");
	(void)mounts_find("self", u->real, &u->fs);
	if (ending_unmount(u->real, 0, &f) < 0)
		return f.code == -EBUSY ? say_busy(u) : complain(u, f.text, VERB_FAILED);
	return complain(u,
			"its daemon was gone; unmounted; what it had not sent is in its cache and "
			"is sent when it is mounted again",
			VERB_UNSENT);
}

static int run(struct umount *u)
{
	struct ending e = {.timeout_s = u->timeout_s,
			   .discard = u->discard,
			   .unmount = unmount,
			   .kept = kept,
			   .arg = u,
			   .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
	struct fault f = FAULT_NONE;
	int rc = client_status(u->dir, NULL, &u->status, &f);

	if (rc == -ENOTCONN)
		return bury(u);
	if (rc == 0 && !realpath(u->dir, u->real))
		rc = fault_errno(&f, -errno, "%s", u->dir);
	if (rc == 0)
		rc = check_top(u, &f);
	(void)!chdir("/"); /* `holdfast umount .`: ourselves in its way */
	if (rc < 0) {
		fprintf(stderr, "holdfast umount: %s\n", f.text);
		return VERB_FAILED;
	}
	rc = end_mount(u, &e, &f);
	clear_progress(u);
	if (rc == -EXDEV && e.unmounted)
		return say_kept(u, &f);
	if (rc < 0)
		return e.unmounted ? say_unsent(u, rc, &f) : say_still_mounted(u, rc, &f);
	return u->discard && was_behind(u->status) ? say_discarded(u) : VERB_DONE;
}

int cmd_umount(int argc, char **argv)
{
	struct umount u = {.dir = NULL, .stop_fd = -1};
	int rc = parse(argc, argv, &u);

	if (rc == 0)
		rc = run(&u);
	json_decref(u.status);
	fd_close(u.stop_fd);
	return rc;
}
