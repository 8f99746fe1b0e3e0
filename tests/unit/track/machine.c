/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of machine.h: facts as the mount notes them, commits as the mount makes them. */
#include "machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START_NS (10000 * NS_PER_S) /* second 0 of a script */
#define STEP_NS (NS_PER_S / 4)
#define MOST 4096 /* of anything: a script is small */

struct inode {
	uint64_t version, size; /* 0 is a directory's version */
	uint64_t sealed_version, sealed_size;
	uint64_t first_seal_ns, seal_ns;
	const char *content, *sealed_content;
	struct seal_facts facts;
	bool only_grown;
	int last_pid;
};

struct name {
	char path[MACHINE_PATH_MAX];
	size_t inode;
	uint64_t appeared_ns;
};

struct writer {
	size_t inode;
	int pid;
};

struct loss {
	char path[MACHINE_PATH_MAX];
	uint64_t at_ns;
};

void machine_init(struct machine *m)
{
	*m = (struct machine){
		.policy = TRACK_POLICY_DEFAULT,
		.now_ns = START_NS,
		.pid = 100,
		.inode = calloc(MOST, sizeof(*m->inode)),
		.name = calloc(MOST, sizeof(*m->name)),
		.writer = calloc(MOST, sizeof(*m->writer)),
		.loss = calloc(MOST, sizeof(*m->loss)),
	};
	m->change_ns = m->now_ns;
}

void machine_fini(struct machine *m)
{
	free(m->inode);
	free(m->name);
	free(m->writer);
	free(m->loss);
	free(m->newest.place);
	free(m->good.place);
}

/* ---- the tree ---- */

static struct name *find(struct machine *m, const char *path)
{
	for (size_t i = 0; i < m->name_n; i++)
		if (strcmp(m->name[i].path, path) == 0)
			return &m->name[i];
	return NULL;
}

static struct name *get(struct machine *m, const char *path)
{
	struct name *n = find(m, path);

	if (!n)
		fail_msg("the script names %s, which is not there", path);
	return n;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static struct log_facts log_facts(const struct inode *i, const char *path)
{
	return (struct log_facts){.name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path,
				  .only_grown_since_seal = i->only_grown};
}

static bool is_a_log(const struct machine *m, const struct name *n)
{
	const struct inode *i = &m->inode[n->inode];
	const struct log_facts facts = log_facts(i, n->path);

	return i->version && is_log(&facts, &m->policy, m->now_ns);
}

static void changed(struct machine *m, const struct name *n)
{
	if (n && is_a_log(m, n))
		return;
	m->change_ns = m->now_ns;
	if (!m->changed_ns)
		m->changed_ns = m->now_ns;
}

static struct name *add_name(struct machine *m, const char *path, size_t inode)
{
	struct name *n = &m->name[m->name_n++];

