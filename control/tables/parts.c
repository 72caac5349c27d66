// SPDX-License-Identifier: BSD-3-Clause
//
// Parts: the share of each backend in the published selection of its service.
#include <stdlib.h>

#include "state.h"

// Iterates over the candidates of a table.
struct walk {
	const struct weir_policy_table *table;
	uint32_t candidate;
	uint32_t round; // number of rounds in which the candidate gets flows
	uint64_t rounds; // sum of the weights of the first `round` rounds
};

static uint64_t parts_of_rounds(const struct walk *walk, const struct weir_candidate *one) {
	switch (weir_policy_rounds(&walk->table->settings)) {
	case WEIR_ROUNDS_DOCUMENTED:
		return walk->rounds;
	case WEIR_ROUNDS_TASKS:
		return walk->round;
	default:
		return one->weight;
	}
}

// Returns the parts of a candidate. The unit depends on the policy: for example strides, weights
// or rounds.
static uint64_t parts_of(const struct walk *walk, const struct weir_candidate *one) {
	const struct weir_policy_table *table = walk->table;

	switch (table->settings.policy) {
	case WEIR_POLICY_WEIGHTED_ROUND_ROBIN:
		return one->stride;
	case WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN:
	case WEIR_POLICY_LEAST_LOADED:
		return one->weight;
	case WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN:
		return parts_of_rounds(walk, one);
	default:
		return 1;
	}
}

static uint64_t next_parts(struct walk *walk) {
	const struct weir_policy_table *table = walk->table;
	const struct weir_candidate *one = &table->candidates[walk->candidate++];

	// walk->rounds is a running sum: in a table with rounds, the candidates are ordered by
	// weight.
	while (walk->round < table->round_count &&
		table->rounds[walk->round].weight <= one->weight) {
		walk->rounds += table->rounds[walk->round++].weight;
	}
	return parts_of(walk, one);
}

// Parts are multiplied by this scale, so that a backend in slow start can have a fraction of a
// part.
#define PARTS_SCALE 1000.0

static double part_of(const struct weir_backend_entry *backend) {
	return backend->share.part != 0 ? (double)backend->share.part / WEIR_POLICY_PART_ONE : 1;
}

// Returns the sum of the parts of all candidates. If state is not NULL, also multiplies the parts
// of each candidate by `factor` and by its slow start share, and adds them to its backend. The
// returned sum does not include these factors.
static uint64_t count_candidates(
	struct weir_state *state, const struct weir_policy_table *table, double factor) {
	struct walk walk = {.table = table};
	uint64_t sum = 0;

	for (uint32_t i = 0; i < table->count; i++) {
		uint16_t id = table->candidates[i].id;
		uint64_t parts = next_parts(&walk);

		sum += parts;
		if (state != NULL && id < state->backend_ids) {
			state->backends[id].parts +=
				(uint64_t)((double)parts * factor * part_of(&state->backends[id]));
		}
	}
	return sum;
}

// Counts the slots of each candidate. The slots are not ordered by candidate, so they are counted
// in an array that fits into the cache.
static void count_slots(struct weir_state *state, const struct weir_policy_table *table) {
	uint32_t *counts = calloc(table->count + 1, sizeof(counts[0]));

	for (uint32_t i = 0; counts != NULL && i < table->slot_count; i++) {
		uint16_t at = table->slots[i];

		counts[at < table->count ? at : table->count]++;
	}
	for (uint32_t i = 0; counts != NULL && i < table->count; i++) {
		if (table->candidates[i].id < state->backend_ids) {
			state->backends[table->candidates[i].id].parts += counts[i];
		}
	}
	free(counts);
}

// If each worker has its own subset and the policy uses no slots, the parts in each subset are
// scaled to this sum (during slow start, to a lower sum). All subsets have the same sum, because
// all workers get about the same number of flows.
#define PARTS_PER_WORKER 1e6

static void count_subset(struct weir_state *state, const struct weir_policy_table *table,
	bool one_of_several, bool slow_start) {
	uint64_t sum = one_of_several ? count_candidates(NULL, table, 1) : 0;
	double factor = slow_start ? PARTS_SCALE : 1;

	count_candidates(state, table, sum > 0 ? PARTS_PER_WORKER / (double)sum : factor);
}

