// SPDX-License-Identifier: BSD-3-Clause
//
// Moves of buckets, step by step, with real rings. tests/stress/moves.c tests moves with threads
// and flow tables.
#include "moves.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_ring.h>

#include "device_lab.h"
#include "test.h"
#include "verdict.h"

#define WORKERS 4
#define PORTS 2
#define V 1 // the victim, which has bucket 1 and distributes port 1
#define A 2
#define BUCKET 1
#define LATER 1000

struct moves_lab {
	struct weir_distributor *distributor[PORTS];
	struct weir_moves *moves;
	struct weir_mover *victim, *thief;
};

static struct moves_lab make(void) {
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct moves_lab lab;
	struct weir_moves_params params = {.workers = WORKERS,
		.distributors = PORTS,
		.distributor = lab.distributor,
		.parcel = parcels,
		.socket = SOCKET_ID_ANY};

	for (uint32_t p = 0; p < PORTS; p++) {
		assert_int_equal(
			weir_distributor_create(p, WORKERS, p, SOCKET_ID_ANY, &lab.distributor[p]),
			0);
	}
	assert_int_equal(weir_moves_create(&params, &lab.moves), 0);
	lab.victim = &lab.moves->mover[V];
	lab.thief = &lab.moves->mover[A];
	return lab;
}

static uint16_t held(
	struct weir_mover *mover, struct rte_mbuf **pkts, uint16_t max, uint8_t *ret_in_port) {
	struct weir_hold *hold = weir_mover_held(mover);

	return hold == NULL ? 0 : weir_hold_take(hold, pkts, max, ret_in_port);
}

static uint32_t due(struct weir_mover *mover) {
	struct weir_hold *hold = weir_mover_held(mover);

	return hold == NULL ? 0 : weir_hold_due(hold);
}

static void unmake(struct moves_lab *lab) {
	weir_moves_free(lab->moves);
	for (uint32_t p = 0; p < PORTS; p++) {
		weir_distributor_free(lab->distributor[p]);
	}
	assert_int_equal(device_lab_in_use(), 0);
}

static struct rte_mbuf *packet(uint32_t bucket) {
	struct rte_mbuf *m = rte_pktmbuf_alloc(device_lab_pool());

	assert_non_null(m);
	weir_distributor_mark(m, bucket);
	return m;
}

// Pass a packet of this bucket to the bucket's worker, as a worker with a distributor does.
static struct rte_mbuf *put(struct moves_lab *lab, uint32_t port, uint32_t bucket) {
	struct weir_distributor *distributor = lab->distributor[port];
	uint32_t target = weir_distributor_worker(distributor, bucket);
	struct rte_mbuf *m = packet(bucket);

	assert_int_equal(rte_ring_sp_enqueue(distributor->ring[target], m), 0);
	distributor->put[target]++;
	return m;
}

static struct rte_mbuf *take(struct moves_lab *lab, uint8_t port, struct weir_mover *mover) {
	struct rte_mbuf *m;

	if (rte_ring_sc_dequeue(lab->distributor[port]->ring[mover->worker], (void **)&m) < 0) {
		return NULL;
	}
	weir_mover_took(mover, port, 1);
	return m;
}

static enum weir_bucket_answer ask(struct weir_mover *mover, uint32_t bucket, uint32_t thief) {
	return weir_mover_request(mover, bucket, thief, LATER, LATER, true);
}

static void switch_all(struct moves_lab *lab) {
	for (uint32_t p = 0; p < PORTS; p++) {
		weir_distributor_switch(lab->distributor[p]);
	}
}

// Do everything that two workers do in iterations without packets.
static void move(struct moves_lab *lab, struct weir_mover *victim, struct weir_mover *thief) {
	uint32_t bucket;

	switch_all(lab);
	assert_int_equal(weir_mover_give(victim), WEIR_GIVING_RELEASE);
	weir_mover_released(victim);
	assert_non_null(weir_mover_adopt(thief));
	weir_mover_adopted(thief);
	assert_true(weir_mover_end(thief, &bucket));
	assert_int_equal(weir_mover_give(victim), WEIR_GIVING_SETTLE);
	weir_mover_settled(victim);
	assert_int_equal(weir_mover_give(victim), WEIR_GIVING_NOTHING);
}

