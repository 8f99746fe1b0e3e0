/* SPDX-License-Identifier: Apache-2.0 */
/* Every source of notices against a fake metadata service that misbehaves as services do. */
#include "base/notice/notice.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/notice/source.h"
#include "tests/unit/base/fake_http.h"

#define EC2_ACTION  "/latest/meta-data/spot/instance-action"
#define EC2_HINT    "/latest/meta-data/events/recommendations/rebalance"
#define EC2_SCALING "/latest/meta-data/autoscaling/target-lifecycle-state"

/* Far more than a busy machine needs: only what hangs takes so long. */
enum { HANGS_MS = 60000, TEXT_MOST = 4096 };

/* How one path is answered; "" with status 404 at first. */
struct answer {
	int status; /* 0: not at all */
	bool huge, slow;
	char body[TEXT_MOST];
};

struct world {
	char dir[64];
	char file[96];
	struct fake_http server;
	struct notice_conf conf;
	struct notice *notice;
	atomic_int changes;
	/* how the fake behaves, under lock */
	pthread_mutex_t lock;
	struct answer token, action, hint, scaling; /* EC2 */
	struct answer preempted;                    /* GCP */
	struct answer events, name;                 /* Azure */
	bool wants_token, no_flavor, dated;
	int ahead_s; /* its clock */
	int valid;   /* the number of the one token that it takes */
	int issued;
};

/* ---- the fake ---- */

static bool asks(const char *request, const char *path)
{
	const char *at = strchr(request, ' ');

	return at && strncmp(at + 1, path, strlen(path)) == 0 && strchr(" ?", at[1 + strlen(path)]);
}

static void headers_of(const struct world *w, char out[256])
{
	time_t at = time(NULL) + w->ahead_s;
	struct tm tm;
	size_t len;

	(void)snprintf(out, 256, "%sETag: e%zu\r\n",
		       w->no_flavor ? "" : "Metadata-Flavor: Google\r\n",
		       strlen(w->preempted.body));
	len = strlen(out);
	assert_non_null(gmtime_r(&at, &tm));
	if (w->dated)
		assert_true(strftime(out + len, 256 - len, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n",
				     &tm) > 0);
}

static char *reply(const struct world *w, const struct answer *a)
{
	char headers[256], *huge, *text;

	if (a->status == 0)
		return NULL;
	headers_of(w, headers);
	if (a->slow)
		(void)nanosleep(&(struct timespec){.tv_nsec = 400 * 1000 * 1000},
				NULL); /* a bit less does */
	if (a->status == 302)
		return fake_http_reply(302, "Location: " EC2_ACTION "2\r\n", "");
	if (!a->huge)
		return fake_http_reply(a->status, headers, a->body);
	huge = malloc(2 << 20);
	assert_non_null(huge);
	memset(huge, ' ', 2 << 20);
	memcpy(huge, "{\"action\":\"terminate\"}", 22);
	huge[(2 << 20) - 1] = '\0';
	text = fake_http_reply(200, headers, huge);
	free(huge);
	return text;
}

static char *give_token(struct world *w)
{
	char body[32];

	if (w->token.status != 200)
		return reply(w, &w->token);
	w->valid = ++w->issued;
	(void)snprintf(body, sizeof(body), "token-%d", w->valid);
	return fake_http_reply(200, "", body);
}

static bool has_token(const struct world *w, const char *request)
{
	char header[64];

	(void)snprintf(header, sizeof(header), "X-aws-ec2-metadata-token: token-%d\r\n", w->valid);
	return w->valid > 0 && strstr(request, header);
}

static char *answer_ec2(struct world *w, const char *request)
{
	if (strncmp(request, "PUT /latest/api/token ", 22) == 0)
		return give_token(w);
	if (w->wants_token && !has_token(w, request))
		return fake_http_reply(401, "", "<html>Unauthorized</html>");
	if (asks(request, "/latest/meta-data/instance-id"))
		return fake_http_reply(200, "", "i-0123456789abcdef0");
	if (asks(request, EC2_ACTION))
		return reply(w, &w->action);
	if (asks(request, EC2_ACTION "2")) /* where the redirect leads */
		return fake_http_reply(200, "", "{\"action\":\"terminate\"}");
	if (asks(request, EC2_HINT))
		return reply(w, &w->hint);
	return reply(w, &w->scaling);
}

