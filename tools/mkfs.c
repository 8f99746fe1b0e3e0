/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast mkfs: make a store, where there is none, on what can keep one. */
#include <getopt.h>
#include <stdio.h>

#include "base/buf.h"
#include "store/format.h"
#include "tools/tools.h"

struct mkfs {
	bool unfenced;
	const char *uri;
};

static int usage(void)
{
	fputs("holdfast mkfs: usage: holdfast mkfs [--unfenced] URI\n", stderr);
	return VERB_USAGE;
}

static int parse(int argc, char **argv, struct mkfs *out)
{
	static const struct option options[] = {
		{"unfenced", no_argument, NULL, 'u'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'u')
			return usage();
		out->unfenced = true;
	}
	if (argc - optind != 1)
		return usage();
	out->uri = argv[optind];
	return 0;
}

static int make(const struct store *s, bool unfenced, struct store_format *out, struct fault *f)
{
	scoped(loop_free) struct loop *l = NULL;
	scoped(objects_close) struct objects *o = NULL;
	int rc = loop_new(LOOP_AUTO, &l, f);

	if (rc == 0)
		rc = objects_open(s, l, &o, f);
	if (rc == 0)
		rc = store_make(o, unfenced, out, f);
	return rc;
}

static int fail(const struct fault *f)
{
	fprintf(stderr, "holdfast mkfs: %s\n", f->text);
	return VERB_FAILED;
}

int cmd_mkfs(int argc, char **argv)
{
	scoped(store_free) struct store *s = NULL;
	struct mkfs m = {.uri = NULL};
	struct store_format made;
	struct fault f = FAULT_NONE;
	char id[2 * sizeof(made.id.b) + 1];
	int rc = parse(argc, argv, &m);

	if (rc != 0)
		return rc;
	rc = store_new(m.uri, &s, &f);
	if (rc == 0)
		rc = make(s, m.unfenced, &made, &f);
	if (rc < 0)
		return fail(&f);
	hex_of(made.id.b, sizeof(made.id.b), id);
	printf("made store %s at %s%s\n", id, store_uri(s),
	       made.unfenced ? " (unfenced: one writer at a time)" : "");
	return VERB_DONE;
}
