// SPDX-License-Identifier: BSD-3-Clause
//
// Starts and stops the estimates of backends, as the policies in the tables require.
#include "estimates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_signal.h"
#include "estimates_private.h"
#include "hash.h"

int weir_estimates_create(struct weir_estimates **ret) {
	struct weir_estimates *estimates = calloc(1, sizeof(*estimates));

	if (estimates == NULL) {
		return -ENOMEM;
	}
	*ret = estimates;
	return 0;
}

// --- one backend --------------------------------------------------------------------------

static void store_cost(const struct weir_estimates *estimates, uint32_t id, uint64_t cost) {
	const struct weir_segment *segment = weir_tables_segment(estimates->tables);

	if (segment != NULL && id < segment->max_backends) {
		__atomic_store_n(&segment->costs[id], cost, __ATOMIC_RELAXED);
	}
}

static uint64_t load_signal(const struct weir_estimates *estimates, uint32_t id) {
	const struct weir_segment *segment = weir_tables_segment(estimates->tables);

	return segment != NULL && id < segment->max_backends
		       ? __atomic_load_n(&segment->costs[id], __ATOMIC_RELAXED)
		       : 0;
}

static uint64_t owner_of(const struct weir_backend_state *state) {
	return weir_hash_bytes(&state->address, sizeof(state->address), state->identity);
}

// Restores the configured weight of a backend, unless its id now belongs to another backend.
static void drop_weight(struct weir_estimates *estimates, uint32_t id) {
	struct weir_backend_state state;

	if (weir_tables_backend(estimates->tables, (uint16_t)id, &state) == 0 &&
		owner_of(&state) == estimates->backend[id].owner) {
		weir_tables_set_reported_weight(estimates->tables, (uint16_t)id, 0);
	}
}

static void remove_backend(struct weir_estimates *estimates, uint32_t id) {
	struct backend_estimates *backend = &estimates->backend[id];

	if (backend->collected || backend->errors != NULL || backend->probed_ns != 0 ||
		weir_signal_is_share(load_signal(estimates, id))) {
		store_cost(estimates, id, 0);
	}
	if (backend->weight != NULL) {
		drop_weight(estimates, id);
	}
	weir_moving_free(backend->times);
	free(backend->errors);
	free(backend->weight);
	memset(backend, 0, sizeof(*backend));
}

// Starts the collection of service times of a backend. The statistics are allocated with the first
// sample, because allocating the statistics of thousands of backends here would delay the loop.
static void begin_times(struct weir_estimates *estimates, uint32_t id, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[id];
	const struct service_estimates *service = backend->service;
	uint64_t cost = service->inherits ? weir_signal_cost(load_signal(estimates, id)) : 0;

	weir_moving_free(backend->times);
	backend->times = NULL;
	backend->collected = true;
	backend->times_pass = service->times_pass;
	backend->inherited_ns = cost;
	backend->inherited_until_ns = cost > 0 ? now_ns + service->config.stale_ms * 1000000ull : 0;
}

static int grow(void **array, uint32_t room, size_t bytes) {
	void *grown = realloc(*array, room * bytes);

	if (grown == NULL) {
		return -ENOMEM;
	}
	*array = grown;
	return 0;
}

static int add_member(struct service_estimates *service, uint16_t id) {
	uint32_t room = service->room * 2 + 8;

	if (service->count == service->room) {
		if (grow((void **)&service->member, room, sizeof(service->member[0])) < 0 ||
			grow((void **)&service->changed, room, sizeof(service->changed[0])) < 0 ||
			grow((void **)&service->capability, room, sizeof(service->capability[0])) <
				0 ||
			grow((void **)&service->correction, room, sizeof(service->correction[0])) <
				0 ||
			grow((void **)&service->weight, room, sizeof(service->weight[0])) < 0 ||
			grow((void **)&service->part, room, sizeof(service->part[0])) < 0) {
			return -ENOMEM;
		}
		service->room = room;
	}
	service->member[service->count++] = id;
	return 0;
}

