// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>

#include "state.h"

static enum weir_health_state first_health(
	const struct weir_config_service *service, const struct weir_config_backend *config) {
	return weir_config_check_of(service, config)->type == WEIR_CHECK_NONE
		       ? WEIR_HEALTH_HEALTHY
		       : WEIR_HEALTH_STARTING;
}

static void set_weight(
	struct weir_backend_entry *backend, const struct weir_config_backend *config) {
	backend->configured_weight = config->weight;
	backend->weight_auto = config->weight_auto;
	backend->auto_weight = config->weight_auto ? backend->auto_weight : 0;
}

// Sets the forwarding of a backend. Keeps the current next hop until next_hops.c sets it again, but
// only if the new forwarding can use this next hop.
static void set_forwarding(
	struct weir_backend_entry *backend, const struct weir_forwarding *forwarding) {
	backend->forwarding = *forwarding;
	backend->hop.resolved = weir_next_hop_serves(&backend->hop, forwarding);
}

// Applies a new configuration to an existing backend. The backend keeps its state, but its
// configured weight, its forwarding and its tier may change. A new configured weight clears the
// run-time weight.
static void keep_backend(struct weir_state *state, uint16_t id,
	const struct weir_config_service *service, const struct weir_config_backend *config) {
	struct weir_backend_entry *backend = &state->backends[id];
	struct weir_forwarding forwarding = weir_config_forwarding_of(service, config);

	if (!weir_forwarding_equal(&backend->forwarding, &forwarding)) {
		set_forwarding(backend, &forwarding);
		weir_state_mark_backend(state, id);
	}
	backend->backup = config->backup;
	if (backend->weight_auto != config->weight_auto ||
		backend->configured_weight != config->weight) {
		set_weight(backend, config);
		backend->runtime_weight = WEIR_WEIGHT_UNSET;
		backend->set &= ~WEIR_SET_WEIGHT;
		weir_state_touch_backend(state, id);
	}
}

static int apply_backend(struct weir_state *state, uint16_t service_id,
	const struct weir_config_service *service, const struct weir_config_backend *config) {
	int id = weir_backend_id_find(state, service_id, config->name);
	struct weir_forwarding forwarding;

	if (id >= 0 && weir_address_equal(&state->backends[id].address, &config->address)) {
		keep_backend(state, (uint16_t)id, service, config);
		state->backends[id].seen = state->serial;
		return 0;
	}
	if (id >= 0) {
		// The address has changed. Existing flows stay at the old address: its backend is
		// leaving, and the new address becomes a backend with another id.
		weir_backend_leave(state, (uint16_t)id);
	}
	id = weir_backend_id_find_leaving(state, service_id, config->name, &config->address);
	if (id >= 0) {
		weir_backend_revive(state, (uint16_t)id);
	} else {
		id = weir_backend_id_add(state, service_id, config->name, &config->address);
		if (id < 0) {
			return id;
		}
	}
	set_weight(&state->backends[id], config);
	state->backends[id].backup = config->backup;
	forwarding = weir_config_forwarding_of(service, config);
	set_forwarding(&state->backends[id], &forwarding);
	state->backends[id].proven = false;
	weir_backend_set_health(&state->backends[id], first_health(service, config));
	state->backends[id].seen = state->serial;
	return 0;
}

bool weir_state_has_room(const struct weir_state *state, const struct weir_config *config) {
	uint64_t backends = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		backends += config->services[i].backend_count;
	}
	return config->service_count <= state->service_limit && backends <= state->backend_limit;
}

static uint8_t down_flags(enum weir_config_on_backend_down what) {
	switch (what) {
	case WEIR_ON_BACKEND_DOWN_REHASH:
		return WEIR_BACKEND_REHASH;
	case WEIR_ON_BACKEND_DOWN_RESET:
		return WEIR_BACKEND_RESET;
	case WEIR_ON_BACKEND_DOWN_KEEP:
		break;
	}
	return 0;
}

static bool is_same_bind(const struct weir_config_bind *a, const struct weir_config_bind *b) {
	return weir_address_equal(&a->address, &b->address) && a->protocol == b->protocol &&
	       a->port_first == b->port_first && a->port_last == b->port_last;
}

// Returns whether a service keeps all binds of its previous configuration (`former`; NULL = none),
// in the same order.
static bool has_binds_of(
	const struct weir_config_service *config, const struct weir_config_service *former) {
	uint32_t found = 0;

	for (uint32_t i = 0; former != NULL && i < config->bind_count && found < former->bind_count;
		i++) {
		found += is_same_bind(&former->binds[found], &config->binds[i]);
	}
	return former == NULL || found == former->bind_count;
}

