/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of cases for vouch().  A directory is written as one line:
 *
 *	"+step-1200@100: =config.json +model.pt@101,105 -old.pt@99:50 ~last.pt@98:70:80 +*train.log"
 *
 * '+' gained, '-' lost, '=' kept, '~' rewritten; '*' a log, '/' behind a name a directory; then
 * @second (of the gain or loss, and of the last seal), :size, and :old size of a rewritten file.
 * The root's name is '.'; its sign is '='.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "fs/track/vouch.h"

#define S(seconds) ((uint64_t)(seconds) * NS_PER_S)

static enum vouch_change change_of(char sign)
{
	switch (sign) {
	case '+':
		return VOUCH_GAINED;
	case '-':
		return VOUCH_LOST;
	case '~':
		return VOUCH_REWRITTEN;
	default:
		assert_int_equal(sign, '=');
		return VOUCH_KEPT;
	}
}

/* The number behind a mark, and what is left of the word without it. */
static uint64_t number_behind(const char *word, char mark, int nth)
{
	for (; nth > 0 && word; nth--)
		word = strchr(word + 1, mark);
	return word ? strtoull(word + 1, NULL, 10) : 0;
}

static void parse_entry(struct vouch_input *in, struct vouch_dir *d, const char *word)
{
	char name[64];
	const char *bare = word + 1 + (word[1] == '*');
	size_t len = strcspn(bare, "@:");
	uint64_t at_ns = S(number_behind(word, '@', 1));
	struct vouch_entry e = {
		.name = name,
		.change = change_of(word[0]),
		.is_log = word[1] == '*',
		.size = number_behind(bare, ':', 1),
		.old_size = number_behind(bare, ':', 2),
		.sealed_ns = S(number_behind(word, ',', 1)),
	};

	(void)snprintf(name, sizeof(name), "%.*s", (int)len, bare);
	if (name[len - 1] == '/') {
		e.is_dir = true;
		name[len - 1] = '\0';
	}
	if (e.change == VOUCH_GAINED)
		e.gained_ns = at_ns;
	else
		e.lost_ns = at_ns;
	vouch_entry_add(in, d, &e);
}

static void parse_dir(struct vouch_input *in, const char *line)
{
	char text[1024], *rest = text, *head, *word;
	struct vouch_dir *d;
	uint64_t at_ns;

	assert_true(strlen(line) < sizeof(text));
	memcpy(text, line, strlen(line) + 1);
	head = strsep(&rest, " ");
	at_ns = S(number_behind(head, '@', 1));
	head[strcspn(head, "@:")] = '\0';
	d = vouch_dir_add(in, strcmp(head + 1, ".") == 0 ? "" : head + 1, change_of(head[0]),
			  at_ns, 0);
	while ((word = strsep(&rest, " ")))
		if (*word)
			parse_entry(in, d, word);
}

struct vouch_case {
	const char *name;
	const char *dirs[6];
	uint64_t now_s;
	int objection;       /* 0: it is good */
	uint64_t again_s;
	const char *text;    /* has to be in the reason */
	uint64_t changed_s, ack_s, notice_s;
	bool unquiet, unsealed_growing;
	const char *torn;
};

#define HF_100 "=config.json =model.safetensors =optimizer.pt =trainer_state.json"

/* Asked at a second, it is good; or the objection, when to ask again, and words of the reason. */
#define GOOD(now) .now_s = (now)
#define NOT_YET(now, number, again, words) \
	.now_s = (now), .objection = (number), .again_s = (again), .text = (words)

