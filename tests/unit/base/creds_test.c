/* SPDX-License-Identifier: Apache-2.0 */
/* Every source of AWS keys against one fake of IMDS, STS and a container endpoint. */
#include "base/creds.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/base/fake_http.h"

#define ROLE       "arn:aws:iam::123456789012:role/trainer"
#define SECRET     "sUpErSeCrEt"
#define IMDS_ROLES "/latest/meta-data/iam/security-credentials/"

enum answer { ANSWER_GOOD, ANSWER_SILENT, ANSWER_503, ANSWER_403, ANSWER_404, ANSWER_JUNK };

struct world {
	char dir[64];
	char config[96];
	char credentials[96];
	char token_file[96];
	struct fake_http server;
	/* how the fake behaves; the test's thread writes, the server's reads */
	_Atomic enum answer token;
	_Atomic enum answer keys; /* of IMDS and the container endpoint */
	_Atomic enum answer sts;
	_Atomic int life_s;
	_Atomic int ahead_s; /* its clock */
	atomic_bool same_keys;
	/* server thread */
	int issued;
};

/* ---- the fake ---- */

static void iso_time(char out[32], time_t at)
{
	struct tm tm;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
}

static void date_header(char out[64], time_t at)
{
	struct tm tm;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(out, 64, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm) > 0);
}

static char *failure(enum answer how)
{
	switch (how) {
	case ANSWER_503:
		return fake_http_reply(503, "", "<h1>" SECRET "</h1>");
	case ANSWER_403:
		return fake_http_reply(403, "",
				       "<ErrorResponse><Error><Code>AccessDenied</Code>"
				       "<Message>" SECRET "</Message></Error></ErrorResponse>");
	case ANSWER_404:
		return fake_http_reply(404, "", "<html>" SECRET "</html>");
	case ANSWER_JUNK:
		return fake_http_reply(200, "", "{\"SecretAccessKey\": \"" SECRET "\"");
	default:
		return NULL;
	}
}

static char *json_keys(struct world *w)
{
	char until[32];
	char body[512];

	if (w->keys != ANSWER_GOOD)
		return failure(w->keys);
	if (!w->same_keys || w->issued == 0)
		w->issued++;
	iso_time(until, time(NULL) + w->life_s);
	(void)snprintf(body, sizeof(body),
		       "{\"Code\": \"Success\", \"AccessKeyId\": \"ASIA%d\", "
		       "\"SecretAccessKey\": \"" SECRET "\", \"Token\": \"token-%d\", "
		       "\"Expiration\": \"%s\"}",
		       w->issued, w->issued, until);
	return fake_http_reply(200, "", body);
}

static bool clock_agrees(const struct world *w, const char *request)
{
	const char *stamp = strstr(request, "x-amz-date: ");
	struct tm tm = {.tm_isdst = 0};
	long off_s;

	if (!stamp)
		return true;
	if (!strptime(stamp + strlen("x-amz-date: "), "%Y%m%dT%H%M%SZ", &tm))
		return false;
	off_s = (long)(timegm(&tm) - time(NULL) - w->ahead_s);
	return off_s > -300 && off_s < 300;
}

static char *sts_reply(struct world *w, const char *request)
{
	char date[64];
	char until[32];
	char body[1024];

	if (w->sts != ANSWER_GOOD)
		return failure(w->sts);
	date_header(date, time(NULL) + w->ahead_s);
	if (!clock_agrees(w, request))
		return fake_http_reply(403, date,
				       "<ErrorResponse><Error><Code>SignatureDoesNotMatch"
				       "</Code></Error></ErrorResponse>");
	w->issued++;
	iso_time(until, time(NULL) + w->ahead_s + w->life_s);
	(void)snprintf(
		body, sizeof(body),
		"<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
		"<AssumeRoleResult><AssumedRoleUser><Arn>x</Arn></AssumedRoleUser><Credentials>"
		"<AccessKeyId>ASIASTS%d</AccessKeyId><SecretAccessKey>" SECRET
		"</SecretAccessKey><SessionToken>a&#43;b%d</SessionToken>"
		"<Expiration>%s</Expiration></Credentials></AssumeRoleResult>"
		"</AssumeRoleResponse>",
		w->issued, w->issued, until);
	return fake_http_reply(200, date, body);
}

static bool is(const char *request, const char *start)
{
	return strncmp(request, start, strlen(start)) == 0;
}

