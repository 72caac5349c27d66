// SPDX-License-Identifier: BSD-3-Clause
//
// Buckets that move between real workers, under load: three workers in threads, three ports with
// one transmit queue each, real pipelines on a bucketed segment. Packets of many flows carry a
// number; the test is the network on both sides, and control.
#include "worker.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <rte_ring.h>

#include "device_lab.h"
#include "distribution.h"
#include "flow_memory.h"
#include "flow_parts.h"
#include "mailbox.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"

#define WORKERS 3u
#define IN_PORTS 2u // ports 0 and 1 get packets; service 0 leaves by port 2
#define OUT 2u
#define FLOWS 3000u
#define HOT 24u // of them that have most packets: 12 of each port
#define UNDER_WAY 600u // packets: fewer than a ring has room for
#define SYN 2
#define ACK 0x10
#define DEADLINE_NS 1000000000ull

struct seen {
	uint32_t sent, received; // packets
	uint16_t backend; // 1 + its number; 0 = none yet
};

struct rig {
	struct lab *lab; // without a pipeline
	struct weir_plan plan;
	struct weir_buffers buffers;
	struct ring_device ring[LAB_PORTS];
	struct weir_device device[LAB_PORTS];
	struct weir_port port[LAB_PORTS];
	struct weir_transmit *transmit;
	struct weir_distribution distribution;
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel[WORKERS];
	struct weir_pipeline *pipeline[WORKERS];
	struct weir_worker *worker[WORKERS];
	pthread_t thread[WORKERS];
	struct seen flow[FLOWS];
	uint64_t sent, received;
	uint64_t random, sequence;
	uint64_t answers[WEIR_BUCKET_ANSWER_COUNT];
};

static uint64_t next_random(struct rig *rig) {
	rig->random = rig->random * 6364136223846793005ull + 1442695040888963407ull;
	return rig->random >> 33;
}

static uint64_t clock_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

// --- set-up -------------------------------------------------------------------------------

static struct lab *make_segment(void) {
	struct weir_port_info ports[LAB_PORTS] = {0};
	struct weir_segment_params params = {.workers = WORKERS,
		.ports = LAB_PORTS,
		.max_services = LAB_SERVICES,
		.max_backends = LAB_BACKENDS,
		.heap_bytes = 64 << 20,
		.tsc_hz = 2000000000,
		.hash_seed = LAB_SEED,
		.bucketing = WEIR_BUCKETING_YES,
		.port_info = ports};
	struct weir_selection_params selection =
		weir_selection_defaults(0, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	for (unsigned int i = 0; i < LAB_PORTS; i++) {
		memcpy(ports[i].mac, frame_our_mac, sizeof(frame_our_mac));
		ports[i].mtu = LAB_MTU;
	}
	assert_int_equal(weir_segment_create(&params, &lab->segment), 0);
	assert_int_equal(weir_segment_attach_own(lab->segment, &lab->control), 0);
	assert_int_equal(weir_writer_open(lab->control, &lab->writer), 0);
	assert_int_equal(weir_writer_reserve(lab->writer, LAB_SERVICES, LAB_BACKENDS), 0);
	lab_publish_default(lab);
	// A flow without its entry would go to another backend: Maglev does not know this choice.
	lab_publish_policy(lab, &selection, (uint16_t[]){0, 1, 2, 3}, 4);
	return lab;
}

static void make_devices(struct rig *rig, unsigned int number) {
	const uint32_t owner[LAB_PORTS] = {0, 1, 2};
	char name[32], why[256];

	for (uint8_t d = 0; d < LAB_PORTS; d++) {
		snprintf(name, sizeof(name), "mv%u_%u", number, d);
		ring_device_make(name, 1, &rig->ring[d]);
		device_lab_plan(rig->ring[d].name, 1, &rig->plan);
		if (d == 0) {
			weir_buffers_init(&rig->buffers, rig->plan.pool, rig->plan.pools);
		}
		assert_int_equal(weir_device_open(&rig->plan.device[0], &rig->buffers, WORKERS,
					 &rig->device[d], why, sizeof(why)),
			0);
		rig->port[d] = (struct weir_port){.wire = d, .exception = WEIR_NO_DEVICE};
	}
	assert_int_equal(
		weir_transmit_create(rig->device, owner, LAB_PORTS, WORKERS, &rig->transmit), 0);
}

static void make_pipelines(struct rig *rig) {
	struct weir_pipeline_params params = lab_params();
	struct weir_flow_table_params *flows = &params.flow_table;

	flows->flows = 16 * FLOWS;
	for (unsigned int i = 0; i < WEIR_FLOW_STATE_COUNT; i++) {
		flows->timeout_ms[i] = 900000; // a loud machine ends no flow
	}
	assert_int_equal(weir_flow_memory_create(flows->flows, flows->ipv6_percent, true,
				 SOCKET_ID_ANY, &rig->memory),
		0);
	flows->memory = rig->memory;
	params.segment = rig->lab->segment;
	for (uint32_t w = 0; w < WORKERS; w++) {
		params.worker = w;
		assert_int_equal(weir_pipeline_create(&params, &rig->pipeline[w]), 0);
		assert_int_equal(weir_flow_parcel_create(
					 rig->memory, LAB_BACKENDS, SOCKET_ID_ANY, &rig->parcel[w]),
			0);
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			if (weir_distributor_first_worker(b, WORKERS) == w) {
				weir_pipeline_own_part(rig->pipeline[w], b);
			}
		}
	}
}

