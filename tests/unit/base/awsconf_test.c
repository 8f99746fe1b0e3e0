/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment and the two files say, in the order of the AWS tools. */
#include "base/awsconf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct home {
	char dir[64];
	char config[96];
	char credentials[96];
};

static void write_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* No variable of the machine that runs the test may reach it. */
static void clear_environment(void)
{
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
}

static int setup(void **state)
{
	struct home *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	clear_environment();
	strcpy(h->dir, "/tmp/holdfast-awsconf.XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	(void)snprintf(h->config, sizeof(h->config), "%s/config", h->dir);
	(void)snprintf(h->credentials, sizeof(h->credentials), "%s/credentials", h->dir);
	assert_int_equal(setenv("AWS_CONFIG_FILE", h->config, 1), 0);
	assert_int_equal(setenv("AWS_SHARED_CREDENTIALS_FILE", h->credentials, 1), 0);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct home *h = *state;

	(void)unlink(h->config); /* not every test writes both */
	(void)unlink(h->credentials);
	(void)rmdir(h->dir);
	free(h);
	return 0;
}

static struct aws_conf *load(const char *profile)
{
	struct aws_conf *c = NULL;
	struct fault f = FAULT_NONE;

	if (aws_conf_load(profile, &c, &f) < 0)
		fail_msg("%s", f.text);
	return c;
}

static void without_files_and_variables_the_defaults_hold(void **state)
{
	scoped(aws_conf_free) struct aws_conf *c = load(NULL);

	assert_string_equal(c->profile, "default");
	assert_null(c->region);
	assert_null(c->ca_bundle);
	assert_string_equal(c->imds_endpoint, "http://169.254.169.254");
	assert_false(c->imds_disabled);
	assert_null(aws_conf_endpoint(c, "s3"));
}

static void the_environment_wins_over_the_profile(void **state)
{
	struct home *h = *state;

	write_file(h->config, "[default]\nregion = eu-west-1\nca_bundle = /etc/ca.pem\n"
			      "[profile other]\nregion=eu-west-2\n");
	{
		scoped(aws_conf_free) struct aws_conf *c = load(NULL);

		assert_string_equal(c->region, "eu-west-1");
		assert_string_equal(c->ca_bundle, "/etc/ca.pem");
	}
	setenv("AWS_PROFILE", "other", 1);
	setenv("AWS_CA_BUNDLE", "/ca", 1);
	{
		scoped(aws_conf_free) struct aws_conf *c = load(NULL);

		assert_string_equal(c->region, "eu-west-2");
		assert_string_equal(c->ca_bundle, "/ca");
		assert_false(c->profile_explicit);
	}
	setenv("AWS_DEFAULT_REGION", "us-east-2", 1);
	{
		scoped(aws_conf_free) struct aws_conf *c = load("default");

		assert_string_equal(c->region, "us-east-2");
		assert_true(c->profile_explicit);
	}
	setenv("AWS_REGION", "us-east-1", 1);
	{
		scoped(aws_conf_free) struct aws_conf *c = load(NULL);

		assert_string_equal(c->region, "us-east-1");
	}
}

static void an_empty_variable_counts_as_none(void **state)
{
	struct home *h = *state;

	write_file(h->config, "[default]\nregion = eu-west-1\n");
	setenv("AWS_REGION", "", 1);
	setenv("AWS_PROFILE", "", 1);
	scoped(aws_conf_free) struct aws_conf *c = load(NULL);

	assert_string_equal(c->profile, "default");
	assert_string_equal(c->region, "eu-west-1");
}

static void the_dialect_of_the_files_is_understood(void **state)
{
	struct home *h = *state;

	write_file(h->config, "\xef\xbb\xbf# a comment\r\n; another\r\n"
			      "[default]\r\nREGION=eu-west-1\r\n\r\n"
			      "[ profile   \"my own\" ]\n"
			      "output: json\n"
			      "role_arn = arn:aws:iam::1:role/a=b\n"
			      "s3 =\n  # nested\n  addressing_style = path\n"
			      "credential_process = /bin/x\n\t--flag\n"
			      "[default]\nregion = eu-west-3\n");
	write_file(h->credentials, "[my own]\noutput = text\naws_access_key_id=AK\n");
	scoped(aws_conf_free) struct aws_conf *c = load("my own");

	assert_string_equal(aws_conf_get(c, "default", "region"), "eu-west-3");
	assert_string_equal(aws_conf_get(c, "my own", "role_arn"), "arn:aws:iam::1:role/a=b");
	assert_string_equal(aws_conf_get(c, "my own", "credential_process"), "/bin/x\n--flag");
	assert_string_equal(aws_conf_get(c, "my own", "aws_access_key_id"), "AK");
	assert_string_equal(aws_conf_get(c, "my own", "output"), "text"); /* credentials first */
	assert_null(aws_conf_get(c, "my own", "region"));
	assert_null(aws_conf_get(c, "my own", "addressing_style"));
	assert_false(aws_conf_has_profile(c, "own"));
}

static void a_bad_line_is_named_by_file_and_number(void **state)
{
	static const struct {
		const char *text;
		const char *at;
		const char *why;
	} rows[] = {
		{"[default]\nregion eu-west-1\n",      "config:2: ", "neither"      },
		{"[default]\n\n[profile x\n",          "config:3: ", "']'"          },
		{"[]\n",                               "config:1: ", "without a name"},
		{"region = x\n",                       "config:1: ", "before"       },
		{"[default]\n= x\n",                   "config:2: ", "neither"      },
		{"[default]\ns3 =\n  nonsense\n",      "config:3: ", "indented"     },
	};
	struct home *h = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct aws_conf *c = NULL;
		struct fault f = FAULT_NONE;

		write_file(h->config, rows[i].text);
		assert_int_equal(aws_conf_load(NULL, &c, &f), -EINVAL);
		assert_null(c);
		assert_int_equal(f.retry, FAULT_FINAL);
		assert_non_null(strstr(f.text, h->dir));
		assert_non_null(strstr(f.text, rows[i].at));
		assert_non_null(strstr(f.text, rows[i].why));
	}
}

