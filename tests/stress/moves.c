// SPDX-License-Identifier: BSD-3-Clause
//
// Moves: three workers with real rings, distributors and flow tables, and packets of many flows on
// two ports, which different workers receive. Buckets are asked for as fast as they move. Every
// packet must be processed, in the order of its flow, by a worker whose table has the flow with the
// backend of the beginning; afterwards each table counts what it owns. Some turns of some workers
// take long: those of a victim, a thief or a distributor, as it happens. So M1 to M3 are looked at
// for every packet, and M4 in the end (moves.h).
//
// usage: moves [MOVES [FLOWS]]
// Exit 0: all of it held.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_memory.h>
#include <rte_ring.h>

#include "flow_insert.h"
#include "flow_life.h"
#include "flow_parts.h"
#include "flow_table.h"
#include "mailbox.h"
#include "moves.h"

#define WORKERS 3u
#define PORTS 2u
#define PACKETS 512u // of a port that are under way, at most: no ring overflows
#define BURST 32u
#define BACKENDS 64u
#define NOW 1000000000000ull // the clock of the flow tables stands
#define SEED 42

struct flow {
	struct weir_flow_key key;
	uint64_t hash;
	uint32_t bucket;
	uint32_t sent; // by its port
	uint32_t seen; // by the worker that has its bucket: the number of the last packet
};

struct packet {
	struct rte_mbuf mbuf;
	uint32_t flow, number;
};

struct port {
	struct weir_distributor *distributor;
	struct rte_ring *back[WORKERS]; // packets that a worker has processed
	struct packet packet[PACKETS];
	struct packet *free[PACKETS];
	uint32_t free_count;
	uint64_t sent;
};

struct worker {
	uint32_t index;
	struct weir_mover *mover;
	struct weir_flow_table *table;
	uint64_t processed;
	uint64_t held, refused, faults;
	uint64_t random;
	int64_t ended;
	pthread_t thread;
	struct weir_mailbox_ring request, response; // control writes request
	struct weir_ring_position request_at, response_at; // control writes response_at
};

static struct test {
	struct weir_moves *moves;
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel[WORKERS];
	struct port port[PORTS];
	struct worker worker[WORKERS];
	struct flow *flow; // [flows] of the port with the number's remainder
	uint32_t flows;
	bool quiet; // ports receive nothing any more
	bool stop;
} test;

