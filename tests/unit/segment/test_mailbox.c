// SPDX-License-Identifier: BSD-3-Clause
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mailbox.h"

#define MESSAGES 200000u

static int setup(void **state) {
	*state = aligned_alloc(64, sizeof(struct weir_mailbox_ring));
	assert_non_null(*state);
	memset(*state, 0, sizeof(struct weir_mailbox_ring));
	return 0;
}

static int teardown(void **state) {
	free(*state);
	return 0;
}

static struct weir_message numbered(uint64_t n) {
	struct weir_message message = {.sequence = n, .kind = WEIR_MESSAGE_FLOW_LOOKUP};

	memset(message.bytes, (int)(n % 251), sizeof(message.bytes));
	return message;
}

static void messages_come_out_in_order_and_whole(void **state) {
	struct weir_mailbox_ring *ring = *state;
	struct weir_message message;

	// Past the end of the ring several times.
	for (uint64_t n = 0; n < 300; n += 3) {
		for (uint64_t i = 0; i < 3; i++) {
			message = numbered(n + i);
			assert_true(weir_mailbox_send(ring, &message));
		}
		for (uint64_t i = 0; i < 3; i++) {
			struct weir_message expected = numbered(n + i);

			assert_true(weir_mailbox_receive(ring, &message));
			assert_memory_equal(&message, &expected, sizeof(message));
		}
	}
	assert_false(weir_mailbox_receive(ring, &message));
}

static void empty_ring_leaves_the_output_alone(void **state) {
	struct weir_message message = numbered(9), before = message;

	assert_false(weir_mailbox_receive(*state, &message));
	assert_memory_equal(&message, &before, sizeof(message));
}

static void full_ring_refuses_and_loses_nothing(void **state) {
	struct weir_mailbox_ring *ring = *state;
	struct weir_message message;

	for (uint64_t n = 0; n < WEIR_MAILBOX_MESSAGES; n++) {
		message = numbered(n);
		assert_true(weir_mailbox_send(ring, &message));
	}
	message = numbered(1000);
	assert_false(weir_mailbox_send(ring, &message));
	for (uint64_t n = 0; n < WEIR_MAILBOX_MESSAGES; n++) {
		assert_true(weir_mailbox_receive(ring, &message));
		assert_int_equal(message.sequence, n);
	}
	assert_false(weir_mailbox_receive(ring, &message));
}

static void indexes_may_wrap(void **state) {
	struct weir_mailbox_ring *ring = *state;
	struct weir_message message;

	ring->head = ring->tail = UINT64_MAX - 1;
	for (uint64_t n = 0; n < 5; n++) {
		message = numbered(n);
		assert_true(weir_mailbox_send(ring, &message));
	}
	for (uint64_t n = 0; n < 5; n++) {
		assert_true(weir_mailbox_receive(ring, &message));
		assert_int_equal(message.sequence, n);
	}
	assert_false(weir_mailbox_receive(ring, &message));
}

// The other process may write anything into head and tail.
static void impossible_distance_counts_as_empty_and_resets(void **state) {
	struct weir_mailbox_ring *ring = *state;
	struct weir_message message;

	ring->head = 10;
	ring->tail = 10 + WEIR_MAILBOX_MESSAGES + 1;
	assert_false(weir_mailbox_receive(ring, &message));
	message = numbered(1);
	assert_true(weir_mailbox_send(ring, &message));
	assert_true(weir_mailbox_receive(ring, &message));
	assert_int_equal(message.sequence, 1);

	ring->head = 10; // ahead of the tail
	ring->tail = 3;
	assert_false(weir_mailbox_send(ring, &message));
	assert_false(weir_mailbox_receive(ring, &message));
	assert_true(weir_mailbox_send(ring, &message));
	assert_true(weir_mailbox_receive(ring, &message));
}

static void *produce(void *arg) {
	struct weir_mailbox_ring *ring = arg;

	for (uint64_t n = 0; n < MESSAGES; n++) {
		struct weir_message message = numbered(n);

		while (!weir_mailbox_send(ring, &message)) {
			sched_yield();
		}
	}
	return NULL;
}

static void two_threads_pass_every_message_whole(void **state) {
	struct weir_mailbox_ring *ring = *state;
	pthread_t producer;

	assert_int_equal(pthread_create(&producer, NULL, produce, ring), 0);
	for (uint64_t n = 0; n < MESSAGES; n++) {
		struct weir_message expected = numbered(n), message;

		while (!weir_mailbox_receive(ring, &message)) {
			sched_yield();
		}
		assert_memory_equal(&message, &expected, sizeof(message));
	}
	pthread_join(producer, NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			messages_come_out_in_order_and_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(
			empty_ring_leaves_the_output_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			full_ring_refuses_and_loses_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(indexes_may_wrap, setup, teardown),
		cmocka_unit_test_setup_teardown(
			impossible_distance_counts_as_empty_and_resets, setup, teardown),
		cmocka_unit_test_setup_teardown(
			two_threads_pass_every_message_whole, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