static char *answer(void *arg, const char *request)
{
	struct world *w = arg;
	char *text;

	pthread_mutex_lock(&w->lock);
	if (asks(request, "/computeMetadata/v1/instance/preempted"))
		text = strstr(request, "Metadata-Flavor: Google\r\n")
			       ? reply(w, &w->preempted)
			       : fake_http_reply(403, "", "");
	else if (asks(request, "/metadata/scheduledevents"))
		text = strstr(request, "Metadata: true\r\n") ? reply(w, &w->events)
							     : fake_http_reply(400, "", "");
	else if (asks(request, "/metadata/instance/compute/name"))
		text = reply(w, &w->name);
	else
		text = answer_ec2(w, request);
	pthread_mutex_unlock(&w->lock);
	return text;
}

static void set(struct world *w, struct answer *a, int status, const char *body)
{
	pthread_mutex_lock(&w->lock);
	a->status = status;
	a->huge = false;
	(void)snprintf(a->body, sizeof(a->body), "%s", body);
	pthread_mutex_unlock(&w->lock);
}

/* {"action": …, "time": so many seconds from now by the fake's clock}. */
static void set_action(struct world *w, const char *action, int in_s)
{
	time_t at = time(NULL) + w->ahead_s + in_s;
	char body[128], when[32];
	struct tm tm;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
	(void)snprintf(body, sizeof(body), "{\"action\":\"%s\",\"time\":\"%s\"}", action, when);
	set(w, &w->action, 200, body);
}

/* ---- set-up ---- */

static void on_change(void *arg)
{
	struct world *w = arg;

	w->changes++;
}

