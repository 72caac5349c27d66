// SPDX-License-Identifier: BSD-3-Clause
//
// Reference schedules of weighted round robin, from the literature and from other programs. Tests
// compare them with recorded sequences. The policies do not use them: weighted-round-robin is a
// static stride schedule (stride.h).
//
//   classic      all turns of a backend in succession
//   interleaved  rounds 1 .. largest weight; round r chooses each backend of at least weight r
//   smooth       nginx: each choice adds its weight to the sum of every backend, chooses the
//                backend with the highest sum, and subtracts the total weight from this sum
//   edf          earliest deadline first: a backend's k-th turn is due at k / weight; of the
//                turns due at the same time, the turn that has waited longest is chosen
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

// Copies the weights and divides them by their greatest common divisor. A backend with weight 0 is
// never chosen. Returns NULL when out of memory, when every weight is 0, or when kind is out of
// range.
struct weir_schedule *weir_schedule_create(
	enum weir_schedule_kind kind, const uint32_t *weights, uint32_t n);
void weir_schedule_free(struct weir_schedule *schedule); // NULL is legal

// Returns the index of the next backend.
uint32_t weir_schedule_next(struct weir_schedule *schedule);

const char *weir_schedule_name(enum weir_schedule_kind kind); // NULL out of range
