// SPDX-License-Identifier: BSD-3-Clause
//
// Capture by a worker: each packet gets a record, whatever happens to the packet. A capture has no
// other effect.
#include <stdlib.h>
#include <string.h>

#include <rte_ring.h>

#include "burst.h"
#include "capture.h"
#include "edges.h"
#include "packet_match.h"
#include "peers.h"
#include "test.h"
#include "worker_lab.h"

#define SYN 0x02
#define FIN 0x01
#define NEVER UINT64_MAX

static struct weir_capture_terms any(void) {
	return (struct weir_capture_terms){.interval_ns = 1000,
		.snap_bytes = 128,
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE};
}

static uint64_t order(struct worker_lab *w, const struct weir_capture_terms *terms) {
	return weir_capture_order(w->lab->control, terms, NEVER);
}

static bool take(struct worker_lab *w, uint64_t number, struct weir_capture_packet *ret) {
	return weir_capture_take(w->lab->control, SELF, number, ret);
}

// Returns the only record.
static struct weir_capture_record one(struct worker_lab *w, uint64_t number) {
	struct weir_capture_packet packet, other;

	assert_true(take(w, number, &packet));
	assert_false(take(w, number, &other));
	return packet.record;
}

static void none(struct worker_lab *w, uint64_t number) {
	struct weir_capture_packet packet;

	assert_false(take(w, number, &packet));
}

static struct worker_lab *make(unsigned int number) {
	struct worker_lab *w = worker_lab_make(number, WEIR_IDLE_POLL);

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	return w;
}

static void send(struct worker_lab *w, const struct frame_spec *spec) {
	worker_lab_feed(w, LAB_IN_PORT, spec);
	assert_int_equal(weir_worker_turn(w->worker), 1);
	worker_lab_drain(w);
}

// --- contents of records ----------------------------------------------------------------------

TEST_GROUP(device_lab_eal);

TEST(a_flow_is_followed_from_its_first_packet) {
	static const struct {
		uint8_t flags, event, path, choice, flow_state;
		uint16_t payload;
	} steps[] = {
		{SYN, WEIR_FLOW_EVENT_SYN, WEIR_CAPTURE_PATH_SLOW, WEIR_CHOICE_NEW,
			WEIR_FLOW_SYN_SEEN, 0},
		{ACK, WEIR_FLOW_EVENT_ACK, WEIR_CAPTURE_PATH_SLOW, WEIR_CHOICE_FLOW,
			WEIR_FLOW_YOUNG, 0},
		{ACK, WEIR_FLOW_EVENT_DATA, WEIR_CAPTURE_PATH_FAST, WEIR_CHOICE_FLOW,
			WEIR_FLOW_ESTABLISHED, 100},
		{ACK | FIN, WEIR_FLOW_EVENT_FIN, WEIR_CAPTURE_PATH_SLOW, WEIR_CHOICE_FLOW,
			WEIR_FLOW_CLOSING, 0},
	};
	struct worker_lab *w = make(1);
	struct weir_capture_terms terms = any();
	uint64_t number = order(w, &terms), hash = 0;
	uint16_t backend = WEIR_BACKEND_NONE;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct frame_spec spec = lab_tcp(7, steps[i].flags);
		struct weir_capture_packet packet;
		struct frame f;

		spec.payload = steps[i].payload;
		frame_build(&spec, &f);
		send(w, &spec);
		assert_true(take(w, number, &packet));
		assert_int_equal(packet.record.length, f.n);
		assert_int_equal(packet.record.saved, RTE_MIN(f.n, 128u));
		// the packet as received
		assert_memory_equal(packet.data, f.bytes, packet.record.saved);
		assert_int_equal(packet.record.port, LAB_IN_PORT);
		assert_int_equal(packet.record.action, WEIR_ACTION_FORWARD);
		assert_int_equal(packet.record.reason, WEIR_CAPTURE_NONE);
		assert_int_equal(packet.record.kind, WEIR_PACKET_FLOW);
		assert_int_equal(packet.record.event, steps[i].event);
		assert_int_equal(packet.record.path, steps[i].path);
		assert_int_equal(packet.record.choice, steps[i].choice);
		assert_int_equal(packet.record.flow_state, steps[i].flow_state);
		assert_int_equal(packet.record.service, 0);
		assert_in_range(packet.record.backend, 0, 3);
		assert_int_equal(packet.record.out_port, 2);
		assert_int_equal(packet.record.bucket, WEIR_CAPTURE_NO_BUCKET);
		assert_int_equal(packet.record.tables, w->lab->control->news->updates);
		assert_true(packet.record.time_ns > 0);
		assert_true(packet.record.hash != 0 && (i == 0 || packet.record.hash == hash));
		assert_true(i == 0 || packet.record.backend == backend);
		hash = packet.record.hash;
		backend = packet.record.backend;
	}
	worker_lab_free(w);
}

