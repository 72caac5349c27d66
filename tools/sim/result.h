// SPDX-License-Identifier: BSD-3-Clause
//
// The result of a run of one variant with one seed.
// Filled by metrics.c, read by summary.c, csv.c and tests.
//
// Threads: immutable once the run has ended.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scenario.h"

// Requests by outcome. At the end of a run, each request that arrived is counted in exactly one
// outcome. X(NAME, "name")
#define WEIR_SIM_ENDINGS(X) \
	X(COMPLETED, "completed") \
	X(FAILED, "failed") /* the client got an error: refused, broken, fail-fast, queue full */ \
	X(UNANSWERED, "unanswered") /* the client got no answer */ \
	X(TIMED_OUT, "timed-out") /* the client gave up */ \
	X(REJECTED, "rejected") /* no backend could be chosen */

#define X(name, key) WEIR_SIM_##name,
enum weir_sim_ending { WEIR_SIM_ENDINGS(X) WEIR_SIM_ENDING_COUNT };
#undef X

// Outcomes of the steal requests of the planner. ASKED is the sum of the other outcomes and of the
// requests without an answer yet.
// X(NAME, "name")
#define WEIR_SIM_STEALS(X) \
	X(ASKED, "asked") \
	X(MOVED, "moved") \
	X(REFUSED, "refused") /* the request had begun, or had ended */ \
	X(SILENT, "silent") /* no answer, or a late answer */

#define X(name, key) WEIR_SIM_STEAL_##name,
enum weir_sim_steal_count { WEIR_SIM_STEALS(X) WEIR_SIM_STEAL_COUNT };
#undef X

struct weir_sim_totals {
	uint64_t arrived;
	uint64_t ended[WEIR_SIM_ENDING_COUNT];
	uint64_t spilled; // requests beyond the limit of active flows
	uint64_t watched; // requests sent to the watched backend
	uint64_t replaced; // number of members that left clients' subsets
	double least_replaced; // minimum number for evenly distributed subsets
	uint64_t steals[WEIR_SIM_STEAL_COUNT];
};

struct weir_sim_backend_result {
	double cpu; // busy fraction of its cores, 0..1
	uint64_t requests, failed; // requests sent to the backend; errors from the backend
	uint32_t clients; // clients that use the backend at the end of the window
	double speed;
	bool listed; // on the list of backends at the end of the window
	bool measured; // listed during the whole window; only then included in the CPU measures
};

// One window of time.
struct weir_sim_measure {
	char name[WEIR_SIM_NAME_BYTES];
	uint64_t from_ns, to_ns;
	struct weir_sim_totals totals;
	double cpu_mean, cpu_min, cpu_max;
	double spread; // cpu_max / cpu_min; infinite when a backend did nothing
	double tail_spread; // 95th percentile over 5th
	double wasted; // sum(cpu_max - cpu) / (backends * cpu_max)
	double wasted_cores; // sum(cpu_max - cpu) * cores
	double deviation; // standard deviation over mean
	double busiest, busiest_most; // cpu_max / cpu_mean of the samples: mean and maximum
	uint32_t busiest_samples;
	double p50_ms, p99_ms, p999_ms, mean_ms; // latency of completed requests
	double share; // requests of the watched backend; 1 = fair share
	uint32_t clients_min, clients_max; // clients of a backend, at the end
	uint32_t clients_peak; // maximum clients of a backend at any time
	uint32_t members_least; // minimum backends of a client at any time
	uint64_t members; // members of all clients' subsets, at the start
	double lightest_percent; // requests of the backend with the fewest requests, divided by the
				 // mean
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

// Allocate a result with room for all samples and windows of a scenario; names and times of windows
// are set, the rest is 0. Returns NULL if out of memory.
struct weir_sim_result *weir_sim_result_create(
	const struct weir_sim_scenario *scenario, uint64_t seed);
void weir_sim_result_free(struct weir_sim_result *result); // NULL is allowed

// The difference since then.
struct weir_sim_totals weir_sim_totals_since(
	const struct weir_sim_totals *now, const struct weir_sim_totals *then);
// Compute all measures that depend on the CPU of the measured backends. sorted: [backends],
// scratch.
void weir_sim_measure_spread(
	struct weir_sim_measure *m, uint32_t backends, uint32_t cores, double *sorted);
// Compute the measures of a sample from the CPU in values[n], which are sorted. Also updates the
// measures of the windows that include the sample.
void weir_sim_sample_spread(
	struct weir_sim_result *result, struct weir_sim_sample *sample, double *values, uint32_t n);
