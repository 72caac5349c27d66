// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_parts.h"

#include "burst.h"
#include "flow_parts.h"
#include "new_flow.h"

void weir_pipeline_own_part(struct weir_pipeline *pipeline, uint32_t part) {
	weir_flow_own(pipeline->flows, part);
}

bool weir_pipeline_owns_part(const struct weir_pipeline *pipeline, uint32_t part) {
	return weir_flow_owns(pipeline->flows, part);
}

// --- release --------------------------------------------------------------------------------

bool weir_pipeline_release_part(
	struct weir_pipeline *pipeline, uint32_t part, struct weir_flow_parcel *parcel) {
	uint32_t labelled, flows, half_open;
	bool done;

	if (parcel->state == WEIR_FLOW_PARCEL_EMPTY) {
		parcel->flows = 0;
		parcel->half_open = 0;
	}
	labelled = parcel->backend_count;
	flows = parcel->flows;
	half_open = parcel->half_open;
	done = weir_flow_release(pipeline->flows, part, parcel);
	for (; labelled < parcel->backend_count; labelled++) {
		uint16_t backend = parcel->backend[labelled];

		parcel->tally[backend].label = pipeline->owner[backend];
	}
	pipeline->leaving += parcel->flows - flows;
	pipeline->leaving_half_open += parcel->half_open - half_open;
	parcel->note = weir_reader_rows(&pipeline->reader);
	parcel->cursor = 0;
	return done;
}

// --- adopt ----------------------------------------------------------------------------------

static void gauges_add(struct weir_share_counters *counters, const struct weir_flow_tally *tally) {
	weir_counter_add(&counters->active_flows, tally->active);
	weir_counter_add(&counters->open_flows, tally->open);
}

static void gauges_sub(struct weir_share_counters *counters, const struct weir_flow_tally *tally) {
	weir_counter_add(&counters->active_flows, -(uint64_t)tally->active);
	weir_counter_add(&counters->open_flows, -(uint64_t)tally->open);
}

static void take_flows(
	struct weir_pipeline *pipeline, uint16_t backend, const struct weir_flow_tally *tally) {
	uint16_t service = (uint16_t)tally->label;

	// The owner of the backend differs if this worker has not read the row of a new backend
	// yet. Set the owner, as flow_started does when a flow begins.
	if (pipeline->owner[backend] != service) {
		weir_new_flow_owner(pipeline, backend, service);
	}
	gauges_add(weir_burst_backend_counters(pipeline, backend), tally);
	gauges_add(weir_burst_service_counters(pipeline, service), tally);
	weir_policy_take_flows(&pipeline->policy, &pipeline->clients[service], backend, tally->open,
		tally->half_open);
	weir_new_flow_publish_half_open(pipeline, backend);
}

// Returns true if the pipeline has read the rows of all backends of the flows, or has waited long
// enough.
static bool is_up_to_date(struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel) {
	if (parcel->waits == WEIR_PIPELINE_PART_WAITS) {
		// do not wait longer: the giver may also lack the missing rows
		return true;
	}
	weir_reader_update(&pipeline->reader);
	if (weir_reader_has_rows(&pipeline->reader, parcel->note)) {
		return true;
	}
	parcel->waits++;
	return false;
}

bool weir_pipeline_adopt_part(
	struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel, uint64_t now_ns) {
	uint32_t end = RTE_MIN(parcel->cursor + WEIR_PIPELINE_PART_SLICE, parcel->backend_count);

	pipeline->now_ns = now_ns;
	if (parcel->cursor == 0 && parcel->state == WEIR_FLOW_PARCEL_RELEASED &&
		!is_up_to_date(pipeline, parcel)) {
		return false;
	}
	if (parcel->cursor < end) {
		for (; parcel->cursor < end; parcel->cursor++) {
			uint16_t backend = parcel->backend[parcel->cursor];

			take_flows(pipeline, backend, &parcel->tally[backend]);
		}
		return false;
	}
	return weir_flow_adopt(pipeline->flows, parcel, now_ns);
}

// --- settle ---------------------------------------------------------------------------------

static void give_flows(
	struct weir_pipeline *pipeline, uint16_t backend, const struct weir_flow_tally *tally) {
	uint16_t service = (uint16_t)tally->label;

	gauges_sub(weir_burst_backend_counters(pipeline, backend), tally);
	gauges_sub(weir_burst_service_counters(pipeline, service), tally);
	if (pipeline->owner[backend] ==
		service) { // otherwise the state was already reset for another service
		weir_policy_give_flows(&pipeline->policy, &pipeline->clients[service], backend,
			tally->open, tally->half_open);
		weir_new_flow_publish_half_open(pipeline, backend);
	}
}

bool weir_pipeline_settle_part(struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel) {
	for (uint32_t i = 0; i < WEIR_PIPELINE_PART_SLICE && parcel->backend_count > 0; i++) {
		uint16_t backend = parcel->backend[parcel->backend_count - 1];

		give_flows(pipeline, backend, &parcel->tally[backend]);
		weir_flow_parcel_remove(parcel);
	}
	if (parcel->backend_count > 0) {
		return false;
	}
	pipeline->leaving -= parcel->flows;
	pipeline->leaving_half_open -= parcel->half_open;
	parcel->waits = 0;
	weir_flow_parcel_remove(parcel);
	return true;
}