// Returns the terms of a capture of the flow of these packets.
static struct weir_capture_terms one_flow(const struct frame_spec *spec) {
	struct weir_capture_terms terms = any();
	struct weir_flow_key key;
	struct frame f;

	frame_build(spec, &f);
	weir_packet_key_read(f.bytes, f.n, &key);
	terms.protocol = key.protocol;
	terms.source_port = rte_be_to_cpu_16(key.source_port);
	terms.destination_port = rte_be_to_cpu_16(key.destination_port);
	terms.client_family = terms.destination_family = key.family;
	terms.client_bits = key.family == 4 ? 32 : 128;
	memcpy(terms.client, key.source, sizeof(terms.client));
	memcpy(terms.destination, key.destination, sizeof(terms.destination));
	return terms;
}

// A whole connection in one burst, between packets of another connection.
TEST(the_state_is_that_after_the_packet_and_not_after_the_burst) {
	static const struct {
		uint8_t flags, state;
		uint16_t payload;
	} steps[] = {{SYN, WEIR_FLOW_SYN_SEEN, 0}, {ACK, WEIR_FLOW_YOUNG, 0},
		{ACK, WEIR_FLOW_ESTABLISHED, 100}, {ACK, WEIR_FLOW_ESTABLISHED, 0},
		{ACK | FIN, WEIR_FLOW_CLOSING, 0}};
	const uint32_t count = sizeof(steps) / sizeof(steps[0]);
	const struct frame_spec other = lab_tcp(8, SYN), traced = lab_tcp(7, SYN);
	struct worker_lab *w = make(18);
	struct weir_capture_terms terms = one_flow(&traced);

	for (int limited = 0; limited < 2; limited++) {
		struct weir_capture_packet packet;
		uint64_t number;

		terms.interval_ns = limited ? WEIR_CAPTURE_SECOND_NS / 2 : 1000;
		number = order(w, &terms);
		worker_lab_feed(w, LAB_IN_PORT, &other);
		for (uint32_t i = 0; i < count; i++) {
			struct frame_spec spec = lab_tcp(7, steps[i].flags);

			spec.payload = steps[i].payload;
			worker_lab_feed(w, LAB_IN_PORT, &spec);
			worker_lab_feed(w, LAB_IN_PORT, &other);
		}
		assert_int_equal(weir_worker_turn(w->worker), 2 * count + 1);
		assert_int_equal(worker_lab_on_wire(w, 2), 2 * count + 1);
		worker_lab_drain(w);
		for (uint32_t i = 0; i < (limited ? 2 : count);
			i++) { // above the rate limit: no record
			assert_true(take(w, number, &packet));
			assert_int_equal(packet.record.flow_state, steps[i].state);
		}
		none(w, number);
	}
	worker_lab_free(w);
}

TEST(every_action_has_its_record) {
	const struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	const struct frame_spec kernel = worker_lab_for_kernel(), tcp = lab_tcp(1, ACK);
	struct worker_lab *w = make(2);
	struct weir_capture_terms terms = any();
	struct weir_capture_record r;
	uint64_t number;

	terms.actions = 1u << WEIR_ACTION_REPLY;
	number = order(w, &terms);
	send(w, &kernel);
	send(w, &tcp);
	send(w, &echo);
	r = one(w, number);
	assert_int_equal(r.action, WEIR_ACTION_REPLY);
	assert_int_equal(r.kind, WEIR_PACKET_ECHO);
	assert_int_equal(r.out_port, LAB_IN_PORT);
	assert_int_equal(r.hash, 0);
	assert_int_equal(r.event, WEIR_CAPTURE_NONE);
	assert_int_equal(r.flow_state, WEIR_CAPTURE_NONE);
	terms.actions = 1u << WEIR_ACTION_KERNEL;
	number = order(w, &terms);
	send(w, &echo);
	send(w, &kernel);
	r = one(w, number);
	assert_int_equal(r.action, WEIR_ACTION_KERNEL);
	assert_int_equal(r.service, WEIR_SERVICE_NONE);
	assert_int_equal(r.out_port, WEIR_CAPTURE_NONE);
	worker_lab_free(w);
}

