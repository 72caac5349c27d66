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

uint64_t weir_flows_moves(const struct weir_segment *segment) {
	bool bucketed = segment->bucketing == WEIR_BUCKETING_YES;
	uint64_t given = 0;

	for (uint32_t worker = 0; bucketed && worker < segment->workers; worker++) {
		given += weir_counter_read(&segment->steal_counters[worker].buckets_given);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return given;
}

// No bucket has moved during the summation if the number of completed moves, read before it, equals
// the number of begun moves, read after it.
bool weir_flows_are_whole(const struct weir_segment *segment, uint64_t moves) {
	bool bucketed = segment->bucketing == WEIR_BUCKETING_YES;
	uint64_t begun = 0;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t worker = 0; bucketed && worker < segment->workers; worker++) {
		begun += weir_counter_read(
			&segment->steal_counters[worker].answers[WEIR_BUCKET_CONFIRMED]);
	}
	return begun == moves;
}

static bool sum_flows(const struct weir_segment *segment, uint16_t id,
	uint64_t (*sum)(const struct weir_segment *segment, uint16_t id), uint64_t *ret) {
	uint64_t moves = weir_flows_moves(segment);

	*ret = sum(segment, id);
	return weir_flows_are_whole(segment, moves);
}

bool weir_flows_service(const struct weir_segment *segment, uint16_t id, uint64_t *ret) {
	return sum_flows(segment, id, sum_service_flows, ret);
}

bool weir_flows_backend(const struct weir_segment *segment, uint16_t id, uint64_t *ret) {
	return sum_flows(segment, id, sum_backend_flows, ret);
}
