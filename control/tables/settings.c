// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>

#include "state.h"

enum weir_policy weir_service_policy(const struct weir_service_entry *service) {
	return service->runtime_policy != WEIR_POLICY_UNSET
		       ? (enum weir_policy)service->runtime_policy
		       : (enum weir_policy)service->configured_policy;
}

bool weir_service_takes_reports(const struct weir_service_entry *service) {
	return service->config != NULL &&
	       service->config->policy.weights != WEIR_WEIGHTS_CONFIGURED &&
	       weir_service_policy(service) == WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
}

static uint32_t error_window_ms(
	const struct weir_service_entry *service, const struct weir_config_policy *config) {
	return config->error_window_ms > 0    ? config->error_window_ms
	       : service->error_window_ms > 0 ? service->error_window_ms
					      : WEIR_ERROR_WINDOW_LEAST_MS;
}

// Returns how many workers of all instances use a backend, on average.
static uint32_t sharers_of(
	const struct weir_state *state, const struct weir_service_entry *service) {
	uint64_t workers = (uint64_t)state->clients * state->place.members * state->place.workers;
	uint32_t size = service->config->subset.size;
	uint32_t primaries = weir_subsets_primaries(service);

	if (service->config->subset.algorithm != WEIR_SUBSET_NONE && size < primaries) {
		workers = (workers * size + primaries / 2) / primaries;
	}
	return workers < 1 ? 1 : workers > UINT16_MAX ? UINT16_MAX : (uint32_t)workers;
}

static void set_hash(
	const struct weir_config_service *config, struct weir_policy_settings *settings) {
	const struct weir_config_affinity *affinity = &config->affinity;

	if (affinity->name == WEIR_AFFINITY_SOURCE) {
		settings->hash4 = (uint8_t)affinity->ipv4_prefix;
		settings->hash6 = (uint8_t)affinity->ipv6_prefix;
		if (settings->policy != WEIR_POLICY_MAGLEV) {
			settings->hash4 |= WEIR_HASH_AFFINITY;
		}
	} else if (config->hash_fields != WEIR_HASH_FIELDS_TUPLE) {
		settings->hash4 = 32;
		settings->hash6 = 128;
		if (config->hash_fields == WEIR_HASH_FIELDS_SOURCE_DESTINATION) {
			settings->hash4 |= WEIR_HASH_DESTINATION;
		}
	}
}

struct weir_policy_settings weir_service_settings(
	const struct weir_state *state, const struct weir_service_entry *service) {
	const struct weir_config_policy *config = &service->config->policy;
	const struct weir_config_flow_control *flow_control = &service->config->flow_control;
	enum weir_policy policy = weir_service_policy(service);
	struct weir_policy_settings settings = {
		.policy = (uint8_t)policy,
		.needs = weir_policy_needs(policy),
		.when_exhausted = (uint8_t)flow_control->when_exhausted,
		.error_window_ms =
			WEIR_ERROR_WINDOW_LEAST_MS, // this value is not used, but must not be 0
	};
	bool rounds = (settings.needs & WEIR_NEEDS_ROUNDS) != 0;
	bool costs = (settings.needs & WEIR_NEEDS_COST) != 0 &&
		     !(rounds && config->rounds == WEIR_ROUNDS_TASKS);
	bool errors = (settings.needs & WEIR_NEEDS_ERRORS) != 0;

	if (errors) {
		settings.error_window_ms = error_window_ms(service, config);
	}
	if (service->measured || (costs && config->service_time == WEIR_SERVICE_TIME_FLOW) ||
		(errors && config->error_window_ms == 0)) {
		settings.needs |= WEIR_NEEDS_TIMES;
	}
	if (service->config->outlier_ejection.enabled) {
		settings.needs |= WEIR_NEEDS_RESULTS;
	}
	if (service->config->steal.enabled) {
		settings.needs |= WEIR_NEEDS_HALF_OPEN;
	}
	if (policy == WEIR_POLICY_FAIR_SHARE) {
		settings.sharers = (uint16_t)sharers_of(state, service);
	}
	set_hash(service->config, &settings);
	settings.rounds = rounds ? (uint8_t)config->rounds : 0;
	if (service->config->udp == WEIR_CONFIG_UDP_DATAGRAM) {
		settings.rounds |= WEIR_UDP_DATAGRAM;
	}
	return settings;
}

void weir_service_follow_policy(struct weir_state *state, struct weir_service_entry *service) {
	const struct weir_config_policy *config = &service->config->policy;
	bool changed = service->configured_policy != config->name;
	bool misfit = service->runtime_policy != WEIR_POLICY_UNSET &&
		      weir_config_policy_misfit(
			      service->config, (enum weir_policy)service->runtime_policy) != NULL;

	if (changed || misfit) {
		service->configured_policy = (uint8_t)config->name;
		service->runtime_policy = WEIR_POLICY_UNSET;
		service->policy_set = false;
		weir_state_touch_service(state, (uint16_t)(service - state->services));
	}
	for (uint16_t link = service->first; link != 0 && !weir_service_takes_reports(service);
		link = state->backends[link - 1].next) {
		// Clear the reported weight: it is not used, so it is no longer updated.
		if (state->backends[link - 1].reported_weight != 0) {
			state->backends[link - 1].reported_weight = 0;
			weir_state_touch_backend(state, link - 1);
		}
	}
}

