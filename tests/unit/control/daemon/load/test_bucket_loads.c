// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_loads.h"
#include "test.h"

#include <math.h>
#include <string.h>

#define WORKERS 3

// Each of the buckets 0, 1 and 2 belongs to the worker of the same number. The other buckets belong
// to no worker.
struct lab {
	struct weir_bucket_look look;
	struct weir_bucket_loads loads;
};

static int setup(void **state) {
	static struct lab lab;

	memset(&lab, 0, sizeof(lab));
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		lab.look.owner[i] = i < WORKERS ? i : WEIR_BUCKET_NO_WORKER;
		lab.look.packets[i] = 1000000; // packets from before the process started
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		lab.look.worker[i].alive = true;
		lab.look.worker[i].busy_cycles = 12345;
	}
	weir_bucket_loads_init(&lab.loads, WORKERS, &lab.look);
	*state = &lab;
	return 0;
}

static void work(struct lab *lab, uint32_t worker, uint64_t busy, uint64_t idle) {
	lab->look.worker[worker].busy_cycles += busy;
	lab->look.worker[worker].idle_cycles += idle;
}

static void assert_near(double got, double expected) {
	if (fabs(got - expected) > 1e-9) {
		fail_msg("%.9f, expected %.9f", got, expected);
	}
}

TEST_EACH(setup);

TEST(nothing_is_known_before_the_first_tick) {
	struct lab *lab = *state;

	lab->look.packets[0] += 5;
	weir_bucket_loads_note(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 0);
	assert_near(weir_bucket_loads_base(&lab->loads, 0), 0);
}

TEST(busy_time_is_divided_by_packets) {
	struct lab *lab = *state;

	lab->look.owner[3] = 0; // worker 0 owns buckets 0 and 3
	weir_bucket_loads_init(&lab->loads, WORKERS, &lab->look);
	work(lab, 0, 800, 200);
	lab->look.packets[0] += 30;
	lab->look.packets[3] += 10;
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 0.6);
	assert_near(weir_bucket_loads_of(&lab->loads, 3), 0.2);
	assert_near(weir_bucket_loads_of(&lab->loads, 1), 0);
	assert_near(lab->loads.worker[0].share, 0.8);
	assert_false(lab->loads.worker[1].alive); // the worker has counted no cycles
	// The result is half of the old value, plus half of the new value.
	work(lab, 0, 200, 800);
	lab->look.packets[0] += 10;
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), (0.6 + 0.2) / 2);
	assert_near(weir_bucket_loads_of(&lab->loads, 3), 0.1);
}

// Packets before the move count for the old worker. Later packets count for the new worker.
TEST(moved_bucket_counts_for_both_workers) {
	struct lab *lab = *state;

	lab->look.packets[0] += 60;
	weir_bucket_loads_note(&lab->loads, &lab->look);
	lab->look.owner[0] = 1;
	weir_bucket_loads_note(&lab->loads, &lab->look); // no packets in between
	lab->look.packets[0] += 40;
	work(lab, 0, 600, 400);
	work(lab, 1, 400, 600);
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	// a hundred packets, each of a hundredth of a worker's time
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 1.0);
	// The bucket moves between two readings, so half of the packets count for each worker.
	lab->look.owner[0] = 2;
	lab->look.packets[0] += 100;
	work(lab, 0, 0, 1000);
	work(lab, 1, 500, 500);
	work(lab, 2, 500, 500);
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 1.0);
}

// Worker 0 receives packets and hands some of them over to worker 1. The time for handing over
// does not count as load of the buckets of worker 0. A packet of worker 0's buckets counts as
// much as a packet of another worker's buckets.
TEST(distributing_is_no_load_of_a_bucket) {
	struct lab *lab = *state;

	lab->look.packets[0] += 10;
	lab->look.packets[1] += 40;
	lab->look.worker[0].handed_over += 40;
	work(lab, 0, 700, 300);
	work(lab, 1, 400, 600);
	work(lab, 2, 0, 1000);
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 0.1);
	assert_near(weir_bucket_loads_base(&lab->loads, 0), 0.6);
	assert_near(weir_bucket_loads_of(&lab->loads, 1), 0.4);
	assert_near(weir_bucket_loads_base(&lab->loads, 1), 0);
}

// Every worker receives packets of a port and hands some over. Handing over a packet is assumed to
// cost half as much as processing a packet.
TEST(all_workers_may_distribute) {
	struct lab *lab = *state;

	for (uint32_t i = 0; i < WORKERS; i++) {
		lab->look.packets[i] += 50;
		lab->look.worker[i].handed_over += 100;
		work(lab, i, 800, 200);
	}
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	for (uint32_t i = 0; i < WORKERS; i++) {
		assert_near(weir_bucket_loads_of(&lab->loads, i), 0.4);
		assert_near(weir_bucket_loads_base(&lab->loads, i), 0.4);
	}
}

TEST(stalled_worker_gives_no_measurement) {
	struct lab *lab = *state;

	lab->look.packets[0] += 10;
	work(lab, 0, 500, 500);
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	lab->look.packets[0] += 10;
	lab->look.worker[0].alive = false;
	weir_bucket_loads_tick(&lab->loads, &lab->look);
	assert_near(weir_bucket_loads_of(&lab->loads, 0), 0.5);
	assert_false(lab->loads.worker[0].alive);
}
