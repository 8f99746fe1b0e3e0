/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainers as scripts: what the good moment is while they save, pause, rotate, die and go on.
 * After each move of it a machine is imagined that starts there: whatever a script says of its
 * checkpoint directories (`sets`) and its marker file has to be true in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "machine.h"

struct timeline {
	const char *name;
	const char *sets;       /* prefix of directories that are whole or not there */
	const char *members[8]; /* ... with all these */
	const char *marker;     /* a file; its content is a path that has to be there (and whole) */
	struct event event[64];
};

/* ---- what must be true in each good moment ---- */

static void check_whole(struct machine *m, const struct timeline *t, const char *dir)
{
	char path[2 * MACHINE_PATH_MAX];

	for (size_t k = 0; k < 8 && t->members[k]; k++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, t->members[k]);
		if (!moment_find(&m->good, path))
			machine_fault(m, "the good moment has %s/ without %s", dir, t->members[k]);
	}
}

static void check_marker(struct machine *m, const struct timeline *t)
{
	const struct place *marker = moment_find(&m->good, t->marker);

	if (marker && (!marker->content || !moment_find(&m->good, marker->content)))
		machine_fault(m, "%s leads its data", t->marker);
}

static void check_good_moment(struct machine *m)
{
	const struct timeline *t = m->user;

	for (size_t k = 0; t->sets && k < m->good.n; k++) {
		const struct place *p = &m->good.place[k];

		if (p->is_dir && strncmp(p->path, t->sets, strlen(t->sets)) == 0 &&
		    !strchr(p->path + strlen(t->sets), '/'))
			check_whole(m, t, p->path);
	}
	if (t->marker)
		check_marker(m, t);
}

/* ---- scripts ---- */

#define AT(dir, name) dir "/" name

/* HF Trainer 5: the first part of a set, and the second. */
#define HF_MODEL(from, dir) \
	{from, MKDIR, dir}, {from, SAVE, AT(dir, "config.json")}, \
	{from + 1, OPEN, AT(dir, ".tmpAb3x")}, \
	{from + 1, WRITE, AT(dir, ".tmpAb3x"), NULL, 4000}, \
	{from + 1, RENAME, AT(dir, ".tmpAb3x"), AT(dir, "model.safetensors")}, \
	{from + 1, CLOSE, AT(dir, "model.safetensors")}, \
	{from + 1, SAVE, AT(dir, "training_args.bin")}
#define HF_REST(from, dir) \
	{from, SAVE, AT(dir, "optimizer.pt"), NULL, 8000}, \
	{from + 1, SAVE, AT(dir, "trainer_state.json")}
#define HF_MEMBERS \
	{"config.json", "model.safetensors", "training_args.bin", "optimizer.pt", \
	 "trainer_state.json"}

