// SPDX-License-Identifier: BSD-3-Clause
//
// Drains of binds: drained binds get no new flows. The published service table marks the drained
// binds, so that the next control process can read them. The phase and the deadline of a drain are
// stored in the identity record of the service.
#include <errno.h>
#include <string.h>

#include "service_table.h"
#include "state.h"

bool weir_bind_drains_has(const struct weir_service_entry *service, uint32_t bind) {
	return (service->drained[bind / 64] >> bind % 64 & 1) != 0;
}

static void set(struct weir_service_entry *service, uint32_t bind, bool drained) {
	uint64_t bit = 1ull << bind % 64;

	service->drained[bind / 64] =
		drained ? service->drained[bind / 64] | bit : service->drained[bind / 64] & ~bit;
}

static uint32_t count(const struct weir_service_entry *service) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < WEIR_CONFIG_BINDS_MAX / 64; i++) {
		n += (uint32_t)__builtin_popcountll(service->drained[i]);
	}
	return n;
}

static bool are_all(const struct weir_service_entry *service) {
	return service->config != NULL && count(service) == service->config->bind_count;
}

bool weir_bind_drains_ended(const struct weir_service_entry *service) {
	return service->drain == WEIR_DRAIN_DROPPED && are_all(service);
}

uint16_t weir_bind_drains_flags(const struct weir_service_entry *service, uint32_t bind) {
	if (!weir_bind_drains_has(service, bind)) {
		return 0;
	}
	return weir_bind_drains_ended(service) ? WEIR_BIND_DRAINED | WEIR_BIND_ENDED
					       : WEIR_BIND_DRAINED;
}

void weir_bind_drains_clear(struct weir_service_entry *service) {
	memset(service->drained, 0, sizeof(service->drained));
	service->drain = WEIR_DRAIN_NONE;
	service->drain_until_ns = 0;
	service->drain_begun_ms = 0;
}

// --- configuration --------------------------------------------------------------------------

static bool has_address(
	const struct weir_service_entry *service, const struct weir_address *address) {
	for (uint32_t i = 0; i < service->config->bind_count; i++) {
		if (weir_bind_drains_has(service, i) &&
			weir_address_equal(&service->config->binds[i].address, address)) {
			return true;
		}
	}
	return false;
}

void weir_bind_drains_follow(
	struct weir_service_entry *service, const struct weir_config_service *config) {
	uint64_t drained[WEIR_CONFIG_BINDS_MAX / 64] = {0};
	bool all;

	if (service->drain == WEIR_DRAIN_NONE || service->config == NULL) {
		// No bind is drained, or weir_bind_drains_adopt will find the binds that an earlier
		// process has drained.
		return;
	}
	all = are_all(service); // if all binds are drained, new binds are drained as well
	for (uint32_t i = 0; i < config->bind_count; i++) {
		if (all || has_address(service, &config->binds[i].address)) {
			drained[i / 64] |= 1ull << i % 64;
		}
	}
	memcpy(service->drained, drained, sizeof(drained));
	if (count(service) == 0) {
		weir_bind_drains_clear(service);
	}
}

// Binds in the published service table, for services with a drain. One bit per service id: in
// `drained`, the service has a drained bind; in `open`, the service has a bind that is not
// drained.
struct found {
	uint64_t drained[WEIR_SERVICES_MAX / 64], open[WEIR_SERVICES_MAX / 64];
};

static bool has(const uint64_t *bits, uint32_t id) {
	return (bits[id / 64] >> id % 64 & 1) != 0;
}

// Marks as drained all binds of a service that have the address of `bind`.
static void set_address(struct weir_service_entry *service, const struct weir_service_bind *bind) {
	struct weir_address address = {.family = bind->family};

	memcpy(address.bytes, bind->address, sizeof(address.bytes));
	for (uint32_t i = 0; i < service->config->bind_count; i++) {
		if (weir_address_equal(&service->config->binds[i].address, &address)) {
			set(service, i, true);
		}
	}
}

static void take(
	struct weir_state *state, const struct weir_service_bind *bind, struct found *found) {
	uint32_t id = bind->service & ~WEIR_BIND_FLAGS;
	struct weir_service_entry *service;

	if (bind->service == WEIR_SERVICE_NONE || id >= state->service_ids ||
		(bind->service & WEIR_BIND_REMOVED) != 0) {
		return;
	}
	service = &state->services[id];
	if (service->stage != WEIR_ID_LIVE || service->config == NULL ||
		service->drain == WEIR_DRAIN_NONE) {
		return;
	}
	if (!weir_bind_is_drained(bind->service)) {
		found->open[id / 64] |= 1ull << id % 64;
		return;
	}
	found->drained[id / 64] |= 1ull << id % 64;
	set_address(service, bind);
}

