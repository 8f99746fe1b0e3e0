/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The joint good moment of two slots.  Two ranks save step after step, each through its own mount
 * of one store:
 *
 *   both: write shard s, barrier; rank 0: marker = s; barrier; both: delete shard s − 1
 *
 * A mount freezes what it has whenever it likes, and appends that later.  A record carries `calm`
 * = T: "having read up to T, my slot is as in its last commit up to T", or, in a commit, T = its
 * own number: "and as in this one".  So a slot vouches for c … T, c being its last commit up to
 * T, or the reset.  `good` moves to the newest commit in the intervals of both slots since the
 * last reset; that is the greater c, if it is no later than the lesser T. A second gang resets to
 * `good` whenever it likes and goes on from there.  The first may still be alive, but as it can
 * append nothing (attempt.pml) it is not followed any further.  The first joins are left out as
 * well, and so are packs (good.pml).
 *
 * With LEAVES rank 1 may leave when all that it has is committed: its last record releases the
 * slot, which vouches for whatever follows (T is the newest number then).  The slot may be joined
 * again, by a machine that has what the tree has.
 *
 * Checked at every append:
 *   whole     the marker in the tree of `good` has the shards of both ranks beside it
 *   forward   `good` goes back only by a reset
 *   branch    `good` is what the last reset set, or a commit after it
 *
 * Mutants that must fail: ALONE (a slot moves `good` on its own word), EARLY (calm is looked at,
 * then the log is read on, and the later T is written), WIDE (c is not looked at: the newest
 * commit up to the lesser T), STALE (T and c are looked for beyond the reset), OWN_GOOD (a writer
 * repeats the `good` that it wrote last), REPLACE (rank 1 loses its machine, and a new one joins
 * in the same attempt), UNSENT (it leaves with a shard that is not committed).  Witnesses: SEE_MARK
 * (`good` holds the marker of the last step), SEE_SECOND (the second gang moves it), SEEN=left_at
 * (it moves beyond a leave), SEEN=back_at (and beyond the join that follows one).
 */
#ifndef N
#define N 5 /* records */
#endif
#ifndef GANGS
#define GANGS 1
#endif
#define STEPS 2

mtype = { COMMIT, EMPTY, RESET, JOIN, LEAVE }

typedef record {
	mtype kind;
	byte slot;
	byte calm;
	byte good;
	byte tree[2]; /* what each rank has in the tree at this number */
}
record lg[N + 1];
byte tip;
byte reset;  /* number of the second gang's reset */
byte left_at, back_at; /* the last leave and join, for the witnesses */
byte now[2]; /* what each rank has in its own mount, in the gang that came last */

/* What a rank has: shards after `gone` up to `made`; and the marker, which is rank 0's. */
#define made(c) ((c) & 3)
#define gone(c) (((c) >> 2) & 3)
#define mark(c) ((c) >> 4)
#define MADE 1
#define GONE 4
#define MARK 16
#define has(c, s) (gone(c) < (s) && (s) <= made(c))

#define alive ((reset == 0 || second) && !left)

#ifdef UNSENT
#define all_sent(r) true
#else
#define all_sent(r) (now[r] == lg[tip].tree[r])
#endif

/* Scratch; zero between steps. */
byte i_, cut_, good_, c0_, c1_, t0_, t1_;

inline clear()
{
	i_ = 0; cut_ = 0; good_ = 0; c0_ = 0; c1_ = 0; t0_ = 0; t1_ = 0
}

inline find_cut()
{
	cut_ = tip;
	do
	:: cut_ > 0 && lg[cut_].kind != RESET -> cut_--
	:: else -> break
	od
}

#ifdef STALE
#define since 0
#else
#define since cut_
#endif

/* t, c: the newest calm of slot `s` since the last reset, and the slot's last commit up to it. */
inline find_interval(s, t, c)
{
	t = 0;
	i_ = since;
	do
	:: i_ < tip ->
		i_++;
		if
		:: lg[i_].kind != RESET && lg[i_].slot == s && lg[i_].calm > t -> t = lg[i_].calm
		:: else
		fi
	:: else -> break
	od;
	i_ = tip;
	do
	:: i_ > since && (lg[i_].kind == RESET || lg[i_].slot != s) -> i_--
	:: else -> break
	od;
	if
	:: i_ > since && lg[i_].kind == LEAVE -> t = tip
	:: else
	fi;
	c = t;
	do
	:: c > since && !(lg[c].kind == COMMIT && lg[c].slot == s) -> c--
	:: else -> break
	od
}

