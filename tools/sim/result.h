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

// Requests by how they ended. Each that arrived is in exactly one of them in the end.
// X(NAME, "name")
#define WEIR_SIM_ENDINGS(X) \
	X(COMPLETED, "completed") \
	X(FAILED, "failed") /* an error came back: refused, broken, fail-fast, queue full */ \
	X(UNANSWERED, "unanswered") /* nothing came back */ \
	X(TIMED_OUT, "timed-out") /* the client gave up */ \
	X(REJECTED, "rejected") /* no backend could be chosen */

#define X(name, key) WEIR_SIM_##name,
enum weir_sim_ending { WEIR_SIM_ENDINGS(X) WEIR_SIM_ENDING_COUNT };
#undef X

// Outcomes of the requests of the plan of steals. ASKED is the sum of the others and of those that
// have no answer yet.
// X(NAME, "name")
#define WEIR_SIM_STEALS(X) \
	X(ASKED, "asked") \
	X(MOVED, "moved") \
	X(REFUSED, "refused") /* it had begun, or was gone */ \
	X(SILENT, "silent") /* no answer, or too late */

#define X(name, key) WEIR_SIM_STEAL_##name,
enum weir_sim_steal_count { WEIR_SIM_STEALS(X) WEIR_SIM_STEAL_COUNT };
#undef X

struct weir_sim_totals {
	uint64_t arrived;
	uint64_t ended[WEIR_SIM_ENDING_COUNT];
	uint64_t spilled; // chosen beyond the limit of active flows
	uint64_t watched; // went to the watched backend
	uint64_t replaced; // members that left clients' subsets
	double least_replaced; // that even subsets had to replace
	uint64_t steals[WEIR_SIM_STEAL_COUNT];
};

struct weir_sim_backend_result {
	double cpu; // busy part of its cores, 0..1
	uint64_t requests, failed; // given to it; errors that it answered
	uint32_t clients; // that use it, at the end of the window
	double speed;
	bool listed; // on the list of backends at the end of the window
	bool measured; // and all the time; only these count in what follows from CPU
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
	double busiest, busiest_most; // cpu_max / cpu_mean of the samples: mean and most
	uint32_t busiest_samples;
	double p50_ms, p99_ms, p999_ms, mean_ms; // latency of completed requests
	double share; // requests of the watched backend, 1 = its fair share
	uint32_t clients_min, clients_max; // of a backend, at the end
	uint32_t clients_peak; // of any backend at any time
	uint32_t members_least; // backends of any client at any time
	uint64_t members; // of all clients, at the beginning
	double lightest_percent; // requests of the backend with the fewest, of the mean
	struct weir_sim_backend_result *backend;
};

struct weir_sim_sample { // ends at time_ns
	uint64_t time_ns;
	struct weir_sim_totals totals; // since the sample before
	double cpu_min, cpu_p05, cpu_p50, cpu_p95, cpu_max, cpu_mean;
	double p50_ms, p99_ms;
	double share, watched_cpu;
};

struct weir_sim_result {
	uint64_t seed;
	uint32_t backends;
	struct weir_sim_totals totals; // of the whole run
	uint64_t unfinished; // in progress when it ended
	uint64_t events;
	struct weir_sim_measure *measure;
	uint32_t measures;
	struct weir_sim_sample *sample;
	uint32_t samples;
};

// With room for all samples and windows of a scenario; windows have names and times, the rest is 0.
// Returns NULL when out of memory.
struct weir_sim_result *weir_sim_result_create(
	const struct weir_sim_scenario *scenario, uint64_t seed);
void weir_sim_result_free(struct weir_sim_result *result); // NULL is allowed

// What has passed since then.
struct weir_sim_totals weir_sim_totals_since(
	const struct weir_sim_totals *now, const struct weir_sim_totals *then);
// From CPU of the measured backends, to all that follows from it. sorted: [backends], scratch.
void weir_sim_measure_spread(
	struct weir_sim_measure *m, uint32_t backends, uint32_t cores, double *sorted);
// The same for a sample, of CPU in values[n], which are sorted; and for the measures that it is in.
void weir_sim_sample_spread(
	struct weir_sim_result *result, struct weir_sim_sample *sample, double *values, uint32_t n);
