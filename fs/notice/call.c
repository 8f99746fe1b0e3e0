/* SPDX-License-Identifier: Apache-2.0 */
/* See call.h. */
#include "fs/notice/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/oom.h"

#define CGROUP  "cgroup:"
#define REAP_MS 10
enum {
	PIDS_MOST = 4096,
	LINE_MOST = 256,
	LINES_MOST = 1000, /* of one command: a log is no place for more */
};

struct call {
	struct call_conf conf;
	pthread_t thread;
	int wake[2]; /* a byte in it ends the thread */
	/* under lock */
	pthread_mutex_t lock;
	pid_t reached[PIDS_MOST];
	size_t reached_n;
	/* the thread's */
	char line[LINE_MOST];
	size_t line_len;
	unsigned lines;
};

static const struct {
	const char *name;
	int number;
	bool ends;
} signals[] = {
	{"TERM", SIGTERM, true},  {"INT", SIGINT, true},    {"HUP", SIGHUP, true},
	{"QUIT", SIGQUIT, true},  {"USR1", SIGUSR1, false}, {"USR2", SIGUSR2, false},
	{"CONT", SIGCONT, false}, {"URG", SIGURG, false},
};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

int call_signal(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (size_t i = 0; i < SIGNALS; i++)
		if (strcmp(name, signals[i].name) == 0)
			return signals[i].number;
	return 0;
}

bool call_signal_ends(int signal)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (signal == signals[i].number)
			return signals[i].ends;
	return false;
}

static const char *signal_name(int signal)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (signal == signals[i].number)
			return signals[i].name;
	return "?";
}

bool call_reached(struct call *c, pid_t tgid)
{
	bool found = false;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->reached_n && !found; i++)
		found = c->reached[i] == tgid;
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* ---- the signal ---- */

static bool parse_pid(const char *text, pid_t *out)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || (*end != '\0' && *end != '\n') || v <= 1 || v > 1 << 30)
		return false;
	*out = (pid_t)v;
	return true;
}

static bool is_cgroup(const char *pid)
{
	return strncmp(pid, CGROUP, strlen(CGROUP)) == 0;
}

