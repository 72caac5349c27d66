// SPDX-License-Identifier: BSD-3-Clause
//
// Buckets that move between real workers: under load, in threads; then step by step. The test acts
// as control.
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "moves_rig.h"
#include "test.h"
#include "worker_private.h"

#define DEADLINE_NS 1000000000ull
// moves of each test under load; WEIR_TEST_MOVES in the environment sets another number
#define MOVES 1000u
#define DESCRIPTORS 512u // descriptors of each transmit queue
#define SLOWLY 500u // real seconds per second of the slow clock
#define MOVES_BETWEEN_QUEUES 200u // each move waits at least 25 ms
#define LONG_NS 150000000ull // longer than a move waits for a stuck device

// --- control ------------------------------------------------------------------------------

// Returns a bucket of this worker that has had packets, mostly one with many packets. If the loop
// chooses no bucket, returns a random bucket of any worker.
static uint32_t bucket_of(struct rig *rig, uint32_t worker) {
	const struct weir_segment *segment = rig->lab->control;
	uint32_t bucket = (uint32_t)moves_rig_next_random(rig) % WEIR_BUCKETS;
	uint64_t most = 0;

	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint64_t packets = 0;

		for (uint32_t w = 0; w < WORKERS; w++) {
			packets += weir_counter_read(&segment->bucket_packets[w].packets[b]);
		}
		if (weir_segment_bucket_owner(segment, b) == worker && packets > most &&
			moves_rig_next_random(rig) % 4 != 0) {
			most = packets;
			bucket = b;
		}
	}
	return bucket;
}

static void ask_for_any(struct rig *rig, uint32_t victim) {
	moves_rig_ask(rig, victim, bucket_of(rig, victim),
		(uint32_t)(victim + 1 + moves_rig_next_random(rig) % (WORKERS - 1)) % WORKERS,
		moves_rig_next_random(rig) % 16 == 0 ? 1 : moves_rig_clock_ns() + 60 * DEADLINE_NS);
}

