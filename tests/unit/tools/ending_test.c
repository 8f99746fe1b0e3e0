/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a mount, with a script on the other side of the socket. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "tools/ending.h"

/* The mount: reads a line, sends `says`, then hangs up, after us if `waits`. */
struct peer {
	const char *says;
	bool waits;
	/* result */
	char asked[64];
	bool saw_hang_up;
	/* its own */
	char dir[32];
	struct sockaddr_un at;
	int fd;
	pthread_t thread;
};

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	scoped(fd_close) int fd = accept(p->fd, NULL, NULL);
	size_t n = 0;
	char byte;

	while (n < sizeof(p->asked) - 1 && recv(fd, &byte, 1, 0) == 1 && byte != '\n')
		p->asked[n++] = byte;
	/* In pieces: a line is not a packet. */
	for (const char *c = p->says; *c; c += strlen(c) < 7 ? strlen(c) : 7)
		(void)!send(fd, c, strlen(c) < 7 ? strlen(c) : 7, MSG_NOSIGNAL);
	if (p->waits)
		p->saw_hang_up = recv(fd, &byte, 1, 0) == 0;
	return NULL;
}

static void peer_start(struct peer *p, struct client *c)
{
	struct fault f = FAULT_NONE;

	(void)snprintf(p->dir, sizeof(p->dir), "/tmp/holdfast-test-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->at.sun_family = AF_UNIX;
	(void)snprintf(p->at.sun_path, sizeof(p->at.sun_path), "%s/s", p->dir);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->fd, (struct sockaddr *)&p->at, sizeof(p->at)), 0);
	assert_int_equal(listen(p->fd, 1), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
	if (client_connect(p->at.sun_path, c, &f) < 0)
		fail_msg("%s", f.text);
}

static void peer_end(struct peer *p, struct client *c)
{
	client_close(c);
	assert_int_equal(pthread_join(p->thread, NULL), 0);
	fd_close(p->fd);
	(void)unlink(p->at.sun_path);
	(void)rmdir(p->dir);
}

struct seen {
	int unmount_rc;
	unsigned unmounts;
	uint64_t left[4];
	unsigned n;
	char why[32];
};

static int unmount(void *arg, struct fault *f)
{
	struct seen *s = arg;

	s->unmounts++;
	return s->unmount_rc ? fault_errno(f, s->unmount_rc, "/ck") : 0;
}

static void progress(void *arg, uint64_t left_bytes, const char *why)
{
	struct seen *s = arg;

	assert_true(s->n < 4);
	s->left[s->n++] = left_bytes;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
}

static int converse(struct peer *p, struct ending *e, struct seen *s, struct fault *f)
{
	struct client c = CLIENT_NONE;
	int rc;

	*f = FAULT_NONE;
	e->progress = progress;
	e->unmount = unmount;
	e->arg = s;
	peer_start(p, &c);
	rc = ending_run(&c, e, f);
	peer_end(p, &c);
	return rc;
}

static void it_waits_then_unmounts_then_hears_how_it_ended(void **state)
{
	struct peer p = {.says = "{\"left\":70,\"why\":\"PUT: 503\"}\n{\"left\":5,\"why\":\"\"}\n"
				 "{\"ready\":true}\n{\"done\":true}\n"};
	struct ending e = {.timeout_s = 1.5};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), 0);
	assert_string_equal(p.asked, "end 1.500 keep");
	assert_int_equal(s.n, 2);
	assert_int_equal(s.left[0], 70);
	assert_int_equal(s.left[1], 5);
	assert_string_equal(s.why, "");
	assert_int_equal(s.unmounts, 1);
	assert_true(e.unmounted);
}

static void to_discard_is_asked_for_by_name(void **state)
{
	struct peer p = {.says = "{\"ready\":true}\n{\"done\":true}\n"};
	struct ending e = {.discard = true};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), 0);
	assert_string_equal(p.asked, "end 0.000 discard");
}

static void what_is_not_acknowledged_is_not_unmounted(void **state)
{
	struct peer p = {
		.says = "{\"left\":70,\"why\":\"\"}\n{\"error\":\"step-2/ grows\",\"code\":110}\n"};
	struct ending e = {.timeout_s = 1};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -ETIMEDOUT);
	assert_string_equal(f.text, "step-2/ grows");
	assert_int_equal(s.unmounts, 0);
	assert_false(e.unmounted);
}

static void a_busy_mount_is_hung_up_on_so_that_it_goes_on(void **state)
{
	struct peer p = {.says = "{\"ready\":true}\n", .waits = true};
	struct ending e = {.timeout_s = 0};
	struct seen s = {.unmount_rc = -EBUSY};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -EBUSY);
	assert_false(e.unmounted);
	assert_true(p.saw_hang_up);
}

static void an_error_after_the_unmounting_leaves_it_unmounted(void **state)
{
	struct peer p = {
		.says = "{\"ready\":true}\n{\"error\":\"record 9: denied\",\"code\":13}\n"};
	struct ending e = {.timeout_s = 0};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -EACCES);
	assert_string_equal(f.text, "record 9: denied");
	assert_true(e.unmounted);
}

static void a_mount_that_dies_meanwhile_is_no_success(void **state)
{
	struct peer p = {.says = "{\"left\":70"};
	struct ending e = {.timeout_s = 0};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -EPIPE);
	assert_non_null(strstr(f.text, "hung up"));
}

static void what_is_no_json_object_is_refused_and_quoted(void **state)
{
	struct peer p = {.says = "[1]\n"};
	struct ending e = {.timeout_s = 0};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -EPROTO);
	assert_non_null(strstr(f.text, "'[1]'"));
}

static void an_error_without_a_sane_code_is_still_an_error(void **state)
{
	struct peer p = {.says = "{\"error\":\"odd\",\"code\":-3}\n"};
	struct ending e = {.timeout_s = 0};
	struct seen s = {.n = 0};
	struct fault f;

	assert_int_equal(converse(&p, &e, &s, &f), -EIO);
}

static void a_socket_where_nobody_listens_is_an_ending_mount(void **state)
{
	struct client c = CLIENT_NONE;
	struct fault f = FAULT_NONE;

	assert_int_equal(client_connect("/tmp/holdfast-no-such-socket", &c, &f), -ENOTCONN);
	assert_non_null(strstr(f.text, "/tmp/holdfast-no-such-socket"));
}

static void a_path_elsewhere_is_on_no_mount(void **state)
{
	struct client c = CLIENT_NONE;
	struct fault f = FAULT_NONE;

	assert_int_equal(client_open("/proc", &c, &f), -ENOTTY);
	assert_string_equal(f.text, "/proc is not on a holdfast mount");
	assert_int_equal(client_open("/no/such/path", &c, &f), -ENOENT);
	assert_non_null(strstr(f.text, "/no/such/path"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_waits_then_unmounts_then_hears_how_it_ended),
		cmocka_unit_test(to_discard_is_asked_for_by_name),
		cmocka_unit_test(what_is_not_acknowledged_is_not_unmounted),
		cmocka_unit_test(a_busy_mount_is_hung_up_on_so_that_it_goes_on),
		cmocka_unit_test(an_error_after_the_unmounting_leaves_it_unmounted),
		cmocka_unit_test(a_mount_that_dies_meanwhile_is_no_success),
		cmocka_unit_test(what_is_no_json_object_is_refused_and_quoted),
		cmocka_unit_test(an_error_without_a_sane_code_is_still_an_error),
		cmocka_unit_test(a_socket_where_nobody_listens_is_an_ending_mount),
		cmocka_unit_test(a_path_elsewhere_is_on_no_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