// Sets up the estimates that the service of a backend needs, and removes its other estimates.
static int follow_backend(struct weir_estimates *estimates, const struct weir_backend_state *state,
	struct service_estimates *service, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[state->id];
	uint64_t owner = owner_of(state);

	if (backend->service != NULL && (backend->owner != owner || backend->service != service)) {
		remove_backend(estimates, state->id);
	}
	if (backend->service == NULL) {
		backend->ready = weir_estimates_is_ready(state);
	}
	backend->owner = owner;
	backend->service = service;
	if (service->weights && backend->weight == NULL) {
		backend->weight = calloc(1, sizeof(*backend->weight));
		if (backend->weight == NULL) {
			return -ENOMEM;
		}
		if (state->reported_weight > 0) {
			service->adopted_until_ns =
				now_ns + weir_estimates_capability(&service->config).expiration_ns;
		}
	} else if (!service->weights && backend->weight != NULL) {
		drop_weight(estimates, state->id);
		free(backend->weight);
		backend->weight = NULL;
	}
	if (service->costs && (!backend->collected || backend->times_pass != service->times_pass)) {
		begin_times(estimates, state->id, now_ns);
	}
	if (!service->costs && backend->collected) {
		weir_moving_free(backend->times);
		backend->times = NULL;
		backend->collected = false;
		store_cost(estimates, state->id, 0);
	}
	if (!service->requests && backend->count.last_ns != 0) {
		backend->count = (struct weir_reported_count){0};
		if (!service->costs) {
			store_cost(estimates, state->id, 0);
		}
	}
	if (!service->errors && weir_signal_is_share(load_signal(estimates, state->id))) {
		store_cost(estimates, state->id, 0);
	}
	if (!service->probes && backend->probed_ns != 0) {
		backend->probed_ns = 0;
		store_cost(estimates, state->id, 0);
	}
	if (!service->costs && !service->errors && !service->probes && backend->errors != NULL) {
		free(backend->errors);
		backend->errors = NULL;
		store_cost(estimates, state->id, 0);
	}
	return add_member(service, state->id);
}

// --- one service --------------------------------------------------------------------------

static void free_service(struct service_estimates *service) {
	if (service != NULL) {
		weir_moving_free(service->times);
		free(service->member);
		free(service->changed);
		free(service->capability);
		free(service->correction);
		free(service->weight);
		free(service->part);
		free(service);
	}
}

static void leave_service(struct weir_estimates *estimates, uint32_t id) {
	struct service_estimates *service = estimates->service[id];

	service->leaves = true;
	service->next_leaving = estimates->leaving;
	estimates->leaving = service;
	estimates->service[id] = NULL;
	estimates->services--;
}

// Removes all services in the list `leaving`, in one pass over the backends, because there can be
// thousands of backends.
static void remove_leaving(struct weir_estimates *estimates) {
	struct service_estimates *service;

	for (uint32_t id = 0; estimates->leaving != NULL && id < estimates->ids; id++) {
		if (estimates->backend[id].service != NULL &&
			estimates->backend[id].service->leaves) {
			remove_backend(estimates, id);
		}
	}
	while ((service = estimates->leaving) != NULL) {
		estimates->leaving = service->next_leaving;
		free_service(service);
	}
}

// Returns whether samples that were collected with configuration a are also valid with
// configuration b.
static bool same_measure(const struct weir_config_policy *a, const struct weir_config_policy *b) {
	return a->measurement == b->measurement && a->service_time == b->service_time;
}

static int follow_window(struct service_estimates *service) {
	if (service->window && service->times == NULL) {
		service->times = weir_moving_create(WEIR_MOVING_WINDOW, false);
		service->window = service->times != NULL;
		return service->window ? 0 : -ENOMEM;
	}
	if (!service->window) {
		weir_moving_free(service->times);
		service->times = NULL;
	}
	return 0;
}

static struct service_estimates *new_service(
	struct weir_estimates *estimates, uint16_t id, const struct weir_config_service *config) {
	struct service_estimates *service = calloc(1, sizeof(*service));

	if (service != NULL) {
		service->id = id;
		memcpy(service->name, config->name, sizeof(service->name));
		service->config = config->policy;
		service->inherits = true;
		service->times_pass = estimates->pass;
		estimates->service[id] = service;
		estimates->services++;
	}
	return service;
}

