/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shift: the change of a device's table of queues after a bucket has moved, as in dataplane/shift.h
 * and dataplane/queue_tables.c. Meanwhile the bucket moves between workers, as in moves.pml. Here a
 * move transfers the bucket's part of the flow table in one step. Checked by check.py with spin.
 *
 * The model has one port with a queue for each worker, and one bucket. The device stores packets in
 * the order of their arrival, each in the queue that its table gives at that moment. A main thread
 * changes the table. The device may refuse a change, change its table although it reports an error,
 * or have another table than expected before a shift begins. Control moves the bucket meanwhile.
 *
 * The model leaves out packets whose queue the device has looked up, and which it has not stored
 * when the grace time is over; rings and queues that overflow; and the orders of loads and stores.
 *
 * The port has one flow in the bucket. Its packets are numbered.
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef PACKETS
#define PACKETS 4
#endif
#ifndef MOVES
#define MOVES 2 /* of the bucket */
#endif
#ifndef SHIFTS
#define SHIFTS 2 /* requested by the main thread */
#endif
#ifndef QUEUE
#define QUEUE 2
#endif
#ifndef FULL
#define FULL 2 /* packets received after which a queue counts as empty; at least its size */
#endif
#ifndef MEDDLING
#define MEDDLING 0 /* 1: the device may refuse a change, or report that it did */
#endif

#define PAIR(from, to) ((from) * WORKERS + (to))
#define NOBODY WORKERS

/* States of a move. */
#define FREE 0
#define SWITCHING 1
#define RELEASED 2
#define ADOPTED 3

/* States of a shift. */
#define NOTHING 0
#define ASKED 1
#define REFUSED 2
#define HOLDING 3
#define DRAINING 4

byte table; /* of the device: the queue of the bucket */
chan queue[WORKERS] = [QUEUE] of { byte };
chan ring[WORKERS * WORKERS] = [PACKETS] of { byte }; /* by distributor and target */
byte target[WORKERS]; /* by distributor: the worker that gets the bucket's packets */
byte put[WORKERS * WORKERS];
byte taken[WORKERS * WORKERS];

byte owner;
byte entry; /* the worker whose table has the flow; NOBODY: the flow is being moved */
byte move_state, victim, thief;
bool taking; /* the thief holds packets */
bool asked[WORKERS]; /* by distributor: whether it is requested to switch the bucket */
byte last[WORKERS];
chan hold = [PACKETS] of { byte };

byte shift_state, shifter; /* the worker that is to get the packets from its own queue */
bool shifting; /* the main thread has requested the shift */
bool holds, due;
bool draining[WORKERS], begun[WORKERS];
byte left[WORKERS];
byte end_of[WORKERS];
chan shift_hold = [PACKETS] of { byte };

byte sent, processed, moves, shifts;

inline process(w, n) {
	assert(entry == w); /* M1 */
	assert(n == processed + 1); /* M2, M3 */
	processed = n
}

/* A worker gets a packet; direct: from its own queue. */
inline handle(w, n, direct) {
	if
	:: taking && thief == w -> hold!n
	:: else ->
		if
		:: direct && holds && shifter == w -> shift_hold!n
		:: else -> process(w, n)
		fi
	fi
}

inline receive(w) {
	if
	:: begun[w] && left[w] > 0 -> left[w]--
	:: else
	fi;
	queue[w]?n;
	if
	:: target[w] == w -> handle(w, n, true)
	:: else ->
		ring[PAIR(w, target[w])]!n;
		put[PAIR(w, target[w])]++
	fi;
	n = 0
}

#define SWITCHED(d) (!asked[d] && taken[PAIR(d, victim)] >= last[d])
#define ALL_SWITCHED (SWITCHED(0) && SWITCHED(1) && SWITCHED(WORKERS - 1))
#define DRAINED(d) ((d) == shifter || (!draining[d] && taken[PAIR(d, shifter)] >= end_of[d]))
#define ALL_DRAINED (DRAINED(0) && DRAINED(1) && DRAINED(WORKERS - 1))
#define LEAVING(w) (move_state != FREE && victim == w)

#define TAKE(from) \
	:: atomic { w != from && len(ring[PAIR(from, w)]) > 0 -> \
		ring[PAIR(from, w)]?n; taken[PAIR(from, w)]++; handle(w, n, false); n = 0 }