static void set_endpoints(struct world *w)
{
	char url[64];

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", w->server.port);
	assert_int_equal(setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1), 0);
	assert_int_equal(setenv("GCE_METADATA_HOST", url + strlen("http://"), 1), 0);
	assert_int_equal(setenv("HOLDFAST_AZURE_METADATA_HOST", url, 1), 0);
	assert_int_equal(setenv("AWS_CONFIG_FILE", "/nonexistent", 1), 0);
	assert_int_equal(setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1), 0);
	assert_int_equal(unsetenv("AWS_EC2_METADATA_DISABLED"), 0);
	assert_int_equal(unsetenv("AWS_PROFILE"), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	strcpy(w->dir, "/tmp/holdfast-notice.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->file, sizeof(w->file), "%s/notice", w->dir);
	pthread_mutex_init(&w->lock, NULL);
	w->dated = true;
	w->token.status = 200;
	w->action.status = w->hint.status = w->scaling.status = w->preempted.status =
		w->events.status = w->name.status = 404;
	fake_http_start(&w->server, answer, w);
	set_endpoints(w);
	w->conf = (struct notice_conf){
		.changed = on_change, .arg = w, .dmi = w->dir, .every_ns = 20 * NS_PER_MS};
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	notice_close(w->notice);
	fake_http_stop(&w->server);
	pthread_mutex_destroy(&w->lock);
	(void)unlink(w->file); /* not every test makes it */
	(void)rmdir(w->dir);
	free(w);
	return 0;
}

static void watch(struct world *w, enum notice_where where)
{
	struct fault f = FAULT_NONE;

	w->conf.where = where;
	if (notice_open(&w->conf, &w->notice, &f) < 0)
		fail_msg("%s", f.text);
}

/* ---- what the tests do ---- */

static uint64_t now_ms(void)
{
	return clock_mono(&clock_system) / NS_PER_MS;
}

static void nap(void)
{
	const struct timespec ms = {.tv_nsec = 5 * 1000 * 1000};

	(void)nanosleep(&ms, NULL); /* early is fine: callers look again */
}

static struct notice_view look(struct world *w)
{
	struct notice_view v;

	notice_look(w->notice, &v);
	return v;
}

static struct notice_view await(struct world *w, enum notice_phase phase, uint64_t number)
{
	uint64_t until = now_ms() + HANGS_MS;

	for (; now_ms() < until; nap()) {
		struct notice_view v = look(w);

		if (v.phase == phase && v.number == number)
			return v;
	}
	fail_msg("never in phase %d with number %llu, but in %d with %llu", phase,
		 (unsigned long long)number, look(w).phase, (unsigned long long)look(w).number);
	return look(w);
}

static void await_words(struct world *w, const char *part)
{
	uint64_t until = now_ms() + HANGS_MS;
	char words[NOTICE_WORDS_MAX];

	while (!strstr(notice_words(w->notice, words), part)) {
		if (now_ms() > until)
			fail_msg("\"%s\" never said \"%s\"", words, part);
		nap();
	}
}

/* Until so many more requests have come. */
static void await_requests(struct world *w, size_t more)
{
	uint64_t until = now_ms() + HANGS_MS;
	size_t want = fake_http_count(&w->server) + more;

	for (; fake_http_count(&w->server) < want; nap())
		assert_true(now_ms() < until);
}

static void assert_never_sent(struct world *w, const char *part)
{
	size_t all = fake_http_count(&w->server);

	for (size_t i = 0; i < all && i < FAKE_MOST; i++) {
		char *request = fake_http_request(&w->server, i);

		assert_null(strstr(request, part));
		free(request);
	}
}

static size_t count_requests(struct world *w, const char *start)
{
	size_t all = fake_http_count(&w->server), n = 0;

	for (size_t i = 0; i < all && i < FAKE_MOST; i++) {
		char *request = fake_http_request(&w->server, i);

		n += strncmp(request, start, strlen(start)) == 0;
		free(request);
	}
	return n;
}

static double left_s(const struct notice_view *v)
{
	return ((double)v->deadline_ns - (double)clock_mono(&clock_system)) / 1e9;
}

/* ---- EC2 ---- */

static void a_notice_of_ec2_has_its_deadline_by_the_clock_of_ec2(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	w->ahead_s = 3 * 3600;
	w->wants_token = true;
	watch(w, NOTICE_AT_EC2);
	await_requests(w, 4);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	set_action(w, "terminate", 108);
	v = await(w, NOTICE_RUNS, 1);
	assert_int_equal(v.voice, NOTICE_EC2_ACTION);
	assert_int_equal(v.kind, NOTICE_TERMINATE);
	assert_false(v.at_once);
	assert_true(left_s(&v) > 40 && left_s(&v) < 108);
	assert_true(w->changes >= 1);
	assert_int_equal(count_requests(w, "PUT "), 1);
}

static void without_their_clock_ours_counts(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	w->dated = false;
	set_action(w, "terminate", 108);
	watch(w, NOTICE_AT_EC2);
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) > 40 && left_s(&v) < 108);
}

static void a_time_of_hours_is_the_fault_of_a_clock(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	set_action(w, "terminate", 9000);
	watch(w, NOTICE_AT_EC2);
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) <= 120);
}

static void whatever_has_an_action_is_a_notice(void **state)
{
	static const struct {
		const char *body;
		enum notice_kind kind;
		bool at_once;
	} bodies[] = {
		{"{\"action\":\"terminate\"}", NOTICE_TERMINATE, false},
		{"{\"time\":\"2020-01-01T00:00:00Z\",\"extra\":[1,{}],\"action\":\"stop\"}",
		 NOTICE_STOP, true},
		{"{\"action\":\"hibernate\",\"time\":\"yesterday\"}", NOTICE_HIBERNATE, true},
		{"{\"action\":\"park\"}", NOTICE_TERMINATE, false},
		{"{\"instance-action\":\"terminate\",\"time\":7}", NOTICE_TERMINATE, false},
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct notice_view v;

		set(w, &w->action, 200, bodies[i].body);
		watch(w, NOTICE_AT_EC2);
		v = await(w, NOTICE_RUNS, 1);
		assert_int_equal(v.kind, bodies[i].kind);
		assert_int_equal(v.at_once, bodies[i].at_once);
		notice_close(take(&w->notice));
	}
}

/* The mock says "in two minutes" at each request. */
static void a_time_that_moves_is_one_notice_and_little_news(void **state)
{
	struct world *w = *state;
	struct notice_view first, later;

	set_action(w, "terminate", 100);
	watch(w, NOTICE_AT_EC2);
	first = await(w, NOTICE_RUNS, 1);
	for (int i = 1; i < 10; i++) {
		set_action(w, "terminate", 100 + 2 * i);
		await_requests(w, 4);
	}
	later = look(w);
	assert_int_equal(later.number, 1);
	assert_true(later.deadline_ns <= first.deadline_ns);
	assert_true(w->changes <= 2);
}

