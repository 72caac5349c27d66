// SPDX-License-Identifier: BSD-3-Clause
#include "moves_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_ring.h>

#include "lab_queues.h"
#include "mailbox.h"
#include "test.h"

uint64_t moves_rig_next_random(struct rig *rig) {
	rig->random = rig->random * 6364136223846793005ull + 1442695040888963407ull;
	return rig->random >> 33;
}

uint64_t moves_rig_clock_ns(void) {
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
	// This policy and the Maglev fallback choose different backends, so that a flow whose table
	// entry is lost goes to another backend.
	lab_publish_policy(lab, &selection, (uint16_t[]){0, 1, 2, 3}, 4);
	return lab;
}

static void make_devices(struct rig *rig, unsigned int number) {
	const uint32_t owner[LAB_PORTS] = {0, 1, 2};
	char name[32], why[256];

	for (uint8_t d = 0; d < LAB_PORTS; d++) {
		uint16_t queues = d == OUT ? rig->out_queues : rig->spreading.port[d].queues;

		snprintf(name, sizeof(name), "mv%u_%u", number, d);
		ring_device_make(name, queues, &rig->ring[d]);
		device_lab_plan(rig->ring[d].name, queues, &rig->plan);
		if (d == 0) {
			weir_buffers_init(&rig->buffers, rig->plan.pool, rig->plan.pools);
		}
		assert_int_equal(weir_device_open(&rig->plan.device[0], &rig->buffers, WORKERS,
					 &rig->device[d], why, sizeof(why)),
			0);
		lab_queues_poll(&rig->ring[d], rig->device[d].id);
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
		flows->timeout_ms[i] = 900000; // so that no flow expires on a busy machine
	}
	assert_int_equal(weir_flow_memory_create(flows->flows, flows->ipv6_percent, true,
				 SOCKET_ID_ANY, &rig->memory),
		0);
	flows->memory = rig->memory;
	params.rss = rig->rss ? &rig->key : NULL;
	params.segment = rig->lab->segment;
	for (uint32_t w = 0; w < WORKERS; w++) {
		params.worker = w;
		assert_int_equal(weir_pipeline_create(&params, &rig->pipeline[w]), 0);
		assert_int_equal(weir_flow_parcel_create(
					 rig->memory, LAB_BACKENDS, SOCKET_ID_ANY, &rig->parcel[w]),
			0);
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			if (rig->spreading.first_worker[b] == w) {
				weir_pipeline_own_part(rig->pipeline[w], b);
			}
		}
	}
}

static void add_sources(struct rig *rig, uint8_t p) {
	for (uint16_t q = 0; q < rig->spreading.port[p].queues; q++) {
		struct weir_distributor *distributor =
			weir_distribution_of(&rig->distribution, p, q);

		for (uint32_t w = 0; w < WORKERS; w++) {
			struct weir_source source = {.kind = w == distributor->owner
								     ? WEIR_SOURCE_SHARED
								     : WEIR_SOURCE_HANDED,
				.port = p,
				.device = rig->device[p].id,
				.queue = q,
				.ring = distributor->ring[w],
				.distributor = distributor};

			assert_int_equal(weir_worker_add_source(rig->worker[w], &source), 0);
		}
	}
}

