// SPDX-License-Identifier: BSD-3-Clause
//
// The result of a run of one variant with one seed.
// Filled by metrics.c, simulation.c and workers.c, read by summary.c, csv.c, plot.c and tests.
//
// Threads: immutable once the run has ended.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scenario.h"

// Requests by outcome. At the end of a run, each request that arrived is counted in exactly one
// outcome, or in `unfinished` of the result. X(NAME, "name")
#define WEIR_SIM_ENDINGS(X) \
	X(COMPLETED, "completed") \
	X(FAILED, "failed") /* the client got an error: refused, broken, fail-fast, queue full */ \
	X(UNANSWERED, "unanswered") /* the client got no answer */ \
	X(TIMED_OUT, "timed-out") /* the client's timeout has passed */ \
	X(REJECTED, "rejected") /* no backend could be chosen */

#define X(name, key) WEIR_SIM_##name,
enum weir_sim_ending { WEIR_SIM_ENDINGS(X) WEIR_SIM_ENDING_COUNT };
#undef X

// Outcomes of the planner's steal requests. ASKED counts all steal requests, including requests
// without an answer yet; each other counter counts one outcome. X(NAME, "name")
#define WEIR_SIM_STEALS(X) \
	X(ASKED, "asked") \
	X(MOVED, "moved") /* released by the victim; for the thief, or for a new choice */ \
	X(REFUSED, "refused") /* the request had begun, or had ended */ \
	X(SILENT, "silent") /* no answer, or a late answer */

#define X(name, key) WEIR_SIM_STEAL_##name,
enum weir_sim_steal_count { WEIR_SIM_STEALS(X) WEIR_SIM_STEAL_COUNT };
#undef X

struct weir_sim_totals {
	uint64_t arrived;
	uint64_t ended[WEIR_SIM_ENDING_COUNT];
	uint64_t spilled; // requests sent to a backend at its limit of active flows
	uint64_t watched; // requests sent to the watched backend
	uint64_t replaced; // number of members removed from clients' subsets
	double least_replaced; // minimum number that evenly distributed subsets would have replaced
	uint64_t steals[WEIR_SIM_STEAL_COUNT];
};

struct weir_sim_backend_result {
	double cpu; // busy fraction of its cores, 0..1
	uint64_t requests, failed; // requests sent to the backend; requests that failed there
	uint32_t clients; // clients that use the backend at the end of the window
	double speed;
	bool listed; // the backend was in the list of backends at the end of the window
	// The backend was in the list of backends during the whole window. The measures of CPU
	// include only backends for which this is true.
	bool measured;
};

// The measures of one window of time.
struct weir_sim_measure {
	char name[WEIR_SIM_NAME_BYTES];
	uint64_t from_ns, to_ns;
	struct weir_sim_totals totals;
	double cpu_mean, cpu_min, cpu_max;
	double spread; // cpu_max / cpu_min; infinite if a backend used no CPU
	double tail_spread; // 95th percentile of CPU, divided by the 5th percentile
	double wasted; // sum(cpu_max - cpu) / (backends * cpu_max)
	double wasted_cores; // sum(cpu_max - cpu) * cores
	double deviation; // standard deviation of CPU, divided by the mean
	// Mean and maximum of cpu_max / cpu_mean over the samples that are within the window
	double busiest, busiest_most;
	uint32_t busiest_samples;
	double p50_ms, p99_ms, p999_ms, mean_ms; // latency of completed requests
	double share; // requests of the watched backend, divided by the mean per backend
	// Minimum and maximum number of clients of a backend, at the end of the window.
	uint32_t clients_min, clients_max;
	uint32_t clients_peak; // maximum number of clients of a backend at any time of the window
	uint32_t members_least; // minimum number of backends of a client at any time of the window
	uint64_t members; // number of members of all clients' subsets, at the start of the window
	// Requests of the backend with the fewest requests, in percent of the mean.
	double lightest_percent;
	struct weir_sim_backend_result *backend;
};

struct weir_sim_sample { // ends at time_ns
	uint64_t time_ns;
	struct weir_sim_totals totals; // totals since the previous sample
	double cpu_min, cpu_p05, cpu_p50, cpu_p95, cpu_max, cpu_mean;
	double p50_ms, p99_ms;
	double share, watched_cpu;
};

struct weir_sim_result {
	uint64_t seed;
	uint32_t backends;
	struct weir_sim_totals totals; // totals of the whole run
	uint64_t unfinished; // requests in progress at the end
	uint64_t events;
	struct weir_sim_measure *measure;
	uint32_t measures;
	struct weir_sim_sample *sample;
	uint32_t samples;
};

// Allocates a result with room for all samples and windows of a scenario. Sets the names and times
// of the windows; all other values are 0. Returns NULL if out of memory.
struct weir_sim_result *weir_sim_result_create(
	const struct weir_sim_scenario *scenario, uint64_t seed);
void weir_sim_result_free(struct weir_sim_result *result); // NULL is allowed

// Returns the totals between two times: now - then.
struct weir_sim_totals weir_sim_totals_since(
	const struct weir_sim_totals *now, const struct weir_sim_totals *then);
// Compute all measures that depend on the CPU of the measured backends. cores: cores of a backend.
// sorted: scratch memory for `backends` values.
void weir_sim_measure_spread(
	struct weir_sim_measure *m, uint32_t backends, uint32_t cores, double *sorted);
// Computes the measures of a sample. values[n]: the CPU of each measured backend, which this
// function sorts. Also updates the windows that include the sample.
void weir_sim_sample_spread(
	struct weir_sim_result *result, struct weir_sim_sample *sample, double *values, uint32_t n);
