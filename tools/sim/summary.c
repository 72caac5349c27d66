// SPDX-License-Identifier: BSD-3-Clause
#include "summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "subset.h"

#define NAME_WIDTH_MIN 8u

double weir_sim_percent(const struct weir_sim_measure *m, enum weir_sim_ending ending) {
	return m->totals.arrived > 0
		       ? 100.0 * (double)m->totals.ended[ending] / (double)m->totals.arrived
		       : 0;
}

double weir_sim_of_members(const struct weir_sim_measure *m, double members) {
	return m->members > 0 ? 100.0 * members / (double)m->members : 0;
}

double weir_sim_errors(const struct weir_sim_measure *m) {
	return weir_sim_percent(m, WEIR_SIM_FAILED) + weir_sim_percent(m, WEIR_SIM_UNANSWERED) +
	       weir_sim_percent(m, WEIR_SIM_TIMED_OUT) + weir_sim_percent(m, WEIR_SIM_REJECTED);
}

double weir_sim_steals(const struct weir_sim_measure *m, enum weir_sim_steal_count what) {
	return (double)m->totals.steals[what] * 1e9 / (double)(m->to_ns - m->from_ns);
}

double weir_sim_metric_of(const struct weir_sim_measure *m, enum weir_sim_metric metric) {
	switch (metric) {
#define X(name, key, expression) \
	case WEIR_SIM_METRIC_##name: \
		return expression;
		WEIR_SIM_METRICS(X)
#undef X
	default:
		return 0;
	}
}

const char *weir_sim_metric_name(enum weir_sim_metric metric) {
	static const char *const names[] = {
#define X(name, key, expression) key,
		WEIR_SIM_METRICS(X)
#undef X
	};

	return (unsigned int)metric < WEIR_SIM_METRIC_COUNT ? names[metric] : "unknown";
}

static const struct weir_sim_result *result_of(
	const struct weir_sim_results *results, uint32_t variant, uint32_t seed) {
	return results->result[variant * results->seeds + seed];
}

struct weir_sim_range weir_sim_range_of(const struct weir_sim_results *results, uint32_t variant,
	uint32_t window, enum weir_sim_metric metric) {
	struct weir_sim_range range = {.least = INFINITY, .most = -INFINITY};

	for (uint32_t seed = 0; seed < results->seeds; seed++) {
		double value = weir_sim_metric_of(
			&result_of(results, variant, seed)->measure[window], metric);

		range.mean += value / results->seeds;
		range.least = fmin(range.least, value);
		range.most = fmax(range.most, value);
	}
	return range;
}

// The columns of the table. Columns that are not useful for the scenario are omitted.
struct columns {
	bool workers, windows, errors, share, clients, churn, steals;
	int name_width, window_width;
};

// Returns whether an event affects the watched backend, but not all backends. The share of the
// watched backend is shown only if the scenario has such an event.
static bool is_about_watched(const struct weir_sim_scenario *scenario, uint32_t happening) {
	const struct weir_sim_happening *h = &scenario->happening[happening];

	return h->kind != WEIR_SIM_HAPPENING_POLICY && scenario->watch >= h->backend &&
	       scenario->watch - h->backend < h->count && h->count < scenario->backends.count;
}

static struct columns find_columns(
	const struct weir_sim_file *file, const struct weir_sim_results *results) {
	struct columns columns = {.name_width = NAME_WIDTH_MIN, .window_width = NAME_WIDTH_MIN};

	for (uint32_t v = 0; v < file->variant_count; v++) {
		const struct weir_sim_scenario *scenario = &file->variant[v];
		int width = (int)strlen(scenario->name);

		columns.name_width = width > columns.name_width ? width : columns.name_width;
		columns.workers |= scenario->workers.count > 0;
		columns.windows |= scenario->window_count > 1;
		for (uint32_t i = 0; i < scenario->happening_count; i++) {
			columns.share |= is_about_watched(scenario, i);
		}
		for (uint32_t w = 0; w < scenario->window_count; w++) {
			width = (int)strlen(scenario->window[w].name);
			columns.window_width =
				width > columns.window_width ? width : columns.window_width;
			columns.churn |=
				scenario->subset.algorithm != WEIR_SUBSET_NONE &&
				weir_sim_range_of(results, v, w, WEIR_SIM_METRIC_LEAST_REPLACED)
						.most > 0;
			columns.steals |=
				weir_sim_range_of(results, v, w, WEIR_SIM_METRIC_ASKED).most > 0;
			columns.errors |=
				weir_sim_range_of(results, v, w, WEIR_SIM_METRIC_ERRORS).most > 0;
			columns.clients |=
				weir_sim_range_of(results, v, w, WEIR_SIM_METRIC_CLIENTS_MIN)
					.least < scenario->clients.count;
		}
	}
	return columns;
}

