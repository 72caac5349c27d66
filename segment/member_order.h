// SPDX-License-Identifier: BSD-3-Clause
//
// Member order: the members of a selection in the order of their identities, or of their weights
// and then their identities: the same on every instance. For this folder only.
//
// Identities are hashes: a radix sort of their upper bits needs three passes over the members, and
// comparisons are left to the few that are alike in these. Where they are no hashes, all are
// compared.
//
// Threads: pure functions of the caller's memory.
#pragma once

#include "selection.h"

// A sort in passes, each of which costs as much as looking at all members. The members must stay as
// they are until the end.
struct weir_member_order;

// Returns NULL when there is no memory.
struct weir_member_order *weir_member_order_begin(
	const struct weir_selection_member *members, uint32_t n, bool by_weight);
// One pass. Returns whether there is another one.
bool weir_member_order_pass(struct weir_member_order *order);
// After the last pass: the n members in order, and the sort is freed.
void weir_member_order_end(struct weir_member_order *order, struct weir_selection_member *ret);
void weir_member_order_free(struct weir_member_order *order); // NULL is allowed

// All of it, in place.
void weir_member_order_sort(struct weir_selection_member *members, uint32_t n, bool by_weight);
