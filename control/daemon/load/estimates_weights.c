// SPDX-License-Identifier: BSD-3-Clause
//
// Weights from load reports. Weights "reported": the weight is the capability of the backend
// (capability.h). Weights "balanced": the configured weight is corrected until the utilizations of
// the backends are equal (balanced.h). No weight changes by more than a factor of CHANGE_MOST per
// second, even when reports begin or expire; but a small weight can always rise by 1.
#include <math.h>

#include "estimates_private.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
// Mean of a service's reported weights; high, so that weights, which are integers, can change in
// small steps.
#define WEIGHT_MEAN 10000
// If no weight of a service changes by more than this percentage, its weights are not published.
#define CHANGE_PERCENT 2
#define CHANGE_MOST 1.2 // a weight changes by at most this factor per second
#define MORE_THAN_OTHERS 10.0
// Configured weights are multiplied by this factor, because corrected weights are truncated to
// integers.
#define CORRECTED_UNIT 1000.0

bool weir_estimates_is_ready(const struct weir_backend_state *state) {
	return state->admin == WEIR_ADMIN_READY && state->health == WEIR_HEALTH_HEALTHY;
}

// Discards the reports that a backend sent before an outage, when the backend is ready again.
static void follow_readiness(struct weir_estimates *estimates, uint16_t id) {
	struct backend_estimates *backend = &estimates->backend[id];
	struct weir_backend_state state;
	bool ready = weir_tables_backend(estimates->tables, id, &state) == 0 &&
		     weir_estimates_is_ready(&state);

	if (ready && !backend->ready) {
		weir_capability_ready(&backend->weight->capability);
		backend->weight->load.known = false;
	}
	backend->ready = ready;
}

static uint32_t configured_weight(const struct weir_estimates *estimates, uint16_t id) {
	struct weir_backend_state state;

	return weir_tables_backend(estimates->tables, id, &state) == 0 ? state.configured_weight
								       : 0;
}

struct weir_capability_settings weir_estimates_capability(const struct weir_config_policy *policy) {
	return (struct weir_capability_settings){
		.blackout_ns = policy->blackout_ms * NS_PER_MS,
		.expiration_ns = policy->expiration_ms * NS_PER_MS,
		.smoothing_ns = policy->smoothing_ms * NS_PER_MS,
		.penalty = policy->error_penalty,
		.successful = policy->requests == WEIR_REQUESTS_SUCCESSFUL,
	};
}

// Limit the largest capability to MORE_THAN_OTHERS times the mean of the other known capabilities.
// Without this limit, a backend that reports requests but almost no load would get almost all
// flows.
static void limit_largest(struct service_estimates *service, uint32_t known) {
	double others = 0;
	uint32_t largest = 0;

	for (uint32_t i = 1; i < service->count; i++) {
		largest = service->capability[i] > service->capability[largest] ? i : largest;
	}
	for (uint32_t i = 0; i < service->count; i++) {
		others += i != largest ? service->capability[i] : 0;
	}
	if (known >= 2) {
		service->capability[largest] =
			fmin(service->capability[largest], MORE_THAN_OTHERS * others / (known - 1));
	}
}

// Computes weights from capabilities. Returns the number of known capabilities; if it is below two,
// no weights are computed.
static uint32_t read_capabilities(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	struct weir_capability_settings settings = weir_estimates_capability(&service->config);
	uint32_t known = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		struct backend_estimates *backend = &estimates->backend[service->member[i]];

		service->capability[i] =
			weir_capability_read(&backend->weight->capability, &settings, now_ns);
		known += service->capability[i] > 0;
	}
	if (known >= 2) {
		limit_largest(service, known);
		weir_capability_weights(service->capability, service->count, service->weight);
	}
	return known;
}

// Derives the initial corrections from the weights that are in use.
static void adopt_corrections(
	struct weir_estimates *estimates, const struct service_estimates *service) {
	struct weir_backend_state state;
	double sum = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		sum += configured_weight(estimates, service->member[i]);
	}
	for (uint32_t i = 0; i < service->count; i++) {
		struct backend_weight *weight = estimates->backend[service->member[i]].weight;

		if (weir_tables_backend(estimates->tables, service->member[i], &state) == 0 &&
			state.configured_weight > 0 && state.reported_weight > 0) {
			weight->correction = log(
				state.reported_weight * sum /
				((double)state.configured_weight * service->count * WEIGHT_MEAN));
		}
	}
}

