// SPDX-License-Identifier: BSD-3-Clause
//
// Flows: the active flows of a service or a backend, summed over the workers.
#include "state.h"

static uint64_t sum_backend_flows(const struct weir_segment *segment, uint16_t id) {
	uint64_t flows = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		flows += weir_counter_read(
			&weir_segment_backend_counters(segment, worker, id)->active_flows);
	}
	return flows;
}

static uint64_t sum_service_flows(const struct weir_segment *segment, uint16_t id) {
	uint64_t flows = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		flows += weir_counter_read(
			&weir_segment_service_counters(segment, worker, id)->active_flows);
	}
	return flows;
}

// sum_given returns the number of completed moves of buckets between workers. sum_begun returns
// the number of moves that have begun.
static uint64_t sum_given(const struct weir_segment *segment) {
	uint64_t buckets = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		buckets += weir_counter_read(&segment->steal_counters[worker].buckets_given);
	}
	return buckets;
}

static uint64_t sum_begun(const struct weir_segment *segment) {
	uint64_t buckets = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		buckets += weir_counter_read(
			&segment->steal_counters[worker].answers[WEIR_BUCKET_CONFIRMED]);
	}
	return buckets;
}

// Sums the active flows over the workers. Returns false if a bucket may have moved between workers
// during the summation. The sum may then lack the flows of this bucket: the counter of the new
// owner may have been read before the move, and the counter of the old owner after the move. No
// bucket has moved if the number of moves completed before the summation equals the number of moves
// begun after it.
static bool sum_flows(const struct weir_segment *segment, uint16_t id,
	uint64_t (*sum)(const struct weir_segment *segment, uint16_t id), uint64_t *ret) {
	bool bucketed = segment->bucketing == WEIR_BUCKETING_YES;
	uint64_t given = bucketed ? sum_given(segment) : 0;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*ret = sum(segment, id);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !bucketed || sum_begun(segment) == given;
}

bool weir_flows_service(const struct weir_segment *segment, uint16_t id, uint64_t *ret) {
	return sum_flows(segment, id, sum_service_flows, ret);
}

bool weir_flows_backend(const struct weir_segment *segment, uint16_t id, uint64_t *ret) {
	return sum_flows(segment, id, sum_backend_flows, ret);
}
