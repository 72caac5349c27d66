// SPDX-License-Identifier: BSD-3-Clause
//
// Summary of all runs: each measure as mean, least and most over the seeds; as a table and as JSON.
// Called by main.c, csv.c, plot.c and tests.
//
// Threads: any; results are only read.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "batch.h"

// X(NAME, "name", expression of measure m, "meaning")
#define WEIR_SIM_METRICS(X) \
	X(REQUESTS, "requests", (double)m->totals.arrived, "requests that arrived") \
	X(SPREAD, "spread", m->spread, "CPU of the most over that of the least loaded backend") \
	X(TAIL_SPREAD, "tail_spread", m->tail_spread, "the same of 95th over 5th percentile") \
	X(WASTED, "wasted_percent", m->wasted * 100, \
		"what all backends could do more until the most loaded one is full, of all") \
	X(WASTED_CORES, "wasted_cores", m->wasted_cores, "the same in cores: sum(max - cpu)") \
	X(DEVIATION, "deviation", m->deviation, "standard deviation of CPU over its mean") \
	X(CPU, "cpu_percent", m->cpu_mean * 100, "CPU in use, mean of the backends") \
	X(CPU_MIN, "cpu_min_percent", m->cpu_min * 100, "the least loaded one") \
	X(CPU_MAX, "cpu_max_percent", m->cpu_max * 100, "the most loaded one") \
	X(MEAN_MS, "mean_ms", m->mean_ms, "latency of completed requests, mean") \
	X(P50_MS, "p50_ms", m->p50_ms, "median") \
	X(P99_MS, "p99_ms", m->p99_ms, "99th percentile") \
	X(P999_MS, "p999_ms", m->p999_ms, "99.9th percentile") \
	X(FAILED, "failed_percent", weir_sim_percent(m, WEIR_SIM_FAILED), \
		"requests answered by an error, or broken off") \
	X(UNANSWERED, "unanswered_percent", weir_sim_percent(m, WEIR_SIM_UNANSWERED), \
		"requests that nobody answered") \
	X(TIMED_OUT, "timed_out_percent", weir_sim_percent(m, WEIR_SIM_TIMED_OUT), \
		"requests that the client gave up") \
	X(REJECTED, "rejected_percent", weir_sim_percent(m, WEIR_SIM_REJECTED), \
		"requests for which no backend could be chosen") \
	X(ERRORS, "errors_percent", weir_sim_errors(m), "these four together") \
	X(SPILLED, "spilled_percent", \
		m->totals.arrived > 0 \
			? 100.0 * (double)m->totals.spilled / (double)m->totals.arrived \
			: 0, \
		"requests beyond the limit of active ones") \
	X(SHARE, "share", m->share, "requests of the watched backend, 1 = its fair share") \
	X(LIGHTEST, "lightest_percent", m->lightest_percent, \
		"requests of the backend with the fewest, of the mean") \
	X(CLIENTS_MIN, "clients_min", m->clients_min, "clients of the backend with the fewest") \
	X(CLIENTS_MAX, "clients_max", m->clients_max, "clients of the backend with the most") \
	X(CLIENTS_PEAK, "clients_peak", m->clients_peak, \
		"most clients of any backend at any time") \
	X(MEMBERS_LEAST, "members_least", m->members_least, \
		"fewest backends in the subset of any client at any time") \
	X(REPLACED, "replaced_percent", weir_sim_of_members(m, (double)m->totals.replaced), \
		"members that left clients' subsets, of all") \
	X(LEAST_REPLACED, "least_replaced_percent", \
		weir_sim_of_members(m, m->totals.least_replaced), \
		"the least that even subsets must replace")

enum weir_sim_metric {
#define X(name, key, expression, meaning) WEIR_SIM_METRIC_##name,
	WEIR_SIM_METRICS(X)
#undef X
		WEIR_SIM_METRIC_COUNT,
};

struct weir_sim_range { // over the seeds
	double mean, least, most;
};

double weir_sim_percent(const struct weir_sim_measure *m, enum weir_sim_ending ending);
double weir_sim_of_members(const struct weir_sim_measure *m, double members);
double weir_sim_errors(const struct weir_sim_measure *m);
double weir_sim_metric_of(const struct weir_sim_measure *m, enum weir_sim_metric metric);
const char *weir_sim_metric_name(enum weir_sim_metric metric);
const char *weir_sim_metric_meaning(enum weir_sim_metric metric);

// One window of one variant.
struct weir_sim_range weir_sim_range_of(const struct weir_sim_results *results, uint32_t variant,
	uint32_t window, enum weir_sim_metric metric);

void weir_sim_summary_print(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results);

// Returns NULL when out of memory.
json_t *weir_sim_summary_json(
	const struct weir_sim_file *file, const struct weir_sim_results *results);
