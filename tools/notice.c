/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast notice: tell a mount that its machine is about to go, or that it is not.  How an agent that
 * watches the cloud for a whole job passes on what it heard.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/client.h"
#include "tools/tools.h"
#include "tools/words.h"

#define WITHIN_MS 10000

struct options {
	const char *what; /* "tell", "cancel", "answered" */
	double seconds;   /* 0: nobody says when */
	const char *dir;
};

static int usage(void)
{
	fputs("holdfast notice: usage: holdfast notice [--seconds SECONDS | --cancel | --answered] "
	      "DIR\n",
	      stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"cancel", no_argument, NULL, 'c'},
		{"answered", no_argument, NULL, 'a'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if ((c == 'c' || c == 'a') && !out->what)
			out->what = c == 'c' ? "cancel" : "answered";
		else if (c != 's' || !words_parse_seconds(optarg, &out->seconds))
			return usage();
	}
	if (!out->what)
		out->what = "tell";
	else if (out->seconds > 0)
		return usage();
	if (argc - optind != 1)
		return usage();
	out->dir = argv[optind];
	return 0;
}

static int tell(const struct options *o, struct fault *f)
{
	scoped(client_close) struct client c = CLIENT_NONE;
	scoped(json_unref) json_t *j = NULL;
	int rc = client_open(o->dir, &c, f);

	if (rc < 0)
		return rc;
	rc = client_ask(&c, f, "notice %s %.3f", o->what, o->seconds);
	if (rc == 0)
		rc = client_answer(&c, WITHIN_MS, &j, f);
	if (rc == 0)
		rc = client_error(j, f);
	return rc < 0 ? fault_in(f, "%s", o->dir) : 0;
}

int cmd_notice(int argc, char **argv)
{
	struct options o = {.dir = NULL};
	struct fault f = FAULT_NONE;
	int rc = parse(argc, argv, &o);

	if (rc != 0)
		return rc;
	if (tell(&o, &f) == 0)
		return VERB_DONE;
	fprintf(stderr, "holdfast notice: %s\n", f.text);
	return VERB_FAILED;
}
