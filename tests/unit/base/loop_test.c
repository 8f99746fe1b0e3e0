/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: every behaviour on both backends, since callers must not be able to tell them apart. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop.h"

struct bench {
	struct loop *loop;
	bool done;
	int count;
	char order[16];
};

static struct bench bench_of(void **state)
{
	const enum loop_backend *want = *state;
	struct fault f = FAULT_NONE;
	struct bench b = {.loop = NULL};

	if (loop_new(*want, &b.loop, &f) < 0) {
		print_message("no %s here: %s\n", *want == LOOP_URING ? "io_uring" : "epoll",
			      f.text);
		assert_null(getenv("REQUIRE_ALL"));
		skip();
	}
	return b;
}

static uint64_t now_ns(void)
{
	return clock_mono(&clock_system);
}

static void note(struct bench *b, char what)
{
	b->order[strlen(b->order)] = what;
}

struct while_ms {
	struct loop_timer timer;
	struct loop *loop;
	int rounds; /* to go once the time is over */
	bool over;
};

static void count_round(struct loop_timer *t)
{
	struct while_ms *x = t->arg;

	if (--x->rounds > 0)
		loop_timer_start(x->loop, t, now_ns() + NS_PER_MS / 10);
	else
		x->over = true;
}

/*
 * Handlers that must not have been called by then are not called later either; those that must
 * have their rounds even if the machine was busy all the time.
 */
static void run_for_ms(struct bench *b, unsigned ms)
{
	struct while_ms x = {
		.timer = {.fire = count_round, .arg = &x}, .loop = b->loop, .rounds = 16};

	loop_timer_start(b->loop, &x.timer, now_ns() + ms * NS_PER_MS);
	loop_run_until(b->loop, &x.over);
}

/* ---- choice of the backend ---- */

static void the_backend_asked_for_is_the_one_that_runs(void **state)
{
	struct bench b = bench_of(state);
	const enum loop_backend *want = *state;

	assert_string_equal(loop_backend_name(b.loop), *want == LOOP_URING ? "io_uring" : "epoll");
	loop_free(b.loop);
}

static void the_environment_overrides_only_an_open_choice(void **state)
{
	struct loop *l = NULL;
	struct fault f = FAULT_NONE;

	assert_int_equal(setenv("HOLDFAST_LOOP", "epoll", 1), 0);
	assert_int_equal(loop_new(LOOP_AUTO, &l, &f), 0);
	assert_string_equal(loop_backend_name(l), "epoll");
	loop_free(l);
	assert_int_equal(unsetenv("HOLDFAST_LOOP"), 0);
}

/* As Docker's default profile has it: io_uring_setup() is answered with EPERM. */
static void forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(77);
}

/* In a child, since a filter stays.  Its exit status is the number of what is wrong. */
static void try_without_io_uring(void)
{
	struct loop *l = NULL;
	struct fault f = FAULT_NONE;

	forbid_io_uring();
	if (loop_new(LOOP_AUTO, &l, &f) < 0)
		_exit(1);
	if (strcmp(loop_backend_name(l), "epoll") != 0)
		_exit(2);
	loop_free(l);
	if (loop_new(LOOP_URING, &l, &f) != -EPERM)
		_exit(3);
	_exit(strstr(f.text, "io_uring") ? 0 : 4);
}