/* Up to `at`, since the last reset: c0_, the newest commit; t0_, the newest calm of slot `s`. */
inline find_news(s, at)
{
	i_ = at;
	do
	:: i_ > 0 && lg[i_].kind != RESET ->
		c0_ = (lg[i_].kind == COMMIT && i_ > c0_ -> i_ : c0_);
		t0_ = (lg[i_].slot == s && lg[i_].calm > t0_ -> lg[i_].calm : t0_);
		i_--
	:: else -> break
	od
}

/* good_: moved on by what the log says up to its newest record. */
inline join_good()
{
	find_interval(0, t0_, c0_);
	find_interval(1, t1_, c1_);
	t0_ = (t0_ < t1_ -> t0_ : t1_);
	c0_ = (c0_ > c1_ -> c0_ : c1_);
#ifdef WIDE
	c0_ = t0_;
	do
	:: c0_ > cut_ && lg[c0_].kind != COMMIT -> c0_--
	:: else -> break
	od;
#endif
	if
	:: c0_ <= t0_ && c0_ > good_ -> good_ = c0_
	:: else
	fi
}

inline check_good()
{
	i_ = lg[tip].good;
	assert(lg[tip].kind == RESET || i_ >= lg[tip - 1].good); /* forward */
	assert(lg[tip].kind == RESET || i_ <= lg[cut_].good ||
	       (i_ > cut_ && lg[i_].kind == COMMIT)); /* branch */
	c0_ = lg[i_].tree[0];
	c1_ = lg[i_].tree[1];
	assert(mark(c0_) == 0 || (has(c0_, mark(c0_)) && has(c1_, mark(c0_)))) /* whole */
#ifdef SEE_MARK
	; assert(mark(c0_) < STEPS) /* witness */
#endif
#ifdef SEEN
	; assert(SEEN == 0 || i_ <= SEEN) /* witness */
#endif
#ifdef SEE_SECOND
	; assert(cut_ == 0 || i_ <= cut_) /* witness */
#endif
}

/* A commit of `content`, or a record without one, with content = what the tree has. */
inline append(k, s, content, t)
{
	find_cut();
	tip++;
	lg[tip].kind = k;
	lg[tip].slot = s;
	lg[tip].calm = t;
	lg[tip].tree[0] = lg[tip - 1].tree[0];
	lg[tip].tree[1] = lg[tip - 1].tree[1];
	lg[tip].tree[s] = content;
#ifdef OWN_GOOD
	good_ = good;
#else
	good_ = lg[tip - 1].good;
#endif
#ifdef ALONE
	if
	:: k == COMMIT && t == tip -> good_ = tip
	:: else
	fi;
#else
	join_good();
#endif
	lg[tip].good = good_;
	check_good()
}

/* What a new gang's trainers have: they resume from the marker and clear away what lies beyond. */
inline resume()
{
	i_ = mark(lg[tip].tree[0]);
	now[0] = i_ * (MARK + MADE) + gone(lg[tip].tree[0]) * GONE;
	now[1] = i_ * MADE + gone(lg[tip].tree[1]) * GONE
}

/* A mount that has just read up to `at`, with nothing frozen. */
inline start(at)
{
	view = at;
	frozen = 0;
	calm = 0;
	as_frozen = false
}

