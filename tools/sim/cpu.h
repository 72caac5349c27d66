// SPDX-License-Identifier: BSD-3-Clause
//
// The processor of a simulated backend: cores that process jobs, first come first served or shared
// by all of them. Exact, without time steps.
// Called by the simulation only.
//
// Both modes use one clock: `done` is the work done for a job that has run from the start. All
// running jobs progress at the same rate (the speed of a core, or less if more jobs than cores
// share them), so a job ends when the clock has advanced by its work. A change of rate changes the
// clock, not the jobs.
//
// Threads: one processor belongs to one thread. Time never goes back.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_sim_job {
	double work; // nanoseconds of a core of speed 1; if running, the clock at its end
	uint32_t id; // the user's
};

struct weir_sim_cpu { // fields are private
	uint32_t cores;
	uint32_t queue_limit; // maximum number of waiting jobs
	bool sharing;
	double speed; // of each core
	double done;
	double busy_ns; // core-nanoseconds used until at_ns
	uint64_t at_ns;
	struct weir_sim_job *running; // a heap
	uint32_t running_count, running_room;
	struct weir_sim_job *waiting; // a ring
	uint32_t waiting_first, waiting_count, waiting_room; // room: a power of two
};

// zeroed at first; cores > 0, speed > 0. queue_limit: further jobs are refused; with sharing, jobs
// beyond queue_limit + cores.
void weir_sim_cpu_init(
	struct weir_sim_cpu *cpu, uint32_t cores, bool sharing, double speed, uint32_t queue_limit);
void weir_sim_cpu_fini(struct weir_sim_cpu *cpu);

// Add a job. Returns 0, -ENOSPC (the queue is full), -ENOMEM.
int weir_sim_cpu_add(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t id, double work_ns);

// When the next job ends at the present rate; UINT64_MAX = none runs.
uint64_t weir_sim_cpu_next(const struct weir_sim_cpu *cpu);

// Remove one job that has ended by now_ns. Returns false if there is none.
bool weir_sim_cpu_take(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t *ret_id);

// Remove a waiting job. Returns false if it is not waiting, that is, if it runs, has ended or does
// not exist.
bool weir_sim_cpu_remove(struct weir_sim_cpu *cpu, uint32_t id);

// The running jobs, in any order, and the waiting ones, next one first. i < running_count and
// waiting_count.
uint32_t weir_sim_cpu_running(const struct weir_sim_cpu *cpu, uint32_t i);
uint32_t weir_sim_cpu_waiting(const struct weir_sim_cpu *cpu, uint32_t i);

void weir_sim_cpu_set_speed(struct weir_sim_cpu *cpu, uint64_t now_ns, double speed);

// Drop all jobs: the process died.
void weir_sim_cpu_clear(struct weir_sim_cpu *cpu, uint64_t now_ns);

// Core-nanoseconds used until now_ns.
double weir_sim_cpu_busy(struct weir_sim_cpu *cpu, uint64_t now_ns);
