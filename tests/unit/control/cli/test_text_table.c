// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "text_table.h"

static const struct weir_text_table_column columns[] = {
	{"NAME", false}, {"FLOWS", true}, {"NOTES", false}};

static void expect_table(const char *const rows[][3], size_t count, const char *expected) {
	struct weir_text_table *table = weir_text_table_create(columns, 3);
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(weir_text_table_add(table, rows[i]), 0);
	}
	weir_text_table_print(table, out);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	weir_text_table_free(table);
}

TEST(columns_are_aligned_without_trailing_spaces) {
	static const char *const rows[][3] = {
		{"a", "1", ""}, {"long-name", "1234567", "leaving"}, {"", "", "x"}};

	expect_table(rows, 3,
		"NAME         FLOWS  NOTES\n"
		"a                1\n"
		"long-name  1234567  leaving\n"
		"                    x\n");
}

TEST(header_alone_and_wide_header) {
	static const char *const rows[][3] = {{"b", "7", "y"}};

	expect_table(NULL, 0, "NAME  FLOWS  NOTES\n");
	expect_table(rows, 1, "NAME  FLOWS  NOTES\nb         7  y\n");
}

// A single long cell does not widen other rows, and does not hide later cells.
TEST(long_cell_widens_its_row_alone) {
	char text[101], expected[512];
	const char *const rows[][3] = {{"a", "1", "x"}, {text, "22", "y"}, {"c", "3", text}};

	memset(text, 'w', 100);
	text[100] = '\0';
	snprintf(expected, sizeof(expected),
		"%-64s  FLOWS  NOTES\n%-64s      1  x\n%s  22  y\n%-64s      3  %s\n", "NAME", "a",
		text, "c", text);
	expect_table(rows, 3, expected);
}

// If a cell is slightly too long, the columns after it are aligned with the columns of other rows
// again.
TEST(row_is_aligned_again_behind_a_long_cell) {
	char text[67], expected[256];
	const char *const rows[][3] = {{text, "1", "x"}, {"b", "123456789", "y"}};

	memset(text, 'w', 66);
	text[66] = '\0';
	snprintf(expected, sizeof(expected),
		"%-64s      FLOWS  NOTES\n%s        1  x\n%-64s  123456789  y\n", "NAME", text,
		"b");
	expect_table(rows, 2, expected);
}

TEST(many_rows_keep_their_order) {
	struct weir_text_table *table = weir_text_table_create(columns, 3);
	char *text, *line;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	for (int i = 0; i < 1000; i++) {
		char number[16];
		const char *row[3] = {"n", number, "-"};

		snprintf(number, sizeof(number), "%d", i);
		assert_int_equal(weir_text_table_add(table, row), 0);
	}
	weir_text_table_print(table, out);
	fclose(out);
	line = strchr(text, '\n') + 1;
	for (int i = 0; i < 1000; i++) {
		char expected[40];

		snprintf(expected, sizeof(expected), "n     %5d  -\n", i);
		assert_memory_equal(line, expected, strlen(expected));
		line += strlen(expected);
	}
	assert_int_equal(*line, '\0');
	free(text);
	weir_text_table_free(table);
	weir_text_table_free(NULL);
}