static void make_workers(struct rig *rig) {
	assert_int_equal(weir_distribution_create(rig->lab->segment, rig->spreading.port,
				 rig->parcel, &rig->distribution),
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
		add_sources(rig, p);
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

void moves_rig_set_stealing(struct rig *rig, enum weir_stealing stealing) {
	__atomic_store_n(&rig->lab->control->news->stealing, stealing, __ATOMIC_RELAXED);
}

// Set how the packets that the ports receive are distributed to the workers.
static void spread_ports(struct rig *rig) {
	rig->spreading.workers = WORKERS;
	rig->spreading.ports = LAB_PORTS;
	rig->spreading.bucketing = WEIR_BUCKETING_YES;
	for (uint32_t i = 0; i < WEIR_RSS_KEY_BYTES; i++) {
		rig->key.bytes[i] = (uint8_t)moves_rig_next_random(rig);
	}
	for (uint8_t p = 0; p < LAB_PORTS; p++) {
		bool by_queue = rig->rss && p < IN_PORTS;

		rig->spreading.device[p] = &rig->device[p];
		rig->spreading.port[p] = (struct weir_distributed_port){.distributed = !by_queue,
			.by_queue = by_queue,
			.owner = p,
			.queues = by_queue ? RSS_QUEUES : 1,
			.table_entries = p == 0 ? RSS_ENTRIES : RSS_ENTRIES / 2,
			.key = &rig->key,
			.socket = SOCKET_ID_ANY};
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		rig->spreading.first_worker[b] = (uint8_t)weir_distribution_first_worker(
			rig->spreading.port, LAB_PORTS, WORKERS, b);
	}
}

static void make_nics(struct rig *rig) {
	for (uint32_t p = 0; p < IN_PORTS; p++) {
		nic_model_add(&rig->nic[p], rig->ring[p].name, rig->spreading.port[p].table_entries,
			RSS_QUEUES);
		rig->nic[p].key = rig->key;
		weir_spreading_first_queues(&rig->spreading, p, rig->nic[p].queue);
	}
}

static struct rig *make(unsigned int number, bool rss, uint16_t out_queues) {
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->random = number;
	rig->out_queues = out_queues;
	rig->rss = rss;
	spread_ports(rig);
	rig->lab = make_segment();
	make_devices(rig, number);
	if (rss) {
		make_nics(rig);
	}
	make_pipelines(rig);
	make_workers(rig);
	moves_rig_set_stealing(rig, WEIR_STEALING_ON);
	return rig;
}

struct rig *moves_rig_make_still(unsigned int number) {
	return make(number, false, 1);
}

struct rig *moves_rig_make_queues(unsigned int number, uint16_t queues) {
	return make(number, false, queues);
}

struct rig *moves_rig_make_rss(unsigned int number) {
	return make(number, true, 1);
}

void moves_rig_start(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(pthread_create(&rig->thread[w], NULL, run, rig->worker[w]), 0);
	}
}

struct rig *moves_rig_make(unsigned int number) {
	struct rig *rig = moves_rig_make_still(number);

	moves_rig_start(rig);
	return rig;
}

static void *run_main(void *context) {
	struct rig *rig = context;

	while (!__atomic_load_n(&rig->stop_main, __ATOMIC_RELAXED)) {
		weir_queue_tables_turn(rig->tables, moves_rig_clock_ns());
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return NULL;
}

void moves_rig_start_main(struct rig *rig) {
	rig->log = (struct weir_log){.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
	rig->config.ports = rig->config_port;
	rig->config.port_count = LAB_PORTS;
	assert_int_equal(weir_queue_tables_create(&rig->spreading, &rig->distribution, &rig->config,
				 &rig->log, &rig->tables),
		0);
	assert_non_null(rig->tables);
	rig->tables->settled_ns = 0;
	rig->tables->retry_ns = 0;
	assert_int_equal(pthread_create(&rig->main, NULL, run_main, rig), 0);
}

void moves_rig_stop_main(struct rig *rig) {
	__atomic_store_n(&rig->stop_main, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(rig->main, NULL), 0);
}

void moves_rig_stop(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_worker_stop(rig->worker[w]);
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(pthread_join(rig->thread[w], NULL), 0);
	}
}

void moves_rig_unmake(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_worker_free(rig->worker[w]);
	}
	weir_queue_tables_free(rig->tables);
	weir_distribution_free(&rig->distribution);
	nic_model_release();
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

// Emulate the device of a port: compute the RSS hash of a packet and look up its queue. One in four
// packets has no hash.
static void receive_by_rss(struct rig *rig, uint32_t port, uint32_t flow, const struct frame *f) {
	struct weir_message message = lab_question((uint16_t)flow);
	struct weir_flow_key key = {.family = 4,
		.protocol = 6,
		.source_port = rte_cpu_to_be_16(message.flow.source_port),
		.destination_port = rte_cpu_to_be_16(message.flow.destination_port)};
	struct rte_mbuf *m = rte_pktmbuf_alloc(device_lab_pool());
	uint32_t hash;
	int r;

	assert_non_null(m);
	memcpy(key.source, message.flow.source, 4);
	memcpy(key.destination, message.flow.destination, 4);
	hash = weir_rss_hash(&rig->key, &key);
	memcpy(rte_pktmbuf_append(m, (uint16_t)f->n), f->bytes, f->n);
	if (rig->sent % 4 != 0) {
		m->hash.rss = hash;
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	nic_model_lock(&rig->nic[port]);
	r = rte_ring_enqueue(rig->ring[port].to[nic_model_queue(&rig->nic[port], hash)], m);
	nic_model_unlock(&rig->nic[port]);
	assert_int_equal(r, 0);
}

void moves_rig_send_packet(struct rig *rig, uint32_t flow) {
	struct frame_spec spec = lab_tcp((uint16_t)flow, rig->flow[flow].sent == 0 ? SYN : ACK);
	struct frame f;

	spec.payload = 20;
	frame_build(&spec, &f);
	frame_put32(f.bytes + f.l4 + 4, ++rig->flow[flow].sent);
	if (rig->rss) {
		receive_by_rss(rig, flow % IN_PORTS, flow, &f);
	} else {
		assert_true(ring_device_feed(&rig->ring[flow % IN_PORTS], 0, f.bytes, f.n));
	}
	rig->sent++;
}

// Returns the backend that the outer destination address of an encapsulated packet identifies.
// *ret_inner: the inner packet.
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

void moves_rig_receive(struct rig *rig, uint16_t queue, uint32_t n) {
	struct rte_mbuf *m;

	while (n-- > 0 && (m = ring_device_take(&rig->ring[OUT], queue)) != NULL) {
		receive_packet(rig, m);
	}
}

void moves_rig_receive_all(struct rig *rig) {
	for (uint16_t q = 0; q < rig->out_queues; q++) {
		moves_rig_receive(rig, q, UINT32_MAX);
	}
}

void moves_rig_pump(struct rig *rig) {
	for (uint32_t i = 0; i < 32 && rig->sent - rig->received < UNDER_WAY; i++) {
		moves_rig_send_packet(
			rig, (uint32_t)(moves_rig_next_random(rig) %
					(moves_rig_next_random(rig) % 8 == 0 ? FLOWS : HOT)));
	}
	moves_rig_receive_all(rig);
}

void moves_rig_settle(struct rig *rig) {
	uint64_t start = moves_rig_clock_ns();

	while (rig->received < rig->sent) {
		moves_rig_receive_all(rig);
		if (moves_rig_clock_ns() - start > 60 * 1000000000ull) {
			fail_msg(
				"%lu packets are lost", (unsigned long)(rig->sent - rig->received));
		}
	}
}

void moves_rig_begin_flows(struct rig *rig) {
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t flow = 0; flow < FLOWS; flow++) {
			while (rig->sent - rig->received >= UNDER_WAY) {
				moves_rig_receive_all(rig);
			}
			moves_rig_send_packet(rig, flow);
		}
	}
	moves_rig_settle(rig);
}

// --- control ------------------------------------------------------------------------------

void moves_rig_ask(
	struct rig *rig, uint32_t victim, uint32_t bucket, uint32_t thief, uint64_t deadline_ns) {
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL, .sequence = ++rig->sequence};

	message.steal.bucket = bucket;
	message.steal.thief = thief;
	message.steal.deadline_ns = deadline_ns;
	assert_true(weir_mailbox_send(&rig->lab->control->control_boxes[victim].request,
		&rig->lab->control->worker_boxes[victim].request, &message));
}