	assert_true(m->name_n < MOST && strlen(path) < MACHINE_PATH_MAX);
	memcpy(n->path, path, strlen(path) + 1);
	n->inode = inode;
	n->appeared_ns = m->now_ns;
	return n;
}

static size_t add_inode(struct machine *m, uint64_t version)
{
	assert_true(m->inode_n < MOST);
	m->inode[m->inode_n] = (struct inode){.version = version, .only_grown = true};
	return m->inode_n++;
}

static void lose_name(struct machine *m, const char *path)
{
	assert_true(m->loss_n < MOST);
	memcpy(m->loss[m->loss_n].path, path, MACHINE_PATH_MAX);
	m->loss[m->loss_n++].at_ns = m->now_ns;
}

static void remove_name(struct machine *m, struct name *n)
{
	changed(m, NULL);
	lose_name(m, n->path);
	*n = m->name[--m->name_n];
}

static void remove_tree(struct machine *m, const char *path)
{
	for (size_t i = 0; i < m->name_n;) {
		if (strcmp(m->name[i].path, path) == 0 || is_below(m->name[i].path, path))
			remove_name(m, &m->name[i]);
		else
			i++;
	}
}

static void rename_tree(struct machine *m, const char *from, const char *to)
{
	struct name *over = find(m, to);

	if (over)
		remove_name(m, over);
	for (size_t i = 0; i < m->name_n; i++) {
		struct name *n = &m->name[i];
		char rest[MACHINE_PATH_MAX];

		if (strcmp(n->path, from) != 0 && !is_below(n->path, from))
			continue;
		lose_name(m, n->path);
		memcpy(rest, n->path + strlen(from), strlen(n->path) - strlen(from) + 1);
		assert_true(strlen(to) + strlen(rest) < sizeof(n->path));
		(void)stpcpy(stpcpy(n->path, to), rest);
		n->appeared_ns = m->now_ns;
	}
	changed(m, NULL);
}

/* ---- writers ---- */

static void note_write(struct machine *m, struct inode *i)
{
	i->version++;
	i->facts.last_write_ns = m->now_ns;
	i->facts.last_write_unknown = false;
	i->last_pid = m->pid;
}

static void open_file(struct machine *m, const char *path, bool append)
{
	struct name *n = find(m, path);
	bool is_new = !n;
	struct inode *i;

	if (is_new)
		n = add_name(m, path, add_inode(m, 1));
	i = &m->inode[n->inode];
	if (is_new || !append)
		note_write(m, i);
	if (!append) {
		i->only_grown = is_new;
		i->size = 0;
	}
	if (i->facts.writers_open++ == 0)
		i->facts.first_writer_open_ns = m->now_ns;
	i->facts.killed_ns = 0;
	assert_true(m->writer_n < MOST);
	m->writer[m->writer_n++] = (struct writer){.inode = n->inode, .pid = m->pid};
	if (is_new || !append)
		changed(m, n);
}

static void write_file(struct machine *m, const char *path, uint64_t size, const char *content)
{
	struct name *n = get(m, path);

	note_write(m, &m->inode[n->inode]);
	m->inode[n->inode].size += size ? size : 1000;
	m->inode[n->inode].content = content;
	changed(m, n);
}

static void release(struct machine *m, struct writer *w)
{
	struct seal_facts *f = &m->inode[w->inode].facts;

	if (--f->writers_open == 0)
		f->first_writer_open_ns = 0;
	f->last_release_ns = m->now_ns;
	*w = m->writer[--m->writer_n];
}

static void close_file(struct machine *m, const char *path)
{
	size_t inode = get(m, path)->inode;

	for (size_t k = 0; k < m->writer_n; k++) {
		if (m->writer[k].inode != inode || m->writer[k].pid != m->pid)
			continue;
		if (m->inode[inode].last_pid == m->pid)
			m->inode[inode].facts.clean_close_ns = m->now_ns;
		release(m, &m->writer[k]);
		return;
	}
	fail_msg("the script closes %s, which is not open", path);
}

static void kill_trainer(struct machine *m)
{
	for (size_t k = 0; k < m->writer_n;) {
		struct inode *i = &m->inode[m->writer[k].inode];

		if (m->writer[k].pid != m->pid) {
			k++;
			continue;
		}
		if (i->last_pid == m->pid)
			i->facts.killed_ns = m->now_ns;
		release(m, &m->writer[k]);
	}
	m->pid++;
}

/* ---- what the mount does ---- */

static void tell_killed_files(struct machine *m, int pid)
{
	for (size_t k = 0; k < m->inode_n; k++)
		if (m->inode[k].facts.killed_ns && m->inode[k].last_pid != pid)
			m->inode[k].facts.newest_other_seal_ns = m->now_ns;
}

static void seal_all(struct machine *m)
{
	for (size_t k = 0; k < m->name_n; k++) {
		struct inode *i = &m->inode[m->name[k].inode];

		if (!i->version || i->sealed_version == i->version ||
		    !sealed(&i->facts, &m->policy, m->now_ns))
			continue;
		i->sealed_version = i->version;
		i->sealed_size = i->size;
		i->sealed_content = i->content;
		i->seal_ns = m->now_ns;
		if (!i->first_seal_ns)
			i->first_seal_ns = m->now_ns;
		i->only_grown = true;
		tell_killed_files(m, i->last_pid);
		changed(m, &m->name[k]);
	}
}

static bool is_held(const struct machine *m)
{
	for (size_t k = 0; k < m->name_n; k++) {
		const struct inode *i = &m->inode[m->name[k].inode];
		const struct log_facts log = log_facts(i, m->name[k].path);

		if (i->version && quiet_holds(&i->facts, &log, &m->policy, m->now_ns))
			return true;
	}
	return false;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->path, ((const struct place *)b)->path);
}