static void add_sources(struct rig *rig, uint8_t p, uint32_t owner) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		struct weir_distributor *distributor = rig->distribution.distributor[p];
		struct weir_source source = {
			.kind = w == owner ? WEIR_SOURCE_SHARED : WEIR_SOURCE_HANDED,
			.port = p,
			.device = rig->device[p].id,
			.ring = distributor->ring[w],
			.distributor = distributor};

		assert_int_equal(weir_worker_add_source(rig->worker[w], &source), 0);
	}
}

static void make_workers(struct rig *rig) {
	struct weir_distributed_port ports[LAB_PORTS];

	for (uint8_t p = 0; p < LAB_PORTS; p++) {
		ports[p] = (struct weir_distributed_port){
			.distributed = true, .owner = p, .socket = SOCKET_ID_ANY};
	}
	assert_int_equal(
		weir_distribution_create(rig->lab->segment, ports, rig->parcel, &rig->distribution),
		0);
	for (uint32_t w = 0; w < WORKERS; w++) {
		struct weir_worker_params params = {.index = w,
			.segment = rig->lab->segment,
			.pipeline = rig->pipeline[w],
			.transmit = rig->transmit,
			.ports = rig->port,
			.ports_count = LAB_PORTS,
			.idle = WEIR_IDLE_YIELD,
			.socket = SOCKET_ID_ANY};

		assert_int_equal(weir_worker_create(&params, &rig->worker[w]), 0);
		weir_worker_join_moves(rig->worker[w], rig->distribution.moves);
	}
	for (uint8_t p = 0; p < LAB_PORTS; p++) {
		add_sources(rig, p, p);
	}
	for (uint32_t i = 0; i < rig->transmit->outlets; i++) {
		assert_int_equal(weir_worker_add_outlet(rig->worker[rig->transmit->outlet_owner[i]],
					 &rig->transmit->outlet[i]),
			0);
	}
}

static void *run(void *worker) {
	weir_worker_run(worker);
	return NULL;
}

static void set_stealing(struct rig *rig, enum weir_stealing stealing) {
	__atomic_store_n(&rig->lab->control->news->stealing, stealing, __ATOMIC_RELAXED);
}

// Workers do not run: the test turns them.
static struct rig *make_still(unsigned int number) {
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->random = number;
	rig->lab = make_segment();
	make_devices(rig, number);
	make_pipelines(rig);
	make_workers(rig);
	set_stealing(rig, WEIR_STEALING_ON);
	return rig;
}

static struct rig *make(unsigned int number) {
	struct rig *rig = make_still(number);

	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(pthread_create(&rig->thread[w], NULL, run, rig->worker[w]), 0);
	}
	return rig;
}

static void stop(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_worker_stop(rig->worker[w]);
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(pthread_join(rig->thread[w], NULL), 0);
	}
}

