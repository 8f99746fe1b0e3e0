/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of mount(8)'s helpers, translated. */
#include "tools/mount_helper.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

/* What fstab(5) says to others: when to mount, who may, and who unmounts. */
static const char *const fstab_words[] = {
	"auto", "defaults", "group", "noauto", "nofail", "nogroup", "noowner", "nouser", "nousers", "owner",
	"user", "users", "_netdev",
};
static const char *const fstab_prefixes[] = {"comment=", "helper=", "uhelper=", "user=", "x-", "X-"};

static bool is_fstab_word(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(fstab_words) / sizeof(fstab_words[0]); i++)
		if (strlen(fstab_words[i]) == len && memcmp(fstab_words[i], word, len) == 0)
			return true;
	for (size_t i = 0; i < sizeof(fstab_prefixes) / sizeof(fstab_prefixes[0]); i++)
		if (strncmp(word, fstab_prefixes[i], strlen(fstab_prefixes[i])) == 0)
			return true;
	return false;
}

static void add_options(struct buf *out, const char *options)
{
	for (const char *word = options; *word != '\0';) {
		size_t len = strcspn(word, ",");

		if (len > 0 && !is_fstab_word(word, len))
			buf_addf(out, "%s%.*s", out->len > 0 ? "," : "", (int)len, word);
		word += len;
		word += *word == ',';
	}
}

static int parse_flags(int argc, char **argv, struct mount_helper *out, struct fault *f)
{
	int opt;

	optind = 0; /* glibc: start anew, whoever parsed before */
	while ((opt = getopt(argc, argv, "fnsvN:o:t:")) != -1) {
		switch (opt) {
		case 'f':
			out->fake = true;
			break;
		case 'o':
			add_options(&out->options, optarg);
			break;
		case 'N':
			out->space = optarg;
			break;
		case 'n':
		case 's':
		case 'v':
		case 't':
			break;
		default:
			return fault_set(f, -EINVAL, FAULT_FINAL, "unknown option -%c", optopt);
		}
	}
	return 0;
}

int mount_helper_parse(int argc, char **argv, struct mount_helper *out, struct fault *f)
{
	int rc;

	*out = (struct mount_helper){.options = BUF_EMPTY};
	opterr = 0;
	rc = parse_flags(argc, argv, out, f);
	opterr = 1;
	if (rc < 0)
		return rc;
	if (argc - optind != 2)
		return fault_set(f, -EINVAL, FAULT_FINAL, "wanted: URI DIR [-o OPTIONS]");

	out->argv[out->argc++] = "mount";
	out->argv[out->argc++] = argv[optind];
	out->argv[out->argc++] = argv[optind + 1];
	if (out->options.len > 0) {
		(void)buf_str(&out->options); /* ends it with NUL; a failure shows in buf_ok() */
		out->argv[out->argc++] = "-o";
		out->argv[out->argc++] = (char *)out->options.data;
	}
	if (!buf_ok(&out->options))
		return fault_set(f, -ENOMEM, FAULT_SOON, "no memory for the options");
	return 0;
}

void mount_helper_fini(struct mount_helper *m)
{
	buf_fini(&m->options);
}