bool moves_rig_answered(struct rig *rig, uint32_t victim, enum weir_bucket_answer *ret) {
	struct weir_message message;

	if (!weir_mailbox_receive(&rig->lab->control->worker_boxes[victim].response,
		    &rig->lab->control->control_boxes[victim].response, &message)) {
		return false;
	}
	*ret = (enum weir_bucket_answer)message.steal.answer;
	rig->answers[*ret]++;
	return true;
}

enum weir_bucket_answer moves_rig_answer_of(struct rig *rig, uint32_t victim) {
	uint64_t start = moves_rig_clock_ns();
	enum weir_bucket_answer answer;

	while (!moves_rig_answered(rig, victim, &answer)) {
		assert_true(moves_rig_clock_ns() - start < 60 * 1000000000ull);
	}
	return answer;
}

// --- step by step -----------------------------------------------------------------------------

void moves_rig_turn_all(struct rig *rig, unsigned int turns) {
	for (unsigned int i = 0; i < turns; i++) {
		for (uint32_t w = 0; w < WORKERS; w++) {
			weir_worker_turn(rig->worker[w]);
		}
	}
}

uint32_t moves_rig_begin_from(struct rig *rig, uint32_t first, uint32_t *ret_bucket) {
	const struct weir_segment *segment = rig->lab->segment;

	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_pipeline_settle(rig->pipeline[w]);
	}
	for (uint32_t flow = first; flow < FLOWS; flow += IN_PORTS) {
		uint64_t before[WEIR_BUCKETS];

		memcpy(before, segment->bucket_packets[0].packets, sizeof(before));
		moves_rig_send_packet(rig, flow);
		moves_rig_turn_all(rig, 4);
		moves_rig_receive_all(rig);
		assert_int_equal(rig->received, rig->sent);
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			if (segment->bucket_packets[0].packets[b] != before[b] &&
				weir_segment_bucket_owner(segment, b) == VICTIM) {
				*ret_bucket = b;
				return flow;
			}
		}
	}
	fail();
	return 0;
}

// --- checks ---------------------------------------------------------------------------------

// Check that each worker's gauges are consistent, and that the sums of all workers agree with the
// existing flows.
void moves_rig_check_gauges(const struct rig *rig) {
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

void moves_rig_check_packets(const struct rig *rig) {
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
		for (uint32_t w = 0; w < WORKERS; w++) {
			of_buckets += segment->bucket_packets[w].packets[b];
		}
	}
	assert_int_equal(forwarded, rig->sent);
	assert_int_equal(received, rig->sent + handed);
	assert_int_equal(of_buckets, rig->sent);
	assert_int_equal(new_flows, FLOWS); // no flow started a second time
}

void moves_rig_check_owners(const struct rig *rig) {
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint32_t owner = weir_segment_bucket_owner(rig->lab->segment, b);

		for (uint32_t w = 0; w < WORKERS; w++) {
			assert_int_equal(weir_pipeline_owns_part(rig->pipeline[w], b), w == owner);
		}
		for (uint32_t d = 0; d < rig->distribution.distributors; d++) {
			assert_int_equal(
				weir_distributor_worker(rig->distribution.distributor[d], b),
				owner);
		}
	}
}