static void unmake(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_worker_free(rig->worker[w]);
	}
	weir_distribution_free(&rig->distribution);
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_pipeline_free(rig->pipeline[w]);
		weir_flow_parcel_free(rig->parcel[w]);
	}
	weir_flow_memory_free(rig->memory);
	weir_transmit_free(rig->transmit);
	for (unsigned int d = 0; d < LAB_PORTS; d++) {
		weir_device_close(&rig->device[d]);
		ring_device_free(&rig->ring[d]);
	}
	weir_buffers_fini(&rig->buffers);
	lab_free(rig->lab);
	assert_int_equal(device_lab_in_use(), 0);
	free(rig);
}

// --- the network --------------------------------------------------------------------------

// A packet of a flow, with its number as TCP sequence number, on the flow's port.
static void send_packet(struct rig *rig, uint32_t flow) {
	struct frame_spec spec = lab_tcp((uint16_t)flow, rig->flow[flow].sent == 0 ? SYN : ACK);
	struct frame f;

	spec.payload = 20;
	frame_build(&spec, &f);
	frame_put32(f.bytes + f.l4 + 4, ++rig->flow[flow].sent);
	assert_true(ring_device_feed(&rig->ring[flow % IN_PORTS], 0, f.bytes, f.n));
	rig->sent++;
}

// The backend of an encapsulated packet, by the outer destination; *ret_inner: the inner packet.
static uint16_t read_outer(const uint8_t *frame, const uint8_t **ret_inner) {
	const uint8_t *ip = frame + 14;

	if (frame_get16(frame + 12) == 0x8100) {
		ip += 4;
	}
	*ret_inner = ip + (ip[0] >> 4 == 4 ? 20 : 40);
	return (uint16_t)((ip[0] >> 4 == 4 ? ip[19] : ip[39]) - 11);
}

static void receive_packet(struct rig *rig, struct rte_mbuf *m) {
	const uint8_t *inner;
	uint16_t backend = read_outer(rte_pktmbuf_mtod(m, const uint8_t *), &inner);
	uint32_t flow = frame_get16(inner + 20) - 1024u, number = frame_get32(inner + 24);
	struct seen *seen;

	assert_true(flow < FLOWS);
	seen = &rig->flow[flow];
	if (number != seen->received + 1) {
		fail_msg("flow %u: packet %u after %u", flow, number, seen->received);
	}
	if (seen->backend != 0 && seen->backend != backend + 1) {
		fail_msg("flow %u, packet %u: backend %u, was %u", flow, number, backend,
			seen->backend - 1u);
	}
	seen->received = number;
	seen->backend = (uint16_t)(backend + 1);
	rig->received++;
	rte_pktmbuf_free(m);
}

static void receive_all(struct rig *rig) {
	struct rte_mbuf *m;

	while ((m = ring_device_take(&rig->ring[OUT], 0)) != NULL) {
		receive_packet(rig, m);
	}
}

static void pump(struct rig *rig) {
	for (uint32_t i = 0; i < 32 && rig->sent - rig->received < UNDER_WAY; i++) {
		send_packet(rig,
			(uint32_t)(next_random(rig) % (next_random(rig) % 8 == 0 ? FLOWS : HOT)));
	}
	receive_all(rig);
}

// Wait until everything that was sent has arrived.
static void settle(struct rig *rig) {
	uint64_t start = clock_ns();

	while (rig->received < rig->sent) {
		receive_all(rig);
		if (clock_ns() - start > 60 * 1000000000ull) {
			fail_msg(
				"%lu packets are lost", (unsigned long)(rig->sent - rig->received));
		}
	}
}

static void begin_flows(struct rig *rig) {
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t flow = 0; flow < FLOWS; flow++) {
			while (rig->sent - rig->received >= UNDER_WAY) {
				receive_all(rig);
			}
			send_packet(rig, flow);
		}
	}
	settle(rig);
}

// --- control ------------------------------------------------------------------------------

static void ask(
	struct rig *rig, uint32_t victim, uint32_t bucket, uint32_t thief, uint64_t deadline_ns) {
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL, .sequence = ++rig->sequence};

	message.steal.bucket = bucket;
	message.steal.thief = thief;
	message.steal.deadline_ns = deadline_ns;
	assert_true(weir_mailbox_send(&rig->lab->control->control_boxes[victim].request,
		&rig->lab->control->worker_boxes[victim].request, &message));
}

static bool answered(struct rig *rig, uint32_t victim, enum weir_bucket_answer *ret) {
	struct weir_message message;

	if (!weir_mailbox_receive(&rig->lab->control->worker_boxes[victim].response,
		    &rig->lab->control->control_boxes[victim].response, &message)) {
		return false;
	}
	*ret = (enum weir_bucket_answer)message.steal.answer;
	rig->answers[*ret]++;
	return true;
}

