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

// sum_given returns how many moves of buckets between workers have completed. sum_begun returns how
// many moves have begun.
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
// during the summation. Its flows may then be missing in the sum: the new owner was read before it
// counted them, and the old owner after it had stopped counting them. No bucket has moved if the
// number of moves completed before the sum equals the number of moves begun after it.
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