void weir_bind_drains_adopt(struct weir_state *state, const struct weir_services_view *view) {
	struct weir_service_cursor cursor = {0};
	struct weir_service_bind bind;
	struct found found = {0};

	while (view != NULL && weir_service_next(view, &cursor, &bind)) {
		take(state, &bind, &found);
	}
	for (uint32_t id = 0; id < state->service_ids; id++) {
		struct weir_service_entry *service = &state->services[id];

		if (service->stage != WEIR_ID_LIVE || service->drain == WEIR_DRAIN_NONE ||
			service->config == NULL) {
			continue;
		}
		// If all published binds of a service are drained, its new binds are drained as
		// well, as in weir_bind_drains_follow.
		for (uint32_t i = 0; has(found.drained, id) && !has(found.open, id) &&
				     i < service->config->bind_count;
			i++) {
			set(service, i, true);
		}
		if (count(service) == 0) {
			weir_bind_drains_clear(service);
		}
		state->draining |= service->drain == WEIR_DRAIN_DRAINING;
	}
}

// --- changes --------------------------------------------------------------------------------

static struct weir_service_entry *live(struct weir_tables *tables, uint16_t id) {
	struct weir_service_entry *service = &tables->state->services[id];

	return id < tables->state->service_ids && service->stage == WEIR_ID_LIVE &&
			       service->config != NULL
		       ? service
		       : NULL;
}

// Call after the set of drained binds of a service has changed. Marks the service table as changed.
// Also marks the service as undecided if the result of weir_bind_drains_ended has changed, because
// the rows of the backends then change. had_ended: the result before the change.
static void changed(struct weir_tables *tables, uint16_t id, bool had_ended) {
	struct weir_state *state = tables->state;

	if (weir_bind_drains_ended(&state->services[id]) != had_ended) {
		state->services[id].undecided = true;
		state->undecided = true;
	}
	state->services_dirty = true;
	weir_state_touch_service(state, id);
}

uint32_t weir_tables_select_binds(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *address) {
	const struct weir_service_entry *service = &tables->state->services[id];
	uint32_t n = 0;

	for (uint32_t i = 0; id < tables->state->service_ids && service->config != NULL &&
			     i < service->config->bind_count;
		i++) {
		n += address == NULL ||
		     weir_address_equal(&service->config->binds[i].address, address);
	}
	return n;
}

uint32_t weir_tables_select_drained(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *address) {
	const struct weir_service_entry *service = &tables->state->services[id];
	uint32_t n = 0;

	for (uint32_t i = 0; id < tables->state->service_ids && service->config != NULL &&
			     i < service->config->bind_count;
		i++) {
		n += weir_bind_drains_has(service, i) &&
		     (address == NULL ||
			     weir_address_equal(&service->config->binds[i].address, address));
	}
	return n;
}

int weir_tables_drain_binds(struct weir_tables *tables, uint16_t id,
	const struct weir_address *address, bool drained, uint64_t until_ns) {
	struct weir_service_entry *service = live(tables, id);
	bool had_ended;

	if (service == NULL) {
		return -ENOENT;
	}
	had_ended = weir_bind_drains_ended(service);
	for (uint32_t i = 0; i < service->config->bind_count; i++) {
		if (address == NULL ||
			weir_address_equal(&service->config->binds[i].address, address)) {
			set(service, i, drained);
		}
	}
	service->drain_set = true;
	if (count(service) == 0) {
		weir_bind_drains_clear(service);
	} else if (drained) {
		service->drain = WEIR_DRAIN_DRAINING;
		service->drain_until_ns = until_ns;
		service->drain_begun_ms = tables->state->now_ms;
		tables->state->draining = true;
		tables->drain_begun = true;
	} else if (service->drain ==
		   WEIR_DRAIN_DROPPED) { // DROPPED applies only when all binds are drained
		service->drain = WEIR_DRAIN_KEPT;
	}
	changed(tables, id, had_ended);
	return 0;
}

int weir_tables_next_draining(const struct weir_tables *tables, uint32_t from) {
	const struct weir_state *state = tables->state;

	for (uint32_t id = from; state->draining && id < state->service_ids; id++) {
		if (state->services[id].drain == WEIR_DRAIN_DRAINING &&
			state->services[id].stage == WEIR_ID_LIVE) {
			return (int)id;
		}
	}
	return -ENOENT;
}

int weir_tables_end_bind_drain(
	struct weir_tables *tables, uint16_t id, enum weir_drain_phase phase, uint64_t left) {
	struct weir_service_entry *service = live(tables, id);

	if (service == NULL || service->drain != WEIR_DRAIN_DRAINING) {
		return -ENOENT;
	}
	service->drain =
		(uint8_t)(phase == WEIR_DRAIN_DROPPED && !are_all(service) ? WEIR_DRAIN_KEPT
									   : phase);
	service->drain_left = left;
	changed(tables, id, false);
	return service->drain;
}

uint32_t weir_tables_drained_binds(const struct weir_tables *tables, uint16_t id) {
	return id < tables->state->service_ids ? count(&tables->state->services[id]) : 0;
}

bool weir_tables_bind_is_drained(const struct weir_tables *tables, uint16_t id, uint32_t bind) {
	return id < tables->state->service_ids && bind < WEIR_CONFIG_BINDS_MAX &&
	       weir_bind_drains_has(&tables->state->services[id], bind);
}