static uint64_t next_random(uint64_t *state) {
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static uint64_t clock_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void fault(struct worker *self, const struct packet *packet, const char *what) {
	if (self->faults++ < 10) {
		printf("worker %u: flow %u, packet %u: %s\n", self->index, packet->flow,
			packet->number, what);
	}
}

// --- a worker -----------------------------------------------------------------------------

static uint16_t backend_of(uint32_t flow) {
	return (uint16_t)(flow % BACKENDS);
}

static void process_one(struct worker *self, struct packet *packet) {
	struct flow *flow = &test.flow[packet->flow];
	struct weir_flow_start start = {
		.now_ns = NOW, .event = WEIR_FLOW_EVENT_DATA, .backend = backend_of(packet->flow)};
	weir_flow_ref ref;

	if (!weir_flow_owns(self->table, flow->bucket)) {
		fault(self, packet, "not in a part of this worker");
		return;
	}
	ref = weir_flow_lookup(self->table, &flow->key, flow->hash, NOW);
	if (packet->number == 1) {
		if (ref >= 0 || weir_flow_insert(self->table, &flow->key, flow->hash, &start) < 0) {
			fault(self, packet, "cannot begin");
		}
	} else if (ref < 0) {
		fault(self, packet, "is not in the table");
	} else if (weir_flow_backend(self->table, ref) != backend_of(packet->flow)) {
		fault(self, packet, "has another backend");
	}
	if (packet->number != flow->seen + 1) {
		fault(self, packet, packet->number <= flow->seen ? "reordered" : "one is missing");
	}
	flow->seen = packet->number;
}

static void process(struct worker *self, struct rte_mbuf **pkts, uint16_t n, uint8_t port) {
	for (uint16_t i = 0; i < n; i++) {
		process_one(self, (struct packet *)pkts[i]);
	}
	self->processed += n;
	if (rte_ring_sp_enqueue_bulk(test.port[port].back[self->index], (void **)pkts, n, NULL) !=
		n) {
		abort();
	}
}

static void hold_or_process(struct worker *self, struct rte_mbuf **pkts, uint16_t n, uint8_t port) {
	if (weir_mover_is_taking(self->mover)) {
		uint16_t refused, stay = weir_mover_hold(self->mover, pkts, n, port, &refused);

		self->held += (uint64_t)n - stay - refused;
		self->refused += refused;
		n = stay;
	}
	if (n > 0) {
		process(self, pkts, n, port);
	}
}

// What a device would receive.
static uint16_t receive(struct worker *self, uint8_t p, struct rte_mbuf **pkts) {
	struct port *port = &test.port[p];
	uint16_t n = 0;

	for (uint32_t w = 0; w < WORKERS; w++) {
		port->free_count += rte_ring_sc_dequeue_burst(port->back[w],
			(void **)&port->free[port->free_count], PACKETS - port->free_count, NULL);
	}
	while (n < BURST && port->free_count > 0 &&
		!__atomic_load_n(&test.quiet, __ATOMIC_RELAXED)) {
		struct packet *packet = port->free[--port->free_count];
		// A few flows have most packets.
		uint32_t range = next_random(&self->random) % 8 == 0 ? test.flows / PORTS : 16;

		packet->flow = (uint32_t)(next_random(&self->random) % range) * PORTS + p;
		packet->number = ++test.flow[packet->flow].sent;
		weir_distributor_mark(&packet->mbuf, test.flow[packet->flow].bucket);
		pkts[n++] = &packet->mbuf;
	}
	port->sent += n;
	return n;
}

static void distribute(struct worker *self, uint8_t p) {
	struct weir_distributor *distributor = test.port[p].distributor;
	struct rte_mbuf *pkts[BURST], *batch[BURST];
	uint16_t n, ours = 0;

	weir_distributor_switch(distributor);
	n = receive(self, p, pkts);
	for (uint32_t w = 0; w < WORKERS; w++) {
		uint16_t count = 0;

		for (uint16_t i = 0; i < n; i++) {
			if (weir_distributor_worker(
				    distributor, weir_distributor_bucket_of(pkts[i])) == w) {
				batch[count++] = pkts[i];
			}
		}
		if (w == self->index) {
			continue;
		}
		distributor->put[w] += count;
		if (rte_ring_sp_enqueue_bulk(distributor->ring[w], (void **)batch, count, NULL) !=
			count) {
			abort();
		}
	}
	for (uint16_t i = 0; i < n; i++) {
		if (weir_distributor_worker(distributor, weir_distributor_bucket_of(pkts[i])) ==
			self->index) {
			pkts[ours++] = pkts[i];
		}
	}
	hold_or_process(self, pkts, ours, p);
}

static void take_handed(struct worker *self, uint8_t p) {
	struct rte_mbuf *pkts[BURST];
	uint16_t n = (uint16_t)rte_ring_sc_dequeue_burst(
		test.port[p].distributor->ring[self->index], (void **)pkts, BURST, NULL);

	weir_mover_took(self->mover, p, n);
	hold_or_process(self, pkts, n, p);
}

static void respond(struct worker *self) {
	struct weir_message message;

	if (!weir_mailbox_receive(&self->request, &self->request_at, &message)) {
		return;
	}
	message.steal.answer = weir_mover_request(self->mover, message.steal.bucket,
		message.steal.thief, message.steal.deadline_ns, clock_ns(), true);
	if (!weir_mailbox_send(&self->response, &self->response_at, &message)) {
		abort();
	}
}

static void process_held(struct worker *self) {
	struct rte_mbuf *pkts[BURST];
	struct weir_hold *hold = weir_mover_held(self->mover);
	uint32_t due = hold != NULL ? weir_hold_due(hold) : 0;
	uint8_t port = 0;

	while (due > 0) {
		uint16_t n = weir_hold_take(hold, pkts, due < BURST ? (uint16_t)due : BURST, &port);

		process(self, pkts, n, port);
		due -= n;
	}
}

static void move_buckets(struct worker *self) {
	struct weir_mover *mover = self->mover;
	const struct weir_move *move;
	uint32_t bucket;

	switch (weir_mover_give(mover)) {
	case WEIR_GIVING_NOTHING:
		break;
	case WEIR_GIVING_RELEASE:
		if (weir_flow_release(self->table, mover->move.bucket, mover->move.parcel)) {
			weir_mover_released(mover);
		}
		break;
	case WEIR_GIVING_SETTLE:
		do {
			weir_flow_parcel_forget(mover->move.parcel);
		} while (mover->move.parcel->backend_count > 0);
		weir_mover_settled(mover);
		break;
	}
	if (!weir_mover_is_taking(mover)) {
		return;
	}
	move = weir_mover_adopt(mover);
	if (move != NULL && weir_flow_adopt(self->table, move->parcel, NOW)) {
		weir_mover_adopted(mover);
	}
	process_held(self);
	(void)weir_mover_end(mover, &bucket);
}

static void *work(void *context) {
	const struct timespec long_turn = {.tv_nsec = 300000};
	struct worker *self = context;

	while (!__atomic_load_n(&test.stop, __ATOMIC_RELAXED)) {
		for (uint8_t p = 0; p < PORTS; p++) {
			if (test.port[p].distributor->owner == self->index) {
				distribute(self, p);
			} else {
				take_handed(self, p);
			}
		}
		respond(self);
		move_buckets(self);
		if (next_random(&self->random) % 64 == 0) {
			nanosleep(&long_turn, NULL);
		}
	}
	return NULL;
}

// --- control ------------------------------------------------------------------------------

static uint32_t owner_of(uint32_t bucket) {
	return __atomic_load_n(&test.moves->owner[bucket], __ATOMIC_RELAXED);
}

// Ask worker v for a bucket of its own, mostly one with many packets, or, seldom, for anything.
static void ask(uint32_t v, uint64_t sequence, uint64_t *random) {
	struct worker *victim = &test.worker[v];
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL, .sequence = sequence};
	uint32_t flow = (uint32_t)(next_random(random) %
				   (next_random(random) % 4 == 0 ? test.flows : 16 * PORTS));
	uint32_t bucket = test.flow[flow].bucket;

	for (uint32_t i = 0; owner_of(bucket) != v && i < WEIR_BUCKETS; i++) {
		bucket = (bucket + 1) % WEIR_BUCKETS;
	}
	message.steal.bucket = bucket;
	message.steal.thief = (uint32_t)(v + 1 + next_random(random) % (WORKERS - 1)) % WORKERS;
	message.steal.deadline_ns = clock_ns() + 1000000000ull;
	switch (next_random(random) % 16) {
	case 0:
		message.steal.deadline_ns = 1; // long over
		break;
	case 1:
		message.steal.thief = v;
		break;
	case 2:
		message.steal.bucket = (uint32_t)next_random(random);
		break;
	default:
		break;
	}
	if (!weir_mailbox_send(&victim->request, &victim->request_at, &message)) {
		abort();
	}
}