static void absent_is_withdrawn_but_not_at_the_first_stray_404(void **state)
{
	struct world *w = *state;

	set_action(w, "terminate", 100);
	watch(w, NOTICE_AT_EC2);
	(void)await(w, NOTICE_RUNS, 1);
	set(w, &w->action, 404, "<html>{\"action\":\"terminate\"}</html>");
	(void)await(w, NOTICE_CALM, 1);
	set_action(w, "terminate", 100);
	(void)await(w, NOTICE_RUNS, 2);
	assert_true(count_requests(w, "GET " EC2_ACTION " ") >= 5); /* once, three times, once */
	await_words(w, "ec2");
}

static void a_refused_token_is_renewed_once(void **state)
{
	struct world *w = *state;
	size_t puts;

	w->wants_token = true;
	watch(w, NOTICE_AT_EC2);
	await_requests(w, 5);
	pthread_mutex_lock(&w->lock);
	w->valid = 0; /* the token dies */
	pthread_mutex_unlock(&w->lock);
	set_action(w, "terminate", 100);
	(void)await(w, NOTICE_RUNS, 1);
	puts = count_requests(w, "PUT ");
	assert_in_range(puts, 2, 3); /* 3: a machine so busy that one took over a second */
}

/* The reply to the PUT dies at a container's bridge; the instance allows requests without a
 * token. */
static void without_an_answer_to_the_put_it_is_asked_without_a_token(void **state)
{
	struct world *w = *state;

	set(w, &w->token, 0, "");
	set_action(w, "terminate", 100);
	watch(w, NOTICE_AT_EC2);
	(void)await(w, NOTICE_RUNS, 1);
	assert_int_equal(count_requests(w, "PUT "), 1);
}

static void where_a_token_is_a_must_the_hop_limit_is_named(void **state)
{
	struct world *w = *state;

	w->wants_token = true;
	set(w, &w->token, 0, "");
	watch(w, NOTICE_AT_EC2);
	await_words(w, "http-put-response-hop-limit");
}

static void a_token_that_is_refused_does_not_make_us_deaf(void **state)
{
	static const struct {
		int status;
		const char *body;
	} answers[] = {{403, ""}, {404, "<html>"}, {503, "busy"}, {302, ""}};
	struct world *w = *state;

	set_action(w, "terminate", 100);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		set(w, &w->token, answers[i].status, answers[i].body);
		watch(w, NOTICE_AT_EC2);
		(void)await(w, NOTICE_RUNS, 1);
		notice_close(take(&w->notice));
	}
	assert_never_sent(w, "X-aws-ec2-metadata-token: ");
}

static void break_action(struct world *w, int how)
{
	static const struct {
		int status;
		const char *body;
	} ways[] = {{0, ""},
		    {500, "{\"action\":\"stop\"}"},
		    {302, ""},
		    {200, "terminate"},
		    {200, ""},
		    {200, "[{\"action\":\"stop\"}]"},
		    {200, "{\"action\":"},
		    {200, "{}"},
		    {429, ""},
		    {200, ""}};

	set(w, &w->action, ways[how].status, ways[how].body);
	pthread_mutex_lock(&w->lock);
	w->action.huge = how == 9;
	pthread_mutex_unlock(&w->lock);
}

static void what_cannot_be_heard_invents_no_notice_and_withdraws_none(void **state)
{
	static const char *const why[] = {"instance-action: ", "status 500", "status 302",
					  "not what",          "not what",   "not what",
					  "not what",          "not what",   "status 429",
					  "instance-action: "};
	struct world *w = *state;

	for (int how = 0; how < 10; how++) {
		break_action(w, how);
		watch(w, NOTICE_AT_EC2);
		await_words(w, why[how]);
		assert_int_equal(look(w).number, 0);
		set_action(w, "terminate", 100);
		(void)await(w, NOTICE_RUNS, 1);
		break_action(w, how);
		await_words(w, why[how]);
		await_requests(w, how == 0 ? 1 : 3);
		assert_int_equal(look(w).phase, NOTICE_RUNS);
		assert_int_equal(look(w).number, 1);
		assert_false(look(w).kind == NOTICE_STOP);
		notice_close(take(&w->notice));
	}
}

