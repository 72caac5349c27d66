// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>

#include "service_table.h"
#include "state.h"

uint32_t weir_tables_backend_ids(const struct weir_tables *tables) {
	return tables->state->backend_ids;
}

uint32_t weir_tables_service_ids(const struct weir_tables *tables) {
	return tables->state->service_ids;
}

bool weir_tables_has_source(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *source) {
	const struct weir_state *state = tables->state;

	return id < state->backend_ids && state->backends[id].stage != WEIR_ID_FREE &&
	       weir_next_hop_has_source(&state->backends[id].hop, source);
}

bool weir_tables_fits(const struct weir_tables *tables, uint16_t id, uint32_t bytes) {
	const struct weir_state *state = tables->state;
	const struct weir_next_hop *hop;
	uint32_t mtu;

	if (tables->segment == NULL || id >= state->backend_ids ||
		!state->backends[id].hop.resolved ||
		state->backends[id].hop.port >= tables->segment->ports) {
		return true;
	}
	hop = &state->backends[id].hop;
	mtu = tables->segment->header->port[hop->port].mtu;
	return bytes <= mtu && (hop->mtu == 0 || bytes <= hop->mtu);
}

uint64_t weir_tables_backend_flows(const struct weir_tables *tables, uint16_t id) {
	const struct weir_segment *segment = tables->segment;
	uint64_t flows = 0;

	if (segment == NULL || id >= segment->max_backends) {
		return 0;
	}
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		flows += weir_counter_read(
			&weir_segment_backend_counters(segment, worker, id)->active_flows);
	}
	return flows;
}

int weir_tables_next_hop(const struct weir_tables *tables, uint16_t id, struct weir_next_hop *ret) {
	const struct weir_state *state = tables->state;

	if (id >= state->backend_ids || state->backends[id].stage == WEIR_ID_FREE) {
		return -ENOENT;
	}
	*ret = state->backends[id].hop;
	return 0;
}

int weir_tables_backend(
	const struct weir_tables *tables, uint16_t id, struct weir_backend_state *ret) {
	const struct weir_backend_entry *backend;
	const struct weir_state *state = tables->state;

	if (id >= state->backend_ids || state->backends[id].stage == WEIR_ID_FREE) {
		return -ENOENT;
	}
	backend = &state->backends[id];
	*ret = (struct weir_backend_state){
		.address = backend->address,
		.id = id,
		.service_id = backend->service,
		.admin = backend->admin,
		.admin_ms = backend->admin_ms,
		.drain = backend->drain,
		.drain_until_ns = backend->drain_until_ns,
		.drain_left = backend->drain_left,
		.health = backend->health,
		.ejected = backend->ejected,
		.leaving = backend->stage != WEIR_ID_LIVE,
		.resolved = backend->hop.resolved,
		.path_mtu = weir_next_hop_mtu(&backend->hop, &backend->forwarding),
		.forwarding = backend->forwarding,
		.in_selection = weir_backend_takes_flows(tables->state, backend),
		.flags = backend->flags,
		.share = backend->share,
		.configured_weight = weir_backend_configured_weight(state, backend),
		.weight_auto = backend->weight_auto,
		.backup = backend->backup,
		.auto_weight = backend->weight_auto ? backend->auto_weight : 0,
		.runtime_weight = backend->runtime_weight,
		.reported_weight = backend->reported_weight,
		.own_weight = backend->own_weight,
		.max_active_flows = backend->max_active_flows,
		.limit = weir_backend_limit(state, backend),
		.at_limit = backend->at_limit,
		.identity = backend->identity,
		.effective_weight = weir_backend_effective_weight(state, backend),
	};
	memcpy(ret->service, state->services[backend->service].name, sizeof(ret->service));
	memcpy(ret->name, backend->name, sizeof(ret->name));
	return 0;
}

int weir_tables_backend_find(
	const struct weir_tables *tables, const char *service, const char *name) {
	int id = weir_tables_service_find(tables, service);

	return id < 0 ? id : weir_backend_id_find(tables->state, (uint16_t)id, name);
}

int weir_tables_backend_find_removed(const struct weir_tables *tables, uint16_t service,
	const struct weir_config_backend *config) {
	return weir_backend_id_find_leaving(tables->state, service, config->name, &config->address);
}

uint32_t weir_tables_backends_removed(const struct weir_tables *tables, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room) {
	return weir_backend_ids_leaving(tables->state, service, name, ids, room);
}

uint32_t weir_tables_backends_at(const struct weir_tables *tables,
	const struct weir_address *address, uint16_t *ids, uint32_t room) {
	const struct weir_state *state = tables->state;
	uint32_t n = 0;

	for (uint32_t id = 0; id < state->backend_ids; id++) {
		const struct weir_backend_entry *backend = &state->backends[id];

		if (backend->stage != WEIR_ID_FREE &&
			weir_address_equal(&backend->address, address)) {
			if (n < room) {
				ids[n] = (uint16_t)id;
			}
			n++;
		}
	}
	return n;
}

int weir_tables_service_find(const struct weir_tables *tables, const char *name) {
	int id = weir_service_id_find(tables->state, name);

	return id >= 0 && tables->state->services[id].stage == WEIR_ID_LIVE ? id : -ENOENT;
}