static char *answer(void *arg, const char *request)
{
	struct world *w = arg;

	if (is(request, "PUT /latest/api/token "))
		return w->token == ANSWER_GOOD ? fake_http_reply(200, "", "the-token")
					       : failure(w->token);
	if (is(request, "POST / "))
		return sts_reply(w, request);
	if (is(request, "GET /container"))
		return json_keys(w);
	if (!strstr(request, "X-aws-ec2-metadata-token: the-token\r\n"))
		return fake_http_reply(401, "", "");
	if (is(request, "GET " IMDS_ROLES " "))
		return w->keys == ANSWER_404 ? failure(ANSWER_404)
					     : fake_http_reply(200, "", "trainer-role");
	if (is(request, "GET " IMDS_ROLES "trainer-role "))
		return json_keys(w);
	return fake_http_reply(404, "", "");
}

/* ---- set-up ---- */

static void write_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* No variable of the machine that runs the test may reach it, proxies included. */
static void clear_environment(void)
{
	static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy",
					      "HTTPS_PROXY", "ALL_PROXY"};
	extern char **environ;

	for (char **e = environ; *e;) {
		char name[128];

		if (strncmp(*e, "AWS_", 4) != 0) {
			e++;
			continue;
		}
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		assert_int_equal(unsetenv(name), 0);
		e = environ;
	}
	for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++)
		assert_int_equal(unsetenv(proxies[i]), 0);
}

