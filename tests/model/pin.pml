/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins, and resets to what is older than `good` (`restore=N`), against a collector.
 *
 * A writer commits; another takes over with a reset to any commit that may be named; a tool pins
 * and unpins commits; a collector condemns what neither `good`, nor a commit after it on the
 * branch, nor a pinned commit needs, and deletes it. A commit may be named, by a pin or a reset,
 * unless something of it is condemned as of the naming record's own number. A pack stands here
 * for anything that a moment needs and that is deleted under a name: the body of a record is
 * another. Abandoned commits are no longer kept; as long as nothing of them is condemned they can
 * still be named.
 *
 * Checked at every append and every delete:
 *   present   what `good`, the commits after it on the branch and the pinned commits name is in
 *             the store
 *   fenced    no record of a writer follows a later reset
 *
 * Mutants that must fail: PIN_ANY and RESET_ANY (naming what was condemned), STICKS (a pin that
 * met a 412 is sent again without another look), FORGET (the collector overlooks pins), UNTIED (a
 * condemnation is appended at whatever number is free), BY_NUMBER (everything after `good` by
 * number is taken for kept, as if no reset had been to an older commit). Witnesses: SEE_BACK (a
 * reset to a pinned commit older than `good`), SEE_UNPIN (an unpinned commit loses its pack).
 */
#ifndef N
#define N 6 /* records */
#endif
#ifndef SENDS
#define SENDS 2 /* packs that one writer sends */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* condemnations */
#endif

mtype = { COMMIT, RESET, PIN, UNPIN, CONDEMN }

typedef record {
	mtype kind;
	byte from;
	byte good;
	byte packs;     /* commit: all that its tree names */
	byte pins;      /* as of this record: the commits that are pinned, a bit each */
	byte condemned; /* as of this record: the packs that were ever condemned */
}
record lg[N + 1];
byte tip;
byte stored; /* packs in the store, a bit each */

#define bit(n) (1 << (n))
#define PACK(w, n) bit((w) * SENDS + (n))
#define is_commit(n) (lg[n].kind == COMMIT)
#define is_whole(k) ((lg[k].packs & lg[tip].condemned) == 0)
#define is_pinned(k) (lg[tip].pins & bit(k))

/* Scratch; zero between steps. */
byte i_, cut_, head_, from_, good_, packs_, pins_, need_, k_;

inline clear()
{
	i_ = 0; cut_ = 0; head_ = 0; from_ = 0; good_ = 0; packs_ = 0; pins_ = 0; need_ = 0; k_ = 0
}

inline find_branch()
{
	cut_ = tip;
	do
	:: cut_ > 0 && lg[cut_].kind != RESET -> cut_--
	:: else -> break
	od;
	head_ = tip;
	do
	:: head_ > cut_ && !is_commit(head_) -> head_--
	:: else -> break
	od;
	if
	:: head_ == cut_ -> head_ = lg[cut_].from
	:: else
	fi
}

