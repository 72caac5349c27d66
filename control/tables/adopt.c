// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>

#include "forwarding.h"
#include "state.h"

// This file reads the contents of a segment, which an earlier control process, or any process that
// can map the segment, may have written. Therefore every value is checked before it is used.

// Copies the next hop and the forwarding from the published row. Removed backends keep this
// forwarding; other backends get the forwarding of the configuration. All backends use this next
// hop until this process has resolved the next hop with the kernel's neighbour table.
static void adopt_next_hop(struct weir_backend_entry *backend, const struct weir_segment *segment,
	const struct weir_backend_row *row) {
	uint32_t address_bytes = row->outer_family == 4 ? 4 : 16;
	uint32_t source_at = row->outer_family == 4 ? 12 : 8;

	if ((row->flags & WEIR_BACKEND_PRESENT) == 0 ||
		!weir_forwarding_read(row, &backend->forwarding) ||
		(row->flags & WEIR_BACKEND_RESOLVED) == 0 || row->port >= segment->ports ||
		row->l2_bytes < 14) {
		return;
	}
	if (backend->forwarding.mode == WEIR_FORWARDING_L2) {
		backend->hop.resolved = backend->hop.on_link = true;
		backend->hop.port = row->port;
		memcpy(backend->hop.mac, row->header, sizeof(backend->hop.mac));
		return;
	}
	if (row->outer_family != backend->address.family ||
		row->l2_bytes + source_at + address_bytes > WEIR_OUTER_HEADER_BYTES) {
		return;
	}
	backend->hop.resolved = true;
	backend->hop.port = row->port;
	memcpy(backend->hop.mac, row->header, sizeof(backend->hop.mac));
	backend->hop.source.family = row->outer_family;
	memcpy(backend->hop.source.bytes, row->header + row->l2_bytes + source_at, address_bytes);
	backend->hop.source_bits = row->source_bits <= WEIR_SOURCE_BITS_MAX ? row->source_bits : 0;
}

// Copies the published down flags of a backend. A leaving backend keeps its flags, which mark it as
// down, unless removed binds of its service are draining: then a backend that was up is not marked
// as down before the drain ends.
static void adopt_flags(const struct weir_state *state, struct weir_backend_entry *backend,
	const struct weir_backend_row *row) {
	if ((row->flags & WEIR_BACKEND_PRESENT) != 0 &&
		(backend->stage == WEIR_ID_LIVE ||
			state->services[backend->service].removal == WEIR_DRAIN_DRAINING)) {
		backend->flags = (backend->flags & WEIR_BACKEND_CLOSED) |
				 (row->flags & WEIR_BACKEND_DOWN_FLAGS);
	}
}

void weir_state_adopt(struct weir_state *state, const struct weir_segment *segment) {
	struct weir_backend_row row;

	weir_identity_adopt(state, segment);
	weir_former_adopt(state);
	for (uint32_t id = 0; id < state->backend_ids; id++) {
		if (state->backends[id].stage != WEIR_ID_FREE &&
			weir_reader_row(segment, (uint16_t)id, &row)) {
			adopt_next_hop(&state->backends[id], segment, &row);
			adopt_flags(state, &state->backends[id], &row);
		}
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
			state->backends[id].weight_auto = backend->weight_auto;
		}
	}
}

static void inherit_backend(struct weir_backend_entry *to, const struct weir_backend_entry *from) {
	uint8_t set = to->adopted ? from->set : 0xff;

	if (set & WEIR_SET_ADMIN) {
		to->admin = from->admin;
		to->admin_ms = from->admin_ms;
		to->drain = from->drain;
		to->drain_until_ns = from->drain_until_ns;
		to->drain_left = from->drain_left;
	}
	if (set & WEIR_SET_HEALTH) {
		to->health = from->health;
		to->proven = from->proven;
	}
	if (set & WEIR_SET_WEIGHT) {
		to->runtime_weight = from->runtime_weight;
	}
	if (set & WEIR_SET_NEXT_HOP) {
		to->hop = from->hop;
	}
	// An adopted backend keeps the slow start that was read from the segment.
	if (!to->adopted) {
		to->eligible = from->eligible;
		to->slow_start_ms = from->slow_start_ms;
	}
	to->reported_weight = from->reported_weight;
	to->auto_weight = from->auto_weight > 0 ? from->auto_weight : to->auto_weight;
	to->ejected = from->ejected;
	to->own_weight = from->own_weight;
	to->max_active_flows = from->max_active_flows;
	to->at_limit = from->at_limit;
	to->set = from->set;
}

static void inherit_service(struct weir_service_entry *to, const struct weir_service_entry *from) {
	if (from->policy_set || !to->adopted) {
		to->runtime_policy = from->runtime_policy;
	}
	to->error_window_ms = from->error_window_ms;
	to->policy_set = from->policy_set;
	to->noted_on_backups = from->noted_on_backups;
	if ((from->drain_set || !to->adopted) && to->config == from->config) {
		to->drain_set = from->drain_set;
		to->drain = from->drain;
		to->drain_until_ns = from->drain_until_ns;
		to->drain_left = from->drain_left;
		to->drain_begun_ms = from->drain_begun_ms;
		memcpy(to->drained, from->drained, sizeof(to->drained));
	}
}

void weir_state_inherit(struct weir_state *state, const struct weir_state *from) {
	state->draining |= from->draining;
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
			weir_address_equal(&state->backends[same].address, &old->address)) {
			inherit_backend(&state->backends[same], old);
		}
	}
	weir_state_mark_all(state);
}
