/* SPDX-License-Identifier: Apache-2.0 */
/* See opts.h. */
#include "fs/opts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/notice/call.h"

static int set_string(char **to, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

static int number(const char *value, uint64_t most, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (value[0] < '0' || value[0] > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(value, &end, 10);
	if (errno || *end || v > most)
		return -EINVAL;
	*out = v;
	return 0;
}

/* Bytes: 10G, 512M, 64K, 1T or plain. */
static int size(const char *value, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned long long v;
	const char *unit;
	unsigned shift = 0;

	if (value[0] < '0' || value[0] > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(value, &end, 10);
	if (*end && (unit = strchr(units, *end & ~0x20))) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
		if (strcmp(end, "iB") == 0)
			end += 2;
	}
	if (errno || *end || v > UINT64_MAX >> shift)
		return -EINVAL;
	*out = v << shift;
	return 0;
}

/* Seconds, with or without a fraction or an s behind. */
static int seconds(const char *value, uint64_t *out)
{
	char *end;
	double v;

	if (value[0] < '0' || value[0] > '9')
		return -EINVAL;
	v = strtod(value, &end);
	if (*end == 's')
		end++;
	if (*end || v > 1e8)
		return -EINVAL;
	*out = (uint64_t)(v * 1e9);
	return 0;
}

static int opt_cache(struct mount_opts *o, const char *v)
{
	return v[0] == '/' ? set_string(&o->cache, v) : -EINVAL;
}
static int opt_cache_size(struct mount_opts *o, const char *v)
{
	return size(v, &o->cache_size);
}
/* wait, or enospc:SECONDS */
static int opt_full(struct mount_opts *o, const char *v)
{
	static const char gives_up[] = "enospc:";

	o->full_gives_up = strncmp(v, gives_up, strlen(gives_up)) == 0;
	if (o->full_gives_up)
		return seconds(v + strlen(gives_up), &o->full_ns);
	return strcmp(v, "wait") == 0 ? 0 : -EINVAL;
}
static int opt_fsync(struct mount_opts *o, const char *v)
{
	o->fsync_remote = strcmp(v, "remote") == 0;
	return o->fsync_remote || strcmp(v, "local") == 0 ? 0 : -EINVAL;
}
static int opt_on_kill(struct mount_opts *o, const char *v)
{
	o->revert_killed = strcmp(v, "revert") == 0;
	return o->revert_killed || strcmp(v, "keep") == 0 ? 0 : -EINVAL;
}
static int opt_restore(struct mount_opts *o, const char *v)
{
	static const char *const words[] = {[RESTORE_GOOD] = "good", [RESTORE_NEWEST] = "newest", [RESTORE_EMPTY] = "empty"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(v, words[i]) == 0) {
			o->restore = (enum restore_from)i;
			return 0;
		}
	o->restore = RESTORE_NUMBER;
	return number(v, UINT64_MAX, &o->restore_number);
}
static int opt_follow(struct mount_opts *o, const char *v)
{
	static const char *const words[] = {[FOLLOW_GOOD] = "good", [FOLLOW_NEWEST] = "newest", [FOLLOW_OFF] = "off"};

	for (size_t i = FOLLOW_GOOD; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(v, words[i]) == 0) {
			o->follow = (enum follow)i;
			return 0;
		}
	return -EINVAL;
}
static int opt_warm(struct mount_opts *o, const char *v)
{
	o->warm = strcmp(v, "newest") == 0 ? WARM_NEWEST : WARM_NONE;
	return o->warm == WARM_NEWEST || strcmp(v, "none") == 0 ? 0 : -EINVAL;
}
static int opt_ro(struct mount_opts *o, const char *v)
{
	(void)v;
	o->read_only = true;
	return 0;
}
static int opt_rw(struct mount_opts *o, const char *v)
{
	(void)v;
	o->read_only = false;
	return 0;
}
static int opt_takeover(struct mount_opts *o, const char *v)
{
	(void)v;
	o->takeover = true;
	return 0;
}
static int opt_unfenced(struct mount_opts *o, const char *v)
{
	(void)v;
	o->unfenced = true;
	return 0;
}
static int opt_allow_other(struct mount_opts *o, const char *v)
{
	(void)v;
	o->allow_other = true;
	return 0;
}
static int opt_uid(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, UINT32_MAX - 1, &n);

	if (rc == 0) {
		o->shown.has_uid = true;
		o->shown.uid = (uid_t)n;
	}
	return rc;
}
static int opt_gid(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, UINT32_MAX - 1, &n);

	if (rc == 0) {
		o->shown.has_gid = true;
		o->shown.gid = (gid_t)n;
	}
	return rc;
}
static int opt_umask(struct mount_opts *o, const char *v)
{
	char *end;
	unsigned long mask = strtoul(v, &end, 8);

	if (v[0] < '0' || v[0] > '7' || *end || mask > 0777)
		return -EINVAL;
	o->shown.has_mode = true;
	o->shown.mode = (mode_t)(0777 & ~mask);
	return 0;
}
static int opt_nocompress(struct mount_opts *o, const char *v)
{
	(void)v;
	o->compress = false;
	return 0;
}
static int opt_slot(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, UINT16_MAX, &n);

	if (rc == 0)
		o->slot = (unsigned)n;
	return rc;
}
static int opt_of(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, UINT16_MAX, &n);

	if (rc == 0)
		o->slots = (unsigned)n;
	return rc;
}
static int opt_attempt(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, UINT32_MAX, &n);

	if (rc == 0)
		o->attempt = (unsigned)n;
	return rc;
}
static int opt_lanes(struct mount_opts *o, const char *v)
{
	uint64_t n;
	int rc = number(v, 64, &n);

	if (rc == 0)
		o->lanes = (unsigned)n;
	return rc;
}
static int opt_quiet(struct mount_opts *o, const char *v)
{
	return seconds(v, &o->policy.quiet_ns);
}
static int opt_commit(struct mount_opts *o, const char *v)
{
	return seconds(v, &o->policy.commit_gap_ns);
}
static int opt_settle(struct mount_opts *o, const char *v)
{
	return seconds(v, &o->policy.settle_ns);
}
static int opt_patience(struct mount_opts *o, const char *v)
{
	return seconds(v, &o->policy.patience_ns);
}
static int opt_logs(struct mount_opts *o, const char *v)
{
	int rc = set_string(&o->logs, v);

	o->policy.logs = o->logs ? o->logs : TRACK_LOGS_DEFAULT;
	return rc;
}