static void where_io_uring_is_forbidden_an_open_choice_is_epoll(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		try_without_io_uring();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- timers ---- */

struct lettered {
	struct loop_timer timer;
	struct bench *b;
	char letter;
};

static void fire_letter(struct loop_timer *t)
{
	struct lettered *x = t->arg;

	note(x->b, x->letter);
}

static void timers_fire_in_order_of_their_time(void **state)
{
	struct bench b = bench_of(state);
	static const unsigned ms[] = {30, 10, 20, 5, 15, 25};
	struct lettered x[6];
	uint64_t start_ns = now_ns();

	for (int i = 0; i < 6; i++) {
		x[i] = (struct lettered){.timer = {.fire = fire_letter, .arg = &x[i]},
					 .b = &b,
					 .letter = (char)('a' + i)};
		loop_timer_start(b.loop, &x[i].timer, start_ns + ms[i] * NS_PER_MS);
	}
	run_for_ms(&b, 60);
	assert_string_equal(b.order, "dbecfa");
	loop_free(b.loop);
}

static void a_timer_does_not_fire_early(void **state)
{
	struct bench b = bench_of(state);
	uint64_t start_ns = now_ns();

	run_for_ms(&b, 20);
	assert_true(now_ns() - start_ns >= 20 * NS_PER_MS);
	loop_free(b.loop);
}

static void a_stopped_timer_never_fires_and_a_moved_one_fires_once(void **state)
{
	struct bench b = bench_of(state);
	struct lettered x = {.timer = {.fire = fire_letter, .arg = &x}, .b = &b, .letter = 'x'};
	struct lettered y = {.timer = {.fire = fire_letter, .arg = &y}, .b = &b, .letter = 'y'};

	loop_timer_start(b.loop, &x.timer, now_ns() + 5 * NS_PER_MS);
	loop_timer_start(b.loop, &y.timer, now_ns() + 5 * NS_PER_MS);
	loop_timer_start(b.loop, &y.timer, now_ns() + 10 * NS_PER_MS);
	loop_timer_stop(b.loop, &x.timer);
	loop_timer_stop(b.loop, &x.timer);
	run_for_ms(&b, 30);
	assert_string_equal(b.order, "y");
	loop_free(b.loop);
}

struct sorted {
	uint64_t last_ns;
	int fired;
	bool sorted;
};

static void fire_sorted(struct loop_timer *t)
{
	struct sorted *seen = t->arg;

	seen->sorted = seen->sorted && t->priv.at_ns >= seen->last_ns;
	seen->last_ns = t->priv.at_ns;
	seen->fired++;
}

static void many_timers_stopped_at_random_leave_the_others_in_order(void **state)
{
	enum { N = 2000 };
	struct bench b = bench_of(state);
	struct loop_timer t[N] = {{.fire = NULL}};
	struct sorted seen = {.sorted = true};
	unsigned seed = 12345; /* fixed: the same order each time */
	uint64_t start_ns = now_ns();

	for (int i = 0; i < N; i++) {
		t[i] = (struct loop_timer){.fire = fire_sorted, .arg = &seen};
		loop_timer_start(b.loop, &t[i],
				 start_ns + (uint64_t)rand_r(&seed) % (20 * NS_PER_MS));
	}
	for (int i = 0; i < N; i += 3)
		loop_timer_stop(b.loop, &t[i]);
	run_for_ms(&b, 60);
	assert_int_equal(seen.fired, N - (N + 2) / 3);
	assert_true(seen.sorted);
	loop_free(b.loop);
}

struct eager {
	struct loop_timer timer;
	struct loop *loop;
};

static void restart_at_once(struct loop_timer *t)
{
	struct eager *e = t->arg;

	loop_timer_start(e->loop, t, 1);
}

static void read_byte(struct loop_watch *w, unsigned events)
{
	struct bench *b = w->arg;
	char c;

	assert_true(events & POLLIN);
	assert_int_equal(read(w->fd, &c, 1), 1);
	note(b, c);
	b->count++;
	b->done = true;
}

static void a_timer_that_restarts_itself_does_not_starve_sockets(void **state)
{
	struct bench b = bench_of(state);
	struct eager e = {.timer = {.fire = restart_at_once, .arg = &e}, .loop = b.loop};
	struct loop_watch w = {.ready = read_byte, .arg = &b};
	int p[2];

	assert_int_equal(pipe(p), 0);
	w.fd = p[0];
	assert_int_equal(loop_watch(b.loop, &w, POLLIN), 0);
	loop_timer_start(b.loop, &e.timer, 1);
	assert_int_equal(write(p[1], "z", 1), 1);
	loop_run_until(b.loop, &b.done);
	assert_string_equal(b.order, "z");
	assert_int_equal(loop_watch(b.loop, &w, 0), 0);
	loop_free(b.loop);
	close(p[0]);
	close(p[1]);
}

/* ---- watches ---- */

static void a_watch_is_level_triggered(void **state)
{
	struct bench b = bench_of(state);
	struct loop_watch w = {.ready = read_byte, .arg = &b};
	int p[2];

	assert_int_equal(pipe(p), 0);
	w.fd = p[0];
	assert_int_equal(write(p[1], "abc", 3), 3);
	assert_int_equal(loop_watch(b.loop, &w, POLLIN), 0);
	run_for_ms(&b, 10); /* reads one byte a call, and nothing is written any more */
	assert_string_equal(b.order, "abc");
	assert_int_equal(loop_watch(b.loop, &w, 0), 0);
	loop_free(b.loop);
	close(p[0]);
	close(p[1]);
}

struct pair {
	struct bench *b;
	struct loop_watch w[2];
	int fd[2][2];
};

/* Whoever comes first removes the other, whose event is in the same batch. */
static void remove_the_other(struct loop_watch *w, unsigned events)
{
	struct pair *p = w->arg;
	struct loop_watch *other = &p->w[w == &p->w[0]];

	p->b->count++;
	assert_int_equal(loop_watch(p->b->loop, other, 0), 0);
	memset(other, 0xa5, sizeof(*other)); /* the loop must not look at it again */
	assert_int_equal(loop_watch(p->b->loop, w, 0), 0);
}

static void a_watch_removed_by_another_handler_is_not_called(void **state)
{
	struct bench b = bench_of(state);
	struct pair p = {.b = &b};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd[i]), 0);
		p.w[i] =
			(struct loop_watch){.fd = p.fd[i][0], .ready = remove_the_other, .arg = &p};
		assert_int_equal(loop_watch(b.loop, &p.w[i], POLLIN), 0);
	}
	run_for_ms(&b, 1); /* both polls are in the kernel now */
	for (int i = 0; i < 2; i++)
		assert_int_equal(write(p.fd[i][1], "x", 1), 1);
	run_for_ms(&b, 10);
	assert_int_equal(b.count, 1);
	loop_free(b.loop);
	for (int i = 0; i < 4; i++)
		close(p.fd[i / 2][i % 2]);
}

