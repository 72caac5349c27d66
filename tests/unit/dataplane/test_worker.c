// SPDX-License-Identifier: BSD-3-Clause
//
// Worker: single iterations, with the devices of worker_lab.h; then the worker's loop in a thread.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_ring.h>

#include "burst.h"
#include "edges.h"
#include "mailbox.h"
#include "peers.h"
#include "pipeline_lab.h"
#include "test.h"
#include "worker_lab.h"
#include "worker_private.h"

// --- iterations-----------------------------------------------------------------------------

TEST_GROUP(device_lab_eal);

TEST(packets_leave_on_the_port_of_their_backend) {
	struct worker_lab *w = worker_lab_make(1, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct frame_spec udp = {.family = 4, .protocol = 17, .destination_port = 53};

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	for (uint16_t n = 0; n < 50; n++) {
		struct frame_spec tcp = lab_tcp(n, ACK);

		worker_lab_feed(w, LAB_IN_PORT, n % 5 == 0 ? &udp : &tcp);
	}
	assert_int_equal(weir_worker_turn(w->worker), 50);
	assert_int_equal(weir_worker_turn(w->worker), 0);
	assert_int_equal(worker_lab_on_wire(w, 2), 40);
	assert_int_equal(worker_lab_on_wire(w, 0), 10);
	assert_int_equal(worker_lab_on_wire(w, LAB_IN_PORT), 0);
	assert_int_equal(counters->tx_packets, 50);
	assert_true(counters->tx_bytes > counters->rx_bytes);
	assert_int_equal(counters->forwarded, 50);
	worker_lab_free(w);
}

TEST(packets_of_the_kernel_are_passed_unchanged) {
	struct worker_lab *w = worker_lab_make(2, WEIR_IDLE_POLL);
	struct frame_spec spec = worker_lab_for_kernel();
	struct rte_mbuf *m;
	struct frame f;

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	frame_build(&spec, &f);
	worker_lab_feed(w, LAB_IN_PORT, &spec);
	weir_worker_turn(w->worker);
	m = ring_device_take(&w->ring[EXCEPTION], 0);
	assert_non_null(m);
	assert_int_equal(m->pkt_len, f.n);
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
	rte_pktmbuf_free(m);
	assert_int_equal(lab_counters(w->lab)->to_kernel, 1);
	assert_int_equal(lab_counters(w->lab)->tx_packets, 0);
	worker_lab_free(w);
}

TEST(without_an_exception_path_they_are_dropped_and_counted) {
	struct worker_lab *w = worker_lab_make(3, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct frame_spec spec = worker_lab_for_kernel();

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	w->port[LAB_IN_PORT].exception = WEIR_NO_DEVICE;
	worker_lab_feed(w, LAB_IN_PORT, &spec);
	weir_worker_turn(w->worker);
	assert_int_equal(counters->drops[WEIR_DROP_NO_EXCEPTION_PORT], 1);
	assert_int_equal(counters->to_kernel, 0);
	// With a packet socket the kernel already has the packet.
	w->port[LAB_IN_PORT].kernel_has_copy = true;
	worker_lab_feed(w, LAB_IN_PORT, &spec);
	weir_worker_turn(w->worker);
	assert_int_equal(counters->drops[WEIR_DROP_NO_EXCEPTION_PORT], 1);
	assert_int_equal(counters->to_kernel, 1);
	worker_lab_free(w);
}

TEST(packets_from_the_kernel_are_sent_unchanged) {
	struct worker_lab *w = worker_lab_make(4, WEIR_IDLE_POLL);
	struct frame_spec spec = lab_tcp(1, ACK); // a packet to a VIP is also sent unchanged
	struct rte_mbuf *m;
	struct frame f;

	worker_lab_add_source(w, WEIR_SOURCE_KERNEL, EXCEPTION);
	frame_build(&spec, &f);
	worker_lab_feed(w, EXCEPTION, &spec);
	assert_int_equal(weir_worker_turn(w->worker), 1);
	m = ring_device_take(&w->ring[LAB_IN_PORT], 0);
	assert_non_null(m);
	assert_int_equal(m->pkt_len, f.n);
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
	rte_pktmbuf_free(m);
	assert_int_equal(lab_counters(w->lab)->tx_packets, 1);
	assert_int_equal(lab_counters(w->lab)->rx_packets, 0);
	worker_lab_free(w);
}

TEST(full_queues_are_counted_under_their_names) {
	struct worker_lab *w = worker_lab_make(5, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct frame_spec kernel = worker_lab_for_kernel(), tcp = lab_tcp(1, ACK);

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	worker_lab_add_source(w, WEIR_SOURCE_KERNEL, EXCEPTION);
	worker_lab_fill(w, 2);
	worker_lab_feed(w, LAB_IN_PORT, &tcp);
	weir_worker_turn(w->worker);
	assert_int_equal(counters->drops[WEIR_DROP_TX_FULL], 1);
	ring_device_free(&w->ring[2]);
	w->ring[2].queues = 0;
	worker_lab_fill(w, EXCEPTION);
	worker_lab_feed(w, LAB_IN_PORT, &kernel);
	weir_worker_turn(w->worker);
	assert_int_equal(counters->drops[WEIR_DROP_EXCEPTION_FULL], 1);
	assert_int_equal(counters->tx_packets, 0);
	assert_int_equal(counters->forwarded, 0);
	worker_lab_fill(w, LAB_IN_PORT);
	worker_lab_feed(w, EXCEPTION, &tcp);
	weir_worker_turn(w->worker);
	assert_int_equal(counters->drops[WEIR_DROP_TX_FULL], 2);
	assert_int_equal(counters->rx_packets, 3);
	worker_lab_free(w);
}

// A broken control process can write any MTU into a backend's row.
TEST(a_frame_longer_than_the_mtu_of_the_device_is_not_sent) {
	struct worker_lab *w = worker_lab_make(6, WEIR_IDLE_POLL);
	struct frame_spec spec = lab_tcp(1, ACK);

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	for (unsigned int id = 0; id < 6; id++) {
		w->lab->rows[id].mtu = 9000;
	}
	lab_publish_backends(w->lab);
	spec.payload = 1600;
	worker_lab_feed(w, LAB_IN_PORT, &spec);
	weir_worker_turn(w->worker);
	assert_int_equal(lab_counters(w->lab)->drops[WEIR_DROP_TX_TOO_LONG], 1);
	assert_int_equal(worker_lab_on_wire(w, 2), 0);
	worker_lab_free(w);
}

TEST(the_distributor_keeps_its_own_packets_and_hands_over_the_rest) {
	struct worker_lab *w = worker_lab_make(7, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	uint32_t handed = 0;

	assert_int_equal(
		weir_distributor_create(0, WORKERS, SELF, SOCKET_ID_ANY, &w->distributor), 0);
	worker_lab_add_source(w, WEIR_SOURCE_SHARED, LAB_IN_PORT);
	for (uint16_t round = 0; round < 3; round++) {
		for (uint16_t n = 0; n < 40; n++) {
			struct frame_spec tcp = lab_tcp(n, ACK);

			worker_lab_feed(w, LAB_IN_PORT, &tcp);
		}
		while (weir_worker_turn(w->worker) > 0) {
		}
		if (round == 0) {
			handed = rte_ring_count(w->distributor->ring[0]);
			assert_in_range(handed, 5, 35);
		}
		// The same flows are handed over in each iteration.
		assert_int_equal(rte_ring_count(w->distributor->ring[0]), handed * (round + 1u));
	}
	assert_int_equal(counters->rx_packets, 120);
	assert_int_equal(counters->handed_over, 3 * handed);
	assert_int_equal(counters->forwarded, 120 - 3 * handed);
	assert_int_equal(counters->flow_new, 40 - handed);
	worker_lab_free(w);
}

TEST(a_full_hand_over_ring_is_counted) {
	struct worker_lab *w = worker_lab_make(8, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);

	assert_int_equal(
		weir_distributor_create(0, WORKERS, SELF, SOCKET_ID_ANY, &w->distributor), 0);
	worker_lab_add_source(w, WEIR_SOURCE_SHARED, LAB_IN_PORT);
	for (uint16_t n = 0; n < 4000; n++) {
		struct frame_spec tcp = lab_tcp(n, ACK);

		worker_lab_feed(w, LAB_IN_PORT, &tcp);
	}
	while (weir_worker_turn(w->worker) > 0) {
	}
	assert_int_equal(counters->handed_over, WEIR_DISTRIBUTOR_RING - 1);
	assert_true(counters->drops[WEIR_DROP_HANDOFF_FULL] > 500);
	assert_int_equal(counters->rx_packets, 4000);
	worker_lab_free(w);
}

TEST(handed_packets_are_processed) {
	struct worker_lab *w = worker_lab_make(9, WEIR_IDLE_POLL);
	struct frame_spec tcp = lab_tcp(1, ACK);
	struct rte_mbuf *m = rte_pktmbuf_alloc(device_lab_pool());
	struct frame f;

	assert_int_equal(weir_distributor_create(0, WORKERS, 0, SOCKET_ID_ANY, &w->distributor), 0);
	worker_lab_add_source(w, WEIR_SOURCE_HANDED, LAB_IN_PORT);
	frame_build(&tcp, &f);
	memcpy(rte_pktmbuf_append(m, (uint16_t)f.n), f.bytes, f.n);
	assert_int_equal(rte_ring_enqueue(w->distributor->ring[SELF], m), 0);
	assert_int_equal(weir_worker_turn(w->worker), 1);
	assert_int_equal(worker_lab_on_wire(w, 2), 1);
	worker_lab_free(w);
}

// An ICMP error about an unknown flow goes to the next worker. In this test, the error has already
// been offered to all workers.
TEST(offered_packets_visit_all_workers) {
	static const struct frame_spec quoted = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 80,
		.payload = 8};
	struct frame_spec error = {.family = 4,
		.protocol = 1,
		.icmp_type = 3,
		.source = frame_stranger4,
		.payload = 28};
	struct worker_lab *w = worker_lab_make(13, WEIR_IDLE_POLL);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct weir_source source = {.kind = WEIR_SOURCE_OFFERED};
	struct weir_peers *peers;
	struct rte_mbuf *m = NULL;
	struct frame inner;

	frame_build(&quoted, &inner);
	error.body = inner.bytes + inner.l3;
	assert_int_equal(weir_peers_create(1, SOCKET_ID_ANY, &peers), -EINVAL);
	assert_int_equal(weir_peers_create(WORKERS, SOCKET_ID_ANY, &peers), 0);
	source.ring = peers->ring[SELF];
	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	assert_int_equal(weir_worker_add_source(w->worker, &source), 0);
	weir_pipeline_offer_to(w->lab->pipeline, WORKERS);
	weir_worker_offer_to(w->worker, peers->ring[0]);
	worker_lab_feed(w, LAB_IN_PORT, &error);
	assert_int_equal(weir_worker_turn(w->worker), 1);
	assert_int_equal(counters->handed_over, 1);
	worker_lab_check_sums(counters);
	assert_int_equal(rte_ring_dequeue(peers->ring[0], (void **)&m), 0);
	assert_int_equal(rte_ring_enqueue(peers->ring[SELF], m), 0);
	assert_int_equal(weir_worker_turn(w->worker), 1);
	assert_int_equal(counters->handed_over, 1);
	assert_int_equal(counters->forwarded, 1);
	for (uint32_t i = 0; i < WEIR_PEER_RING + 10; i++) { // no other worker processes the offers
		worker_lab_feed(w, LAB_IN_PORT, &error);
		weir_worker_turn(w->worker);
	}
	assert_int_equal(counters->handed_over, WEIR_PEER_RING);
	assert_int_equal(counters->drops[WEIR_DROP_HANDOFF_FULL], 11);
	worker_lab_check_sums(counters);
	weir_peers_free(peers);
	worker_lab_free(w);
}

TEST(one_request_per_turn_is_answered) {
	struct worker_lab *w = worker_lab_make(10, WEIR_IDLE_POLL);
	const struct weir_worker_box *theirs = &w->lab->control->worker_boxes[SELF];
	struct weir_control_box *ours = &w->lab->control->control_boxes[SELF];
	struct weir_message message = {.kind = WEIR_MESSAGE_FLOW_LOOKUP};
	struct frame_spec tcp = lab_tcp(1, ACK);

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	worker_lab_feed(w, LAB_IN_PORT, &tcp);
	weir_worker_turn(w->worker);
	// At first, expiry has to catch up, which also makes pauses short.
	for (int turn = 0; turn < 100000 && w->worker->idle.turns == 0; turn++) {
		w->worker->idle.turns = 1000;
		weir_worker_turn(w->worker);
	}
	assert_int_equal(w->worker->idle.turns, 1000);
	memcpy(message.flow.source, frame_client4, 16);
	memcpy(message.flow.destination, frame_vip4, 16);
	message.flow.source_port = 1025;
	message.flow.destination_port = 80;
	message.flow.family = 4;
	message.flow.protocol = 6;
	for (message.sequence = 1; message.sequence <= 2; message.sequence++) {
		assert_true(weir_mailbox_send(&ours->request, &theirs->request, &message));
	}
	for (uint64_t sequence = 1; sequence <= 2; sequence++) {
		w->worker->idle.turns = 1000;
		weir_worker_turn(w->worker);
		// The next pause is short, because a walk over the table has many requests.
		assert_int_equal(w->worker->idle.turns, 0);
		assert_true(weir_mailbox_receive(&theirs->response, &ours->response, &message));
		assert_int_equal(message.sequence, sequence);
		assert_int_equal(message.flow.found, 1);
		assert_false(weir_mailbox_receive(&theirs->response, &ours->response, &message));
	}
	worker_lab_free(w);
}

// The worker's flows are not in buckets.
TEST(a_bucket_request_is_refused_without_buckets) {
	struct worker_lab *w = worker_lab_make(15, WEIR_IDLE_POLL);
	const struct weir_worker_box *theirs = &w->lab->control->worker_boxes[SELF];
	struct weir_control_box *ours = &w->lab->control->control_boxes[SELF];
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL};

	message.steal.deadline_ns = UINT64_MAX;
	assert_true(weir_mailbox_send(&ours->request, &theirs->request, &message));
	weir_worker_turn(w->worker);
	assert_true(weir_mailbox_receive(&theirs->response, &ours->response, &message));
	assert_int_equal(message.steal.answer, WEIR_BUCKET_NOT_BUCKETED);
	worker_lab_free(w);
}

// --- worker, services and backends agree ---------------------------------------------------

// Process one frame in the worker, and check all sums.
static void turn_with(struct worker_lab *w, const struct frame *f) {
	assert_true(ring_device_feed(&w->ring[LAB_IN_PORT], 0, f->bytes, f->n));
	weir_worker_turn(w->worker);
	lab_check_counters(w->lab);
}

// Check that a frame of this spec is dropped for this reason.
static void turn_for(
	struct worker_lab *w, const struct frame_spec *spec, enum weir_drop_reason reason) {
	uint64_t before = lab_counters(w->lab)->drops[reason];
	struct frame f;

	weir_pipeline_settle(w->lab->pipeline);
	frame_build(spec, &f);
	if (reason == WEIR_DROP_OTHER_MAC || reason == WEIR_DROP_GROUP_MAC) {
		f.bytes[reason == WEIR_DROP_OTHER_MAC ? 0 : 6] ^= 1;
	}
	turn_with(w, &f);
	if (lab_counters(w->lab)->drops[reason] != before + 1) {
		fail_msg("not dropped for %s", weir_drop_reason_name(reason));
	}
}

static void drop_by_rows_and_selections(struct worker_lab *w) {
	struct weir_selection_params params =
		weir_selection_defaults(0, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct frame_spec syn = lab_tcp(2000, 2), known = lab_tcp(2001, 2);
	struct lab *lab = w->lab;

	worker_lab_feed(w, LAB_IN_PORT, &known);
	weir_worker_turn(w->worker);
	known.tcp_flags = ACK;
	known.payload = 1500;
	known.source_port++; // an untracked flow
	turn_for(w, &known, WEIR_DROP_MTU_EXCEEDED);
	known.source_port--;
	known.payload = 10;
	worker_lab_feed(w, LAB_IN_PORT, &known);
	weir_worker_turn(w->worker);
	for (unsigned int id = 0; id < 4; id++) {
		lab->rows[id].flags |= WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET;
	}
	lab_publish_backends(lab);
	turn_for(w, &known, WEIR_DROP_BACKEND_DOWN);
	weir_icmp_limit_init(&lab->pipeline->reset_limit, 0);
	turn_for(w, &known, WEIR_DROP_RESET_RATE);
	lab_publish_default(lab);
	params.settings.max_active_flows = 1;
	params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	lab_publish_policy(lab, &params, (uint16_t[]){0}, 1);
	weir_pipeline_settle(lab->pipeline);
	// Exceed the limit with flows whose ACK has arrived, because half-open flows do not count.
	for (unsigned int i = 0; i < 8; i++) {
		syn.tcp_flags = i % 2 == 0 ? 2 : ACK;
		worker_lab_feed(w, LAB_IN_PORT, &syn);
		weir_worker_turn(w->worker);
		syn.source_port = (uint16_t)(syn.source_port + i % 2);
	}
	syn.tcp_flags = 2;
	turn_for(w, &syn, WEIR_DROP_FLOW_CONTROL);
	lab_publish_selection(lab, 0, NULL, 0);
	syn.source_port++;
	turn_for(w, &syn, WEIR_DROP_NO_BACKEND);
	lab_publish_default(lab);
	for (unsigned int id = 0; id < 6; id++) {
		lab->rows[id].flags &= (uint8_t)~WEIR_BACKEND_RESOLVED;
	}
	lab_publish_backends(lab);
	syn.source_port++;
	turn_for(w, &syn, WEIR_DROP_NO_NEIGHBOUR);
	memset(lab->rows, 0, sizeof(lab->rows));
	lab_publish_backends(lab);
	syn.source_port++;
	turn_for(w, &syn, WEIR_DROP_BACKEND_GONE);
	lab_publish_default(lab);
}

static void drop_by_devices(struct worker_lab *w) {
	struct frame_spec tcp = lab_tcp(3000, ACK), kernel = worker_lab_for_kernel();

	worker_lab_drain(w);
	worker_lab_fill(w, 2);
	turn_for(w, &tcp, WEIR_DROP_TX_FULL);
	turn_for(w, &tcp, WEIR_DROP_TX_FULL); // the flow is known now
	worker_lab_drain(w);
	worker_lab_fill(w, EXCEPTION);
	turn_for(w, &kernel, WEIR_DROP_EXCEPTION_FULL);
	worker_lab_drain(w);
	w->port[LAB_IN_PORT].exception = WEIR_NO_DEVICE;
	turn_for(w, &kernel, WEIR_DROP_NO_EXCEPTION_PORT);
	for (unsigned int id = 0; id < 6; id++) {
		w->lab->rows[id].mtu = 9000;
	}
	lab_publish_backends(w->lab);
	tcp.payload = 1600;
	turn_for(w, &tcp, WEIR_DROP_TX_TOO_LONG);
}

static void drop_replies(struct worker_lab *w) {
	const struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	const struct frame_spec tcp = lab_tcp(1, ACK);

	turn_for(w, &tcp, WEIR_DROP_OTHER_MAC);
	turn_for(w, &echo, WEIR_DROP_GROUP_MAC);
	worker_lab_drain(w);
	worker_lab_fill(w, LAB_IN_PORT);
	turn_for(w, &echo, WEIR_DROP_TX_FULL);
	worker_lab_drain(w);
	weir_icmp_limit_init(&w->lab->pipeline->echo_limit, 0);
	turn_for(w, &echo, WEIR_DROP_ICMP_RATE);
}

// Whatever happens to packets, the worker's counter `forwarded` equals the sum of the packets of
// all services, and the sum of the packets of all backends.
TEST(counters_agree_under_every_drop_reason) {
	// Drop reasons covered by other tests: devices, rings between workers, closed ports,
	// fragments, headroom.
	static const bool elsewhere[WEIR_DROP_REASON_COUNT] = {[WEIR_DROP_FRAME_TOO_LONG] = true,
		[WEIR_DROP_HANDOFF_FULL] = true,
		[WEIR_DROP_CLOSED_PORT] = true,
		[WEIR_DROP_FRAGMENT_BUFFERS] = true,
		[WEIR_DROP_FRAGMENT_OVERLAP] = true,
		[WEIR_DROP_FRAGMENT_TINY] = true,
		[WEIR_DROP_FRAGMENT_FIRST_MISSING] = true,
		[WEIR_DROP_FRAGMENT_TABLE] = true,
		[WEIR_DROP_HEADROOM] = true};
	struct worker_lab *w = worker_lab_make(14, WEIR_IDLE_POLL);
	struct frame f;

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	for (unsigned int i = 0; i < edge_count; i++) {
		edge_build(&edges[i], &f);
		if (f.n > 0 && f.n <= RTE_MBUF_DEFAULT_DATAROOM) {
			turn_with(w, &f);
			worker_lab_drain(w);
		}
	}
	drop_by_rows_and_selections(w);
	drop_by_devices(w);
	drop_replies(w);
	for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (!elsewhere[i] && lab_counters(w->lab)->drops[i] == 0) {
			fail_msg("no packet was dropped for %s",
				weir_drop_reason_name((enum weir_drop_reason)i));
		}
	}
	worker_lab_drain(w);
	worker_lab_free(w);
}

TEST(sources_have_a_limit) {
	struct worker_lab *w = worker_lab_make(11, WEIR_IDLE_POLL);
	struct weir_source source = {.kind = WEIR_SOURCE_QUEUE};

	for (unsigned int i = 0; i < WEIR_SOURCES_MAX; i++) {
		assert_int_equal(weir_worker_add_source(w->worker, &source), 0);
	}
	assert_int_equal(weir_worker_add_source(w->worker, &source), -ENOSPC);
	worker_lab_free(w);
}

// --- the loop -----------------------------------------------------------------------------

struct runner {
	struct weir_worker *worker;
	double cpu_s;
};

static double seconds(clockid_t id) {
	struct timespec now;

	clock_gettime(id, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *run(void *context) {
	struct runner *runner = context;

	weir_worker_run(runner->worker);
	runner->cpu_s = seconds(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

// While the loop runs, a replaced table can be freed (guarantee S5 of layout.h), and the heartbeat
// is updated. In idle mode "yield", the loop leaves the CPU to other processes.
TEST(the_loop_reports_heartbeats_and_yields) {
	struct worker_lab *w = worker_lab_make(12, WEIR_IDLE_YIELD);
	const struct weir_worker_counters *counters = lab_counters(w->lab);
	struct runner runner = {.worker = w->worker};
	uint64_t beat = counters->heartbeat_ns;
	double start = seconds(CLOCK_MONOTONIC);
	pthread_t thread;

	worker_lab_add_source(w, WEIR_SOURCE_QUEUE, LAB_IN_PORT);
	assert_int_equal(pthread_create(&thread, NULL, run, &runner), 0);
	while (weir_counter_read(&counters->loops) < 3000) {
		assert_true(seconds(CLOCK_MONOTONIC) < start + 20);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	lab_publish_services(w->lab);
	assert_int_equal(weir_writer_synchronize(w->lab->writer, 5000), 0);
	assert_true(weir_counter_read(&counters->heartbeat_ns) > beat);
	weir_worker_stop(w->worker);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(runner.cpu_s < (seconds(CLOCK_MONOTONIC) - start) * 0.7);
	assert_true(counters->idle_cycles > 0);
	assert_int_equal(counters->busy_cycles, 0);
	// The worker is offline now, so that no grace period waits for it.
	lab_publish_services(w->lab);
	assert_int_equal(weir_writer_synchronize(w->lab->writer, 5000), 0);
	worker_lab_free(w);
}