static int opt_notice(struct mount_opts *o, const char *v)
{
	return notice_where_of(v, &o->notice.where) ? 0 : -EINVAL;
}
static int opt_notice_file(struct mount_opts *o, const char *v)
{
	return v[0] == '/' ? set_string(&o->notice.file, v) : -EINVAL;
}
static int opt_notice_margin(struct mount_opts *o, const char *v)
{
	int rc = seconds(v, &o->notice.margin_ns);

	if (rc == 0 && o->notice.margin_ns < NOTICE_MARGIN_LEAST_NS)
		o->notice.margin_ns = NOTICE_MARGIN_LEAST_NS;
	return rc;
}
static int opt_metrics(struct mount_opts *o, const char *v)
{
	return v[0] == '/' ? set_string(&o->metrics, v) : -EINVAL;
}
static int opt_notice_exec(struct mount_opts *o, const char *v)
{
	return *v ? set_string(&o->notice.exec, v) : -EINVAL;
}
static int opt_notice_signal(struct mount_opts *o, const char *v)
{
	o->notice.signal = call_signal(v);
	return o->notice.signal ? 0 : -EINVAL;
}
static int opt_notice_pid(struct mount_opts *o, const char *v)
{
	bool known = v[0] == '/' || strncmp(v, "cgroup:/", 8) == 0 || (v[0] > '0' && v[0] <= '9');

	return known ? set_string(&o->notice.pid, v) : -EINVAL;
}