static void must_not_be_called(struct loop_watch *w, unsigned events)
{
	fail_msg("an event for fd %d", w->fd);
}

struct heir {
	struct pair pair;
	struct loop_watch next;
};

/* The other's slot and fd number pass to a newcomer, for whom the event in hand is not meant. */
static void replace_the_other(struct loop_watch *w, unsigned events)
{
	struct heir *h = w->arg;
	struct pair *p = &h->pair;
	int other = w == &p->w[0];
	int quiet[2];

	p->b->count++;
	assert_int_equal(loop_watch(p->b->loop, w, 0), 0);
	assert_int_equal(loop_watch(p->b->loop, &p->w[other], 0),
			 0); /* last: its slot goes first */
	assert_int_equal(pipe(quiet), 0);
	assert_int_equal(dup2(quiet[0], p->fd[other][0]), p->fd[other][0]);
	close(quiet[0]);
	h->next = (struct loop_watch){.fd = p->fd[other][0],
				      .ready = must_not_be_called,
				      .arg = (void *)(intptr_t)quiet[1]};
	assert_int_equal(loop_watch(p->b->loop, &h->next, POLLIN), 0);
}

static void a_stale_event_never_reaches_the_heir_of_slot_and_fd(void **state)
{
	struct bench b = bench_of(state);
	struct heir h = {.pair.b = &b};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, h.pair.fd[i]), 0);
		h.pair.w[i] = (struct loop_watch){.fd = h.pair.fd[i][0],
						  .ready = replace_the_other,
						  .arg = &h};
		assert_int_equal(loop_watch(b.loop, &h.pair.w[i], POLLIN), 0);
	}
	run_for_ms(&b, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(write(h.pair.fd[i][1], "x", 1), 1);
	run_for_ms(&b, 10);
	assert_int_equal(b.count, 1);
	assert_int_equal(loop_watch(b.loop, &h.next, 0), 0);
	loop_free(b.loop);
	close((int)(intptr_t)h.next.arg);
	for (int i = 0; i < 4; i++)
		close(h.pair.fd[i / 2][i % 2]);
}

