// SPDX-License-Identifier: BSD-3-Clause
//
// The processor of a simulated backend. Each core processes one job at a time, in the order of
// arrival, or all jobs share the cores (sharing). Times are exact, because there are no time steps.
// Called by the simulation only.
//
// Both modes use one clock, `done`. The value of the clock is the work that was done for a job that
// has run since the clock was 0. All running jobs progress at the same rate: the speed of a core,
// or a lower rate if there are more jobs than cores. A job that starts when the clock is c, and
// needs the work w, ends when the clock is c + w. If the rate changes, only the speed of the clock
// changes.
//
// Threads: one processor belongs to one thread. now_ns must not decrease from call to call.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_sim_job {
	// A waiting job: nanoseconds on a core of speed 1. A running job: value of the clock when
	// the job ends.
	double work;
	uint32_t id; // id chosen by the caller
};

struct weir_sim_cpu { // fields are private
	uint32_t cores;
	uint32_t queue_limit; // maximum number of waiting jobs
	bool sharing;
	double speed; // speed of each core
	double done;
	double busy_ns; // busy time until at_ns, in nanoseconds, summed over all cores
	uint64_t at_ns;
	struct weir_sim_job *running; // the running jobs, as a heap
	uint32_t running_count, running_room;
	struct weir_sim_job *waiting; // the waiting jobs, as a ring
	uint32_t waiting_first, waiting_count, waiting_room; // room: a power of two
};

// Initialize a zeroed struct; cores > 0, speed > 0. queue_limit: maximum number of waiting jobs;
// with sharing, at most queue_limit + cores jobs run.
void weir_sim_cpu_init(
	struct weir_sim_cpu *cpu, uint32_t cores, bool sharing, double speed, uint32_t queue_limit);
void weir_sim_cpu_fini(struct weir_sim_cpu *cpu);

// Add a job. id: chosen by the caller. work_ns: time that the job needs on a core of speed 1.
// Returns 0, -ENOSPC (the queue is full), -ENOMEM.
int weir_sim_cpu_add(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t id, double work_ns);

// Returns the time when the next job ends at the current rate; UINT64_MAX = no job runs.
uint64_t weir_sim_cpu_next(const struct weir_sim_cpu *cpu);

// Removes one job that has ended at or before now_ns. Returns false if no job has ended.
bool weir_sim_cpu_take(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t *ret_id);

// Remove a waiting job. Returns false if the job is not waiting: the job runs, has ended or does
// not exist.
bool weir_sim_cpu_remove(struct weir_sim_cpu *cpu, uint32_t id);

// Return the id of a running job (i < running_count, in any order) or of a waiting job (i <
// waiting_count, in the order in which the jobs will start).
uint32_t weir_sim_cpu_running(const struct weir_sim_cpu *cpu, uint32_t i);
uint32_t weir_sim_cpu_waiting(const struct weir_sim_cpu *cpu, uint32_t i);

void weir_sim_cpu_set_speed(struct weir_sim_cpu *cpu, uint64_t now_ns, double speed);

// Drops all jobs, because the process of the backend has died.
void weir_sim_cpu_clear(struct weir_sim_cpu *cpu, uint64_t now_ns);

// Returns the time for which cores were busy until now_ns, in nanoseconds, summed over all cores.
double weir_sim_cpu_busy(struct weir_sim_cpu *cpu, uint64_t now_ns);