static void clear_parts(struct weir_state *state, struct weir_service_entry *service) {
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		state->backends[link - 1].listed = false;
		state->backends[link - 1].parts = 0;
	}
	service->slots = 0;
	service->table_slots = 0;
}

static void list_candidates(struct weir_state *state, const struct weir_policy_table *table) {
	for (uint32_t i = 0; i < table->count; i++) {
		if (table->candidates[i].id < state->backend_ids) {
			state->backends[table->candidates[i].id].listed = true;
		}
	}
}

static void sum_up_parts(struct weir_state *state, struct weir_service_entry *service) {
	service->parts = 0;
	service->listed = 0;
	service->listed_chosen = 0;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->in_selection = backend->listed && backend->chosen;
		service->listed += backend->listed;
		service->listed_chosen += backend->in_selection;
		service->parts += backend->in_selection ? backend->parts : 0;
	}
}

void weir_parts_count(const struct weir_tables *tables, struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	uint32_t subsets = weir_build_published_subsets(tables, id);
	struct weir_policy_table table;
	uint64_t generation;

	if (!weir_build_published(tables, id, 0, &table, &generation) ||
		(generation == service->generation && !service->parts_stale)) {
		return;
	}
	service->parts_stale = false;
	service->generation = generation;
	clear_parts(state, service);
	for (uint32_t subset = 0; subset < subsets; subset++) {
		if (!weir_build_published(tables, id, subset, &table, &generation)) {
			continue;
		}
		list_candidates(state, &table);
		if ((table.settings.needs & WEIR_NEEDS_SLOTS) != 0) {
			service->slots += table.slot_count;
			if (table.slot_count > 0) {
				service->table_slots = table.slot_count;
			}
			count_slots(state, &table);
		} else {
			count_subset(state, &table, subsets > 1, service->slow_start);
		}
	}
	sum_up_parts(state, service);
}

static uint64_t parts_now(const struct weir_state *state, uint16_t service, struct walk *walk) {
	uint16_t id = walk->table->candidates[walk->candidate].id;
	uint64_t parts = next_parts(walk);

	if (service >= state->service_ids || !state->services[service].slow_start ||
		id >= state->backend_ids) {
		return parts;
	}
	return (uint64_t)((double)parts * PARTS_SCALE * part_of(&state->backends[id]));
}

static bool is_open(const struct weir_state *state, uint16_t id) {
	return id >= state->backend_ids || weir_backend_takes_flows(state, &state->backends[id]);
}

uint32_t weir_tables_subset_parts(const struct weir_tables *tables, uint16_t service,
	uint32_t subset, struct weir_subset_part *ret, uint32_t room) {
	struct weir_policy_table table;
	struct walk walk = {.table = &table};
	uint64_t generation;
	uint32_t count;
	bool slots;

	if (subset >= weir_build_published_subsets(tables, service) ||
		!weir_build_published(tables, service, subset, &table, &generation)) {
		return 0;
	}
	slots = (table.settings.needs & WEIR_NEEDS_SLOTS) != 0;
	count = table.count < room ? table.count : room;
	for (uint32_t i = 0; i < count; i++) {
		ret[i] = (struct weir_subset_part){.backend = table.candidates[i].id,
			.parts = slots ? 0 : parts_now(tables->state, service, &walk)};
	}
	for (uint32_t i = 0; slots && i < table.slot_count; i++) {
		if (table.slots[i] < count) {
			ret[table.slots[i]].parts++;
		}
	}
	// Backends that were closed after the selection was built have no parts.
	for (uint32_t i = 0; i < count; i++) {
		if (!is_open(tables->state, ret[i].backend)) {
			ret[i].parts = 0;
		}
	}
	return count;
}

uint64_t weir_tables_backend_parts(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	return id < state->backend_ids && weir_backend_takes_flows(state, &state->backends[id])
		       ? state->backends[id].parts
		       : 0;
}