static void drain_and_turn_the_other(struct loop_watch *w, unsigned events)
{
	struct pair *p = w->arg;
	struct loop_watch *other = &p->w[w == &p->w[0]];
	char c;

	p->b->count++;
	assert_int_equal(events, POLLIN);
	assert_int_equal(read(w->fd, &c, 1), 1);
	/* A pipe's reading end is never writable: this asks for what cannot come. */
	assert_int_equal(loop_watch(p->b->loop, other, POLLOUT), 0);
}

static void an_event_no_longer_asked_for_is_dropped(void **state)
{
	struct bench b = bench_of(state);
	struct pair p = {.b = &b};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(p.fd[i]), 0);
		p.w[i] = (struct loop_watch){.fd = p.fd[i][0],
					     .ready = drain_and_turn_the_other,
					     .arg = &p};
		assert_int_equal(loop_watch(b.loop, &p.w[i], POLLIN), 0);
	}
	run_for_ms(&b, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(write(p.fd[i][1], "x", 1), 1);
	run_for_ms(&b, 10);
	assert_int_equal(b.count, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(loop_watch(b.loop, &p.w[i], 0), 0);
	loop_free(b.loop);
	for (int i = 0; i < 4; i++)
		close(p.fd[i / 2][i % 2]);
}

struct turn {
	struct bench *b;
	struct loop_watch w;
};

static void change_in_handler(struct loop_watch *w, unsigned events)
{
	struct turn *t = w->arg;

	if (events & POLLOUT) {
		note(t->b, 'o');
		assert_int_equal(loop_watch(t->b->loop, w, POLLIN), 0);
		return;
	}
	note(t->b, 'i');
	assert_int_equal(loop_watch(t->b->loop, w, 0), 0);
}

static void a_handler_may_change_and_remove_its_own_watch(void **state)
{
	struct bench b = bench_of(state);
	struct turn t = {.b = &b};
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	t.w = (struct loop_watch){.fd = s[0], .ready = change_in_handler, .arg = &t};
	assert_int_equal(loop_watch(b.loop, &t.w, POLLOUT), 0);
	run_for_ms(&b, 5);
	assert_string_equal(b.order, "o"); /* writable all the time, but no longer wanted */
	assert_int_equal(write(s[1], "x", 1), 1);
	run_for_ms(&b, 5);
	assert_string_equal(b.order, "oi"); /* readable still */
	loop_free(b.loop);
	close(s[0]);
	close(s[1]);
}

static void narrowing_a_watch_from_outside_withdraws_the_poll(void **state)
{
	struct bench b = bench_of(state);
	struct turn t = {.b = &b};
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	t.w = (struct loop_watch){.fd = s[0], .ready = change_in_handler, .arg = &t};
	assert_int_equal(loop_watch(b.loop, &t.w, POLLIN), 0);
	run_for_ms(&b, 1);
	assert_int_equal(loop_watch(b.loop, &t.w, POLLIN | POLLOUT), 0);
	run_for_ms(&b, 5);
	assert_string_equal(b.order, "o");
	assert_int_equal(loop_watch(b.loop, &t.w, 0), 0);
	assert_int_equal(write(s[1], "x", 1), 1);
	run_for_ms(&b, 5);
	assert_string_equal(b.order, "o");
	loop_free(b.loop);
	close(s[0]);
	close(s[1]);
}

static void note_hangup(struct loop_watch *w, unsigned events)
{
	struct bench *b = w->arg;

	assert_true(events & POLLHUP);
	b->done = true;
}

static void a_hang_up_is_reported_unasked(void **state)
{
	struct bench b = bench_of(state);
	struct loop_watch w = {.ready = note_hangup, .arg = &b};
	int p[2];

	assert_int_equal(pipe(p), 0);
	w.fd = p[0];
	assert_int_equal(loop_watch(b.loop, &w, POLLIN), 0);
	close(p[1]);
	loop_run_until(b.loop, &b.done);
	assert_int_equal(loop_watch(b.loop, &w, 0), 0);
	loop_free(b.loop);
	close(p[0]);
}

static void a_removed_watch_lets_go_of_its_socket(void **state)
{
	struct bench b = bench_of(state);
	struct loop_watch w = {.ready = must_not_be_called};
	int s[2];
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	w.fd = s[0];
	assert_int_equal(loop_watch(b.loop, &w, POLLIN), 0);
	run_for_ms(&b, 1);
	assert_int_equal(loop_watch(b.loop, &w, 0), 0);
	close(s[0]);
	run_for_ms(&b, 1);
	/* A poll left in the kernel would keep the socket open, and this read waiting. */
	assert_int_equal(recv(s[1], &c, 1, MSG_DONTWAIT), 0);
	loop_free(b.loop);
	close(s[1]);
}

static void more_watches_than_the_ring_has_entries_all_work(void **state)
{
	enum { N = 400 };
	struct bench b = bench_of(state);
	static struct loop_watch w[N];
	static int p[N][2];

	for (int i = 0; i < N; i++) {
		assert_int_equal(pipe(p[i]), 0);
		w[i] = (struct loop_watch){.fd = p[i][0], .ready = note_hangup, .arg = &b};
		assert_int_equal(loop_watch(b.loop, &w[i], POLLIN), 0);
	}
	run_for_ms(&b, 1);
	for (int i = 0; i < N; i++) {
		close(p[i][1]);
		b.done = false;
		loop_run_until(b.loop, &b.done);
		assert_int_equal(loop_watch(b.loop, &w[i], 0), 0);
		close(p[i][0]);
	}
	loop_free(b.loop);
}

/* ---- wake-ups ---- */

enum { POSTS = 1000 };

struct posted {
	struct loop_call call;
	int number;
	struct bench *b;
};

static void count_in_order(struct loop_call *c)
{
	struct posted *p = c->arg;

	assert_int_equal(p->number, p->b->count);
	if (++p->b->count == POSTS)
		loop_stop(p->b->loop);
}

static void *post_all(void *arg)
{
	struct posted *p = arg;

	for (int i = 0; i < POSTS; i++)
		loop_post(p[i].b->loop, &p[i].call);
	return NULL;
}

static void posts_from_another_thread_run_in_their_order(void **state)
{
	struct bench b = bench_of(state);
	static struct posted p[POSTS];
	pthread_t thread;

	for (int i = 0; i < POSTS; i++)
		p[i] = (struct posted){.call = {.fn = count_in_order, .arg = &p[i]},
				       .number = i,
				       .b = &b};
	assert_int_equal(pthread_create(&thread, NULL, post_all, p), 0);
	loop_run(b.loop);
	assert_int_equal(b.count, POSTS);
	pthread_join(thread, NULL);
	loop_free(b.loop);
}

static void a_stop_that_comes_first_is_not_lost(void **state)
{
	struct bench b = bench_of(state);

	loop_stop(b.loop);
	loop_run(b.loop);
	loop_free(b.loop);
}

static void posted_calls_are_run_before_the_loop_ends(void **state)
{
	struct bench b = bench_of(state);
	struct posted p = {.call = {.fn = count_in_order, .arg = &p}, .b = &b};

	loop_post(b.loop, &p.call);
	loop_free(b.loop);
	assert_int_equal(b.count, 1);
}

/* ---- files ---- */

struct transfer {
	struct loop_file file;
	struct bench *b;
	ssize_t rc;
	int calls;
};

static void transferred(struct loop_file *r, ssize_t rc)
{
	struct transfer *t = r->arg;

	t->rc = rc;
	t->calls++;
	t->b->count++;
	t->b->done = true;
}

static struct transfer transfer_of(struct bench *b, int fd, void *data, size_t len, uint64_t off)
{
	return (struct transfer){
		.file = {.fd = fd, .data = data, .len = len, .off = off, .done = transferred},
		.b = b,
	};
}

static ssize_t transfer_one(struct bench *b, bool write, int fd, void *data, size_t len,
			    uint64_t off)
{
	struct transfer t = transfer_of(b, fd, data, len, off);

	t.file.arg = &t;
	b->done = false;
	(write ? loop_pwrite : loop_pread)(b->loop, &t.file);
	assert_int_equal(t.calls, 0); /* never from inside the request */
	loop_run_until(b->loop, &b->done);
	assert_int_equal(t.calls, 1);
	return t.rc;
}

static int temporary_file(void)
{
	FILE *tmp = tmpfile();
	int fd;

	assert_non_null(tmp);
	fd = dup(fileno(tmp));
	(void)fclose(tmp); /* nothing was written through it */
	assert_true(fd >= 0);
	return fd;
}

static void what_is_written_is_read_back(void **state)
{
	struct bench b = bench_of(state);
	int fd = temporary_file();
	char out[] = "checkpoint";
	char in[32] = "";

	assert_int_equal(transfer_one(&b, true, fd, out, 10, 100), 10);
	assert_int_equal(transfer_one(&b, false, fd, in, sizeof(in), 100), 10);
	assert_string_equal(in, "checkpoint");
	assert_int_equal(transfer_one(&b, false, fd, in, sizeof(in), 4096), 0);
	loop_free(b.loop);
	close(fd);
}

static void a_file_request_that_fails_says_why(void **state)
{
	struct bench b = bench_of(state);
	char in[8];

	assert_int_equal(transfer_one(&b, false, -1, in, sizeof(in), 0), -EBADF);
	loop_free(b.loop);
}

static void more_requests_than_the_ring_has_entries_all_end_once(void **state)
{
	enum { N = 2000 };
	struct bench b = bench_of(state);
	int fd = temporary_file();
	static struct transfer t[N];
	static uint32_t words[N], back[N];

	for (uint32_t i = 0; i < N; i++) {
		words[i] = i;
		t[i] = transfer_of(&b, fd, &words[i], sizeof(words[i]), i * sizeof(words[i]));
		t[i].file.arg = &t[i];
		loop_pwrite(b.loop, &t[i].file);
	}
	while (b.count < N) {
		b.done = false;
		loop_run_until(b.loop, &b.done);
	}
	for (int i = 0; i < N; i++) {
		assert_int_equal(t[i].calls, 1);
		assert_int_equal(t[i].rc, sizeof(words[i]));
	}
	assert_int_equal(pread(fd, back, sizeof(back), 0), sizeof(back));
	assert_memory_equal(back, words, sizeof(words));
	loop_free(b.loop);
	close(fd);
}

static void file_requests_open_at_the_end_are_called_once_before_it(void **state)
{
	enum { N = 600 };
	struct bench b = bench_of(state);
	int fd = temporary_file();
	static struct transfer t[N];
	static char data[4096];

	for (int i = 0; i < N; i++) {
		t[i] = transfer_of(&b, fd, data, sizeof(data), (uint64_t)i * sizeof(data));
		t[i].file.arg = &t[i];
		loop_pwrite(b.loop, &t[i].file);
	}
	loop_free(b.loop);
	for (int i = 0; i < N; i++) {
		assert_int_equal(t[i].calls, 1);
		assert_true(t[i].rc == -ECANCELED || t[i].rc == sizeof(data));
	}
	close(fd);
}

/* Only io_uring can take back a request that waits in the kernel; a worker's read just waits. */
static void a_read_that_would_wait_for_ever_is_cancelled_at_the_end(void **state)
{
	const enum loop_backend *want = *state;
	struct bench b = bench_of(state);
	struct transfer t;
	char c;
	int p[2];

	if (*want == LOOP_EPOLL) {
		loop_free(b.loop);
		return;
	}
	assert_int_equal(pipe(p), 0);
	t = transfer_of(&b, p[0], &c, 1, (uint64_t)-1);
	t.file.arg = &t;
	loop_pread(b.loop, &t.file);
	run_for_ms(&b, 5);
	loop_free(b.loop);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.rc, -ECANCELED);
	close(p[0]);
	close(p[1]);
}