static void set_url(const struct world *w, const char *variable, const char *path)
{
	char url[128];

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", w->server.port, path);
	assert_int_equal(setenv(variable, url, 1), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	clear_environment();
	w->life_s = 3600;
	strcpy(w->dir, "/tmp/holdfast-creds.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->config, sizeof(w->config), "%s/config", w->dir);
	(void)snprintf(w->credentials, sizeof(w->credentials), "%s/credentials", w->dir);
	(void)snprintf(w->token_file, sizeof(w->token_file), "%s/token", w->dir);
	fake_http_start(&w->server, answer, w);
	assert_int_equal(setenv("AWS_CONFIG_FILE", w->config, 1), 0);
	assert_int_equal(setenv("AWS_SHARED_CREDENTIALS_FILE", w->credentials, 1), 0);
	assert_int_equal(setenv("AWS_REGION", "eu-west-1", 1), 0);
	set_url(w, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "");
	set_url(w, "AWS_ENDPOINT_URL_STS", "");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fake_http_stop(&w->server);
	(void)unlink(w->config); /* not every test writes them all */
	(void)unlink(w->credentials);
	(void)unlink(w->token_file);
	(void)rmdir(w->dir);
	free(w);
	return 0;
}

/* ---- what the tests do ---- */

/* A provider and the configuration that it looks into. */
struct opened {
	struct aws_conf *conf;
	struct creds *creds;
};

static void opened_fini(struct opened *o)
{
	creds_free(o->creds);
	aws_conf_free(o->conf);
}
SCOPE_VAL(struct opened, opened_fini)

static int try_open(const char *profile, struct opened *o, struct fault *f)
{
	*o = (struct opened){.conf = NULL};
	if (aws_conf_load(profile, &o->conf, f) < 0)
		fail_msg("%s", f->text);
	return creds_open(o->conf, &o->creds, f);
}

static struct opened open_as(const char *profile)
{
	struct fault f = FAULT_NONE;
	struct opened o;

	if (try_open(profile, &o, &f) < 0)
		fail_msg("%s", f.text);
	return o;
}

/* Whatever goes wrong, no secret is told. */
static void assert_refused(const char *profile, int code, const char *because)
{
	struct fault f = FAULT_NONE;
	scoped(opened_fini) struct opened o;

	assert_int_equal(try_open(profile, &o, &f), code);
	if (!strstr(f.text, because))
		fail_msg("\"%s\" does not say \"%s\"", f.text, because);
	assert_null(strstr(f.text, SECRET));
	assert_null(o.creds);
}

static uint64_t assert_access(struct opened *o, const char *access)
{
	struct sign_keys k;
	struct fault f = FAULT_NONE;
	uint64_t generation = 0;

	if (creds_get(o->creds, &k, &generation, &f) < 0)
		fail_msg("%s", f.text);
	assert_string_equal(k.access, access);
	assert_string_equal(k.secret, SECRET);
	return generation;
}

static void assert_source(struct opened *o, const char *part)
{
	if (!strstr(creds_source(o->creds), part))
		fail_msg("source is \"%s\", not \"%s\"", creds_source(o->creds), part);
}

static void assert_asked(struct world *w, size_t i, const char *part)
{
	scoped(free) char *request = fake_http_request(&w->server, i);

	if (!strstr(request, part))
		fail_msg("request %zu does not hold \"%s\":\n%s", i, part, request);
}

static uint64_t now_ms(void)
{
	return clock_mono(&clock_system) / NS_PER_MS;
}

/* Far more than a busy machine needs: only what hangs takes so long. */
enum { HANGS_MS = 60000 };

static void nap(void)
{
	const struct timespec ms = {.tv_nsec = 5 * 1000 * 1000};

	(void)nanosleep(&ms, NULL); /* early is fine: callers look again */
}

/* Until creds_get() says rc, and for success with another generation than `old`. */
static void await(struct opened *o, int rc, uint64_t old, struct fault *f)
{
	uint64_t until = now_ms() + HANGS_MS;
	struct sign_keys k;

	while (now_ms() < until) {
		uint64_t generation = old;
		int got = creds_get(o->creds, &k, &generation, f);

		if (got == rc && (rc < 0 || generation != old))
			return;
		nap();
	}
	fail_msg("creds_get() never said %d", rc);
}

/* ---- order ---- */

static void set_environment_keys(void)
{
	setenv("AWS_ACCESS_KEY_ID", "AKIAENV", 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
}

static void sources_are_asked_in_the_order_of_the_aws_tools(void **state)
{
	static const char role[] = "[default]\nrole_arn = " ROLE "\nsource_profile = base\n"
				   "credential_process = echo '{\"Version\": 1, \"AccessKeyId\": "
				   "\"AKIAPROC\", \"SecretAccessKey\": \"" SECRET "\"}'\n"
				   "[profile base]\naws_access_key_id = AKIABASE\n"
				   "aws_secret_access_key = " SECRET "\n";
	static const char keys[] = "[default]\naws_access_key_id = AKIAFILE\n"
				   "aws_secret_access_key = " SECRET "\n";
	struct world *w = *state;

	write_file(w->config, role);
	write_file(w->credentials, keys);
	write_file(w->token_file, "web-token\n");
	set_environment_keys();
	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w->token_file, 1);
	setenv("AWS_ROLE_ARN", ROLE, 1);
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "AKIAENV");
		assert_source(&o, "environment");
		assert_int_equal(fake_http_count(&w->server), 0);
	}
	unsetenv("AWS_ACCESS_KEY_ID");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIASTS1");
		assert_source(&o, "profile default, role " ROLE);
	}
	write_file(w->config,
		   "[default]\ncredential_process = echo '{\"Version\": 1, "
		   "\"AccessKeyId\": \"AKIAPROC\", \"SecretAccessKey\": \"" SECRET "\"}'\n"
		   "aws_access_key_id = AKIACONF\naws_secret_access_key = " SECRET "\n");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIASTS2");
		assert_source(&o, "web identity");
	}
	unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "AKIAFILE");
		assert_source(&o, "profile default");
	}
	write_file(w->credentials, "");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "AKIAPROC");
		assert_source(&o, "credential_process");
	}
	write_file(w->config, "[default]\naws_access_key_id = AKIACONF\n"
			      "aws_secret_access_key = " SECRET "\n");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "AKIACONF");
	}
	write_file(w->config, "");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIA3");
		assert_source(&o, "container endpoint");
	}
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIA4");
		assert_source(&o, "instance role trainer-role");
	}
}

static void a_profile_asked_for_by_name_wins_over_environment_keys(void **state)
{
	struct world *w = *state;

	set_environment_keys();
	write_file(w->credentials, "[research]\naws_access_key_id = AKIAFILE\n"
				   "aws_secret_access_key = " SECRET "\naws_session_token = t\n");
	scoped(opened_fini) struct opened o = open_as("research");
	struct sign_keys k;

	assert_access(&o, "AKIAFILE");
	assert_int_equal(creds_get(o.creds, &k, NULL, NULL), 0);
	assert_string_equal(k.token, "t");
}