// Ask until so many moves were confirmed. Returns false when that takes too long.
static bool force(uint32_t moves, uint64_t answers[WEIR_BUCKET_ANSWER_COUNT]) {
	uint64_t start = clock_ns(), random = SEED, sequence = 0;

	for (uint32_t v = 0; v < WORKERS; v++) {
		ask(v, ++sequence, &random);
	}
	while (answers[WEIR_BUCKET_CONFIRMED] < moves) {
		for (uint32_t v = 0; v < WORKERS; v++) {
			struct worker *victim = &test.worker[v];
			struct weir_message message;

			if (!weir_mailbox_receive(
				    &victim->response, &victim->response_at, &message)) {
				continue;
			}
			answers[message.steal.answer]++;
			ask(v, ++sequence, &random);
		}
		if (clock_ns() - start > 150 * 1000000000ull) {
			printf("%" PRIu64 " moves of %u\n", answers[WEIR_BUCKET_CONFIRMED], moves);
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	return true;
}

// --- set-up -------------------------------------------------------------------------------

static void on_established(void *context, uint16_t backend, bool answered) {
	(void)context;
	(void)backend;
	(void)answered;
}

static void on_finished(void *context, uint16_t backend, enum weir_outcome outcome,
	uint64_t service_ns, bool half_open) {
	(void)context;
	(void)backend;
	(void)outcome;
	(void)service_ns;
	(void)half_open;
}

static void on_resumed(void *context, uint16_t backend) {
	(void)context;
	(void)backend;
}

static void on_ended(void *context, uint16_t backend, enum weir_flow_end end, int outcome,
	uint64_t service_ns, bool half_open) {
	struct worker *worker = context;

	(void)backend;
	(void)end;
	(void)outcome;
	(void)service_ns;
	(void)half_open;
	worker->ended++;
}

static void must(bool done, const char *what) {
	if (!done) {
		printf("cannot make %s\n", what);
		exit(1);
	}
}

static struct rte_ring *make_ring(const char *name, uint32_t port, uint32_t worker) {
	char text[RTE_RING_NAMESIZE];
	struct rte_ring *ring;

	snprintf(text, sizeof(text), "%s_%u_%u", name, port, worker);
	ring = rte_ring_create(text, 2 * PACKETS, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	must(ring != NULL, "a ring");
	return ring;
}

static void make_tables(void) {
	struct weir_flow_table_params params = {.flows = 8 * test.flows,
		.ipv6_percent = 100,
		.half_open_percent = 50,
		.timeout_ms = {5000, 900000, 10000, 30000, 10000, 5000},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED,
		.secret = SEED};

	must(weir_flow_memory_create(params.flows, 100, true, SOCKET_ID_ANY, &test.memory) == 0,
		"the flow memory");
	params.memory = test.memory;
	for (uint32_t w = 0; w < WORKERS; w++) {
		struct worker *worker = &test.worker[w];
		struct weir_flow_listener listener = {.established = on_established,
			.finished = on_finished,
			.resumed = on_resumed,
			.ended = on_ended,
			.context = worker};

		worker->index = w;
		worker->random = w + 1;
		must(weir_flow_table_create(&params, &listener, &worker->table) == 0, "a table");
		must(weir_flow_parcel_create(
			     test.memory, BACKENDS, SOCKET_ID_ANY, &test.parcel[w]) == 0,
			"a parcel");
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			if (weir_distributor_first_worker(b, WORKERS) == w) {
				weir_flow_own(worker->table, b);
			}
		}
	}
}

// Every other pair of flows is of IPv6.
static void make_flows(void) {
	const struct weir_flow_secret *secret = &test.worker[0].table->secret;

	test.flow = calloc(test.flows, sizeof(test.flow[0]));
	must(test.flow != NULL, "flows");
	for (uint32_t i = 0; i < test.flows; i++) {
		struct flow *flow = &test.flow[i];

		flow->key = (struct weir_flow_key){.family = i & 2 ? 6 : 4,
			.protocol = 6,
			.source_port = (uint16_t)i,
			.destination_port = 80};
		memcpy(flow->key.source, &i, sizeof(i));
		flow->key.destination[0] = (uint8_t)(i >> 2 & 7);
		flow->hash = weir_hash_mix(i + 1, 0x9e3779b97f4a7c15ull);
		flow->bucket = weir_flow_part(
			secret, weir_flow_bucket_hash(secret, &flow->key, flow->hash));
	}
}

static void make_ports(void) {
	struct weir_distributor *distributors[PORTS];
	struct weir_moves_params params = {.workers = WORKERS,
		.distributors = PORTS,
		.distributor = distributors,
		.parcel = test.parcel,
		.socket = SOCKET_ID_ANY};

	for (uint32_t p = 0; p < PORTS; p++) {
		struct port *port = &test.port[p];

		must(weir_distributor_create(p, WORKERS, p, SOCKET_ID_ANY, &port->distributor) == 0,
			"a distributor");
		distributors[p] = port->distributor;
		for (uint32_t w = 0; w < WORKERS; w++) {
			port->back[w] = make_ring("back", p, w);
		}
		for (uint32_t i = 0; i < PACKETS; i++) {
			port->free[port->free_count++] = &port->packet[i];
		}
	}
	must(weir_moves_create(&params, &test.moves) == 0, "moves");
	for (uint32_t w = 0; w < WORKERS; w++) {
		test.worker[w].mover = &test.moves->mover[w];
	}
}

static void unmake(void) {
	weir_moves_free(test.moves);
	for (uint32_t p = 0; p < PORTS; p++) {
		weir_distributor_free(test.port[p].distributor);
		for (uint32_t w = 0; w < WORKERS; w++) {
			rte_ring_free(test.port[p].back[w]);
		}
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_flow_parcel_free(test.parcel[w]);
		weir_flow_table_free(test.worker[w].table);
	}
	weir_flow_memory_free(test.memory);
	free(test.flow);
}

// --- what must hold -------------------------------------------------------------------------

static bool is_at_rest(void) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct weir_mover *mover = &test.moves->mover[w];

		if (__atomic_load_n(&mover->move.state, __ATOMIC_ACQUIRE) != WEIR_MOVING_NOTHING ||
			__atomic_load_n(&mover->taking, __ATOMIC_ACQUIRE) != 0) {
			return false;
		}
	}
	return true;
}

