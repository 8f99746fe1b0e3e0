/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a mount finds the newest record, and why no record is ever deleted.
 *
 * Two writers of one slot, A first and B taking over; A may sleep before any of its PUTs and wake
 * up long after.  A mount asks by LIST of one key.  Names count down from 10^20 − 1, so that key
 * is the newest record, whatever lies below it.
 *
 * Checked:
 *   newest    a mount finds a record no older than the newest that was there when it began
 *   fenced    no record of A follows B's fence
 *
 * Mutants that must fail: HINT (no LIST: an object written after each record names the newest,
 * and a mount walks on from it until a 404; together with TRIM, since it is the sleeper's record
 * in a freed place that ends the walk), TRIM (B deletes what lies below its base).  Witness:
 * SEE_SLEEPER, A wakes up after B has gone on, and meets a 412.
 */
#ifndef N
#define N 6
#endif

bool there[N + 2];
byte writer_of[N + 2];
byte tip, hint;
byte fence; /* number of B's */

inline put(n, who)
{
	there[n] = true;
	writer_of[n] = who;
	tip = (n > tip -> n : tip)
}

proctype a()
{
	byte view;

end:	do
	:: d_step {
		view < N / 2 && !there[view + 1] ->
		view++;
#ifndef HINT
		assert(fence == 0); /* fenced */
#endif
		put(view, 1)
	   }
	   hint = view
	:: d_step {
		/* 412: it reads what is there, and comes to B's fence now or later. */
		view < N / 2 && there[view + 1] ->
#ifdef SEE_SLEEPER
		assert(tip < N) /* witness */
#endif
	   }
	   break
	od
}

proctype b()
{
	byte view, n;

	d_step {
		fence = tip + 1;
		view = fence;
		put(view, 2)
	}
	hint = view;
	do
	:: view < N ->
		d_step {
			view++;
			put(view, 2)
		}
		hint = view
	:: view == N -> break
	od;
#ifdef TRIM
	n = 1;
	do
	:: n < N ->
		there[n] = false;
		n++
	:: else -> break
	od
#endif
}

proctype mount()
{
	byte before, found;

	before = tip;
#ifdef HINT
	found = hint;
	do
	:: there[found + 1] -> found++
	:: else -> break
	od;
#else
	d_step { /* LIST */
		found = N + 1;
		do
		:: found > 0 && !there[found] -> found--
		:: else -> break
		od
	}
#endif
	assert(found >= before) /* newest */
}

init
{
	atomic {
		run a();
		run b();
		run mount()
	}
}
