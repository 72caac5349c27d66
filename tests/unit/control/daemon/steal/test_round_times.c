// SPDX-License-Identifier: BSD-3-Clause
#include "round_times.h"

#include "test.h"

#define NOW 5000000u // time in ms

TEST(round_times_are_regular_without_a_reason) {
	struct weir_round_times times;

	weir_round_times_init(&times);
	assert_int_equal(weir_round_times_ended(&times, 0, NOW), WEIR_ROUND_MS);
	assert_false(times.early);
	assert_int_equal(weir_round_times_ended(&times, NOW + 1000, NOW + 130), WEIR_ROUND_MS);
	assert_false(times.early);
}

// Rounds that begin early serve only some services. So they do not delay the next regular round.
TEST(round_times_have_early_rounds_between_regular_ones) {
	struct weir_round_times times;

	weir_round_times_init(&times);
	assert_int_equal(weir_round_times_ended(&times, NOW + 60, NOW), 60);
	assert_true(times.early);
	assert_int_equal(weir_round_times_ended(&times, NOW + 50, NOW + 62), WEIR_ROUND_SOONEST_MS);
	assert_true(times.early);
	assert_int_equal(weir_round_times_ended(&times, NOW + 200, NOW + 70), 30);
	assert_false(times.early);
	assert_int_equal(weir_round_times_ended(&times, 0, NOW + 103), WEIR_ROUND_MS);
}

// Returns the CPU time of early rounds in ten seconds. There is always a reason for an early round,
// and each round takes cpu_ns.
static uint64_t used_in_10_s(uint64_t cpu_ns) {
	struct weir_round_times times;
	uint64_t now_ms = NOW, used_ns = 0;

	weir_round_times_init(&times);
	while (now_ms < NOW + 10000) {
		now_ms += weir_round_times_ended(&times, now_ms, now_ms);
		weir_round_times_spend(&times, cpu_ns);
		used_ns += times.early ? cpu_ns : 0;
	}
	return used_ns;
}

TEST(early_rounds_use_a_millisecond_in_a_second) {
	static const uint64_t rounds_ns[] = {2000, 20000, 200000, 2000000, 50000000};

	for (unsigned int i = 0; i < 5; i++) {
		assert_true(used_in_10_s(rounds_ns[i]) <= 11000000 + rounds_ns[i]);
	}
	assert_true(used_in_10_s(20000) >= 5000000);
}

TEST(early_rounds_wait_for_the_budget) {
	struct weir_round_times times;

	weir_round_times_init(&times);
	assert_true(weir_round_times_permit(&times, NOW));
	weir_round_times_spend(&times, 5000000); // CPU time of a regular round
	assert_true(weir_round_times_permit(&times, NOW));
	times.early = true;
	weir_round_times_spend(&times, 2000000);
	assert_false(weir_round_times_permit(&times, NOW + 900));
	assert_true(weir_round_times_permit(&times, NOW + 1001));
}