static const struct timeline timelines[] = {
	{.name = "HF Trainer: pauses of 30 s inside a set with an older sibling",
	 .event = {
		HF_MODEL(0, "checkpoint-100"), HF_REST(2, "checkpoint-100"),
		{12.5, LACKS, "checkpoint-100"}, {14, HAS, "checkpoint-100/trainer_state.json"},
		HF_MODEL(100, "checkpoint-200"), {130, LACKS, "checkpoint-200"},
		{130, SAYS, "checkpoint-200/ lacks optimizer.pt and 1 more"},
		HF_REST(131, "checkpoint-200"), {139, HAS, "checkpoint-200/trainer_state.json"},
		/* a rotation that comes late is not followed by itself, but with the next save */
		{140, RMTREE, "checkpoint-100"}, {150, HAS, "checkpoint-100"},
		{150, SAYS, "were deleted and only 0 gained"},
		HF_MODEL(200, "checkpoint-300"), {230, LACKS, "checkpoint-300"},
		HF_REST(231, "checkpoint-300"), {239, HAS, "checkpoint-300/optimizer.pt"},
		{239, LACKS, "checkpoint-100"}, {240, RMTREE, "checkpoint-200"},
		/* ... or 10 min later */
		{839, HAS, "checkpoint-200"}, {841, LACKS, "checkpoint-200"}, {841, SAYS, NULL},
	 },
	 .sets = "checkpoint-", .members = HF_MEMBERS},

	{.name = "HF Trainer: a pause of 30 s in the very first set is taken for its end",
	 .event = {HF_MODEL(0, "checkpoint-100"), {12, HAS, "checkpoint-100/model.safetensors"},
		   HF_REST(31, "checkpoint-100"), {45, HAS, "checkpoint-100/optimizer.pt"}}},

	{.name = "HF Trainer before 4.37: the directory is renamed",
	 .event = {
		{0, MKDIR, "tmp-checkpoint-1"}, {1, SAVE, "tmp-checkpoint-1/a"},
		{2, SAVE, "tmp-checkpoint-1/b"}, {3, RENAME, "tmp-checkpoint-1", "checkpoint-1"},
		{14, HAS, "checkpoint-1/b"}, {50, MKDIR, "tmp-checkpoint-2"},
		{51, SAVE, "tmp-checkpoint-2/a"}, {80, SAVE, "tmp-checkpoint-2/b"},
		{90, RENAME, "tmp-checkpoint-2", "checkpoint-2"}, {93, HAS, "checkpoint-2/b"},
		{93, LACKS, "tmp-checkpoint-2"},
	 },
	 .sets = "checkpoint-", .members = {"a", "b"}},

	{.name = "accelerate: the oldest is deleted first, total_limit 1",
	 .event = {
		{0, MKDIR, "checkpoint_0"}, {0, SAVE, "checkpoint_0/model.safetensors", NULL, 4000},
		{1, SAVE, "checkpoint_0/optimizer.bin", NULL, 8000},
		{1, SAVE, "checkpoint_0/random_states_0.pkl"}, {13, HAS, "checkpoint_0"},
		{100, RMTREE, "checkpoint_0"}, {120, HAS, "checkpoint_0/optimizer.bin"},
		{120, SAYS, "were deleted and only 0 gained"},
		{121, MKDIR, "checkpoint_1"},
		{122, SAVE, "checkpoint_1/model.safetensors", NULL, 4000},
		{140, HAS, "checkpoint_0/optimizer.bin"},
		{141, SAVE, "checkpoint_1/optimizer.bin", NULL, 8000},
		{150, SAYS, "checkpoint_1/ lacks random_states_0.pkl"}, {150, HAS, "checkpoint_0"},
		{151, SAVE, "checkpoint_1/random_states_0.pkl"}, {154, HAS, "checkpoint_1"},
		{154, LACKS, "checkpoint_0"},
	 },
	 .sets = "checkpoint_",
	 .members = {"model.safetensors", "optimizer.bin", "random_states_0.pkl"}},

	{.name = "DCP: shards of two ranks, .metadata last",
	 .event = {
		{0, MKDIR, "step-1"}, {1, OPEN, "step-1/__0_0.distcp"},
		{1, OPEN, "step-1/__1_0.distcp"},
		{2, WRITE, "step-1/__0_0.distcp"}, {2, WRITE, "step-1/__1_0.distcp"},
		{3, SYNC_ONE, "step-1/__0_0.distcp"}, {3, CLOSE, "step-1/__0_0.distcp"},
		{3, SYNC_ONE, "step-1/__1_0.distcp"}, {3, CLOSE, "step-1/__1_0.distcp"},
		{4, SAVE, "step-1/.metadata.tmp"},
		{4, RENAME, "step-1/.metadata.tmp", "step-1/.metadata"},
		{16, HAS, "step-1/.metadata"}, {50, MKDIR, "step-2"},
		{51, SAVE, "step-2/__0_0.distcp"}, {80, LACKS, "step-2"},
		{81, SAVE, "step-2/__1_0.distcp"}, {110, LACKS, "step-2"},
		{111, SAVE, "step-2/.metadata.tmp"},
		{112, RENAME, "step-2/.metadata.tmp", "step-2/.metadata"},
		{119, HAS, "step-2/.metadata"},
	 },
	 .sets = "step-", .members = {"__0_0.distcp", "__1_0.distcp", ".metadata"}},

	{.name = "DeepSpeed: latest in place, last",
	 .event = {
		{0, MKDIR, "global_step1"}, {0, SAVE, "global_step1/mp_rank_00_model_states.pt"},
		{1, SAVE, "global_step1/zero_pp_rank_0_optim_states.pt"},
		{1, SAVE, "latest", "global_step1"}, {14, HAS, "latest", "global_step1"},
		{50, MKDIR, "global_step2"}, {50, SAVE, "global_step2/mp_rank_00_model_states.pt"},
		{90, LACKS, "global_step2"},
		{90, SAVE, "global_step2/zero_pp_rank_0_optim_states.pt"},
		{90.25, OPEN, "latest"}, {100, HAS, "latest", "global_step1"},
		{100, WRITE, "latest", "global_step2"}, {100, CLOSE, "latest"},
		{103, HAS, "latest", "global_step2"},
	 },
	 .sets = "global_step", .marker = "latest",
	 .members = {"mp_rank_00_model_states.pt", "zero_pp_rank_0_optim_states.pt"}},

	{.name = "TF: data, index, checkpoint by rename; the old pair goes last",
	 .event = {
		{0, SAVE, "ckpt-1.data-00000-of-00001"}, {0, SAVE, "ckpt-1.index"},
		{0, SAVE, "checkpoint.tmp1", "ckpt-1.index"},
		{0, RENAME, "checkpoint.tmp1", "checkpoint"},
		{12, HAS, "checkpoint"}, {50, MKDIR, "ckpt-2_temp"},
		{50, SAVE, "ckpt-2_temp/part-0"},
		{51, RENAME, "ckpt-2_temp/part-0", "ckpt-2.data-00000-of-00001"},
		{70, LACKS, "ckpt-2.data-00000-of-00001"}, {70, SAYS, "like ckpt-1.index"},
		{71, SAVE, "ckpt-2.index"}, {71, RMTREE, "ckpt-2_temp"},
		{71, SAVE, "checkpoint.tmp2", "ckpt-2.index"},
		{71, RENAME, "checkpoint.tmp2", "checkpoint"},
		{71, UNLINK, "ckpt-1.index"}, {71, UNLINK, "ckpt-1.data-00000-of-00001"},
		{74, HAS, "checkpoint", "ckpt-2.index"}, {74, LACKS, "ckpt-1.index"},
	 },
	 .marker = "checkpoint"},

	{.name = "Orbax: inner directory, then the outer one renamed",
	 .event = {
		{0, MKDIR, "1.orbax-checkpoint-tmp"},
		{0, MKDIR, "1.orbax-checkpoint-tmp/default.tmp"},
		{1, SAVE, "1.orbax-checkpoint-tmp/default.tmp/manifest.ocdbt"},
		{2, RENAME, "1.orbax-checkpoint-tmp/default.tmp", "1.orbax-checkpoint-tmp/default"},
		{2, SAVE, "1.orbax-checkpoint-tmp/commit_success.txt"},
		{2, RENAME, "1.orbax-checkpoint-tmp", "1"}, {13, HAS, "1/default/manifest.ocdbt"},
		{50, MKDIR, "2.orbax-checkpoint-tmp"},
		{50, MKDIR, "2.orbax-checkpoint-tmp/default.tmp"},
		{51, SAVE, "2.orbax-checkpoint-tmp/default.tmp/manifest.ocdbt"},
		{70, RENAME, "2.orbax-checkpoint-tmp/default.tmp", "2.orbax-checkpoint-tmp/default"},
		{70, SAVE, "2.orbax-checkpoint-tmp/commit_success.txt"},
		{70, RENAME, "2.orbax-checkpoint-tmp", "2"}, {82, HAS, "2/default/manifest.ocdbt"},
	 },
	 .sets = "2/", .members = {"manifest.ocdbt"}},

	{.name = "Lightning: one file, last.ckpt in place, old deleted after",
	 .event = {
		{0, SAVE, "epoch=0-step=10.ckpt"}, {1, SAVE, "last.ckpt"}, {13, HAS, "last.ckpt"},
		{50, SAVE, "epoch=1-step=20.ckpt"}, {52, HAS, "epoch=1-step=20.ckpt"},
		{60, OPEN, "last.ckpt"}, {61, WRITE, "last.ckpt", "half"}, {61, KILL},
		{62, SAVE, "epoch=2-step=30.ckpt"}, {65, HAS, "epoch=2-step=30.ckpt"},
		{70, SAVE, "last.ckpt", "whole"}, {75, HAS, "last.ckpt", "whole"},
	 }},

	{.name = "timm: unlink, rename, link",
	 .event = {
		{0, SAVE, "tmp.pth.tar"}, {0, RENAME, "tmp.pth.tar", "last.pth.tar"},
		{0, LINK, "last.pth.tar", "checkpoint-1.pth.tar"},
		{12, HAS, "checkpoint-1.pth.tar"},
		{50, SAVE, "tmp.pth.tar"}, {50.25, UNLINK, "last.pth.tar"},
		{50.5, RENAME, "tmp.pth.tar", "last.pth.tar"},
		{50.5, LINK, "last.pth.tar", "checkpoint-2.pth.tar"},
		{53, HAS, "checkpoint-2.pth.tar"}, {53, HAS, "last.pth.tar"},
		{53, LACKS, "tmp.pth.tar"},
	 }},

	{.name = "ignite: one file, the oldest deleted before the save",
	 .event = {
		{0, SAVE, "model_1.pt", NULL, 9000}, {12, HAS, "model_1.pt"},
		{50, UNLINK, "model_1.pt"},
		{60, HAS, "model_1.pt"}, {60, OPEN, "model_2.pt"},
		{90, WRITE, "model_2.pt", NULL, 9000},
		{100, HAS, "model_1.pt"}, {100, CLOSE, "model_2.pt"}, {103, HAS, "model_2.pt"},
		{103, LACKS, "model_1.pt"},
	 }},

	{.name = "keep-last-1, saved before it is deleted",
	 .event = {
		{0, SAVE, "step-1.pt"}, {12, HAS, "step-1.pt"}, {50, SAVE, "step-2.pt"},
		{50, UNLINK, "step-1.pt"}, {53, HAS, "step-2.pt"}, {53, LACKS, "step-1.pt"},
	 }},

	{.name = "keep-last-1, killed between delete and save",
	 .event = {
		{0, SAVE, "step-1.pt"}, {12, HAS, "step-1.pt"}, {50, UNLINK, "step-1.pt"},
		{50, OPEN, "step-2.pt"}, {51, WRITE, "step-2.pt"}, {52, KILL},
		{600, HAS, "step-1.pt"},
	 }},

	{.name = "Keras backup: weights and metadata in place",
	 .event = {
		{0, SAVE, "latest.weights.h5", "1"}, {1, SAVE, "training_metadata.json", "1"},
		{14, HAS, "latest.weights.h5", "1"}, {50, OPEN, "latest.weights.h5"},
		{60, WRITE, "latest.weights.h5", "2"}, {70, HAS, "latest.weights.h5", "1"},
		{70, CLOSE, "latest.weights.h5"}, {70, SAVE, "training_metadata.json", "2"},
		{73, HAS, "latest.weights.h5", "2"}, {73, HAS, "training_metadata.json", "2"},
	 }},

	{.name = "NeMo: an -unfinished marker is removed at the end",
	 .event = {
		{0, SAVE, "a-1-unfinished"}, {0, MKDIR, "a-1"}, {1, SAVE, "a-1/w"},
		{2, SAVE, "a-1/o"},
		{2, UNLINK, "a-1-unfinished"}, {14, HAS, "a-1/o"}, {14, LACKS, "a-1-unfinished"},
		{50, SAVE, "a-2-unfinished"}, {50, MKDIR, "a-2"}, {51, SAVE, "a-2/w"},
		{80, LACKS, "a-2"}, {81, SAVE, "a-2/o"}, {81, UNLINK, "a-2-unfinished"},
		{84, HAS, "a-2/o"}, {84, LACKS, "a-2-unfinished"},
	 },
	 .sets = "a-", .members = {"w", "o"}},

	{.name = "a symlink named latest goes last (Composer, wandb, hub): temporary, then rename",
	 .event = {
		{0, SAVE, "ep1.pt"}, {0, SAVE, "latest.tmp", "ep1.pt"},
		{0, RENAME, "latest.tmp", "latest"},
		{12, HAS, "latest", "ep1.pt"}, {50, SAVE, "ep2.pt"},
		{52, SAVE, "latest.tmp", "ep2.pt"},
		{52, RENAME, "latest.tmp", "latest"}, {58, HAS, "latest", "ep2.pt"},
	 },
	 .marker = "latest"},

	{.name = "LightGBM: closes, reopens with O_APPEND at once",
	 .event = {
		{0, OPEN, "model.txt"}, {0, WRITE, "model.txt", "head"}, {0, CLOSE, "model.txt"},
		{0, REOPEN, "model.txt"}, {0.25, WRITE, "model.txt", "head and"},
		{20, LACKS, "model.txt"}, {20, WRITE, "model.txt", "head and tail"},
		{20, CLOSE, "model.txt"},
		{33, HAS, "model.txt", "head and tail"},
	 }},

	{.name = "SQLite: open all the time, sealed by fdatasync",
	 .event = {
		{0, OPEN, "study.db"}, {1, WRITE, "study.db", "1"}, {1, SYNC_ONE, "study.db"},
		{13, HAS, "study.db", "1"}, {60, WRITE, "study.db", "torn"},
		{70, HAS, "study.db", "1"},
		{70, WRITE, "study.db", "2"}, {70, SYNC_ONE, "study.db"},
		{73, HAS, "study.db", "2"},
		{80, WRITE, "study.db", "torn"}, {81, KILL}, {1000, HAS, "study.db", "2"},
	 }},

	{.name = "a TF event file is never closed",
	 .event = {
		{0, OPEN, "events.out.tfevents.1"}, {1, WRITE, "events.out.tfevents.1", "1"},
		{5, SAVE, "step-1.pt"}, {17, HAS, "step-1.pt"},
		{17, HAS, "events.out.tfevents.1", "1"},
		{50, WRITE, "events.out.tfevents.1", "2"}, {50, SAVE, "step-2.pt"},
		{53, HAS, "step-2.pt"}, {53, HAS, "events.out.tfevents.1", "2"},
		/* alone it makes no commit, it rides along with the next */
		{54, WRITE, "events.out.tfevents.1", "3"}, {60, HAS, "events.out.tfevents.1", "2"},
		{60, SAVE, "step-3.pt"}, {62, HAS, "events.out.tfevents.1", "3"},
	 }},

	{.name = "a killed writer's file holds nothing back once the next trainer has saved",
	 .event = {
		{0, SAVE, "step-1.pt"}, {12, HAS, "step-1.pt"}, {20, OPEN, "step-2.pt"},
		{21, WRITE, "step-2.pt"}, {22, KILL}, {60, LACKS, "step-2.pt"},
		{60, SAVE, "step-3.pt"},
		{63, HAS, "step-3.pt"}, {63, LACKS, "step-2.pt"},
	 }},

	{.name = "an unfinished set left behind: 10 min after its last change it is taken as it is",
	 .event = {
		{0, MKDIR, "step-1"}, {0, SAVE, "step-1/a"}, {0, SAVE, "step-1/b"},
		{12, HAS, "step-1/b"},
		{50, MKDIR, "step-2"}, {51, SAVE, "step-2/a"}, {52, KILL}, {100, MKDIR, "step-3"},
		{100, SAVE, "step-3/a"}, {101, SAVE, "step-3/b"}, {640, LACKS, "step-3"},
		{640, SAYS, "step-2/ lacks b"}, {653, HAS, "step-3/b"}, {653, HAS, "step-2/a"},
		/* and it does not make the next half set look whole */
		{700, MKDIR, "step-4"}, {700, SAVE, "step-4/a"}, {750, LACKS, "step-4"},
		{750, SAVE, "step-4/b"}, {753, HAS, "step-4/b"},
	 }},

	{.name = "an unfinished set, taken after 10 min, is no measure for the next",
	 .event = {
		{0, MKDIR, "step-1"}, {0, SAVE, "step-1/a"}, {0, SAVE, "step-1/b"},
		{12, HAS, "step-1/b"},
		{50, MKDIR, "step-2"}, {51, SAVE, "step-2/a"}, {52, KILL}, {660, HAS, "step-2/a"},
		{700, MKDIR, "step-3"}, {700, SAVE, "step-3/a"}, {750, LACKS, "step-3"},
		{750, SAVE, "step-3/b"}, {753, HAS, "step-3/b"},
	 }},

	{.name = "no good moment before the second set: the first one still serves",
	 .event = {
		{0, OPEN, "hold.bin"}, {0, MKDIR, "step-1"}, {1, SAVE, "step-1/a"},
		{1, SAVE, "step-1/b"},
		{20, MKDIR, "step-2"}, {20, SAVE, "step-2/a"}, {21, CLOSE, "hold.bin"},
		{60, LACKS, "step-1"}, {60, SAYS, "step-2/ lacks b"}, {60, SAVE, "step-2/b"},
		{62, HAS, "step-2/b"},
	 },
	 .sets = "step-", .members = {"a", "b"}},

	{.name = "an unfinished set that the next trainer deletes is forgotten",
	 .event = {
		{0, MKDIR, "step-1"}, {0, SAVE, "step-1/a"}, {0, SAVE, "step-1/b"},
		{12, HAS, "step-1/b"},
		{50, MKDIR, "step-2"}, {51, SAVE, "step-2/a"}, {52, KILL}, {80, RMTREE, "step-2"},
		{83, SAYS, NULL}, {83, LACKS, "step-2"},
	 },
	 .sets = "step-", .members = {"a", "b"}},

	{.name = "an acknowledgement in mid-save takes what is there, at once if all is quiet",
	 .event = {
		{0, MKDIR, "step-1"}, {0, SAVE, "step-1/a"}, {0, SAVE, "step-1/b"},
		{12, HAS, "step-1/b"},
		{50, MKDIR, "step-2"}, {50, SAVE, "step-2/a"}, {60, LACKS, "step-2"}, {60, ACK},
		{60.5, HAS, "step-2/a"}, {70, SAVE, "step-2/b"}, {84, HAS, "step-2/b"},
	 }},

	{.name = "an acknowledgement while a file is being written waits 10 s",
	 .event = {
		{0, SAVE, "a.pt", "1"}, {12, HAS, "a.pt", "1"}, {50, OPEN, "a.pt"},
		{50, WRITE, "a.pt", "2"},
		{50, SAVE, "b.pt"}, {51, ACK}, {60.5, LACKS, "b.pt"}, {61.5, HAS, "b.pt"},
		{61.5, HAS, "a.pt", "1"},
	 }},

	{.name = "at a notice of 20 s a first set is good after 2 s",
	 .event = {
		{0, MKDIR, "step-1"}, {0, SAVE, "step-1/a"}, {1, NOTICE, .size = 20},
		{1.75, LACKS, "step-1/a"}, {2.5, HAS, "step-1/a"},
	 }},

	{.name = "a writer open for more than 10 min holds nothing back",
	 .event = {
		{0, OPEN, "swmr.h5"}, {1, WRITE, "swmr.h5"}, {10, SAVE, "step-1.pt"},
		{590, LACKS, "step-1.pt"}, {615, HAS, "step-1.pt"}, {615, LACKS, "swmr.h5"},
		{620, CLOSE, "swmr.h5"}, {640, HAS, "swmr.h5"},
	 }},
};

static size_t faults_in(const struct timeline *t)
{
	struct machine m;

	machine_init(&m);
	m.user = (void *)t;
	m.on_good = check_good_moment;
	for (size_t k = 0; k < sizeof(t->event) / sizeof(t->event[0]); k++)
		if (t->event[k].a || t->event[k].op || t->event[k].at_s > 0)
			machine_do(&m, &t->event[k]);
	machine_fini(&m);
	return m.faults;
}

static void every_trainer_finds_whole_sets(void **state)
{
	size_t failed = 0;

	for (size_t k = 0; k < sizeof(timelines) / sizeof(timelines[0]); k++) {
		if (faults_in(&timelines[k]) == 0)
			continue;
		print_error("           in: %s\n", timelines[k].name);
		failed++;
	}
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_trainer_finds_whole_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
