// SPDX-License-Identifier: BSD-3-Clause
//
// Measurements: totals of each time window, and a series of samples.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulation_private.h"

#define NS_PER_MS 1e6

void weir_sim_result_free(struct weir_sim_result *result) {
	if (result == NULL) {
		return;
	}
	for (uint32_t i = 0; result->measure != NULL && i < result->measures; i++) {
		free(result->measure[i].backend);
	}
	free(result->measure);
	free(result->sample);
	free(result);
}

struct weir_sim_result *weir_sim_result_create(
	const struct weir_sim_scenario *scenario, uint64_t seed) {
	struct weir_sim_result *result = calloc(1, sizeof(*result));
	uint64_t samples = scenario->duration_ns / scenario->sample_ns;
	bool good;

	if (result == NULL) {
		return NULL;
	}
	result->seed = seed;
	result->backends = scenario->backends.count;
	result->measures = scenario->window_count;
	result->measure = calloc(scenario->window_count, sizeof(*result->measure));
	result->sample = calloc(samples + 1, sizeof(*result->sample));
	good = result->measure != NULL && result->sample != NULL;
	for (uint32_t i = 0; good && i < scenario->window_count; i++) {
		struct weir_sim_measure *measure = &result->measure[i];

		memcpy(measure->name, scenario->window[i].name, sizeof(measure->name));
		measure->from_ns = scenario->window[i].from_ns;
		measure->to_ns = scenario->window[i].to_ns;
		measure->backend = calloc(scenario->backends.count, sizeof(*measure->backend));
		good = measure->backend != NULL;
	}
	if (!good) {
		weir_sim_result_free(result);
		return NULL;
	}
	return result;
}

static int init_windows(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;
	uint32_t count = scenario->backends.count;

	for (uint32_t i = 0; i < scenario->window_count; i++) {
		struct weir_sim_window_state *state = &sim->window[i];
		const struct weir_sim_measure *measure = &sim->result->measure[i];

		state->latency = calloc(1, sizeof(*state->latency));
		state->busy_ns = calloc(count, sizeof(*state->busy_ns));
		state->given = calloc(count, sizeof(*state->given));
		state->failed = calloc(count, sizeof(*state->failed));
		if (state->latency == NULL || state->busy_ns == NULL || state->given == NULL ||
			state->failed == NULL) {
			return -ENOMEM;
		}
		weir_sim_schedule(sim, measure->from_ns, WEIR_SIM_EVENT_WINDOW_BEGIN, i);
		weir_sim_schedule(sim, measure->to_ns, WEIR_SIM_EVENT_WINDOW_END, i);
	}
	return sim->error;
}

int weir_sim_metrics_init(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;

	sim->result = weir_sim_result_create(scenario, sim->seed);
	sim->window = calloc(scenario->window_count, sizeof(*sim->window));
	sim->sample_latency = calloc(1, sizeof(*sim->sample_latency));
	sim->sorted = calloc(scenario->backends.count, sizeof(*sim->sorted));
	if (sim->result == NULL || sim->window == NULL || sim->sample_latency == NULL ||
		sim->sorted == NULL) {
		return -ENOMEM;
	}
	weir_sim_schedule(sim, scenario->sample_ns, WEIR_SIM_EVENT_SAMPLE, 0);
	return init_windows(sim);
}

void weir_sim_metrics_fini(struct weir_sim *sim) {
	for (uint32_t i = 0; sim->window != NULL && i < sim->scenario->window_count; i++) {
		free(sim->window[i].latency);
		free(sim->window[i].busy_ns);
		free(sim->window[i].given);
		free(sim->window[i].failed);
	}
	free(sim->window);
	free(sim->sample_latency);
	free(sim->sorted);
}

void weir_sim_metrics_latency(struct weir_sim *sim, uint64_t latency_ns) {
	weir_sim_histogram_add(sim->sample_latency, latency_ns);
	for (uint32_t i = 0; i < sim->scenario->window_count; i++) {
		if (sim->window[i].open) {
			weir_sim_histogram_add(sim->window[i].latency, latency_ns);
		}
	}
}

struct weir_sim_totals weir_sim_totals_since(
	const struct weir_sim_totals *now, const struct weir_sim_totals *then) {
	struct weir_sim_totals passed = {.arrived = now->arrived - then->arrived,
		.spilled = now->spilled - then->spilled,
		.watched = now->watched - then->watched,
		.replaced = now->replaced - then->replaced,
		.least_replaced = now->least_replaced - then->least_replaced};

	for (int i = 0; i < WEIR_SIM_ENDING_COUNT; i++) {
		passed.ended[i] = now->ended[i] - then->ended[i];
	}
	for (int i = 0; i < WEIR_SIM_STEAL_COUNT; i++) {
		passed.steals[i] = now->steals[i] - then->steals[i];
	}
	return passed;
}