// No port receives any more: let moves end and rings run empty. Returns false when a move does not
// end.
static bool settle(void) {
	uint64_t start = clock_ns();

	__atomic_store_n(&test.quiet, true, __ATOMIC_RELAXED);
	while (!is_at_rest() && clock_ns() - start < 20 * 1000000000ull) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return is_at_rest();
}

static uint64_t check_tables(void) {
	uint32_t expected[WORKERS] = {0};
	uint64_t faults = 0;

	for (uint32_t i = 0; i < test.flows; i++) {
		expected[owner_of(test.flow[i].bucket)] += test.flow[i].seen > 0;
		if (test.flow[i].seen != test.flow[i].sent) {
			printf("flow %u: %u packets sent, %u seen\n", i, test.flow[i].sent,
				test.flow[i].seen);
			faults++;
		}
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		uint32_t count = weir_flow_count(test.worker[w].table);

		if (count != expected[w]) {
			printf("worker %u: counts %u flows, has %u\n", w, count, expected[w]);
			faults++;
		}
	}
	return faults;
}

static uint64_t check(void) {
	uint64_t sent = 0, processed = 0, held = 0, faults = check_tables();

	for (uint32_t p = 0; p < PORTS; p++) {
		sent += test.port[p].sent;
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct worker *worker = &test.worker[w];

		processed += worker->processed;
		held += worker->held;
		faults += worker->faults + worker->refused + (uint64_t)worker->ended;
	}
	printf("%" PRIu64 " packets sent, %" PRIu64 " processed, %" PRIu64 " of them held\n", sent,
		processed, held);
	// A test without packets on hold would show little.
	return faults + (sent != processed) + (held == 0);
}