static void a_bad_credentials_file_does_not_show_its_secret(void **state)
{
	struct home *h = *state;
	struct aws_conf *c = NULL;
	struct fault f = FAULT_NONE;

	write_file(h->credentials, "[default]\naws_secret_access_key hunter2\n");
	assert_int_equal(aws_conf_load(NULL, &c, &f), -EINVAL);
	assert_non_null(strstr(f.text, "credentials:2: "));
	assert_null(strstr(f.text, "hunter2"));
}

static void a_profile_that_is_named_must_exist(void **state)
{
	struct home *h = *state;
	struct aws_conf *c = NULL;
	struct fault f = FAULT_NONE;

	write_file(h->config, "[research]\nregion = eu-west-1\n"); /* lacks the word "profile" */
	assert_int_equal(aws_conf_load("research", &c, &f), -ENOENT);
	assert_non_null(strstr(f.text, "research"));
	assert_non_null(strstr(f.text, h->config));
	assert_non_null(strstr(f.text, h->credentials));
}

static void a_file_that_may_not_be_read_is_an_error(void **state)
{
	struct home *h = *state;
	struct aws_conf *c = NULL;
	struct fault f = FAULT_NONE;

	setenv("AWS_CONFIG_FILE", h->dir, 1); /* a directory: fails for root too */
	assert_int_equal(aws_conf_load(NULL, &c, &f), -EISDIR);
	assert_non_null(strstr(f.text, h->dir));
}

static void endpoints_are_looked_for_in_order(void **state)
{
	struct home *h = *state;

	write_file(h->config, "[default]\nservices = local\nendpoint_url = http://profile\n"
			      "[services local]\ns3 =\n  endpoint_url = http://services/\n"
			      "ec2 =\n  endpoint_url = http://services-ec2\n");
	scoped(aws_conf_free) struct aws_conf *c = load(NULL);

	assert_string_equal(aws_conf_endpoint(c, "sts"), "http://profile");
	assert_string_equal(aws_conf_endpoint(c, "ec2"), "http://services-ec2");
	assert_string_equal(aws_conf_endpoint(c, "s3"), "http://services/");
	setenv("AWS_ENDPOINT_URL", "http://all", 1);
	assert_string_equal(aws_conf_endpoint(c, "s3"), "http://all");
	setenv("AWS_ENDPOINT_URL_S3", "http://s3", 1);
	assert_string_equal(aws_conf_endpoint(c, "s3"), "http://s3");
	assert_string_equal(aws_conf_endpoint(c, "ec2"), "http://all");
	setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
	scoped(aws_conf_free) struct aws_conf *ignoring = load(NULL);

	assert_null(aws_conf_endpoint(ignoring, "s3"));
}

static void a_url_is_configured_or_regional_and_has_no_slash_at_its_end(void **state)
{
	scoped(aws_conf_free) struct aws_conf *c = load(NULL);
	scoped(buf_fini) struct buf own = BUF_EMPTY;
	scoped(buf_fini) struct buf china = BUF_EMPTY;
	scoped(buf_fini) struct buf local = BUF_EMPTY;

	aws_conf_url(c, "sts", "eu-west-1", &own);
	assert_string_equal(buf_str(&own), "https://sts.eu-west-1.amazonaws.com");
	aws_conf_url(c, "sts", "cn-north-1", &china);
	assert_string_equal(buf_str(&china), "https://sts.cn-north-1.amazonaws.com.cn");
	setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:5000//", 1);
	aws_conf_url(c, "sts", "eu-west-1", &local);
	assert_string_equal(buf_str(&local), "http://127.0.0.1:5000");
}

static void the_metadata_service_can_be_moved_and_switched_off(void **state)
{
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6", 1);
	scoped(aws_conf_free) struct aws_conf *six = load(NULL);

	assert_string_equal(six->imds_endpoint, "http://[fd00:ec2::254]");
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1338/", 1);
	setenv("AWS_EC2_METADATA_DISABLED", "TRUE", 1);
	scoped(aws_conf_free) struct aws_conf *moved = load(NULL);

	assert_string_equal(moved->imds_endpoint, "http://127.0.0.1:1338");
	assert_true(moved->imds_disabled);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(without_files_and_variables_the_defaults_hold),
		TEST(the_environment_wins_over_the_profile),
		TEST(an_empty_variable_counts_as_none),
		TEST(the_dialect_of_the_files_is_understood),
		TEST(a_bad_line_is_named_by_file_and_number),
		TEST(a_bad_credentials_file_does_not_show_its_secret),
		TEST(a_profile_that_is_named_must_exist),
		TEST(a_file_that_may_not_be_read_is_an_error),
		TEST(endpoints_are_looked_for_in_order),
		TEST(a_url_is_configured_or_regional_and_has_no_slash_at_its_end),
		TEST(the_metadata_service_can_be_moved_and_switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