TEST_GROUP(device_lab_eal);

TEST(a_move_goes_through_its_states) {
	struct moves_lab lab = make();
	uint32_t bucket = 0;

	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	assert_true(weir_mover_is_taking(lab.thief)); // before any distributor switches
	assert_null(weir_mover_adopt(lab.thief));
	assert_false(weir_mover_end(lab.thief, &bucket));
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_NOTHING);
	weir_distributor_switch(lab.distributor[0]);
	// the other distributor has not switched
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_NOTHING);
	weir_distributor_switch(lab.distributor[1]);
	for (uint32_t p = 0; p < PORTS; p++) {
		assert_int_equal(weir_distributor_worker(lab.distributor[p], BUCKET), A);
	}
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_RELEASE);
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_RELEASE); // give the next slice
	assert_null(weir_mover_adopt(lab.thief));
	weir_mover_released(lab.victim);
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_NOTHING);
	assert_ptr_equal(weir_mover_adopt(lab.thief), &lab.victim->move);
	assert_false(weir_mover_end(lab.thief, &bucket)); // the part is not adopted yet
	weir_mover_adopted(lab.thief);
	assert_null(weir_mover_adopt(lab.thief));
	assert_int_equal(lab.moves->owner[BUCKET], V);
	assert_true(weir_mover_end(lab.thief, &bucket));
	assert_int_equal(bucket, BUCKET);
	assert_int_equal(lab.moves->owner[BUCKET], A);
	assert_false(weir_mover_is_taking(lab.thief));
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_SETTLE);
	weir_mover_settled(lab.victim);
	unmake(&lab);
}

TEST(the_victim_processes_all_packets_from_before_the_switch) {
	struct moves_lab lab = make();
	struct rte_mbuf *m;

	(void)put(&lab, 0, BUCKET);
	(void)put(&lab, 0, BUCKET + WORKERS);
	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	m = put(&lab, 0, BUCKET); // the last packet of the bucket before the switch
	assert_int_equal(weir_distributor_worker(lab.distributor[0], BUCKET), V);
	switch_all(&lab);
	(void)put(&lab, 0, BUCKET + WORKERS); // a packet after the switch
	for (unsigned int i = 0; i < 3; i++) {
		struct rte_mbuf *taken;

		assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_NOTHING);
		taken = take(&lab, 0, lab.victim);
		if (i == 2) {
			assert_ptr_equal(taken, m);
		}
		rte_pktmbuf_free(taken);
	}
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_RELEASE);
	assert_int_equal(rte_ring_count(lab.distributor[0]->ring[V]), 1);
	unmake(&lab);
}

TEST(the_thief_holds_only_packets_of_the_bucket) {
	struct moves_lab lab = make();
	struct rte_mbuf *pkts[4], *out[4];
	uint32_t bucket;
	uint16_t refused;
	uint8_t port;

	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	switch_all(&lab);
	for (unsigned int i = 0; i < 4; i++) {
		pkts[i] = packet(i % 2 == 0 ? BUCKET : A);
	}
	memcpy(out, pkts, sizeof(out));
	assert_int_equal(weir_mover_hold(lab.thief, out, 4, 0, &refused), 2);
	assert_int_equal(refused, 0);
	assert_ptr_equal(out[0], pkts[1]);
	assert_ptr_equal(out[1], pkts[3]);
	out[0] = packet(BUCKET);
	assert_int_equal(weir_mover_hold(lab.thief, out, 1, 1, &refused), 0);
	// the part of the bucket has not arrived
	assert_int_equal(held(lab.thief, out, 4, &port), 0);
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_RELEASE);
	weir_mover_released(lab.victim);
	weir_mover_adopted(lab.thief);
	assert_false(weir_mover_end(lab.thief, &bucket)); // packets wait in the ring
	assert_int_equal(held(lab.thief, out, 4, &port), 2);
	assert_int_equal(port, 0);
	assert_ptr_equal(out[0], pkts[0]);
	assert_ptr_equal(out[1], pkts[2]);
	assert_int_equal(held(lab.thief, out, 4, &port), 1);
	assert_int_equal(port, 1);
	rte_pktmbuf_free(out[0]);
	assert_int_equal(held(lab.thief, out, 4, &port), 0);
	assert_true(weir_mover_end(lab.thief, &bucket));
	rte_pktmbuf_free_bulk(pkts, 4);
	unmake(&lab);
}

