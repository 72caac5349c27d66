// SPDX-License-Identifier: BSD-3-Clause
//
// Rebuild: selections that are built after a backend came or went, in steps between which control
// does other work. The row of a backend that went has closed it already, and workers pass over
// candidates that are closed; one that came back is open again if it is still a candidate. So a
// change costs its backend, and many changes share one table, which is the one that would have been
// built at once: other instances have the same.
//
// One selection is under way at a time, by what its service's backends are when they are collected;
// when others have come or gone meanwhile, it is built once more. One most of whose candidates have
// closed meanwhile is not published.
#include <errno.h>
#include <stdlib.h>

#include "selection.h"
#include "state.h"

#define COLLECT_STEP 8192u // backends
#define FILL_STEP 4096u // slots

struct weir_rebuild {
	uint16_t service;
	uint16_t link; // the next backend to be collected; 0 = all are
	uint32_t members; // of the service, as it began
	uint64_t generation; // of its published selection, likewise
	uint32_t count;
	struct weir_selection_params params;
	struct weir_selection_member *member; // [members] until the work has them
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

static bool is_stale(const struct weir_service_entry *service) {
	return service->stale && service->stage == WEIR_ID_LIVE && service->config != NULL;
}

// The next stale service in turn, or WEIR_SERVICE_NONE.
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
	state->looked_at += COLLECT_STEP - steps;
	if (rebuild->link != 0) {
		return 1;
	}
	r = weir_selection_begin(&rebuild->params, rebuild->member, rebuild->count, &rebuild->work);
	if (r < 0) {
		return r;
	}
	rebuild->member = NULL; // the work has them
	return 1;
}

// Whether backends that have come and gone since they were collected leave the selection fit to be
// published: the one that is, is.
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
	// Others are in its list, or it was or is about to be built at once with what else has
	// changed.
	if (!is_stale(service) || service->dirty || service->members != rebuild->members ||
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
