// SPDX-License-Identifier: BSD-3-Clause
#include "replay_table.h"

#include <errno.h>
#include <stdlib.h>

#include "interleaved.h"
#include "inverse_weight.h"
#include "maglev.h"
#include "stride.h"

static int compare_candidates(const void *one, const void *other) {
	const struct weir_candidate *a = one, *b = other;

	// the rounds need candidates in ascending order of weight
	if (a->weight != b->weight) {
		return a->weight < b->weight ? -1 : 1;
	}
	return a->id < b->id ? -1 : a->id > b->id;
}

static int add_candidates(
	const struct weir_replay_params *params, uint32_t subset, struct weir_replay_table *table) {
	uint32_t count = 0;

	table->candidates = malloc((params->backend_count + 1) * sizeof(*table->candidates));
	if (table->candidates == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < params->backend_count; i++) {
		const struct weir_replay_backend *backend = &params->backends[i];

		if ((backend->subsets >> subset & 1) != 0 && backend->weight > 0) {
			table->candidates[count++] = (struct weir_candidate){
				.id = (uint16_t)i, .weight = backend->weight};
		}
	}
	qsort(table->candidates, count, sizeof(*table->candidates), compare_candidates);
	table->table.candidates = table->candidates;
	table->table.count = count;
	return 0;
}

static int add_slots(
	const struct weir_replay_params *params, uint32_t slots, struct weir_replay_table *table) {
	uint32_t n = table->table.count;
	struct weir_maglev_backend *backends = malloc((n + 1) * sizeof(*backends));
	void *scratch = malloc(weir_maglev_scratch_bytes(n));
	int r = -ENOMEM;

	table->slots = malloc(slots * sizeof(*table->slots));
	if (table->slots != NULL && backends != NULL && scratch != NULL) {
		for (uint32_t i = 0; i < n; i++) {
			weir_maglev_permutation(params->backends[table->candidates[i].id].identity,
				slots, &backends[i].offset, &backends[i].skip);
			backends[i].weight = table->candidates[i].weight;
		}
		weir_maglev_build(backends, n, table->slots, slots, scratch);
		table->table.slots = table->slots;
		table->table.slot_count = slots;
		r = 0;
	}
	free(backends);
	free(scratch);
	return r;
}

static int add_rounds(struct weir_replay_table *table) {
	table->rounds = malloc((table->table.count + 1) * sizeof(*table->rounds));
	if (table->rounds == NULL) {
		return -ENOMEM;
	}
	table->table.rounds = table->rounds;
	table->table.round_count =
		weir_interleaved_rounds(table->candidates, table->table.count, table->rounds);
	return 0;
}

int weir_replay_table_build(const struct weir_replay_params *params, enum weir_policy policy,
	uint32_t subset, struct weir_replay_table *ret) {
	uint8_t needs = weir_policy_needs(policy);
	int r = add_candidates(params, subset, ret);

	ret->table.settings = (struct weir_policy_settings){.policy = (uint8_t)policy,
		.needs = needs,
		.when_exhausted = params->settings.when_exhausted,
		.error_window_ms = params->settings.error_window_ms};
	if (r < 0 || ret->table.count == 0) {
		return r;
	}
	if (policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(ret->candidates, ret->table.count, false);
	} else if (policy == WEIR_POLICY_LEAST_LOADED) {
		weir_inverse_weights(ret->candidates, ret->table.count);
	}
	if ((needs & WEIR_NEEDS_SLOTS) != 0) {
		r = add_slots(params, params->slots, ret);
	}
	return r == 0 && (needs & WEIR_NEEDS_ROUNDS) != 0 ? add_rounds(ret) : r;
}

void weir_replay_table_fini(struct weir_replay_table *table) {
	free(table->candidates);
	free(table->slots);
	free(table->rounds);
}
