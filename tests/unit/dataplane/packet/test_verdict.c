// SPDX-License-Identifier: BSD-3-Clause
//
// Verdict: names of actions and choices.
#include "test.h"
#include "verdict.h"

TEST(verdict_names_are_distinct) {
	for (unsigned int i = 0; i <= WEIR_ACTION_DROP; i++) {
		assert_string_not_equal(weir_action_name((enum weir_action)i), "unknown");
	}
	for (unsigned int i = 0; i <= WEIR_CHOICE_REPLACED; i++) {
		assert_string_not_equal(weir_choice_name((enum weir_choice)i), "unknown");
	}
	assert_string_equal(weir_action_name((enum weir_action)99), "unknown");
	assert_string_equal(weir_choice_name((enum weir_choice)99), "unknown");
}
