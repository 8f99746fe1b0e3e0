/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts of a group: `-o slot=R,of=2,attempt=K`.  Five machines, two slots in two attempts and
 * a replacement for one slot of the first, mount whenever they like, sleep as long as they like,
 * and append what they may.
 *
 * A mount reads the log to its end and compares K with the attempt L of the last reset: above, it
 * resets; equal, it joins, unless its slot has had a writer in this attempt that has not left;
 * lower, it is refused.  After a 412 it decides anew.  The slot's first writer is the one that
 * reset, or the first that joined.
 *
 * Checked at every append:
 *   reset     resets raise the attempt: an attempt is reset once, by whoever comes first
 *   attempt   no record of a lower attempt follows a reset
 *   fenced    no record of a writer follows a later fence of its slot, or a later reset
 *   single    a slot has one machine in an attempt, or one after the other has left (why it must:
 *             slots.pml, REPLACE)
 *
 * Mutants that must fail: EQUAL_RESETS (a mount of the attempt under way resets as well),
 * LOWER_JOINS (a late mount of an earlier attempt joins), STICKS (after a 412 a mount sticks to
 * what it had decided), NO_RESET (a writer looks for fences of its own slot only), REPLACE (a
 * replacement joins).  Witness: SEE_SECOND, a writer of the second attempt in the slot that did
 * not reset.
 */
#ifndef N
#define N 6
#endif

mtype = { COMMIT, JOIN, RESET, LEAVE }

typedef record {
	mtype kind;
	byte slot;
	byte fence;
	byte attempt;
}
record lg[N + 1];
byte tip;

/* Scratch; zero between steps. */
byte i_, cut_, had_;

inline clear()
{
	i_ = 0; cut_ = 0; had_ = 0
}

/*
 * As read up to `at`: cut_, the last reset or 0; had_, the last fence of the slot `s` since, or
 * that reset if it is the slot's own, or 0 if its writer has left.
 */
inline find_fences(at, s)
{
	cut_ = 0; had_ = 0; i_ = 0;
	do
	:: i_ < at ->
		i_++;
		if
		:: lg[i_].kind == RESET ->
			cut_ = i_;
			had_ = (lg[i_].slot == s -> i_ : 0)
		:: lg[i_].kind == JOIN && lg[i_].slot == s -> had_ = i_
		:: lg[i_].kind == LEAVE && lg[i_].slot == s -> had_ = 0
		:: else
		fi
	:: else -> break
	od
}

inline append(k, s, f, a)
{
	find_fences(tip, s);
	assert(k != RESET || cut_ == 0 || a > lg[cut_].attempt);  /* reset */
	assert(k == RESET || a == lg[cut_].attempt);              /* attempt */
	assert(k != JOIN || had_ == 0);                           /* single */
	assert((k != COMMIT && k != LEAVE) || (f >= cut_ && f >= had_)); /* fenced */
	tip++;
	lg[tip].kind = k;
	lg[tip].slot = s;
	lg[tip].fence = f;
	lg[tip].attempt = a;
	clear()
}

proctype machine(byte slot; byte attempt)
{
	byte view, me;
	mtype decided;
	bool out; /* refused or fenced: EROFS */

end:	do
	:: d_step { /* read on, to the end: what lies between is the same whenever it is read */
		view < tip && !out ->
		do
		:: view < tip ->
			view++;
			if
			:: me == 0 || view <= me
#ifndef NO_RESET
			:: me != 0 && view > me && lg[view].kind == RESET -> out = true
#endif
			:: me != 0 && view > me && lg[view].kind == JOIN &&
			   lg[view].slot == slot -> out = true
			:: else
			fi
		:: else -> break
		od;
#ifndef STICKS
		decided = 0
#endif
	   }
	:: d_step { /* decide how to mount; the PUT comes later */
		me == 0 && !out && decided == 0 && view == tip ->
		find_fences(view, slot);
		if
		:: cut_ == 0 || attempt > lg[cut_].attempt -> decided = RESET
		:: attempt == lg[cut_].attempt ->
#ifdef EQUAL_RESETS
			decided = RESET
#else
			if
#ifndef REPLACE
			:: had_ != 0 -> out = true
#endif
			:: else -> decided = JOIN
			fi
#endif
		:: else ->
#ifdef LOWER_JOINS
			decided = JOIN
#else
			out = true
#endif
		fi;
		clear()
	   }
	:: d_step { /* the PUT of the number after the last that was read: 200 or 412 */
		decided != 0 && !out && tip < N ->
		if
		:: view == tip ->
			append(decided, slot, tip, attempt);
			me = tip;
			view = tip;
			decided = 0
		:: else
#ifndef STICKS
			-> decided = 0
#endif
		fi
	   }
	:: d_step { /* through */
		view == tip && me != 0 && !out && tip < N ->
		append(LEAVE, slot, me, attempt);
		view = tip;
		out = true
	   }
	:: d_step {
		view == tip && me != 0 && !out && tip < N ->
		append(COMMIT, slot, me, attempt);
		view = tip;
#ifdef SEE_SECOND
		assert(!(slot == 1 && attempt == 2 && lg[me].kind == JOIN)); /* witness */
#endif
	   }
	od
}

init
{
	atomic {
		run machine(0, 1);
		run machine(1, 1);
		run machine(1, 1); /* the replacement */
		run machine(0, 2);
		run machine(1, 2)
	}
}