// --- no side effects -----------------------------------------------------------------------------

// Copies all packets that the devices have sent to a buffer. Returns the number of bytes.
static uint32_t sent_bytes(struct worker_lab *w, uint8_t *to, uint32_t room) {
	uint32_t used = 0;

	for (uint8_t d = 0; d < DEVICES; d++) {
		struct rte_mbuf *m;

		while ((m = ring_device_take(&w->ring[d], 0)) != NULL) {
			assert_true(used + m->pkt_len + 1 <= room);
			to[used++] = d;
			memcpy(to + used, rte_pktmbuf_read(m, 0, m->pkt_len, to + used),
				m->pkt_len);
			used += m->pkt_len;
			rte_pktmbuf_free(m);
		}
	}
	return used;
}

struct run { // results of a worker that has processed all unusual packets of edges.c
	struct weir_worker_counters counters;
	uint32_t used;
	uint8_t sent[1u << 20];
};

// Processes the unusual packets of edges.c. During a capture (number != 0), each packet must have a
// record with the verdict that edges.c expects.
static void run_edges(struct worker_lab *w, uint64_t number, struct run *ret) {
	w->lab->pipeline->outer_id = 1;
	for (unsigned int i = 0; i < edge_count; i++) {
		struct frame f;

		edge_build(&edges[i], &f);
		if (f.n == 0 || f.n > RTE_MBUF_DEFAULT_DATAROOM) {
			continue;
		}
		assert_true(ring_device_feed(&w->ring[LAB_IN_PORT], 0, f.bytes, f.n));
		weir_worker_turn(w->worker);
		ret->used += sent_bytes(
			w, ret->sent + ret->used, (uint32_t)sizeof(ret->sent) - ret->used);
		if (number != 0) {
			struct weir_capture_record r = one(w, number);

			if (r.action != edges[i].action ||
				(r.action == WEIR_ACTION_DROP && r.reason != edges[i].reason)) {
				fail_msg("%s: action %u, reason %u", edges[i].name, r.action,
					r.reason);
			}
		}
	}
	ret->counters = *lab_counters(w->lab);
	ret->counters.heartbeat_ns = 0;
	worker_lab_free(w);
}

// With and without a capture, the same bytes are sent, and all counters are equal.
TEST(packets_and_counters_do_not_depend_on_a_capture) {
	static struct run without, with;
	struct weir_capture_terms terms = any();
	struct worker_lab *w = make(3);

	run_edges(w, 0, &without);
	w = make(4);
	run_edges(w, order(w, &terms), &with);
	assert_memory_equal(&with.counters, &without.counters, sizeof(with.counters));
	assert_int_equal(with.used, without.used);
	assert_memory_equal(with.sent, without.sent, with.used);
	assert_true(with.used > 1000);
}

// --- drops outside of the pipeline --------------------------------------------------------------

TEST(undeliverable_packets_are_drops) {
	const struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	struct frame_spec tcp = lab_tcp(3, ACK), kernel = worker_lab_for_kernel();
	struct worker_lab *w = make(5);
	struct weir_capture_terms terms = any();
	struct weir_capture_record r;
	uint64_t number;

	terms.actions = 1u << WEIR_ACTION_DROP;
	number = order(w, &terms);
	send(w, &tcp); // this packet is sent
	none(w, number);
	worker_lab_fill(w, 2);
	send(w, &tcp);
	r = one(w, number);
	assert_int_equal(r.reason, WEIR_DROP_TX_FULL);
	assert_int_equal(r.out_port, 2);
	assert_int_equal(r.service, 0);
	assert_int_not_equal(r.backend, WEIR_BACKEND_NONE);
	worker_lab_fill(w, LAB_IN_PORT);
	send(w, &echo);
	assert_int_equal(one(w, number).reason, WEIR_DROP_TX_FULL);
	worker_lab_fill(w, EXCEPTION);
	send(w, &kernel);
	assert_int_equal(one(w, number).reason, WEIR_DROP_EXCEPTION_FULL);
	w->port[LAB_IN_PORT].exception = WEIR_NO_DEVICE;
	send(w, &kernel);
	assert_int_equal(one(w, number).reason, WEIR_DROP_NO_EXCEPTION_PORT);
	for (unsigned int id = 0; id < 6; id++) {
		w->lab->rows[id].mtu = 9000;
	}
	lab_publish_backends(w->lab);
	tcp.payload = 1600;
	send(w, &tcp);
	assert_int_equal(one(w, number).reason, WEIR_DROP_TX_TOO_LONG);
	terms.reasons = UINT64_C(1) << WEIR_DROP_TX_TOO_LONG;
	number = order(w, &terms);
	send(w, &kernel);
	send(w, &tcp);
	assert_int_equal(one(w, number).reason, WEIR_DROP_TX_TOO_LONG);
	worker_lab_free(w);
}