/* The content that a commit stores for a name; false: it stores none. */
static bool stored(const struct machine *m, const struct name *n, struct place *out)
{
	const struct inode *i = &m->inode[n->inode];
	bool log = is_a_log(m, n);

	if (i->version && !log && !i->sealed_version)
		return false;
	*out = (struct place){
		.is_dir = !i->version,
		.is_log = log,
		.inode = n->inode,
		.version = log ? i->version : i->sealed_version,
		.size = log ? i->size : i->sealed_size,
		.content = log ? i->content : i->sealed_content,
		.gained_ns = n->appeared_ns > i->first_seal_ns ? n->appeared_ns : i->first_seal_ns,
		.sealed_ns = i->seal_ns,
		.mtime_ns = (int64_t)(i->seal_ns ? i->seal_ns : n->appeared_ns),
	};
	memcpy(out->path, n->path, sizeof(out->path));
	return true;
}

static void freeze(struct machine *m, bool quiet)
{
	struct moment *s = &m->newest;

	free(s->place);
	*s = (struct moment){.place = calloc(m->name_n + 1, sizeof(*s->place)),
			     .number = s->number + 1,
			     .frozen_ns = m->now_ns,
			     .quiet = quiet};
	assert_non_null(s->place);
	for (size_t k = 0; k < m->name_n; k++)
		s->n += stored(m, &m->name[k], &s->place[s->n]);
	qsort(s->place, s->n, sizeof(*s->place), by_path);
	m->changed_ns = 0;
	m->ask = true;
}

const struct place *moment_find(const struct moment *s, const char *path)
{
	struct place key;

	if (!s->n)
		return NULL;
	(void)snprintf(key.path, sizeof(key.path), "%s", path);
	return bsearch(&key, s->place, s->n, sizeof(*s->place), by_path);
}

/* ---- the input of vouch(), as the committer fills it ---- */

static uint64_t lost_at(const struct machine *m, const char *path)
{
	for (size_t k = m->loss_n; k-- > 0;)
		if (strcmp(m->loss[k].path, path) == 0)
			return m->loss[k].at_ns;
	return 0;
}

/* Directly in the directory?  "" is the root. */
static bool is_in(const char *path, const char *dir)
{
	if (dir[0] == '\0')
		return !strchr(path, '/');
	return is_below(path, dir) && !strchr(path + strlen(dir) + 1, '/');
}