static void a_slow_answer_is_an_answer(void **state)
{
	struct world *w = *state;

	w->action.slow = true;
	set_action(w, "terminate", 100);
	watch(w, NOTICE_AT_EC2);
	(void)await(w, NOTICE_RUNS, 1);
	await_words(w, "ec2");
}

/* ---- a server that drips: each byte in time, the reply never whole ---- */

struct dripper {
	int fd;
	atomic_bool stop;
	pthread_t thread;
};

static void drip_into(struct dripper *d, int fd)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n";
	bool open = send(fd, head, strlen(head), MSG_NOSIGNAL) > 0;

	for (int i = 0; open && !d->stop; i++) {
		nap();
		if (i % 20 == 0)
			open = send(fd, " ", 1, MSG_NOSIGNAL) == 1;
	}
}

static void *dripper_main(void *arg)
{
	struct dripper *d = arg;
	int fd;

	while ((fd = accept(d->fd, NULL, NULL)) >= 0) { /* until it is shut down */
		drip_into(d, fd);
		(void)close(fd);
	}
	return NULL;
}

static void dripper_start(struct dripper *d)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	char url[64];

	d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(d->fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(d->fd, 16), 0);
	assert_int_equal(getsockname(d->fd, (struct sockaddr *)&at, &len), 0);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(setenv("GCE_METADATA_HOST", url, 1), 0);
	assert_int_equal(pthread_create(&d->thread, NULL, dripper_main, d), 0);
}

static void dripper_stop(struct dripper *d)
{
	d->stop = true;
	(void)shutdown(d->fd, SHUT_RDWR); /* accept() returns */
	pthread_join(d->thread, NULL);
	(void)close(d->fd);
}

static void a_service_that_drips_is_cut_off(void **state)
{
	struct world *w = *state;
	struct dripper d = {.stop = false};

	dripper_start(&d);
	watch(w, NOTICE_AT_GCP);
	await_words(w, "gcp: GET http");
	notice_close(take(&w->notice));
	dripper_stop(&d);
}

static void a_rebalance_recommendation_is_a_hint(void **state)
{
	struct world *w = *state;

	set(w, &w->hint, 200, "{\"noticeTime\":\"2026-11-30T17:25:00Z\"}");
	watch(w, NOTICE_AT_EC2);
	assert_int_equal(await(w, NOTICE_HINT, 0).hints, 1);
	set_action(w, "terminate", 100);
	assert_int_equal(await(w, NOTICE_RUNS, 1).hints, 1);
}

static void an_instance_that_its_group_lets_go_has_a_notice(void **state)
{
	struct world *w = *state;

	set(w, &w->scaling, 200, "InService");
	watch(w, NOTICE_AT_EC2);
	await_requests(w, 5);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	set(w, &w->scaling, 200, "Terminated");
	assert_int_equal(await(w, NOTICE_RUNS, 1).voice, NOTICE_EC2_SCALING);
	set(w, &w->scaling, 200, "InService");
	(void)await(w, NOTICE_CALM, 1);
}

static void ec2_that_is_switched_off_is_not_asked(void **state)
{
	struct world *w = *state;

	assert_int_equal(setenv("AWS_EC2_METADATA_DISABLED", "true", 1), 0);
	watch(w, NOTICE_AT_EC2);
	await_words(w, "forbids");
	assert_int_equal(fake_http_count(&w->server), 0);
}

/* ---- GCP ---- */

static void gcp_is_asked_to_answer_when_it_changes(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	set(w, &w->preempted, 200, "FALSE");
	watch(w, NOTICE_AT_GCP);
	await_requests(w, 3);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	set(w, &w->preempted, 200, "TRUE\n");
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) <= 30);
	assert_true(
		count_requests(w, "GET /computeMetadata/v1/instance/preempted?wait_for_change=true&"
				  "timeout_sec=5&last_etag=e5 ") >= 1);
	set(w, &w->preempted, 200, "FALSE");
	(void)await(w, NOTICE_CALM, 1);
}

