// SPDX-License-Identifier: BSD-3-Clause
//
// Selection table: who gets a new flow of one service. Built by control from the eligible
// backends and their effective weights; read by workers, one load per choice.
#pragma once

#include "reader.h"
#include "writer.h"

struct weir_selection_member {
	uint64_t identity; // stable hash of the backend's identity: the same on every instance
	uint16_t id; // backend id of this instance
	uint32_t weight; // effective, 0 = takes nothing
};

// Build a selection of `slots` (a prime) slots by weighted Maglev. Members in any order: they are
// sorted by identity, so that instances with the same members and weights get the same table.
// n == 0, or all weights 0: a selection without backends.
// Returns 0, -EINVAL (slots not prime or out of range, n > slots), -ENOMEM, -ENOSPC.
int weir_selection_build(struct weir_writer *writer, uint16_t service,
	const struct weir_selection_member *members, uint32_t n, uint32_t slots,
	struct weir_selection **ret);

// The slot of a hash: multiply and shift, no division. slots > 0. [worker]
static inline uint32_t weir_selection_slot(uint64_t hash, uint32_t slots) {
	return (uint32_t)(((hash >> 32) * slots) >> 32);
}

// The backend id for a hash, or WEIR_BACKEND_NONE. The consistent choice. [worker]
static inline uint16_t weir_selection_choose(
	const struct weir_selection_view *view, uint64_t hash) {
	uint16_t index;

	if (__builtin_expect(view->slots == NULL, 0)) {
		return WEIR_BACKEND_NONE;
	}
	index = view->slots[weir_selection_slot(hash, view->slot_count)];
	if (__builtin_expect(index >= view->backend_count, 0)) {
		return WEIR_BACKEND_NONE;
	}
	return view->backends[index].id;
}
