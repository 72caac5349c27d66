// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend_row.h"
#include "blob.h"
#include "inverse_weight.h"
#include "selection.h"
#include "service_table.h"
#include "state.h"

static bool same_content(const struct weir_blob *a, const struct weir_blob *b) {
	return a != NULL && a->lines == b->lines &&
	       memcmp(a + 1, b + 1, (size_t)a->lines * 64 - sizeof(*a)) == 0;
}

// Returns whether a root still refers to the blob that this process has published. Returns false if
// another process has overwritten the root.
static bool is_published(const struct weir_segment *segment, struct weir_root root,
	const struct weir_blob *current) {
	weir_ref ref = root.kind == WEIR_BLOB_SERVICES ? segment->roots->services
						       : segment->roots->selection[root.service];
	uint64_t offset = (uint64_t)((const uint8_t *)current - segment->tables);

	return ref == weir_ref_make(current->generation, offset);
}

// Discards a new blob if its contents are equal to the contents of the published blob.
static void settle(const struct weir_tables *tables, struct weir_root root, struct weir_blob *blob,
	struct weir_blob **ret) {
	const struct weir_blob *current = weir_writer_current(tables->writer, root);

	if (same_content(current, blob) && is_published(tables->segment, root, current)) {
		weir_writer_discard(tables->writer, blob);
		blob = NULL;
	}
	*ret = blob;
}

static void set_source(struct weir_backend_path *path, const struct weir_tables *tables,
	const struct weir_backend_entry *backend) {
	const struct weir_config_port *port;
	const struct weir_address *source = &backend->hop.source;

	path->source_bits = backend->hop.source_bits;
	if (source->family != backend->address.family && tables->config != NULL &&
		path->port < tables->config->port_count) {
		port = &tables->config->ports[path->port];
		source = backend->address.family == 4 ? &port->source_ipv4 : &port->source_ipv6;
		path->source_bits = port->source_ipv4_bits;
	}
	if (source->family == backend->address.family) {
		memcpy(path->source, source->bytes, sizeof(path->source));
	}
}

void weir_build_row(const struct weir_tables *tables, const struct weir_state *state, uint16_t id,
	struct weir_backend_row *ret) {
	const struct weir_backend_entry *backend = &state->backends[id];
	struct weir_backend_path path = {0};
	const struct weir_port_info *port;
	uint16_t mtu;

	if (backend->stage == WEIR_ID_FREE || backend->stage >= WEIR_ID_CLEARING) {
		memset(ret, 0, sizeof(*ret));
		return;
	}
	path.resolved = backend->hop.resolved && backend->hop.port < tables->segment->ports;
	path.port = path.resolved ? backend->hop.port : 0;
	port = &tables->segment->header->port[path.port];
	memcpy(path.address, backend->address.bytes, sizeof(path.address));
	path.family = backend->address.family;
	if (path.resolved) {
		memcpy(path.next_hop_mac, backend->hop.mac, sizeof(path.next_hop_mac));
	}
	memcpy(path.port_mac, port->mac, sizeof(path.port_mac));
	set_source(&path, tables, backend);
	path.vlan = port->vlan;
	mtu = weir_next_hop_mtu(&backend->hop, &backend->forwarding);
	path.mtu = path.resolved && mtu != 0 && mtu < port->mtu ? mtu : port->mtu;
	path.service = backend->service;
	path.forwarding = backend->forwarding;
	path.max_active_flows = weir_backend_limit(state, backend);
	path.state = backend->flags | (backend->at_limit ? WEIR_BACKEND_AT_LIMIT : 0);
	weir_backend_row_build(&path, ret);
}

bool weir_build_published_services(const struct weir_segment *segment,
	const struct weir_writer *writer, struct weir_services_view *ret) {
	const struct weir_root root = {.kind = WEIR_BLOB_SERVICES};
	const struct weir_blob *current = weir_writer_current(writer, root);
	struct weir_blob_extent extent;

	return current != NULL && is_published(segment, root, current) &&
	       weir_blob_services(segment, segment->roots->services, &extent, ret);
}

// Returns the reference of a service's published selection; 0 = none. Also returns 0 if another
// process has overwritten the root, because the writer may then reuse the memory of the selection.
static weir_ref published_selection(const struct weir_tables *tables, uint16_t service) {
	const struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = service};
	const struct weir_blob *current;

	if (tables->segment == NULL || service >= tables->segment->max_services) {
		return 0;
	}
	current = weir_writer_current(tables->writer, root);
	return current != NULL && is_published(tables->segment, root, current)
		       ? tables->segment->roots->selection[service]
		       : 0;
}

uint32_t weir_build_published_subsets(const struct weir_tables *tables, uint16_t service) {
	weir_ref ref = published_selection(tables, service);

	return ref != 0 ? weir_blob_subsets(tables->segment, service, ref) : 0;
}

