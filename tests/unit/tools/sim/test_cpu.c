// SPDX-License-Identifier: BSD-3-Clause
#include "cpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "prng.h"
#include "sim_lab.h"

#define MS 1000000ull
#define BIG 1000000u

// Runs the CPU until no jobs are left. Records when each job has ended.
static void run_out(struct weir_sim_cpu *cpu, uint64_t *end_ns) {
	uint64_t next_ns;
	uint32_t id;

	while ((next_ns = weir_sim_cpu_next(cpu)) != UINT64_MAX) {
		assert_true(weir_sim_cpu_take(cpu, next_ns, &id));
		end_ns[id] = next_ns;
	}
}

TEST(cpu_fifo_runs_in_order_on_its_cores) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[4];

	weir_sim_cpu_init(&cpu, 2, false, 1.0, BIG);
	assert_int_equal(weir_sim_cpu_add(&cpu, 0, 0, 10 * MS), 0);
	assert_int_equal(weir_sim_cpu_add(&cpu, 0, 1, 4 * MS), 0);
	assert_int_equal(weir_sim_cpu_add(&cpu, 1 * MS, 2, 20 * MS), 0);
	assert_int_equal(weir_sim_cpu_add(&cpu, 2 * MS, 3, 1 * MS), 0);
	run_out(&cpu, end_ns);
	assert_int_equal(end_ns[1], 4 * MS);
	assert_int_equal(end_ns[0], 10 * MS);
	assert_int_equal(end_ns[3], 11 * MS); // waits until job 0 releases its core
	assert_int_equal(end_ns[2], 24 * MS); // ran on the core of job 1
	assert_true(fabs(weir_sim_cpu_busy(&cpu, 30 * MS) - 35.0 * MS) < 1);
	weir_sim_cpu_fini(&cpu);
}

// Three jobs of 2, 4 and 6 ms on one core. While n jobs run, each gets 1/n of the core.
TEST(cpu_sharing_is_exact) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[3];

	weir_sim_cpu_init(&cpu, 1, true, 1.0, BIG);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(weir_sim_cpu_add(&cpu, 0, i, (double)(2 * (i + 1) * MS)), 0);
	}
	run_out(&cpu, end_ns);
	assert_int_equal(end_ns[0], 6 * MS); // 2 ms * 3 jobs
	assert_int_equal(end_ns[1], 10 * MS); // plus 2 ms * 2 jobs
	assert_int_equal(end_ns[2], 12 * MS); // plus 2 ms * 1 job
	weir_sim_cpu_fini(&cpu);
}

TEST(cpu_sharing_gives_a_job_one_core_at_most) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[3];

	weir_sim_cpu_init(&cpu, 2, true, 2.0, BIG);
	assert_int_equal(weir_sim_cpu_add(&cpu, 0, 0, 8 * MS), 0);
	assert_int_equal(weir_sim_cpu_next(&cpu), 4 * MS);
	assert_int_equal(weir_sim_cpu_add(&cpu, 1 * MS, 1, 6 * MS), 0);
	assert_int_equal(weir_sim_cpu_next(&cpu), 4 * MS); // each job has a core
	assert_int_equal(weir_sim_cpu_add(&cpu, 1 * MS, 2, 6 * MS), 0);
	run_out(&cpu, end_ns);
	// From 1 ms on, 3 jobs share 2 cores of speed 2: 4/3 ms of work per ms for each.
	assert_int_equal(end_ns[0], 5500000);
	assert_int_equal(end_ns[1], 5500000);
	assert_int_equal(end_ns[2], 5500000);
	weir_sim_cpu_fini(&cpu);
}

// Compares the CPU with a simulation in small time steps, with random jobs and changes of speed.
TEST(cpu_sharing_agrees_with_small_steps) {
	struct weir_prng prng = {.state = 11};
	struct weir_sim_cpu cpu = {0};
	double left[40], speed = 1.0;
	uint64_t end_ns[40] = {0}, step_end_ns[40] = {0};
	uint32_t jobs = 0, id;

	weir_sim_cpu_init(&cpu, 3, true, speed, BIG);
	for (uint64_t now = 0; now < 400000; now++) {
		uint32_t running = 0;
		double each;

		while (weir_sim_cpu_take(&cpu, now, &id)) {
			end_ns[id] = now;
		}
		if (now % 1000 == 0 && jobs < 40) {
			left[jobs] = 1.0 + weir_prng_below(&prng, 8000);
			assert_int_equal(weir_sim_cpu_add(&cpu, now, jobs, left[jobs]), 0);
			jobs++;
		}
		if (now % 3777 == 0) {
			speed = 0.5 + weir_prng_below(&prng, 10) / 10.0;
			weir_sim_cpu_set_speed(&cpu, now, speed);
		}
		for (uint32_t i = 0; i < jobs; i++) {
			running += left[i] > 0;
		}
		each = running > 3 ? speed * 3 / running : speed;
		for (uint32_t i = 0; i < jobs; i++) {
			if (left[i] > 0) {
				left[i] -= each;
				step_end_ns[i] = left[i] <= 0 ? now + 1 : 0;
			}
		}
	}
	for (uint32_t i = 0; i < 40; i++) {
		// The two results differ a little, because the simulation with steps does not use
		// the remaining time of a step in which a job ends.
		assert_true(end_ns[i] > 0 && step_end_ns[i] > 0);
		assert_true(llabs((long long)end_ns[i] - (long long)step_end_ns[i]) <= 20);
	}
	weir_sim_cpu_fini(&cpu);
}

