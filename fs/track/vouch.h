/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May the good moment move to commit N?  One pure function of what changed between the two and
 * of local times (monotonic ns, 0 is "never"), with three objections:
 *
 *   1  N was not frozen quiet.
 *   2  A set is growing.  A set is a directory, or the files of one directory whose names share
 *      their first number (ckpt-5.index, ckpt-5.data).  Names are compared with digits folded.
 *      a) It is new, and a sibling of the good moment has a member name that it lacks: until
 *         `patience` after its last new member, at most 1 h after its first.
 *      b) It is new and has every name, but fewer of one (shards): as a), but `shard_wait`
 *         (2 min), unless its sibling has been deleted.
 *      c) Its like was never seen, and one of its new files appeared or was sealed within
 *         `settle`: until `patience` after the first of them.
 *   3  More than twice as many sealed bytes are gone as were gained, logs apart: until
 *      `patience` after the loss, or 1 h while a file that was never sealed is being written.
 *
 * What design prose leaves open, and how it is read here:
 *   - Siblings are those of the good moment, deleted since or not: only they were vouched for,
 *     and a loop that deletes before it saves still has one.  With none as full there, one that is
 *     new as well but was complete before this set began serves: else the first set of a kind, if a
 *     crash left it half and it settled, would excuse the next ones from being whole.
 *   - The newest sibling counts; of the newest two the fuller one.  An unfinished set
 *     that a crash left behind would otherwise excuse the next one from being whole.
 *     So does the fullest that was deleted since, if none as full is left.
 *   - A set that had files in the good moment is not measured against siblings again: it was
 *     vouched for as it was.  Else a new run-2/ would wait for the final.pt of run-1/ anew with
 *     each of its files.
 *   - Temporary names (*.tmp*, *.partial, ...) and logs are members of no set.
 *   - A directory is judged by its own sibling if it has one, and by groups of its files only if
 *     not: shards and rank files inside checkpoint-500/ are no sets of their own.
 *   - A new file that is rewritten over and over holds c) for two `settle` at most.
 *   - Times are judged as of the last instant at which the tree was still as in N.
 *
 * What that gives ("at once" is: with the first quiet second, and its commit):
 *   HF Trainer 5, checkpoint-N/      first: 10 s after its last file; then at once when
 *     (no marker)                    trainer_state.json is there, however long the pauses
 *   HF <= 4.36, Orbax (rename of     at once with the rename (nested directories are of a shape
 *     the directory)                 of their own: 10 s); the temporary directory: 10 s
 *   accelerate, ignite (delete       3 holds until half is back, then 2a until the last member;
 *     first), keep-last-1            the deleted set is the sibling
 *   DCP, FSDP                        at once with .metadata (2a), shards counted (2b)
 *   DeepSpeed, Megatron `latest`     2a on global_step#/, `latest` in place: at once
 *   TF ckpt-N.index/.data            group N: .data without .index lacks it (2a)
 *   GAN loops G_100.pth, D_100.pth   group 100, as TF
 *   timm, Lightning, torch.save      step-200.pt, epoch=1-step=9.ckpt: their like is there: at
 *     (one file a checkpoint)        once; the first of them 10 s
 *   last.pt in place, metrics.json   rewritten, no gain of a name: at once
 *   keep-last-1 of single files      at once; deleted before the save: 3 until it is saved
 *   TensorBoard, CSV, wandb          logs: never in the way
 *   rotation some time after         3 until the next save or 10 min: the good moment has the
 *     its save                       new set already and only keeps the old one longer
 *   set left half by a crash         holds for `patience`, then is taken as it is
 *   not protected                    a set rewritten under unchanged names in its directory
 *
 * Thread: any, one input per thread.
 */
#ifndef HOLDFAST_FS_TRACK_VOUCH_H
#define HOLDFAST_FS_TRACK_VOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "fs/track/policy.h"

/* The good moment against N.  An entry is compared by its name, a directory by its id. */
enum vouch_change {
	VOUCH_KEPT,      /* in both */
	VOUCH_GAINED,    /* only in N */
	VOUCH_LOST,      /* only in the good moment */
	VOUCH_REWRITTEN, /* a file in both whose content differs */
};