static enum weir_bucket_answer answer_of(struct rig *rig, uint32_t victim) {
	uint64_t start = clock_ns();
	enum weir_bucket_answer answer;

	while (!answered(rig, victim, &answer)) {
		assert_true(clock_ns() - start < 60 * 1000000000ull);
	}
	return answer;
}

// The bucket of a flow, mostly one with many packets, that this worker has.
static uint32_t bucket_of(struct rig *rig, uint32_t worker) {
	const struct weir_segment *segment = rig->lab->control;
	uint32_t bucket = (uint32_t)next_random(rig) % WEIR_BUCKETS;
	uint64_t most = 0;

	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint64_t packets = weir_counter_read(&segment->bucket_packets[0].packets[b]) +
				   weir_counter_read(&segment->bucket_packets[1].packets[b]);

		if (weir_segment_bucket_owner(segment, b) == worker && packets > most &&
			next_random(rig) % 4 != 0) {
			most = packets;
			bucket = b;
		}
	}
	return bucket;
}

static void ask_for_any(struct rig *rig, uint32_t victim) {
	ask(rig, victim, bucket_of(rig, victim),
		(uint32_t)(victim + 1 + next_random(rig) % (WORKERS - 1)) % WORKERS,
		next_random(rig) % 16 == 0 ? 1 : clock_ns() + 60 * DEADLINE_NS);
}

// So many moves under load, from and to all workers, several at a time.
static void force(struct rig *rig, uint32_t moves) {
	uint64_t start = clock_ns();

	for (uint32_t v = 0; v < WORKERS; v++) {
		ask_for_any(rig, v);
	}
	while (rig->answers[WEIR_BUCKET_CONFIRMED] < moves) {
		for (uint32_t v = 0; v < WORKERS; v++) {
			enum weir_bucket_answer answer;

			pump(rig);
			if (answered(rig, v, &answer)) {
				ask_for_any(rig, v);
			}
		}
		if (clock_ns() - start > 100 * 1000000000ull) {
			fail_msg("only %lu moves",
				(unsigned long)rig->answers[WEIR_BUCKET_CONFIRMED]);
		}
	}
	for (uint32_t v = 0; v < WORKERS; v++) {
		(void)answer_of(rig, v);
	}
}

static uint64_t sum_given(const struct rig *rig, bool taken) {
	uint64_t sum = 0;

	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct weir_steal_counters *c = &rig->lab->control->steal_counters[w];

		sum += weir_counter_read(taken ? &c->buckets_taken : &c->buckets_given);
	}
	return sum;
}

static void wait_for_moves(struct rig *rig) {
	uint64_t start = clock_ns();

	while (sum_given(rig, false) < rig->answers[WEIR_BUCKET_CONFIRMED]) {
		receive_all(rig);
		assert_true(clock_ns() - start < 60 * 1000000000ull);
	}
	assert_int_equal(sum_given(rig, true), rig->answers[WEIR_BUCKET_CONFIRMED]);
}

// --- what must hold -------------------------------------------------------------------------

// Every worker's gauges agree with each other, and all together with the flows that there are.
static void check_gauges(const struct rig *rig) {
	const struct weir_segment *segment = rig->lab->segment;
	uint64_t expected[4] = {0}, flows = 0;

	for (uint32_t i = 0; i < FLOWS; i++) {
		assert_in_range(rig->flow[i].backend, 1, 4);
		expected[rig->flow[i].backend - 1]++;
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct weir_share_counters *service =
			weir_segment_service_counters(segment, w, 0);
		uint64_t active = 0, open = 0;

		for (uint32_t b = 0; b < 4; b++) {
			const struct weir_share_counters *backend =
				weir_segment_backend_counters(segment, w, b);

			active += backend->active_flows;
			open += backend->open_flows;
			expected[b] -= backend->active_flows;
		}
		assert_int_equal(segment->worker_counters[w].flows, active);
		assert_int_equal(segment->worker_counters[w].flows_half_open, 0);
		assert_int_equal(service->active_flows, active);
		assert_int_equal(service->open_flows, open);
		assert_int_equal(open, active);
		flows += active;
	}
	assert_int_equal(flows, FLOWS);
	for (uint32_t b = 0; b < 4; b++) {
		assert_int_equal(expected[b], 0);
	}
}