static bool has_bind(
	const struct weir_config_service *config, const struct weir_config_bind *bind) {
	for (uint32_t i = 0; i < config->bind_count; i++) {
		if (is_same_bind(&config->binds[i], bind)) {
			return true;
		}
	}
	return false;
}

// Returns whether a service loses a bind of its previous configuration.
static bool loses_binds(
	const struct weir_config_service *config, const struct weir_config_service *former) {
	for (uint32_t i = 0; i < former->bind_count; i++) {
		if (!has_bind(config, &former->binds[i])) {
			return true;
		}
	}
	return false;
}

static int apply_service(struct weir_state *state, const struct weir_config_service *config,
	bool wait, char *why, size_t why_bytes) {
	int id = weir_service_id_find(state, config->name);
	struct weir_service_entry *service;

	if (id < 0) {
		id = weir_service_id_add(state, config->name);
	} else if (state->services[id].stage != WEIR_ID_LIVE) {
		weir_service_revive(state, (uint16_t)id);
	}
	if (id == -ENOSPC && wait) {
		state->waiting += 1 + config->backend_count;
		return 0;
	}
	if (id < 0) {
		snprintf(why, why_bytes,
			"service \"%s\": no free service id: the maximum is %u "
			"(segment.max_services; ids of removed services become free when their "
			"flows have ended)",
			config->name, state->service_limit);
		return id;
	}
	service = &state->services[id];
	if (!has_binds_of(config, service->config)) {
		weir_former_changed(state, (uint16_t)id);
		service->lost_binds |= loses_binds(config, service->config);
	}
	weir_bind_drains_follow(service, config);
	service->config = config;
	service->seen = state->serial;
	service->down_flags = down_flags(config->on_backend_down);
	service->removed_ms = config->drain.removed_ms;
	weir_service_follow_policy(state, service);
	weir_service_follow_limit(state, service);
	weir_state_mark_service(state, (uint16_t)id);
	for (uint32_t i = 0; i < config->backend_count; i++) {
		int r = apply_backend(state, (uint16_t)id, config, &config->backends[i]);

		if (r == -ENOSPC && wait) {
			state->waiting++;
			continue;
		}
		if (r < 0) {
			snprintf(why, why_bytes,
				"service \"%s\" backend \"%s\": no free backend id: the maximum is "
				"%u (segment.max_backends; ids of removed backends "
				"become free when their flows have ended)",
				config->name, config->backends[i].name, state->backend_limit);
			return r;
		}
	}
	return 0;
}

// Removes the services and backends that the configuration does not contain.
static void leave_unseen(struct weir_state *state) {
	for (uint32_t id = 0; id < state->service_ids; id++) {
		if (state->services[id].stage == WEIR_ID_LIVE &&
			state->services[id].seen != state->serial) {
			weir_removal_begin(state, (uint16_t)id);
			weir_bind_drains_clear(&state->services[id]);
			weir_service_leave(state, (uint16_t)id);
		}
	}
	for (uint32_t id = 0; id < state->backend_ids; id++) {
		if (state->backends[id].stage == WEIR_ID_LIVE &&
			state->backends[id].seen != state->serial) {
			weir_backend_leave(state, (uint16_t)id);
		}
	}
}

int weir_state_apply(struct weir_state *state, const struct weir_config *config, bool wait,
	char *why, size_t why_bytes) {
	state->serial++;
	state->waiting = 0;
	wait = wait && weir_state_has_room(state, config);
	state->established_ms = config->flow_table.established_ms;
	state->clients = config->instance.clients;
	state->place.group = config->instance.client_id;
	state->place.member = config->instance.member;
	state->place.members = config->instance.members;
	for (uint32_t i = 0; i < config->service_count; i++) {
		int r = apply_service(state, &config->services[i], wait, why, why_bytes);

		if (r < 0) {
			return r;
		}
	}
	leave_unseen(state);
	for (uint32_t id = 0; id < state->service_ids; id++) {
		int r = state->services[id].stage == WEIR_ID_LIVE
				? weir_subsets_rank(state, &state->services[id])
				: 0;

		if (r < 0) {
			snprintf(why, why_bytes, "out of memory");
			return r;
		}
	}
	state->services_dirty = true;
	return 0;
}
