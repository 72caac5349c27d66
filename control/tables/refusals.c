// SPDX-License-Identifier: BSD-3-Clause
//
// Refusals: handles published tables that a worker refused because they are damaged.
#include <string.h>

#include "state.h"
#include "tables.h"

static uint64_t count_refusals(const struct weir_refusals *refusals) {
	return __atomic_load_n(&refusals->services, __ATOMIC_RELAXED) +
	       __atomic_load_n(&refusals->selections, __ATOMIC_RELAXED) +
	       __atomic_load_n(&refusals->rows, __ATOMIC_RELAXED);
}

void weir_refusals_begin(struct weir_tables *tables, const struct weir_segment *segment) {
	memset(tables->refusals, 0, sizeof(tables->refusals));
	for (uint32_t i = 0; i < segment->workers; i++) {
		const struct weir_refusals *refusals = &segment->refusals[i];

		if (__atomic_load_n(&refusals->refused, __ATOMIC_ACQUIRE) == 0) {
			tables->refusals[i] = count_refusals(refusals);
		}
	}
}

static weir_ref root_of(const struct weir_segment *segment, uint32_t change) {
	uint16_t id = (uint16_t)change;

	switch (change >> 16) {
	case WEIR_UPDATE_SERVICES:
		return segment->roots->services;
	case WEIR_UPDATE_SELECTION:
		return id < segment->max_services ? segment->roots->selection[id] : 0;
	default:
		return 0;
	}
}

static bool restore(struct weir_tables *tables, uint32_t change, weir_ref ref) {
	struct weir_state *state = tables->state;
	struct weir_root root = {.kind = WEIR_BLOB_SERVICES};
	uint16_t id = (uint16_t)change;

	if (change >> 16 == WEIR_UPDATE_ROW) {
		if (id < state->backend_ids) {
			weir_state_mark_backend(state, id);
		}
		return false;
	}
	if (root_of(tables->segment, change) != ref || ref == 0) {
		return true; // already handled after the refusal of another worker
	}
	if (change >> 16 == WEIR_UPDATE_SELECTION) {
		root.kind = WEIR_BLOB_SELECTION;
		root.service = id;
	}
	if (weir_writer_restore(tables->writer, root, ref) == 0) {
		if (root.kind == WEIR_BLOB_SELECTION) {
			weir_former_changed(state, id);
		}
		return true;
	}
	if (root.kind == WEIR_BLOB_SERVICES) {
		state->services_dirty = true;
	} else if (state->services[id].stage == WEIR_ID_LIVE) {
		weir_state_mark_service(state, id);
	} else if (state->services[id].stage == WEIR_ID_FREE) {
		weir_writer_publish(tables->writer, root, NULL);
	}
	return false;
}

bool weir_tables_refused(struct weir_tables *tables, struct weir_tables_refusal *ret) {
	for (uint32_t i = 0; tables->writer != NULL && i < tables->segment->workers; i++) {
		const struct weir_refusals *refusals = &tables->segment->refusals[i];
		uint64_t count = count_refusals(refusals);
		uint32_t change;

		if (count == tables->refusals[i]) {
			continue;
		}
		tables->refusals[i] = count;
		change = __atomic_load_n(&refusals->change, __ATOMIC_RELAXED);
		ret->worker = i;
		ret->kind = (enum weir_update_kind)(change >> 16);
		ret->id = (uint16_t)change;
		ret->restored =
			restore(tables, change, __atomic_load_n(&refusals->ref, __ATOMIC_RELAXED));
		return true;
	}
	return false;
}
