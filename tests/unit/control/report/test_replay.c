// SPDX-License-Identifier: BSD-3-Clause
//
// Tests replay windows. Each number of a sender is accepted once. A new sender does not displace a
// sender that is active.
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "test.h"

#define KEEP_MS 2000

static struct weir_replay replay; // shared by all cases, reset in set_up

static int set_up(void **state) {
	(void)state;
	memset(&replay, 0, sizeof(replay));
	return 0;
}

static enum weir_replay_verdict take(uint64_t sender, uint64_t sequence) {
	return weir_replay_take(&replay, sender, sequence, 1000, KEEP_MS);
}

TEST_EACH(set_up);

TEST(numbers_rise) {
	assert_int_equal(take(7, 5), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, 5), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 6), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, 5), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, UINT64_MAX), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, UINT64_MAX), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 0), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 7), WEIR_REPLAY_SEEN);
}

TEST(window_is_64_numbers) {
	assert_int_equal(take(7, 1000), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, 1000 - WEIR_REPLAY_WINDOW), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 1000 - WEIR_REPLAY_WINDOW + 1), WEIR_REPLAY_LATE);
	assert_int_equal(take(7, 1000 - WEIR_REPLAY_WINDOW + 1), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 999), WEIR_REPLAY_LATE);
	assert_int_equal(take(7, 999), WEIR_REPLAY_SEEN);
	// The window has 64 numbers, and now ends at 1063. Of the numbers tested so far, only 1000
	// remains in it.
	assert_int_equal(take(7, 1000 + WEIR_REPLAY_WINDOW - 1), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, 1000), WEIR_REPLAY_SEEN);
	assert_int_equal(take(7, 1001), WEIR_REPLAY_LATE);
	// The window moves far ahead. All numbers below it are too old.
	assert_int_equal(take(7, 1001 + 2 * WEIR_REPLAY_WINDOW), WEIR_REPLAY_NEW);
	assert_int_equal(take(7, 1002 + WEIR_REPLAY_WINDOW), WEIR_REPLAY_LATE);
	assert_int_equal(take(7, 1001 + WEIR_REPLAY_WINDOW), WEIR_REPLAY_SEEN);
}

TEST(first_number_may_be_any) {
	assert_int_equal(take(1, 0), WEIR_REPLAY_NEW);
	assert_int_equal(take(1, 0), WEIR_REPLAY_SEEN);
	assert_int_equal(take(0, UINT64_MAX), WEIR_REPLAY_NEW); // sender 0 is an ordinary sender
	assert_int_equal(take(0, UINT64_MAX), WEIR_REPLAY_SEEN);
	// The window does not reach below 0.
	assert_int_equal(take(2, 3), WEIR_REPLAY_NEW);
	assert_int_equal(take(2, 0), WEIR_REPLAY_LATE);
	assert_int_equal(take(2, UINT64_MAX - 5), WEIR_REPLAY_NEW);
	assert_int_equal(take(2, 3), WEIR_REPLAY_SEEN);
}

TEST(each_sender_has_its_own) {
	for (uint64_t sender = 1; sender <= WEIR_REPLAY_SENDERS; sender++) {
		assert_int_equal(take(sender, 10 * sender), WEIR_REPLAY_NEW);
	}
	for (uint64_t sender = 1; sender <= WEIR_REPLAY_SENDERS; sender++) {
		assert_int_equal(take(sender, 10 * sender), WEIR_REPLAY_SEEN);
		assert_int_equal(take(sender, 10 * sender + 1), WEIR_REPLAY_NEW);
	}
}

TEST(table_of_active_senders_accepts_no_other) {
	for (uint64_t sender = 1; sender <= WEIR_REPLAY_SENDERS; sender++) {
		assert_int_equal(
			weir_replay_take(&replay, sender, 10, sender, KEEP_MS), WEIR_REPLAY_NEW);
	}
	assert_int_equal(weir_replay_take(&replay, 1000, 1, KEEP_MS, KEEP_MS), WEIR_REPLAY_FULL);
	// A replayed datagram does not keep sender 1 active.
	assert_int_equal(weir_replay_take(&replay, 1, 10, KEEP_MS, KEEP_MS), WEIR_REPLAY_SEEN);
	assert_int_equal(weir_replay_take(&replay, 1000, 1, KEEP_MS + 1, KEEP_MS), WEIR_REPLAY_NEW);
	// Sender 2 would be displaced next. But a new datagram makes it active again.
	assert_int_equal(weir_replay_take(&replay, 2, 11, KEEP_MS + 1, KEEP_MS), WEIR_REPLAY_NEW);
	assert_int_equal(
		weir_replay_take(&replay, 1001, 1, KEEP_MS + 2, KEEP_MS), WEIR_REPLAY_FULL);
	assert_int_equal(weir_replay_take(&replay, 1001, 1, KEEP_MS + 3, KEEP_MS), WEIR_REPLAY_NEW);
	assert_int_equal(weir_replay_take(&replay, 2, 11, KEEP_MS + 3, KEEP_MS), WEIR_REPLAY_SEEN);
	assert_int_equal(weir_replay_take(&replay, 4, 10, KEEP_MS + 3, KEEP_MS), WEIR_REPLAY_SEEN);
}

TEST(silent_sender_keeps_its_window_if_there_is_room) {
	assert_int_equal(take(7, 5), WEIR_REPLAY_NEW);
	assert_int_equal(weir_replay_take(&replay, 7, 5, 1000 * KEEP_MS, 1), WEIR_REPLAY_SEEN);
	assert_int_equal(weir_replay_take(&replay, 8, 5, 1000 * KEEP_MS, 1), WEIR_REPLAY_NEW);
	assert_int_equal(weir_replay_take(&replay, 7, 5, 1000 * KEEP_MS, 1), WEIR_REPLAY_SEEN);
}

// The result for each number is compared with a list of all accepted numbers.
TEST(equals_a_simple_list) {
	uint8_t taken[4096] = {0};
	uint64_t highest = 0;
	uint32_t late = 0;

	srand(1);
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t base = highest > 100 ? highest - 100 : 0;
		uint64_t sequence = base + (uint64_t)rand() % 104;
		enum weir_replay_verdict expected;

		if (sequence >= sizeof(taken)) {
			break;
		}
		if (i == 0 || sequence > highest) {
			expected = WEIR_REPLAY_NEW;
			highest = sequence;
		} else if (taken[sequence] || highest - sequence >= WEIR_REPLAY_WINDOW) {
			expected = WEIR_REPLAY_SEEN;
		} else {
			expected = WEIR_REPLAY_LATE;
			late++;
		}
		taken[sequence] = 1;
		assert_int_equal(take(7, sequence), expected);
	}
	assert_true(late > 500);
}
