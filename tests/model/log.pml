/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record's way onto the log: create-only PUTs that arrive late or after their sender's death,
 * answers that are lost, a daemon that is killed and goes on from its cache, and a second machine
 * that takes over.
 *
 * A writer asks for the number after the last it has read.  200: the record is there.  412: it
 * reads that number; what is there is either its own record (the answer to an earlier try was
 * lost), perhaps with other bytes (the earlier try held an older freeze), or a stranger's.  No
 * answer: it tries again, with the same bytes or with a newer freeze, and the earlier try may
 * still arrive.  A freeze stands for all local changes up to it, and a record for those since the
 * commit it is from.
 *
 * Checked:
 *   kept      a freeze that was acknowledged is on the log from then on, in a record that readers
 *             accept
 *   fenced    no record of a writer follows a fence later than its own
 *   branch    a commit builds on the commit before it: no change between the two is left out
 *   once      no freeze is on the log twice
 *
 * Mutants that must fail: PLAIN (the store ignores If-None-Match; hence the probe), NONCE (after
 * a 412 the writer's nonce in the record is enough, whatever the bytes), STRANGER (its own record
 * passes for somebody else's), BLIND (412: take the next number, unread), NO_FENCE (a writer does
 * not look for fences).  Witnesses: SEE_LATE (a request arrives after its sender was killed),
 * SEE_OTHER (own record with other bytes).
 */
#ifndef N
#define N 4 /* records */
#endif
#ifndef FREEZES
#define FREEZES 3 /* of each writer */
#endif
mtype = { COMMIT, JOIN }
mtype = { SENT, MADE, EXISTS }

typedef record {
	mtype kind;
	byte owner;  /* its nonce: writer + 1 */
	byte fence;
	byte from;   /* commit: the one before */
	byte freeze; /* commit: all local changes up to this one */
}
record lg[N + 1];
byte tip;

typedef request {
	mtype state; /* 0: none */
	byte number;
	record what;
}
request asked[2]; /* what each writer waits for */
request late[2];  /* what it has given up, and is still under way */

byte acked[2]; /* the newest freeze that each writer has called durable */

/* Scratch; zero between steps. */
byte i_, last_, fence_, kept_;

inline clear()
{
	i_ = 0; last_ = 0; fence_ = 0; kept_ = 0
}

/* Of the records before number `before`: last_, the newest commit; fence_, the newest fence. */
inline find_last(before)
{
	i_ = 0; last_ = 0; fence_ = 0;
	do
	:: i_ + 1 < before ->
		i_++;
		if
		:: lg[i_].kind == JOIN -> fence_ = i_
		:: lg[i_].kind == COMMIT && lg[i_].fence == fence_ -> last_ = i_
		:: else
		fi
	:: else -> break
	od
}

/* The newest freeze of the writer `w` that readers accept is no older than what it acknowledged. */
inline check_kept(w)
{
	i_ = 0; fence_ = 0; kept_ = 0;
	do
	:: i_ < tip ->
		i_++;
		if
		:: lg[i_].kind == JOIN -> fence_ = i_
		:: lg[i_].kind == COMMIT && lg[i_].fence == fence_ && lg[i_].owner == w + 1 ->
			assert(lg[i_].freeze > kept_); /* once */
			kept_ = lg[i_].freeze
		:: else
		fi
	:: else -> break
	od;
	assert(kept_ >= acked[w]) /* kept */
}

/* `to` = `what`, record by record: Promela assigns no structures. */
#define copy(to, what)           \
	to.kind = what.kind;     \
	to.owner = what.owner;   \
	to.fence = what.fence;   \
	to.from = what.from;     \
	to.freeze = what.freeze

#define drop(request)              \
	request.state = 0;         \
	request.number = 0;        \
	request.what.kind = 0;     \
	request.what.owner = 0;    \
	request.what.fence = 0;    \
	request.what.from = 0;     \
	request.what.freeze = 0

#ifdef PLAIN
#define is_free(n) true
#else
#define is_free(n) (lg[n].kind == 0)
#endif

