// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>

#include "blob.h"
#include "state.h"

// What a segment holds was written by an earlier control process, or by anyone who could map it:
// every offset and value is checked before it is used.

static bool within(uint64_t bytes, uint64_t offset, uint64_t count, uint64_t size) {
	return offset <= bytes && offset % 8 == 0 && count <= (bytes - offset) / size;
}

static bool is_name(const char *name) {
	return name[0] != '\0' && memchr(name, '\0', WEIR_NAME_BYTES) != NULL;
}

static bool is_backend(const struct weir_state *state, const struct weir_identity_backend *entry) {
	return is_name(entry->name) && (entry->family == 4 || entry->family == 6) &&
	       entry->admin_state <= WEIR_ADMIN_MAINTENANCE &&
	       entry->health_state <= WEIR_HEALTH_REFUSING && entry->leaving <= 1 &&
	       entry->service < state->service_ids &&
	       state->services[entry->service].stage != WEIR_ID_FREE;
}

static void adopt_backend(
	struct weir_state *state, uint16_t id, const struct weir_identity_backend *entry) {
	struct weir_backend_entry *backend;
	struct weir_address address = {.family = entry->family};
	char name[WEIR_NAME_BYTES];

	memcpy(address.bytes, entry->address, entry->family == 4 ? 4 : 16);
	memcpy(name, entry->name, sizeof(name));
	if (weir_backend_id_take(state, id, entry->service, name, &address) < 0) {
		return;
	}
	backend = &state->backends[id];
	backend->admin = entry->admin_state;
	backend->health = entry->health_state;
	backend->configured_weight = entry->configured_weight;
	backend->runtime_weight = entry->runtime_weight;
	backend->adopted = true;
	if (entry->leaving) {
		weir_backend_leave(state, id);
	}
}

static void adopt_service(
	struct weir_state *state, uint16_t id, const struct weir_identity_service *entry) {
	struct weir_service_entry *service;
	char name[WEIR_NAME_BYTES];

	memcpy(name, entry->name, sizeof(name));
	if (!is_name(name) || weir_service_id_take(state, id, name) < 0) {
		return;
	}
	service = &state->services[id];
	service->configured_policy = entry->configured_policy;
	service->runtime_policy = entry->runtime_policy < WEIR_POLICY_COUNT ? entry->runtime_policy
									    : WEIR_POLICY_UNSET;
	service->adopted = true;
}

static void adopt_identity(struct weir_state *state, const struct weir_identity *identity) {
	const uint8_t *base = (const uint8_t *)identity;
	const struct weir_identity_service *services;
	const struct weir_identity_backend *backends;

	if (!within(identity->blob.bytes, identity->services_off, identity->services,
		    sizeof(*services)) ||
		!within(identity->blob.bytes, identity->backends_off, identity->backends,
			sizeof(*backends))) {
		return;
	}
	services = (const struct weir_identity_service *)(base + identity->services_off);
	backends = (const struct weir_identity_backend *)(base + identity->backends_off);
	for (uint32_t id = 0; id < identity->services && id < state->service_limit; id++) {
		adopt_service(state, (uint16_t)id, &services[id]);
	}
	// Removed ones first, because a new one may have the same name.
	for (int leaving = 1; leaving >= 0; leaving--) {
		for (uint32_t id = 0; id < identity->backends && id < state->backend_limit; id++) {
			if (is_backend(state, &backends[id]) && backends[id].leaving == leaving) {
				adopt_backend(state, (uint16_t)id, &backends[id]);
			}
		}
	}
}

// The next hop as it is in a published row, so that forwarding continues until the neighbours
// are resolved again.
static void adopt_next_hop(struct weir_backend_entry *backend, const struct weir_segment *segment,
	const struct weir_backend_row *row) {
	uint32_t address_bytes = row->outer_family == 4 ? 4 : 16;
	uint32_t source_at = row->outer_family == 4 ? 12 : 8;

	if ((row->flags & WEIR_BACKEND_PRESENT) == 0 || (row->flags & WEIR_BACKEND_RESOLVED) == 0 ||
		row->port >= segment->ports || row->outer_family != backend->address.family ||
		row->l2_bytes < 14 ||
		row->l2_bytes + source_at + address_bytes > WEIR_OUTER_HEADER_BYTES) {
		return;
	}
	backend->hop.resolved = true;
	backend->hop.port = row->port;
	memcpy(backend->hop.mac, row->header, sizeof(backend->hop.mac));
	backend->hop.source.family = row->outer_family;
	memcpy(backend->hop.source.bytes, row->header + row->l2_bytes + source_at, address_bytes);
}

static void adopt_rows(struct weir_state *state, const struct weir_segment *segment,
	const struct weir_backend_table *table) {
	const struct weir_backend_row *rows;

	if (!within(table->blob.bytes, table->rows_off, table->rows, sizeof(*rows))) {
		return;
	}
	rows = (const struct weir_backend_row *)((const uint8_t *)table + table->rows_off);
	for (uint32_t id = 0; id < table->rows && id < state->backend_ids; id++) {
		if (state->backends[id].stage != WEIR_ID_FREE) {
			adopt_next_hop(&state->backends[id], segment, &rows[id]);
		}
	}
}

// A reported weight, out of the one it was published as.
static void adopt_weight(struct weir_backend_entry *backend, uint32_t weight) {
	uint64_t reported = weight;

	if (backend->runtime_weight != WEIR_WEIGHT_UNSET && backend->runtime_weight > 0) {
		reported = reported * backend->configured_weight / backend->runtime_weight;
	}
	backend->reported_weight = reported > UINT32_MAX ? UINT32_MAX : (uint32_t)reported;
}

