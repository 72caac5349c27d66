// SPDX-License-Identifier: BSD-3-Clause
//
// A bucket moves step by step between workers that send on two queues of a device. Its packets must
// not overtake packets that are still in the device. The test simulates the device and the clock.
#include <errno.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "moves_rig.h"
#include "test.h"
#include "worker_private.h"

#define WAIT_NS 1000000u // maximum time that a move waits for a device
#define UNREPORTED_NS 50000u // time after which a device without a report counts as empty
#define OF_OWNER 2u // worker that has queue 0
#define OF_FIRST 0u // worker that has queue 1

// --- the device and the clock -------------------------------------------------------------------

static uint32_t descriptors; // descriptors of each queue

static int tell(void *ring, uint16_t offset) {
	return descriptors - 1 - offset < rte_ring_count(ring) ? RTE_ETH_TX_DESC_FULL
							       : RTE_ETH_TX_DESC_DONE;
}

static int report_none(void *ring, uint16_t offset) {
	(void)ring;
	(void)offset;
	return RTE_ETH_TX_DESC_FULL;
}

static void stop_clocks(struct rig *rig) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		rig->worker[w]->clock.period_cycles = UINT64_MAX;
		rig->worker[w]->clock.ns_per_cycle = 0;
	}
}

static void pass(struct rig *rig, uint64_t ns) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		rig->worker[w]->clock.base_ns += ns;
	}
}

static struct rig *make(
	unsigned int number, uint16_t queues, int (*driver)(void *ring, uint16_t offset)) {
	struct rig *rig = moves_rig_make_queues(number, queues);

	stop_clocks(rig);
	descriptors = rig->device[OUT].tx_descriptors;
	rte_eth_fp_ops[rig->device[OUT].id].tx_descriptor_status = driver;
	return rig;
}

// --- checks -------------------------------------------------------------------------------------

struct moving {
	uint32_t flow, bucket;
	uint16_t queue; // transmit queue of the victim
};

static bool has_moved(const struct rig *rig, const struct moving *moving, uint32_t thief) {
	return weir_segment_bucket_owner(rig->lab->segment, moving->bucket) == thief;
}

// Starts a move of a flow's bucket to `thief`. Packet 2 of the flow waits in the device when the
// move starts, then packet 3 arrives. The flow is the first suitable flow with a number of at least
// `first`.
static struct moving begin_from(struct rig *rig, uint32_t first, uint32_t thief) {
	struct moving moving = {.queue = rig->transmit->path[OUT][VICTIM].queue};

	moving.flow = moves_rig_begin_from(rig, first, &moving.bucket);
	moves_rig_send_packet(rig, moving.flow);
	moves_rig_turn_all(rig, 4);
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[moving.queue]), 1);
	moves_rig_ask(rig, VICTIM, moving.bucket, thief, UINT64_MAX);
	moves_rig_turn_all(rig, 4);
	assert_int_equal(moves_rig_answer_of(rig, VICTIM), WEIR_BUCKET_CONFIRMED);
	moves_rig_send_packet(rig, moving.flow);
	moves_rig_turn_all(rig, 20);
	return moving;
}

static struct moving begin(struct rig *rig, uint32_t thief) {
	return begin_from(rig, 0, thief);
}

static void check_waits(struct rig *rig, const struct moving *moving, uint32_t thief) {
	uint16_t other = rig->transmit->path[OUT][thief].queue;

	moves_rig_turn_all(rig, 20);
	assert_int_not_equal(other, moving->queue);
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[other]), 0);
	assert_true(has_moved(rig, moving, VICTIM));
}

// Check that the move continues a moment after the device has sent its packets.
static void check_goes_on(struct rig *rig, const struct moving *moving, uint32_t thief) {
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent - 1);
	check_waits(rig, moving, thief);
	pass(rig, UNREPORTED_NS);
	check_waits(rig, moving, thief);
	pass(rig, 1);
	moves_rig_turn_all(rig, 20);
	assert_true(has_moved(rig, moving, thief));
	moves_rig_receive_all(rig); // also checks the order
	assert_int_equal(rig->received, rig->sent);
}

static void check_order(unsigned int number, uint16_t queues, uint32_t thief) {
	struct rig *rig = make(number, queues, tell);
	struct moving moving = begin(rig, thief);

	check_waits(rig, &moving, thief);
	pass(rig, WAIT_NS - UNREPORTED_NS - 1);
	check_waits(rig, &moving, thief);
	check_goes_on(rig, &moving, thief);
	moves_rig_unmake(rig);
}

