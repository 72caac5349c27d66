// SPDX-License-Identifier: BSD-3-Clause
//
// Weights from load reports: the capability of a backend (capability.h).
#include "estimates_private.h"

#define WEIGHT_MEAN 10000 // of the reported weights of a service: fine steps down to 1 % of it
#define CHANGE_PERCENT 2 // smaller changes are not worth a publication

bool weir_estimates_is_ready(const struct weir_backend_state *state) {
	return state->admin == WEIR_ADMIN_READY && state->health == WEIR_HEALTH_HEALTHY;
}

// Read the capabilities of a service's backends. Returns how many are known.
static uint32_t read_capabilities(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	struct weir_capability_settings settings = weir_capability_defaults();
	struct weir_backend_state state;
	uint32_t known = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		struct backend_estimates *backend = &estimates->backend[service->member[i]];
		bool ready =
			weir_tables_backend(estimates->tables, service->member[i], &state) == 0 &&
			weir_estimates_is_ready(&state);

		if (ready && !backend->ready) {
			weir_capability_ready(backend->capability);
		}
		backend->ready = ready;
		service->capability[i] =
			weir_capability_read(backend->capability, &settings, now_ns);
		known += service->capability[i] > 0;
	}
	return known;
}

// To a mean of WEIGHT_MEAN.
static void scale(struct service_estimates *service) {
	double sum = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		sum += service->weight[i];
	}
	for (uint32_t i = 0; i < service->count; i++) {
		double weight = service->weight[i] / sum * service->count * WEIGHT_MEAN + 0.5;

		service->weight[i] = weight < 1 ? 1 : (uint32_t)weight;
	}
}

static bool differs(uint32_t old, uint32_t new) {
	uint64_t change = old < new ? new - old : old - new;

	return old == 0 ? new > 0 : new == 0 || change * 100 > (uint64_t)old *CHANGE_PERCENT;
}

static bool any_differs(
	const struct weir_estimates *estimates, const struct service_estimates *service) {
	struct weir_backend_state state;

	for (uint32_t i = 0; i < service->count; i++) {
		if (weir_tables_backend(estimates->tables, service->member[i], &state) == 0 &&
			differs(state.reported_weight, service->weight[i])) {
			return true;
		}
	}
	return false;
}

bool weir_estimates_adjust_weights(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	uint32_t known = read_capabilities(estimates, service, now_ns);

	if (known >= 2) {
		service->weights_known = true;
		weir_capability_weights(service->capability, service->count, service->weight);
		scale(service);
	} else if (!service->weights_known && now_ns < service->adopted_until_ns) {
		return false;
	} else {
		for (uint32_t i = 0; i < service->count; i++) {
			service->weight[i] = 0; // the configured ones
		}
	}
	if (!any_differs(estimates, service)) {
		return false;
	}
	for (uint32_t i = 0; i < service->count; i++) {
		weir_tables_set_reported_weight(
			estimates->tables, service->member[i], service->weight[i]);
	}
	return true;
}