bool weir_build_published(const struct weir_tables *tables, uint16_t service, uint32_t subset,
	struct weir_policy_table *ret, uint64_t *ret_generation) {
	weir_ref ref = published_selection(tables, service);
	struct weir_blob_extent extent;
	struct weir_selection_view view;

	if (ref == 0 ||
		!weir_blob_selection(tables->segment, service, ref, subset, &extent, &view)) {
		return false;
	}
	*ret = view.table;
	*ret_generation = view.generation;
	return true;
}

// Returns whether a published subset has exactly the `n` members that the subset has in the state,
// with the same weights and settings.
static bool subset_holds(const struct weir_tables *tables, const struct weir_state *state,
	const struct weir_selection_params *params, uint32_t subset, uint32_t n) {
	struct weir_policy_table old;
	uint64_t generation;

	if (!weir_build_published(tables, params->service, subset, &old, &generation) ||
		old.count != n ||
		old.slot_count != weir_selection_slots(&params->settings, params->slots, n) ||
		memcmp(&old.settings, &params->settings, sizeof(old.settings)) != 0 ||
		old.affinity_ms != params->affinity_ms ||
		(params->settings.policy == WEIR_POLICY_LEAST_LOADED &&
			!weir_inverse_weights_are_set(old.candidates, old.count))) {
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct weir_backend_entry *backend;

		if (old.candidates[i].id >= state->backend_ids) {
			return false;
		}
		backend = &state->backends[old.candidates[i].id];
		if ((backend->subsets >> subset & 1) == 0 || backend->service != params->service ||
			old.candidates[i].weight != weir_backend_weight(state, backend)) {
			return false;
		}
	}
	return true;
}

// Returns whether the published selection equals the new selection. If so, nothing needs to be
// built.
static bool selection_holds(const struct weir_tables *tables, const struct weir_state *state,
	const struct weir_selection_params *params, const struct weir_selection_member *members,
	uint32_t n) {
	if (weir_build_published_subsets(tables, params->service) != params->subsets) {
		return false;
	}
	for (uint32_t subset = 0; subset < params->subsets; subset++) {
		uint32_t in = 0;

		for (uint32_t i = 0; i < n; i++) {
			in += (members[i].subsets >> subset & 1) != 0;
		}
		if (!subset_holds(tables, state, params, subset, in)) {
			return false;
		}
	}
	return true;
}

// A table with at most this number of slots is built in 0.5 ms or less.
#define AT_ONCE_SLOTS 8192u
// If a publication already builds this number of selections, other selections that may wait are
// built later.
#define AT_ONCE_TABLES 8u

bool weir_build_serves(uint32_t candidates, uint32_t open, uint32_t chosen) {
	return open > 0 && 2 * (uint64_t)open >= chosen && 2 * (uint64_t)open >= candidates &&
	       candidates - open < WEIR_POLICY_SEARCH;
}

bool weir_build_may_wait(const struct weir_tables *tables, const struct weir_state *state,
	uint16_t id, uint32_t at_once) {
	const struct weir_service_entry *service = &state->services[id];
	struct weir_policy_table table;
	uint64_t generation;

	return tables->segment != NULL && !service->divided &&
	       weir_build_serves(service->listed, service->listed_chosen, service->chosen) &&
	       2 * service->parts >= service->slots && // slots is 0 if the policy uses no slots
	       weir_build_published(tables, id, 0, &table, &generation) &&
	       generation == service->generation &&
	       (table.slot_count > AT_ONCE_SLOTS || at_once >= AT_ONCE_TABLES);
}

// Returns the published subsets. weir_selection_build copies the subsets that have not changed,
// instead of building them. Returns NULL if copying saves no work, or if out of memory.
static struct weir_policy_table *published_subsets(
	const struct weir_tables *tables, const struct weir_selection_params *params) {
	struct weir_policy_table *published;
	uint64_t generation;

	if (params->subsets <= 1 ||
		weir_build_published_subsets(tables, params->service) != params->subsets) {
		return NULL;
	}
	published = calloc(params->subsets, sizeof(published[0]));
	for (uint32_t i = 0; published != NULL && i < params->subsets; i++) {
		weir_build_published(tables, params->service, i, &published[i], &generation);
	}
	return published;
}

int weir_build_selection(struct weir_tables *tables, const struct weir_state *state, uint16_t id,
	struct weir_blob **ret) {
	const struct weir_service_entry *service = &state->services[id];
	struct weir_selection_params params = {.service = id,
		.slots = service->config->table_size,
		.settings = weir_service_settings(state, service),
		.affinity_ms = service->config->affinity.timeout_ms,
		.subsets = service->subsets};
	struct weir_selection *selection;
	struct weir_selection_member *members;
	struct weir_policy_table *published;
	uint32_t n;
	int r;

	members = malloc((service->backends + 1) * sizeof(*members));
	if (members == NULL) {
		return -ENOMEM;
	}
	n = weir_eligible_members(state, id, members, &params.weights_reported);
	// For strides, comparing the weights is not enough, because strides depend on more than
	// weights. The built selections are compared instead, below.
	if (params.settings.policy != WEIR_POLICY_WEIGHTED_ROUND_ROBIN &&
		selection_holds(tables, state, &params, members, n)) {
		free(members);
		*ret = NULL;
		return 0;
	}
	published = published_subsets(tables, &params);
	params.published = published;
	r = weir_selection_build(tables->writer, &params, members, n, &selection);
	tables->slots_written += r == 0 ? selection->first.slots : 0;
	free(published);
	free(members);
	if (r == 0) {
		settle(tables, (struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = id},
			&selection->blob, ret);
	}
	return r;
}