// Do this many moves under load, from and to all workers, several at a time.
static void force(struct rig *rig, uint32_t moves) {
	uint64_t start = moves_rig_clock_ns();

	for (uint32_t v = 0; v < WORKERS; v++) {
		ask_for_any(rig, v);
	}
	while (rig->answers[WEIR_BUCKET_CONFIRMED] < moves) {
		for (uint32_t v = 0; v < WORKERS; v++) {
			enum weir_bucket_answer answer;

			moves_rig_pump(rig);
			if (moves_rig_answered(rig, v, &answer)) {
				ask_for_any(rig, v);
			}
		}
		if (moves_rig_clock_ns() - start > 100 * 1000000000ull) {
			fail_msg("only %lu moves",
				(unsigned long)rig->answers[WEIR_BUCKET_CONFIRMED]);
		}
	}
	for (uint32_t v = 0; v < WORKERS; v++) {
		(void)moves_rig_answer_of(rig, v);
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
	uint64_t start = moves_rig_clock_ns();

	while (sum_given(rig, false) < rig->answers[WEIR_BUCKET_CONFIRMED]) {
		moves_rig_receive_all(rig);
		assert_true(moves_rig_clock_ns() - start < 60 * 1000000000ull);
	}
	assert_int_equal(sum_given(rig, true), rig->answers[WEIR_BUCKET_CONFIRMED]);
}

// --- moves under load ---------------------------------------------------------------------

static uint32_t moves_of_a_test(void) {
	const char *text = getenv("WEIR_TEST_MOVES");

	return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : MOVES;
}

static void check_moves(struct rig *rig, uint32_t moves) {
	uint64_t held = 0, cycles = 0;

	force(rig, moves);
	moves_rig_settle(rig);
	wait_for_moves(rig);
	moves_rig_stop(rig);
	for (uint32_t w = 0; w < WORKERS; w++) {
		const struct weir_steal_counters *counters = &rig->lab->segment->steal_counters[w];

		held += counters->held_packets;
		assert_true(counters->move_cycles > 0); // each worker has given and taken buckets
		cycles += counters->move_cycles;
	}
	assert_true(held > 0);
	assert_true(rig->answers[WEIR_BUCKET_LATE] > 0);
	moves_rig_check_packets(rig);
	moves_rig_check_gauges(rig);
	moves_rig_check_owners(rig);
	print_message("%lu moves of %lu cycles, %lu packets, %lu of them held\n",
		(unsigned long)rig->answers[WEIR_BUCKET_CONFIRMED],
		(unsigned long)(cycles / rig->answers[WEIR_BUCKET_CONFIRMED]),
		(unsigned long)rig->sent, (unsigned long)held);
	moves_rig_unmake(rig);
}

static void check_a_thousand_moves(struct rig *rig) {
	check_moves(rig, moves_of_a_test());
}

TEST_GROUP(device_lab_eal);

TEST(a_thousand_moves_lose_and_reorder_nothing) {
	struct rig *rig = moves_rig_make(1);

	moves_rig_begin_flows(rig);
	check_a_thousand_moves(rig);
}

// Emulates the driver of the outgoing port: returns the status of a transmit descriptor. The port
// has two transmit queues. The test takes all packets from one queue, and then from the other.
static int tell(void *queue, uint16_t offset) {
	const struct rte_ring *ring = queue;
	uint32_t waiting = ring->prod.tail - __atomic_load_n(&ring->cons.tail, __ATOMIC_ACQUIRE);

	return DESCRIPTORS - 1 - offset < waiting ? RTE_ETH_TX_DESC_FULL : RTE_ETH_TX_DESC_DONE;
}

// Workers 0 and 2 have one queue each. Worker 1 has a ring to worker 2. The workers' clocks are
// slow, because a move waits only 1 ms of their time for the device, and the test may take longer.
TEST(moves_between_queues_lose_and_reorder_nothing) {
	struct rig *rig = moves_rig_make_queues(9, 2);

	assert_int_equal(rig->device[OUT].tx_descriptors, DESCRIPTORS);
	rte_eth_fp_ops[rig->device[OUT].id].tx_descriptor_status = tell;
	for (uint32_t w = 0; w < WORKERS; w++) {
		rig->worker[w]->clock.period_cycles = UINT64_MAX;
		rig->worker[w]->clock.ns_per_cycle /= SLOWLY;
	}
	moves_rig_start(rig);
	moves_rig_begin_flows(rig);
	check_moves(rig, RTE_MIN(moves_of_a_test(), MOVES_BETWEEN_QUEUES));
}

// Devices spread the flows. At first each packet is received by the worker that owns its bucket.
TEST(a_thousand_moves_with_device_spreading_lose_and_reorder_nothing) {
	struct rig *rig = moves_rig_make_rss(6);

	moves_rig_start(rig);
	moves_rig_begin_flows(rig);
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(
			weir_counter_read(&rig->lab->segment->worker_counters[w].handed_over), 0);
	}
	check_a_thousand_moves(rig);
}

// Returns the number of packets that were received by a worker that does not own their bucket.
static uint64_t count_handed(struct rig *rig) {
	uint64_t handed = 0;

	for (uint32_t w = 0; w < WORKERS; w++) {
		handed += weir_counter_read(&rig->lab->segment->worker_counters[w].handed_over);
	}
	return handed;
}

// Wait until the redirection tables direct all packets of port 0 to the owners of their buckets.
// Each entry of the table of port 0 has only one bucket.
static void wait_for_tables(struct rig *rig) {
	uint64_t start = moves_rig_clock_ns(), before;

	do {
		moves_rig_settle(rig);
		before = count_handed(rig);
		for (uint32_t flow = 0; flow < FLOWS; flow += IN_PORTS) {
			while (rig->sent - rig->received >= UNDER_WAY) {
				moves_rig_receive_all(rig);
			}
			moves_rig_send_packet(rig, flow);
		}
		moves_rig_settle(rig);
		assert_true(moves_rig_clock_ns() - start < 60 * 1000000000ull);
	} while (count_handed(rig) != before);
}