/* Never waits for a writer, as a pipe would have it. */
static FILE *open_list(const char *pid)
{
	scoped(free) char *procs = NULL;
	int fd;

	if (is_cgroup(pid) && asprintf(&procs, "%s/cgroup.procs", pid + strlen(CGROUP)) < 0)
		return NULL;
	fd = open(procs ? procs : pid, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

/* How many; 0: errno says why, or is 0 where no number was found. */
static size_t find_pids(const char *pid, pid_t out[PIDS_MOST])
{
	/* A pid file may say more behind its number. */
	size_t n = 0, most = is_cgroup(pid) ? PIDS_MOST : 1;
	char line[32];
	FILE *list;

	if (parse_pid(pid, &out[0]))
		return 1;
	list = open_list(pid);
	if (!list)
		return 0;
	while (n < most && fgets(line, sizeof(line), list) && parse_pid(line, &out[n]))
		n++;
	(void)fclose(list);
	errno = 0;
	return n;
}

static void send_signal(struct call *c)
{
	pid_t pids[PIDS_MOST];
	size_t n = find_pids(c->conf.pid, pids), sent = 0;

	if (n == 0) {
		log_warn("notice: SIG%s: %s: %s", signal_name(c->conf.signal), c->conf.pid,
			 errno ? strerror(errno) : "names no process");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (pids[i] == getpid()) /* a cgroup may hold us as well */
			continue;
		pthread_mutex_lock(&c->lock);
		c->reached[c->reached_n++] = pids[i]; /* before it can answer */
		pthread_mutex_unlock(&c->lock);
		if (kill(pids[i], c->conf.signal) == 0)
			sent++;
		else
			log_warn("notice: SIG%s to process %d: %s", signal_name(c->conf.signal),
				 (int)pids[i], strerror(errno));
	}
	log_info("notice: SIG%s sent to %zu process%s (%s)", signal_name(c->conf.signal), sent,
		 sent == 1 ? "" : "es", c->conf.pid);
}

/* ---- the command ---- */

static uint64_t now_ns(void)
{
	return clock_mono(&clock_system);
}

/* Its environment: ours, and what the notice is. */
static char *const *environment(const struct call *c, char words[3][512], char **out, size_t most)
{
	extern char **environ;
	uint64_t now = now_ns(), left = c->conf.flush_by_ns > now ? c->conf.flush_by_ns - now : 0;
	size_t n = 0;

	(void)snprintf(words[0], 512, "HOLDFAST_NOTICE_SECONDS=%llu",
		       (unsigned long long)(left / NS_PER_S));
	(void)snprintf(words[1], 512, "HOLDFAST_NOTICE_KIND=%s", c->conf.kind);
	(void)snprintf(words[2], 512, "HOLDFAST_MOUNT=%s", c->conf.mount);
	while (n < 3) {
		out[n] = words[n];
		n++;
	}
	for (char **e = environ; *e && n < most - 1; e++)
		out[n++] = *e;
	out[n] = NULL;
	return out;
}

static int spawn(const struct call *c, int out_fd, pid_t *pid)
{
	char words[3][512], *env[1024];
	char *argv[] = {"/bin/sh", "-c", (char *)c->conf.exec, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setpgroup(&attr, 0);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
	rc = -posix_spawn(pid, argv[0], &files, &attr, argv,
			  environment(c, words, env, sizeof(env) / sizeof(env[0])));
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	return rc;
}

static void log_line(struct call *c)
{
	if (c->line_len && c->lines++ < LINES_MOST)
		log_info("notice_exec: %.*s", (int)c->line_len, c->line);
	c->line_len = 0;
}

static void log_output(struct call *c, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n' || c->line_len == sizeof(c->line))
			log_line(c);
		if (text[i] != '\n')
			c->line[c->line_len++] = text[i] & 0x80 || text[i] >= ' ' ? text[i] : ' ';
	}
}

/* Is it time to give up on the command?  Waits up to `ms` for that, or for output. */
static bool is_over(struct call *c, struct pollfd *out, int ms)
{
	struct pollfd p[2] = {{.fd = c->wake[0], .events = POLLIN},
			      {.fd = out ? out->fd : -1, .events = POLLIN}};
	uint64_t now = now_ns(),
		 left_ms = c->conf.kill_ns > now ? (c->conf.kill_ns - now) / NS_PER_MS + 1 : 0;

	(void)poll(p, 2, left_ms < (uint64_t)ms ? (int)left_ms : ms);
	if (out)
		out->revents = p[1].revents;
	return p[0].revents || now_ns() >= c->conf.kill_ns;
}

/* Until the command has closed its output. */
static bool read_output(struct call *c, int fd)
{
	struct pollfd p = {.fd = fd};
	char text[4096];
	ssize_t got;

	for (;;) {
		if (is_over(c, &p, 1000))
			return false;
		if (!p.revents)
			continue;
		got = read(fd, text, sizeof(text));
		if (got <= 0)
			break;
		log_output(c, text, (size_t)got);
	}
	log_line(c);
	return true;
}

static void log_end(int status)
{
	if (WIFSIGNALED(status))
		log_warn("notice_exec: killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		log_warn("notice_exec: exit status %d", WEXITSTATUS(status));
}

static void reap(struct call *c, pid_t pid, bool over)
{
	int status = 0;
	pid_t got = 0;

	while (!over && (got = waitpid(pid, &status, WNOHANG)) == 0)
		over = is_over(c, NULL, REAP_MS);
	if (got == 0) {
		bool late = now_ns() >= c->conf.kill_ns;

		if (late)
			log_warn("notice_exec: still runs at the deadline, and is killed");
		(void)kill(-pid, late ? SIGKILL : SIGTERM);
		if (!late)
			return; /* the mount ends; init waits for it */
		got = waitpid(pid, &status, 0);
	}
	if (got == pid)
		log_end(status);
}

static void run_command(struct call *c)
{
	int fds[2], rc;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		log_error("notice_exec: pipe: %s", strerror(errno));
		return;
	}
	rc = spawn(c, fds[1], &pid);
	fd_close(fds[1]);
	if (rc < 0)
		log_error("notice_exec: /bin/sh: %s", strerror(-rc));
	else {
		oom_not_for(pid);
		reap(c, pid, !read_output(c, fds[0]));
	}
	fd_close(fds[0]);
}

/* ---- the thread ---- */

static void *call_main(void *arg)
{
	struct call *c = arg;

	if (c->conf.signal)
		send_signal(c);
	if (c->conf.exec)
		run_command(c);
	return NULL;
}

int call_start(const struct call_conf *conf, struct call **out, struct fault *f)
{
	struct call *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fault_errno(f, -ENOMEM, "the call to the trainer");
	c->conf = *conf;
	(void)pthread_mutex_init(&c->lock, NULL);
	rc = pipe2(c->wake, O_CLOEXEC) < 0 ? -errno : 0;
	if (rc == 0) {
		rc = -pthread_create(&c->thread, NULL, call_main, c);
		if (rc == 0) {
			*out = c;
			return 0;
		}
		fd_close(c->wake[0]);
		fd_close(c->wake[1]);
	}
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
	return fault_errno(f, rc, "the call to the trainer");
}

void call_end(struct call *c)
{
	if (!c)
		return;
	(void)!write(c->wake[1], "", 1);
	(void)pthread_join(c->thread, NULL);
	fd_close(c->wake[0]);
	fd_close(c->wake[1]);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}