_Static_assert((int)WEIR_CONFIG_CLOSED_KERNEL == (int)WEIR_CLOSED_PORTS_KERNEL &&
		       (int)WEIR_CONFIG_CLOSED_DROP == (int)WEIR_CLOSED_PORTS_DROP &&
		       (int)WEIR_CONFIG_CLOSED_REJECT == (int)WEIR_CLOSED_PORTS_REJECT,
	"the configuration and the tables must use the same values for closed ports");

static uint32_t collect_binds(const struct weir_state *state, struct weir_service_bind *binds) {
	uint32_t n = 0;

	for (uint32_t id = 0; id < state->service_ids; id++) {
		const struct weir_config_service *config = state->services[id].config;

		if (state->services[id].stage != WEIR_ID_LIVE || config == NULL) {
			continue;
		}
		for (uint32_t i = 0; i < config->bind_count; i++, n++) {
			const struct weir_config_bind *bind = &config->binds[i];

			if (binds == NULL) {
				continue;
			}
			memcpy(binds[n].address, bind->address.bytes, sizeof(binds[n].address));
			binds[n].family = bind->address.family;
			binds[n].protocol = bind->protocol;
			binds[n].port_first = bind->port_first;
			binds[n].port_last = bind->port_last;
			binds[n].service =
				(uint16_t)id | weir_bind_drains_flags(&state->services[id], i);
			binds[n].closed = (uint8_t)config->closed_ports;
		}
	}
	return n;
}

static struct weir_services_view view_of(const struct weir_service_table *table) {
	const uint8_t *base = (const uint8_t *)table;

	return (struct weir_services_view){
		.buckets = (const struct weir_bind *)(const void *)(base + table->buckets_off),
		.ranges = (const struct weir_bind_range *)(const void *)(base + table->ranges_off),
		.bucket_mask = table->buckets - 1,
		.range_count = table->ranges,
		.hash_seed = table->hash_seed};
}

// Builds the service table again, with the removed binds whose removal is in progress. If the heap
// has no room for these binds, uses the table without them, which ends the removals, except drains
// of removed services. Does not build if there are no such binds. Returns 0 or a negative errno. On
// an error, the caller must retry later, and *table may be NULL.
static int add_removed(const struct weir_tables *tables, struct weir_state *state,
	const struct weir_service_bind *binds, uint32_t n, struct weir_service_table **table) {
	const struct weir_services_view built = view_of(*table);
	struct weir_services_view published = {0};
	bool known = weir_build_published_services(tables->segment, tables->writer, &published);
	struct weir_service_bind *removed = NULL, *all = NULL;
	uint32_t count = 0;
	int r = known ? weir_removals_collect(state, &published, &built, &removed, &count) : 0;

	if (removed != NULL) {
		all = malloc(((size_t)n + count) * sizeof(*all));
		r = -ENOMEM;
	}
	if (all != NULL) {
		memcpy(all, binds, n * sizeof(*all));
		memcpy(all + n, removed, count * sizeof(*all));
		weir_writer_discard(tables->writer, *table);
		*table = NULL;
		r = weir_service_table_build(
			tables->writer, all, n + count, built.hash_seed, table);
	}
	if (all != NULL && r < 0 && r != -EBUSY && r != -ENOMEM) {
		count = 0;
		r = weir_service_table_build(tables->writer, binds, n, built.hash_seed, table);
	}
	if (r == 0) {
		weir_removals_settle(state, removed, count);
	}
	free(all);
	free(removed);
	return r;
}

int weir_build_services(
	const struct weir_tables *tables, struct weir_state *state, struct weir_blob **ret) {
	uint32_t n = collect_binds(state, NULL);
	struct weir_service_bind *binds = calloc((size_t)n + 1, sizeof(*binds));
	struct weir_service_table *table;
	int r;

	if (binds == NULL) {
		return -ENOMEM;
	}
	collect_binds(state, binds);
	r = weir_service_table_build(
		tables->writer, binds, n, tables->segment->header->hash_seed, &table);
	if (r == 0) {
		r = add_removed(tables, state, binds, n, &table);
		if (r < 0) {
			weir_writer_discard(tables->writer, table);
		}
	}
	if (r == 0) {
		settle(tables, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, &table->blob, ret);
	}
	free(binds);
	return r;
}
