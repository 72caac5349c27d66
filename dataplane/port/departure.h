// SPDX-License-Identifier: BSD-3-Clause
//
// Departure: determines whether a device has transmitted the packets in one of its transmit queues.
// A device may transmit packets of two queues in any order. Therefore, before a flow changes to
// another queue (moves.h), its packets in the previous queue must have been transmitted.
//
// Only the worker that owns a queue may query its driver. A worker that uses the queue through a
// ring requests the state from the owner of the queue. The owner checks for requests once per
// iteration, when it empties the ring.
//
// Threads: as in transmit.h. No lock, no wait (S1, docs/design/architecture.md).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transmit.h"

// Some drivers check only every n-th descriptor, and do not report the state of the last
// descriptors. This is the maximum of n.
#define WEIR_DEPARTURE_STEP 32u

// Returns whether the first `put` packets of the path's own queue were transmitted. Some drivers do
// not report the last packets: up to WEIR_DEPARTURE_STEP of them may then still be in the queue.
// Also returns true if at least `descriptors` packets were put into the queue after them. Before
// that, returns false if the driver does not report the states of descriptors. [worker]
bool weir_path_has_departed(const struct weir_path *path, uint64_t put);

// Requests a confirmation from the owner of the queue, for a path with a ring. The owner confirms
// when the packets that were passed to the device before the owner read the request have been
// transmitted. The request is pending until weir_path_stop_requesting is called; call this function
// only if no request is pending. [worker]
static inline void weir_path_request(struct weir_path *path) {
	__atomic_store_n(&path->outlet->requested, path->outlet->requested + 1, __ATOMIC_RELEASE);
}

// Returns true if the owner of the queue has confirmed the transmission for the pending request.
// [worker]
static inline bool weir_path_is_answered(const struct weir_path *path) {
	return __atomic_load_n(&path->outlet->answered, __ATOMIC_ACQUIRE) ==
	       path->outlet->requested;
}

// End a request, even if the request was not answered. Does nothing if there is no request.
// [worker]
static inline void weir_path_stop_requesting(struct weir_path *path) {
	if (path->ring != NULL && path->outlet->requested % 2 != 0) {
		__atomic_store_n(
			&path->outlet->requested, path->outlet->requested + 1, __ATOMIC_RELEASE);
	}
}

// Returns true if a request has no answer yet. [owner of the queue]
static inline bool weir_outlet_is_requested(const struct weir_outlet *outlet) {
	uint32_t requested = __atomic_load_n(&outlet->requested, __ATOMIC_ACQUIRE);

	return requested % 2 != 0 && requested != outlet->answered;
}

// Confirm the pending request if the packets were transmitted. [owner of the queue]
void weir_outlet_answer(struct weir_outlet *outlet);
