/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Moves: the hand-over of a bucket of flows from its worker, the victim, to another one, the thief,
 * as dataplane/moves.h and dataplane/port/distributor.h do it. Checked by check.py with spin.
 *
 * The model has worker threads, distributors that run on workers, rings and a hold queue of limited
 * length, and a control process. A worker repeats an iteration of several stages. Each stage is one
 * step of the model, because other threads read what a stage writes only after the single release
 * store at its end. Control sends any request to any worker, repeats requests, sends them too late,
 * and may end at any time. In spin every process may wait for any time at every step. So executions
 * with a slow victim, a slow thief or a slow distributor are included.
 *
 * The model leaves out the orders of loads and stores (each pair is one release and one acquire).
 * It also leaves out rings that overflow: the distributor then drops and counts packets, whether a
 * bucket moves or not.
 *
 * Each port has one flow in each bucket. Packets of a flow are numbered. The flow's entry in the
 * bucket's part of the table has the port's number. One step releases or adopts one entry.
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef PORTS
#define PORTS 2
#endif
#ifndef BUCKETS
#define BUCKETS 1
#endif
#ifndef PACKETS
#define PACKETS 2 /* of each flow */
#endif
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef RING
#define RING 2
#endif
#ifndef HOLD
#define HOLD 4
#endif
#ifndef DISTRIBUTOR
#define DISTRIBUTOR(port) 2 /* the worker that receives a port */
#endif

#define FLOWS (BUCKETS * PORTS)
#define FLOW(bucket, port) ((bucket) * PORTS + (port))
#define PAIR(port, worker) ((port) * WORKERS + (worker))
#define IN_PARCEL WORKERS /* an entry that no worker's table has */

/* The states of a move; one per victim. */
#define FREE 0
#define SWITCHING 1 /* distributors get requests to switch; then the victim's rings run empty */
#define RELEASING 2
#define RELEASED 3 /* the parcel is the thief's */
#define ADOPTED 4 /* the flows and held packets are the thief's, and its gauges have them */

/* --- shared ------------------------------------------------------------------------------- */

byte owner[BUCKETS];
byte move_state[WORKERS];
byte move_bucket[WORKERS];
byte move_thief[WORKERS];
byte taking[WORKERS]; /* by thief: 1 + the victim that it takes from, 0 = none */
bool asked[PORTS * WORKERS]; /* by port and victim */
byte last[PORTS * WORKERS]; /* number of packets put into the victim's ring before the switch */
chan ring[PORTS * WORKERS] = [RING] of { byte, byte }; /* flow, number */
chan request[WORKERS] = [1] of { byte, byte, byte }; /* id, bucket, thief */
bool expired[REQUESTS];

/* --- variables of one thread --------------------------------------------------------------- */

byte target[FLOWS]; /* of the distributor: the worker that gets a port's packets of a bucket */
byte put[PORTS * WORKERS];
byte taken[PORTS * WORKERS];
byte slice[WORKERS]; /* by victim: entries released */
byte adopted[WORKERS]; /* by thief */
chan hold[WORKERS] = [HOLD] of { byte, byte };

/* --- what is checked ---------------------------------------------------------------------- */

byte entry[FLOWS]; /* the worker whose table has the flow */
byte received[FLOWS];
byte processed[FLOWS]; /* number of the last processed packet */
byte seen[FLOWS]; /* number of processed packets */
byte lost[FLOWS]; /* counted as dropped: the hold queue was full */
byte gauge[WORKERS]; /* flows that a worker reports */

#if WORKERS > 2
#define ALL_GAUGES (gauge[0] + gauge[1] + gauge[2])
#else
#define ALL_GAUGES (gauge[0] + gauge[1])
#endif

inline process(w, f, n) {
	assert(entry[f] == w); /* only the worker that has the flow's entry processes its packets */
	assert(n > processed[f]); /* no packet is reordered */
	processed[f] = n;
	seen[f]++
}