static void check_packets(const struct rig *rig) {
	const struct weir_segment *segment = rig->lab->segment;
	uint64_t received = 0, handed = 0, forwarded = 0, of_buckets = 0, new_flows = 0;

	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct weir_worker_counters *c = &segment->worker_counters[w];

		assert_int_equal(c->dropped, 0);
		received += c->rx_packets;
		handed += c->handed_over;
		forwarded += c->forwarded;
		new_flows += c->flow_new;
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		of_buckets += segment->bucket_packets[0].packets[b] +
			      segment->bucket_packets[1].packets[b];
	}
	assert_int_equal(forwarded, rig->sent);
	assert_int_equal(received, rig->sent + handed);
	assert_int_equal(of_buckets, rig->sent);
	assert_int_equal(new_flows, FLOWS); // none began a second time
}

static void check_owners(const struct rig *rig) {
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint32_t owner = weir_segment_bucket_owner(rig->lab->segment, b);

		for (uint32_t w = 0; w < WORKERS; w++) {
			assert_int_equal(weir_pipeline_owns_part(rig->pipeline[w], b), w == owner);
		}
		for (uint32_t p = 0; p < LAB_PORTS; p++) {
			assert_int_equal(
				weir_distributor_worker(rig->distribution.distributor[p], b),
				owner);
		}
	}
}

static void a_thousand_moves_lose_and_reorder_nothing(void **state) {
	struct rig *rig = make(1);
	uint64_t held = 0;

	(void)state;
	begin_flows(rig);
	force(rig, 1000);
	settle(rig);
	wait_for_moves(rig);
	stop(rig);
	for (uint32_t w = 0; w < WORKERS; w++) {
		held += rig->lab->segment->steal_counters[w].held_packets;
	}
	assert_true(held > 0);
	assert_true(rig->answers[WEIR_BUCKET_LATE] > 0);
	check_packets(rig);
	check_gauges(rig);
	check_owners(rig);
	print_message("%lu moves, %lu packets, %lu of them held\n",
		(unsigned long)rig->answers[WEIR_BUCKET_CONFIRMED], (unsigned long)rig->sent,
		(unsigned long)held);
	unmake(rig);
}

static void refusals_change_nothing(void **state) {
	struct rig *rig = make(2);
	const uint64_t later = clock_ns() + 3600 * DEADLINE_NS;
	const struct weir_steal_counters *counters = &rig->lab->control->steal_counters[1];

	(void)state;
	begin_flows(rig);
	ask(rig, 1, 1, 2, 1);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_LATE);
	ask(rig, 1, WEIR_BUCKETS, 2, later);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_OUT_OF_RANGE);
	ask(rig, 1, 1, WORKERS, later);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_OUT_OF_RANGE);
	ask(rig, 1, 2, 0, later);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_NOT_OWNER);
	ask(rig, 1, 1, 1, later);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_SELF);
	set_stealing(rig, WEIR_STEALING_OFF);
	ask(rig, 1, 1, 2, later);
	assert_int_equal(answer_of(rig, 1), WEIR_BUCKET_OFF);
	assert_int_equal(weir_counter_read(&counters->answers[WEIR_BUCKET_OUT_OF_RANGE]), 2);
	assert_int_equal(weir_counter_read(&counters->answers[WEIR_BUCKET_OFF]), 1);
	stop(rig);
	assert_int_equal(sum_given(rig, true), 0);
	check_owners(rig);
	check_gauges(rig);
	unmake(rig);
}

// Workers end between any two steps of moves, with packets on the way: nothing leaks.
static void workers_end_in_the_middle_of_moves(void **state) {
	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		struct rig *rig = make(10 + i);

		begin_flows(rig);
		force(rig, 3 + i);
		for (uint32_t v = 0; v < WORKERS; v++) {
			ask_for_any(rig, v);
		}
		pump(rig);
		stop(rig);
		unmake(rig);
	}
}

// --- turn by turn -----------------------------------------------------------------------------

static void turn_all(struct rig *rig, unsigned int turns) {
	for (unsigned int i = 0; i < turns; i++) {
		for (uint32_t w = 0; w < WORKERS; w++) {
			weir_worker_turn(rig->worker[w]);
		}
	}
}

