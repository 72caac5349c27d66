// SPDX-License-Identifier: BSD-3-Clause
//
// Counts the former flows of each service: flows that may have begun before the last change to
// the set of backends that get the service's new flows. Such a flow may move to another backend
// when a worker starts: the worker has no flow table entries yet, and finds the backend of the
// flow with the current selection.
//
// After a change, workers may use the previous tables until a grace period is over. Therefore flows
// are counted after the grace period, and flows that began before its end count as former flows.
#include "state.h"

#define UNKNOWN UINT64_MAX

static uint64_t sum_spilled(const struct weir_segment *segment, uint16_t id) {
	uint64_t flows = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		flows += weir_counter_read(
			&weir_segment_service_counters(segment, worker, id)->spilled);
	}
	return flows;
}

void weir_former_changed(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	if (service->former_stage != WEIR_FORMER_NONE) {
		service->former_stage = WEIR_FORMER_CHANGED;
		state->former_changed = true;
	}
}

void weir_former_published(
	const struct weir_segment *segment, struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	if (service->former_stage != WEIR_FORMER_NONE) {
		weir_former_changed(state, id);
		return;
	}
	service->former_stage = WEIR_FORMER_KNOWN;
	service->former_flows = 0;
	service->former_spilled = sum_spilled(segment, id);
}

void weir_former_adopt(struct weir_state *state) {
	for (uint32_t id = 0; id < state->service_ids; id++) {
		if (state->services[id].stage != WEIR_ID_FREE) {
			state->services[id].former_stage = WEIR_FORMER_CHANGED;
			state->former_changed = true;
		}
	}
}

// Advances the count of a service's former flows. *mark: mark of the grace period that begins in
// this tick, shared by all services; 0 = not set yet. Returns whether the former flows are still
// unknown.
static bool advance(struct weir_tables *tables, uint16_t id, uint64_t *mark) {
	struct weir_service_entry *service = &tables->state->services[id];
	uint64_t spilled, flows;

	if (service->former_stage == WEIR_FORMER_CHANGED) {
		service->former_stage = WEIR_FORMER_SETTLING;
		*mark = *mark == 0 ? weir_writer_mark(tables->writer) : *mark;
		service->former_mark = *mark;
	}
	if (service->former_stage != WEIR_FORMER_SETTLING) {
		return false;
	}
	if (!weir_writer_passed(tables->writer, service->former_mark)) {
		return true;
	}
	spilled = sum_spilled(tables->segment, id);
	if (!weir_flows_service(tables->segment, id, &flows)) {
		return true;
	}
	service->former_spilled = spilled;
	service->former_flows = flows;
	service->former_stage = WEIR_FORMER_KNOWN;
	return false;
}

void weir_former_tick(struct weir_tables *tables) {
	struct weir_state *state = tables->state;
	bool changed = false;
	uint64_t mark = 0;

	if (tables->writer == NULL || !state->former_changed) {
		return;
	}
	for (uint32_t id = 0; id < state->service_ids; id++) {
		changed |= advance(tables, (uint16_t)id, &mark);
	}
	state->former_changed = changed;
}

void weir_tables_flow_moved(struct weir_tables *tables, uint16_t id) {
	struct weir_state *state = tables->state;

	if (id < state->backend_ids && state->backends[id].stage != WEIR_ID_FREE) {
		weir_former_changed(state, state->backends[id].service);
	}
}

struct weir_former_flows weir_tables_former_flows(const struct weir_tables *tables, uint16_t id) {
	const struct weir_service_entry *service;

	if (tables->segment == NULL || id >= tables->state->service_ids) {
		return (struct weir_former_flows){.older = UNKNOWN};
	}
	service = &tables->state->services[id];
	if (service->former_stage != WEIR_FORMER_KNOWN) {
		return (struct weir_former_flows){.older = UNKNOWN};
	}
	return (struct weir_former_flows){.older = service->former_flows,
		.spilled = sum_spilled(tables->segment, id) - service->former_spilled};
}
