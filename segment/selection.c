// SPDX-License-Identifier: BSD-3-Clause
#include "selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "interleaved.h"
#include "inverse_weight.h"
#include "maglev.h"
#include "member_order.h"
#include "stride.h"

static bool is_in(const struct weir_selection_params *params,
	const struct weir_selection_member *member, uint32_t subset) {
	return member->weight > 0 && (params->subsets <= 1 || (member->subsets >> subset & 1) != 0);
}

// Copies the members of a subset that have a weight above 0 to picked[], and sorts them. Returns
// the number of copied members.
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
	weir_member_order_sort(picked, count, rounds);
	return count;
}

// An element of an array of candidates, sorted by identity. The Maglev table depends on this order,
// not on the order of candidates.
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

// The arrays of a subset while they are built, in steps.
struct assembly {
	uint8_t *base; // start of the selection
	const struct weir_policy_settings *settings;
	const struct weir_selection_subset *subset;
	const struct weir_selection_member
		*members; // members of the subset, in the order of candidates
	bool reported; // weights come from reports (params->weights_reported)
	bool filling; // all permutations are computed; slots are being filled
	uint32_t next; // next permutation to compute; later, next slot for number_slots
	struct weir_maglev_backend *backends;
	struct ranked *ranked;
	void *scratch;
};

static uint16_t *slots_of(const struct assembly *assembly) {
	return (uint16_t *)(void *)(assembly->base + assembly->subset->slots_off);
}

static void assembly_fini(struct assembly *assembly) {
	free(assembly->scratch);
	free(assembly->ranked);
	free(assembly->backends);
}

static void make_permutations(struct assembly *assembly, uint32_t most) {
	bool weighted = (assembly->settings->needs & WEIR_NEEDS_SLOTS) != 0;
	uint32_t n = assembly->subset->candidates, slots = assembly->subset->slots;
	uint32_t end = n - assembly->next < most ? n : assembly->next + most;

	for (uint32_t i = assembly->next; i < end; i++) {
		struct weir_maglev_backend *backend = &assembly->backends[i];

		backend->weight = weighted ? assembly->members[i].weight : 1;
		weir_maglev_permutation(
			assembly->ranked[i].identity, slots, &backend->offset, &backend->skip);
	}
	assembly->next = end;
	if (end == n) {
		weir_maglev_begin(
			assembly->backends, n, slots_of(assembly), slots, assembly->scratch);
		assembly->filling = true;
		assembly->next = 0;
	}
}

// Renumbers up to `most` slots: replaces the rank of a candidate in the order of identities with
// the index of the candidate. This is needed only with rounds, because candidates are then not in
// the order of identities. Returns true if further slots must be renumbered.
static bool number_slots(struct assembly *assembly, uint32_t most) {
	uint32_t slots = assembly->subset->slots;
	uint32_t end = slots - assembly->next < most ? slots : assembly->next + most;
	uint16_t *table = slots_of(assembly);

	if (assembly->subset->rounds == 0) {
		return false;
	}
	for (uint32_t i = assembly->next; i < end; i++) {
		table[i] = (uint16_t)assembly->ranked[table[i]].index;
	}
	assembly->next = end;
	return end < slots;
}

// Does one step of building the arrays: computes up to `most` permutations, or fills or renumbers
// up to `most` slots. Returns whether another step is needed.
static bool assembly_step(struct assembly *assembly, uint32_t most) {
	if (!assembly->filling) {
		make_permutations(assembly, most);
		return true;
	}
	return weir_maglev_step(assembly->scratch, most) > 0 || number_slots(assembly, most);
}

#define SLOTS_PER_CANDIDATE \
	16u // in a small table, for policies that use it only for packets without a flow
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