TEST(cpu_speed_changes_running_jobs) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[1];

	weir_sim_cpu_init(&cpu, 1, false, 1.0, BIG);
	assert_int_equal(weir_sim_cpu_add(&cpu, 0, 0, 10 * MS), 0);
	weir_sim_cpu_set_speed(&cpu, 4 * MS, 0.5);
	run_out(&cpu, end_ns);
	assert_int_equal(end_ns[0], 16 * MS);
	weir_sim_cpu_fini(&cpu);
}

TEST(cpu_full_queue_refuses) {
	struct weir_sim_cpu cpu = {0};

	for (int sharing = 0; sharing < 2; sharing++) {
		weir_sim_cpu_init(&cpu, 2, sharing == 1, 1.0, 3);
		for (uint32_t i = 0; i < 5; i++) {
			assert_int_equal(weir_sim_cpu_add(&cpu, 0, i, 1000), 0);
		}
		assert_int_equal(weir_sim_cpu_add(&cpu, 0, 5, 1000), -ENOSPC);
		weir_sim_cpu_fini(&cpu);
	}
}

TEST(cpu_clear_drops_jobs_and_keeps_used_time) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[9];

	weir_sim_cpu_init(&cpu, 1, false, 1.0, BIG);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(weir_sim_cpu_add(&cpu, 0, i, 10 * MS), 0);
	}
	weir_sim_cpu_clear(&cpu, 4 * MS);
	assert_true(weir_sim_cpu_next(&cpu) == UINT64_MAX);
	assert_true(weir_sim_cpu_busy(&cpu, 9 * MS) == 4.0 * MS);
	assert_int_equal(weir_sim_cpu_add(&cpu, 9 * MS, 8, 1 * MS), 0);
	run_out(&cpu, end_ns);
	assert_int_equal(end_ns[8], 10 * MS);
	weir_sim_cpu_fini(&cpu);
}

TEST(cpu_removes_only_waiting_jobs) {
	struct weir_sim_cpu cpu = {0};
	uint64_t end_ns[9] = {0};

	weir_sim_cpu_init(&cpu, 1, false, 1.0, BIG);
	for (uint32_t i = 0; i < 9; i++) { // 8 jobs wait, so the ring is full
		assert_int_equal(weir_sim_cpu_add(&cpu, 0, i, MS), 0);
	}
	assert_int_equal(weir_sim_cpu_running(&cpu, 0), 0);
	assert_int_equal(weir_sim_cpu_waiting(&cpu, 0), 1);
	assert_int_equal(weir_sim_cpu_waiting(&cpu, 7), 8);
	assert_false(weir_sim_cpu_remove(&cpu, 0)); // job 0 is running
	assert_false(weir_sim_cpu_remove(&cpu, 9)); // job 9 never existed
	assert_true(weir_sim_cpu_remove(&cpu, 8));
	assert_true(weir_sim_cpu_remove(&cpu, 1));
	assert_true(weir_sim_cpu_remove(&cpu, 4));
	assert_false(weir_sim_cpu_remove(&cpu, 4));
	run_out(&cpu, end_ns);
	assert_int_equal(end_ns[0], MS);
	assert_int_equal(end_ns[2], 2 * MS);
	assert_int_equal(end_ns[3], 3 * MS);
	assert_int_equal(end_ns[5], 4 * MS);
	assert_int_equal(end_ns[6], 5 * MS);
	assert_int_equal(end_ns[7], 6 * MS);
	assert_int_equal(end_ns[1] + end_ns[4] + end_ns[8], 0);
	weir_sim_cpu_fini(&cpu);
}

TEST(cpu_takes_nothing_before_its_end) {
	struct weir_sim_cpu cpu = {0};
	uint32_t id;

	weir_sim_cpu_init(&cpu, 1, false, 1.0, BIG);
	assert_false(weir_sim_cpu_take(&cpu, 5, &id));
	assert_int_equal(weir_sim_cpu_add(&cpu, 5, 3, 10), 0);
	assert_false(weir_sim_cpu_take(&cpu, 14, &id));
	assert_true(weir_sim_cpu_take(&cpu, 15, &id));
	assert_int_equal(id, 3);
	weir_sim_cpu_fini(&cpu);
}
