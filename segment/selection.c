// SPDX-License-Identifier: BSD-3-Clause
#include "selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "interleaved.h"
#include "maglev.h"
#include "stride.h"

static int compare_members(const void *left, const void *right) {
	const struct weir_selection_member *a = left;
	const struct weir_selection_member *b = right;

	if (a->identity != b->identity) {
		return a->identity < b->identity ? -1 : 1;
	}
	return (a->id > b->id) - (a->id < b->id);
}

// Interleaved rounds take the heavier candidates: those come last, so that a round is the rest of
// the list.
static int compare_weights(const void *left, const void *right) {
	const struct weir_selection_member *a = left;
	const struct weir_selection_member *b = right;

	if (a->weight != b->weight) {
		return a->weight < b->weight ? -1 : 1;
	}
	return compare_members(left, right);
}

static bool is_in(const struct weir_selection_params *params,
	const struct weir_selection_member *member, uint32_t subset) {
	return member->weight > 0 && (params->subsets <= 1 || (member->subsets >> subset & 1) != 0);
}

// The members of a subset that take anything, sorted. Returns how many.
static uint32_t pick_members(const struct weir_selection_params *params,
	const struct weir_selection_member *members, uint32_t n, uint32_t subset,
	struct weir_selection_member *picked) {
	bool rounds = (params->settings.needs & WEIR_NEEDS_ROUNDS) != 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (is_in(params, &members[i], subset)) {
			picked[count++] = members[i];
		}
	}
	if (count > 0) {
		qsort(picked, count, sizeof(picked[0]), rounds ? compare_weights : compare_members);
	}
	return count;
}

// A candidate as the Maglev table sees it: the order of identities decides, not that of candidates.
struct ranked {
	uint64_t identity;
	uint32_t index;
};

static int compare_ranked(const void *left, const void *right) {
	const struct ranked *a = left;
	const struct ranked *b = right;

	if (a->identity != b->identity) {
		return a->identity < b->identity ? -1 : 1;
	}
	return (a->index > b->index) - (a->index < b->index);
}

static int fill_slots(struct weir_selection *selection, const struct weir_selection_subset *subset,
	const struct weir_selection_member *members) {
	bool weighted = (selection->settings.needs & WEIR_NEEDS_SLOTS) != 0;
	uint16_t *slots = (uint16_t *)(void *)((uint8_t *)selection + subset->slots_off);
	uint32_t n = subset->candidates;
	struct weir_maglev_backend *backends = calloc(n, sizeof(*backends));
	struct ranked *ranked = calloc(n, sizeof(*ranked));
	void *scratch = malloc(weir_maglev_scratch_bytes(n));
	int r = -ENOMEM;

	if (backends == NULL || ranked == NULL || scratch == NULL) {
		goto free_memory;
	}
	for (uint32_t i = 0; i < n; i++) {
		ranked[i] = (struct ranked){members[i].identity, i};
	}
	if (!weighted) { // members are in the order of identities otherwise
		qsort(ranked, n, sizeof(ranked[0]), compare_ranked);
	}
	for (uint32_t i = 0; i < n; i++) {
		backends[i].weight = weighted ? members[i].weight : 1;
		weir_maglev_permutation(
			ranked[i].identity, subset->slots, &backends[i].offset, &backends[i].skip);
	}
	weir_maglev_build(backends, n, slots, subset->slots, scratch);
	for (uint32_t i = 0; i < subset->slots && !weighted; i++) {
		slots[i] = (uint16_t)ranked[slots[i]].index;
	}
	r = 0;

free_memory:
	free(scratch);
	free(ranked);
	free(backends);
	return r;
}

#define SLOTS_PER_CANDIDATE 16u // of a table that serves only packets without a flow
#define SLOTS_LEAST 251u

