/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast sync: wait until another machine would get all that was written before. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "tools/client.h"
#include "tools/tools.h"
#include "tools/words.h"

struct options {
	double timeout_s; /* 0: none */
	const char *path;
};

static int usage(void)
{
	fputs("holdfast sync: usage: holdfast sync [--timeout SECONDS] [PATH]\n", stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{"timeout", required_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 't' || !words_parse_seconds(optarg, &out->timeout_s))
			return usage();
	}
	if (argc - optind > 1)
		return usage();
	out->path = argc > optind ? argv[optind] : ".";
	return 0;
}

static int acknowledge(const struct options *o, struct fault *f)
{
	scoped(client_close) struct client c = CLIENT_NONE;
	scoped(json_unref) json_t *j = NULL;
	int rc = client_open(o->path, &c, f);

	if (rc < 0)
		return rc;
	rc = client_ask(&c, f, "sync %.3f", o->timeout_s);
	if (rc == 0)
		rc = client_answer(&c, CLIENT_FOREVER, &j, f); /* the mount keeps the time */
	if (rc == 0)
		rc = client_error(j, f);
	return rc < 0 ? fault_in(f, "%s", o->path) : 0;
}

int cmd_sync(int argc, char **argv)
{
	struct options o = {.path = NULL};
	struct fault f = FAULT_NONE;
	int rc = parse(argc, argv, &o);

	if (rc != 0)
		return rc;
	rc = acknowledge(&o, &f);
	if (rc == 0)
		return VERB_DONE;
	fprintf(stderr, "holdfast sync: %s\n", f.text);
	return rc == -ETIMEDOUT ? VERB_UNSENT : VERB_FAILED;
}
