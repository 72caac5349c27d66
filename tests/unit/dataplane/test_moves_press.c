// SPDX-License-Identifier: BSD-3-Clause
//
// Moves that distributors request because rings fill up. The rings, distributors and movers are
// real; the load is about the capacity of two workers, or higher. Time is simulated.
#include "moves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_ring.h>

#include "device_lab.h"
#include "test.h"
#include "verdict.h"

#define WORKERS 3u // worker 0 distributes and has no packets of its own
#define STEP_NS 10000ull
#define SECOND_STEPS (1000000000ull / STEP_NS)
#define CAPACITY 30 // packets that a worker processes in a step
// a release or an adoption takes as long as processing this number of packets
#define MOVE_COST (3 * CAPACITY)
#define TURN_COST 1 // an iteration takes as long as processing this number of packets
#define DRAWS 1024u

struct sim {
	struct weir_distributor *distributor;
	struct weir_moves *moves;
	struct rte_mbuf packet[WEIR_BUCKETS]; // one packet stands for all packets of a bucket
	uint16_t bucket_of[DRAWS]; // the bucket of a packet with this random number
	double per_step; // packets per step
	// packets arrive for this many steps, then none for as many steps; 0 = no pauses
	uint64_t burst_steps;
	bool presses;
	uint64_t now, random;
	double due;
	int64_t budget[WORKERS]; // number of packets that each worker still has time for
	uint64_t sent, processed, dropped, moves_ended;
};

static uint64_t draw(struct sim *sim) {
	sim->random = sim->random * 6364136223846793005ull + 1442695040888963407ull;
	return sim->random >> 33;
}

static struct sim *begin(void) {
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct sim *sim = calloc(1, sizeof(*sim));
	struct weir_moves_params params = {.workers = WORKERS,
		.distributors = 1,
		.distributor = &sim->distributor,
		.parcel = parcels,
		.socket = SOCKET_ID_ANY};

	assert_non_null(sim);
	assert_int_equal(
		weir_distributor_create(0, WORKERS, 0, SOCKET_ID_ANY, &sim->distributor), 0);
	assert_int_equal(weir_moves_create(&params, &sim->moves), 0);
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		weir_distributor_mark(&sim->packet[b], b);
	}
	sim->presses = true;
	sim->now = SECOND_STEPS;
	return sim;
}

static void end(struct sim *sim) {
	for (uint32_t w = 1; w < WORKERS; w++) {
		struct rte_mbuf *m;

		while (rte_ring_sc_dequeue(sim->distributor->ring[w], (void **)&m) == 0) {
		}
		sim->moves->mover[w].hold.first = sim->moves->mover[w].hold.next;
	}
	weir_moves_free(sim->moves);
	weir_distributor_free(sim->distributor);
	free(sim);
}

// Distribute the packets over buckets: of DRAWS packets, `hot` are in one bucket of worker 1. The
// other packets are distributed evenly over `cold` buckets of each worker.
static void load(struct sim *sim, uint32_t hot, uint32_t cold) {
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint32_t other = i % (2 * cold);

		sim->bucket_of[i] =
			(uint16_t)(i < hot ? 1 : WORKERS + other / 2 * WORKERS + 1 + other % 2);
	}
}

// --- the distributor ------------------------------------------------------------------------

// Hand packets over as worker.c does.
static void hand_over(struct sim *sim, uint32_t target, struct rte_mbuf **pkts, uint16_t n) {
	struct weir_distributor *distributor = sim->distributor;
	unsigned int room, taken;

	if (distributor->crowded[target] && sim->presses) {
		weir_moves_press(sim->moves, distributor, target, pkts, n, sim->now * STEP_NS);
	}
	taken = rte_ring_sp_enqueue_burst(distributor->ring[target], (void **)pkts, n, &room);
	distributor->put[target] += taken;
	distributor->crowded[target] = room < WEIR_DISTRIBUTOR_RING / 4;
	sim->dropped += n - taken;
}

static void distribute(struct sim *sim) {
	struct rte_mbuf *pkts[WORKERS][WEIR_BURST];
	uint16_t count[WORKERS] = {0};

	weir_distributor_switch(sim->distributor);
	sim->due +=
		sim->burst_steps == 0 || sim->now / sim->burst_steps % 2 == 0 ? sim->per_step : 0;
	while (sim->due >= 1) {
		uint32_t bucket = sim->bucket_of[draw(sim) % DRAWS];
		uint32_t target = weir_distributor_worker(sim->distributor, bucket);

		assert_true(target > 0);
		sim->due--;
		sim->sent++;
		pkts[target][count[target]++] = &sim->packet[bucket];
		if (count[target] == WEIR_BURST) {
			hand_over(sim, target, pkts[target], count[target]);
			count[target] = 0;
		}
	}
	for (uint32_t w = 1; w < WORKERS; w++) {
		if (count[w] > 0) {
			hand_over(sim, w, pkts[w], count[w]);
		}
	}
}

// --- a worker -------------------------------------------------------------------------------

static void process(struct sim *sim, struct weir_mover *mover, uint16_t n) {
	sim->processed += n;
	sim->budget[mover->worker] -= n;
}

