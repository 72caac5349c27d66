// SPDX-License-Identifier: BSD-3-Clause
//
// Rebuild: builds a selection in steps after backends became usable or unusable, so that control
// can do other work between the steps.
//
// A change first publishes only the row of the backend. While the old selection is in use, workers
// skip candidates whose row is closed. If a backend becomes usable again and is still a candidate,
// its row is opened again. One new selection is then built for many changes. The new selection is
// equal to a selection that is built in one step, so all instances have equal selections.
//
// One selection is built at a time, from the backends of the service at the start of the build.
// If backends change during the build, the selection is built once more. If too few of its
// candidates are still open at the end of the build (serves), the selection is not published.
#include <errno.h>
#include <stdlib.h>

#include "selection.h"
#include "state.h"

#define COLLECT_STEP 8192u // maximum number of backends collected in a step
#define FILL_STEP 4096u // maximum number of slots filled in a step

struct weir_rebuild {
	uint16_t service;
	uint16_t link; // the next backend to collect; 0 = done
	uint32_t members; // members of the service at the start
	uint64_t generation; // generation of the service's published selection at the start
	uint32_t count;
	struct weir_selection_params params;
	struct weir_selection_member *member; // [members]; NULL after `work` has become the owner
	struct weir_selection_work *work;
};

static void drop(struct weir_tables *tables) {
	struct weir_rebuild *rebuild = tables->rebuild;

	weir_selection_work_free(rebuild->work);
	free(rebuild->member);
	free(rebuild);
	tables->rebuild = NULL;
}

void weir_rebuild_cancel(struct weir_tables *tables) {
	if (tables->rebuild != NULL) {
		drop(tables);
	}
}

// Returns whether a service's selection must be rebuilt in steps. Returns false if the selection is
// dirty, because the next publication builds a dirty selection in one step, even after a failed
// publication.
static bool is_stale(const struct weir_service_entry *service) {
	return service->stale && !service->dirty && service->stage == WEIR_ID_LIVE &&
	       service->config != NULL;
}

// Returns the next service with a stale selection (round robin), or WEIR_SERVICE_NONE.
static uint16_t next_stale(struct weir_tables *tables) {
	struct weir_state *state = tables->state;

	for (uint32_t i = 0; i < state->service_ids; i++) {
		uint32_t id = (tables->rebuild_next + i) % state->service_ids;

		if (is_stale(&state->services[id])) {
			tables->rebuild_next = (uint16_t)((id + 1) % state->service_ids);
			return (uint16_t)id;
		}
	}
	state->stale = false;
	return WEIR_SERVICE_NONE;
}

static int begin(struct weir_tables *tables, uint16_t id) {
	const struct weir_service_entry *service = &tables->state->services[id];
	struct weir_rebuild *rebuild = calloc(1, sizeof(*rebuild));

	if (rebuild == NULL) {
		return -ENOMEM;
	}
	rebuild->member = malloc((service->members + 1) * sizeof(rebuild->member[0]));
	if (rebuild->member == NULL) {
		free(rebuild);
		return -ENOMEM;
	}
	rebuild->service = id;
	rebuild->link = service->first;
	rebuild->members = service->members;
	rebuild->generation = service->generation;
	rebuild->params = (struct weir_selection_params){.service = id,
		.slots = service->config->table_size,
		.settings = weir_service_settings(tables->state, service),
		.affinity_ms = service->config->affinity.timeout_ms,
		.subsets = 1};
	tables->rebuild = rebuild;
	return 1;
}

static int collect(struct weir_tables *tables) {
	struct weir_rebuild *rebuild = tables->rebuild;
	struct weir_state *state = tables->state;
	uint32_t steps = COLLECT_STEP;
	int r;

	for (; rebuild->link != 0 && steps > 0; steps--) {
		const struct weir_backend_entry *backend = &state->backends[rebuild->link - 1];

		rebuild->count += weir_eligible_member(state, rebuild->link - 1,
			&rebuild->member[rebuild->count], &rebuild->params.weights_reported);
		rebuild->link = backend->next;
	}
	state->examined += COLLECT_STEP - steps;
	if (rebuild->link != 0) {
		return 1;
	}
	r = weir_selection_begin(&rebuild->params, rebuild->member, rebuild->count, &rebuild->work);
	if (r < 0) {
		return r;
	}
	rebuild->member = NULL; // the array is now owned by `work`
	return 1;
}

// Returns whether a new selection can be published, although backends may have changed during the
// build. Enough of its candidates must still be chosen (weir_build_serves). If the policy uses
// slots, these candidates must also have at least half of the total weight.
static bool serves(const struct weir_tables *tables, const struct weir_service_entry *service,
	const struct weir_selection *selection) {
	const struct weir_candidate *candidates =
		(const struct weir_candidate *)(const void *)((const uint8_t *)selection +
							      selection->first.candidates_off);
	bool by_slots = (selection->settings.needs & WEIR_NEEDS_SLOTS) != 0;
	uint64_t weight = 0, open_weight = 0;
	uint32_t open = 0;

	for (uint32_t i = 0; i < selection->first.candidates; i++) {
		bool is_open = tables->state->backends[candidates[i].id].chosen;

		open += is_open;
		weight += candidates[i].weight;
		open_weight += is_open ? candidates[i].weight : 0;
	}
	return weir_build_serves(selection->first.candidates, open, service->chosen) &&
	       (!by_slots || 2 * open_weight >= weight);
}

static int finish(struct weir_tables *tables) {
	struct weir_rebuild *rebuild = tables->rebuild;
	struct weir_service_entry *service = &tables->state->services[rebuild->service];
	struct weir_selection *selection;
	int r = weir_selection_finish(rebuild->work, tables->writer, &selection);

	if (r < 0) {
		return r;
	}
	tables->slots_written += selection->first.slots;
	if (!serves(tables, service, selection)) {
		weir_writer_discard(tables->writer, &selection->blob);
		drop(tables);
		return 1;
	}
	weir_publish_selection(tables, rebuild->service, &selection->blob);
	service->stale = weir_eligible_differ(service);
	drop(tables);
	weir_writer_reclaim(tables->writer);
	return tables->state->stale ? 1 : 0;
}

int weir_tables_build(struct weir_tables *tables) {
	struct weir_rebuild *rebuild = tables->rebuild;
	const struct weir_service_entry *service;
	int r;

	if (tables->writer == NULL || tables->config == NULL) {
		return 0;
	}
	if (rebuild == NULL) {
		uint16_t id = next_stale(tables);

		return id == WEIR_SERVICE_NONE ? 0 : begin(tables, id);
	}
	service = &tables->state->services[rebuild->service];
	// Start again if the service's list of backends has changed, if an earlier publication has
	// built the selection, or if the next publication will build it because of another change.
	if (!is_stale(service) || service->members != rebuild->members ||
		service->generation != rebuild->generation) {
		drop(tables);
		return 1;
	}
	if (rebuild->work == NULL) {
		r = collect(tables);
	} else {
		r = weir_selection_step(rebuild->work, FILL_STEP);
		if (r == 0) {
			r = finish(tables);
		}
	}
	if (r < 0) {
		drop(tables);
	}
	return r;
}

bool weir_tables_is_stale(const struct weir_tables *tables) {
	return tables->rebuild != NULL || tables->state->stale;
}
