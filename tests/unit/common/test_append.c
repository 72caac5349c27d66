// SPDX-License-Identifier: BSD-3-Clause
#include "append.h"
#include "test.h"

TEST(appended_text_is_truncated) {
	char text[8] = "";

	weir_append(text, sizeof(text), "%s %d", "ab", 7);
	assert_string_equal(text, "ab 7");
	weir_append(text, sizeof(text), "cdefg");
	assert_string_equal(text, "ab 7cde");
	weir_append(text, sizeof(text), "h");
	assert_string_equal(text, "ab 7cde");
}
