// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>

#include "scenario.h"
#include "scenario_keys.h"
#include "sim_lab.h"

struct inner {
	uint32_t number;
};
struct outer {
	uint32_t whole;
	double number;
	uint64_t time_ns;
	bool flag;
	char name[WEIR_SIM_NAME_BYTES];
	struct weir_sim_numbers numbers;
	struct inner *list;
	uint32_t list_count;
};

static const struct weir_json_key inner_rows[] = {
	{.key = "number", .type = &weir_sim_type_whole, .required = true, .max = 9},
};
static const struct weir_json_object inner_keys = {
	.name = "inner", .key = inner_rows, .count = 1, .bytes = sizeof(struct inner)};
static const struct weir_json_key outer_rows[] = {
	{.key = "whole",
		.type = &weir_sim_type_whole,
		.offset = offsetof(struct outer, whole),
		.min = 1,
		.max = 4294967295.0,
		.fallback = "7"},
	{.key = "number",
		.type = &weir_sim_type_number,
		.offset = offsetof(struct outer, number),
		.min = -2,
		.max = 2,
		.fallback = "0.5"},
	{.key = "time_ms",
		.type = &weir_sim_type_ms,
		.offset = offsetof(struct outer, time_ns),
		.max = 1000,
		.fallback = "0.001"},
	{.key = "flag",
		.type = &weir_json_type_boolean,
		.offset = offsetof(struct outer, flag),
		.fallback = "true"},
	{.key = "name",
		.type = &weir_sim_type_name,
		.offset = offsetof(struct outer, name),
		.fallback = "\"n\""},
	{.key = "numbers",
		.type = &weir_sim_type_numbers,
		.offset = offsetof(struct outer, numbers),
		.max = 10,
		.fallback = "[1, 2]"},
	{.key = "list",
		.type = &weir_json_type_list,
		.offset = offsetof(struct outer, list),
		.offset2 = offsetof(struct outer, list_count),
		.max = 2,
		.fallback = "[]",
		.object = &inner_keys},
};
static const struct weir_json_object outer_keys = {.name = "outer",
	.key = outer_rows,
	.count = sizeof(outer_rows) / sizeof(outer_rows[0]),
	.bytes = sizeof(struct outer)};

// Reads text, in which ' stands for ". Writes the errors to found, as lines of "line: path:
// reason".
static bool read_text(const char *text, struct outer *outer, char *found, size_t room) {
	struct weir_config_errors errors = {0};
	struct weir_json_index positions;
	struct weir_json_reader reader = {
		.positions = &positions, .errors = &errors, .at_keys = true, .help = "see"};
	struct weir_json_place root = {0};
	char json[512];
	size_t used = 0;
	json_t *parsed;
	bool good;

	snprintf(json, sizeof(json), "%s", text);
	for (char *c = json; *c != '\0'; c++) {
		*c = *c == '\'' ? '"' : *c;
	}
	parsed = json_loads(json, 0, NULL);
	assert_non_null(parsed);
	assert_int_equal(weir_json_index_init(&positions, json, strlen(json)), 0);
	*outer = (struct outer){0};
	good = weir_json_read(&reader, &root, &outer_keys, parsed, outer);
	weir_json_finish(&reader);
	found[0] = '\0';
	for (uint32_t i = 0; i < errors.count; i++) {
		const struct weir_config_error *p = &errors.error[i];

		used += (size_t)snprintf(
			found + used, room - used, "%d: %s: %s\n", p->line, p->path, p->reason);
	}
	assert_int_equal(good, errors.count == 0);
	weir_config_errors_fini(&errors);
	weir_json_index_fini(&positions);
	json_decref(parsed);
	return good;
}

TEST(reader_reads_every_kind) {
	struct outer outer;
	char found[1024];

	assert_true(
		read_text("{'whole': 4294967295, 'number': -1.5, 'time_ms': 1.25, 'flag': false,"
			  "'name': 'a-b_1', 'numbers': [3, 4.5, 0],"
			  "'list': [{'number': 3}, {'number': 4}]}",
			&outer, found, sizeof(found)));
	assert_true(outer.whole == UINT32_MAX && outer.number == -1.5);
	assert_int_equal(outer.time_ns, 1250000);
	assert_false(outer.flag);
	assert_string_equal(outer.name, "a-b_1");
	assert_int_equal(outer.numbers.count, 3);
	assert_true(outer.numbers.value[1] == 4.5);
	assert_int_equal(outer.list_count, 2);
	assert_int_equal(outer.list[1].number, 4);
	weir_json_free(&outer_keys, &outer);
}

TEST(reader_fills_in_defaults) {
	struct outer outer;
	char found[1024];

	assert_true(read_text("{}", &outer, found, sizeof(found)));
	assert_int_equal(outer.whole, 7);
	assert_true(outer.number == 0.5 && outer.flag);
	assert_int_equal(outer.time_ns, 1000);
	assert_int_equal(outer.numbers.count, 2);
	assert_int_equal(outer.list_count, 0);
	weir_json_free(&outer_keys, &outer);
}

TEST(reader_reports_every_error_with_its_location) {
	struct outer outer;
	char found[1024];

	assert_false(
		read_text("{'whole': 0,\n'number': 'x',\n'time_ms': -1,\n'flag': 1,\n"
			  "'name': 'A',\n'numbers': [1, 11],\n'list': [{'number': 1.5},\n{}],\n"
			  "'wole': 2}",
			&outer, found, sizeof(found)));
	assert_string_equal(found,
		"1: whole: 0 is out of range; use 1 to 4294967295\n"
		"2: number: must be a number, not a string\n"
		"3: time_ms: -1 is out of range; use 0 to 1000\n"
		"4: flag: must be true or false, not an integer\n"
		"5: name: must begin with a lowercase letter or a digit, and contain only these, "
		"'-' and '_'\n"
		"6: numbers[1]: 11 is out of range; use 0 to 10\n"
		"7: list[0].number: must be a whole number, not a number with a fraction or "
		"exponent\n"
		"8: list[1]: \"number\" is missing; add it\n"
		"9: wole: unknown key; did you mean \"whole\"?\n");
	weir_json_free(&outer_keys, &outer);
}

TEST(reader_limits_lists) {
	struct outer outer;
	char found[1024];

	assert_false(read_text("{'list': [{'number': 1}, {'number': 1}, {'number': 1}],"
			       "'numbers': []}",
		&outer, found, sizeof(found)));
	assert_string_equal(found, "1: list: has 3 elements; give 0 to 2\n"
				   "1: numbers: has 0 elements; give 1 to 16 elements\n");
	weir_json_free(&outer_keys, &outer);
}