/* A create-only PUT gets to the store. */
#define execute(request)                                                                \
	if                                                                              \
	:: is_free(request.number) ->                                                   \
		n = request.number;                                                     \
		copy(lg[n], request.what);                                              \
		tip = (n > tip -> n : tip);                                             \
		request.state = MADE                                                    \
	:: else -> request.state = EXISTS                                               \
	fi

inline check_made()
{
	if
	:: n != 0 && lg[n].kind == COMMIT ->
		find_last(n);
		assert(lg[n].fence == fence_); /* fenced */
		assert(lg[n].from == last_)    /* branch */
	:: else
	fi;
	check_kept(0);
	check_kept(1);
	clear();
	n = 0
}

/* What is under way arrives in any order, at any time, or never. */
proctype network(byte w)
{
	byte n;

end:	do
	:: d_step {
		asked[w].state == SENT ->
		execute(asked[w]);
		check_made()
	   }
	:: d_step {
		late[w].state == SENT ->
		execute(late[w]);
#ifdef SEE_LATE
		assert(late[w].state == EXISTS || asked[w].what.kind != JOIN); /* witness */
#endif
		drop(late[w]);
		check_made()
	   }
	od
}

inline give_up()
{
	if
	:: asked[w].state == SENT ->
		late[w].state = SENT;
		late[w].number = asked[w].number;
		copy(late[w].what, asked[w].what)
	:: else
	fi;
	drop(asked[w])
}

#define wants_join(me) (me == 0 || again)

proctype writer(byte w)
{
	byte view, me, last, frozen;
	bool fenced, again, killed; /* again: it goes on from its cache, and has to join */

end:	do
	:: d_step { /* freeze: files were sealed */
		frozen < FREEZES && me != 0 && !fenced ->
		frozen++
	   }
	:: d_step { /* ask for the next number */
		asked[w].state == 0 && !fenced && view < N &&
		(wants_join(me) || frozen > acked[w]) ->
		asked[w].state = SENT;
		asked[w].number = view + 1;
		asked[w].what.owner = w + 1;
		if
		:: wants_join(me) ->
			asked[w].what.kind = JOIN;
			asked[w].what.fence = view + 1
		:: else ->
			asked[w].what.kind = COMMIT;
			asked[w].what.fence = me;
			asked[w].what.from = last;
			asked[w].what.freeze = frozen
		fi
	   }
	:: d_step { /* 200 or 412: in either case the record that is there is read next */
		asked[w].state == MADE || asked[w].state == EXISTS ->
#ifdef NONCE
		if
		:: asked[w].state == EXISTS && asked[w].what.kind == COMMIT &&
		   lg[asked[w].number].owner == w + 1 ->
			acked[w] = asked[w].what.freeze;
			check_kept(w);
			clear()
		:: else
		fi;
#endif
#ifdef BLIND
		if
		:: asked[w].state == EXISTS && me != 0 -> view++
		:: else
		fi;
#endif
		drop(asked[w])
	   }
	:: d_step { /* no answer: try again, while that one may still arrive */
		asked[w].state != 0 && late[w].state == 0 ->
		give_up()
	   }
	:: d_step { /* read on */
		view < tip && asked[w].state == 0 && !fenced ->
		view++;
		if
		:: lg[view].kind == COMMIT ->
			last = view;
			if
#ifndef STRANGER
			:: lg[view].owner == w + 1 ->
#ifdef SEE_OTHER
				assert(lg[view].freeze == frozen); /* witness */
#endif
				acked[w] = lg[view].freeze;
				check_kept(w);
				clear()
#endif
			:: else
			fi
		:: lg[view].kind == JOIN && lg[view].owner == w + 1 ->
			me = view;
			again = false
		:: else ->
#ifndef NO_FENCE
			fenced = (me != 0)
#endif
		fi
	   }
	:: d_step { /* the daemon is killed; its cache goes on */
		w == 0 && me != 0 && !killed && late[w].state == 0 ->
		killed = true;
		again = true;
		give_up()
	   }
	od
}

init
{
	atomic {
		run network(0);
		run network(1);
		run writer(0);
		run writer(1)
	}
}
