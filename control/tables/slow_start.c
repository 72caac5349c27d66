// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: the progress of backends that became eligible recently. The progress is published in
// steps, at the same time for all backends of a service. A step publishes the rows of the backends
// in slow start. Only the policy maglev also needs a new table.
#include "slow_start.h"

#include <errno.h>
#include <stdlib.h>

#include "state.h"

#define STEP_LEAST_MS 100u

static struct weir_slow_start_settings settings_of(const struct weir_service_entry *service) {
	const struct weir_config_slow_start *config = &service->config->slow_start;

	return (struct weir_slow_start_settings){.window_ms = config->window_ms,
		.aggression = config->aggression,
		.least = config->min_weight_percent / 100.0};
}

static uint64_t step_ms(const struct weir_service_entry *service) {
	uint64_t step = service->config->slow_start.window_ms / WEIR_SLOW_START_STEPS;

	return step > STEP_LEAST_MS ? step : STEP_LEAST_MS;
}

void weir_slow_start_begin(const struct weir_state *state, struct weir_backend_entry *backend) {
	backend->slow_start_ms = state->now_ms > 0 ? state->now_ms : 1;
}

void weir_slow_start_end(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];

	if (backend->slow_start_ms != 0) {
		backend->slow_start_ms = 0;
		weir_state_touch_backend(state, id);
	}
}

// Returns the slow start factor at the middle of this step. For a backend that starts after the
// middle, returns the factor at its start.
static double factor_of(const struct weir_state *state, const struct weir_service_entry *service,
	const struct weir_backend_entry *backend) {
	const struct weir_slow_start_settings settings = settings_of(service);
	uint64_t now_ms = state->now_ms - state->now_ms % step_ms(service) + step_ms(service) / 2;
	uint64_t since_ms = backend->slow_start_ms;

	if (since_ms == 0) {
		return 1;
	}
	return weir_slow_start_factor(&settings, now_ms > since_ms ? now_ms - since_ms : 0);
}

static void set_share(struct weir_state *state, struct weir_service_entry *service, uint16_t id,
	const struct weir_policy_share *share) {
	struct weir_backend_entry *backend = &state->backends[id];

	service->slow_start |= share->part != 0;
	if (backend->share.part != share->part || backend->share.turns != share->turns) {
		backend->share = *share;
		service->parts_stale = true;
		weir_state_mark_backend(state, id);
	}
}

int weir_slow_start_decide(struct weir_state *state, struct weir_service_entry *service) {
	struct weir_policy_share share = {0};
	uint32_t n = 0, i = 0;
	double *factors;
	double sum;

	if (!service->slow_start &&
		(service->config == NULL || service->config->slow_start.window_ms == 0)) {
		return 0;
	}
	factors = calloc(service->members + 1, sizeof(factors[0]));
	if (factors == NULL) {
		return -ENOMEM;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];
		double factor = 1;

		if (service->config != NULL) {
			factor = factor_of(state, service, backend);
		}
		if (factor >= 1) {
			weir_slow_start_end(state, link - 1);
		}
		if (backend->chosen) {
			factors[n++] = factor;
		}
	}
	sum = weir_slow_start_level(factors, n);
	service->slow_start = false;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		share = (struct weir_policy_share){0};
		if (state->backends[link - 1].chosen) {
			weir_slow_start_share(factors[i++], sum, n, &share);
		}
		set_share(state, service, link - 1, &share);
		service->slow_start |= state->backends[link - 1].slow_start_ms != 0;
	}
	free(factors);
	return 0;
}

void weir_slow_start_tick(struct weir_state *state, uint64_t now_ms) {
	uint64_t before_ms = state->now_ms;

	state->now_ms = now_ms;
	for (uint32_t id = 0; id < state->service_ids; id++) {
		const struct weir_service_entry *service = &state->services[id];

		if (service->slow_start && service->config != NULL &&
			now_ms / step_ms(service) != before_ms / step_ms(service)) {
			weir_state_mark_service(state, (uint16_t)id);
		}
	}
}
