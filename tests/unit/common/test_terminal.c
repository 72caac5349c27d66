// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.h"
#include "test.h"

TEST(terminal_text_escapes) {
	static const struct {
		const char *text, *safe;
	} cases[] = {
		{"web-1", "web-1"},
		{"", ""},
		{"a\x1b[2Jb", "a\\x1b[2Jb"},
		{"\x9b"
		 "31m",
			"\\x9b31m"},
		{"caf\xc3\xa9", "caf\\xc3\\xa9"},
		{"tab\tnl\nCR\r\x7f", "tab\\x09nl\\x0aCR\\x0d\\x7f"},
		{"\\x1b", "\\\\x1b"},
		{"QUIT\\r\\n", "QUIT\\r\\n"},
	};
	char buffer[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(
			weir_terminal_text(cases[i].text, buffer, sizeof(buffer)), cases[i].safe);
	}
}

TEST(terminal_text_is_truncated) {
	char buffer[64];

	assert_string_equal(weir_terminal_text("1234567", buffer, 8), "1234567");
	assert_string_equal(weir_terminal_text("12345678", buffer, 8), "1234...");
	assert_string_equal(weir_terminal_text("12345\x1b", buffer, 8), "1234...");
	assert_string_equal(weir_terminal_text("123", buffer, 3), "12");
	assert_string_equal(weir_terminal_text("123", buffer, 1), "");
}
