/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast status: how a mount stands, for people or as JSON, once or every second. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <time.h>

#include "tools/client.h"
#include "tools/status_text.h"
#include "tools/tools.h"

#define CLEAR "\033[H\033[J" /* home, and nothing below */

struct options {
	bool json, watch;
	bool terminal; /* stdout is one */
	const char *dir;
};

static int usage(void)
{
	fputs("holdfast status: usage: holdfast status [--json] [--watch] DIR\n", stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"watch", no_argument, NULL, 'w'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'j')
			out->json = true;
		else if (c == 'w')
			out->watch = true;
		else
			return usage();
	}
	if (argc - optind != 1)
		return usage();
	out->dir = argv[optind];
	out->terminal = isatty(STDOUT_FILENO);
	return 0;
}

/* People get it indented, programs as it came. */
static void add_json(const struct options *o, const char *line, const json_t *status,
		     struct buf *out)
{
	scoped(free) char *pretty = o->terminal ? json_dumps(status, JSON_INDENT(2)) : NULL;

	buf_addf(out, "%s\n", pretty ? pretty : line);
}

static void add_time(struct buf *out)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[16];

	if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm) > 0)
		buf_addf(out, "%s  ", text);
}

static int show(const struct options *o, struct fault *f)
{
	scoped(buf_fini) struct buf out = BUF_EMPTY;
	scoped(free) char *line = NULL;
	scoped(json_unref) json_t *status = NULL;
	int rc = client_status(o->dir, &line, &status, f);

	if (rc < 0)
		return rc;
	if (o->watch && o->terminal)
		buf_addf(&out, CLEAR);
	if (o->json) {
		add_json(o, line, status, &out);
	} else if (o->watch && !o->terminal) {
		add_time(&out);
		status_line(status, &out);
	} else {
		status_text(status, &out);
	}
	if (!buf_ok(&out))
		return fault_errno(f, -ENOMEM, "%s", o->dir);
	if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
		return fault_errno(f, -errno, "standard output");
	return 0;
}

int cmd_status(int argc, char **argv)
{
	struct options o = {.dir = NULL};
	struct fault f = FAULT_NONE;
	int rc = parse(argc, argv, &o);

	if (rc != 0)
		return rc;
	do {
		rc = show(&o, &f);
	} while (rc == 0 && o.watch && sleep(1) == 0);
	if (rc == 0)
		return VERB_DONE;
	fprintf(stderr, "holdfast status: %s\n", f.text);
	return VERB_FAILED;
}