// Writes the candidates and rounds of a subset, and allocates memory for the steps (assembly_step)
// that fill its slots. base and all data that the assembly points to must exist until
// assembly_fini. Returns 0 or -ENOMEM.
static int assembly_begin(struct assembly *assembly) {
	const struct weir_selection_subset *subset = assembly->subset;
	const struct weir_selection_member *members = assembly->members;
	uint32_t n = subset->candidates;
	struct weir_candidate *out =
		(struct weir_candidate *)(void *)(assembly->base + subset->candidates_off);

	assembly->backends = calloc(n, sizeof(assembly->backends[0]));
	assembly->ranked = calloc(n, sizeof(assembly->ranked[0]));
	assembly->scratch = malloc(weir_maglev_scratch_bytes(n));
	if (assembly->backends == NULL || assembly->ranked == NULL || assembly->scratch == NULL) {
		assembly_fini(assembly);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		out[i] = (struct weir_candidate){.id = members[i].id, .weight = members[i].weight};
		assembly->ranked[i] = (struct ranked){members[i].identity, i};
	}
	if (assembly->settings->policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(out, n, assembly->reported);
	} else if (assembly->settings->policy == WEIR_POLICY_LEAST_LOADED) {
		weir_inverse_weights(out, n);
	}
	if (subset->rounds > 0) {
		weir_interleaved_rounds(
			out, n, (struct weir_round *)(void *)(assembly->base + subset->rounds_off));
		qsort(assembly->ranked, n, sizeof(assembly->ranked[0]), compare_ranked);
	}
	return 0;
}

static int fill(struct weir_selection *selection, const struct weir_selection_subset *subset,
	const struct weir_selection_member *members, bool reported) {
	struct assembly assembly = {.base = (uint8_t *)selection,
		.settings = &selection->settings,
		.subset = subset,
		.members = members,
		.reported = reported};
	int r = assembly_begin(&assembly);

	if (r < 0) {
		return r;
	}
	while (assembly_step(&assembly, UINT32_MAX)) {
	}
	assembly_fini(&assembly);
	return 0;
}