// Returns the number of requests of the watched backend, divided by the mean number of requests of
// a backend.
static double share_of(const struct weir_sim *sim, const struct weir_sim_totals *totals) {
	uint64_t given = totals->arrived - totals->ended[WEIR_SIM_REJECTED];

	return given > 0 ? (double)totals->watched * sim->listed_count / (double)given : 0;
}

static int compare_doubles(const void *left, const void *right) {
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

// Returns a quantile of n sorted values, for example the median for fraction 0.5. Returns 0 if n is
// 0 (no backend was measured).
static double quantile(const double *sorted, uint32_t n, double fraction) {
	return n > 0 ? sorted[(uint32_t)(fraction * (n - 1) + 0.5)] : 0;
}

// Returns whether a backend is measured in a window that begins at from_ns. A backend that was
// added or removed after this time is not measured, because it cannot be compared with other
// backends.
static bool is_measured(const struct weir_sim_backend *backend, uint64_t from_ns) {
	return backend->listed && backend->listing_ns <= from_ns;
}

void weir_sim_sample_spread(struct weir_sim_result *result, struct weir_sim_sample *sample,
	double *values, uint32_t n) {
	uint64_t from_ns = result->samples > 1 ? result->sample[result->samples - 2].time_ns : 0;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += values[i];
	}
	qsort(values, n, sizeof(*values), compare_doubles);
	sample->cpu_min = quantile(values, n, 0);
	sample->cpu_p05 = quantile(values, n, 0.05);
	sample->cpu_p50 = quantile(values, n, 0.5);
	sample->cpu_p95 = quantile(values, n, 0.95);
	sample->cpu_max = quantile(values, n, 1);
	sample->cpu_mean = n > 0 ? sum / n : 0;
	for (uint32_t i = 0; i < result->measures && sample->cpu_mean > 0; i++) {
		struct weir_sim_measure *m = &result->measure[i];
		double busiest = sample->cpu_max / sample->cpu_mean;

		if (from_ns >= m->from_ns && sample->time_ns <= m->to_ns) {
			m->busiest += (busiest - m->busiest) / ++m->busiest_samples;
			m->busiest_most = fmax(m->busiest_most, busiest);
		}
	}
}

void weir_sim_metrics_sample(struct weir_sim *sim) {
	uint32_t n = sim->scenario->backends.count;
	double all_ns = (double)sim->scenario->sample_ns * sim->scenario->backends.cores;
	struct weir_sim_sample *sample = &sim->result->sample[sim->result->samples++];
	uint32_t measured = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct weir_sim_backend *backend = &sim->backend[i];
		double busy_ns = weir_sim_cpu_busy(&backend->cpu, sim->now_ns);
		double cpu = (busy_ns - backend->busy_at_sample_ns) / all_ns;

		backend->busy_at_sample_ns = busy_ns;
		if (i == sim->scenario->watch) {
			sample->watched_cpu = cpu;
		}
		if (is_measured(backend, sim->now_ns - sim->scenario->sample_ns)) {
			sim->sorted[measured++] = cpu;
		}
	}
	sample->time_ns = sim->now_ns;
	weir_sim_sample_spread(sim->result, sample, sim->sorted, measured);
	sample->totals = weir_sim_totals_since(&sim->totals, &sim->sampled);
	sample->share = share_of(sim, &sample->totals);
	sample->p50_ms = weir_sim_histogram_quantile(sim->sample_latency, 0.5) / NS_PER_MS;
	sample->p99_ms = weir_sim_histogram_quantile(sim->sample_latency, 0.99) / NS_PER_MS;
	sim->sampled = sim->totals;
	*sim->sample_latency = (struct weir_sim_histogram){0};
	weir_sim_schedule(sim, sim->now_ns + sim->scenario->sample_ns, WEIR_SIM_EVENT_SAMPLE, 0);
}

void weir_sim_metrics_subsets(struct weir_sim *sim) {
	uint32_t peak = 0, least = UINT32_MAX;
	bool open = false;

	for (uint32_t i = 0; i < sim->scenario->window_count; i++) {
		open |= sim->window[i].open;
	}
	for (uint32_t i = 0; open && i < sim->listed_count; i++) {
		uint32_t clients = sim->backend[sim->listed[i]].clients;

		peak = clients > peak ? clients : peak;
	}
	for (uint32_t i = 0; open && i < sim->scenario->clients.count; i++) {
		uint32_t members = sim->client[i].member_count;

		least = members < least ? members : least;
	}
	for (uint32_t i = 0; i < sim->scenario->window_count; i++) {
		struct weir_sim_measure *m = &sim->result->measure[i];

		if (sim->window[i].open) {
			m->clients_peak = peak > m->clients_peak ? peak : m->clients_peak;
			m->members_least = least < m->members_least ? least : m->members_least;
		}
	}
}