TEST(undeliverable_packets_of_the_kernel_are_recorded) {
	struct worker_lab *w = make(6);
	struct weir_capture_terms terms = any();
	struct frame_spec tcp = lab_tcp(1, ACK);
	struct weir_capture_record r;
	uint64_t number = order(w, &terms);

	worker_lab_add_source(w, WEIR_SOURCE_KERNEL, EXCEPTION);
	worker_lab_feed(w, EXCEPTION, &tcp);
	weir_worker_turn(w->worker);
	none(w, number); // a packet from the kernel is not recorded if it was sent
	worker_lab_fill(w, LAB_IN_PORT);
	worker_lab_feed(w, EXCEPTION, &tcp);
	weir_worker_turn(w->worker);
	r = one(w, number);
	assert_int_equal(r.reason, WEIR_DROP_TX_FULL);
	assert_int_equal(r.action, WEIR_ACTION_DROP);
	assert_int_equal(r.port, LAB_IN_PORT);
	assert_int_equal(r.kind, WEIR_CAPTURE_NONE);
	assert_int_equal(r.path, WEIR_CAPTURE_NONE);
	worker_lab_drain(w);
	tcp.payload = 1600;
	worker_lab_feed(w, EXCEPTION, &tcp);
	weir_worker_turn(w->worker);
	assert_int_equal(one(w, number).reason, WEIR_DROP_TX_TOO_LONG);
	worker_lab_free(w);
}

// The worker records each of its own packets once. It does not record a packet that it hands over
// to another worker, unless the ring to that worker is full.
TEST(handed_over_packets_are_left_to_the_other_worker) {
	struct worker_lab *w = worker_lab_make(7, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct weir_capture_terms terms = any();
	struct weir_capture_packet packet;
	uint64_t number = order(w, &terms), ours = 0, full = 0;

	assert_int_equal(
		weir_distributor_create(0, WORKERS, SELF, SOCKET_ID_ANY, &w->distributor), 0);
	worker_lab_add_source(w, WEIR_SOURCE_SHARED, LAB_IN_PORT);
	for (uint16_t n = 0; n < 4000; n++) {
		struct frame_spec tcp = lab_tcp(n, ACK);

		worker_lab_feed(w, LAB_IN_PORT, &tcp);
		while (weir_worker_turn(w->worker) > 0) {
		}
		worker_lab_drain(w);
		while (take(w, number, &packet)) {
			ours += packet.record.action == WEIR_ACTION_FORWARD;
			full += packet.record.reason == WEIR_DROP_HANDOFF_FULL &&
				packet.record.port == LAB_IN_PORT;
		}
	}
	assert_true(counters->drops[WEIR_DROP_HANDOFF_FULL] > 500);
	assert_int_equal(full, counters->drops[WEIR_DROP_HANDOFF_FULL]);
	assert_int_equal(ours, counters->forwarded);
	worker_lab_free(w);
}

// An ICMP error about an unknown flow goes to the next worker, which records it.
TEST(an_offer_is_recorded_only_if_requested) {
	static const struct frame_spec quoted = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 80,
		.destination_port = 40000};
	const struct edge error = {
		.spec = {.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 4},
		.quote = &quoted};
	struct worker_lab *w = make(8);
	struct weir_capture_terms terms = any();
	struct weir_peers *peers;
	struct frame f;
	uint64_t number = order(w, &terms);

	edge_build(&error, &f);
	assert_int_equal(weir_peers_create(WORKERS, SOCKET_ID_ANY, &peers), 0);
	weir_worker_offer_to(w->worker, peers->ring[0]);
	weir_pipeline_offer_to(w->lab->pipeline, WORKERS);
	assert_true(ring_device_feed(&w->ring[LAB_IN_PORT], 0, f.bytes, f.n));
	weir_worker_turn(w->worker);
	assert_int_equal(lab_counters(w->lab)->handed_over, 1);
	none(w, number);
	terms.actions = 1u << WEIR_ACTION_OFFER;
	number = order(w, &terms);
	assert_true(ring_device_feed(&w->ring[LAB_IN_PORT], 0, f.bytes, f.n));
	weir_worker_turn(w->worker);
	assert_int_equal(one(w, number).kind, WEIR_PACKET_ICMP_ERROR);
	weir_peers_free(peers);
	worker_lab_free(w);
}

