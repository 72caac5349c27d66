// SPDX-License-Identifier: BSD-3-Clause
//
// Capture: workers copy packets for control, with records of how the pipeline processed them.
//
//   order   control writes the terms of a capture into the memory area `tables`. With every
//           burst, workers read the number of the active order from weir_news.capture (0 = none).
//           A worker copies the terms of a new order once, under a sequence lock, and checks
//           them. The worker ignores an order after its deadline. Control extends the deadline
//           while a client reads, so a capture also ends if the control process dies.
//   ring    a worker writes one record into the memory area `statistics` for each packet that
//           matches the order. When the ring is full, records are lost and counted; the worker
//           never waits.
//
// Threads: one writer of the order, one writer and one reader of each ring, as marked.
#pragma once

#include <stdbool.h>

#include "capture_layout.h"
#include "segment.h"

#define WEIR_CAPTURE_SNAP_LEAST 64u // minimum number of bytes saved of a frame
#define WEIR_CAPTURE_SNAP_MOST 1536u
#define WEIR_CAPTURE_RATE_MOST 1000000u // records per second and worker
#define WEIR_CAPTURE_SECOND_NS 1000000000ull
#define WEIR_CAPTURE_ICMP 1u // value of weir_capture_terms.protocol for ICMP and ICMPv6

struct weir_capture_packet { // private memory: one record and its bytes
	struct weir_capture_record record;
	uint8_t data[WEIR_CAPTURE_SNAP_MOST];
};

// --- control ------------------------------------------------------------------------------

// Activate an order in place of the previous order, and skip the records that are now in the rings.
// terms->number is ignored. deadline_ns: time (CLOCK_MONOTONIC) until which the order is active.
// Returns the number of the order, never 0. [control]
uint64_t weir_capture_order(
	struct weir_segment *segment, const struct weir_capture_terms *terms, uint64_t deadline_ns);
// Set the time (CLOCK_MONOTONIC) until which the order is active. [control]
void weir_capture_extend(struct weir_segment *segment, uint64_t deadline_ns);
// Deactivate the active order, so that workers write no further records. [control]
void weir_capture_withdraw(struct weir_segment *segment);
// Take the oldest record of the order with this number from a worker's ring, and skip the records
// of other orders before it. If a record is inconsistent or has invalid values, skips all records
// that are now in the ring. Returns false if the ring has no record of the order. [control]
bool weir_capture_take(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	struct weir_capture_packet *ret);
// Gets the number of packets that match this order but were not recorded by a worker: *ret_lost
// because the ring was full, *ret_limited because of the rate limit. Both are 0 until the worker
// has adopted the order. [control]
void weir_capture_missed(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	uint64_t *ret_lost, uint64_t *ret_limited);

// --- worker -------------------------------------------------------------------------------

// Returns the number of the active order, 0 = none. One load from a cache line that a worker reads
// in each burst anyway. [worker]
static inline uint64_t weir_capture_wanted(const struct weir_segment *segment) {
	return __atomic_load_n(&segment->news->capture, __ATOMIC_ACQUIRE);
}

// Copy the terms of the order with this number, and check them. Returns 0, -EAGAIN (concurrent
// change: try later) or -EINVAL (out of range). [worker]
int weir_capture_read(
	const struct weir_segment *segment, uint64_t number, struct weir_capture_terms *ret);
static inline bool weir_capture_is_due(const struct weir_segment *segment, uint64_t now_ns) {
	return now_ns <= __atomic_load_n(&segment->capture_control->deadline_ns, __ATOMIC_RELAXED);
}

// Reset the counts of lost and omitted records for a new order. Call before the first record of the
// order is written. [worker]
void weir_capture_begin(struct weir_capture_ring *ring, uint64_t number);
// Write a record and record->saved bytes of data, at most WEIR_CAPTURE_SNAP_MOST. This function
// fills in the length of the record. read: control's read position. Returns false when the ring
// is full. [worker]
bool weir_capture_put(struct weir_capture_ring *ring, const struct weir_ring_position *read,
	struct weir_capture_record *record, const uint8_t *data);
