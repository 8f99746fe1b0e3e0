/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of vouch: directories as they were handed in, and the sets that they hold. */
#ifndef HOLDFAST_FS_TRACK_VOUCH_SET_H
#define HOLDFAST_FS_TRACK_VOUCH_SET_H

#include "fs/track/vouch.h"

struct vouch_item {
	struct vouch_entry e; /* its name is owned: one allocation with fold */
	const char *fold;
	const char *number; /* in the name; NULL: has none */
	size_t number_len;
};

struct vouch_dir {
	char *path;
	char *like; /* path with its last component folded: siblings are equal in this */
	enum vouch_change change;
	uint64_t gained_ns;
	int64_t mtime_ns;
	struct vouch_item *items;
	size_t items_n, items_cap;
};

/* Files of one directory that belong together, or all of its entries. */
struct vouch_set {
	const struct vouch_dir *dir;
	const struct vouch_item *const *items; /* sorted by fold; logs are not among them */
	size_t n;
	bool group;        /* the files that share a number; else the directory */
	bool in_good;      /* had an entry in the good moment, or has it still */
	bool stayed;       /* has one of those still */
	bool gained;       /* is new or has something new */
	uint64_t first_ns; /* of what it gained */
	uint64_t last_ns;
	int64_t mtime_ns;
};

/* One more way to find a set: by what its siblings have in common with it. */
struct vouch_kin {
	const char *like;
	const struct vouch_set *set;
};

/* All sets that may be compared with one another, by like, the newest first. */
struct vouch_family {
	struct vouch_kin *kin;
	size_t n;
};

/* Items of d that are no logs, by number and then by fold; -ENOMEM.  The caller frees *out. */
int vouch_items_sorted(const struct vouch_dir *d, bool by_number, const struct vouch_item ***out,
		       size_t *out_n);

/* The set that items make. */
struct vouch_set vouch_set_of(const struct vouch_dir *d, const struct vouch_item *const *items,
			      size_t n, bool group);

void vouch_family_sort(struct vouch_family *f);

/*
 * The set that s is measured against, or NULL.  `among_new`: with no sibling as full in the good
 * moment, one that was gained as well but was complete before s began will do.
 */
const struct vouch_set *vouch_sibling(const struct vouch_family *f, const struct vouch_set *s,
				      bool among_new);

/* Nothing of it is left at N. */
bool vouch_is_gone(const struct vouch_set *s);

/* What s lacks of its sibling. */
struct vouch_lack {
	const struct vouch_item *name;  /* a member whose like s has not at all; NULL: none */
	size_t names;                   /* how many such */
	const struct vouch_item *shard; /* one that s has fewer of; NULL: none */
	size_t shards_have, shards_want;
};

/* Nobody waits for the like of a temporary file or, by its name, of a log. */
struct vouch_lack vouch_lacks(const struct vouch_set *s, const struct vouch_set *sibling,
			      const struct track_policy *p);

/* Two entries of a set with the same like: is the number the same? */
bool vouch_same_number(const struct vouch_item *a, const struct vouch_item *b);

/* Newer by time, then by number. */
bool vouch_newer(int64_t a_mtime_ns, const char *a, int64_t b_mtime_ns, const char *b);

static inline bool vouch_is_at_n(const struct vouch_item *i)
{
	return i->e.change != VOUCH_LOST;
}

static inline bool vouch_was_in_good(const struct vouch_item *i)
{
	return i->e.change != VOUCH_GAINED;
}

static inline const char *vouch_base(const char *path)
{
	const char *slash = __builtin_strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