/* need_: the packs of the good moment, of all commits after it on the branch, of pinned commits. */
inline find_need()
{
	find_branch();
#ifdef BY_NUMBER
	cut_ = 0;
#endif
	need_ = lg[lg[tip].good].packs;
	i_ = 0;
	do
	:: i_ < tip ->
		i_++;
		if
		:: is_commit(i_) && i_ > lg[tip].good && i_ > cut_ -> need_ = need_ | lg[i_].packs
		:: is_commit(i_) && is_pinned(i_) -> need_ = need_ | lg[i_].packs
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

/* Append (k, from_, good_, packs_, pins_); a condemnation condemns packs_. */
inline append(k)
{
	tip++;
	lg[tip].kind = k;
	lg[tip].from = from_;
	lg[tip].good = good_;
	lg[tip].pins = pins_;
	lg[tip].condemned = lg[tip - 1].condemned;
	if
	:: k == CONDEMN -> lg[tip].condemned = lg[tip].condemned | packs_
	:: else -> lg[tip].packs = packs_
	fi;
	check_present();
	clear()
}

inline repeat()
{
	good_ = lg[tip].good;
	pins_ = lg[tip].pins
}

/* k_: any commit, or 0. */
inline choose_commit()
{
	k_ = tip;
	do
	:: k_ == 0 -> break
	:: k_ > 0 && is_commit(k_) -> break
	:: k_ > 0 -> k_--
	od
}

/* The first writer (w = 0) has written nothing yet; the second begins with a reset. */
proctype writer(byte w)
{
	byte view, mine, sent;
	bool started = (w == 0);

end:	do
	:: d_step { /* read on; a reset by another ends it */
		view < tip && (!started || lg[view + 1].kind != RESET) ->
		view++;
		mine = mine & ~lg[view].condemned
	   }
	:: started && view < tip && lg[view + 1].kind == RESET -> break
	:: d_step { /* send a pack */
		started && sent < SENDS ->
		mine = mine | PACK(w, sent);
		stored = stored | PACK(w, sent);
		sent++
	   }
	:: atomic { /* reset, to any commit that may be named */
		!started && view == tip && tip < N && tip > 0 ->
		choose_commit();
		if
#ifdef RESET_ANY
		:: k_ != 0 ->
#else
		:: k_ != 0 && is_whole(k_) ->
#endif
			d_step {
#ifdef SEE_BACK
				assert(!(k_ < lg[tip].good && is_pinned(k_))); /* witness */
#endif
				from_ = k_;
				repeat();
				good_ = k_;
				append(RESET);
				started = true;
				view = tip
			}
		:: else -> clear()
		fi
	   }
	:: atomic { /* commit; perhaps it is good */
		started && view == tip && tip < N ->
		find_branch();
		k_ = 1;
		do
		:: k_ & (mine | lg[head_].packs) -> break
		:: (mine | lg[head_].packs) & ~(2 * k_ - 1) -> k_ = 2 * k_
		:: else -> k_ = 0; break
		od;
		if
		:: k_ != 0 ->
			packs_ = k_;
			from_ = head_;
			repeat();
			if
			:: good_ = tip + 1
			:: true
			fi;
			d_step {
				assert(w == 1 || cut_ == 0); /* fenced */
				append(COMMIT);
				view = tip
			}
		:: else -> clear()
		fi
	   }
	od
}

proctype pinner()
{
	byte view, wanted;

end:	do
	:: atomic { /* choose what to pin; look whether it may be */
		wanted == 0 && tip < N ->
		view = tip;
		choose_commit();
		if
#ifdef PIN_ANY
		:: k_ != 0 && !is_pinned(k_) -> wanted = k_
#else
		:: k_ != 0 && !is_pinned(k_) && is_whole(k_) -> wanted = k_
#endif
		:: else -> view = 0
		fi;
		clear()
	   }
	:: d_step {
		wanted != 0 && tip < N ->
		if
#ifdef STICKS
		:: true ->
#else
		:: view == tip ->
#endif
			repeat();
			pins_ = pins_ | bit(wanted);
			append(PIN)
		:: else /* 412 */
		fi;
		wanted = 0;
		view = 0
	   }
	:: atomic { /* unpin */
		tip < N && lg[tip].pins != 0 ->
		choose_commit();
		if
		:: k_ != 0 && is_pinned(k_) ->
			d_step {
				repeat();
				pins_ = pins_ & ~bit(k_);
				append(UNPIN)
			}
		:: else -> clear()
		fi
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
#ifdef FORGET
		need_ = lg[lg[tip].good].packs;
		i_ = (cut_ > lg[tip].good -> cut_ : lg[tip].good);
		do
		:: i_ < tip ->
			i_++;
			need_ = need_ | lg[i_].packs
		:: else -> break
		od;
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
			repeat();
			packs_ = dead;
			append(CONDEMN)
		:: else -> dead = 0 /* 412: all anew */
		fi;
		view = 0
	   }
	   do
	   :: d_step {
		dead != 0 ->
		d = dead & ~(dead - 1);
		dead = dead - d;
		stored = stored & ~d;
		d = 0;
#ifdef SEE_UNPIN
		i_ = 0;
		do
		:: i_ < tip ->
			i_++;
			assert(!(lg[i_].kind == UNPIN && (lg[i_ - 1].pins & bit(1)) &&
				 !is_pinned(1) && (lg[1].packs & ~stored))) /* witness */
		:: else -> break
		od;
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
		run pinner();
		run collector()
	}
}
