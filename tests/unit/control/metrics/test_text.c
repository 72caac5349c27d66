// SPDX-License-Identifier: BSD-3-Clause
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "text.h"

static void is(struct weir_text *text, const char *expected) {
	assert_false(text->failed);
	assert_int_equal(text->bytes, strlen(expected));
	assert_memory_equal(text->data, expected, text->bytes);
	text->bytes = 0;
}

TEST(numbers_are_whole) {
	struct weir_text text = {0};

	weir_text_integer(&text, 0);
	is(&text, "0");
	weir_text_integer(&text, LLONG_MIN);
	is(&text, "-9223372036854775808");
	weir_text_integer(&text, LLONG_MAX);
	is(&text, "9223372036854775807");
	weir_text_real(&text, 0.25);
	is(&text, "0.25");
	weir_text_real(&text, 1e-7);
	is(&text, "1e-07");
	free(text.data);
}

TEST(labels_are_escaped) {
	struct weir_text text = {0};

	weir_text_escaped(&text, "a\"b\\c\nd\te", true);
	is(&text, "a\\\"b\\\\c\\nd?e");
	weir_text_escaped(&text, "a\"b", false);
	is(&text, "a\"b");
	free(text.data);
}

TEST(text_grows) {
	struct weir_text text = {0};
	char block[1000];

	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 1000; i++) {
		weir_text_add(&text, block, sizeof(block));
	}
	assert_int_equal(text.bytes, 1000000);
	assert_false(text.failed);
	assert_int_equal(text.data[999999], 'x');
	free(text.data);
}
