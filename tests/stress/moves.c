// SPDX-License-Identifier: BSD-3-Clause
//
// Moves: three workers with real rings, distributors and flow tables. Two ports receive packets of
// many flows; each port has a different worker. Moves of buckets are requested as fast as the
// workers can move them. Some iterations of the workers (victim, thief or distributor), chosen at
// random, take long. Checks:
//   - The guarantees of moves.h: M1 to M3 for every packet, M4 at the end.
//   - Every packet is processed, in the order of its flow. The worker that processes the packet has
//     the flow in its table, with the flow's first backend.
//   - At the end, the counts of each table match its flows.
//
// With "rss", each port has a queue for each worker (moves_ports.h), and the main thread of the
// dataplane adapts the redirection tables of the devices to the buckets (queue_tables.h).
//
// usage: moves [MOVES [FLOWS [rss]]]
// Exit 0: all checks passed.
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
#include "moves_ports.h"

#define BACKENDS 64u
#define NOW 1000000000000ull // constant time of the flow tables
#define SETTLE_NS 20000000000ull

struct worker {
	uint32_t index;
	struct weir_mover *mover;
	struct weir_flow_table *table;
	uint64_t processed;
	uint64_t held, shift_held, refused, faults;
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
	struct ports *ports;
	struct worker worker[WORKERS];
	struct flow *flow; // [flows]; the port of flow n is n modulo PORTS
	uint32_t flows;
	bool stop;
} test;

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
	ports_give_back(test.ports, port, self->index, pkts, n);
}

// distributor: the distributor of the queue that the packets came from; NULL: they came from a
// ring.
static void hold_or_process(struct worker *self, const struct weir_distributor *distributor,
	struct rte_mbuf **pkts, uint16_t n, uint8_t port) {
	uint16_t refused, stay;

	if (weir_mover_is_taking(self->mover)) {
		stay = weir_mover_hold(self->mover, pkts, n, port, &refused);
		self->held += (uint64_t)n - stay - refused;
		self->refused += refused;
		n = stay;
	}
	if (distributor != NULL && weir_mover_is_shifting(self->mover)) {
		stay = weir_mover_hold_shift(self->mover, distributor, pkts, n, port, &refused);
		self->shift_held += (uint64_t)n - stay - refused;
		self->refused += refused;
		n = stay;
	}
	if (n > 0) {
		process(self, pkts, n, port);
	}
}

static void distribute(
	struct worker *self, struct weir_distributor *distributor, uint8_t port, uint32_t queue) {
	struct rte_mbuf *pkts[BURST], *batch[WORKERS][BURST];
	uint16_t count[WORKERS] = {0}, n;

	weir_distributor_switch(distributor);
	n = ports_receive(test.ports, port, queue, pkts);
	weir_distributor_received(distributor, n);
	for (uint16_t i = 0; i < n; i++) {
		uint32_t w =
			weir_distributor_worker(distributor, weir_distributor_bucket_of(pkts[i]));

		batch[w][count[w]++] = pkts[i];
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		if (w == self->index) {
			continue;
		}
		distributor->put[w] += count[w];
		if (rte_ring_sp_enqueue_bulk(
			    distributor->ring[w], (void **)batch[w], count[w], NULL) != count[w]) {
			abort();
		}
	}
	hold_or_process(self, distributor, batch[self->index], count[self->index], port);
}

static void take_handed(
	struct worker *self, const struct weir_distributor *distributor, uint8_t port) {
	struct rte_mbuf *pkts[BURST];
	uint16_t n = (uint16_t)rte_ring_sc_dequeue_burst(
		distributor->ring[self->index], (void **)pkts, BURST, NULL);

	weir_mover_took(self->mover, distributor->number, n);
	hold_or_process(self, NULL, pkts, n, port);
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

static void process_held(struct worker *self, struct weir_hold *hold) {
	struct rte_mbuf *pkts[BURST];
	uint32_t due = hold != NULL ? weir_hold_due(hold) : 0;
	uint8_t port = 0;

	while (due > 0) {
		uint16_t n = weir_hold_take(hold, pkts, due < BURST ? (uint16_t)due : BURST, &port);

		process(self, pkts, n, port);
		due -= n;
	}
}

static void shift_buckets(struct worker *self) {
	struct weir_hold *hold = weir_mover_shift(self->mover);

	if (hold != NULL) {
		process_held(self, hold);
		weir_mover_shift_end(self->mover);
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
			weir_flow_parcel_remove(mover->move.parcel);
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
	process_held(self, weir_mover_held(mover));
	(void)weir_mover_end(mover, &bucket);
}

static void *work(void *context) {
	const struct timespec long_turn = {.tv_nsec = 300000}, longer_turn = {.tv_nsec = 3000000};
	struct worker *self = context;

	while (!__atomic_load_n(&test.stop, __ATOMIC_RELAXED)) {
		for (uint32_t d = 0; d < test.ports->distributors; d++) {
			struct weir_distributor *distributor = test.ports->distributor[d];

			if (distributor->owner == self->index) {
				distribute(self, distributor, ports_of(d), ports_queue_of(d));
			} else {
				take_handed(self, distributor, ports_of(d));
			}
		}
		respond(self);
		move_buckets(self);
		if (weir_mover_is_shifting(self->mover)) {
			shift_buckets(self);
		}
		if (stress_random(&self->random) % 512 == 0) {
			// during the pause, a device stores packets in its queues
			nanosleep(&longer_turn, NULL);
		}
		if (stress_random(&self->random) % 64 == 0) {
			nanosleep(&long_turn, NULL);
		}
	}
	return NULL;
}

// --- control ------------------------------------------------------------------------------

static uint32_t owner_of(uint32_t bucket) {
	return __atomic_load_n(&test.moves->owner[bucket], __ATOMIC_RELAXED);
}

// Request a bucket from worker v. Usually it is a bucket of worker v with many packets. Sometimes
// its number is random, and there may be no bucket with this number.
static void ask(uint32_t v, uint64_t sequence, uint64_t *random) {
	struct worker *victim = &test.worker[v];
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL, .sequence = sequence};
	uint32_t flow = (uint32_t)(stress_random(random) %
				   (stress_random(random) % 4 == 0 ? test.flows : 16 * PORTS));
	uint32_t bucket = test.flow[flow].bucket;

	for (uint32_t i = 0; owner_of(bucket) != v && i < WEIR_BUCKETS; i++) {
		bucket = (bucket + 1) % WEIR_BUCKETS;
	}
	message.steal.bucket = bucket;
	message.steal.thief = (uint32_t)(v + 1 + stress_random(random) % (WORKERS - 1)) % WORKERS;
	message.steal.deadline_ns = clock_ns() + 1000000000ull;
	switch (stress_random(random) % 16) {
	case 0:
		message.steal.deadline_ns = 1; // a deadline in the past
		break;
	case 1:
		message.steal.thief = v;
		break;
	case 2:
		message.steal.bucket = (uint32_t)stress_random(random);
		break;
	default:
		break;
	}
	if (!weir_mailbox_send(&victim->request, &victim->request_at, &message)) {
		abort();
	}
}

// Send requests until this number of moves is confirmed. Returns false if this takes too long.
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
	uint64_t service_ns, uint64_t idle_ns, bool half_open) {
	struct worker *worker = context;

	(void)backend;
	(void)end;
	(void)outcome;
	(void)service_ns;
	(void)idle_ns;
	(void)half_open;
	worker->ended++;
}