static const struct opt {
	const char *name;
	const char *value; /* what stands behind "=", NULL: nothing does */
	int (*set)(struct mount_opts *o, const char *value);
	const char *help;
} opts[] = {
	{"cache", "DIR", opt_cache, "where contents lie until they are sent, and after"},
	{"cache_size", "SIZE", opt_cache_size, "contents that the store has are dropped beyond it (half the free disk)"},
	{"full", "wait|enospc:SECONDS", opt_full, "what writers do when there is no room: wait, or fail after so long"},
	{"fsync", "local|remote", opt_fsync, "what fsync(2) waits for: the cache's disk, or the good moment"},
	{"on_kill", "keep|revert", opt_on_kill, "a file whose writer was killed: stays as it is, or is what it was before (keep)"},
	{"restore", "good|newest|empty|N", opt_restore, "which commit to continue"},
	{"warm", "newest|none", opt_warm, "what is fetched before it is read: the newest files (none with ro)"},
	{"ro", NULL, opt_ro, "look, change nothing; follows the writer"},
	{"follow", "good|newest|off", opt_follow, "with ro: the moment that is shown as a writer goes on (good)"},
	{"rw", NULL, opt_rw, "the default"},
	{"takeover", NULL, opt_takeover, "replace a writer that did not release the store"},
	{"unfenced", NULL, opt_unfenced, "on a store that ignores conditions: one writer, by hand"},
	{"allow_other", NULL, opt_allow_other, "other users see the mount too"},
	{"uid", "UID", opt_uid, "show everything as this user's, by number"},
	{"gid", "GID", opt_gid, "and as this group's"},
	{"umask", "MASK", opt_umask, "show modes of 0777 without these bits, octal"},
	{"commit", "SECONDS", opt_commit, "least time between commits (5)"},
	{"quiet", "SECONDS", opt_quiet, "no change for so long makes a quiet moment (1)"},
	{"settle", "SECONDS", opt_settle, "a set of a new shape is whole after so long (10)"},
	{"patience", "SECONDS", opt_patience, "then an objection to a moment is dropped (600)"},
	{"logs", "PATTERNS", opt_logs, "names of files that only grow (" TRACK_LOGS_DEFAULT ")"},
	{"notice", "auto|ec2|gcp|azure|none", opt_notice, "whose notices of an interruption are heeded (auto)"},
	{"notice_file", "PATH", opt_notice_file, "that this file appears is a notice, too"},
	{"notice_margin", "SECONDS", opt_notice_margin, "kept back from the time that a notice gives (20)"},
	{"notice_exec", "COMMAND", opt_notice_exec, "run at a notice, so that the trainer saves once more"},
	{"notice_signal", "TERM|INT|HUP|QUIT|USR1|USR2|CONT|URG", opt_notice_signal, "sent to it, for the same"},
	{"notice_pid", "PID|PATH|cgroup:PATH", opt_notice_pid, "whom to: a number, a file that holds one, a cgroup"},
	{"metrics", "PATH", opt_metrics, "figures for Prometheus, in this file"},
	{"lanes", "N", opt_lanes, "threads that move data (one a core, at most 4)"},
	{"nocompress", NULL, opt_nocompress, "store chunks as they are"},
	{"slot", "R", opt_slot, "this writer's number in a distributed job"},
	{"of", "N", opt_of, "how many writers it has"},
	{"attempt", "K", opt_attempt, "of the job"},
};

/*
 * Words of mount(8) that hold for every file system.  What mount.holdfast leaves to others (noauto,
 * x-...) is taken from a person's command line too.
 */