// Computes weights from the configured weights and their corrections. Returns the number of
// backends whose utilization is known. *ret_corrected: whether any correction is not 0.
static uint32_t balance(struct weir_estimates *estimates, struct service_estimates *service,
	uint64_t now_ns, bool *ret_corrected) {
	struct weir_balanced_settings settings = weir_balanced_defaults();
	uint64_t elapsed_ns = service->stepped_ns > 0 ? now_ns - service->stepped_ns : 0;
	uint32_t known = 0;

	if (service->stepped_ns == 0) {
		adopt_corrections(estimates, service);
	}
	service->stepped_ns = now_ns;
	for (uint32_t i = 0; i < service->count; i++) {
		const struct backend_weight *weight = estimates->backend[service->member[i]].weight;

		service->capability[i] = weir_balanced_read(&weight->load, &settings, now_ns);
		service->correction[i] = weight->correction;
		known += service->capability[i] > WEIR_BALANCED_UNKNOWN;
	}
	if (known == 0 && !service->weights_known) {
		return 0; // keep the weights of the previous process
	}
	*ret_corrected = weir_balanced_step(
		&settings, service->capability, service->correction, service->count, elapsed_ns);
	for (uint32_t i = 0; i < service->count; i++) {
		double configured = configured_weight(estimates, service->member[i]);

		estimates->backend[service->member[i]].weight->correction = service->correction[i];
		service->weight[i] = (uint32_t)weir_balanced_weight(
			CORRECTED_UNIT * configured, service->correction[i]);
	}
	return known;
}

// Scale the weights to a mean of WEIGHT_MEAN. If all are 0, they become equal.
static void scale(struct service_estimates *service) {
	double sum = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		sum += service->weight[i];
	}
	for (uint32_t i = 0; i < service->count; i++) {
		double part = sum > 0 ? service->weight[i] / sum * service->count : 1;

		service->weight[i] = (uint32_t)fmax(part * WEIGHT_MEAN + 0.5, 1);
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

// Move each weight towards its target, by at most the factor CHANGE_MOST per second. Returns
// whether all weights are close to their targets.
static bool approach(struct weir_estimates *estimates, struct service_estimates *service) {
	struct weir_backend_state state;
	double change = pow(CHANGE_MOST, service->config.update_ms / 1000.0);
	bool close_to_target = true;
	double sum = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		sum += configured_weight(estimates, service->member[i]);
	}
	for (uint32_t i = 0; i < service->count; i++) {
		uint32_t target = service->weight[i];
		double from, most, least;

		if (weir_tables_backend(estimates->tables, service->member[i], &state) < 0) {
			continue;
		}
		from = state.reported_weight;
		if (from == 0 && sum > 0) {
			from = state.configured_weight / sum * service->count * WEIGHT_MEAN;
		}
		most = fmax(from * change, from + 1); // weights are integers
		least = from / change;
		if (from > 0) {
			service->weight[i] = target > most    ? (uint32_t)most
					     : target < least ? (uint32_t)least
							      : target;
		}
		service->weight[i] = service->weight[i] > 0 ? service->weight[i] : 1;
		close_to_target &= !differs(service->weight[i], target);
	}
	return close_to_target;
}

// Sets the targets to the configured weights. Returns whether the configured weights are already in
// use.
static bool aim_at_configured(
	const struct weir_estimates *estimates, struct service_estimates *service) {
	struct weir_backend_state state;
	bool reported = false;

	for (uint32_t i = 0; i < service->count; i++) {
		bool is = weir_tables_backend(estimates->tables, service->member[i], &state) == 0;

		service->weight[i] = is ? (uint32_t)(CORRECTED_UNIT * state.configured_weight) : 0;
		reported |= is && state.reported_weight > 0;
	}
	return !reported;
}

// Returns whether the weights of the service must be updated now. Half a second is tolerated,
// because this function is called about once a second.
static bool is_due(struct service_estimates *service, uint64_t now_ns) {
	if (service->adjusted_ns > 0 && now_ns - service->adjusted_ns + NS_PER_S / 2 <
						service->config.update_ms * NS_PER_MS) {
		return false;
	}
	service->adjusted_ns = now_ns;
	return true;
}

bool weir_estimates_adjust_weights(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	bool corrected = false, in_use;
	uint32_t known;

	for (uint32_t i = 0; i < service->count; i++) {
		follow_readiness(estimates, service->member[i]);
	}
	if (!is_due(service, now_ns)) {
		return false;
	}
	if (service->config.weights == WEIR_WEIGHTS_BALANCED) {
		known = balance(estimates, service, now_ns, &corrected);
		in_use = corrected;
	} else {
		known = read_capabilities(estimates, service, now_ns);
		in_use = known >= 2;
	}
	service->weights_known |= known >= 2;
	if (!in_use) {
		if ((!service->weights_known && now_ns < service->adopted_until_ns) ||
			aim_at_configured(estimates, service)) {
			return false;
		}
	}
	scale(service);
	if (approach(estimates, service) && !in_use) {
		for (uint32_t i = 0; i < service->count; i++) {
			service->weight[i] = 0; // use the configured weights
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