static void half_a_pair_of_keys_is_named(void **state)
{
	struct world *w = *state;

	setenv("AWS_ACCESS_KEY_ID", "AKIAENV", 1);
	assert_refused(NULL, -EINVAL, "AWS_SECRET_ACCESS_KEY is not");
	unsetenv("AWS_ACCESS_KEY_ID");
	write_file(w->credentials, "[default]\naws_access_key_id = AKIAFILE\n");
	assert_refused(NULL, -EINVAL, "profile default: aws_secret_access_key is missing");
}

static void without_any_source_the_fault_says_where_was_looked(void **state)
{
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	assert_refused(NULL, -ENOKEY, "environment or profile default");
	assert_refused(NULL, -ENOKEY, "instance role switched off");
}

/* ---- roles ---- */

static void a_role_is_assumed_with_the_keys_of_its_source_profile(void **state)
{
	struct world *w = *state;

	write_file(w->config,
		   "[profile train]\nrole_arn = " ROLE "\nsource_profile = base\n"
		   "external_id = a/b\nduration_seconds = 900\nrole_session_name = me\n");
	write_file(w->credentials, "[base]\naws_access_key_id = AKIABASE\n"
				   "aws_secret_access_key = " SECRET "\n");
	setenv("AWS_PROFILE", "train", 1);
	scoped(opened_fini) struct opened o = open_as(NULL);
	struct sign_keys k;

	assert_access(&o, "ASIASTS1");
	assert_int_equal(creds_get(o.creds, &k, NULL, NULL), 0);
	assert_string_equal(k.token, "a+b1"); /* entities are decoded */
	assert_int_equal(fake_http_count(&w->server), 1);
	assert_asked(w, 0, "Credential=AKIABASE/");
	assert_asked(w, 0, "/eu-west-1/sts/aws4_request");
	assert_asked(w, 0,
		     "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A"
		     "123456789012%3Arole%2Ftrainer&RoleSessionName=me&ExternalId=a%2Fb&"
		     "DurationSeconds=900");
}

static void a_role_may_be_the_source_of_a_role(void **state)
{
	struct world *w = *state;

	write_file(w->config,
		   "[default]\nrole_arn = " ROLE "2\nsource_profile = middle\n"
		   "[profile middle]\nrole_arn = " ROLE "1\nsource_profile = base\n"
		   "[profile base]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": "
		   "\"AKIAPROC\", \"SecretAccessKey\": \"" SECRET "\"}'\n");
	scoped(opened_fini) struct opened o = open_as(NULL);

	assert_access(&o, "ASIASTS2");
	assert_int_equal(fake_http_count(&w->server), 2);
	assert_asked(w, 0, "Credential=AKIAPROC/");
	assert_asked(w, 0, "trainer1&");
	assert_asked(w, 1, "Credential=ASIASTS1/");
	assert_asked(w, 1, "x-amz-security-token: a+b1");
	assert_asked(w, 1, "trainer2&");
}

static void a_role_takes_its_keys_from_the_named_source(void **state)
{
	struct world *w = *state;

	write_file(w->config,
		   "[default]\nrole_arn = " ROLE "\ncredential_source = Ec2InstanceMetadata\n"
		   "[profile env]\nrole_arn = " ROLE "\ncredential_source = Environment\n");
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIASTS2");
		assert_asked(w, 3, "Credential=ASIA1/");
	}
	set_environment_keys();
	{
		scoped(opened_fini) struct opened o = open_as("env");

		assert_access(&o, "ASIASTS3");
		assert_asked(w, 4, "Credential=AKIAENV/");
	}
}

static void a_profile_may_be_its_own_source_if_it_holds_keys(void **state)
{
	struct world *w = *state;

	write_file(w->config, "[default]\nrole_arn = " ROLE "\nsource_profile = default\n"
			      "aws_access_key_id = AKIAOWN\naws_secret_access_key = " SECRET "\n");
	scoped(opened_fini) struct opened o = open_as(NULL);

	assert_access(&o, "ASIASTS1");
	assert_asked(w, 0, "Credential=AKIAOWN/");
}

