/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The good moment of one slot: two writers, the second taking over whenever it likes, and a
 * collector.
 *
 * A writer reads the log on, sends packs under names used once, and appends commits; it moves
 * `good` along its branch in a commit or in an empty record, and every other record repeats it.
 * A new mount joins if `good` is the head of the branch and resets to `good` otherwise; a writer
 * that kept its cache joins again.  The collector condemns what is not needed and then deletes
 * it, a pack at a time.  It is harsher than the product's: it condemns packs of a writer that is
 * alive, and keeps no history.  What is never scheduled again has died; what is scheduled late
 * has slept.
 *
 * Checked at every append and every delete:
 *   present   what `good` and every commit after it on the branch names is in the store
 *   fenced    no record of a writer follows a fence later than its own
 *   forward   `good` goes back only by a reset, and names a commit of the branch
 *   branch    a commit or join builds on the head of the branch: what a reset has left behind
 *             does not come back
 *
 * Mutants that must fail: KEEP_HEAD (the collector keeps the head only), NO_CLEAR (a writer
 * trusts packs that were condemned), UNTIED (a condemnation is appended at whatever number is
 * free), BLIND (so is a commit, after a 412), NO_FENCE (a writer does not look for fences),
 * BY_NUMBER (the head is the newest commit by number), VOUCH_LEFT (`good` moves by number, to
 * what a reset has left).  Witnesses must fail as well, to show that the model gets there:
 * SEE_RESET, SEE_DELETE, SEE_LATE (a condemned pack that the writer had sent).
 */
#ifndef N
#define N 5 /* records */
#endif
#ifndef SENDS
#define SENDS 2 /* packs that one writer sends */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* condemnations */
#endif

mtype = { COMMIT, EMPTY, JOIN, RESET, CONDEMN }

typedef record {
	mtype kind;
	byte fence; /* of the writer; a join's or reset's is its own number */
	byte from;  /* the commit that it builds on */
	byte good;
	byte packs; /* commit: all that its tree names; condemn: the names condemned */
}
record lg[N + 1]; /* 1 … tip; 0 is the empty tree */
byte tip;
byte stored; /* packs in the store, a bit each */

#define PACK(w, n) (1 << ((w) * SENDS + (n)))
#define is_commit(n) (lg[n].kind == COMMIT)
#define is_fence(n) (lg[n].kind == JOIN || lg[n].kind == RESET)

/* Scratch of the functions below; zero between steps. */
byte i_, cut_, head_, base_, good_, pack_, need_;

inline clear()
{
	i_ = 0; cut_ = 0; head_ = 0; base_ = 0; good_ = 0; pack_ = 0; need_ = 0
}

/* As read up to `at`: cut_, the last reset or 0; head_, the commit that the branch ends with. */
inline find_branch(at)
{
	cut_ = at;
	do
	:: cut_ > 0 && lg[cut_].kind != RESET -> cut_--
	:: else -> break
	od;
	head_ = at;
	do
	:: head_ > cut_ && !is_commit(head_) -> head_--
	:: else -> break
	od;
	if
	:: head_ == cut_ -> head_ = lg[cut_].from
	:: else
	fi
}

/* need_: the packs of the good moment and of every commit after it on the branch. */
inline find_need()
{
	find_branch(tip);
	need_ = lg[lg[tip].good].packs;
	i_ = (cut_ > lg[tip].good -> cut_ : lg[tip].good);
	do
	:: i_ < tip ->
		i_++;
		if
		:: is_commit(i_) -> need_ = need_ | lg[i_].packs
		:: else
		fi
	:: else -> break
	od
}

inline check_present()
{
	find_need();
	assert((need_ & ~stored) == 0) /* present */
}

inline check_fenced(f)
{
	i_ = tip;
	do
	:: i_ > f ->
		assert(!is_fence(i_)); /* fenced */
		i_--
	:: else -> break
	od
}

/* Append the record (k, f, base_, good_, pack_), in one step with the decision to. */
inline append(k, f)
{
	find_branch(tip);
	if
	:: k == COMMIT || k == JOIN -> assert(base_ == head_) /* branch */
	:: else
	fi;
	assert(k == RESET || good_ >= lg[tip].good); /* forward */
	assert(k == RESET || good_ <= lg[cut_].from || good_ > cut_); /* forward */
	tip++;
	lg[tip].kind = k;
	lg[tip].fence = f;
	lg[tip].from = base_;
	lg[tip].good = good_;
	lg[tip].packs = pack_;
	check_present()
}