static void process_ring(struct sim *sim, struct weir_mover *mover) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint16_t n = (uint16_t)rte_ring_sc_dequeue_burst(
		sim->distributor->ring[mover->worker], (void **)pkts, WEIR_BURST, NULL);
	uint16_t refused = 0;

	weir_mover_took(mover, 0, n);
	if (n > 0 && weir_mover_is_taking(mover)) {
		n = weir_mover_hold(mover, pkts, n, 0, &refused);
	}
	sim->dropped += refused;
	process(sim, mover, n);
}

static void take_bucket(struct sim *sim, struct weir_mover *mover) {
	struct weir_hold *hold;
	uint32_t bucket;

	if (weir_mover_adopt(mover) != NULL) {
		sim->budget[mover->worker] -= MOVE_COST;
		weir_mover_adopted(mover);
	}
	hold = weir_mover_held(mover);
	if (hold != NULL) {
		uint32_t due = weir_hold_due(hold);
		struct rte_mbuf *pkts[WEIR_BURST];
		uint8_t port;

		while (due > 0) {
			uint16_t n = weir_hold_take(
				hold, pkts, (uint16_t)RTE_MIN(due, WEIR_BURST), &port);

			process(sim, mover, n);
			due -= n;
		}
	}
	sim->moves_ended += weir_mover_end(mover, &bucket);
}

static void turn(struct sim *sim, uint32_t worker) {
	struct weir_mover *mover = &sim->moves->mover[worker];
	uint32_t bucket, thief;

	process_ring(sim, mover);
	if (weir_mover_pressed(mover, &bucket, &thief)) {
		(void)weir_mover_request(mover, bucket, thief, UINT64_MAX, 0, true);
	}
	switch (weir_mover_give(mover)) {
	case WEIR_GIVING_RELEASE:
		sim->budget[worker] -= MOVE_COST;
		weir_mover_released(mover);
		break;
	case WEIR_GIVING_SETTLE:
		weir_mover_settled(mover);
		break;
	case WEIR_GIVING_NOTHING:
		break;
	}
	if (weir_mover_is_taking(mover)) {
		take_bucket(sim, mover);
	}
	sim->budget[worker] -= TURN_COST;
}

static void run(struct sim *sim, uint64_t steps) {
	for (uint64_t i = 0; i < steps; i++) {
		sim->now++;
		distribute(sim);
		for (uint32_t w = 1; w < WORKERS; w++) {
			sim->budget[w] += CAPACITY;
			while (sim->budget[w] > 0) {
				turn(sim, w);
			}
		}
	}
}

static double lost(const struct sim *sim) {
	return (double)sim->dropped / (double)sim->sent;
}

TEST_GROUP(device_lab_eal);

// A bucket can move back and forth several hundred times per second, and each move costs both
// workers time. Under any load, the moves must lose few packets compared with the packets that they
// save.
TEST(moves_of_full_rings_pay) {
	static const struct {
		const char *name;
		uint32_t hot, cold;
		double load; // load as a fraction of the capacity of both workers
		uint64_t burst_steps;
		// Fractions of all packets: the moves may lose at most `more`, and must save at
		// least `less`.
		double more, less;
	} cases[] = {
		{"a bucket of a third", 341, 30, 0.97, 0, 0, 0.1},
		{"a bucket of a third, overload", 341, 30, 1.2, 0, 0, 0.05},
		{"a third each", 341, 1, 0.97, 0, 0, 0.05},
		{"a third each, overload", 341, 1, 1.2, 0, 0, 0.03},
		{"a bucket of a fifth", 205, 30, 0.97, 0, 0, 0.05},
		{"60 buckets", 0, 30, 0.97, 0, 0, 0},
		{"60 buckets, overload", 0, 30, 1.2, 0, 0, 0},
		{"60 buckets, bursts of 2 ms", 0, 30, 1.6, 200, 0.025, 0},
		{"a bucket of a third, bursts of 2 ms", 341, 30, 1.6, 200, 0, 0.005},
		{"a third each, bursts of 2 ms", 341, 1, 1.6, 200, 0.01, 0},
		{"a third each, bursts of 50 ms", 341, 1, 1.2, 5000, 0, 0.03},
	};

	for (uint32_t i = 0; i < RTE_DIM(cases); i++) {
		double without = 0, with;

		for (uint32_t presses = 0; presses < 2; presses++) {
			struct sim *sim = begin();

			load(sim, cases[i].hot, cases[i].cold);
			sim->per_step = cases[i].load * 2 * CAPACITY;
			sim->burst_steps = cases[i].burst_steps;
			sim->presses = presses;
			run(sim, SECOND_STEPS);
			with = lost(sim);
			without = presses ? without : with;
			assert_true(sim->moves_ended <= 1000);
			assert_true(presses || sim->moves_ended == 0);
			if (presses) {
				printf("%-36s %5.2f %% lost, %5.2f %% without moves, %u moves\n",
					cases[i].name, 100 * with, 100 * without,
					(unsigned int)sim->moves_ended);
				assert_true(with <= without + cases[i].more);
				assert_true(cases[i].more > 0 || without - with >= cases[i].less);
			}
			end(sim);
		}
	}
}