static const struct vouch_case cases[] = {
	{"nothing changed", {"=.: =a.pt"}, GOOD(100)},

	/* 1: quiet */
	{"not quiet", {"=.: =a.pt"},
	 NOT_YET(100, 1, 0, "a.pt is being written"), .unquiet = true},
	{"not quiet for half a file that was closed", {"=.: =a.pt"},
	 NOT_YET(100, 1, 0, "a.pt: zip without its directory"), .unquiet = true,
	 .torn = "zip without its directory"},
	{"not quiet, sync came 9 s ago", {"=.: =a.pt"}, NOT_YET(100, 1, 101, "a.pt"), .ack_s = 91,
	 .unquiet = true},
	{"not quiet, sync came 10 s ago", {"=.: =a.pt"}, GOOD(100), .ack_s = 90, .unquiet = true},

	/* 2, no sibling: settle */
	{"the first set, 9 s after its last file",
	 {"=.: +checkpoint-100/@50", "+checkpoint-100@50: +config.json@51 +model.safetensors@91"},
	 NOT_YET(100, 2, 101, "checkpoint-100/model.safetensors is new")},
	{"the first set, 10 s after its last file (a pause of 30 s is not seen)",
	 {"=.: +checkpoint-100/@50", "+checkpoint-100@50: +config.json@51 +model.safetensors@90"},
	 GOOD(100)},
	{"sealed again 9 s ago", {"=.: +a.pt@85,91"}, NOT_YET(100, 2, 101, "a.pt is new")},
	{"sealed again and again for longer than settle", {"=.: +metrics.json@70,99"}, GOOD(100)},
	{"a directory that was just made", {"=.: +out/@95", "+out@95:"},
	 NOT_YET(100, 2, 105, "out/ is new")},
	{"settle at a notice of 60 s is 6 s", {"=.: +a.pt@93"}, GOOD(100), .notice_s = 60},
	{"... and 10 s at most", {"=.: +a.pt@91"}, NOT_YET(100, 2, 101, "a.pt"), .notice_s = 300},
	{"names that keep coming: patience after the first",
	 {"=.: +a.pt@100 +b.pt@400 +c.pt@699"}, NOT_YET(699, 2, 700, "c.pt is new")},
	{"... has passed", {"=.: +a.pt@100 +b.pt@400 +c.pt@700"}, GOOD(700)},
	{"the tree changed 2 s after N was frozen: waiting makes N no better",
	 {"=.: +a.pt@99"}, NOT_YET(5000, 2, 0, "a.pt is new"), .changed_s = 102},
	{"the tree changed, but 11 s after", {"=.: +a.pt@99"}, GOOD(5000), .changed_s = 110},
	{"sync in the middle of a set", {"=.: +a.pt@99"}, GOOD(100), .ack_s = 100},
	{"a log in a new directory", {"=.: +runs/@50", "+runs@50: +*events.out.tfevents.1@99"},
	 GOOD(100)},

	/* 2, a sibling: what it lacks */
	{"a pause of 30 s inside a set with an older sibling",
	 {"=.: =checkpoint-100/ +checkpoint-200/@50", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@50: +config.json@60 +model.safetensors@70"},
	 NOT_YET(100, 2, 670,
		 "checkpoint-200/ lacks optimizer.pt and 1 more that checkpoint-100/ has")},
	{"the set is whole: at once",
	 {"=.: =checkpoint-100/ +checkpoint-200/@50", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@50: +config.json@60 +model.safetensors@70 +optimizer.pt@99"
	  " +trainer_state.json@99"}, GOOD(100)},
	{"its directory was just made",
	 {"=.: =checkpoint-100/ +checkpoint-200/@99", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@99:"},
	 NOT_YET(100, 2, 699, "checkpoint-200/ lacks config.json and 3 more")},
	{"... made before the good moment, and empty then",
	 {"=.: =checkpoint-100/ =checkpoint-200/", "=checkpoint-100: " HF_100,
	  "=checkpoint-200: +config.json@60"},
	 NOT_YET(100, 2, 660, "checkpoint-200/ lacks model.safetensors")},
	{"an empty directory is no sibling",
	 {"=.: =epoch-1/ =epoch-2/", "=epoch-2:", "=epoch-1: +a.pt@99"},
	 NOT_YET(100, 2, 109, "epoch-1/a.pt is new")},
	{"patience after its last change",
	 {"=.: =checkpoint-100/ +checkpoint-200/@50", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@50: +config.json@60 +model.safetensors@70"}, GOOD(670)},
	{"renewed by each change, 1 h at most",
	 {"=.: =checkpoint-100/ +checkpoint-200/@50", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@50: +config.json@60 +model.safetensors@3600"},
	 NOT_YET(3649, 2, 3650, "lacks")},
	{"... has passed",
	 {"=.: =checkpoint-100/ +checkpoint-200/@50", "=checkpoint-100: " HF_100,
	  "+checkpoint-200@50: +config.json@60 +model.safetensors@3600"}, GOOD(3650)},
	{"delete before save: the deleted set is the sibling (accelerate, limit 1)",
	 {"=.: -checkpoint_1/@40 +checkpoint_2/@50",
	  "-checkpoint_1@40: -model.safetensors@40:60 -optimizer.bin@40:30 -random_states_0.pkl@40:9",
	  "+checkpoint_2@50: +model.safetensors@60:60"},
	 NOT_YET(100, 2, 660,
		 "checkpoint_2/ lacks optimizer.bin and 1 more that checkpoint_1/ has")},
	{"a directory removed and made anew under its name",
	 {"=.: -ckpt/@40 +ckpt/@50", "-ckpt@40: -a.pt@40 -b.pt@40", "+ckpt@50: +a.pt@60"},
	 NOT_YET(100, 2, 660, "ckpt/ lacks b.pt")},
	{"shards: seven of eight",
	 {"=.: =step-1/ +step-2/@50",
	  "=step-1: =__0_0.distcp =__1_0.distcp =__2_0.distcp", "+step-2@50: +__0_0.distcp@60"},
	 NOT_YET(100, 2, 180, "step-2/ has 1 of the 3 like __0_0.distcp that step-1/ has")},
	{"shards: ... with the only whole set deleted, patience",
	 {"=.: -step-1/@40 +step-2/@50", "-step-1@40: -__0_0.distcp@40 -__1_0.distcp@40",
	  "+step-2@50: +__0_0.distcp@60"}, NOT_YET(180, 2, 660, "1 of the 2 like __0_0.distcp")},
	{"shards: fewer for good, after shard_wait",
	 {"=.: =step-1/ +step-2/@50",
	  "=step-1: =__0_0.distcp =__1_0.distcp =__2_0.distcp", "+step-2@50: +__0_0.distcp@60"},
	 GOOD(180)},
	{"a half that was vouched for is no measure once a whole one has come",
	 {"=.: =step-1/ +step-2/@50 +step-3/@70", "=step-1: =a.pt", "+step-2@50: +a.pt@51 +b.pt@52",
	  "+step-3@70: +a.pt@71"}, NOT_YET(100, 2, 671, "step-3/ lacks b.pt that step-2/ has")},
	{"an unfinished set is newest, the one before it counts",
	 {"=.: =step-1/ =step-2/ +step-3/@50", "=step-1: =a.pt =b.pt", "=step-2: =a.pt",
	  "+step-3@50: +a.pt@60"}, NOT_YET(100, 2, 660, "step-3/ lacks b.pt that step-1/ has")},
	{"... also where it only has fewer shards",
	 {"=.: =step-1/ =step-2/ +step-3/@50", "=step-1: =a-0.pt =a-1.pt", "=step-2: =a-0.pt",
	  "+step-3@50: +a-0.pt@60"},
	 NOT_YET(100, 2, 180, "1 of the 2 like a-0.pt that step-1/ has")},
	{"two unfinished sets are newest, and the last whole one was deleted",
	 {"=.: -step-1/@40 =step-2/ =step-3/ +step-4/@50", "-step-1@40: -a.pt@40 -b.pt@40",
	  "=step-2: =a.pt", "=step-3: =a.pt", "+step-4@50: +a.pt@60"},
	 NOT_YET(100, 2, 660, "step-4/ lacks b.pt that step-1/ has")},
	{"a shape given up two sets ago is forgotten",
	 {"=.: =step-1/ =step-2/ =step-3/ +step-4/@50", "=step-1: =a.pt =b.pt", "=step-2: =a.pt",
	  "=step-3: =a.pt", "+step-4@50: +a.pt@60"}, GOOD(100)},
	{"a set left half by a crash: the next one alone does not end the wait",
	 {"=.: =step-1/ +step-2/@50 +step-3/@90", "=step-1: =a.pt =b.pt", "+step-2@50: +a.pt@60",
	  "+step-3@90: +a.pt@91 +b.pt@92"}, NOT_YET(100, 2, 660, "step-2/ lacks b.pt")},
	{"... patience does",
	 {"=.: =step-1/ +step-2/@50 +step-3/@90", "=step-1: =a.pt =b.pt", "+step-2@50: +a.pt@60",
	  "+step-3@90: +a.pt@91 +b.pt@92"}, GOOD(660)},
	{"no good moment yet: an older complete set serves",
	 {"=.: +step-1/@10 +step-2/@50", "+step-1@10: +a.pt@11 +b.pt@12", "+step-2@50: +a.pt@60"},
	 NOT_YET(100, 2, 660, "step-2/ lacks b.pt that step-1/ has")},
	{"... but not the other way round",
	 {"=.: +step-1/@10 +step-2/@50", "+step-1@10: +a.pt@11", "+step-2@50: +a.pt@60 +b.pt@61"},
	 GOOD(100)},
	{"members of the good moment are not asked for again (run-2/ and final.pt)",
	 {"=.: =run-1/ =run-2/", "=run-1: =config.yaml =final.pt", "=run-2: =config.yaml +best.pt@60"},
	 GOOD(100)},
	{"the sibling's logs and temporary files are not asked for",
	 {"=.: =step-1/ +step-2/@50", "=step-1: =a.pt =*eval.log =old.jsonl =.tmpx7 =a.pt.partial =b.tmp1",
	  "+step-2@50: +a.pt@99"}, GOOD(100)},
	{"shards inside a new directory are no sets of their own (HF, 2 shards, 4 ranks)",
	 {"=.: =checkpoint-1/ +checkpoint-2/@50",
	  "=checkpoint-1: =model-00001-of-00002.safetensors =model-00002-of-00002.safetensors"
	  " =rng_state_0.pth =rng_state_1.pth =rng_state_2.pth =rng_state_3.pth",
	  "+checkpoint-2@50: +model-00001-of-00002.safetensors@98"
	  " +model-00002-of-00002.safetensors@98 +rng_state_0.pth@99 +rng_state_1.pth@99"
	  " +rng_state_2.pth@99 +rng_state_3.pth@99"}, GOOD(100)},
	{"... nor in the first of them",
	 {"=.: +checkpoint-2/@50",
	  "+checkpoint-2@50: +model-00001-of-00002.safetensors@60"
	  " +model-00002-of-00002.safetensors@61 +rng_state_0.pth@62 +rng_state_1.pth@63"
	  " +rng_state_2.pth@64 +rng_state_3.pth@65"}, GOOD(100)},

	/* 2, groups of files */
	{"TF: data without index",
	 {"=tf: =checkpoint =ckpt-4.index =ckpt-4.data-00000-of-00001"
	  " +ckpt-5.data-00000-of-00001@60"},
	 NOT_YET(100, 2, 660,
		 "tf/ckpt-5.data-00000-of-00001 has nothing beside it like ckpt-4.index")},
	{"TF: both there",
	 {"=tf: ~checkpoint@99 =ckpt-4.index =ckpt-4.data-00000-of-00001"
	  " +ckpt-5.data-00000-of-00001@99 +ckpt-5.index@99"}, GOOD(100)},
	{"TF, keep 1: the deleted pair is the sibling",
	 {"=tf: =checkpoint -ckpt-4.index@50:1 -ckpt-4.data-00000-of-00001@50:9"
	  " +ckpt-5.data-00000-of-00001@60:9"}, NOT_YET(100, 2, 660, "like ckpt-4.index")},
	{"TF, no good moment yet",
	 {"=.: +checkpoint@50 +ckpt-1.index@50 +ckpt-1.data-00000-of-00001@51"
	  " +ckpt-2.data-00000-of-00001@60"}, NOT_YET(100, 2, 660, "like ckpt-1.index")},
	{"GAN: generator without discriminator", {"=.: =G_100.pth =D_100.pth +G_200.pth@60"},
	 NOT_YET(100, 2, 660, "G_200.pth has nothing beside it like D_100.pth")},
	{"single files whose like is there", {"=.: =step-100.pt +step-200.pt@99"}, GOOD(100)},
	{"the first single file", {"=.: +step-100.pt@99"},
	 NOT_YET(100, 2, 109, "step-100.pt is new")},
	{"single files, keep 1, in either order", {"=.: -step-100.pt@98:50 +step-200.pt@99:50"},
	 GOOD(100)},
	{"Lightning: the epoch comes first in the name",
	 {"=.: =epoch=0-step=100.ckpt +epoch=0-step=200.ckpt@99"}, GOOD(100)},
	{"numbered metrics files every 2 s",
	 {"=.: =metrics-7.json +metrics-8.json@95 +metrics-9.json@97 +metrics-10.json@99"},
	 GOOD(100)},
	{"digits of an ending number nothing", {"=.: =model.h5 =step-5.pt +step-6.pt@99"},
	 GOOD(100)},
	{"newest by number, not by spelling",
	 {"=.: =a-9.pt =b-9.pt =a-10.pt =a-11.pt +a-100.pt@60"}, GOOD(100)},

	/* in place */
	{"last.pt rewritten in place", {"=.: ~last.pt@99:100:100"}, GOOD(100)},
	{"metrics.json rewritten every 2 s", {"=.: =step-1.pt +step-2.pt@99 ~metrics.json@99"},
	 GOOD(100)},
	{"LightGBM: model.txt sealed, its next O_APPEND is not in N", {"=.: ~model.txt@99:50:40"},
	 GOOD(100)},

	/* 3: loss */
	{"the only checkpoint deleted", {"=.: -step-100.pt@90:1000"},
	 NOT_YET(100, 3, 690,
		 "1000 bytes were deleted and only 0 gained since the good moment (step-100.pt)")},
	{"... patience later", {"=.: -step-100.pt@90:1000"}, GOOD(690)},
	{"... while the next is being written", {"=.: -step-100.pt@90:1000"},
	 NOT_YET(690, 3, 3690, "deleted"),
	 .unsealed_growing = true},
	{"... for an hour", {"=.: -step-100.pt@90:1000"}, GOOD(3690), .unsealed_growing = true},
	{"... with sync", {"=.: -step-100.pt@90:1000"}, GOOD(100), .ack_s = 100},
	{"half is back", {"=.: -step-100.pt@90:1000 =step-0.pt +step-200.pt@99:500"}, GOOD(100)},
	{"less than half is back", {"=.: -step-100.pt@90:1001 =step-0.pt +step-200.pt@99:500"},
	 NOT_YET(100, 3, 690, "1001 bytes were deleted and only 500 gained")},
	{"logs count neither as loss nor as gain",
	 {"=.: -*old.log@90:5000 +*new.log@90:9000 =a-1.pt -a-2.pt@90:1000 +a-3.pt@91:400"},
	 NOT_YET(100, 3, 690, "1000 bytes were deleted and only 400 gained")},
	{"a file that shrank to a third", {"=.: ~last.pt@90:300:1000"},
	 NOT_YET(100, 3, 690, "last.pt")},
	{"losses that go on: 1 h after the first",
	 {"=.: -a.pt@100:10 -b.pt@3500:10"}, NOT_YET(3600, 3, 3700, "20 bytes were deleted")},
	{"a lost directory's files count",
	 {"=.: -step-1/@90", "-step-1@90: -a.pt@90:700 -b.pt@91:800"},
	 NOT_YET(100, 3, 691,
		 "1500 bytes were deleted and only 0 gained since the good moment (step-1/b.pt)")},
	{"a renamed directory loses nothing",
	 {"=.: -tmp-1/@50 +step-1/@50", "-tmp-1@50: -a.pt@50:700",
	 "+step-1@50: +a.pt@50:700"}, GOOD(100)},
};

static void run_case(const struct vouch_case *c)
{
	const struct track_policy p = TRACK_POLICY_DEFAULT;
	scoped(vouch_input_fini) struct vouch_input in = VOUCH_INPUT_EMPTY;
	struct vouch_reason why;
	enum vouch_verdict verdict;

	in.quiet = !c->unquiet;
	in.holder = "a.pt";
	in.torn = c->torn;
	in.changed_ns = S(c->changed_s);
	in.ack_ns = S(c->ack_s);
	in.notice_ns = S(c->notice_s);
	in.unsealed_growing = c->unsealed_growing;
	for (size_t i = 0; i < 6 && c->dirs[i]; i++)
		parse_dir(&in, c->dirs[i]);
	verdict = vouch(&in, &p, S(c->now_s), &why);
	if (why.objection != c->objection || verdict != (c->objection ? VOUCH_NOT_YET : VOUCH_GOOD))
		fail_msg("%s: objection %d (%s), should be %d", c->name, why.objection, why.text,
			 c->objection);
	if (why.again_ns != S(c->again_s))
		fail_msg("%s: again at %llu, should be %llu", c->name,
			 (unsigned long long)(why.again_ns / NS_PER_S),
			 (unsigned long long)c->again_s);
	if (c->text && !strstr(why.text, c->text))
		fail_msg("%s: \"%s\" does not say \"%s\"", c->name, why.text, c->text);
}

static void objections_follow_their_table(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&cases[i]);
}

/* again_ns is a promise to the committer, which sleeps until then. */
static void asking_again_when_told_finds_no_objection(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vouch_case later = cases[i];

		if (!later.again_s)
			continue;
		later.now_s = later.again_s;
		later.objection = 0;
		later.again_s = 0;
		later.text = NULL;
		run_case(&later);
	}
}

static void a_name_folds_by_its_numbers(void **state)
{
	static const char *const table[][3] = {
		/* name, folded, first number */
		{"step-1200", "step-#", "1200"},
		{"ckpt-5.data-00000-of-00001", "ckpt-#.data-#-of-#", "5"},
		{"epoch=0-step=2.ckpt", "epoch=#-step=#.ckpt", "0"},
		{"model-00005.safetensors", "model-#.safetensors", "5"},
		{"__0_1.distcp", "__#_#.distcp", "0"},
		{"000.bin", "#.bin", "0"},
		{"model.h5", "model.h5", NULL},
		{"weights-3.pt2", "weights-#.pt2", "3"},
		{"events.out.tfevents.1700", "events.out.tfevents.#", "1700"},
		{"a.5", "a.#", "5"},
		{".h5", ".h#", "5"},
		{"config", "config", NULL},
		{"", "", NULL},
		{"\xc3\xbc\x37", "\xc3\xbc#", "7"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char folded[64], number[64] = "";
		const char *at;
		size_t len;
		bool found = vouch_number(table[i][0], &at, &len);

		vouch_fold(table[i][0], folded);
		assert_string_equal(folded, table[i][1]);
		assert_int_equal(found, table[i][2] != NULL);
		if (!found)
			continue;
		(void)snprintf(number, sizeof(number), "%.*s", (int)len, at);
		assert_string_equal(number, table[i][2]);
	}
}

static void the_newest_of_a_kind_are_picked(void **state)
{
	struct vouch_pick k = {.name = "step-1200"};

	vouch_pick_offer(&k, "step-1200", 900); /* is not its own sibling */
	vouch_pick_offer(&k, "logs", 900);
	vouch_pick_offer(&k, "step-900", 100);
	assert_int_equal(k.n, 1);
	vouch_pick_offer(&k, "step-1100", 300);
	vouch_pick_offer(&k, "step-1000", 200);
	vouch_pick_offer(&k, "step-800", 50);
	vouch_pick_offer(&k, "step-850", 60);
	assert_int_equal(k.n, VOUCH_PICKS);
	assert_string_equal(k.best[0].name, "step-1100");
	assert_string_equal(k.best[1].name, "step-1000");
	assert_string_equal(k.best[2].name, "step-900");
	assert_string_equal(k.best[3].name, "step-850");
}

static void without_times_the_higher_number_is_newer(void **state)
{
	struct vouch_pick k = {.name = "step-1200"};

	vouch_pick_offer(&k, "step-900", 0);
	vouch_pick_offer(&k, "step-1100", 0);
	vouch_pick_offer(&k, "step-1000", 0);
	assert_string_equal(k.best[0].name, "step-1100");
	assert_string_equal(k.best[1].name, "step-1000");
}

static void an_input_that_ran_out_of_memory_is_not_vouched_for(void **state)
{
	const struct track_policy p = TRACK_POLICY_DEFAULT;
	scoped(vouch_input_fini) struct vouch_input in = VOUCH_INPUT_EMPTY;
	struct vouch_reason why;

	in.quiet = true;
	in.failed = true;
	vouch_entry_add(&in, NULL, &(struct vouch_entry){.name = "a.pt"});
	assert_int_equal(vouch(&in, &p, S(100), &why), VOUCH_NOT_YET);
	assert_int_equal(why.again_ns, S(101));
	assert_non_null(strstr(why.text, "out of memory"));
}

static void a_directory_is_found_by_its_path(void **state)
{
	scoped(vouch_input_fini) struct vouch_input in = VOUCH_INPUT_EMPTY;

	parse_dir(&in, "-gone@5:");
	parse_dir(&in, "=a/b:");
	assert_true(vouch_has_dir(&in, "a/b"));
	assert_false(vouch_has_dir(&in, "b"));
	assert_false(vouch_has_dir(&in, "gone"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objections_follow_their_table),
		cmocka_unit_test(asking_again_when_told_finds_no_objection),
		cmocka_unit_test(a_name_folds_by_its_numbers),
		cmocka_unit_test(the_newest_of_a_kind_are_picked),
		cmocka_unit_test(without_times_the_higher_number_is_newer),
		cmocka_unit_test(an_input_that_ran_out_of_memory_is_not_vouched_for),
		cmocka_unit_test(a_directory_is_found_by_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