static void what_is_not_google_is_not_believed(void **state)
{
	struct world *w = *state;

	w->no_flavor = true;
	set(w, &w->preempted, 200, "TRUE");
	watch(w, NOTICE_AT_GCP);
	await_words(w, "lacks Metadata-Flavor");
	assert_int_equal(look(w).number, 0);
}

static void gcp_that_fails_withdraws_nothing(void **state)
{
	struct world *w = *state;

	set(w, &w->preempted, 200, "TRUE");
	watch(w, NOTICE_AT_GCP);
	(void)await(w, NOTICE_RUNS, 1);
	set(w, &w->preempted, 503, "FALSE");
	await_words(w, "status 503");
	set(w, &w->preempted, 200, "MAYBE");
	await_words(w, "not what");
	assert_int_equal(look(w).phase, NOTICE_RUNS);
}

/* ---- Azure ---- */

static void set_events(struct world *w, const char *type, const char *status, const char *machine,
		       int in_s)
{
	time_t at = time(NULL) + in_s;
	char body[512], when[64];
	struct tm tm;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(when, sizeof(when), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
	(void)snprintf(
		body, sizeof(body),
		"{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"A1\",\"EventStatus\":\"%s\","
		"\"EventType\":\"%s\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"%s\"],"
		"\"NotBefore\":\"%s\"}]}",
		status, type, machine, in_s ? when : "");
	set(w, &w->events, 200, body);
}

static void an_event_of_azure_counts_if_it_names_us(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	set(w, &w->name, 200, "vmss_0\n");
	set_events(w, "Preempt", "Scheduled", "vmss_1", 30);
	watch(w, NOTICE_AT_AZURE);
	await_requests(w, 4);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	set_events(w, "Preempt", "Scheduled", "VMSS_0", 30);
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) < 30 && !v.at_once);
	set(w, &w->events, 200, "{\"DocumentIncarnation\":3,\"Events\":[]}");
	(void)await(w, NOTICE_CALM, 1);
	assert_int_equal(count_requests(w, "POST "), 0);
}

static void events_that_are_no_end_or_far_off_are_none(void **state)
{
	struct world *w = *state;

	set_events(w, "Freeze", "Scheduled", "vm", 30);
	watch(w, NOTICE_AT_AZURE);
	await_requests(w, 5);
	set_events(w, "Redeploy", "Scheduled", "vm", 7 * 86400);
	await_requests(w, 3);
	set(w, &w->events, 200, "{\"Events\":7}");
	await_words(w, "not what");
	assert_int_equal(look(w).number, 0);
}

static void an_event_that_has_started_is_at_once(void **state)
{
	struct world *w = *state;

	set_events(w, "Preempt", "Started", "vm", 0);
	watch(w, NOTICE_AT_AZURE);
	assert_true(await(w, NOTICE_RUNS, 1).at_once);
}

/* ---- a file, and being told ---- */

static void write_file(struct world *w, const char *text, int age_s)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
	char temporary[128];
	FILE *out;

	(void)snprintf(temporary, sizeof(temporary), "%s.tmp", w->file);
	out = fopen(temporary, "we");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(utimensat(AT_FDCWD, temporary, times, 0), 0);
	assert_int_equal(rename(temporary, w->file), 0);
}

static void a_file_that_appears_is_a_notice_until_it_goes(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	w->conf.file = w->file;
	watch(w, NOTICE_NOWHERE);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	write_file(w, "600\n", 0);
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) > 500 && left_s(&v) <= 600);
	assert_int_equal(unlink(w->file), 0);
	(void)await(w, NOTICE_CALM, 1);
	write_file(w, "terminate", 0);
	v = await(w, NOTICE_RUNS, 2);
	assert_true(left_s(&v) <= 30);
}

static void the_age_of_the_file_counts(void **state)
{
	struct world *w = *state;
	struct notice_view v;

	write_file(w, "600", 300);
	w->conf.file = w->file;
	watch(w, NOTICE_NOWHERE);
	v = await(w, NOTICE_RUNS, 1);
	assert_true(left_s(&v) > 200 && left_s(&v) <= 300);
	write_file(w, "600", 86400); /* an old one: no time is promised */
	v = await(w, NOTICE_RUNS, 1);
	while (left_s(&v) > 10)
		v = look(w);
	assert_true(v.at_once);
}