// Begin a flow that worker 2, which has the transmit queue, does not have. Returns its number.
static uint32_t begin_elsewhere(struct rig *rig, uint32_t *ret_bucket) {
	const struct weir_segment *segment = rig->lab->segment;

	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_pipeline_settle(rig->pipeline[w]);
	}
	for (uint32_t flow = 0; flow < FLOWS; flow += IN_PORTS) {
		uint64_t before[WEIR_BUCKETS];

		memcpy(before, segment->bucket_packets[0].packets, sizeof(before));
		send_packet(rig, flow);
		turn_all(rig, 4);
		receive_all(rig);
		assert_int_equal(rig->received, rig->sent);
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			if (segment->bucket_packets[0].packets[b] != before[b] &&
				weir_segment_bucket_owner(segment, b) != 2) {
				*ret_bucket = b;
				return flow;
			}
		}
	}
	fail();
	return 0;
}

// The device of the outgoing port takes no more packets.
static void fill_out(struct rig *rig) {
	struct rte_mbuf *m;

	while ((m = rte_pktmbuf_alloc(device_lab_pool())) != NULL &&
		rte_ring_enqueue(rig->ring[OUT].from[0], m) == 0) {
	}
	assert_non_null(m);
	rte_pktmbuf_free(m);
}

static void empty_out(struct rig *rig) {
	struct rte_mbuf *m;

	while ((m = ring_device_take(&rig->ring[OUT], 0)) != NULL) {
		rte_pktmbuf_free(m);
	}
}

// Packet 2 waits in the victim's transmit ring, because the device is full, and the bucket goes to
// the worker that has the device: packet 3 must not be sent before. Returns false when the machine
// was so slow that the device counts as stuck.
static bool try_to_overtake(unsigned int number) {
	struct rig *rig = make_still(number);
	uint32_t bucket = 0, flow = begin_elsewhere(rig, &bucket);
	uint32_t victim = weir_segment_bucket_owner(rig->lab->segment, bucket);
	uint64_t start = clock_ns(), elapsed;
	bool waited;

	fill_out(rig);
	send_packet(rig, flow);
	turn_all(rig, 4);
	ask(rig, victim, bucket, 2, UINT64_MAX);
	turn_all(rig, 4);
	assert_int_equal(answer_of(rig, victim), WEIR_BUCKET_CONFIRMED);
	send_packet(rig, flow);
	turn_all(rig, 20);
	waited = weir_segment_bucket_owner(rig->lab->segment, bucket) == victim;
	elapsed = clock_ns() - start;
	empty_out(rig);
	if (waited) {
		turn_all(rig, 20);
		receive_all(rig); // checks the order
		assert_int_equal(rig->received, rig->sent);
		assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), 2);
	}
	unmake(rig);
	if (!waited && elapsed < 90000000) {
		fail_msg("the bucket moved while a packet of it had not left");
	}
	return waited;
}

static void a_flow_does_not_overtake_itself_in_transmit_rings(void **state) {
	unsigned int number = 20;

	(void)state;
	while (!try_to_overtake(number)) {
		assert_true(++number < 40);
	}
}

static void a_stuck_device_holds_up_no_bucket(void **state) {
	struct rig *rig = make_still(3);
	uint32_t bucket = 0, flow = begin_elsewhere(rig, &bucket);
	uint32_t victim = weir_segment_bucket_owner(rig->lab->segment, bucket);
	uint64_t start = clock_ns();

	(void)state;
	fill_out(rig);
	send_packet(rig, flow);
	turn_all(rig, 4);
	ask(rig, victim, bucket, 2, UINT64_MAX);
	while (weir_segment_bucket_owner(rig->lab->segment, bucket) == victim) {
		turn_all(rig, 1);
		assert_true(clock_ns() - start < 60 * 1000000000ull);
	}
	unmake(rig);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_moves_lose_and_reorder_nothing),
		cmocka_unit_test(refusals_change_nothing),
		cmocka_unit_test(workers_end_in_the_middle_of_moves),
		cmocka_unit_test(a_flow_does_not_overtake_itself_in_transmit_rings),
		cmocka_unit_test(a_stuck_device_holds_up_no_bucket),
	};

	return cmocka_run_group_tests(tests, device_lab_eal, NULL);
}