// Values learnt by the previous control process stay in use until there are newer ones.
static void adopt_subset(
	struct weir_state *state, uint16_t id, const struct weir_policy_table *table) {
	if ((table->settings.needs & WEIR_NEEDS_ERRORS) != 0) {
		state->services[id].error_window_ms = table->settings.error_window_ms;
	}
	for (uint32_t i = 0;
		table->settings.policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN && i < table->count;
		i++) {
		struct weir_candidate one = table->candidates[i];

		if (one.id < state->backend_ids && state->backends[one.id].service == id) {
			adopt_weight(&state->backends[one.id], one.weight);
		}
	}
}

// Who was in no subset has no weight in what is published: the mean of the others, until it reports
// or they are given up. Configured weights are on another scale.
static void adopt_mean(struct weir_state *state, const struct weir_service_entry *service) {
	uint64_t sum = 0, count = 0;
	bool reported = false;

	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		sum += backend->reported_weight;
		count += backend->reported_weight > 0;
		reported |= backend->reported_weight > 0 &&
			    backend->reported_weight != backend->configured_weight;
	}
	for (uint16_t link = service->first; link != 0 && reported;
		link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->stage == WEIR_ID_LIVE && backend->reported_weight == 0) {
			backend->reported_weight = (uint32_t)((sum + count / 2) / count);
		}
	}
}

static void adopt_selection(
	struct weir_state *state, const struct weir_segment *segment, uint16_t id) {
	weir_ref ref = segment->roots->selection[id];
	uint32_t subsets = weir_blob_subsets(segment, id, ref);
	struct weir_blob_extent extent;
	struct weir_selection_view view;

	for (uint32_t subset = 0; subset < subsets; subset++) {
		if (weir_blob_selection(segment, id, ref, subset, &extent, &view)) {
			adopt_subset(state, id, &view.table);
		}
	}
	adopt_mean(state, &state->services[id]);
}

void weir_state_adopt(struct weir_state *state, const struct weir_segment *segment,
	const struct weir_writer *writer) {
	const struct weir_identity *identity;
	const struct weir_backend_table *rows;

	identity = weir_writer_current(writer, (struct weir_root){.kind = WEIR_BLOB_IDENTITY});
	if (identity != NULL && identity->blob.bytes >= sizeof(*identity)) {
		adopt_identity(state, identity);
	}
	for (uint32_t id = 0; id < state->service_ids; id++) {
		if (state->services[id].stage != WEIR_ID_FREE) {
			adopt_selection(state, segment, (uint16_t)id);
		}
	}
	rows = weir_writer_current(writer, (struct weir_root){.kind = WEIR_BLOB_BACKENDS});
	if (rows != NULL && rows->blob.bytes >= sizeof(*rows)) {
		adopt_rows(state, segment, rows);
	}
	weir_state_mark_all(state);
}

void weir_state_retain(struct weir_state *state, const struct weir_state *from) {
	if (state->service_ids > 0 || from->service_ids > state->service_limit ||
		from->backend_ids > state->backend_limit) {
		return;
	}
	for (uint32_t id = 0; id < from->service_ids; id++) {
		if (from->services[id].stage == WEIR_ID_LIVE) {
			weir_service_id_take(state, (uint16_t)id, from->services[id].name);
			state->services[id].configured_policy =
				from->services[id].configured_policy;
		}
	}
	for (uint32_t id = 0; id < from->backend_ids; id++) {
		const struct weir_backend_entry *backend = &from->backends[id];

		if (backend->stage == WEIR_ID_LIVE) {
			weir_backend_id_take(state, (uint16_t)id, backend->service, backend->name,
				&backend->address);
			state->backends[id].configured_weight = backend->configured_weight;
		}
	}
}

static void inherit_backend(struct weir_backend_entry *to, const struct weir_backend_entry *from) {
	uint8_t set = to->adopted ? from->set : 0xff;

	if (set & WEIR_SET_ADMIN) {
		to->admin = from->admin;
	}
	if (set & WEIR_SET_HEALTH) {
		to->health = from->health;
	}
	if (set & WEIR_SET_WEIGHT) {
		to->runtime_weight = from->runtime_weight;
	}
	if (set & WEIR_SET_NEXT_HOP) {
		to->hop = from->hop;
	}
	to->reported_weight = from->reported_weight;
	to->set = from->set;
}

static void inherit_service(struct weir_service_entry *to, const struct weir_service_entry *from) {
	if (from->policy_set || !to->adopted) {
		to->runtime_policy = from->runtime_policy;
	}
	to->error_window_ms = from->error_window_ms;
	to->policy_set = from->policy_set;
}

void weir_state_inherit(struct weir_state *state, const struct weir_state *from) {
	for (uint32_t id = 0; id < from->service_ids; id++) {
		const struct weir_service_entry *old = &from->services[id];
		int same = old->stage == WEIR_ID_LIVE ? weir_service_id_find(state, old->name)
						      : -ENOENT;

		if (same >= 0) {
			inherit_service(&state->services[same], old);
		}
	}
	for (uint32_t id = 0; id < from->backend_ids; id++) {
		const struct weir_backend_entry *old = &from->backends[id];
		int service, same;

		if (old->stage != WEIR_ID_LIVE) {
			continue;
		}
		service = weir_service_id_find(state, from->services[old->service].name);
		same = service < 0 ? -ENOENT
				   : weir_backend_id_find(state, (uint16_t)service, old->name);
		if (same >= 0 &&
			weir_state_same_address(&state->backends[same].address, &old->address)) {
			inherit_backend(&state->backends[same], old);
		}
	}
	weir_state_mark_all(state);
}