// Returns whether a published table has the same candidates and settings as a new subset. In this
// case, all arrays of the subset would equal the arrays of the table, and can be copied.
static bool is_same(const struct weir_selection_params *params,
	const struct weir_selection_subset *subset, const struct weir_selection_member *members,
	const struct weir_policy_table *table) {
	// Weighted round robin is excluded, because its strides also depend on weights_reported.
	if (params->settings.policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN ||
		table->count != subset->candidates || table->slot_count != subset->slots ||
		table->round_count != subset->rounds ||
		memcmp(&table->settings, &params->settings, sizeof(table->settings)) != 0) {
		return false;
	}
	if (params->settings.policy == WEIR_POLICY_LEAST_LOADED &&
		!weir_inverse_weights_are_set(table->candidates, table->count)) {
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

// Returns the number of different weights. The members must be sorted by weight, as for policies
// with rounds.
static uint32_t count_weights(const struct weir_selection_member *members, uint32_t n) {
	uint32_t weights = 0;

	for (uint32_t i = 0; i < n; i++) {
		weights += i == 0 || members[i].weight != members[i - 1].weight;
	}
	return weights;
}

#define ALIGNMENT 64u // alignment of a subset's arrays, so that workers do not share cache lines

struct plan { // layout of a blob
	uint32_t subsets;
	uint64_t bytes;
	struct weir_selection_member *picked; // members subset by subset, each subset sorted
	struct weir_selection_subset subset[WEIR_WORKERS_MAX];
};

// Determine the positions of a subset's arrays. Returns false if they exceed the range of offsets.
static bool place_subset(const struct weir_selection_params *params,
	const struct weir_selection_member *picked, uint32_t count, struct plan *plan,
	struct weir_selection_subset *subset) {
	bool rounds = (params->settings.needs & WEIR_NEEDS_ROUNDS) != 0;
	uint64_t at = plan->bytes;

	subset->candidates = (uint16_t)count; // fits: members have different 16-bit ids
	subset->rounds = rounds ? (uint16_t)count_weights(picked, count) : 0;
	subset->affinity_ms = params->affinity_ms;
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

// Selects the members of each subset, and determines the positions of all arrays in the blob.
// Returns 0, -ENOMEM, -ENOSPC. The caller frees plan->picked, also after an error.
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

static void write_head(struct weir_selection *selection, const struct weir_selection_params *params,
	const struct plan *plan) {
	selection->service = params->service;
	selection->settings = params->settings;
	selection->subsets = (uint16_t)plan->subsets;
	selection->others_off = sizeof(*selection);
	selection->first = plan->subset[0];
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
	write_head(selection, params, plan);
	others = (struct weir_selection_subset *)(void *)(selection + 1);
	for (uint32_t i = 0; i < plan->subsets; i++) {
		const struct weir_selection_subset *subset = &plan->subset[i];
		int r = 0;

		if (i > 0) {
			others[i - 1] = *subset;
		}
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
		settings->error_window_ms == 0 || (settings->hash4 & WEIR_HASH_BITS) > 32 ||
		settings->hash6 > 128) {
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

// --- in steps ------------------------------------------------------------------------------

struct weir_selection_work {
	struct weir_selection_params params;
	struct weir_selection_member *members; // [n] in the caller's order, later sorted
	struct weir_selection_member *unordered; // [n] the members while they are being sorted
	struct weir_member_order *order;
	uint32_t n;
	struct plan plan; // plan of the only subset
	struct weir_selection *image; // contents of the blob, without its header
	struct assembly assembly;
	bool assembling;
};

void weir_selection_work_free(struct weir_selection_work *work) {
	if (work == NULL) {
		return;
	}
	if (work->assembling) {
		assembly_fini(&work->assembly);
	}
	weir_member_order_free(work->order);
	free(work->unordered);
	free(work->members);
	free(work->image);
	free(work);
}

int weir_selection_begin(const struct weir_selection_params *params,
	struct weir_selection_member *members, uint32_t n, struct weir_selection_work **ret) {
	struct weir_selection_work *work;
	uint32_t count = 0;

	if (!params_valid(params, n) || params->subsets > 1) {
		return -EINVAL;
	}
	work = calloc(1, sizeof(*work));
	if (work == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (members[i].weight > 0) {
			members[count++] = members[i];
		}
	}
	work->params = *params;
	work->n = count;
	work->members = malloc((count + 1) * sizeof(work->members[0]));
	work->order = weir_member_order_begin(
		members, count, (params->settings.needs & WEIR_NEEDS_ROUNDS) != 0);
	if (work->members == NULL || work->order == NULL) {
		weir_selection_work_free(work);
		return -ENOMEM;
	}
	work->unordered = members;
	*ret = work;
	return 0;
}

// Continues the work when the members are sorted: determines the positions of the arrays in the
// blob, allocates its image, and prepares the steps that fill it. Returns 1 (steps follow), 0 (the
// selection has no candidates and is complete), -ENOMEM, -ENOSPC.
static int begin_assembly(struct weir_selection_work *work) {
	struct plan *plan = &work->plan;
	int r;

	plan->subsets = 1;
	plan->bytes = sizeof(struct weir_selection);
	if (!place_subset(&work->params, work->members, work->n, plan, &plan->subset[0])) {
		return -ENOSPC;
	}
	work->image = calloc(1, plan->bytes);
	if (work->image == NULL) {
		return -ENOMEM;
	}
	write_head(work->image, &work->params, plan);
	if (work->n == 0) {
		return 0;
	}
	work->assembly = (struct assembly){.base = (uint8_t *)work->image,
		.settings = &work->params.settings,
		.subset = &plan->subset[0],
		.members = work->members,
		.reported = work->params.weights_reported};
	r = assembly_begin(&work->assembly);
	work->assembling = r == 0;
	return r == 0 ? 1 : r;
}

int weir_selection_step(struct weir_selection_work *work, uint32_t most) {
	if (work->order == NULL) {
		return work->assembling && assembly_step(&work->assembly, most) ? 1 : 0;
	}
	if (weir_member_order_pass(work->order)) {
		return 1;
	}
	weir_member_order_end(work->order, work->members);
	work->order = NULL;
	free(work->unordered);
	work->unordered = NULL;
	return begin_assembly(work);
}

int weir_selection_finish(
	struct weir_selection_work *work, struct weir_writer *writer, struct weir_selection **ret) {
	struct weir_selection *selection =
		weir_writer_alloc(writer, WEIR_BLOB_SELECTION, work->plan.bytes);

	if (selection == NULL) {
		return -errno;
	}
	memcpy(&selection->blob + 1, &work->image->blob + 1,
		work->plan.bytes - sizeof(selection->blob));
	*ret = selection;
	return 0;
}
