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

// Buckets of flows that workers have given to others: ended moves, and begun moves.
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

// Sum over the workers. Returns whether no bucket moved while it was computed. The flows of a
// moving bucket may be missing in both gauges: not yet in that of the taker, read first, and no
// longer in that of the giver. If the moves ended before equal those begun after, none was in
// progress.
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
