// SPDX-License-Identifier: BSD-3-Clause
//
// Selection: the candidates and tables from which a service's policy chooses (policy.h). Built by
// control from the eligible backends and their effective weights; read by workers.
#pragma once

#include "reader.h"
#include "writer.h"

struct weir_selection_member {
	uint64_t identity; // stable hash of the backend's identity, equal on every instance
	uint16_t id; // backend id of this instance
	uint32_t weight; // effective weight, 0 = gets no flows
	uint64_t subsets; // bit i: member of subset i; ignored with only one subset
};

struct weir_selection_params {
	uint16_t service;
	// Number of slots of the Maglev table if the policy chooses by slots; a prime
	uint32_t slots;
	struct weir_policy_settings settings;
	uint32_t affinity_ms; // see struct weir_policy_table
	// true = weights for the stride schedule come from reports of backends, not from an
	// operator; outliers are capped (stride.h).
	bool weights_reported;
	uint32_t subsets; // 0 or 1: all workers choose from all members; maximum: WEIR_WORKERS_MAX
	// The published selection, with an element for each subset; NULL = none. Its ids must refer
	// to the same backends as the members' ids. weir_selection_build copies the arrays of an
	// unchanged subset from this selection, because building a large table takes long.
	const struct weir_policy_table *published;
};

// Returns parameters for a policy with default settings, without limits and without subsets. slots:
// number of slots of the Maglev table.
static inline struct weir_selection_params weir_selection_defaults(
	uint16_t service, enum weir_policy policy, uint32_t slots) {
	return (struct weir_selection_params){.service = service,
		.slots = slots,
		.settings = {.policy = (uint8_t)policy,
			.needs = weir_policy_needs(policy),
			.error_window_ms = 1000}};
}

// Build a selection. Each subset has its own candidates, its own data for the policy (strides,
// rounds) and its own Maglev table. For a policy with WEIR_NEEDS_SLOTS, the table is weighted and
// has params->slots slots. For other policies, the table is used only for the Maglev fallback; it
// is small and ignores weights. A subset without members, or with all weights 0, has no
// candidates. Members can be in any order: the builder sorts members, so that instances with
// equal members and weights get equal tables. Returns 0, -EINVAL (a setting or the number of
// subsets is out of range; for a policy with slots also: slots is not a prime, is out of range, or
// is below n), -ENOMEM, -ENOSPC, -EBUSY (see weir_writer_alloc).
int weir_selection_build(struct weir_writer *writer, const struct weir_selection_params *params,
	const struct weir_selection_member *members, uint32_t n, struct weir_selection **ret);

// Work of weir_selection_begin, _step and _finish. These functions build a selection with one
// subset in steps, so that building a large table does not block the caller for long. The result
// equals the result of weir_selection_build.
struct weir_selection_work;

// Start building a selection of n members in steps. Takes ownership of members, which were
// allocated by malloc; on failure the caller keeps ownership, but the contents may have changed.
// Returns 0, -EINVAL (as weir_selection_build, or several subsets) or -ENOMEM.
int weir_selection_begin(const struct weir_selection_params *params,
	struct weir_selection_member *members, uint32_t n, struct weir_selection_work **ret);
// Do one step: a pass over all members, or up to `most` permutations of members, or up to `most`
// slots. Returns 1 (more steps follow), 0 (last step), -ENOMEM, -ENOSPC.
int weir_selection_step(struct weir_selection_work *work, uint32_t most);
// Allocates the blob from the writer and fills it, after the last step. Does not free the work.
// Returns 0 or an error of weir_writer_alloc.
int weir_selection_finish(
	struct weir_selection_work *work, struct weir_writer *writer, struct weir_selection **ret);
void weir_selection_work_free(struct weir_selection_work *work); // NULL is allowed

// Returns the number of slots of a selection with n candidates: params_slots if the policy chooses
// by slots, otherwise the number of slots of a small table; 0 if n is 0.
uint32_t weir_selection_slots(
	const struct weir_policy_settings *settings, uint32_t params_slots, uint32_t n);

// Returns the slot of a hash, computed by multiply and shift, without a division. slots > 0.
// [worker]
static inline uint32_t weir_selection_slot(uint64_t hash, uint32_t slots) {
	return weir_policy_slot(hash, slots);
}

// Returns the backend id of a hash in the Maglev table, or WEIR_BACKEND_NONE. For every policy,
// this backend is the fallback for packets whose flow is not in the flow table. [worker]
static inline uint16_t weir_selection_choose(
	const struct weir_selection_view *view, uint64_t hash) {
	const struct weir_policy_table *table = &view->table;
	uint16_t index;

	if (__builtin_expect(table->slot_count == 0, 0)) {
		return WEIR_BACKEND_NONE;
	}
	// The index is read once, because another process may change it between the check and the
	// use.
	index = __atomic_load_n(
		&table->slots[weir_selection_slot(hash, table->slot_count)], __ATOMIC_RELAXED);
	if (__builtin_expect(index >= table->count, 0)) {
		return WEIR_BACKEND_NONE;
	}
	return __atomic_load_n(&table->candidates[index].id, __ATOMIC_RELAXED);
}

// Prefetch the data that weir_selection_choose reads first. Harmless for a table without slots.
// [worker]
static inline __attribute__((always_inline)) void weir_selection_prefetch(
	const struct weir_selection_view *view, uint64_t hash) {
	uintptr_t slots = (uintptr_t)view->table.slots;
	uint32_t slot = weir_selection_slot(hash, view->table.slot_count);

	__builtin_prefetch((const void *)(slots + slot * sizeof(uint16_t)));
}