static void print_head(FILE *stream, const struct columns *columns) {
	fprintf(stream, "%-*s", columns->name_width, "variant");
	if (columns->windows) {
		fprintf(stream, " %-*s", columns->window_width, "window");
	}
	if (columns->workers) {
		fprintf(stream, " %7s %-13s %6s %6s", "busiest", "(least-most)", "worst", "CPU");
	} else {
		fprintf(stream, " %6s %-13s %7s %6s %6s %8s %8s", "spread", "(least-most)",
			"wasted", "cores", "CPU", "p50 ms", "p99 ms");
	}
	if (columns->errors) {
		fprintf(stream, " %8s", columns->workers ? "dropped" : "errors");
	}
	if (columns->share) {
		fprintf(stream, " %7s", "share");
	}
	if (columns->clients) {
		fprintf(stream, " %8s", "clients");
	}
	if (columns->churn) {
		fprintf(stream, " %5s %10s %10s", "peak", "replaced", "least");
	}
	if (columns->steals) {
		fprintf(stream, " %8s %9s %8s", "moved/s", "refused/s", "silent/s");
	}
	fputc('\n', stream);
}

// Prints "mean (least-most)", or "-" if the mean is infinite (a backend used no CPU).
static void print_range(FILE *stream, int width, const struct weir_sim_range *range) {
	char mean[32] = "-", bounds[32] = "";

	if (isfinite(range->mean)) {
		snprintf(mean, sizeof(mean), "%.2f", range->mean);
		snprintf(bounds, sizeof(bounds), "(%.2f-%.2f)", range->least, range->most);
	}
	fprintf(stream, " %*s %-13s", width, mean, bounds);
}

static void print_workers(FILE *stream, const struct weir_sim_range *range) {
	print_range(stream, 7, &range[WEIR_SIM_METRIC_BUSIEST]);
	fprintf(stream, " %6.2f %4.0f %%", range[WEIR_SIM_METRIC_BUSIEST_MOST].most,
		range[WEIR_SIM_METRIC_CPU].mean);
}

static void print_backends(FILE *stream, const struct weir_sim_range *range) {
	print_range(stream, 6, &range[WEIR_SIM_METRIC_SPREAD]);
	fprintf(stream, " %5.1f %% %6.*f %4.0f %% %8.1f %8.1f", range[WEIR_SIM_METRIC_WASTED].mean,
		range[WEIR_SIM_METRIC_WASTED_CORES].mean < 1e4 ? 1 : 0,
		range[WEIR_SIM_METRIC_WASTED_CORES].mean, range[WEIR_SIM_METRIC_CPU].mean,
		range[WEIR_SIM_METRIC_P50_MS].mean, range[WEIR_SIM_METRIC_P99_MS].mean);
}

static void print_row(FILE *stream, const struct weir_sim_scenario *scenario, uint32_t window,
	const struct columns *columns, const struct weir_sim_range *range) {
	char bounds[32];

	fprintf(stream, "%-*s", columns->name_width, scenario->name);
	if (columns->windows) {
		fprintf(stream, " %-*s", columns->window_width, scenario->window[window].name);
	}
	if (columns->workers) {
		print_workers(stream, range);
	} else {
		print_backends(stream, range);
	}
	if (columns->errors) {
		fprintf(stream, " %6.2f %%", range[WEIR_SIM_METRIC_ERRORS].mean);
	}
	if (columns->share) {
		fprintf(stream, " %7.3f", range[WEIR_SIM_METRIC_SHARE].mean);
	}
	if (columns->clients) {
		snprintf(bounds, sizeof(bounds), "%.0f-%.0f",
			range[WEIR_SIM_METRIC_CLIENTS_MIN].least,
			range[WEIR_SIM_METRIC_CLIENTS_MAX].most);
		fprintf(stream, " %8s", bounds);
	}
	if (columns->churn) {
		fprintf(stream, " %5.0f %8.2f %% %8.2f %%",
			range[WEIR_SIM_METRIC_CLIENTS_PEAK].most,
			range[WEIR_SIM_METRIC_REPLACED].mean,
			range[WEIR_SIM_METRIC_LEAST_REPLACED].mean);
	}
	if (columns->steals) {
		fprintf(stream, " %8.1f %9.1f %8.1f", range[WEIR_SIM_METRIC_MOVED].mean,
			range[WEIR_SIM_METRIC_REFUSED].mean, range[WEIR_SIM_METRIC_SILENT].mean);
	}
	fputc('\n', stream);
}

