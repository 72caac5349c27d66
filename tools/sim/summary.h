// SPDX-License-Identifier: BSD-3-Clause
//
// Summary of all runs, as a table and as JSON: the mean, minimum and maximum of each measure over
// the seeds. Called by main.c, csv.c, plot.c and tests.
//
// Threads: any; results are only read.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "batch.h"

// docs/design/simulator.md explains each measure. X(NAME, "name", expression of measure m)
#define WEIR_SIM_METRICS(X) \
	X(REQUESTS, "requests", (double)m->totals.arrived) \
	X(SPREAD, "spread", m->spread) \
	X(TAIL_SPREAD, "tail_spread", m->tail_spread) \
	X(WASTED, "wasted_percent", m->wasted * 100) \
	X(WASTED_CORES, "wasted_cores", m->wasted_cores) \
	X(DEVIATION, "deviation", m->deviation) \
	X(BUSIEST, "busiest", m->busiest) \
	X(BUSIEST_MOST, "busiest_most", m->busiest_most) \
	X(CPU, "cpu_percent", m->cpu_mean * 100) \
	X(CPU_MIN, "cpu_min_percent", m->cpu_min * 100) \
	X(CPU_MAX, "cpu_max_percent", m->cpu_max * 100) \
	X(MEAN_MS, "mean_ms", m->mean_ms) \
	X(P50_MS, "p50_ms", m->p50_ms) \
	X(P99_MS, "p99_ms", m->p99_ms) \
	X(P999_MS, "p999_ms", m->p999_ms) \
	X(FAILED, "failed_percent", weir_sim_percent(m, WEIR_SIM_FAILED)) \
	X(UNANSWERED, "unanswered_percent", weir_sim_percent(m, WEIR_SIM_UNANSWERED)) \
	X(TIMED_OUT, "timed_out_percent", weir_sim_percent(m, WEIR_SIM_TIMED_OUT)) \
	X(REJECTED, "rejected_percent", weir_sim_percent(m, WEIR_SIM_REJECTED)) \
	X(ERRORS, "errors_percent", weir_sim_errors(m)) \
	X(SPILLED, "spilled_percent", \
		m->totals.arrived > 0 \
			? 100.0 * (double)m->totals.spilled / (double)m->totals.arrived \
			: 0) \
	X(SHARE, "share", m->share) \
	X(LIGHTEST, "lightest_percent", m->lightest_percent) \
	X(CLIENTS_MIN, "clients_min", m->clients_min) \
	X(CLIENTS_MAX, "clients_max", m->clients_max) \
	X(CLIENTS_PEAK, "clients_peak", m->clients_peak) \
	X(MEMBERS_LEAST, "members_least", m->members_least) \
	X(REPLACED, "replaced_percent", weir_sim_of_members(m, (double)m->totals.replaced)) \
	X(LEAST_REPLACED, "least_replaced_percent", \
		weir_sim_of_members(m, m->totals.least_replaced)) \
	X(ASKED, "asked_per_second", weir_sim_steals(m, WEIR_SIM_STEAL_ASKED)) \
	X(MOVED, "moved_per_second", weir_sim_steals(m, WEIR_SIM_STEAL_MOVED)) \
	X(REFUSED, "refused_per_second", weir_sim_steals(m, WEIR_SIM_STEAL_REFUSED)) \
	X(SILENT, "silent_per_second", weir_sim_steals(m, WEIR_SIM_STEAL_SILENT))

enum weir_sim_metric {
#define X(name, key, expression) WEIR_SIM_METRIC_##name,
	WEIR_SIM_METRICS(X)
#undef X
		WEIR_SIM_METRIC_COUNT,
};

struct weir_sim_range { // range of a measure over the seeds
	double mean, least, most;
};

double weir_sim_percent(const struct weir_sim_measure *m, enum weir_sim_ending ending);
double weir_sim_of_members(const struct weir_sim_measure *m, double members);
double weir_sim_errors(const struct weir_sim_measure *m);
double weir_sim_steals(const struct weir_sim_measure *m, enum weir_sim_steal_count what);
double weir_sim_metric_of(const struct weir_sim_measure *m, enum weir_sim_metric metric);
const char *weir_sim_metric_name(enum weir_sim_metric metric);

// Returns the range of a measure in one window of one variant.
struct weir_sim_range weir_sim_range_of(const struct weir_sim_results *results, uint32_t variant,
	uint32_t window, enum weir_sim_metric metric);

void weir_sim_summary_print(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results);

// Returns the results of all runs as a JSON object, owned by the caller, or NULL if out of memory.
json_t *weir_sim_summary_json(
	const struct weir_sim_file *file, const struct weir_sim_results *results);
