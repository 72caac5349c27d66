// SPDX-License-Identifier: BSD-3-Clause
#include "event_queue.h"

#include <stdlib.h>

#include "prng.h"
#include "sim_lab.h"

TEST(queue_empty_has_no_event) {
	struct weir_sim_queue queue = {0};
	struct weir_sim_event event;

	assert_false(weir_sim_queue_pop(&queue, &event));
	weir_sim_queue_fini(&queue);
}

// Q1: events are returned in the order of their times, even if pushes and pops alternate in any
// order.
TEST(queue_events_are_returned_by_time) {
	struct weir_sim_queue queue = {0};
	struct weir_prng prng = {.state = 5};
	struct weir_sim_event event;
	uint64_t last = 0;
	size_t count = 0;

	for (int i = 0; i < 200000; i++) {
		if (weir_prng_below(&prng, 3) > 0) {
			// As in a simulation, a new event is never earlier than the last returned
			// event.
			assert_int_equal(weir_sim_queue_push(
						 &queue, last + weir_prng_below(&prng, 1000), 1, 2),
				0);
			count++;
		} else if (count > 0) {
			assert_true(weir_sim_queue_pop(&queue, &event));
			assert_true(event.time_ns >= last);
			last = event.time_ns;
			count--;
		}
	}
	while (weir_sim_queue_pop(&queue, &event)) {
		assert_true(event.time_ns >= last);
		last = event.time_ns;
		count--;
	}
	assert_int_equal(count, 0);
	weir_sim_queue_fini(&queue);
}

// Q1: events with equal times are returned in the order of insertion.
TEST(queue_events_of_one_time_are_returned_in_order_of_insertion) {
	struct weir_sim_queue queue = {0};
	struct weir_prng prng = {.state = 6};
	uint32_t next[8] = {0}, expected[8] = {0};
	struct weir_sim_event event;

	for (int i = 0; i < 50000; i++) {
		uint32_t time = weir_prng_below(&prng, 8);

		assert_int_equal(weir_sim_queue_push(&queue, time, 3, next[time]++), 0);
	}
	while (weir_sim_queue_pop(&queue, &event)) {
		assert_int_equal(event.kind, 3);
		assert_int_equal(event.index, expected[event.time_ns]++);
	}
	assert_memory_equal(next, expected, sizeof(next));
	weir_sim_queue_fini(&queue);
}

TEST(queue_order_survives_the_end_of_sequence_numbers) {
	struct weir_sim_queue queue = {.sequence = UINT32_MAX - 10};
	struct weir_sim_event event;

	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(weir_sim_queue_push(&queue, 77, 0, i), 0);
	}
	for (uint32_t i = 0; i < 100; i++) {
		assert_true(weir_sim_queue_pop(&queue, &event));
		assert_int_equal(event.index, i);
	}
	weir_sim_queue_fini(&queue);
}

TEST(queue_keeps_kind_index_and_time) {
	struct weir_sim_queue queue = {0};
	struct weir_sim_event event;

	assert_int_equal(weir_sim_queue_push(&queue, UINT64_MAX - 1, WEIR_SIM_EVENT_KINDS - 1,
				 WEIR_SIM_EVENT_INDEXES - 1),
		0);
	assert_true(weir_sim_queue_pop(&queue, &event));
	assert_true(event.time_ns == UINT64_MAX - 1);
	assert_int_equal(event.kind, WEIR_SIM_EVENT_KINDS - 1);
	assert_int_equal(event.index, WEIR_SIM_EVENT_INDEXES - 1);
	weir_sim_queue_fini(&queue);
}