// --- filters and limits -------------------------------------------------------------------------

TEST(filters_select_by_owner_and_by_flow) {
	const struct frame_spec dns = {.family = 4, .protocol = 17, .destination_port = 53};
	struct frame_spec tcp = lab_tcp(5, ACK);
	struct worker_lab *w = make(9);
	struct weir_capture_terms terms = any();
	uint64_t number;

	terms.service = 1;
	number = order(w, &terms);
	send(w, &tcp);
	send(w, &dns);
	assert_int_equal(one(w, number).service, 1);
	terms = any();
	terms.backend = 9; // not a backend of the lab
	number = order(w, &terms);
	send(w, &tcp);
	none(w, number);
	terms = any();
	terms.protocol = 17;
	number = order(w, &terms);
	send(w, &tcp);
	send(w, &dns);
	assert_int_equal(one(w, number).service, 1);
	worker_lab_free(w);
}

// A client chooses the length of the IPv6 extension headers, and with it the offset of the ports in
// the packet. In this test, a header with destination options follows the IPv6 header.
TEST(long_headers_hide_no_flow_from_a_filter) {
	uint8_t options[248] = {6}; // TCP follows the options
	struct frame_spec tcp = lab_tcp(5, SYN);
	struct worker_lab *w = make(17);
	struct weir_capture_terms terms = any();
	uint64_t number;

	terms.snap_bytes = WEIR_CAPTURE_SNAP_LEAST;
	terms.protocol = 6;
	terms.destination_port = 80;
	tcp.family = 6;
	tcp.options = options;
	for (uint32_t bytes = 8; bytes <= sizeof(options); bytes += 8) {
		struct weir_capture_record record;

		options[1] = (uint8_t)(bytes / 8 - 1);
		tcp.option_bytes = (uint8_t)bytes;
		number = order(w, &terms);
		send(w, &tcp);
		record = one(w, number);
		assert_int_equal(record.action, WEIR_ACTION_FORWARD);
		assert_int_equal(record.saved, WEIR_CAPTURE_SNAP_LEAST);
	}
	worker_lab_free(w);
}

TEST(a_rate_limits_records_and_a_full_ring_loses_them) {
	struct worker_lab *w = make(10);
	const struct frame_spec tcp = lab_tcp(5, ACK);
	struct weir_capture_terms terms = any();
	struct weir_capture_packet packet;
	uint64_t number, lost, limited, n = 0;

	terms.interval_ns = WEIR_CAPTURE_SECOND_NS; // one packet per second
	number = order(w, &terms);
	for (unsigned int i = 0; i < 20; i++) {
		send(w, &tcp);
	}
	while (take(w, number, &packet)) {
		n++;
	}
	weir_capture_missed(w->lab->control, SELF, number, &lost, &limited);
	assert_int_equal(n + limited, 20);
	assert_in_range(n, 1, 2); // the clock advances during the wait
	assert_int_equal(lost, 0);
	terms.interval_ns = 1000;
	number = order(w, &terms);
	for (unsigned int i = 0; i < 3000; i++) {
		send(w, &tcp);
	}
	weir_capture_missed(w->lab->control, SELF, number, &lost, &limited);
	for (n = 0; take(w, number, &packet); n++) {
	}
	assert_true(lost > 0);
	assert_int_equal(n + lost + limited, 3000);
	worker_lab_free(w);
}

// If control has died, or its client is stalled, the order to capture is ignored after its
// deadline. An invalid order is also ignored.
TEST(an_order_ends_with_its_deadline) {
	struct worker_lab *w = make(11);
	const struct frame_spec tcp = lab_tcp(5, ACK);
	struct weir_capture_terms terms = any();
	uint64_t number = weir_capture_order(w->lab->control, &terms, 1);

	send(w, &tcp);
	none(w, number);
	weir_capture_extend(w->lab->control, NEVER);
	send(w, &tcp);
	(void)one(w, number);
	weir_capture_withdraw(w->lab->control);
	send(w, &tcp);
	none(w, number);
	terms.snap_bytes = UINT32_MAX;
	number = order(w, &terms);
	send(w, &tcp);
	none(w, number);
	terms = any();
	number = order(w, &terms);
	w->lab->control->capture_control->version |= 1; // a half-written order
	send(w, &tcp);
	none(w, number);
	worker_lab_free(w);
}
