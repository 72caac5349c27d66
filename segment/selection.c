// SPDX-License-Identifier: BSD-3-Clause
#include "selection.h"

#include <errno.h>
#include <stdlib.h>

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

// The members that take anything, sorted. Returns how many.
static uint32_t pick_members(const struct weir_selection_member *members, uint32_t n, bool rounds,
	struct weir_selection_member *picked) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (members[i].weight > 0) {
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

static int fill_slots(
	struct weir_selection *selection, const struct weir_selection_member *members) {
	bool weighted = (selection->settings.needs & WEIR_NEEDS_SLOTS) != 0;
	uint16_t *slots = (uint16_t *)(void *)((uint8_t *)selection + selection->slots_off);
	uint32_t n = selection->candidates;
	struct weir_maglev_backend *backends = calloc(n, sizeof(*backends));
	struct ranked *ranked = calloc(n, sizeof(*ranked));
	void *scratch = malloc(weir_maglev_scratch_bytes(n));
	int error = -ENOMEM;

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
		weir_maglev_permutation(ranked[i].identity, selection->slots, &backends[i].offset,
			&backends[i].skip);
	}
	weir_maglev_build(backends, n, slots, selection->slots, scratch);
	for (uint32_t i = 0; i < selection->slots && !weighted; i++) {
		slots[i] = (uint16_t)ranked[slots[i]].index;
	}
	error = 0;

free_memory:
	free(scratch);
	free(ranked);
	free(backends);
	return error;
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

static int fill(struct weir_selection *selection, const struct weir_selection_member *members,
	bool reported) {
	uint8_t *base = (uint8_t *)selection;
	struct weir_candidate *out =
		(struct weir_candidate *)(void *)(base + selection->candidates_off);

	for (uint32_t i = 0; i < selection->candidates; i++) {
		out[i].id = members[i].id;
		out[i].stride = 0;
		out[i].weight = members[i].weight;
	}
	if (selection->settings.policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(out, selection->candidates, reported);
	}
	if (selection->rounds > 0) {
		weir_interleaved_rounds(out, selection->candidates,
			(struct weir_round *)(void *)(base + selection->rounds_off));
	}
	return fill_slots(selection, members);
}

// `members` are sorted by weight where rounds are needed.
static uint32_t count_weights(const struct weir_selection_member *members, uint32_t n) {
	uint32_t weights = 0;

	for (uint32_t i = 0; i < n; i++) {
		weights += i == 0 || members[i].weight != members[i - 1].weight;
	}
	return weights;
}

static struct weir_selection *alloc_selection(struct weir_writer *writer,
	const struct weir_selection_params *params, const struct weir_selection_member *members,
	uint32_t n) {
	uint8_t needs = params->settings.needs;
	uint32_t rounds = (needs & WEIR_NEEDS_ROUNDS) != 0 ? count_weights(members, n) : 0;
	uint32_t slots = weir_selection_slots(&params->settings, params->slots, n);
	size_t candidates_bytes = n * sizeof(struct weir_candidate);
	size_t rounds_bytes = rounds * sizeof(struct weir_round);
	struct weir_selection *selection = weir_writer_alloc(writer, WEIR_BLOB_SELECTION,
		sizeof(*selection) + candidates_bytes + rounds_bytes + slots * sizeof(uint16_t));

	if (selection != NULL) {
		selection->service = params->service;
		selection->settings = params->settings;
		selection->candidates = n;
		selection->slots = slots;
		selection->rounds = rounds;
		selection->candidates_off = sizeof(*selection);
		selection->rounds_off = (uint32_t)(sizeof(*selection) + candidates_bytes);
		selection->slots_off =
			(uint32_t)(sizeof(*selection) + candidates_bytes + rounds_bytes);
	}
	return selection;
}

static bool params_valid(const struct weir_selection_params *params, uint32_t n) {
	const struct weir_policy_settings *settings = &params->settings;

	if (settings->policy >= WEIR_POLICY_COUNT || n >= WEIR_BACKENDS_MAX ||
		(settings->needs & WEIR_NEEDS_OF_POLICY) !=
			weir_policy_needs((enum weir_policy)settings->policy) ||
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
	struct weir_selection_member *picked;
	struct weir_selection *selection;
	uint32_t count;
	int error;

	if (!params_valid(params, n)) {
		return -EINVAL;
	}
	picked = calloc((size_t)n + 1, sizeof(*picked));
	if (picked == NULL) {
		return -ENOMEM;
	}
	count = pick_members(members, n, (params->settings.needs & WEIR_NEEDS_ROUNDS) != 0, picked);
	selection = alloc_selection(writer, params, picked, count);
	error = selection == NULL ? -ENOSPC : 0;
	if (selection != NULL && count > 0) {
		error = fill(selection, picked, params->weights_reported);
		if (error < 0) {
			weir_writer_discard(writer, &selection->blob);
		}
	}
	if (error == 0) {
		*ret = selection;
	}
	free(picked);
	return error;
}