static int follow_service(struct weir_estimates *estimates, uint16_t id,
	const struct weir_config_service *config, const struct weir_service_state *state) {
	const struct weir_config_policy *policy = &config->policy;
	uint8_t needs = state->settings.needs;
	bool window = (needs & WEIR_NEEDS_ERRORS) != 0 && policy->error_window_ms == 0;
	bool weights = state->policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN &&
		       policy->weights != WEIR_WEIGHTS_CONFIGURED;
	bool costs = (needs & WEIR_NEEDS_COST) != 0 &&
		     weir_policy_rounds(&state->settings) != WEIR_ROUNDS_TASKS;
	bool errors = (needs & WEIR_NEEDS_ERRORS) != 0;
	bool probes = (needs & WEIR_NEEDS_PROBES) != 0;
	struct service_estimates *service = estimates->service[id];

	if (service != NULL && strcmp(service->name, config->name) != 0) {
		leave_service(estimates, id);
		service = NULL;
	}
	if (!window && !weights && !costs && !errors && !probes) {
		return 0; // if the service has estimates, follow_services removes them
	}
	if (service == NULL) {
		service = new_service(estimates, id, config);
		if (service == NULL) {
			return -ENOMEM;
		}
	} else if (!same_measure(&service->config, policy) ||
		   service->config.window != policy->window ||
		   service->config.statistic != policy->statistic) {
		service->inherits = same_measure(&service->config, policy);
		service->times_pass = estimates->pass;
	}
	service->config = *policy;
	service->policy = (enum weir_policy)state->policy;
	service->window = window;
	service->weights = weights;
	service->costs = costs;
	service->errors = errors;
	service->charges = weir_policy_charges((enum weir_policy)state->policy);
	service->requests = errors || service->charges;
	service->probes = probes;
	service->subset = config->subset.algorithm != WEIR_SUBSET_NONE ? config->subset.size : 0;
	service->count = 0;
	weir_estimates_none_changed(estimates, service);
	service->seen = estimates->pass;
	estimates->measures |= (needs & WEIR_NEEDS_TIMES) != 0;
	return follow_window(service);
}

// --- all services
// ----------------------------------------------------------------------------------

// Returns whether any service needs estimates. If no service does, nothing is allocated.
static bool any_needs(struct weir_tables *tables, const struct weir_config *config) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		int id = weir_tables_service_find(tables, config->services[i].name);
		struct weir_service_state state;

		if (id >= 0 && weir_tables_service(tables, (uint16_t)id, &state) == 0 &&
			((state.settings.needs & (WEIR_NEEDS_COST | WEIR_NEEDS_TIMES |
							 WEIR_NEEDS_ERRORS | WEIR_NEEDS_PROBES)) !=
					0 ||
				config->services[i].policy.weights != WEIR_WEIGHTS_CONFIGURED)) {
			return true;
		}
	}
	return false;
}

static void remove_all(struct weir_estimates *estimates) {
	for (uint32_t id = 0; estimates->service != NULL && id < WEIR_SERVICES_MAX; id++) {
		if (estimates->service[id] != NULL) {
			leave_service(estimates, id);
		}
	}
	remove_leaving(estimates);
	free(estimates->service);
	free(estimates->backend);
	estimates->service = NULL;
	estimates->backend = NULL;
	estimates->ids = 0;
	estimates->measures = false;
}

static int make_room(struct weir_estimates *estimates) {
	uint32_t ids = weir_tables_backend_ids(estimates->tables);

	if (estimates->service == NULL) {
		estimates->service = calloc(WEIR_SERVICES_MAX, sizeof(estimates->service[0]));
	}
	if (ids > estimates->ids) {
		struct backend_estimates *backend =
			realloc(estimates->backend, ids * sizeof(*backend));

		if (backend == NULL) {
			return -ENOMEM;
		}
		memset(backend + estimates->ids, 0, (ids - estimates->ids) * sizeof(*backend));
		estimates->backend = backend;
		estimates->ids = ids;
	}
	return estimates->service != NULL ? 0 : -ENOMEM;
}