void weir_sim_metrics_begin(struct weir_sim *sim, uint32_t window) {
	struct weir_sim_window_state *state = &sim->window[window];

	state->open = true;
	state->totals = sim->totals;
	sim->result->measure[window].members = sim->members;
	sim->result->measure[window].members_least = UINT32_MAX;
	weir_sim_metrics_subsets(sim);
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		state->busy_ns[i] = weir_sim_cpu_busy(&sim->backend[i].cpu, sim->now_ns);
		state->given[i] = sim->backend[i].given;
		state->failed[i] = sim->backend[i].failed;
	}
}

static void measure_backends(struct weir_sim *sim, const struct weir_sim_window_state *state,
	struct weir_sim_measure *m) {
	double all_ns = (double)(m->to_ns - m->from_ns) * sim->scenario->backends.cores;

	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		struct weir_sim_backend *backend = &sim->backend[i];
		double busy_ns = weir_sim_cpu_busy(&backend->cpu, sim->now_ns);

		m->backend[i] = (struct weir_sim_backend_result){
			.cpu = (busy_ns - state->busy_ns[i]) / all_ns,
			.requests = backend->given - state->given[i],
			.failed = backend->failed - state->failed[i],
			.clients = backend->clients,
			.speed = backend->base_speed,
			.listed = backend->listed,
			.measured = is_measured(backend, m->from_ns)};
	}
}

static double ratio(double most, double least) {
	return most > 0 ? most / least : 1;
}

void weir_sim_measure_spread(
	struct weir_sim_measure *m, uint32_t backends, uint32_t cores, double *sorted) {
	uint32_t n = 0;
	double sum = 0, wasted = 0, squares = 0;

	for (uint32_t i = 0; i < backends; i++) {
		if (m->backend[i].measured) {
			sorted[n++] = m->backend[i].cpu;
			sum += m->backend[i].cpu;
		}
	}
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	m->cpu_min = quantile(sorted, n, 0);
	m->cpu_max = quantile(sorted, n, 1);
	m->cpu_mean = n > 0 ? sum / n : 0;
	for (uint32_t i = 0; i < n; i++) {
		double off = sorted[i] - m->cpu_mean;

		wasted += m->cpu_max - sorted[i];
		squares += off * off;
	}
	m->spread = ratio(m->cpu_max, m->cpu_min);
	m->tail_spread = ratio(quantile(sorted, n, 0.95), quantile(sorted, n, 0.05));
	m->wasted_cores = wasted * cores;
	m->wasted = m->cpu_max > 0 ? wasted / (n * m->cpu_max) : 0;
	m->deviation = m->cpu_mean > 0 ? sqrt(squares / n) / m->cpu_mean : 0;
}

static void measure_requests(struct weir_sim *sim, struct weir_sim_measure *m) {
	uint32_t n = 0;
	uint64_t sum = 0, least = UINT64_MAX;

	m->clients_min = sim->listed_count > 0 ? UINT32_MAX : 0;
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		const struct weir_sim_backend_result *backend = &m->backend[i];

		if (backend->measured) {
			n++;
			sum += backend->requests;
			least = backend->requests < least ? backend->requests : least;
		}
		if (!backend->listed) {
			continue;
		}
		m->clients_min =
			backend->clients < m->clients_min ? backend->clients : m->clients_min;
		m->clients_max =
			backend->clients > m->clients_max ? backend->clients : m->clients_max;
	}
	m->lightest_percent = sum > 0 ? 100.0 * (double)least * n / (double)sum : 0;
}

void weir_sim_metrics_end(struct weir_sim *sim, uint32_t window) {
	struct weir_sim_window_state *state = &sim->window[window];
	struct weir_sim_measure *m = &sim->result->measure[window];

	state->open = false;
	m->totals = weir_sim_totals_since(&sim->totals, &state->totals);
	m->share = share_of(sim, &m->totals);
	m->p50_ms = weir_sim_histogram_quantile(state->latency, 0.5) / NS_PER_MS;
	m->p99_ms = weir_sim_histogram_quantile(state->latency, 0.99) / NS_PER_MS;
	m->p999_ms = weir_sim_histogram_quantile(state->latency, 0.999) / NS_PER_MS;
	m->mean_ms = state->latency->count > 0
			     ? state->latency->sum_ns / (double)state->latency->count / NS_PER_MS
			     : 0;
	measure_backends(sim, state, m);
	weir_sim_measure_spread(
		m, sim->scenario->backends.count, sim->scenario->backends.cores, sim->sorted);
	measure_requests(sim, m);
}
