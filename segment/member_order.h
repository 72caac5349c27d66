// SPDX-License-Identifier: BSD-3-Clause
//
// Member order: sorts the members of a selection by identity, or by weight and then identity, so
// that every instance has the same order. Private to this folder.
//
// Identities are hashes: a radix sort of their upper bits needs three passes over the members. A
// fourth pass then moves only the few members with equal upper bits that are in a wrong order. If
// identities are not hashes, this pass may have to sort all members.
//
// Threads: any; each sort belongs to one thread.
#pragma once

#include "selection.h"

// A sort in passes. Each pass visits every member once or twice, except the pass that sorts by
// comparison. The members must not change until the sort has ended.
struct weir_member_order;

// Starts a sort of n members, by identity, or by weight and then identity if by_weight is true.
// members is borrowed. Returns NULL if out of memory.
struct weir_member_order *weir_member_order_begin(
	const struct weir_selection_member *members, uint32_t n, bool by_weight);
// Do the next pass of a sort. Returns whether another pass is needed.
bool weir_member_order_pass(struct weir_member_order *order);
// Finish after the last pass: writes the n members in order to ret, and frees the sort.
void weir_member_order_end(struct weir_member_order *order, struct weir_selection_member *ret);
void weir_member_order_free(struct weir_member_order *order); // NULL is allowed

// Sort n members in place, in one call, by identity, or by weight and then identity if by_weight is
// true.
void weir_member_order_sort(struct weir_selection_member *members, uint32_t n, bool by_weight);