struct vouch_entry {
	const char *name;
	enum vouch_change change;
	bool is_dir;
	bool is_log;
	uint64_t size;      /* bytes at N, of a LOST one at the good moment; 0 for symlinks,
			     * directories and a further name of an inode counted elsewhere */
	uint64_t old_size;  /* REWRITTEN: bytes at the good moment */
	uint64_t gained_ns; /* GAINED: the name appeared or got its first seal, the later of them;
			     * what was there when the mount came back: that time */
	uint64_t sealed_ns; /* GAINED: its last seal; 0: as gained_ns */
	uint64_t lost_ns;   /* LOST, REWRITTEN: when the old content went */
	int64_t mtime_ns;   /* says which of two sets is newer; 0: the higher number is */
};

struct vouch_dir; /* one directory of the input */

struct vouch_input {
	bool quiet;            /* N was frozen quiet */
	const char *holder;    /* if not: the file that held it back, or NULL; borrowed */
	const char *torn;      /* ... and what it lacks by its own header, or NULL: it is written */
	uint64_t changed_ns;   /* first change but of logs after N was frozen; 0: still as in N */
	uint64_t ack_ns;       /* since when sync, fsync=remote or umount waits; 0: nobody does */
	uint64_t notice_ns;    /* T: from notice to deadline; 0: no notice */
	bool unsealed_growing; /* a file that was never sealed is being written */
	/* filled by vouch_dir_add() */
	struct vouch_dir **dirs;
	size_t dirs_n;
	size_t dirs_cap;
	bool failed; /* memory was short: vouch() will say NOT_YET */
};

#define VOUCH_INPUT_EMPTY ((struct vouch_input){.dirs = NULL})

enum vouch_verdict { VOUCH_NOT_YET, VOUCH_GOOD };

struct vouch_reason {
	int objection;     /* 1, 2 or 3; 0 if there is none */
	uint64_t again_ns; /* when time alone ends the objections; 0: only a newer commit can */
	char text[320];    /* "step-1200/ lacks optimizer.pt that step-1100/ has" */
};

/*
 * How the caller fills an input, knowing none of the rules:
 *   - one vouch_dir_add() for each directory that is new, gone, or gained, lost or rewrote an
 *     entry since the good moment, with *all* its entries, kept ones too.  A directory that was
 *     removed and made anew under its name is two: LOST and GAINED.  One that was renamed is
 *     the same: its subtree is LOST there and GAINED here (sizes cancel out);
 *   - for each of them that is new or has new entries, the listings of a few more: offer
 *     the names of all directories in its parent that were there at the good moment to
 *     struct vouch_pick, and add what it picked.  (Changed ones are in the input anyhow.)
 * With no good moment at all everything is GAINED but the root, which is KEPT.
 * N's entries are those that N stores: a file never sealed that is no log is not among them.
 */

/*
 * Add a directory.  path: from the root, no slash at either end, "" for the root itself;
 * gained_ns: when it appeared, for GAINED.  Names and path are copied.  Returns NULL if memory is
 * short (in->failed is set; the entry function takes NULL).
 */
struct vouch_dir *vouch_dir_add(struct vouch_input *in, const char *path, enum vouch_change change,
				uint64_t gained_ns, int64_t mtime_ns);
void vouch_entry_add(struct vouch_input *in, struct vouch_dir *d, const struct vouch_entry *e);
/* Is a directory of this path in the input (LOST ones not counted)? */
bool vouch_has_dir(const struct vouch_input *in, const char *path);

void vouch_input_fini(struct vouch_input *in); /* leaves VOUCH_INPUT_EMPTY */
SCOPE_VAL(struct vouch_input, vouch_input_fini)

/* The newest directories like one: the two that count, and room for empty ones among them. */
#define VOUCH_PICKS 4
#define VOUCH_NAME_MAX 255

struct vouch_pick {
	const char *name; /* last component of the directory's path; borrowed */
	size_t n;
	struct {
		char name[VOUCH_NAME_MAX + 1];
		int64_t mtime_ns;
	} best[VOUCH_PICKS]; /* newest first */
};

void vouch_pick_offer(struct vouch_pick *k, const char *name, int64_t mtime_ns);

/*
 * A name with each run of digits folded to one '#', but for short endings that begin with a
 * letter (.h5, .pt2).  out has strlen(name) + 1 bytes.
 */
void vouch_fold(const char *name, char *out);

/* The first run of digits that vouch_fold() folds, without leading zeros ("0" stays); or false. */
bool vouch_number(const char *name, const char **out, size_t *out_len);

/* Does N become the good moment?  why is filled either way. */
enum vouch_verdict vouch(const struct vouch_input *in, const struct track_policy *p,
			 uint64_t now_ns, struct vouch_reason *why);

#endif