enum word_kind {
	WORD_MEANS_NOTHING, /* or is always so: reading moves no atime, permissions are the kernel's */
	WORD_VFS,           /* the kernel sees to it */
	WORD_SYNC,
	WORD_REMOUNT,
};
static const struct {
	const char *name;
	enum word_kind kind;
} generic[] = {
	{"exec", WORD_VFS}, {"noexec", WORD_VFS}, {"suid", WORD_VFS}, {"nosuid", WORD_VFS},
	{"dev", WORD_VFS}, {"nodev", WORD_VFS},
	{"sync", WORD_SYNC}, {"dirsync", WORD_VFS}, {"remount", WORD_REMOUNT},
	{"defaults", WORD_MEANS_NOTHING}, {"async", WORD_MEANS_NOTHING},
	{"auto", WORD_MEANS_NOTHING}, {"noauto", WORD_MEANS_NOTHING},
	{"nofail", WORD_MEANS_NOTHING}, {"_netdev", WORD_MEANS_NOTHING},
	{"default_permissions", WORD_MEANS_NOTHING},
	{"atime", WORD_MEANS_NOTHING}, {"noatime", WORD_MEANS_NOTHING},
	{"diratime", WORD_MEANS_NOTHING}, {"nodiratime", WORD_MEANS_NOTHING},
	{"relatime", WORD_MEANS_NOTHING}, {"norelatime", WORD_MEANS_NOTHING},
	{"strictatime", WORD_MEANS_NOTHING}, {"nostrictatime", WORD_MEANS_NOTHING},
	{"lazytime", WORD_MEANS_NOTHING}, {"nolazytime", WORD_MEANS_NOTHING},
	{"silent", WORD_MEANS_NOTHING}, {"loud", WORD_MEANS_NOTHING},
};

static int add_vfs(struct mount_opts *o, const char *word, struct fault *f)
{
	size_t n = strlen(o->vfs);

	if ((size_t)snprintf(o->vfs + n, sizeof(o->vfs) - n, ",%s", word) < sizeof(o->vfs) - n)
		return 0;
	o->vfs[n] = '\0';
	return fault_set(f, -E2BIG, FAULT_FINAL, "option %s: so many of its kind were given before", word);
}

static int set_word(struct mount_opts *o, enum word_kind kind, const char *word, struct fault *f)
{
	switch (kind) {
	case WORD_VFS:
		return add_vfs(o, word, f);
	case WORD_SYNC:
		o->sync = true;
		return add_vfs(o, word, f);
	case WORD_REMOUNT:
		return fault_set(f, -EOPNOTSUPP, FAULT_FINAL,
				 "option remount: a mount keeps the options it has; unmount it, and mount it anew");
	case WORD_MEANS_NOTHING:
		break;
	}
	return 0;
}

static int parse_word(struct mount_opts *o, const char *word, struct fault *f)
{
	for (size_t i = 0; i < sizeof(generic) / sizeof(generic[0]); i++)
		if (strcmp(word, generic[i].name) == 0)
			return set_word(o, generic[i].kind, word, f);
	if (strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0)
		return 0;
	return fault_set(f, -EINVAL, FAULT_FINAL, "option %s is not known; holdfast-mount(8) lists them", word);
}

void opts_default(struct mount_opts *o)
{
	*o = (struct mount_opts){.slots = 1, .compress = true, .policy = TRACK_POLICY_DEFAULT,
				  .notice = {.where = NOTICE_AUTO}};
}

/* What stands for a value in usage says too little of what it has to look like. */
static const char *in_words(const char *value)
{
	static const char *const words[][2] = {
		{"DIR", "an absolute path"},
		{"PATH", "an absolute path"},
		{"SIZE", "bytes, or a number with K, M, G or T"},
		{"SECONDS", "a number of seconds"},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(value, words[i][0]) == 0)
			return words[i][1];
	return value;
}