static int follow_services(struct weir_estimates *estimates, const struct weir_config *config) {
	int r = 0;

	estimates->pass++;
	estimates->measures = false;
	for (uint32_t i = 0; i < config->service_count; i++) {
		int id = weir_tables_service_find(estimates->tables, config->services[i].name);
		struct weir_service_state state;

		if (id >= 0 && weir_tables_service(estimates->tables, (uint16_t)id, &state) == 0 &&
			follow_service(estimates, (uint16_t)id, &config->services[i], &state) < 0) {
			r = -ENOMEM;
		}
	}
	for (uint32_t id = 0; id < WEIR_SERVICES_MAX; id++) {
		struct service_estimates *service = estimates->service[id];

		if (service != NULL && service->seen != estimates->pass) {
			leave_service(estimates, id);
		}
	}
	remove_leaving(estimates);
	return r;
}

static int follow_backends(struct weir_estimates *estimates, uint64_t now_ns) {
	int r = 0;

	for (uint32_t id = 0; id < estimates->ids; id++) {
		struct weir_backend_state state = {0};
		bool live = weir_tables_backend(estimates->tables, (uint16_t)id, &state) == 0 &&
			    !state.leaving;
		struct service_estimates *service =
			live ? estimates->service[state.service_id] : NULL;

		if (service != NULL) {
			r |= follow_backend(estimates, &state, service, now_ns);
		} else if (estimates->backend[id].service != NULL) {
			remove_backend(estimates, id);
		}
	}
	return r < 0 ? -ENOMEM : 0;
}

// Clears costs in the segment if an earlier process has written them and this process does not
// update them.
static void clear_unowned_costs(const struct weir_estimates *estimates) {
	const struct weir_segment *segment = weir_tables_segment(estimates->tables);
	uint32_t ids =
		segment->notes->backend_ids; // costs are stored only for ids below this number

	for (uint32_t id = 0; id < ids && id < segment->max_backends; id++) {
		if ((id >= estimates->ids || !estimates->backend[id].collected) &&
			load_signal(estimates, id) != 0) {
			store_cost(estimates, id, 0);
		}
	}
}

static void settle(struct weir_estimates *estimates, bool new_segment, uint64_t now_ns) {
	const struct weir_segment *segment = weir_tables_segment(estimates->tables);

	if (segment != NULL && new_segment) {
		clear_unowned_costs(estimates);
	}
	for (uint32_t id = 0; estimates->service != NULL && id < WEIR_SERVICES_MAX; id++) {
		struct service_estimates *service = estimates->service[id];

		if (service != NULL) {
			service->inherits = true;
		}
		if (service != NULL && service->costs) {
			weir_estimates_write(estimates, service, now_ns);
		}
		if (service != NULL && service->requests) {
			weir_estimates_count_users(estimates, service);
		}
		if (service != NULL && service->errors) {
			weir_estimates_write_counts(estimates, service, now_ns);
		}
	}
	if (segment != NULL) {
		estimates->epoch = segment->epoch;
	}
}

int weir_estimates_follow(struct weir_estimates *estimates, struct weir_tables *tables,
	const struct weir_config *config, uint64_t now_ns) {
	const struct weir_segment *segment = weir_tables_segment(tables);
	bool new_segment = segment != NULL && segment->epoch != estimates->epoch;
	bool measured = estimates->measures;
	int r = 0;

	estimates->tables = tables;
	estimates->workers = segment != NULL ? segment->workers : 1;
	estimates->groups = config->instance.clients > 0 ? config->instance.clients : 1;
	estimates->members = config->instance.members > 0 ? config->instance.members : 1;
	if (measured && !new_segment) {
		weir_estimates_take(estimates, UINT64_MAX, now_ns);
	}
	if (!any_needs(tables, config)) {
		remove_all(estimates);
	} else {
		r = make_room(estimates);
		if (r < 0) {
			remove_all(estimates);
		} else {
			r = follow_services(estimates, config);
			r |= follow_backends(estimates, now_ns);
		}
	}
	if (estimates->measures && (new_segment || !measured)) {
		weir_estimates_skip(estimates);
	}
	settle(estimates, new_segment, now_ns);
	return r < 0 ? -ENOMEM : 0;
}

