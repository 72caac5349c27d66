// SPDX-License-Identifier: BSD-3-Clause
#include "look_budget.h"
#include "test.h"

#define MS UINT64_C(1000000)

// Returns the CPU time that readings use within 10 s, if each reading takes look_ns and starts as
// soon as the budget permits it.
static uint64_t used_in_10_s(uint64_t look_ns) {
	struct weir_look_budget budget = {.share = 10, .burst_ns = 10 * MS};
	uint64_t used_ns = 0, start_ns = 5000 * MS, now_ns = start_ns;

	while (now_ns < start_ns + 10000 * MS) {
		uint64_t rest_ms = weir_look_budget_rest_ms(&budget, now_ns);

		if (rest_ms > 0) {
			now_ns += rest_ms * MS;
			assert_int_equal(weir_look_budget_rest_ms(&budget, now_ns), 0);
			continue;
		}
		weir_look_budget_spend(&budget, look_ns);
		used_ns += look_ns;
		now_ns += look_ns;
	}
	return used_ns;
}

TEST(look_budget_is_a_tenth_of_the_time) {
	static const uint64_t looks_ns[] = {25000, 1 * MS, 9 * MS, 10 * MS, 50 * MS, 300 * MS};

	for (size_t i = 0; i < sizeof(looks_ns) / sizeof(looks_ns[0]); i++) {
		uint64_t used_ns = used_in_10_s(looks_ns[i]);

		assert_in_range(used_ns, 900 * MS, 1010 * MS + looks_ns[i]);
	}
}

TEST(look_budget_permits_a_burst) {
	struct weir_look_budget budget = {.share = 10, .burst_ns = 10 * MS};

	for (int i = 0; i < 10; i++) {
		assert_int_equal(weir_look_budget_rest_ms(&budget, 5000 * MS), 0);
		weir_look_budget_spend(&budget, 1 * MS);
	}
	assert_int_equal(weir_look_budget_rest_ms(&budget, 5000 * MS), 1);
	assert_int_equal(weir_look_budget_rest_ms(&budget, 5001 * MS), 0);
	assert_int_equal(weir_look_budget_rest_ms(&budget, 9000 * MS), 0);
	weir_look_budget_spend(&budget, 30 * MS);
	assert_int_equal(weir_look_budget_rest_ms(&budget, 9000 * MS), 201);
}
