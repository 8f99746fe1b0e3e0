/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the input of vouch(): names folded, directories and entries added, siblings picked. */
#include "fs/track/vouch_set.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How much of a name is before a short ending like .h5 or .pt2, whose digits number nothing. */
static size_t stem_len(const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t len = strlen(name);

	if (!dot || dot == name || !is_letter(dot[1]) || strlen(dot + 1) > 3)
		return len;
	return (size_t)(dot - name);
}

void vouch_fold(const char *name, char *out)
{
	size_t stem = stem_len(name);

	for (size_t i = 0; name[i]; i++) {
		if (i >= stem || !is_digit(name[i]))
			*out++ = name[i];
		else if (i == 0 || !is_digit(name[i - 1]))
			*out++ = '#';
	}
	*out = '\0';
}

bool vouch_number(const char *name, const char **out, size_t *out_len)
{
	size_t stem = stem_len(name);
	size_t from = 0, to;

	while (from < stem && !is_digit(name[from]))
		from++;
	if (from == stem)
		return false;
	for (to = from; to < stem && is_digit(name[to]); to++)
		;
	while (from + 1 < to && name[from] == '0')
		from++;
	*out = name + from;
	*out_len = to - from;
	return true;
}

/* Room for one more element in a growing array; false: no memory, nothing changed. */
static bool make_room(void **array, size_t n, size_t *cap, size_t element)
{
	size_t more = *cap ? *cap * 2 : 16;
	void *grown;

	if (n < *cap)
		return true;
	grown = reallocarray(*array, more, element);
	if (!grown)
		return false;
	*array = grown;
	*cap = more;
	return true;
}

static void dir_free(struct vouch_dir *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->items_n; i++)
		free((char *)d->items[i].e.name);
	free(d->items);
	free(d->path);
	free(d->like);
	free(d);
}
SCOPE_PTR(struct vouch_dir, dir_free)

static struct vouch_dir *dir_new(const char *path)
{
	scoped(dir_free) struct vouch_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->path = strdup(path);
	d->like = strdup(path);
	if (!d->path || !d->like)
		return NULL;
	vouch_fold(vouch_base(path), d->like + (vouch_base(path) - path));
	return take(&d);
}

struct vouch_dir *vouch_dir_add(struct vouch_input *in, const char *path, enum vouch_change change,
				uint64_t gained_ns, int64_t mtime_ns)
{
	struct vouch_dir *d = dir_new(path);

	if (!d || !make_room((void **)&in->dirs, in->dirs_n, &in->dirs_cap, sizeof(*in->dirs))) {
		dir_free(d);
		in->failed = true;
		return NULL;
	}
	d->change = change;
	d->gained_ns = gained_ns;
	d->mtime_ns = mtime_ns;
	in->dirs[in->dirs_n++] = d;
	return d;
}

void vouch_entry_add(struct vouch_input *in, struct vouch_dir *d, const struct vouch_entry *e)
{
	size_t size = strlen(e->name) + 1;
	struct vouch_item *item;
	char *names = NULL;

	if (!d || !make_room((void **)&d->items, d->items_n, &d->items_cap, sizeof(*d->items)) ||
	    !(names = malloc(2 * size))) {
		in->failed = true;
		return;
	}
	memcpy(names, e->name, size);
	vouch_fold(names, names + size);
	item = &d->items[d->items_n++];
	*item = (struct vouch_item){.e = *e, .fold = names + size};
	item->e.name = names;
	if (!vouch_number(names, &item->number, &item->number_len))
		item->number = NULL;
}

bool vouch_has_dir(const struct vouch_input *in, const char *path)
{
	for (size_t i = 0; i < in->dirs_n; i++)
		if (in->dirs[i]->change != VOUCH_LOST && strcmp(in->dirs[i]->path, path) == 0)
			return true;
	return false;
}

void vouch_input_fini(struct vouch_input *in)
{
	for (size_t i = 0; i < in->dirs_n; i++)
		dir_free(in->dirs[i]);
	free(in->dirs);
	*in = VOUCH_INPUT_EMPTY;
}

bool vouch_newer(int64_t a_mtime_ns, const char *a, int64_t b_mtime_ns, const char *b)
{
	if (a_mtime_ns != b_mtime_ns)
		return a_mtime_ns > b_mtime_ns;
	return strverscmp(a, b) > 0;
}

static bool alike(const char *a, const char *b)
{
	char a_fold[VOUCH_NAME_MAX + 1], b_fold[VOUCH_NAME_MAX + 1];

	if (strlen(a) > VOUCH_NAME_MAX || strlen(b) > VOUCH_NAME_MAX)
		return false;
	vouch_fold(a, a_fold);
	vouch_fold(b, b_fold);
	return strcmp(a_fold, b_fold) == 0;
}

void vouch_pick_offer(struct vouch_pick *k, const char *name, int64_t mtime_ns)
{
	size_t at = 0;

	if (strcmp(name, k->name) == 0 || !alike(name, k->name))
		return;
	while (at < k->n && !vouch_newer(mtime_ns, name, k->best[at].mtime_ns, k->best[at].name))
		at++;
	if (at == VOUCH_PICKS)
		return;
	if (k->n < VOUCH_PICKS)
		k->n++;
	memmove(&k->best[at + 1], &k->best[at], (k->n - at - 1) * sizeof(k->best[0]));
	memcpy(k->best[at].name, name, strlen(name) + 1);
	k->best[at].mtime_ns = mtime_ns;
}
