/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs: the body of a record that is needed no more is overwritten by its header.
 *
 * A record's header holds a base reference M, and the state at k is the base (0, M] and the
 * bodies of (M, k].  Three writers of one slot sleep as long as they like; each joins or resets
 * to any commit that may be named (`restore=N`); a trimmer puts a floor on the log, in a
 * condemnation, and then writes stubs, one at a time, any time later.
 *
 * Rules under test: a floor is no later than `good`.  From a floor on, a reset may name only a
 * commit that is not below it, or `good` itself.  Stubs are written below the floor alone, and
 * not where the state of `good` at that number needs the body. A writer that meets a stub ends
 * (it starts as a new mount).
 *
 * Checked:
 *   bodies    the states of `good` and of every commit after it on the branch have their bodies
 *   fenced    no record of a writer follows a fence later than its own
 *   newest    the newest record that LIST finds has a body, whoever wakes up
 *
 * Mutants that must fail: NO_FLOOR (stubs without a floor on the log: a reset names what was
 * stubbed meanwhile), NO_CHECK (a reset that overlooks the floor), NEWEST_BASE (stubs up to the
 * newest base, which `good` cannot use), DELETE (the record goes, and its number is free), SKIP
 * (a writer passes over stubs: the fence among them is not seen).  Witnesses: SEE_STUB (a sleeper
 * meets one), SEE_BACK (a reset to what is older than `good`), SEE_BASE (stubs above the first
 * base).
 */
#ifndef N
#define N 6 /* records */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* floors */
#endif

mtype = { COMMIT, JOIN, RESET, FLOOR }
#define GONE 0 /* or never written: the number is free */
mtype = { BODY, STUB }

typedef record {
	mtype kind;
	mtype body; /* or GONE */
	byte fence;
	byte from; /* the commit that it builds on */
	byte good;
	byte base; /* M */
	byte floor;
}
record lg[N + 2];
byte tip;

#define is_commit(n) (lg[n].kind == COMMIT)
#define is_fence(n) (lg[n].kind == JOIN || lg[n].kind == RESET)

/* Scratch; zero between steps. */
byte i_, cut_, head_, from_, good_, base_, floor_;

inline clear()
{
	i_ = 0; cut_ = 0; head_ = 0; from_ = 0; good_ = 0; base_ = 0; floor_ = 0
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

/* The state at the commit `k` can be made: its base, and the bodies of its branch after that. */
inline check_state(k)
{
	i_ = k;
	do
	:: i_ > lg[k].base ->
		assert(lg[i_].body == BODY); /* bodies */
		i_ = lg[i_].from
	:: else -> break
	od
}

inline check_bodies()
{
	find_branch();
	good_ = lg[tip].good;
	check_state(good_);
	i_ = (cut_ > good_ -> cut_ : good_);
	floor_ = i_;
	do
	:: floor_ < tip ->
		floor_++;
		if
		:: is_commit(floor_) -> check_state(floor_)
		:: else
		fi
	:: else -> break
	od
}

/* Append (k, f, from_, good_, base_, floor_). */
inline append(k, f)
{
	i_ = tip;
	do
	:: k == COMMIT && i_ > f ->
		assert(!is_fence(i_)); /* fenced */
		i_--
	:: else -> break
	od;
	tip++;
	lg[tip].kind = k;
	lg[tip].body = BODY;
	lg[tip].fence = f;
	lg[tip].from = from_;
	lg[tip].good = good_;
	lg[tip].base = base_;
	lg[tip].floor = floor_;
	check_bodies();
	clear()
}

#if defined(NO_CHECK) || defined(NO_FLOOR)
#define can_name(k) true
#else
#define can_name(k) (k >= lg[tip].floor || k == lg[tip].good)
#endif

/* from_: a commit that can be read now, if there is one to be named; else 0. */
inline choose_commit()
{
	from_ = tip;
	do
	:: from_ == 0 -> break
	:: from_ > 0 && is_commit(from_) && lg[from_].body == BODY && can_name(from_) -> break
	:: from_ > 0 -> from_--
	od;
	i_ = from_;
	do
	:: i_ > lg[from_].base && lg[i_].body == BODY -> i_ = lg[i_].from
	:: else -> break
	od;
	from_ = (i_ > lg[from_].base -> 0 : from_)
}

proctype writer()
{
	byte view, me;
	bool out;

end:	do
	:: d_step { /* read on; only numbers after its own fence say anything new to it */
		me != 0 && !out && view < tip && lg[view + 1].body != GONE ->
		view++;
		if
		:: lg[view].body == STUB ->
#ifdef SEE_STUB
			assert(false); /* witness */
#endif
#ifndef SKIP
			out = true
#endif
		:: else -> out = is_fence(view)
		fi
	   }
	:: atomic { /* mount: LIST, read, and append the fence as the next number */
		me == 0 && tip < N ->
		if
		:: find_branch();
			from_ = head_;
			good_ = lg[tip].good;
			base_ = lg[from_].base;
			floor_ = lg[tip].floor;
			append(JOIN, tip)
		:: choose_commit();
			if
			:: from_ != 0 ->
#ifdef SEE_BACK
				assert(from_ >= lg[tip].good); /* witness */
#endif
				good_ = from_;
				base_ = lg[from_].base;
				floor_ = lg[tip].floor;
				append(RESET, tip)
			:: else -> clear(); goto end
			fi
		fi;
		me = tip;
		view = tip
	   }
	:: atomic { /* commit; perhaps a base was built meanwhile; perhaps it is good */
		me != 0 && !out && view < N && tip < N && lg[view + 1].body == GONE ->
		find_branch();
		from_ = head_;
		floor_ = lg[tip].floor;
		if
		:: base_ = lg[head_].base
		:: base_ = head_
		fi;
		if
		:: good_ = lg[tip].good
		:: good_ = tip + 1
		fi;
		append(COMMIT, me);
		view = tip
	   }
	od
}

#define bit(n) (1 << (n))

proctype trimmer()
{
	short stubs; /* to be written, a bit each */
	byte n, rounds;

end:	do
	:: d_step { /* a floor, as the number after what was read; a 412 changes nothing */
		rounds < ROUNDS && tip < N && lg[tip].good > 1 ->
		rounds++;
		good_ = lg[tip].good;
		n = good_;
#ifdef NEWEST_BASE
		find_branch();
		n = lg[head_].base + 1;
		good_ = lg[tip].good;
#endif
		stubs = bit(n) - 2; /* 1 … n − 1 */
#ifndef NEWEST_BASE
		i_ = good_;
		do
		:: i_ > lg[good_].base ->
			stubs = stubs & ~bit(i_);
			i_ = lg[i_].from
		:: else -> break
		od;
#endif
#ifndef NO_FLOOR
		floor_ = good_;
		append(FLOOR, 0);
#endif
		n = 0;
		clear()
	   }
	   do
	   :: d_step {
		stubs != 0 ->
		n = 1;
		do
		:: !(stubs & bit(n)) -> n++
		:: else -> break
		od;
		stubs = stubs & ~bit(n);
#ifdef SEE_BASE
		assert(!is_commit(n)); /* witness */
#endif
#ifdef DELETE
		lg[n].body = GONE;
#else
		lg[n].body = STUB;
#endif
		n = 0;
		assert(lg[tip].body == BODY); /* newest */
		check_bodies();
		clear()
	      }
	   :: stubs == 0 -> break
	   od
	od
}

init
{
	atomic {
		run writer();
		run writer();
		run writer();
		run trimmer()
	}
}