static void what_is_no_file_is_no_notice(void **state)
{
	struct world *w = *state;

	assert_int_equal(mkfifo(w->file, 0600), 0);
	w->conf.file = w->file;
	watch(w, NOTICE_AT_EC2); /* whose requests say that time passes */
	await_requests(w, 6);
	assert_int_equal(look(w).phase, NOTICE_CALM);
}

static void a_notice_may_be_told_and_taken_back(void **state)
{
	struct world *w = *state;
	struct notice_view v;
	char words[NOTICE_WORDS_MAX];

	watch(w, NOTICE_NOWHERE);
	notice_tell(w->notice, 500 * NS_PER_S);
	v = look(w);
	assert_int_equal(v.phase, NOTICE_RUNS);
	assert_int_equal(v.voice, NOTICE_TOLD);
	assert_true(left_s(&v) > 300 && left_s(&v) <= 500);
	assert_int_equal(w->changes, 1);
	notice_tell(w->notice, 500 * NS_PER_S);
	assert_int_equal(w->changes, 1);
	notice_tell(w->notice, 0);
	v = look(w);
	assert_true(v.number == 1 && left_s(&v) <= 30);
	assert_int_equal(w->changes, 2);
	notice_cancel(w->notice);
	assert_int_equal(look(w).phase, NOTICE_CALM);
	assert_int_equal(w->changes, 3);
	assert_string_equal(notice_words(w->notice, words), "none");
}

static void a_deadline_that_creeps_is_told_now_and_then(void **state)
{
	struct world *w = *state;

	watch(w, NOTICE_NOWHERE);
	notice_tell(w->notice, 500 * NS_PER_S);
	notice_tell(w->notice, 499 * NS_PER_S);
	assert_int_equal(w->changes, 1);
	for (uint64_t s = 498; s > 470; s -= 2)
		notice_tell(w->notice, s * NS_PER_S);
	assert_in_range(w->changes, 3, 11);
}

/* ---- where we are ---- */

static void firmware(struct world *w, const char *name, const char *text)
{
	char path[128];
	FILE *out;

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	(void)unlink(path);
	if (!text)
		return;
	out = fopen(path, "we");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void the_firmware_names_the_cloud(void **state)
{
	static const struct {
		const char *name, *text;
		enum notice_where where;
	} machines[] = {
		{"sys_vendor", "Amazon EC2\n", NOTICE_AT_EC2},
		{"bios_version", "4.11.amazon\n", NOTICE_AT_EC2},
		{"product_name", "Google Compute Engine\n", NOTICE_AT_GCP},
		{"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", NOTICE_AT_AZURE},
		{"sys_vendor", "Microsoft Corporation\n", NOTICE_NOWHERE},
		{"sys_vendor", "QEMU\n", NOTICE_NOWHERE},
		{"board_name", "QEMU\n", NOTICE_AUTO},
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		firmware(w, machines[i].name, machines[i].text);
		assert_int_equal(where_by_firmware(w->dir), machines[i].where);
		firmware(w, machines[i].name, NULL);
	}
}

static void auto_goes_where_the_environment_points(void **state)
{
	struct world *w = *state;

	assert_int_equal(unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), 0);
	set(w, &w->preempted, 200, "TRUE");
	watch(w, NOTICE_AUTO);
	assert_int_equal(await(w, NOTICE_RUNS, 1).voice, NOTICE_GCP);
	await_words(w, "gcp");
}

static void auto_asks_nobody_on_a_machine_that_is_in_no_cloud(void **state)
{
	struct world *w = *state;

	assert_int_equal(unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), 0);
	assert_int_equal(unsetenv("GCE_METADATA_HOST"), 0);
	assert_int_equal(unsetenv("HOLDFAST_AZURE_METADATA_HOST"), 0);
	firmware(w, "sys_vendor", "LENOVO");
	watch(w, NOTICE_AUTO);
	await_words(w, "no cloud is here");
	firmware(w, "sys_vendor", NULL);
}

/* ---- probing, in a thread that may ask ---- */

struct probing {
	struct ear ear;
	struct ask ask;
	const struct notice_ops *ops;
	bool yes;
};