// The devices change their tables after the moves, at different speeds.
static void check_moves_with_tables(struct rig *rig, uint64_t shifts, uint64_t refusals) {
	moves_rig_start_main(rig);
	force(rig, moves_of_a_test());
	moves_rig_settle(rig);
	wait_for_moves(rig);
	__atomic_store_n(&rig->nic[0].update_result, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rig->nic[1].update_result, 0, __ATOMIC_RELAXED);
	wait_for_tables(rig);
	moves_rig_stop_main(rig);
	print_message("%lu changes of tables, %lu refused\n", (unsigned long)rig->tables->shifts,
		(unsigned long)rig->tables->refusals);
	assert_true(rig->tables->shifts > shifts);
	assert_true(rig->tables->refusals >= refusals);
	check_a_thousand_moves(rig);
}

TEST(tables_that_follow_lose_and_reorder_nothing) {
	struct rig *rig = moves_rig_make_rss(7);

	rig->nic[1].update_us = 3000;
	moves_rig_start(rig);
	moves_rig_begin_flows(rig);
	check_moves_with_tables(rig, moves_of_a_test() / 10, 0);
}

// Device 0 refuses a change; device 1 reports an error but changes its table.
TEST(refused_table_changes_lose_and_reorder_nothing) {
	struct rig *rig = moves_rig_make_rss(8);

	rig->nic[0].update_result = -EIO;
	rig->nic[1].update_result = -EIO;
	rig->nic[1].fails_late = true;
	moves_rig_start(rig);
	moves_rig_begin_flows(rig);
	check_moves_with_tables(rig, 0, moves_of_a_test() / 10);
}

TEST(refusals_change_nothing) {
	struct rig *rig = moves_rig_make(2);
	const uint64_t later = moves_rig_clock_ns() + 3600 * DEADLINE_NS;
	const struct weir_steal_counters *counters = &rig->lab->control->steal_counters[1];

	moves_rig_begin_flows(rig);
	moves_rig_ask(rig, 1, 1, 2, 1);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_LATE);
	moves_rig_ask(rig, 1, WEIR_BUCKETS, 2, later);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_OUT_OF_RANGE);
	moves_rig_ask(rig, 1, 1, WORKERS, later);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_OUT_OF_RANGE);
	moves_rig_ask(rig, 1, 2, 0, later);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_NOT_OWNER);
	moves_rig_ask(rig, 1, 1, 1, later);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_SELF);
	moves_rig_set_stealing(rig, WEIR_STEALING_OFF);
	moves_rig_ask(rig, 1, 1, 2, later);
	assert_int_equal(moves_rig_answer_of(rig, 1), WEIR_BUCKET_OFF);
	assert_int_equal(weir_counter_read(&counters->answers[WEIR_BUCKET_OUT_OF_RANGE]), 2);
	assert_int_equal(weir_counter_read(&counters->answers[WEIR_BUCKET_OFF]), 1);
	moves_rig_stop(rig);
	assert_int_equal(sum_given(rig, true), 0);
	moves_rig_check_owners(rig);
	moves_rig_check_gauges(rig);
	moves_rig_unmake(rig);
}

// Workers stop between any two steps of moves, while packets are in flight. Nothing leaks.
TEST(workers_end_in_the_middle_of_moves) {
	for (unsigned int i = 0; i < 5; i++) {
		struct rig *rig = moves_rig_make(10 + i);

		moves_rig_begin_flows(rig);
		force(rig, 3 + i);
		for (uint32_t v = 0; v < WORKERS; v++) {
			ask_for_any(rig, v);
		}
		moves_rig_pump(rig);
		moves_rig_stop(rig);
		moves_rig_unmake(rig);
	}
}

// --- step by step -----------------------------------------------------------------------------

// Fill the device of the outgoing port, so that it accepts no more packets.
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

// Run iterations of the other workers for longer than a move waits for a device. Worker 2, which
// has the transmit queue, does not run.
static void pause_sender(struct rig *rig) {
	uint64_t end = moves_rig_clock_ns() + LONG_NS;

	while (moves_rig_clock_ns() < end) {
		weir_worker_turn(rig->worker[0]);
		weir_worker_turn(rig->worker[VICTIM]);
	}
}