TEST(a_full_hold_queue_refuses_and_keeps_the_order) {
	struct moves_lab lab = make();
	struct rte_mbuf *first = packet(BUCKET), *pkts[3];
	uint16_t refused;
	uint8_t port;

	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	pkts[0] = first;
	assert_int_equal(weir_mover_hold(lab.thief, pkts, 1, 0, &refused), 0);
	for (unsigned int i = 1; i < WEIR_HOLD_PACKETS; i++) {
		pkts[0] = packet(BUCKET);
		assert_int_equal(weir_mover_hold(lab.thief, pkts, 1, 0, &refused), 0);
		assert_int_equal(refused, 0);
	}
	pkts[0] = packet(BUCKET);
	pkts[1] = packet(A);
	pkts[2] = packet(BUCKET);
	assert_int_equal(weir_mover_hold(lab.thief, pkts, 3, 0, &refused), 1);
	assert_int_equal(refused, 2);
	assert_int_equal(weir_distributor_bucket_of(pkts[0]), A);
	assert_int_equal(weir_distributor_bucket_of(pkts[1]), BUCKET);
	assert_int_equal(weir_distributor_bucket_of(pkts[2]), BUCKET);
	rte_pktmbuf_free_bulk(pkts, 3);
	weir_mover_adopted(lab.thief);
	assert_int_equal(held(lab.thief, pkts, 1, &port), 1);
	assert_ptr_equal(pkts[0], first);
	rte_pktmbuf_free(first);
	unmake(&lab); // frees the other packets
}

static void hold_n(struct moves_lab *lab, unsigned int n) {
	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *m = packet(BUCKET);
		uint16_t refused;

		assert_int_equal(weir_mover_hold(lab->thief, &m, 1, 0, &refused), 0);
		assert_int_equal(refused, 0);
	}
}

static void take_held(struct moves_lab *lab, uint16_t n) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint8_t port;

	assert_int_equal(held(lab->thief, pkts, n, &port), n);
	rte_pktmbuf_free_bulk(pkts, n);
}

TEST(each_turn_processes_a_burst_more_than_has_arrived) {
	struct moves_lab lab = make();
	uint32_t bucket;

	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	switch_all(&lab);
	hold_n(&lab, 3 * WEIR_BURST);
	assert_int_equal(due(lab.thief), 0); // the part is not adopted
	assert_int_equal(weir_mover_give(lab.victim), WEIR_GIVING_RELEASE);
	weir_mover_released(lab.victim);
	weir_mover_adopted(lab.thief);
	assert_int_equal(due(lab.thief), WEIR_BURST);
	take_held(&lab, WEIR_BURST);
	hold_n(&lab, 10);
	assert_int_equal(due(lab.thief), WEIR_BURST + 10);
	// Packets that were not processed for lack of room are not processed all at once later.
	assert_int_equal(due(lab.thief), WEIR_BURST);
	take_held(&lab, WEIR_BURST);
	take_held(&lab, WEIR_BURST);
	assert_int_equal(due(lab.thief), 10);
	take_held(&lab, 10);
	assert_int_equal(due(lab.thief), 0);
	assert_true(weir_mover_end(lab.thief, &bucket));
	unmake(&lab);
}

// A refused request changes nothing.
static void check_untouched(const struct moves_lab *lab) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(lab->moves->mover[w].taking, 0);
		assert_int_equal(lab->moves->mover[w].move.state, WEIR_MOVING_NOTHING);
	}
	for (uint32_t p = 0; p < PORTS; p++) {
		assert_int_equal(lab->distributor[p]->requested, 0);
	}
}