proctype worker(byte w) {
	byte n;

end:	do
	/* between two bursts: switch the bucket if requested */
	:: atomic { asked[w] ->
		last[w] = put[PAIR(w, victim)]; target[w] = thief; asked[w] = false }
	:: atomic { draining[w] && !begun[w] -> begun[w] = true; left[w] = FULL }
	:: atomic { begun[w] && (left[w] == 0 || len(queue[w]) == 0) ->
		begun[w] = false; left[w] = 0;
		end_of[w] = put[PAIR(w, shifter)]; draining[w] = false }
	:: atomic { len(queue[w]) > 0 -> receive(w) }
	TAKE(0)
	TAKE(1)
#if WORKERS > 2
	TAKE(2)
#endif
	/* moves */
	:: atomic { move_state == SWITCHING && victim == w && ALL_SWITCHED ->
		assert(entry == w); entry = NOBODY; move_state = RELEASED }
	:: atomic { move_state == RELEASED && thief == w && entry == NOBODY -> entry = w }
	:: atomic { move_state == RELEASED && thief == w && entry == w && len(hold) > 0 ->
		hold?n; process(w, n); n = 0 }
	:: atomic { move_state == RELEASED && thief == w && entry == w && len(hold) == 0 ->
		owner = w; taking = false; move_state = ADOPTED }
	:: atomic { move_state == ADOPTED && victim == w -> move_state = FREE }
	/* the shift to this worker */
	:: atomic { shifting && shifter == w && shift_state == ASKED ->
		if
		:: owner == w && !LEAVING(w) -> holds = true; shift_state = HOLDING
		:: else -> shifting = false; shift_state = REFUSED
		fi }
	:: atomic { shifter == w && shift_state == DRAINING && !due && ALL_DRAINED -> due = true }
	:: atomic { shifter == w && due && len(shift_hold) > 0 -> shift_hold?n; process(w, n); n = 0 }
	:: atomic { shifter == w && due && len(shift_hold) == 0 ->
		due = false; holds = false; shifting = false; shift_state = NOTHING }
	od
}

/* The network. */
proctype device() {
end:	do
	:: atomic { sent < PACKETS && len(queue[table]) < QUEUE -> sent++; queue[table]!sent }
	od
}

/* The victim executes control's requests. It refuses a bucket that is being shifted. */
proctype control() {
	byte a;

end:	do
	:: atomic { moves < MOVES && move_state == FREE && !(holds && shifter == owner) ->
		select(a : 0 .. WORKERS - 1);
		if
		:: a != owner ->
			victim = owner; thief = a; taking = true;
			asked[0] = true; asked[1] = true; asked[WORKERS - 1] = true;
			move_state = SWITCHING
		:: else
		fi;
		moves++;
		a = 0 }
	od
}

inline set_table() {
#if MEDDLING
	if
	:: table = shifter
	:: skip
	fi
#else
	table = shifter
#endif
}

proctype main_thread() {
	byte d;

end:	do
	:: atomic { shifts < SHIFTS && (shift_state == NOTHING || shift_state == REFUSED) ->
		select(d : 0 .. WORKERS - 1); /* the supposed owner: the owner may have changed */
		shifter = d; d = 0; shifts++; shift_state = ASKED; shifting = true }
	:: shift_state == HOLDING ->
		atomic { set_table() };
		/* End of the grace time: every packet sent before the change is in its queue. */
		atomic {
			draining[0] = (shifter != 0);
			draining[1] = (shifter != 1);
#if WORKERS > 2
			draining[2] = (shifter != 2);
#endif
			shift_state = DRAINING }
	od
}

init {
	atomic {
		run worker(0);
		run worker(1);
#if WORKERS > 2
		run worker(2);
#endif
		run device();
		run control();
		run main_thread()
	}
}

#define QUIET (move_state == FREE && !taking && entry == owner && !holds && !shifting && \
	(shift_state == NOTHING || shift_state == REFUSED) && processed == sent && sent == PACKETS && \
	len(hold) == 0 && len(shift_hold) == 0)

#ifndef NO_LTL
ltl ends { <>[] QUIET }
#else
active proctype judge() {
	timeout -> assert(QUIET)
}
#endif