void weir_sim_summary_print(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results) {
	struct columns columns = find_columns(file, results);

	fprintf(stream, "%s: %s\n", file->name, file->title);
	fprintf(stream, "%" PRIu32 " seed%s, starting at %" PRIu64 "\n\n", results->seeds,
		results->seeds == 1 ? "" : "s", results->first_seed);
	print_head(stream, &columns);
	for (uint32_t v = 0; v < file->variant_count; v++) {
		const struct weir_sim_scenario *scenario = &file->variant[v];

		for (uint32_t w = 0; w < scenario->window_count; w++) {
			struct weir_sim_range range[WEIR_SIM_METRIC_COUNT];

			for (int i = 0; i < WEIR_SIM_METRIC_COUNT; i++) {
				range[i] =
					weir_sim_range_of(results, v, w, (enum weir_sim_metric)i);
			}
			print_row(stream, scenario, w, &columns, range);
		}
	}
}

// Returns a JSON number, or null for infinity, because JSON has no infinity.
static json_t *number(double value) {
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *metric_json(const struct weir_sim_results *results, uint32_t variant,
	uint32_t window, enum weir_sim_metric metric) {
	struct weir_sim_range range = weir_sim_range_of(results, variant, window, metric);
	json_t *values = json_array();

	for (uint32_t seed = 0; seed < results->seeds; seed++) {
		json_array_append_new(values,
			number(weir_sim_metric_of(
				&result_of(results, variant, seed)->measure[window], metric)));
	}
	return json_pack("{so so so so}", "mean", number(range.mean), "least", number(range.least),
		"most", number(range.most), "values", values);
}

static json_t *windows_json(const struct weir_sim_scenario *scenario,
	const struct weir_sim_results *results, uint32_t variant) {
	json_t *windows = json_array();

	for (uint32_t w = 0; w < scenario->window_count; w++) {
		json_t *metrics = json_object();

		for (int i = 0; i < WEIR_SIM_METRIC_COUNT; i++) {
			enum weir_sim_metric metric = (enum weir_sim_metric)i;

			json_object_set_new(metrics, weir_sim_metric_name(metric),
				metric_json(results, variant, w, metric));
		}
		json_array_append_new(windows,
			json_pack("{ss sf sf so}", "name", scenario->window[w].name, "from_ms",
				(double)scenario->window[w].from_ns / 1e6, "to_ms",
				(double)scenario->window[w].to_ns / 1e6, "metrics", metrics));
	}
	return windows;
}

// Returns the totals of each run of a variant, over the whole duration of the run: the requests
// that arrived, and their outcomes.
static json_t *totals_json(const struct weir_sim_results *results, uint32_t variant) {
	static const char *const endings[] = {
#define X(name, key) key,
		WEIR_SIM_ENDINGS(X)
#undef X
	};
	json_t *list = json_array();

	for (uint32_t seed = 0; seed < results->seeds; seed++) {
		const struct weir_sim_result *result = result_of(results, variant, seed);
		json_t *totals = json_pack("{sI sI sI}", "arrived",
			(json_int_t)result->totals.arrived, "unfinished",
			(json_int_t)result->unfinished, "events", (json_int_t)result->events);

		for (int i = 0; i < WEIR_SIM_ENDING_COUNT; i++) {
			json_object_set_new(totals, endings[i],
				json_integer((json_int_t)result->totals.ended[i]));
		}
		json_array_append_new(list, totals);
	}
	return list;
}

json_t *weir_sim_summary_json(
	const struct weir_sim_file *file, const struct weir_sim_results *results) {
	json_t *variants = json_array();

	for (uint32_t v = 0; v < file->variant_count; v++) {
		json_array_append_new(
			variants, json_pack("{ss so so}", "name", file->variant[v].name, "windows",
					  windows_json(&file->variant[v], results, v), "runs",
					  totals_json(results, v)));
	}
	return json_pack("{ss ss sI sI so}", "scenario", file->name, "title", file->title,
		"first_seed", (json_int_t)results->first_seed, "seeds", (json_int_t)results->seeds,
		"variants", variants);
}