// rte_ring_empty reads what a worker writes as if nobody did.
static bool is_empty(const struct rte_ring *ring) {
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&ring->cons.tail, __ATOMIC_ACQUIRE);
}

// Rings may still have packets when all moves have ended.
static void run_empty(void) {
	uint64_t start = clock_ns();
	bool empty = false;

	while (!empty && clock_ns() - start < 20 * 1000000000ull) {
		empty = true;
		for (uint32_t p = 0; p < PORTS; p++) {
			for (uint32_t w = 0; w < WORKERS; w++) {
				const struct rte_ring *ring = test.port[p].distributor->ring[w];

				empty = empty && (ring == NULL || is_empty(ring));
			}
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

int main(int argc, char **argv) {
	char *eal[] = {"moves", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "-m256", "--log-level=*:error", "-l0", NULL};
	uint32_t moves = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
	uint64_t answers[WEIR_BUCKET_ANSWER_COUNT] = {0};
	bool ended;

	test.flows = argc > 2 ? (uint32_t)atoi(argv[2]) : 4096;
	must(rte_eal_init(9, eal) >= 0, "the EAL");
	make_tables();
	make_flows();
	make_ports();
	for (uint32_t w = 0; w < WORKERS; w++) {
		must(pthread_create(&test.worker[w].thread, NULL, work, &test.worker[w]) == 0,
			"a thread");
	}
	ended = force(moves, answers);
	ended = settle() && ended;
	run_empty();
	__atomic_store_n(&test.stop, true, __ATOMIC_RELAXED);
	for (uint32_t w = 0; w < WORKERS; w++) {
		pthread_join(test.worker[w].thread, NULL);
	}
	for (unsigned int a = 0; a < WEIR_BUCKET_ANSWER_COUNT; a++) {
		static const char *const names[] = {
#define X(name, key, text) key,
			WEIR_BUCKET_ANSWERS(X)
#undef X
		};

		printf("%s %" PRIu64 "%s", names[a], answers[a],
			a + 1 == WEIR_BUCKET_ANSWER_COUNT ? "\n" : ", ");
	}
	if (check() > 0 || !ended) {
		printf("failed\n");
		return 1;
	}
	unmake();
	return 0;
}