/* One rank's trainer and its mount. */
proctype rank(byte r)
{
	byte view, frozen; /* frozen: waits to be appended, + 1; 0: nothing does */
	byte calm;         /* the last number at which the slot was seen to be as committed */
	bool as_frozen;    /* it was seen to be as frozen, having read up to `view` */
	byte passed;       /* rank 0: barriers behind it */
	bool second;       /* of the second gang */
	bool replaced;
	bool left;
#ifdef OWN_GOOD
	byte good;
#endif

end:	do
	/* The trainer. */
	:: d_step { /* a shard; rank 1 goes on after the barrier, rank 0 after its marker */
		alive && made(now[r]) < STEPS && !replaced &&
		(r == 0 -> made(now[r]) == mark(now[r]) : made(now[r]) <= made(now[0])) ->
		now[r] = now[r] + MADE
	   }
	:: d_step { /* the barrier */
		alive && r == 0 && passed < made(now[r]) && passed < made(now[1]) ->
		passed++
	   }
	:: d_step { /* the marker */
		alive && r == 0 && mark(now[r]) < passed ->
		now[r] = now[r] + MARK
	   }
	:: d_step { /* the next barrier, and rotation */
		alive && gone(now[r]) + 1 < mark(now[0]) && !replaced ->
		now[r] = now[r] + GONE
	   }

	/* The second gang. */
	:: d_step { /* rank 0 resets */
		r == 0 && GANGS > 1 && reset == 0 && view == tip && tip < N ->
		tip++;
		lg[tip].kind = RESET;
		lg[tip].good = lg[tip - 1].good;
		lg[tip].tree[0] = lg[lg[tip].good].tree[0];
		lg[tip].tree[1] = lg[lg[tip].good].tree[1];
		reset = tip;
		cut_ = tip;
		check_good();
		resume();
		passed = mark(now[0]);
		second = true;
		start(tip);
		clear()
	   }
	:: d_step { /* rank 1 mounts, now or later; who was there before appends nothing now */
		r == 1 && reset != 0 && !second ->
		second = true;
		left = false;
		start(reset)
	   }

	/* The mount. */
	:: d_step { /* read on */
		alive && view < tip ->
		view++;
		as_frozen = false
	   }
	:: d_step { /* freeze */
		alive && frozen == 0 && now[r] != lg[view].tree[r] ->
		frozen = now[r] + 1;
		as_frozen = true
	   }
	:: d_step { /* look whether anything has changed since, after reading on */
		alive && frozen == now[r] + 1 && !as_frozen ->
		as_frozen = true
	   }
	:: d_step { /* the same since the last commit, if there is news to vouch for */
		alive && frozen == 0 && now[r] == lg[view].tree[r] && calm < view ->
		find_news(r, view);
		if
		:: c0_ > t0_ && c0_ > calm -> calm = view
		:: else
		fi;
		clear()
	   }
	:: atomic { /* commit, with a word for it, or, if there is some objection, without */
		alive && view == tip && tip < N && frozen != 0 ->
		if
		:: as_frozen -> calm = tip + 1
		:: calm = 0
		fi;
		d_step {
			append(COMMIT, r, frozen - 1, calm);
			start(tip);
#ifdef OWN_GOOD
			good = good_;
#endif
			clear()
		}
	   }
	:: d_step { /* say only that it is calm */
		alive && view == tip && tip < N && calm != 0 ->
#ifdef EARLY
		calm = view;
#endif
		append(EMPTY, r, lg[tip - 1].tree[r], calm);
		start(tip);
#ifdef OWN_GOOD
		good = good_;
#endif
		clear()
	   }
#ifdef LEAVES
	:: d_step { /* all is committed: leave */
		alive && r == 1 && view == tip && tip < N && frozen == 0 && all_sent(r) ->
		append(LEAVE, r, lg[tip].tree[r], 0);
		start(tip);
		left = true;
		left_at = tip;
		clear()
	   }
	:: d_step { /* another machine in its place */
		left && (reset == 0 || second) && tip < N ->
		append(JOIN, r, lg[tip].tree[r], 0);
		now[r] = lg[tip].tree[r];
		start(tip);
		left = false;
		back_at = tip;
		clear()
	   }
#endif
#ifdef REPLACE
	:: d_step { /* lost; another machine mounts, and has what the tree has; its trainer waits */
		r == 1 && !replaced && view == tip ->
		replaced = true;
		frozen = 0;
		calm = 0;
		as_frozen = false;
		now[r] = lg[tip].tree[r]
	   }
#endif
	od
}

init
{
	atomic {
		run rank(0);
		run rank(1)
	}
}
