/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast: a table of verbs, as git has them.  A row feeds dispatch and help; a test holds the
 * rows against holdfast(1).
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/features.h"
#include "tools/helper.h"
#include "tools/mount_helper.h"
#include "tools/tools.h"
#include "tools/umount_helper.h"

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
	const char *usage; /* what follows the name */
	const char *page;  /* where the rest is said */
	bool own_help;     /* it has more to say on --help than the row */
};

static const struct verb verbs[] = {
	{.name = "mkfs", .run = cmd_mkfs, .help = "make a store",
	 .usage = "[--unfenced] URI", .page = "holdfast(1)"},
	{.name = "mount", .run = cmd_mount, .help = "show a store as a directory",
	 .usage = "[-f] [-o OPTION,...] URI DIR", .page = "holdfast-mount(8)", .own_help = true},
	{.name = "umount", .run = cmd_umount, .help = "send what is unsent, then unmount",
	 .usage = "[--timeout SECONDS] [--discard] DIR", .page = "holdfast(1)"},
	{.name = "status", .run = cmd_status, .help = "say how a mount stands",
	 .usage = "[--json] [--watch] DIR", .page = "holdfast(1)"},
	{.name = "sync", .run = cmd_sync, .help = "wait until another machine would get it all",
	 .usage = "[--timeout SECONDS] [PATH]", .page = "holdfast(1)"},
	{.name = "notice", .run = cmd_notice, .help = "tell a mount that its machine is about to go",
	 .usage = "[--seconds SECONDS | --cancel | --answered] DIR", .page = "holdfast(1)"},
	{.name = "ls", .run = cmd_ls, .help = "list what a store holds, without a mount",
	 .usage = "[-l] [-R] URI[@COMMIT][:PATH]", .page = "holdfast(1)"},
	{.name = NULL},
};

static const struct verb *find_verb(const char *name)
{
	for (const struct verb *v = verbs; v->name != NULL; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

static int unknown(const char *name)
{
	fprintf(stderr, "holdfast: '%s' is not a command; 'holdfast --help' lists them\n", name);
	return VERB_USAGE;
}

static int show_version(void)
{
	puts("holdfast " PACKAGE_VERSION);
	return VERB_DONE;
}

static int show_help(void)
{
	puts("usage: holdfast COMMAND [ARGUMENT]...\n"
	     "\n"
	     "Checkpoints that outlive the machine: a file system over S3.\n");
	for (const struct verb *v = verbs; v->name != NULL; v++)
		printf("  %-8s  %s\n", v->name, v->help);
	puts("\n"
	     "'holdfast help COMMAND' says more; so does holdfast(1).");
	return VERB_DONE;
}

static int show_verb_help(char *name)
{
	const struct verb *v = find_verb(name);
	char *ask[] = {name, "--help", NULL};

	if (v == NULL)
		return unknown(name);
	if (v->own_help)
		return v->run(2, ask);
	printf("usage: holdfast %s %s\n\n%s.\nSee %s.\n", v->name, v->usage, v->help, v->page);
	return VERB_DONE;
}

static int run_verb(int argc, char **argv)
{
	const struct verb *v = find_verb(argv[0]);

	if (v == NULL)
		return unknown(argv[0]);
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return show_verb_help(argv[0]);
	return v->run(argc, argv);
}

static int helper_complains(const char *name, const struct fault *f, enum verb_status status)
{
	fprintf(stderr, "%s: %s\n", name, f->text);
	return status;
}

static int run_mount_helper(int argc, char **argv)
{
	scoped(mount_helper_fini) struct mount_helper m;
	struct fault f = FAULT_NONE;

	if (mount_helper_parse(argc, argv, &m, &f) < 0)
		return helper_complains("mount.holdfast", &f, VERB_USAGE);
	if (helper_enter(m.space, &f) < 0)
		return helper_complains("mount.holdfast", &f, VERB_FAILED);
	return m.fake ? VERB_DONE : run_verb(m.argc, m.argv);
}

static int run_umount_helper(int argc, char **argv)
{
	struct umount_helper u;
	struct fault f = FAULT_NONE;

	if (umount_helper_parse(argc, argv, &u, &f) < 0)
		return helper_complains("umount.holdfast", &f, VERB_USAGE);
	return umount_helper_run(&u);
}

/* The names under which mount(8) and umount(8) look for us; the kernel's table says fuse.holdfast. */
static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} helpers[] = {
	{"mount.holdfast", run_mount_helper},
	{"mount.fuse.holdfast", run_mount_helper},
	{"umount.holdfast", run_umount_helper},
	{"umount.fuse.holdfast", run_umount_helper},
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < sizeof(helpers) / sizeof(helpers[0]); i++)
		if (strcmp(base_name(argv[0]), helpers[i].name) == 0)
			return helper_status(helpers[i].run(argc, argv));
	if (argc < 2) {
		fputs("holdfast: no command; 'holdfast --help' lists them\n", stderr);
		return VERB_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0)
		return show_version();
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
		return argc > 2 ? show_verb_help(argv[2]) : show_help();
	return run_verb(argc - 1, argv + 1);
}