uint32_t weir_selection_slots(
	const struct weir_policy_settings *settings, uint32_t params_slots, uint32_t n) {
	uint32_t slots = n * SLOTS_PER_CANDIDATE;

	if (n == 0) {
		return 0;
	}
	if ((settings->needs & WEIR_NEEDS_SLOTS) != 0) {
		return params_slots;
	}
	slots = slots < SLOTS_LEAST ? SLOTS_LEAST : slots;
	while (!weir_is_prime(slots)) {
		slots++;
	}
	return slots;
}

static int fill(struct weir_selection *selection, const struct weir_selection_subset *subset,
	const struct weir_selection_member *members, bool reported) {
	uint8_t *base = (uint8_t *)selection;
	struct weir_candidate *out =
		(struct weir_candidate *)(void *)(base + subset->candidates_off);

	for (uint32_t i = 0; i < subset->candidates; i++) {
		out[i].id = members[i].id;
		out[i].stride = 0;
		out[i].weight = members[i].weight;
	}
	if (selection->settings.policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(out, subset->candidates, reported);
	}
	if (subset->rounds > 0) {
		weir_interleaved_rounds(out, subset->candidates,
			(struct weir_round *)(void *)(base + subset->rounds_off));
	}
	return fill_slots(selection, subset, members);
}

// Whether a table has just these candidates, and so the arrays that would be built for them.
static bool is_same(const struct weir_selection_params *params,
	const struct weir_selection_subset *subset, const struct weir_selection_member *members,
	const struct weir_policy_table *table) {
	// Strides follow from more than the weights.
	if (params->settings.policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN ||
		table->count != subset->candidates || table->slot_count != subset->slots ||
		table->round_count != subset->rounds ||
		memcmp(&table->settings, &params->settings, sizeof(table->settings)) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < table->count; i++) {
		if (table->candidates[i].id != members[i].id ||
			table->candidates[i].weight != members[i].weight) {
			return false;
		}
	}
	return true;
}

static void copy(struct weir_selection *selection, const struct weir_selection_subset *subset,
	const struct weir_policy_table *table) {
	uint8_t *base = (uint8_t *)selection;

	memcpy(base + subset->candidates_off, table->candidates,
		subset->candidates * sizeof(table->candidates[0]));
	memcpy(base + subset->slots_off, table->slots, subset->slots * sizeof(table->slots[0]));
	if (subset->rounds > 0) {
		memcpy(base + subset->rounds_off, table->rounds,
			subset->rounds * sizeof(table->rounds[0]));
	}
}

// `members` are sorted by weight where rounds are needed.
static uint32_t count_weights(const struct weir_selection_member *members, uint32_t n) {
	uint32_t weights = 0;

	for (uint32_t i = 0; i < n; i++) {
		weights += i == 0 || members[i].weight != members[i - 1].weight;
	}
	return weights;
}

#define ALIGNMENT 64u // of a subset's arrays: workers do not share cache lines

struct plan { // of a blob
	uint32_t subsets;
	uint64_t bytes;
	struct weir_selection_member *picked; // subset by subset, each one sorted
	struct weir_selection_subset subset[WEIR_WORKERS_MAX];
};

// Where the arrays of a subset go. Returns false when offsets do not reach that far.
static bool place_subset(const struct weir_selection_params *params,
	const struct weir_selection_member *picked, uint32_t count, struct plan *plan,
	struct weir_selection_subset *subset) {
	bool rounds = (params->settings.needs & WEIR_NEEDS_ROUNDS) != 0;
	uint64_t at = plan->bytes;

	subset->candidates = (uint16_t)count; // members have different ids
	subset->rounds = rounds ? (uint16_t)count_weights(picked, count) : 0;
	subset->slots = weir_selection_slots(&params->settings, params->slots, count);
	subset->candidates_off = (uint32_t)at;
	at += count * sizeof(struct weir_candidate);
	subset->rounds_off = (uint32_t)at;
	at += subset->rounds * sizeof(struct weir_round);
	subset->slots_off = (uint32_t)at;
	at += subset->slots * sizeof(uint16_t);
	plan->bytes = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return plan->bytes <= UINT32_MAX;
}