/*
 * good_ stays, or moves to any commit after it on the branch up to `last`, which may be the one
 * about to be appended.
 */
inline choose_good(last)
{
#ifdef VOUCH_LEFT
	i_ = good_;
#else
	i_ = (cut_ > good_ -> cut_ : good_);
#endif
	do
	:: i_ < last ->
		i_++;
		if
		:: i_ == tip + 1 || is_commit(i_) ->
			if
			:: good_ = i_ -> break
			:: true
			fi
		:: else
		fi
	:: else -> break
	od
}

/* pack_: one of `set`, which is not empty. */
inline choose_pack(set)
{
	pack_ = 1;
	do
	:: pack_ & (set) -> break
	:: (set) & ~(2 * pack_ - 1) -> pack_ = 2 * pack_
	od
}

#ifdef BLIND
#define is_next(view) (tip < N)
#else
/* Else the PUT meets a 412, and the writer reads on. */
#define is_next(view) (view == tip && tip < N)
#endif

proctype writer(byte w)
{
	byte view, me, mine, sent, good;
	bool fenced;

end:	do
	:: d_step { /* read on */
		view < tip && !fenced ->
		view++;
		if
		:: lg[view].kind == CONDEMN ->
#ifdef SEE_LATE
			assert((mine & lg[view].packs) == 0); /* witness */
#endif
#ifndef NO_CLEAR
			mine = mine & ~lg[view].packs
#endif
		:: is_fence(view) && me != 0 && view > me ->
#ifndef NO_FENCE
			fenced = true
#endif
		:: else
		fi;
		good = lg[view].good
	   }
	:: d_step { /* send a pack that nothing names yet */
		me != 0 && !fenced && sent < SENDS ->
		mine = mine | PACK(w, sent);
		stored = stored | PACK(w, sent);
		sent++
	   }
	:: d_step { /* join or reset */
		view == tip && tip < N && !fenced && (me == 0 || tip > me) ->
		find_branch(view);
		base_ = head_;
#ifdef BY_NUMBER
		base_ = view;
		do
		:: base_ > 0 && !is_commit(base_) -> base_--
		:: else -> break
		od;
#endif
		good_ = good;
		if
		:: me != 0 || base_ == good -> append(JOIN, tip)
		:: else ->
			base_ = good;
			append(RESET, tip);
#ifdef SEE_RESET
			assert(good == 0) /* witness */
#endif
		fi;
		me = tip;
		view = tip;
		clear()
	   }
	:: atomic { /* commit what the tree names or what was sent, added to the tree or alone */
		is_next(view) && me != 0 && !fenced ->
		find_branch(view);
		if
		:: (mine | lg[head_].packs) == 0
		:: else ->
			base_ = head_;
			good_ = good;
			choose_good(tip + 1);
			choose_pack(mine | lg[base_].packs);
			if
			:: pack_ = pack_ | lg[base_].packs
			:: true
			fi;
			check_fenced(me);
			append(COMMIT, me);
			view = tip;
			good = lg[tip].good
		fi;
		clear()
	   }
	:: atomic { /* move the name alone */
		is_next(view) && me != 0 && !fenced ->
		find_branch(view);
		good_ = good;
		choose_good(tip);
		if
		:: good_ == good
		:: else ->
			check_fenced(me);
			append(EMPTY, me);
			view = tip;
			good = good_
		fi;
		clear()
	   }
	od
}

proctype collector()
{
	byte view, dead, d, rounds;

end:	do
	:: d_step { /* read the log, list the packs */
		rounds < ROUNDS && tip < N ->
		view = tip;
		find_need();
#ifdef KEEP_HEAD
		need_ = lg[head_].packs;
#endif
		dead = stored & ~need_;
		rounds++;
		clear()
	   }
	   d_step {
		if
#ifdef UNTIED
		:: tip < N && dead != 0 ->
#else
		:: view == tip && tip < N && dead != 0 ->
#endif
			good_ = lg[tip].good;
			pack_ = dead;
			append(CONDEMN, 0);
		:: else -> dead = 0 /* 412: all anew */
		fi;
		view = 0;
		clear()
	   }
	   do
	   :: d_step { /* in any order would be the same: what is looked at is one pack */
		dead != 0 ->
		d = dead & ~(dead - 1);
		dead = dead - d;
		stored = stored & ~d;
		d = 0;
#ifdef SEE_DELETE
		assert(false); /* witness */
#endif
		check_present();
		clear()
	      }
	   :: dead == 0 -> break
	   od
	od
}

init
{
	atomic {
		run writer(0);
		run writer(1);
		run collector()
	}
}