static const char *base(const char *path)
{
	return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

static struct vouch_entry entry(const struct place *p, enum vouch_change change)
{
	return (struct vouch_entry){
		.name = base(p->path),
		.change = change,
		.is_dir = p->is_dir,
		.is_log = p->is_log,
		.size = p->size,
		.gained_ns = p->gained_ns,
		.sealed_ns = p->sealed_ns,
		.mtime_ns = p->mtime_ns,
	};
}

static void add_present(const struct machine *m, struct vouch_input *in, struct vouch_dir *d,
			const struct place *now, bool dir_is_new)
{
	const struct place *was = dir_is_new ? NULL : moment_find(&m->good, now->path);
	struct vouch_entry e = entry(now, was ? VOUCH_KEPT : VOUCH_GAINED);

	if (was && !now->is_dir && (was->inode != now->inode || was->version != now->version)) {
		e.change = VOUCH_REWRITTEN;
		e.old_size = was->size;
		e.lost_ns = now->sealed_ns;
	}
	vouch_entry_add(in, d, &e);
}

static void add_absent(const struct machine *m, struct vouch_input *in, struct vouch_dir *d,
		       const struct place *was)
{
	struct vouch_entry e = entry(was, VOUCH_LOST);

	e.lost_ns = lost_at(m, was->path);
	vouch_entry_add(in, d, &e);
}

static void add_listing(const struct machine *m, struct vouch_input *in, const char *path,
			enum vouch_change change, const struct place *dir)
{
	struct vouch_dir *d = vouch_dir_add(in, path, change, dir ? dir->gained_ns : 0,
					    dir ? dir->mtime_ns : 0);

	for (size_t k = 0; change != VOUCH_LOST && k < m->newest.n; k++)
		if (is_in(m->newest.place[k].path, path))
			add_present(m, in, d, &m->newest.place[k], change == VOUCH_GAINED);
	for (size_t k = 0; change != VOUCH_GAINED && k < m->good.n; k++) {
		const struct place *was = &m->good.place[k];

		if (is_in(was->path, path) &&
		    (change == VOUCH_LOST || !moment_find(&m->newest, was->path)))
			add_absent(m, in, d, was);
	}
}

/* Does the directory differ between the two moments? */
static bool differs(const struct machine *m, const char *path)
{
	for (size_t k = 0; k < m->newest.n; k++) {
		const struct place *now = &m->newest.place[k];
		const struct place *was = moment_find(&m->good, now->path);

		if (is_in(now->path, path) &&
		    (!was || was->inode != now->inode || was->version != now->version))
			return true;
	}
	for (size_t k = 0; k < m->good.n; k++)
		if (is_in(m->good.place[k].path, path) &&
		    !moment_find(&m->newest, m->good.place[k].path))
			return true;
	return false;
}

static void add_siblings(const struct machine *m, struct vouch_input *in, const char *path)
{
	struct vouch_pick pick = {.name = base(path)};
	size_t parent_len = (size_t)(base(path) - path);
	char sibling[2 * MACHINE_PATH_MAX + VOUCH_NAME_MAX];

	for (size_t k = 0; k < m->good.n; k++) {
		const struct place *p = &m->good.place[k];

		if (p->is_dir && (size_t)(base(p->path) - p->path) == parent_len &&
		    strncmp(p->path, path, parent_len) == 0)
			vouch_pick_offer(&pick, base(p->path), p->mtime_ns);
	}
	for (size_t k = 0; k < pick.n; k++) {
		(void)snprintf(sibling, sizeof(sibling), "%.*s%s", (int)parent_len, path,
			       pick.best[k].name);
		if (!vouch_has_dir(in, sibling) && moment_find(&m->newest, sibling))
			add_listing(m, in, sibling, VOUCH_KEPT, moment_find(&m->good, sibling));
	}
}

static void add_dirs(const struct machine *m, struct vouch_input *in)
{
	size_t changed_n;

	add_listing(m, in, "", VOUCH_KEPT, NULL);
	for (size_t k = 0; k < m->newest.n; k++) {
		const struct place *now = &m->newest.place[k];
		const struct place *was = moment_find(&m->good, now->path);

		if (!now->is_dir)
			continue;
		if (!was || was->inode != now->inode)
			add_listing(m, in, now->path, VOUCH_GAINED, now);
		else if (differs(m, now->path))
			add_listing(m, in, now->path, VOUCH_KEPT, was);
	}
	for (size_t k = 0; k < m->good.n; k++) {
		const struct place *was = &m->good.place[k];
		const struct place *now = moment_find(&m->newest, was->path);

		if (was->is_dir && (!now || now->inode != was->inode))
			add_listing(m, in, was->path, VOUCH_LOST, was);
	}
	changed_n = m->newest.n;
	for (size_t k = 0; k < changed_n; k++)
		if (m->newest.place[k].is_dir && vouch_has_dir(in, m->newest.place[k].path))
			add_siblings(m, in, m->newest.place[k].path);
}

static void become_good(struct machine *m)
{
	free(m->good.place);
	m->good = m->newest;
	m->good.place = calloc(m->newest.n + 1, sizeof(*m->good.place));
	assert_non_null(m->good.place);
	for (size_t k = 0; k < m->newest.n; k++)
		m->good.place[k] = m->newest.place[k];
	m->good_moves++;
	m->ack_ns = 0;
	if (m->on_good)
		m->on_good(m);
}

static void judge(struct machine *m)
{
	scoped(vouch_input_fini) struct vouch_input in = VOUCH_INPUT_EMPTY;

	in.quiet = m->newest.quiet;
	in.changed_ns = m->changed_ns;
	in.ack_ns = m->ack_ns;
	in.notice_ns = m->notice_ns;
	m->ask = false;
	add_dirs(m, &in);
	if (vouch(&in, &m->policy, m->now_ns, &m->why) == VOUCH_GOOD)
		become_good(m);
}

static void commit(struct machine *m)
{
	bool quiet = !is_held(m) && m->now_ns - m->change_ns >= m->policy.quiet_ns;
	bool is_new = m->changed_ns || m->newest.number == 0;
	bool may = m->newest.number == 0 || m->ack_ns || m->notice_ns ||
		   m->now_ns - m->newest.frozen_ns >= m->policy.commit_gap_ns;

	if (is_new && may && quiet)
		freeze(m, true);
	else if (is_new && m->ack_ns && m->now_ns - m->ack_ns >= m->policy.ack_wait_ns)
		freeze(m, false);
	/* again_ns is believed: asking at each step would hide it where it is too late */
	if (m->why.again_ns && m->now_ns >= m->why.again_ns)
		m->ask = true;
	if (m->newest.number != m->good.number && m->ask)
		judge(m);
}

static void step(struct machine *m)
{
	m->now_ns += STEP_NS;
	seal_all(m);
	commit(m);
}

void machine_wait(struct machine *m, double until_s)
{
	uint64_t until_ns = START_NS + (uint64_t)(until_s * 1e9);

	while (m->now_ns + STEP_NS <= until_ns)
		step(m);
}

/* ---- scripts ---- */

void machine_fault(struct machine *m, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	print_error("           at %.2f s: %s\n", (double)(m->now_ns - START_NS) / 1e9, text);
	m->faults++;
}

static void check_has(struct machine *m, const struct event *e)
{
	const struct place *p = moment_find(&m->good, e->a);

	if (!p)
		machine_fault(m, "the good moment has no %s: %s", e->a, m->why.text);
	else if (e->b && (!p->content || strcmp(p->content, e->b) != 0))
		machine_fault(m, "%s is %s, not %s", e->a,
			 p->content ? p->content : "empty", e->b);
}

static void check_says(struct machine *m, const struct event *e)
{
	if (!e->a && m->newest.number != m->good.number)
		machine_fault(m, "it is not good: %s", m->why.text);
	if (e->a && !strstr(m->why.text, e->a))
		machine_fault(m, "\"%s\" does not say \"%s\"", m->why.text, e->a);
}

static void link_file(struct machine *m, const char *from, const char *to)
{
	changed(m, add_name(m, to, get(m, from)->inode));
}

void machine_do(struct machine *m, const struct event *e)
{
	machine_wait(m, e->at_s);
	switch (e->op) {
	case MKDIR:
		changed(m, add_name(m, e->a, add_inode(m, 0)));
		break;
	case OPEN:
	case REOPEN:
		open_file(m, e->a, e->op == REOPEN);
		break;
	case WRITE:
		write_file(m, e->a, e->size, e->b);
		break;
	case CLOSE:
		close_file(m, e->a);
		break;
	case SAVE:
	case APPEND:
		open_file(m, e->a, e->op == APPEND);
		write_file(m, e->a, e->size, e->b);
		close_file(m, e->a);
		break;
	case SYNC_ONE:
		m->inode[get(m, e->a)->inode].facts.clean_close_ns = m->now_ns;
		break;
	case RENAME:
		(void)get(m, e->a);
		rename_tree(m, e->a, e->b);
		break;
	case LINK:
		link_file(m, e->a, e->b);
		break;
	case UNLINK:
		remove_name(m, get(m, e->a));
		break;
	case RMTREE:
		remove_tree(m, e->a);
		break;
	case KILL:
		kill_trainer(m);
		break;
	case ACK:
		m->ack_ns = m->now_ns;
		m->ask = true;
		break;
	case NOTICE:
		m->notice_ns = e->size * NS_PER_S;
		m->ask = true;
		break;
	case HAS:
		check_has(m, e);
		break;
	case LACKS:
		if (moment_find(&m->good, e->a))
			machine_fault(m, "the good moment has %s", e->a);
		break;
	case SAYS:
		check_says(m, e);
		break;
	}
	seal_all(m);
}