static void must(bool done, const char *what) {
	if (!done) {
		printf("cannot make %s\n", what);
		exit(1);
	}
}

static void make_tables(uint32_t queues) {
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
			if (ports_first_worker(queues, b) == w) {
				weir_flow_own(worker->table, b);
			}
		}
	}
}

// Every other pair of flows uses IPv6.
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

static void make_moves(uint32_t queues) {
	struct weir_moves_params params = {
		.workers = WORKERS, .parcel = test.parcel, .socket = SOCKET_ID_ANY};

	test.ports = ports_make(test.flow, test.flows, queues);
	must(test.ports != NULL, "ports");
	params.distributor = test.ports->distributor;
	params.distributors = test.ports->distributors;
	must(weir_moves_create(&params, &test.moves) == 0, "moves");
	for (uint32_t w = 0; w < WORKERS; w++) {
		test.worker[w].mover = &test.moves->mover[w];
	}
	must(ports_start(test.ports, test.moves), "threads");
}

static void unmake(void) {
	weir_moves_free(test.moves);
	ports_free(test.ports);
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_flow_parcel_free(test.parcel[w]);
		weir_flow_table_free(test.worker[w].table);
	}
	weir_flow_memory_free(test.memory);
	free(test.flow);
}

// --- checks at the end ----------------------------------------------------------------------

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

// Stop receiving from the ports, and wait until all moves have ended and the rings are empty.
// Returns false if a move does not end.
static bool settle(void) {
	uint64_t start = clock_ns();

	ports_be_quiet(test.ports);
	while (!is_at_rest() && clock_ns() - start < SETTLE_NS) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	ports_stop_main(test.ports);
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
	uint64_t sent = ports_sent(test.ports), processed = 0, held = 0, shift_held = 0;
	uint64_t faults = check_tables();

	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct worker *worker = &test.worker[w];

		processed += worker->processed;
		held += worker->held;
		shift_held += worker->shift_held;
		faults += worker->faults + worker->refused + (uint64_t)worker->ended;
	}
	printf("%" PRIu64 " packets sent, %" PRIu64 " processed, %" PRIu64 " of them held, %" PRIu64
	       " in %" PRIu64 " changes of tables\n",
		sent, processed, held, shift_held, ports_shifts(test.ports));
	// Fail if no packet was held, because the test would then not cover held packets.
	return faults + (sent != processed) + (held == 0) +
	       (ports_have_tables(test.ports) &&
		       (shift_held == 0 || ports_shifts(test.ports) == 0));
}

// Process the packets that remain in rings after all moves have ended.
static void run_empty(void) {
	uint64_t start = clock_ns();

	while (!ports_are_empty(test.ports) && clock_ns() - start < SETTLE_NS) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

int main(int argc, char **argv) {
	char *eal[] = {"moves", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "-m256", "--log-level=*:error", "-l0", NULL};
	uint32_t moves = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
	uint64_t answers[WEIR_BUCKET_ANSWER_COUNT] = {0};
	uint32_t queues = argc > 3 && strcmp(argv[3], "rss") == 0 ? WORKERS : 1;
	bool ended;

	test.flows = argc > 2 ? (uint32_t)atoi(argv[2]) : 4096;
	must(rte_eal_init(9, eal) >= 0, "the EAL");
	make_tables(queues);
	make_flows();
	make_moves(queues);
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