/* Worker w gets a packet. It holds the packet if it is the thief of the packet's bucket. */
inline handle(w, f, n) {
	if
	:: taking[w] != 0 && f / PORTS == move_bucket[taking[w] - 1] ->
		if
		:: len(hold[w]) < HOLD -> hold[w]!f, n
		:: else -> lost[f]++
		fi
	:: else -> process(w, f, n)
	fi
}

/* --- stages of an iteration ---------------------------------------------------------------
 *
 * A stage is executed only if it has work to do. A worker executes its stages in any order, so that
 * the executions include iterations of every length. It omits no stage for ever, like the loop of a
 * real worker.
 */

/* Distributor: the switch of a bucket, between bursts. */
#define MUST_SWITCH(p, v) (asked[PAIR(p, v)])

inline switch_bucket(p, v) {
	last[PAIR(p, v)] = put[PAIR(p, v)];
	target[FLOW(move_bucket[v], p)] = move_thief[v];
	asked[PAIR(p, v)] = false
}

/* Distributor: a packet of a flow arrives. */
#define MAY_RECEIVE(w, f) (received[f] < PACKETS && (target[f] == w || \
	len(ring[PAIR((f) % PORTS, target[f])]) < RING))

inline distribute(w, f) {
	received[f]++;
	if
	:: target[f] == w -> handle(w, f, received[f])
	:: else ->
		ring[PAIR((f) % PORTS, target[f])]!f, received[f];
		put[PAIR((f) % PORTS, target[f])]++
	fi
}

#define MAY_TAKE(w, p) (len(ring[PAIR(p, w)]) > 0)

inline take(w, p) {
	ring[PAIR(p, w)]?f, n;
	taken[PAIR(p, w)]++;
	handle(w, f, n);
	f = 0;
	n = 0
}

/* Mailbox: refuse, or begin a move. */
inline respond(w) {
	request[w]?i, b, a;
	if
	:: !expired[i] && owner[b] == w && a != w && move_state[w] == FREE && taking[a] == 0 ->
		assert(!expired[i]); /* a late request changes nothing */
		move_bucket[w] = b;
		move_thief[w] = a;
		taking[a] = w + 1; /* from now on the thief holds packets of the bucket */
		move_state[w] = SWITCHING;
		asked[PAIR(0, w)] = true;
		asked[PAIR(PORTS - 1, w)] = true
	:: else /* refused: nothing has changed */
	fi;
	i = 0;
	b = 0;
	a = 0
}

#define SWITCHED(p, w) (!asked[PAIR(p, w)] && taken[PAIR(p, w)] >= last[PAIR(p, w)])
#define ALL_SWITCHED(w) (SWITCHED(0, w) && SWITCHED(PORTS - 1, w))
#define MAY_GIVE(w) ((move_state[w] == SWITCHING && ALL_SWITCHED(w)) || \
	move_state[w] == RELEASING || move_state[w] == ADOPTED)

inline give(w) {
	if
	:: move_state[w] == SWITCHING ->
		move_state[w] = RELEASING
	:: move_state[w] == RELEASING && slice[w] < PORTS ->
		assert(entry[FLOW(move_bucket[w], slice[w])] == w);
		entry[FLOW(move_bucket[w], slice[w])] = IN_PARCEL;
		slice[w]++
	:: move_state[w] == RELEASING && slice[w] == PORTS ->
		slice[w] = 0;
		move_state[w] = RELEASED
	:: move_state[w] == ADOPTED ->
		gauge[w] = gauge[w] - PORTS;
		assert(ALL_GAUGES >= FLOWS); /* control would free a flow that no worker reports */
		move_bucket[w] = 0;
		move_thief[w] = 0;
		move_state[w] = FREE
	fi
}

#define MAY_ADOPT(w) (taking[w] != 0 && move_state[taking[w] - 1] == RELEASED)