void weir_estimates_free(struct weir_estimates *estimates) {
	if (estimates == NULL) {
		return;
	}
	// Do not clear the costs in the segment: the next process starts with them.
	for (uint32_t id = 0; id < estimates->ids; id++) {
		weir_moving_free(estimates->backend[id].times);
		free(estimates->backend[id].weight);
		free(estimates->backend[id].errors);
	}
	for (uint32_t id = 0; estimates->service != NULL && id < WEIR_SERVICES_MAX; id++) {
		free_service(estimates->service[id]);
	}
	free(estimates->service);
	free(estimates->backend);
	free(estimates);
}

void weir_estimates_listen(
	struct weir_estimates *estimates, weir_estimates_listener listener, void *context) {
	if (listener != NULL && !weir_estimates_measures(estimates)) {
		weir_estimates_skip(estimates); // discard earlier samples
	}
	estimates->listener = listener;
	estimates->listener_context = context;
}

bool weir_estimates_measures(const struct weir_estimates *estimates) {
	return estimates->measures || estimates->listener != NULL;
}

static bool collect(struct weir_estimates *estimates, uint64_t work, uint64_t now_ns) {
	bool more;

	if (!weir_estimates_measures(estimates)) {
		return false;
	}
	more = weir_estimates_take(estimates, work, now_ns);
	for (uint32_t id = 0; estimates->service != NULL && id < WEIR_SERVICES_MAX; id++) {
		struct service_estimates *service = estimates->service[id];

		if (service != NULL && service->costs && service->changed_count > 0) {
			weir_estimates_write_changed(estimates, service, now_ns);
		}
	}
	return more;
}

bool weir_estimates_collect(struct weir_estimates *estimates, uint64_t now_ns) {
	return collect(estimates, WEIR_ESTIMATES_TURN, now_ns);
}

void weir_estimates_drain(struct weir_estimates *estimates, uint64_t now_ns) {
	(void)collect(estimates, UINT64_MAX, now_ns);
}

bool weir_estimates_second(struct weir_estimates *estimates, uint64_t now_ns) {
	bool publish = false;

	for (uint32_t id = 0; estimates->service != NULL && id < WEIR_SERVICES_MAX; id++) {
		struct service_estimates *service = estimates->service[id];

		if (service == NULL) {
			continue;
		}
		if (service->costs) {
			weir_estimates_write(estimates, service, now_ns);
		}
		if (service->requests) {
			weir_estimates_count_users(estimates, service);
		}
		if (service->errors) {
			weir_estimates_write_counts(estimates, service, now_ns);
		}
		if (service->probes) {
			weir_estimates_expire_probes(estimates, service, now_ns);
		}
		if (service->window) {
			publish |= weir_estimates_adjust_window(estimates, service);
		}
		if (service->weights) {
			publish |= weir_estimates_adjust_weights(estimates, service, now_ns);
		}
	}
	return publish;
}

// --- for the API and the tests ------------------------------------------------------------

struct weir_estimate weir_estimates_backend(
	const struct weir_estimates *estimates, uint16_t id, uint64_t now_ns) {
	struct weir_estimate estimate = {0};
	struct weir_moving_stats stats = {0};

	if (id < estimates->ids && estimates->backend[id].collected) {
		if (estimates->backend[id].times != NULL) {
			weir_moving_read(estimates->backend[id].times, &stats);
		}
		estimate.collected = true;
		estimate.service_ns = weir_estimates_cost(&estimates->backend[id], now_ns);
		estimate.samples = stats.count;
	}
	return estimate;
}

struct weir_estimates_extent weir_estimates_extent(const struct weir_estimates *estimates) {
	struct weir_estimates_extent extent = {
		.services = estimates->services, .samples = estimates->samples};

	for (uint32_t id = 0; id < estimates->ids; id++) {
		extent.backends += estimates->backend[id].collected ||
				   estimates->backend[id].weight != NULL ||
				   estimates->backend[id].errors != NULL ||
				   estimates->backend[id].count.last_ns != 0 ||
				   estimates->backend[id].probed_ns != 0;
	}
	return extent;
}
