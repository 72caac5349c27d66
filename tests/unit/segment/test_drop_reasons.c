// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <string.h>

#include "drop_reasons.h"
#include "test.h"

TEST(every_reason_has_a_name_and_a_separate_text) {
	for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		const char *name = weir_drop_reason_name((enum weir_drop_reason)i);

		assert_true(name[0] != '\0');
		assert_true(strlen(weir_drop_reason_text((enum weir_drop_reason)i)) > 10);
		for (const char *c = name; *c != '\0'; c++) {
			assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) ||
				    *c == '_');
		}
		for (unsigned int j = 0; j < i; j++) {
			assert_string_not_equal(
				name, weir_drop_reason_name((enum weir_drop_reason)j));
			assert_string_not_equal(weir_drop_reason_text((enum weir_drop_reason)i),
				weir_drop_reason_text((enum weir_drop_reason)j));
		}
	}
}

TEST(names_belong_to_their_reasons) {
	assert_string_equal(weir_drop_reason_name(WEIR_DROP_FRAME_TOO_SHORT), "frame_too_short");
	assert_string_equal(weir_drop_reason_name(WEIR_DROP_NO_BACKEND), "no_backend");
	assert_string_equal(weir_drop_reason_name(WEIR_DROP_TX_FULL), "tx_full");
	assert_string_equal(
		weir_drop_reason_text(WEIR_DROP_NO_BACKEND), "the service has no usable backend");
}

TEST(unknown_reasons_are_reported_as_unknown) {
	assert_string_equal(
		weir_drop_reason_name((enum weir_drop_reason)WEIR_DROP_REASON_COUNT), "unknown");
	assert_string_equal(weir_drop_reason_name((enum weir_drop_reason) - 1), "unknown");
	assert_non_null(weir_drop_reason_text((enum weir_drop_reason)1000000));
}
