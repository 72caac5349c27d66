// SPDX-License-Identifier: BSD-3-Clause
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mailbox.h"
#include "test.h"

#define MESSAGES 200000u

// In the segment, ring and position are in different memory areas.
struct lab {
	struct weir_mailbox_ring ring; // written by the producer
	struct weir_ring_position position; // written by the consumer
};

static int setup(void **state) {
	*state = aligned_alloc(64, sizeof(struct lab));
	assert_non_null(*state);
	memset(*state, 0, sizeof(struct lab));
	return 0;
}

static bool send(struct lab *f, const struct weir_message *message) {
	return weir_mailbox_send(&f->ring, &f->position, message);
}

static bool receive(struct lab *f, struct weir_message *ret) {
	return weir_mailbox_receive(&f->ring, &f->position, ret);
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

TEST_EACH(setup, teardown);

TEST(messages_arrive_in_order_and_complete) {
	struct lab *f = *state;
	struct weir_message message;

	// The ring wraps several times.
	for (uint64_t n = 0; n < 300; n += 3) {
		for (uint64_t i = 0; i < 3; i++) {
			message = numbered(n + i);
			assert_true(send(f, &message));
		}
		for (uint64_t i = 0; i < 3; i++) {
			struct weir_message expected = numbered(n + i);

			assert_true(receive(f, &message));
			assert_memory_equal(&message, &expected, sizeof(message));
		}
	}
	assert_false(receive(f, &message));
}

TEST(empty_ring_leaves_the_output_unchanged) {
	struct weir_message message = numbered(9), before = message;

	assert_false(receive(*state, &message));
	assert_memory_equal(&message, &before, sizeof(message));
}

TEST(full_ring_refuses_and_loses_nothing) {
	struct lab *f = *state;
	struct weir_message message;

	for (uint64_t n = 0; n < WEIR_MAILBOX_MESSAGES; n++) {
		message = numbered(n);
		assert_true(send(f, &message));
	}
	message = numbered(1000);
	assert_false(send(f, &message));
	for (uint64_t n = 0; n < WEIR_MAILBOX_MESSAGES; n++) {
		assert_true(receive(f, &message));
		assert_int_equal(message.sequence, n);
	}
	assert_false(receive(f, &message));
}

TEST(indexes_may_wrap) {
	struct lab *f = *state;
	struct weir_message message;

	f->position.head = f->ring.tail = UINT64_MAX - 1;
	for (uint64_t n = 0; n < 5; n++) {
		message = numbered(n);
		assert_true(send(f, &message));
	}
	for (uint64_t n = 0; n < 5; n++) {
		assert_true(receive(f, &message));
		assert_int_equal(message.sequence, n);
	}
	assert_false(receive(f, &message));
}

// The other process can write any value to its part of the mailbox.
TEST(impossible_distance_counts_as_empty_and_resets) {
	struct lab *f = *state;
	struct weir_message message;

	f->position.head = 10;
	f->ring.tail = 10 + WEIR_MAILBOX_MESSAGES + 1;
	assert_false(receive(f, &message));
	message = numbered(1);
	assert_true(send(f, &message));
	assert_true(receive(f, &message));
	assert_int_equal(message.sequence, 1);

	f->position.head = 10; // the position is ahead of the tail
	f->ring.tail = 3;
	assert_false(send(f, &message));
	assert_false(receive(f, &message));
	assert_true(send(f, &message));
	assert_true(receive(f, &message));
}

static void *produce(void *arg) {
	struct lab *f = arg;

	for (uint64_t n = 0; n < MESSAGES; n++) {
		struct weir_message message = numbered(n);

		while (!send(f, &message)) {
			sched_yield();
		}
	}
	return NULL;
}

TEST(two_threads_pass_every_message_completely) {
	struct lab *f = *state;
	pthread_t producer;

	assert_int_equal(pthread_create(&producer, NULL, produce, f), 0);
	for (uint64_t n = 0; n < MESSAGES; n++) {
		struct weir_message expected = numbered(n), message;

		while (!receive(f, &message)) {
			sched_yield();
		}
		assert_memory_equal(&message, &expected, sizeof(message));
	}
	pthread_join(producer, NULL);
}

// The producer stores nothing if the ring is full, if the position is ahead of the tail, or if the
// tail has an invalid value.
TEST(refused_message_is_stored_nowhere) {
	const uint64_t distances[] = {WEIR_MAILBOX_MESSAGES, WEIR_MAILBOX_MESSAGES + 1, UINT64_MAX,
		UINT64_MAX - WEIR_MAILBOX_MESSAGES, 1ull << 63};
	struct weir_message message = numbered(7);
	struct lab *f = *state;

	for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
		struct weir_mailbox_ring before;

		f->ring.tail = 1000;
		f->position.head = 1000 - distances[i];
		before = f->ring;
		assert_false(send(f, &message));
		assert_memory_equal(&f->ring, &before, sizeof(before));
	}
}
