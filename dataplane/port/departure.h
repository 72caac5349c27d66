// SPDX-License-Identifier: BSD-3-Clause
//
// Departure: whether a device has sent packets that one of its transmit queues took. Two queues of
// a device keep no order between them; so when a flow goes from one to the other (moves.h), what is
// left of it in the first one must depart before.
//
// Only the worker that has a queue may ask its driver. One that puts packets into a ring to it asks
// that worker instead, which looks for a question once a turn, where it empties the ring.
//
// Threads: as in transmit.h. S1: no lock, no wait.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transmit.h"

// Some drivers look at one descriptor in so many, and do not tell of the last ones.
#define WEIR_DEPARTURE_STEP 32u

// Have the first `put` packets of the path's own queue departed, but for those of the last
// WEIR_DEPARTURE_STEP that the driver does not tell of? False while it tells of none. [worker]
bool weir_path_has_departed(const struct weir_path *path, uint64_t put);

// Ask the worker that has the queue of the path's ring whether what it has given to the device has
// departed. Until weir_path_stop_asking. [worker]
static inline void weir_path_ask(struct weir_path *path) {
	__atomic_store_n(&path->outlet->asked, path->outlet->asked + 1, __ATOMIC_RELEASE);
}

// Has it said yes? [worker]
static inline bool weir_path_is_answered(const struct weir_path *path) {
	return __atomic_load_n(&path->outlet->answered, __ATOMIC_ACQUIRE) == path->outlet->asked;
}

// Whatever the answer was; fine when nothing was asked. [worker]
static inline void weir_path_stop_asking(struct weir_path *path) {
	if (path->ring != NULL && path->outlet->asked % 2 != 0) {
		__atomic_store_n(&path->outlet->asked, path->outlet->asked + 1, __ATOMIC_RELEASE);
	}
}

// Is there a question without an answer? [its owner]
static inline bool weir_outlet_is_asked(const struct weir_outlet *outlet) {
	uint32_t asked = __atomic_load_n(&outlet->asked, __ATOMIC_ACQUIRE);

	return asked % 2 != 0 && asked != outlet->answered;
}

void weir_outlet_answer(struct weir_outlet *outlet); // [its owner]
