// SPDX-License-Identifier: BSD-3-Clause
//
// Capture: control has workers copy packets, with what the pipeline made of them.
//
//   order   control writes what is wanted (tables). Workers look at weir_news.capture with every
//           burst: the number of the order in force, 0 = none. A worker copies the terms of a new
//           order once, under a sequence lock, and checks them; it ignores them after the deadline,
//           which control moves on while somebody reads. So a control process that dies leaves no
//           capture behind, wherever it dies.
//   ring    a worker writes one record for each packet that the order names (statistics). When the
//           ring is full, records are lost and counted; nothing waits.
//
// Threads: one writer of the order, one writer and one reader of each ring, as marked.
#pragma once

#include <stdbool.h>

#include "capture_layout.h"
#include "segment.h"

#define WEIR_CAPTURE_SNAP_LEAST 64u // bytes of a frame that are kept
#define WEIR_CAPTURE_SNAP_MOST 1536u
#define WEIR_CAPTURE_RATE_MOST 1000000u // records a second and worker
#define WEIR_CAPTURE_SECOND_NS 1000000000ull
#define WEIR_CAPTURE_ICMP 1u // in weir_capture_terms.protocol: ICMP and ICMPv6

struct weir_capture_packet { // private: one record and its bytes
	struct weir_capture_record record;
	uint8_t data[WEIR_CAPTURE_SNAP_MOST];
};

// --- control ------------------------------------------------------------------------------

// Put an order in force, in place of any other, and pass over what the rings hold. terms: any
// number. segment: with capture_rings. Returns the number that it got. [control]
uint64_t weir_capture_order(
	struct weir_segment *segment, const struct weir_capture_terms *terms, uint64_t deadline_ns);
// Until then (CLOCK_MONOTONIC) the order is in force. [control]
void weir_capture_extend(struct weir_segment *segment, uint64_t deadline_ns);
// No order is in force. [control]
void weir_capture_withdraw(struct weir_segment *segment);
// Take the oldest record of a worker that is about this order. A record that contradicts itself, or
// names what there is not, ends the reading of what the ring holds. Returns false when there is
// none. [control]
bool weir_capture_take(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	struct weir_capture_packet *ret);
// Packets of this order that a worker has not recorded: the ring was full; they came too quickly.
// [control]
void weir_capture_missed(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	uint64_t *ret_lost, uint64_t *ret_limited);

// --- worker -------------------------------------------------------------------------------

// The number of the order in force, 0 = none. One load of a line that a worker reads in each burst
// anyway. [worker]
static inline uint64_t weir_capture_wanted(const struct weir_segment *segment) {
	return __atomic_load_n(&segment->news->capture, __ATOMIC_ACQUIRE);
}

// Copy the terms of this order. Returns 0, -EAGAIN (it is being changed: later) or -EINVAL (they
// are out of range). [worker]
int weir_capture_read(
	const struct weir_segment *segment, uint64_t number, struct weir_capture_terms *ret);
static inline bool weir_capture_is_due(const struct weir_segment *segment, uint64_t now_ns) {
	return now_ns <= __atomic_load_n(&segment->capture_control->deadline_ns, __ATOMIC_RELAXED);
}

// Begin to write records of an order. [worker]
void weir_capture_begin(struct weir_capture_ring *ring, uint64_t number);
// Write a record: record->saved bytes of data, at most WEIR_CAPTURE_SNAP_MOST, follow it. Its
// length is filled in. read: how far control says that it has read. Returns false when the ring is
// full. [worker]
bool weir_capture_put(struct weir_capture_ring *ring, const struct weir_ring_position *read,
	struct weir_capture_record *record, const uint8_t *data);