uint32_t weir_backend_limit(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	uint32_t own = backend->max_active_flows;
	uint32_t common = state->services[backend->service].max_active_flows;

	if (common == 0) {
		return own;
	}
	return own != 0 && own < common ? own : common;
}

void weir_service_follow_limit(struct weir_state *state, struct weir_service_entry *service) {
	uint32_t limit = service->config->flow_control.max_active_flows;

	if (service->max_active_flows == limit) {
		return;
	}
	service->max_active_flows = limit;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		weir_state_mark_backend(state, link - 1);
	}
}

// --- changes by callers -------------------------------------------------------------------

static struct weir_service_entry *live_service(struct weir_tables *tables, uint16_t id) {
	struct weir_state *state = tables->state;

	if (id >= state->service_ids || state->services[id].stage != WEIR_ID_LIVE ||
		state->services[id].config == NULL) {
		return NULL;
	}
	return &state->services[id];
}

int weir_tables_set_policy(struct weir_tables *tables, uint16_t id, uint8_t policy) {
	struct weir_service_entry *service = live_service(tables, id);

	if (service == NULL) {
		return -ENOENT;
	}
	if (policy != WEIR_POLICY_UNSET &&
		(policy >= WEIR_POLICY_COUNT || weir_config_policy_misfit(service->config,
							(enum weir_policy)policy) != NULL)) {
		return -EINVAL;
	}
	service->policy_set = true;
	if (service->runtime_policy != policy) {
		service->runtime_policy = policy;
		weir_state_mark_service(tables->state, id);
	}
	return 0;
}

int weir_tables_set_error_window(struct weir_tables *tables, uint16_t id, uint32_t ms) {
	struct weir_service_entry *service = live_service(tables, id);

	if (service == NULL) {
		return -ENOENT;
	}
	if (service->error_window_ms != ms) {
		service->error_window_ms = ms;
		weir_state_mark_service(tables->state, id);
	}
	return 0;
}

int weir_tables_set_auto_weight(struct weir_tables *tables, uint16_t id, uint32_t weight) {
	struct weir_state *state = tables->state;
	struct weir_backend_entry *backend;

	if (id >= state->backend_ids || state->backends[id].stage != WEIR_ID_LIVE ||
		!state->backends[id].weight_auto) {
		return -ENOENT;
	}
	backend = &state->backends[id];
	weight = weight < WEIR_WEIGHT_AUTO_MOST ? weight : WEIR_WEIGHT_AUTO_MOST;
	if (backend->auto_weight != weight) {
		backend->auto_weight = weight;
		weir_state_touch_backend(state, id);
		weir_state_mark_service(state, backend->service);
	}
	return 0;
}

int weir_tables_set_own_weight(struct weir_tables *tables, uint16_t id, uint32_t weight) {
	struct weir_state *state = tables->state;
	struct weir_backend_entry *backend;

	if (id >= state->backend_ids || state->backends[id].stage != WEIR_ID_LIVE) {
		return -ENOENT;
	}
	backend = &state->backends[id];
	if (backend->own_weight != weight) {
		backend->own_weight = weight;
		weir_state_mark_service(state, backend->service);
	}
	return 0;
}

int weir_tables_set_limit(
	struct weir_tables *tables, uint16_t id, uint32_t max_active_flows, bool at_limit) {
	struct weir_state *state = tables->state;
	struct weir_backend_entry *backend;

	if (id >= state->backend_ids || state->backends[id].stage != WEIR_ID_LIVE) {
		return -ENOENT;
	}
	backend = &state->backends[id];
	if (backend->max_active_flows != max_active_flows || backend->at_limit != at_limit) {
		backend->max_active_flows = max_active_flows;
		backend->at_limit = at_limit;
		weir_state_mark_backend(state, id);
	}
	return 0;
}

int weir_tables_set_measured(struct weir_tables *tables, uint16_t id, bool measured) {
	struct weir_service_entry *service = live_service(tables, id);

	if (service == NULL) {
		return -ENOENT;
	}
	if (service->measured != measured) {
		service->measured = measured;
		weir_state_mark_service(tables->state, id);
	}
	return 0;
}

int weir_tables_set_reported_weight(struct weir_tables *tables, uint16_t id, uint32_t weight) {
	struct weir_state *state = tables->state;
	struct weir_backend_entry *backend;

	if (id >= state->backend_ids || state->backends[id].stage != WEIR_ID_LIVE) {
		return -ENOENT;
	}
	backend = &state->backends[id];
	if (backend->reported_weight != weight) {
		backend->reported_weight = weight;
		weir_state_touch_backend(state, id);
		weir_state_mark_service(state, backend->service);
	}
	return 0;
}
