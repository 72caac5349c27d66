// SPDX-License-Identifier: BSD-3-Clause
//
// Reference schedules of weighted round robin: what the literature and other programs do. Policies
// do not use them (weighted-round-robin is a static stride schedule, stride.h); recorded sequences
// are replayed through them.
//
//   classic      all of a backend's turns in a row
//   interleaved  rounds 1 .. largest weight; each serves everybody of at least that weight
//   smooth       nginx: everybody gains its weight, the richest is chosen and pays the total
//   edf          earliest deadline first: a backend's k-th turn is due at k / weight; of those due
//                at once, the one that has waited longest
//
// Threads: a schedule belongs to one thread. create allocates, next does not.
// Cost: next is O(n).
#pragma once

#include <stdint.h>

// X(NAME, "name")
#define WEIR_SCHEDULES(X) \
	X(CLASSIC, "classic") X(INTERLEAVED, "interleaved") X(SMOOTH, "smooth") X(EDF, "edf")

enum weir_schedule_kind {
#define X(name, key) WEIR_SCHEDULE_##name,
	WEIR_SCHEDULES(X)
#undef X
		WEIR_SCHEDULE_COUNT,
};

struct weir_schedule;

// Weights are copied and divided by what they have in common; one of 0 is never chosen.
// Returns NULL when out of memory, when every weight is 0, or when kind is out of range.
struct weir_schedule *weir_schedule_create(
	enum weir_schedule_kind kind, const uint32_t *weights, uint32_t n);
void weir_schedule_free(struct weir_schedule *schedule); // NULL is legal

// Index of the next backend.
uint32_t weir_schedule_next(struct weir_schedule *schedule);

const char *weir_schedule_name(enum weir_schedule_kind kind); // NULL out of range