TEST(every_refusal_has_its_reason) {
	struct moves_lab lab = make();
	struct weir_mover *victim = lab.victim;

	assert_int_equal(
		weir_mover_request(victim, BUCKET, A, LATER, LATER, false), WEIR_BUCKET_OFF);
	assert_int_equal(
		weir_mover_request(victim, BUCKET, A, LATER, LATER + 1, true), WEIR_BUCKET_LATE);
	assert_int_equal(ask(victim, WEIR_BUCKETS, A), WEIR_BUCKET_OUT_OF_RANGE);
	assert_int_equal(ask(victim, UINT32_MAX, A), WEIR_BUCKET_OUT_OF_RANGE);
	assert_int_equal(ask(victim, BUCKET, WORKERS), WEIR_BUCKET_OUT_OF_RANGE);
	assert_int_equal(ask(victim, BUCKET, UINT32_MAX), WEIR_BUCKET_OUT_OF_RANGE);
	assert_int_equal(ask(victim, BUCKET, V), WEIR_BUCKET_SELF);
	assert_int_equal(ask(victim, A, A), WEIR_BUCKET_NOT_OWNER);
	check_untouched(&lab);
	assert_int_equal(ask(victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	assert_int_equal(ask(victim, BUCKET, A), WEIR_BUCKET_BUSY); // requested twice
	assert_int_equal(ask(victim, BUCKET + WORKERS, 3), WEIR_BUCKET_BUSY); // the victim is busy
	assert_int_equal(ask(&lab.moves->mover[3], 3, A), WEIR_BUCKET_BUSY); // the thief is busy
	assert_int_equal(lab.moves->mover[3].move.state, WEIR_MOVING_NOTHING);
	// A thief may be a victim at the same time, even of its own victim.
	assert_int_equal(ask(lab.thief, A, V), WEIR_BUCKET_CONFIRMED);
	// the bucket has not moved yet
	assert_int_equal(ask(lab.thief, BUCKET, V), WEIR_BUCKET_NOT_OWNER);
	unmake(&lab);
}

TEST(a_bucket_moves_around_and_returns) {
	struct moves_lab lab = make();

	for (unsigned int i = 0; i < 12; i++) {
		uint32_t owner = (V + i) % WORKERS, next = (owner + 1) % WORKERS;
		struct weir_mover *victim = &lab.moves->mover[owner];

		assert_int_equal(ask(victim, BUCKET, next), WEIR_BUCKET_CONFIRMED);
		move(&lab, victim, &lab.moves->mover[next]);
		assert_int_equal(ask(victim, BUCKET, next), WEIR_BUCKET_NOT_OWNER);
		assert_int_equal(lab.moves->owner[BUCKET], next);
	}
	check_untouched(&lab);
	unmake(&lab);
}

// The dataplane stops in the middle of a move. Held packets must be freed.
TEST(an_end_in_the_middle_leaks_nothing) {
	struct moves_lab lab = make();
	struct rte_mbuf *m = packet(BUCKET);
	uint16_t refused;

	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	switch_all(&lab);
	(void)put(&lab, 0, BUCKET);
	assert_int_equal(weir_mover_hold(lab.thief, &m, 1, 0, &refused), 0);
	unmake(&lab);
}

// --- back pressure --------------------------------------------------------------------------

static void fill(struct moves_lab *lab, uint32_t worker, uint32_t packets) {
	for (uint32_t i = 0; i < packets; i++) {
		(void)put(lab, 0, worker);
	}
}

TEST(a_crowded_ring_gives_its_busiest_bucket_to_the_shortest) {
	struct moves_lab lab = make();
	struct weir_distributor *distributor = lab.distributor[0];
	const uint32_t second = BUCKET + WORKERS, third = BUCKET + 2 * WORKERS;
	struct rte_mbuf *pkts[8];
	uint32_t bucket = 0, thief = 0;

	for (unsigned int i = 0; i < 8; i++) {
		pkts[i] = packet(i < 4 ? BUCKET : i < 7 ? second : third);
	}
	fill(&lab, 2, 10);
	fill(&lab, 3, 5);
	weir_moves_press(lab.moves, distributor, V, pkts, 8, WEIR_URGENT_NS);
	assert_true(weir_mover_pressed(lab.victim, &bucket, &thief));
	assert_int_equal(bucket, BUCKET);
	assert_int_equal(thief, 3);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	// No bucket moves before a millisecond has passed.
	weir_moves_press(lab.moves, distributor, V, pkts, 8, 2 * WEIR_URGENT_NS - 1);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	// A bucket with more than half of the packets stays. The next busiest bucket moves.
	weir_distributor_mark(pkts[7], BUCKET);
	weir_moves_press(lab.moves, distributor, V, pkts, 8, 2 * WEIR_URGENT_NS);
	assert_true(weir_mover_pressed(lab.victim, &bucket, &thief));
	assert_int_equal(bucket, second);
	// If all packets of the burst belong to one bucket, no bucket moves.
	weir_moves_press(lab.moves, distributor, V, pkts, 4, 3 * WEIR_URGENT_NS);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	// No worker's ring is short enough.
	fill(&lab, 2, WEIR_DISTRIBUTOR_RING / 4);
	fill(&lab, 3, WEIR_DISTRIBUTOR_RING / 4);
	weir_moves_press(lab.moves, distributor, V, pkts, 8, 4 * WEIR_URGENT_NS);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	rte_pktmbuf_free_bulk(pkts, 8);
	unmake(&lab);
}

TEST(an_unsuccessful_search_is_not_repeated_at_once) {
	struct moves_lab lab = make();
	struct weir_distributor *distributor = lab.distributor[0];
	struct rte_mbuf *pkts[8];
	uint32_t bucket = 0, thief = 0;

	for (unsigned int i = 0; i < 8; i++) {
		pkts[i] = packet(i < 4 ? BUCKET : BUCKET + WORKERS);
	}
	// All four packets belong to one bucket, so no bucket moves.
	weir_moves_press(lab.moves, distributor, V, pkts, 4, WEIR_URGENT_NS);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	weir_moves_press(lab.moves, distributor, V, pkts, 8, 2 * WEIR_URGENT_NS - 1);
	assert_false(weir_mover_pressed(lab.victim, &bucket, &thief));
	// A burst of one packet causes no search for a bucket to move.
	weir_moves_press(lab.moves, distributor, V, pkts, 1, 2 * WEIR_URGENT_NS);
	weir_moves_press(lab.moves, distributor, V, pkts, 8, 2 * WEIR_URGENT_NS);
	assert_true(weir_mover_pressed(lab.victim, &bucket, &thief));
	rte_pktmbuf_free_bulk(pkts, 8);
	unmake(&lab);
}

TEST(invalid_parameters_are_refused_for_moves) {
	struct moves_lab lab = make();
	struct weir_distributor *distributor[WEIR_PORTS_MAX + 1] = {
		lab.distributor[0], lab.distributor[1]};
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct weir_moves_params params = {.workers = WORKERS,
		.distributors = PORTS,
		.distributor = distributor,
		.parcel = parcels,
		.socket = SOCKET_ID_ANY};
	struct weir_moves *moves = NULL;

	params.workers = 1;
	assert_int_equal(weir_moves_create(&params, &moves), -EINVAL);
	params.workers = WORKERS;
	params.distributors = 0;
	assert_int_equal(weir_moves_create(&params, &moves), -EINVAL);
	params.distributors = WEIR_PORTS_MAX + 1;
	assert_int_equal(weir_moves_create(&params, &moves), -EINVAL);
	params.distributors = PORTS + 1; // the device of the third port distributes its packets
	assert_int_equal(weir_moves_create(&params, &moves), -EINVAL);
	params.distributors = PORTS;
	lab.distributor[1]->worker[7] = 0;
	assert_int_equal(weir_moves_create(&params, &moves), -EINVAL);
	assert_null(moves);
	weir_moves_free(NULL);
	unmake(&lab);
}

// --- shifts ---------------------------------------------------------------------------------

// V owns all buckets that have the same low bits as BUCKET. Request that V receives the packets of
// these buckets from its own queue.
static void ask_for_shift(struct moves_lab *lab) {
	weir_shift_request(
		lab->moves, WORKERS - 1, BUCKET, lab->distributor[1], &lab->distributor[0], 1);
}

static void poll(struct weir_distributor *distributor, uint16_t n) {
	weir_distributor_switch(distributor);
	weir_distributor_received(distributor, n);
}

TEST(a_shift_holds_until_other_queues_are_empty) {
	struct moves_lab lab = make();
	struct rte_mbuf *pkts[2] = {packet(BUCKET + WORKERS), packet(A)};
	struct weir_hold *hold;
	uint16_t refused;
	uint8_t port;

	ask_for_shift(&lab);
	assert_true(weir_mover_is_shifting(lab.victim));
	assert_int_equal(
		weir_mover_hold_shift(lab.victim, lab.distributor[1], pkts, 2, 1, &refused), 2);
	assert_null(weir_mover_shift(lab.victim));
	assert_int_equal(weir_shift_state(lab.moves), WEIR_SHIFT_HOLDING);
	assert_int_equal(
		weir_mover_hold_shift(lab.victim, lab.distributor[0], pkts, 2, 0, &refused), 2);
	assert_int_equal(
		weir_mover_hold_shift(lab.victim, lab.distributor[1], pkts, 2, 1, &refused), 1);
	assert_int_equal(refused, 0);
	assert_int_equal(weir_distributor_bucket_of(pkts[0]), A);
	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_BUSY);
	lab.distributor[0]->put[V] = 3;
	weir_shift_drain(lab.moves);
	assert_null(weir_mover_shift(lab.victim));
	weir_distributor_received(lab.distributor[0], 0); // a poll that began before the request
	poll(lab.distributor[0], 5);
	assert_null(weir_mover_shift(lab.victim));
	lab.distributor[0]->put[V] = 4;
	poll(lab.distributor[0], 0);
	assert_null(weir_mover_shift(lab.victim));
	poll(lab.distributor[0], 7);
	assert_null(weir_mover_shift(lab.victim)); // 4 packets are in the ring
	weir_mover_took(lab.victim, 0, 4);
	hold = weir_mover_shift(lab.victim);
	assert_non_null(hold);
	weir_mover_shift_end(lab.victim); // one packet waits
	assert_true(weir_mover_is_shifting(lab.victim));
	assert_int_equal(weir_hold_take(hold, &pkts[1], 1, &port), 1);
	assert_int_equal(weir_distributor_bucket_of(pkts[1]), BUCKET + WORKERS);
	assert_int_equal(port, 1);
	weir_mover_shift_end(lab.victim);
	assert_false(weir_mover_is_shifting(lab.victim));
	assert_int_equal(weir_shift_state(lab.moves), WEIR_SHIFT_NOTHING);
	assert_int_equal(ask(lab.victim, BUCKET, A), WEIR_BUCKET_CONFIRMED);
	rte_pktmbuf_free_bulk(pkts, 2);
	unmake(&lab);
}

// The queue of an overloaded worker is never empty. A shift must end nevertheless.
TEST(a_queue_that_is_never_empty_ends_a_shift) {
	struct moves_lab lab = make();
	uint32_t polls = 0;

	ask_for_shift(&lab);
	assert_null(weir_mover_shift(lab.victim));
	weir_shift_drain(lab.moves);
	while (weir_mover_shift(lab.victim) == NULL) {
		poll(lab.distributor[0], WEIR_BURST);
		polls++;
	}
	assert_int_equal(polls, WEIR_DISTRIBUTOR_DRAIN / WEIR_BURST + 1);
	unmake(&lab);
}

TEST(a_shift_is_refused_unless_one_worker_owns_and_keeps_all_buckets) {
	struct moves_lab lab = make();

	assert_int_equal(ask(lab.victim, BUCKET + WORKERS, A), WEIR_BUCKET_CONFIRMED);
	ask_for_shift(&lab);
	assert_null(weir_mover_shift(lab.victim));
	// One of the buckets is moving.
	assert_int_equal(weir_shift_state(lab.moves), WEIR_SHIFT_REFUSED);
	assert_false(weir_mover_is_shifting(lab.victim));
	unmake(&lab);
	lab = make();
	lab.moves->owner[BUCKET + 2 * WORKERS] = A;
	ask_for_shift(&lab);
	assert_null(weir_mover_shift(lab.victim));
	assert_int_equal(weir_shift_state(lab.moves), WEIR_SHIFT_REFUSED);
	unmake(&lab);
}