inline adopt(w) {
	if
	:: adopted[w] < PORTS ->
		b = move_bucket[taking[w] - 1];
		assert(entry[FLOW(b, adopted[w])] == IN_PARCEL);
		entry[FLOW(b, adopted[w])] = w;
		adopted[w]++;
		b = 0
	:: adopted[w] == PORTS && len(hold[w]) > 0 ->
		hold[w]?f, n;
		process(w, f, n);
		f = 0;
		n = 0
	:: adopted[w] == PORTS && len(hold[w]) == 0 ->
		adopted[w] = 0;
		gauge[w] = gauge[w] + PORTS;
		owner[move_bucket[taking[w] - 1]] = w;
		v = taking[w] - 1;
		taking[w] = 0;
		move_state[v] = ADOPTED;
		v = 0
	fi
}

#if BUCKETS > 1
#define SECOND_BUCKET(p) \
	:: atomic { DISTRIBUTOR(p) == w && MAY_RECEIVE(w, FLOW(1, p)) -> distribute(w, FLOW(1, p)) }
#else
#define SECOND_BUCKET(p)
#endif

#define PORT_STAGES(p) \
	:: atomic { DISTRIBUTOR(p) == w && MUST_SWITCH(p, 0) -> switch_bucket(p, 0) } \
	:: atomic { DISTRIBUTOR(p) == w && MUST_SWITCH(p, 1) -> switch_bucket(p, 1) } \
	:: atomic { DISTRIBUTOR(p) == w && MUST_SWITCH(p, WORKERS - 1) -> \
		switch_bucket(p, WORKERS - 1) } \
	:: atomic { DISTRIBUTOR(p) == w && MAY_RECEIVE(w, FLOW(0, p)) -> distribute(w, FLOW(0, p)) } \
	SECOND_BUCKET(p) \
	:: atomic { DISTRIBUTOR(p) != w && MAY_TAKE(w, p) -> take(w, p) }

proctype worker(byte w) {
	byte f, n, v, i, b, a;

end:	do
	PORT_STAGES(0)
#if PORTS > 1
	PORT_STAGES(1)
#endif
	:: atomic { len(request[w]) > 0 -> respond(w) }
	:: atomic { MAY_GIVE(w) -> give(w) }
	:: atomic { MAY_ADOPT(w) -> adopt(w) }
	od
}

/* Control requests any bucket from any worker, repeats requests, gives up, and may end any time. */
proctype control() {
	byte i, w, b, a;

	do
	:: i < REQUESTS -> atomic {
		select(w : 0 .. WORKERS - 1);
		select(b : 0 .. BUCKETS - 1);
		select(a : 0 .. WORKERS - 1);
		if
		:: request[w]!i, b, a
		:: full(request[w])
		fi;
		i++;
		w = 0;
		b = 0;
		a = 0 }
	:: i > 0 && !expired[i - 1] -> expired[i - 1] = true
	:: true -> break
	od
}

init {
	atomic {
		byte k;

		do
		:: k < FLOWS ->
			/* bucket 0 is worker 0's, bucket 1 worker 1's */
			entry[k] = k / PORTS;
			target[k] = k / PORTS;
			gauge[k / PORTS]++;
			owner[k / PORTS] = k / PORTS;
			k++
		:: else -> break
		od;
		k = 0;
		run worker(0);
		run worker(1);
#if WORKERS > 2
		run worker(2);
#endif
		run control()
	}
}

/* When nothing is left to do: every move has ended, every packet is processed or counted, every
 * bucket's entries are in the table of its owner. The property `ends` requires that every execution
 * gets to this state. No fairness is needed, because every stage reduces the remaining work.
 */
#define AT_REST(w) (move_state[w] == FREE && taking[w] == 0 && len(hold[w]) == 0)
#define SETTLED(f) (entry[f] == owner[(f) / PORTS] && seen[f] + lost[f] == received[f])
#define QUIET (AT_REST(0) && AT_REST(1) && AT_REST(WORKERS - 1) && SETTLED(0) && \
	SETTLED(1 % FLOWS) && SETTLED(2 % FLOWS) && SETTLED(3 % FLOWS) && ALL_GAUGES == FLOWS)

#ifndef NO_LTL
ltl ends { <>[] QUIET }
#else
active proctype judge() {
	timeout -> assert(QUIET)
}
#endif