static int parse_one(struct mount_opts *o, char *word, struct fault *f)
{
	char *value = strchr(word, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++) {
		int rc;

		if (strcmp(word, opts[i].name) != 0)
			continue;
		if (!value != !opts[i].value)
			return fault_set(f, -EINVAL, FAULT_FINAL, "option %s%s%s", word,
					 value ? " takes no value" : " wants a value: ", value ? "" : opts[i].value);
		rc = opts[i].set(o, value ? value : "");
		if (rc == -EINVAL)
			return fault_set(f, rc, FAULT_FINAL, "option %s=%s: should be %s", word, value,
					 in_words(opts[i].value));
		return rc < 0 ? fault_errno(f, rc, "option %s", word) : 0;
	}
	return parse_word(o, word, f);
}

int opts_parse(struct mount_opts *o, const char *text, struct fault *f)
{
	scoped(free) char *copy = strdup(text);
	char *save = NULL;
	int rc = 0;

	if (!copy)
		return fault_errno(f, -ENOMEM, "options");
	for (char *word = strtok_r(copy, ",", &save); rc == 0 && word; word = strtok_r(NULL, ",", &save))
		rc = parse_one(o, word, f);
	return rc;
}

/* What is asked for by its number does not change; restore=newest asks for all there is. */
static enum follow follow_by_restore(enum restore_from restore)
{
	return restore == RESTORE_GOOD ? FOLLOW_GOOD : restore == RESTORE_NEWEST ? FOLLOW_NEWEST : FOLLOW_OFF;
}

static int check_follow(struct mount_opts *o, struct fault *f)
{
	if (o->follow != FOLLOW_DEFAULT && !o->read_only)
		return fault_set(f, -EINVAL, FAULT_FINAL, "option follow: only a mount with -o ro follows another writer");
	if (o->follow != FOLLOW_DEFAULT && o->follow != FOLLOW_OFF && follow_by_restore(o->restore) == FOLLOW_OFF)
		return fault_set(f, -EINVAL, FAULT_FINAL, "options restore and follow: one moment is shown, or the newest");
	if (o->follow == FOLLOW_DEFAULT)
		o->follow = o->read_only ? follow_by_restore(o->restore) : FOLLOW_OFF;
	return 0;
}

int opts_check(struct mount_opts *o, struct fault *f)
{
	if (o->slots == 0 || o->slot >= o->slots)
		return fault_set(f, -EINVAL, FAULT_FINAL, "option slot=%u: there are of=%u slots, counted from 0", o->slot, o->slots);
	if (o->slots > 1 && o->fsync_remote)
		return fault_set(f, -EINVAL, FAULT_FINAL,
				 "options fsync=remote and of=%u: an fsync would wait for all slots, and they for it", o->slots);
	if (o->slots > 1 && o->unfenced)
		return fault_set(f, -EINVAL, FAULT_FINAL, "options unfenced and of=%u: several writers need a store that heeds conditions",
				 o->slots);
	if (o->slots > 1 && o->attempt == 0)
		o->attempt = 1;
	if (o->read_only && o->takeover)
		return fault_set(f, -EINVAL, FAULT_FINAL, "options ro and takeover: a mount that changes nothing replaces nobody");
	if (o->warm == WARM_DEFAULT)
		o->warm = o->read_only ? WARM_NONE : WARM_NEWEST; /* who looks may pay for each byte */
	if (!o->notice.signal != !o->notice.pid)
		return fault_set(f, -EINVAL, FAULT_FINAL, "options notice_signal and notice_pid: one says what is sent, the other whom to");
	return check_follow(o, f);
}

void opts_help(FILE *out)
{
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++) {
		char head[64];

		(void)snprintf(head, sizeof(head), "%s%s%s", opts[i].name, opts[i].value ? "=" : "", opts[i].value ? opts[i].value : "");
		(void)fprintf(out, "  -o %-28s %s\n", head, opts[i].help);
	}
}

void opts_fini(struct mount_opts *o)
{
	free(o->cache);
	free(o->logs);
	free(o->metrics);
	free(o->notice.file);
	free(o->notice.exec);
	free(o->notice.pid);
	o->cache = o->logs = o->metrics = o->notice.file = o->notice.exec = o->notice.pid = NULL;
}