static void a_role_that_is_configured_wrongly_is_refused_with_its_profile(void **state)
{
	static const struct {
		const char *config;
		const char *because;
	} rows[] = {
		{"[default]\nrole_arn = r\nsource_profile = default\n",
		 "profile default: its source_profile default leads back to it: a cycle"},
		{"[default]\nrole_arn = r\nsource_profile = b\n"
		 "[profile b]\nrole_arn = r\nsource_profile = c\n"
		 "[profile c]\nrole_arn = r\nsource_profile = b\n",
		 "profile c: its source_profile b leads back to it: a cycle"},
		{"[default]\nrole_arn = r\nsource_profile = b\n",
		 "source_profile b does not exist"},
		{"[default]\nrole_arn = r\n", "has none"},
		{"[default]\nrole_arn = r\nsource_profile = b\ncredential_source = Environment\n",
		 "has both"},
		{"[default]\nrole_arn = r\ncredential_source = Vault\n", "credential_source Vault"},
		{"[default]\nrole_arn = r\nsource_profile = b\n[profile b]\nregion = x\n",
		 "profile b: a role's source, and holds no keys"},
		{"[default]\nrole_arn = r\nsource_profile = b\nmfa_serial = m\n",
		 "profile default: mfa_serial"},
		{"[default]\nsso_session = s\n", "export-credentials --profile default"},
		{"[default]\nweb_identity_token_file = /nowhere\n", "no role for it"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_file(w->config, rows[i].config);
		assert_refused(NULL, -EINVAL, rows[i].because);
	}
	assert_int_equal(fake_http_count(&w->server), 0);
}

static void write_role(struct world *w)
{
	write_file(w->config, "[default]\nrole_arn = " ROLE "\nsource_profile = base\n"
			      "[profile base]\naws_access_key_id = AKIABASE\n"
			      "aws_secret_access_key = " SECRET "\n");
}

static void a_refusal_of_sts_names_role_and_code(void **state)
{
	struct world *w = *state;

	write_role(w);
	w->sts = ANSWER_403;
	assert_refused(NULL, -EACCES, ROLE);
	assert_refused(NULL, -EACCES, "AccessDenied: status 403");
	w->sts = ANSWER_JUNK;
	assert_refused(NULL, -EPROTO, "not XML");
	w->sts = ANSWER_503;
	assert_refused(NULL, -EIO, "status 503");
}

static void a_wrong_clock_is_corrected_once_by_the_date_of_sts(void **state)
{
	struct world *w = *state;

	write_role(w);
	w->ahead_s = -3 * 3600; /* our clock is three hours ahead */
	scoped(opened_fini) struct opened o = open_as(NULL);

	assert_access(&o, "ASIASTS1"); /* good, though by our clock it has long expired */
	assert_int_equal(fake_http_count(&w->server), 2);
}

static void a_web_token_is_traded_for_a_role_unsigned(void **state)
{
	struct world *w = *state;
	scoped(free) char *request = NULL;

	write_file(w->token_file, "web.token\n");
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w->token_file, 1);
	setenv("AWS_ROLE_ARN", ROLE, 1);
	setenv("AWS_ROLE_SESSION_NAME", "pod", 1);
	scoped(opened_fini) struct opened o = open_as(NULL);

	assert_access(&o, "ASIASTS1");
	assert_asked(w, 0, "Action=AssumeRoleWithWebIdentity&");
	assert_asked(w, 0, "RoleSessionName=pod&WebIdentityToken=web.token");
	request = fake_http_request(&w->server, 0);
	assert_null(strcasestr(request, "authorization:"));
}

static void a_missing_web_token_is_named(void **state)
{
	struct world *w = *state;

	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w->token_file, 1);
	setenv("AWS_ROLE_ARN", ROLE, 1);
	assert_refused(NULL, -ENOENT, w->token_file);
}

/* ---- credential_process ---- */