int weir_tables_service_find_removed(const struct weir_tables *tables, const char *name) {
	int id = weir_service_id_find(tables->state, name);

	return id >= 0 && tables->state->services[id].stage != WEIR_ID_LIVE ? id : -ENOENT;
}

const struct weir_config_service *weir_tables_service_config(
	const struct weir_tables *tables, const char *name) {
	int id = weir_tables_service_find(tables, name);

	return id >= 0 ? tables->state->services[id].config : NULL;
}

const char *weir_tables_service_name(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	if (id >= state->service_ids || state->services[id].stage == WEIR_ID_FREE) {
		return NULL;
	}
	return state->services[id].name;
}

const char *weir_tables_backend_name(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	if (id >= state->backend_ids || state->backends[id].stage == WEIR_ID_FREE) {
		return NULL;
	}
	return state->backends[id].name;
}

uint16_t weir_tables_backend_service(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	if (id >= state->backend_ids || state->backends[id].stage == WEIR_ID_FREE) {
		return WEIR_SERVICE_NONE;
	}
	return state->backends[id].service;
}

// Returns the name of the service, or NULL if the worker may still use the id for its previous
// service. updates: number of changes of the update log that the worker has adopted. An id is
// reused only after the removal of its previous service was published. Therefore the name is
// valid if the worker has adopted a change that was published after the id was assigned to its
// current service.
const char *weir_tables_service_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates) {
	const char *name = weir_tables_service_name(tables, id);
	uint64_t since = name != NULL ? tables->state->services[id].since : 0;

	return since == 0 || updates > since ? name : NULL;
}

const char *weir_tables_backend_name_at(
	const struct weir_tables *tables, uint16_t id, uint64_t updates) {
	const char *name = weir_tables_backend_name(tables, id);
	uint64_t since = name != NULL ? tables->state->backends[id].since : 0;

	return since == 0 || updates > since ? name : NULL;
}

int weir_tables_service(
	const struct weir_tables *tables, uint16_t id, struct weir_service_state *ret) {
	const struct weir_service_entry *service;

	if (weir_tables_service_name(tables, id) == NULL) {
		return -ENOENT;
	}
	service = &tables->state->services[id];
	*ret = (struct weir_service_state){
		.id = id,
		.panic = service->open.panic,
		.on_backups = service->open.on_backups,
		.backups = service->counts.backups,
		.backups_eligible = service->counts.in_group[WEIR_TIER_BACKUP][WEIR_GROUP_ELIGIBLE],
		.leaving = service->stage != WEIR_ID_LIVE,
		.drain = service->drain,
		.drain_until_ns = service->drain_until_ns,
		.drain_left = service->drain_left,
		.drain_begun_ms = service->drain_begun_ms,
		.removal = service->removal,
		.removal_until_ns = service->removal_until_ns,
		.removed_binds = service->removed_binds,
		.lost_binds = service->lost_binds,
		.adopted = service->adopted,
		.down_flags = service->down_flags,
		.backends = service->backends,
		.eligible = service->eligible,
		.resolved = service->resolved,
		.slots = service->slots,
		.table_slots = service->table_slots,
		.subsets = weir_build_published_subsets(tables, id),
		.parts = service->parts,
		.generation = service->generation,
		.policy = (uint8_t)weir_service_policy(service),
		.configured_policy = service->configured_policy,
		.runtime_policy = service->runtime_policy,
	};
	if (service->config != NULL) {
		ret->settings = weir_service_settings(tables->state, service);
		ret->settings.max_active_flows = service->max_active_flows;
	}
	return 0;
}

uint32_t weir_tables_removed_binds(const struct weir_tables *tables, uint16_t service,
	struct weir_config_bind *ret, uint32_t room) {
	struct weir_service_cursor cursor = {0};
	struct weir_services_view published;
	struct weir_service_bind bind;
	uint32_t n = 0;

	if (service != WEIR_SERVICE_NONE && service < tables->state->service_ids &&
		tables->state->services[service].removed_binds <= WEIR_TABLES_FIRST_REMOVED) {
		struct weir_config_bind first[WEIR_TABLES_FIRST_REMOVED];

		n = weir_tables_first_removed(tables, service, first);
		n = n < room ? n : room;
		memcpy(ret, first, n * sizeof(ret[0]));
		return n;
	}
	if (tables->state->removed_binds == 0 || tables->segment == NULL ||
		!weir_build_published_services(tables->segment, tables->writer, &published)) {
		return 0;
	}
	while (n < room && weir_service_next(&published, &cursor, &bind)) {
		if (bind.service == WEIR_SERVICE_NONE || (bind.service & WEIR_BIND_REMOVED) == 0 ||
			(service != WEIR_SERVICE_NONE &&
				(bind.service & ~WEIR_BIND_FLAGS) != service)) {
			continue;
		}
		ret[n] = (struct weir_config_bind){.address = {.family = bind.family},
			.protocol = bind.protocol,
			.port_first = bind.port_first,
			.port_last = bind.port_last};
		memcpy(ret[n].address.bytes, bind.address, sizeof(ret[n].address.bytes));
		n++;
	}
	return n;
}

struct weir_tables_work weir_tables_work(const struct weir_tables *tables) {
	return (struct weir_tables_work){
		.backends = tables->state->examined, .slots = tables->slots_written};
}