// Returns 0, -ENOMEM, -ENOSPC. The caller frees plan->picked.
static int make_plan(const struct weir_selection_params *params,
	const struct weir_selection_member *members, uint32_t n, struct plan *plan) {
	uint64_t room = 0;
	uint32_t used = 0;

	plan->subsets = params->subsets > 1 ? params->subsets : 1;
	for (uint32_t i = 0; i < n; i++) {
		room += plan->subsets > 1 ? (uint32_t)__builtin_popcountll(members[i].subsets) : 1;
	}
	plan->picked = calloc(room + 1, sizeof(plan->picked[0]));
	if (plan->picked == NULL) {
		return -ENOMEM;
	}
	plan->bytes = sizeof(struct weir_selection) +
		      (plan->subsets - 1) * sizeof(struct weir_selection_subset);
	for (uint32_t i = 0; i < plan->subsets; i++) {
		uint32_t count = pick_members(params, members, n, i, plan->picked + used);

		if (!place_subset(params, plan->picked + used, count, plan, &plan->subset[i])) {
			return -ENOSPC;
		}
		used += count;
	}
	return 0;
}

static int carry_out(struct weir_writer *writer, const struct weir_selection_params *params,
	const struct plan *plan, struct weir_selection **ret) {
	const struct weir_selection_member *picked = plan->picked;
	struct weir_selection_subset *others;
	struct weir_selection *selection =
		weir_writer_alloc(writer, WEIR_BLOB_SELECTION, plan->bytes);

	if (selection == NULL) {
		return -errno;
	}
	selection->service = params->service;
	selection->settings = params->settings;
	selection->subsets = (uint16_t)plan->subsets;
	selection->others_off = sizeof(*selection);
	others = (struct weir_selection_subset *)(void *)(selection + 1);
	for (uint32_t i = 0; i < plan->subsets; i++) {
		const struct weir_selection_subset *subset = &plan->subset[i];
		int r = 0;

		*(i > 0 ? &others[i - 1] : &selection->first) = *subset;
		if (subset->candidates > 0 && params->published != NULL &&
			is_same(params, subset, picked, &params->published[i])) {
			copy(selection, subset, &params->published[i]);
		} else if (subset->candidates > 0) {
			r = fill(selection, subset, picked, params->weights_reported);
		}
		if (r < 0) {
			weir_writer_discard(writer, &selection->blob);
			return r;
		}
		picked += subset->candidates;
	}
	*ret = selection;
	return 0;
}

static bool params_valid(const struct weir_selection_params *params, uint32_t n) {
	const struct weir_policy_settings *settings = &params->settings;

	if (settings->policy >= WEIR_POLICY_COUNT || n > WEIR_BACKENDS_MAX ||
		params->subsets > WEIR_WORKERS_MAX ||
		(settings->needs & WEIR_NEEDS_OF_POLICY) !=
			(weir_policy_needs((enum weir_policy)settings->policy) &
				WEIR_NEEDS_OF_POLICY) ||
		settings->when_exhausted > WEIR_EXHAUSTED_REJECT ||
		settings->error_window_ms == 0) {
		return false;
	}
	return (settings->needs & WEIR_NEEDS_SLOTS) == 0 ||
	       (params->slots <= WEIR_TABLE_SLOTS_MAX && weir_is_prime(params->slots) &&
		       n <= params->slots);
}

int weir_selection_build(struct weir_writer *writer, const struct weir_selection_params *params,
	const struct weir_selection_member *members, uint32_t n, struct weir_selection **ret) {
	struct plan plan = {0};
	int r;

	if (!params_valid(params, n)) {
		return -EINVAL;
	}
	r = make_plan(params, members, n, &plan);
	if (r == 0) {
		r = carry_out(writer, params, &plan, ret);
	}
	free(plan.picked);
	return r;
}