/* ---- work ---- */

struct chore {
	struct loop_work work;
	struct bench *b;
	pthread_t loop_thread;
	pthread_barrier_t *meet;
	bool ran;
};

static void chore_run(struct loop_work *w)
{
	struct chore *c = w->arg;

	if (c->meet)
		pthread_barrier_wait(c->meet);
	c->ran = !pthread_equal(pthread_self(), c->loop_thread);
}

static void chore_done(struct loop_work *w)
{
	struct chore *c = w->arg;

	assert_true(pthread_equal(pthread_self(), c->loop_thread));
	assert_true(c->ran);
	c->b->count++;
	c->b->done = true;
}

static struct chore chore_of(struct bench *b, pthread_barrier_t *meet)
{
	return (struct chore){
		.work = {.run = chore_run, .done = chore_done},
		.b = b,
		.loop_thread = pthread_self(),
		.meet = meet,
	};
}

static void work_runs_elsewhere_and_ends_on_the_loop(void **state)
{
	struct bench b = bench_of(state);
	struct chore c = chore_of(&b, NULL);

	c.work.arg = &c;
	loop_work(b.loop, &c.work);
	loop_run_until(b.loop, &b.done);
	loop_free(b.loop);
}

static void four_pieces_of_work_run_at_the_same_time(void **state)
{
	struct bench b = bench_of(state);
	struct chore c[4];
	pthread_barrier_t meet; /* nobody passes before all four are there */

	pthread_barrier_init(&meet, NULL, 4);
	for (int i = 0; i < 4; i++) {
		c[i] = chore_of(&b, &meet);
		c[i].work.arg = &c[i];
		loop_work(b.loop, &c[i].work);
	}
	while (b.count < 4) {
		b.done = false;
		loop_run_until(b.loop, &b.done);
	}
	pthread_barrier_destroy(&meet);
	loop_free(b.loop);
}