static void a_credential_process_that_fails_says_how(void **state)
{
	static const struct {
		const char *command;
		int code;
		const char *because;
	} rows[] = {
		{"echo " SECRET "; exit 3", -EACCES, "status 3"},
		{"kill -9 $$", -EACCES, "signal 9"},
		{"echo " SECRET, -EPROTO, "not JSON"},
		{"true", -EPROTO, "not JSON"},
		{"echo '{\"Version\": 2, \"AccessKeyId\": \"A\", \"SecretAccessKey\": \"" SECRET
		 "\"}'",
		 -EPROTO, "Version"},
		{"echo '{\"Version\": 1, \"SecretAccessKey\": \"" SECRET "\"}'", -EPROTO,
		 "AccessKeyId"},
		{"yes | head -c 200000", -EPROTO, "more than"},
		{"yes " SECRET, -EPROTO, "more than"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char config[512];

		(void)snprintf(config, sizeof(config), "[default]\ncredential_process = %s\n",
			       rows[i].command);
		write_file(w->config, config);
		assert_refused(NULL, rows[i].code, rows[i].because);
		assert_refused(NULL, rows[i].code, "credential_process of profile default");
	}
}

static void keys_of_a_process_are_renewed_before_they_expire(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;
	char config[1024];

	/* Writes how often it was run into the key. */
	(void)snprintf(
		config, sizeof(config),
		"[default]\ncredential_process = echo x >> %s; printf "
		"'{\"Version\": 1, \"AccessKeyId\": \"AKIA%%d\", \"SecretAccessKey\": \"" SECRET
		"\", \"Expiration\": \"%%s\"}' $(wc -l < %s) $(date -u -d '3 seconds' "
		"+%%Y-%%m-%%dT%%H:%%M:%%S+00:00)\n",
		w->token_file, w->token_file);
	write_file(w->config, config);
	scoped(opened_fini) struct opened o = open_as(NULL);
	uint64_t first = assert_access(&o, "AKIA1");

	await(&o, 0, first, &f);
	assert_access(&o, "AKIA2");
}

/* ---- container endpoint ---- */

static void the_container_endpoint_gets_its_token_from_a_file_first(void **state)
{
	struct world *w = *state;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container/keys?id=1");
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "from-variable", 1);
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIA1");
		assert_asked(w, 0, "GET /container/keys?id=1 HTTP/1.1\r\n");
		assert_asked(w, 0, "Authorization: from-variable\r\n");
		assert_null(strstr(creds_source(o.creds), "id=1"));
	}
	write_file(w->token_file, "from-file\n");
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", w->token_file, 1);
	{
		scoped(opened_fini) struct opened o = open_as(NULL);

		assert_access(&o, "ASIA2");
		assert_asked(w, 1, "Authorization: from-file\r\n");
	}
}

static void the_container_token_goes_nowhere_but_near(void **state)
{
	static const char *const urls[] = {
		"http://192.0.2.1/keys",      "http://127.0.0.1@192.0.2.1/keys",
		"http://localhost.evil/keys", "http://[2001:db8::1]/keys",
		"http://1270.0.0.1/keys",     "http://user:pw@127.0.0.1/keys",
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", urls[i], 1);
		assert_refused(NULL, -EINVAL, "plain http only to loopback");
	}
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "ftp://127.0.0.1/keys", 1);
	assert_refused(NULL, -EINVAL, "neither http nor https");
}

static void a_container_endpoint_that_refuses_is_not_passed_over(void **state)
{
	struct world *w = *state;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	w->keys = ANSWER_403;
	assert_refused(NULL, -EACCES, "/container: GET: status 403");
	w->keys = ANSWER_JUNK;
	assert_refused(NULL, -EPROTO, "not JSON");
	w->keys = ANSWER_GOOD;
	w->life_s = -5;
	assert_refused(NULL, -EKEYEXPIRED, "expired at");
}

/* ---- instance role ---- */

static void the_instance_role_is_asked_for_with_a_token(void **state)
{
	struct world *w = *state;
	scoped(opened_fini) struct opened o = open_as(NULL);

	assert_access(&o, "ASIA1");
	assert_int_equal(fake_http_count(&w->server), 3);
	assert_asked(w, 0, "X-aws-ec2-metadata-token-ttl-seconds: ");
	assert_asked(w, 1, "GET " IMDS_ROLES " HTTP/1.1\r\n");
	assert_asked(w, 2, "GET " IMDS_ROLES "trainer-role HTTP/1.1\r\n");
}

static void a_metadata_service_that_never_answers_is_given_up(void **state)
{
	struct world *w = *state;
	uint64_t began = now_ms();

	w->token = ANSWER_SILENT;
	assert_refused(NULL, -ETIMEDOUT, "hop-limit is 1");
	assert_true(now_ms() - began < HANGS_MS); /* 5 s on an idle machine */
	assert_true(fake_http_count(&w->server) >= 1);
}

static void keys_that_never_come_are_given_up(void **state)
{
	struct world *w = *state;
	uint64_t began = now_ms();

	w->keys = ANSWER_SILENT;
	assert_refused(NULL, -ETIMEDOUT, "instance role trainer-role");
	assert_true(now_ms() - began < HANGS_MS); /* 5 s on an idle machine */
}