// Packet 2 waits in the victim's transmit ring, because the device is full. The bucket moves to the
// worker that owns the device's queue. Packet 3 must not be sent before packet 2. Even if this
// worker does not run for a long time, the device is not considered stuck.
TEST(a_flow_does_not_overtake_itself_in_transmit_rings) {
	struct rig *rig = moves_rig_make_still(20);
	uint32_t bucket = 0, flow = moves_rig_begin_from(rig, 0, &bucket);

	fill_out(rig);
	moves_rig_send_packet(rig, flow);
	moves_rig_turn_all(rig, 4);
	moves_rig_ask(rig, VICTIM, bucket, 2, UINT64_MAX);
	moves_rig_turn_all(rig, 4);
	assert_int_equal(moves_rig_answer_of(rig, VICTIM), WEIR_BUCKET_CONFIRMED);
	moves_rig_send_packet(rig, flow);
	pause_sender(rig);
	moves_rig_turn_all(rig, 20);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), VICTIM);
	empty_out(rig);
	moves_rig_turn_all(rig, 20);
	moves_rig_receive_all(rig); // also checks the order
	assert_int_equal(rig->received, rig->sent);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), 2);
	moves_rig_unmake(rig);
}

// Run iterations until the victim has completed this many moves.
static void turn_until_given(struct rig *rig, uint64_t moves) {
	const struct weir_steal_counters *counters = rig->lab->segment->steal_counters;
	uint64_t start = moves_rig_clock_ns();

	while (counters[VICTIM].buckets_given < moves) {
		moves_rig_turn_all(rig, 1);
		assert_true(moves_rig_clock_ns() - start < 60 * 1000000000ull);
	}
}

// Packets of two buckets wait for a stuck device; one bucket has moved nevertheless. Returns the
// other bucket.
static uint32_t move_past_a_stuck_device(struct rig *rig) {
	uint32_t bucket, other, first = moves_rig_begin_from(rig, 0, &bucket), second = first;

	do {
		second = moves_rig_begin_from(rig, second + IN_PORTS, &other);
	} while (other == bucket);
	fill_out(rig);
	moves_rig_send_packet(rig, first);
	moves_rig_send_packet(rig, second);
	moves_rig_turn_all(rig, 4);
	moves_rig_ask(rig, VICTIM, bucket, 2, UINT64_MAX);
	turn_until_given(rig, 1);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), 2);
	assert_int_equal(moves_rig_answer_of(rig, VICTIM), WEIR_BUCKET_CONFIRMED);
	return other;
}

TEST(a_stuck_device_delays_one_bucket_for_a_while_and_no_other) {
	struct rig *rig = moves_rig_make_still(3);
	uint32_t bucket = move_past_a_stuck_device(rig);

	moves_rig_ask(rig, VICTIM, bucket, 2, UINT64_MAX);
	moves_rig_turn_all(rig, 20);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), 2);
	moves_rig_unmake(rig);
}

// A device that was considered stuck sends one packet. Then moves wait for the device again.
TEST(a_device_that_sends_again_is_waited_for_again) {
	struct rig *rig = moves_rig_make_still(50);
	uint32_t bucket = move_past_a_stuck_device(rig);

	rte_pktmbuf_free(ring_device_take(&rig->ring[OUT], 0));
	moves_rig_turn_all(rig, 4);
	moves_rig_ask(rig, VICTIM, bucket, 2, UINT64_MAX);
	moves_rig_turn_all(rig, 20);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), VICTIM);
	moves_rig_unmake(rig);
}

// --- held packets -------------------------------------------------------------------------------

// The bucket of a flow moves to worker 0, which receives as many packets of the flow as it can
// hold.
static void hold_many(struct rig *rig, uint32_t flow, uint32_t bucket) {
	const struct weir_steal_counters *counters = rig->lab->segment->steal_counters;

	moves_rig_ask(rig, VICTIM, bucket, 0, UINT64_MAX);
	weir_worker_turn(rig->worker[VICTIM]);
	assert_int_equal(moves_rig_answer_of(rig, VICTIM), WEIR_BUCKET_CONFIRMED);
	for (uint32_t i = 0; i < WEIR_HOLD_PACKETS; i++) {
		moves_rig_send_packet(rig, flow);
		if (i % WEIR_BURST == WEIR_BURST - 1) {
			weir_worker_turn(rig->worker[0]);
		}
	}
	assert_int_equal(counters[0].held_packets, WEIR_HOLD_PACKETS);
}