TEST_GROUP(device_lab_eal);

TEST(a_flow_does_not_overtake_itself_between_queues) {
	check_order(100, 3, OF_OWNER);
	check_order(101, 3, OF_FIRST);
}

// The victim puts its packets into a ring to worker 2, which sends them.
TEST(a_flow_does_not_overtake_itself_behind_a_transmit_ring) {
	check_order(102, 2, OF_FIRST);
}

// The move does not wait for a packet of another bucket that the device gets after the last packet
// of the moving bucket.
TEST(a_move_does_not_wait_for_newer_packets) {
	struct rig *rig = make(103, 3, tell);
	uint32_t bucket, other = moves_rig_begin_from(rig, 0, &bucket);
	struct moving moving = begin_from(rig, other + IN_PORTS, OF_OWNER);

	assert_int_not_equal(bucket, moving.bucket);
	moves_rig_send_packet(rig, other);
	check_waits(rig, &moving, OF_OWNER);
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[moving.queue]), 2);
	moves_rig_receive(rig, moving.queue, 1);
	check_waits(rig, &moving, OF_OWNER);
	pass(rig, UNREPORTED_NS + 1);
	moves_rig_turn_all(rig, 20);
	assert_true(has_moved(rig, &moving, OF_OWNER));
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[moving.queue]), 1);
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent);
	moves_rig_unmake(rig);
}

// Both workers send on the same queue, so the thief's packets follow the victim's packets.
TEST(a_move_does_not_wait_for_a_queue_used_by_both) {
	struct rig *rig = make(104, 2, tell);
	struct moving moving = begin(rig, OF_OWNER);

	assert_true(has_moved(rig, &moving, OF_OWNER));
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[moving.queue]), 2);
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent);
	moves_rig_unmake(rig);
}

static void check_bounded(unsigned int number, uint16_t queues, int (*driver)(void *, uint16_t)) {
	struct rig *rig = make(number, queues, driver);
	struct moving moving = begin(rig, OF_FIRST);

	check_waits(rig, &moving, OF_FIRST);
	pass(rig, WAIT_NS);
	check_waits(rig, &moving, OF_FIRST);
	pass(rig, 1);
	moves_rig_turn_all(rig, 20);
	assert_true(has_moved(rig, &moving, OF_FIRST));
	moves_rig_receive(rig, moving.queue, 1);
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent);
	moves_rig_unmake(rig);
}

TEST(a_move_waits_a_millisecond_for_a_driver_without_status) {
	check_bounded(105, 3, NULL);
	check_bounded(106, 3, report_none);
	check_bounded(107, 2, NULL);
	check_bounded(108, 2, report_none);
}

// The clock is stopped, and the device reports no status. The move ends at once nevertheless,
// because otherwise packets of the bucket would be lost.
TEST(a_thief_that_holds_many_packets_gets_the_bucket_at_once) {
	struct rig *rig = make(109, 3, report_none);
	struct moving moving = begin(rig, OF_FIRST);
	const struct weir_steal_counters *counters = rig->lab->segment->steal_counters;
	uint16_t other = rig->transmit->path[OUT][OF_FIRST].queue;

	for (uint32_t i = 1; i < WEIR_HOLD_PACKETS / 2; i++) {
		assert_true(has_moved(rig, &moving, VICTIM));
		assert_int_equal(counters[OF_FIRST].held_packets, i);
		moves_rig_send_packet(rig, moving.flow);
		moves_rig_turn_all(rig, 1);
	}
	moves_rig_turn_all(rig, 60);
	assert_true(has_moved(rig, &moving, OF_FIRST));
	assert_int_equal(counters[OF_FIRST].held_packets, WEIR_HOLD_PACKETS / 2);
	assert_int_equal(rte_ring_count(rig->ring[OUT].from[other]), WEIR_HOLD_PACKETS / 2);
	moves_rig_receive(rig, moving.queue, 1);
	moves_rig_receive_all(rig);
	assert_int_equal(rig->received, rig->sent);
	// The next move waits for the device again.
	moving.flow = moves_rig_begin_from(rig, moving.flow + IN_PORTS, &moving.bucket);
	moves_rig_ask(rig, VICTIM, moving.bucket, OF_FIRST, UINT64_MAX);
	check_waits(rig, &moving, OF_FIRST);
	moves_rig_unmake(rig);
}