static void a_machine_that_is_no_instance_is_told_so_at_once(void **state)
{
	uint64_t began = now_ms();

	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
	assert_refused(NULL, -ENOKEY, "instance role at http://127.0.0.1:1: nobody answers");
	assert_true(now_ms() - began < 4500); /* without waiting out its 5 s */
}

static void an_instance_without_role_or_service_is_told_so(void **state)
{
	struct world *w = *state;

	w->keys = ANSWER_404;
	assert_refused(NULL, -ENOKEY, "no role");
	w->token = ANSWER_403;
	assert_refused(NULL, -ENOKEY, "switched off for this instance");
}

/* ---- renewal ---- */

static void keys_are_renewed_before_they_expire(void **state)
{
	struct world *w = *state;
	uint64_t until = now_ms() + HANGS_MS;
	struct sign_keys k;
	struct fault f = FAULT_NONE;
	uint64_t generation = 1;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	w->life_s = 6;
	scoped(opened_fini) struct opened o = open_as(NULL);

	while (generation < 2 && now_ms() < until) {
		if (creds_get(o.creds, &k, &generation, &f) < 0) /* never a gap */
			fail_msg("%s", f.text);
		nap();
	}
	assert_int_equal(generation, 2);
	assert_access(&o, "ASIA2");
}

static void keys_that_ran_out_are_not_given_out_until_there_are_new_ones(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	w->life_s = 4;
	scoped(opened_fini) struct opened o = open_as(NULL);
	uint64_t first = assert_access(&o, "ASIA1");

	w->keys = ANSWER_503;
	await(&o, -EAGAIN, first, &f);
	assert_int_equal(f.retry, FAULT_SOON);
	assert_non_null(strstr(f.text, "container endpoint"));
	assert_non_null(strstr(f.text, "status 503"));
	assert_null(strstr(f.text, SECRET));
	w->life_s = 3600;
	w->keys = ANSWER_GOOD;
	await(&o, 0, first, &f);
	assert_access(&o, "ASIA2");
}

struct complainer {
	pthread_t thread;
	struct creds *creds;
	uint64_t generation;
};

static void *complain(void *arg)
{
	const struct complainer *x = arg;

	for (int i = 0; i < 100; i++)
		creds_expired(x->creds, x->generation);
	return NULL;
}

static void many_threads_that_meet_expired_keys_cause_one_request(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;
	struct complainer all[4];

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	scoped(opened_fini) struct opened o = open_as(NULL);
	uint64_t first = assert_access(&o, "ASIA1");

	for (size_t i = 0; i < 4; i++) {
		all[i] = (struct complainer){.creds = o.creds, .generation = first};
		assert_int_equal(pthread_create(&all[i].thread, NULL, complain, &all[i]), 0);
	}
	for (size_t i = 0; i < 4; i++)
		pthread_join(all[i].thread, NULL);
	await(&o, 0, first, &f);
	assert_access(&o, "ASIA2");
	creds_expired(o.creds, first); /* old news */
	for (int i = 0; i < 20; i++)
		nap();
	assert_access(&o, "ASIA2");
	assert_int_equal(fake_http_count(&w->server), 2);
}

static void keys_that_the_store_calls_expired_are_given_again_if_the_source_insists(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;
	uint64_t began = now_ms();
	uint64_t generation;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	w->same_keys = true;
	scoped(opened_fini) struct opened o = open_as(NULL);

	generation = assert_access(&o, "ASIA1");
	for (int i = 0; i < 4; i++) {
		creds_expired(o.creds, generation);
		await(&o, 0, generation, &f);
		generation = assert_access(&o, "ASIA1");
	}
	assert_int_equal(generation, 5);
	assert_true(now_ms() - began > 1000); /* slower each time, not in a tight circle */
}

static void keys_rewritten_in_the_file_are_read_when_the_old_ones_expire(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;

	write_file(w->credentials, "[default]\naws_access_key_id = ASIAOLD\n"
				   "aws_secret_access_key = " SECRET "\n");
	scoped(opened_fini) struct opened o = open_as(NULL);
	uint64_t first = assert_access(&o, "ASIAOLD");

	write_file(w->credentials, "[default]\naws_access_key_id = ASIANEW\n"
				   "aws_secret_access_key = " SECRET "\n");
	creds_expired(o.creds, first);
	await(&o, 0, first, &f);
	assert_access(&o, "ASIANEW");
}