static void run_probe(struct ask *a)
{
	struct probing *p = a->arg;

	p->yes = p->ops->locate(&p->ear) != EAR_OFF && p->ops->probe(&p->ear);
}

static void probe_failed(struct ask *a, const struct fault *f)
{
	fail_msg("%s", f->text);
}

static bool probe(const struct notice_ops *o)
{
	struct probing p = {.ops = o};

	p.ear.ask = &p.ask;
	p.ask = (struct ask){.run = run_probe, .failed = probe_failed, .arg = &p};
	assert_int_equal(ask_start(&p.ask, "probe"), 0);
	pthread_join(p.ask.thread, NULL);
	pthread_mutex_destroy(&p.ask.lock);
	return p.yes;
}

static void a_service_is_known_by_what_it_answers(void **state)
{
	struct world *w = *state;

	assert_true(probe(&notice_ec2));
	set(w, &w->token, 0, "");
	assert_true(probe(&notice_ec2)); /* behind a bridge */
	assert_false(probe(&notice_gcp));
	assert_false(probe(&notice_azure));
	set(w, &w->preempted, 200, "FALSE");
	assert_true(probe(&notice_gcp));
	w->no_flavor = true;
	assert_false(probe(&notice_gcp));
	set(w, &w->name, 200, "vm");
	assert_true(probe(&notice_azure));
}

/* ---- the end ---- */

static void closing_does_not_wait_for_who_hangs(void **state)
{
	struct world *w = *state;
	uint64_t began;

	set(w, &w->events, 0, ""); /* may take two minutes */
	watch(w, NOTICE_AT_AZURE);
	await_requests(w, 2);
	began = now_ms();
	notice_close(take(&w->notice));
	assert_true(now_ms() - began < HANGS_MS);
	watch(w, NOTICE_AT_EC2); /* and from the first moment on */
	notice_close(take(&w->notice));
	notice_close(NULL);
}

static void places_have_names(void **state)
{
	enum notice_where where;

	assert_true(notice_where_of("azure", &where));
	assert_int_equal(where, NOTICE_AT_AZURE);
	assert_false(notice_where_of("aws", &where));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_notice_of_ec2_has_its_deadline_by_the_clock_of_ec2),
		TEST(without_their_clock_ours_counts),
		TEST(a_time_of_hours_is_the_fault_of_a_clock),
		TEST(whatever_has_an_action_is_a_notice),
		TEST(a_time_that_moves_is_one_notice_and_little_news),
		TEST(absent_is_withdrawn_but_not_at_the_first_stray_404),
		TEST(a_refused_token_is_renewed_once),
		TEST(without_an_answer_to_the_put_it_is_asked_without_a_token),
		TEST(where_a_token_is_a_must_the_hop_limit_is_named),
		TEST(a_token_that_is_refused_does_not_make_us_deaf),
		TEST(what_cannot_be_heard_invents_no_notice_and_withdraws_none),
		TEST(a_slow_answer_is_an_answer),
		TEST(a_service_that_drips_is_cut_off),
		TEST(a_rebalance_recommendation_is_a_hint),
		TEST(an_instance_that_its_group_lets_go_has_a_notice),
		TEST(ec2_that_is_switched_off_is_not_asked),
		TEST(gcp_is_asked_to_answer_when_it_changes),
		TEST(what_is_not_google_is_not_believed),
		TEST(gcp_that_fails_withdraws_nothing),
		TEST(an_event_of_azure_counts_if_it_names_us),
		TEST(events_that_are_no_end_or_far_off_are_none),
		TEST(an_event_that_has_started_is_at_once),
		TEST(a_file_that_appears_is_a_notice_until_it_goes),
		TEST(the_age_of_the_file_counts),
		TEST(what_is_no_file_is_no_notice),
		TEST(a_notice_may_be_told_and_taken_back),
		TEST(a_deadline_that_creeps_is_told_now_and_then),
		TEST(the_firmware_names_the_cloud),
		TEST(auto_goes_where_the_environment_points),
		TEST(auto_asks_nobody_on_a_machine_that_is_in_no_cloud),
		TEST(a_service_is_known_by_what_it_answers),
		TEST(closing_does_not_wait_for_who_hangs),
		cmocka_unit_test(places_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