static void work_handed_in_is_finished_before_the_loop_ends(void **state)
{
	enum { N = 50 };
	struct bench b = bench_of(state);
	struct chore c[N];

	for (int i = 0; i < N; i++) {
		c[i] = chore_of(&b, NULL);
		c[i].work.arg = &c[i];
		loop_work(b.loop, &c[i].work);
	}
	loop_free(b.loop);
	assert_int_equal(b.count, N);
}

int main(void)
{
	static enum loop_backend backends[] = {LOOP_URING, LOOP_EPOLL};
/* clang-format off */
#define on_both(test) \
	{#test " (io_uring)", test, NULL, NULL, &backends[0]}, \
	{#test " (epoll)", test, NULL, NULL, &backends[1]}
	/* clang-format on */
	const struct CMUnitTest tests[] = {
		on_both(the_backend_asked_for_is_the_one_that_runs),
		cmocka_unit_test(the_environment_overrides_only_an_open_choice),
		cmocka_unit_test(where_io_uring_is_forbidden_an_open_choice_is_epoll),
		on_both(timers_fire_in_order_of_their_time),
		on_both(a_timer_does_not_fire_early),
		on_both(a_stopped_timer_never_fires_and_a_moved_one_fires_once),
		on_both(many_timers_stopped_at_random_leave_the_others_in_order),
		on_both(a_timer_that_restarts_itself_does_not_starve_sockets),
		on_both(a_watch_is_level_triggered),
		on_both(a_watch_removed_by_another_handler_is_not_called),
		on_both(a_stale_event_never_reaches_the_heir_of_slot_and_fd),
		on_both(an_event_no_longer_asked_for_is_dropped),
		on_both(a_handler_may_change_and_remove_its_own_watch),
		on_both(narrowing_a_watch_from_outside_withdraws_the_poll),
		on_both(a_hang_up_is_reported_unasked),
		on_both(a_removed_watch_lets_go_of_its_socket),
		on_both(more_watches_than_the_ring_has_entries_all_work),
		on_both(posts_from_another_thread_run_in_their_order),
		on_both(a_stop_that_comes_first_is_not_lost),
		on_both(posted_calls_are_run_before_the_loop_ends),
		on_both(what_is_written_is_read_back),
		on_both(a_file_request_that_fails_says_why),
		on_both(more_requests_than_the_ring_has_entries_all_end_once),
		on_both(file_requests_open_at_the_end_are_called_once_before_it),
		on_both(a_read_that_would_wait_for_ever_is_cancelled_at_the_end),
		on_both(work_runs_elsewhere_and_ends_on_the_loop),
		on_both(four_pieces_of_work_run_at_the_same_time),
		on_both(work_handed_in_is_finished_before_the_loop_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