static void closing_does_not_wait_for_a_source_that_hangs(void **state)
{
	struct world *w = *state;
	struct opened o;
	uint64_t began;

	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/container");
	o = open_as(NULL);
	w->keys = ANSWER_SILENT;
	creds_expired(o.creds, assert_access(&o, "ASIA1"));
	while (fake_http_count(&w->server) < 2)
		nap();
	began = now_ms();
	opened_fini(&o);
	assert_true(now_ms() - began < 4500); /* the source may take 5 s */
}

static void closing_kills_a_process_that_hangs(void **state)
{
	struct world *w = *state;
	struct fault f = FAULT_NONE;
	struct opened o;
	struct stat said;
	uint64_t began;
	char config[512];

	/* Good the first time; afterwards it says that it was started, and sleeps. */
	(void)snprintf(
		config, sizeof(config),
		"[default]\ncredential_process = test -e %s && { echo x >> %s; sleep 1000; }; "
		"touch %s; echo '{\"Version\": 1, \"AccessKeyId\": \"AKIAPROC\", "
		"\"SecretAccessKey\": \"" SECRET "\"}'\n",
		w->token_file, w->token_file, w->token_file);
	write_file(w->config, config);
	o = open_as(NULL);
	creds_expired(o.creds, assert_access(&o, "AKIAPROC"));
	await(&o, -EAGAIN, 0, &f);
	while (stat(w->token_file, &said) < 0 || said.st_size == 0)
		nap();
	began = now_ms();
	opened_fini(&o);
	assert_true(now_ms() - began < HANGS_MS);
}

static void fixed_keys_stay(void **state)
{
	struct sign_keys k;
	struct sign_keys got;
	struct creds *c;
	uint64_t generation = 0;

	assert_int_equal(sign_keys_set(&k, "AKIAFIX", SECRET, NULL), 0);
	assert_int_equal(creds_fixed(&k, &c, NULL), 0);
	creds_expired(c, 1);
	assert_int_equal(creds_get(c, &got, &generation, NULL), 0);
	assert_string_equal(got.access, "AKIAFIX");
	assert_int_equal(generation, 1);
	assert_string_equal(creds_source(c), "fixed");
	creds_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(sources_are_asked_in_the_order_of_the_aws_tools),
		TEST(a_profile_asked_for_by_name_wins_over_environment_keys),
		TEST(half_a_pair_of_keys_is_named),
		TEST(without_any_source_the_fault_says_where_was_looked),
		TEST(a_role_is_assumed_with_the_keys_of_its_source_profile),
		TEST(a_role_may_be_the_source_of_a_role),
		TEST(a_role_takes_its_keys_from_the_named_source),
		TEST(a_profile_may_be_its_own_source_if_it_holds_keys),
		TEST(a_role_that_is_configured_wrongly_is_refused_with_its_profile),
		TEST(a_refusal_of_sts_names_role_and_code),
		TEST(a_wrong_clock_is_corrected_once_by_the_date_of_sts),
		TEST(a_web_token_is_traded_for_a_role_unsigned),
		TEST(a_missing_web_token_is_named),
		TEST(a_credential_process_that_fails_says_how),
		TEST(keys_of_a_process_are_renewed_before_they_expire),
		TEST(the_container_endpoint_gets_its_token_from_a_file_first),
		TEST(the_container_token_goes_nowhere_but_near),
		TEST(a_container_endpoint_that_refuses_is_not_passed_over),
		TEST(the_instance_role_is_asked_for_with_a_token),
		TEST(a_metadata_service_that_never_answers_is_given_up),
		TEST(keys_that_never_come_are_given_up),
		TEST(a_machine_that_is_no_instance_is_told_so_at_once),
		TEST(an_instance_without_role_or_service_is_told_so),
		TEST(keys_are_renewed_before_they_expire),
		TEST(keys_that_ran_out_are_not_given_out_until_there_are_new_ones),
		TEST(many_threads_that_meet_expired_keys_cause_one_request),
		TEST(keys_that_the_store_calls_expired_are_given_again_if_the_source_insists),
		TEST(keys_rewritten_in_the_file_are_read_when_the_old_ones_expire),
		TEST(closing_does_not_wait_for_a_source_that_hangs),
		TEST(closing_kills_a_process_that_hangs),
		TEST(fixed_keys_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