// Worker 2 runs only a third as often as worker 0, so it sends only a third of the packets that
// worker 0 could put into the transmit ring. More packets of the bucket arrive while held packets
// wait.
TEST(held_packets_wait_for_transmit_rings) {
	struct rig *rig = moves_rig_make_still(70);
	const struct weir_steal_counters *counters = rig->lab->segment->steal_counters;
	uint32_t bucket = 0, flow = moves_rig_begin_from(rig, 0, &bucket);
	uint64_t before = rig->received;

	hold_many(rig, flow, bucket);
	for (uint32_t round = 0; counters[VICTIM].buckets_given == 0; round++) {
		weir_worker_turn(rig->worker[VICTIM]);
		weir_worker_turn(rig->worker[0]);
		if (round % 3 == 0) {
			weir_worker_turn(rig->worker[2]);
			moves_rig_receive_all(rig); // also checks the order
		}
		if (round == 60) {
			pause_sender(rig);
		}
		if (counters[0].held_packets == WEIR_HOLD_PACKETS && rig->received > before) {
			moves_rig_send_packet(rig, flow);
		}
		assert_true(round < 10000);
	}
	moves_rig_turn_all(rig, 40);
	moves_rig_receive_all(rig);
	assert_true(counters[0].held_packets > WEIR_HOLD_PACKETS);
	assert_int_equal(rig->received, rig->sent);
	moves_rig_unmake(rig);
}

TEST(held_packets_do_not_wait_for_a_stuck_device) {
	struct rig *rig = moves_rig_make_still(5);
	const struct weir_worker_counters *thief = &rig->lab->segment->worker_counters[0];
	uint32_t bucket = 0, flow = moves_rig_begin_from(rig, 0, &bucket);

	fill_out(rig);
	hold_many(rig, flow, bucket);
	turn_until_given(rig, 1);
	assert_int_equal(weir_segment_bucket_owner(rig->lab->segment, bucket), 0);
	assert_true(thief->drops[WEIR_DROP_TX_FULL] > 0);
	assert_int_equal(thief->drops[WEIR_DROP_HANDOFF_FULL], 0);
	moves_rig_unmake(rig);
}

// Worker 1 does not run, so its ring fills up. The distributor makes worker 1 give a bucket to
// worker 2, without a request from control.
TEST(a_filling_ring_is_relieved_at_once) {
	struct rig *rig = moves_rig_make_still(4);
	struct rte_ring *ring = rig->distribution.distributor[0]->ring[1];
	const struct weir_steal_counters *counters = rig->lab->segment->steal_counters;
	const uint32_t enough = WEIR_DISTRIBUTOR_RING / 4 * 3 + 2 * WEIR_BURST;

	for (uint32_t w = 0; w < WORKERS; w++) {
		weir_pipeline_settle(rig->pipeline[w]);
	}
	for (uint32_t flow = 0; rte_ring_count(ring) < enough; flow = (flow + IN_PORTS) % FLOWS) {
		moves_rig_send_packet(rig, flow);
		if (flow / IN_PORTS % 32 == 0) {
			weir_worker_turn(rig->worker[0]);
			weir_worker_turn(rig->worker[2]);
			moves_rig_receive_all(rig);
		}
	}
	assert_int_equal(counters[1].buckets_urgent, 0);
	moves_rig_turn_all(rig, 60);
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent);
	assert_true(counters[1].buckets_urgent > 0);
	assert_true(counters[1].answers[WEIR_BUCKET_CONFIRMED] > 0);
	assert_int_equal(counters[1].buckets_given, counters[1].answers[WEIR_BUCKET_CONFIRMED]);
	assert_int_equal(counters[2].buckets_taken, counters[1].buckets_given);
	moves_rig_unmake(rig);
}
