/* SPDX-License-Identifier: Apache-2.0 */
/* Whose certificates vouch for the store and for who gives us its keys: the profile says it, too. */
#include <errno.h>

#include "store/objects.h"
#include "tests/unit/base/https_server.h"

/* What every request is answered: credentials, and an object that looks like them. */
#define KEYS                                                                                       \
	"{\"AccessKeyId\":\"AKIA\",\"SecretAccessKey\":\"s\",\"Token\":\"t\","                             \
	"\"Expiration\":\"2999-01-01T00:00:00Z\"}"

struct world {
	struct https_server *server;
	char config[64];
};

static void set_url(const struct world *w, const char *variable)
{
	char url[64];

	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%d/x", w->server->port);
	assert_int_equal(setenv(variable, url, 1), 0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fd;

	assert_non_null(w);
	w->server = https_server_start(KEYS);
	strcpy(w->config, "/tmp/s3_tls_test.XXXXXX");
	fd = mkstemp(w->config);
	assert_true(fd >= 0);
	close(fd);
	for (const char *const *name = (const char *const[]){"AWS_ACCESS_KEY_ID", "AWS_PROFILE",
							     "AWS_CA_BUNDLE", NULL};
	     *name; name++)
		(void)unsetenv(*name);
	(void)setenv("AWS_CONFIG_FILE", w->config, 1);
	(void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	(void)setenv("no_proxy", "127.0.0.1", 1);
	set_url(w, "AWS_ENDPOINT_URL_S3");
	set_url(w, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	https_server_stop(w->server);
	(void)unlink(w->config);
	free(w);
	return 0;
}

static void write_config(const struct world *w, const char *ca_bundle)
{
	FILE *out = fopen(w->config, "we");

	assert_non_null(out);
	assert_true(fprintf(out, "[default]\nregion = us-east-1\n%s%s\n",
			    ca_bundle ? "ca_bundle = " : "", ca_bundle ? ca_bundle : "") > 0);
	assert_int_equal(fclose(out), 0);
}

/* One object of the store, by credentials that come from the same server. */
static int get(struct buf *out, struct fault *f)
{
	scoped(store_free) struct store *s = NULL;
	scoped(loop_free) struct loop *l = NULL;
	scoped(objects_close) struct objects *o = NULL;
	int rc = store_new("s3://bucket/prefix", &s, f);

	if (rc == 0)
		rc = loop_new(LOOP_AUTO, &l, f);
	if (rc == 0)
		rc = objects_open(s, l, &o, f);
	return rc < 0 ? rc : objects_get(o, "store.json", 0, out, f);
}

static void the_bundle_of_the_profile_vouches_for_credentials_and_store(void **state)
{
	const struct world *w = *state;
	scoped(buf_fini) struct buf got = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	write_config(w, w->server->ca_file);
	assert_int_equal(get(&got, &f), 0);
	assert_string_equal(buf_str(&got), KEYS);
}

static void without_a_bundle_they_are_refused(void **state)
{
	const struct world *w = *state;
	scoped(buf_fini) struct buf got = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	write_config(w, NULL);
	assert_int_equal(get(&got, &f), -EACCES);
	assert_non_null(strstr(f.text, "certificate"));
}

static void a_bundle_of_the_environment_comes_first(void **state)
{
	const struct world *w = *state;
	scoped(buf_fini) struct buf got = BUF_EMPTY;
	struct fault f = FAULT_NONE;

	write_config(w, "/no/such/bundle.pem");
	assert_int_equal(setenv("AWS_CA_BUNDLE", w->server->ca_file, 1), 0);
	assert_int_equal(get(&got, &f), 0);
	assert_int_equal(unsetenv("AWS_CA_BUNDLE"), 0);
	assert_int_equal(get(&got, &f), -EINVAL);
	assert_non_null(strstr(f.text, "/no/such/bundle.pem"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_bundle_of_the_profile_vouches_for_credentials_and_store, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(without_a_bundle_they_are_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_bundle_of_the_environment_comes_first, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
