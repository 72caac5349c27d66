// SPDX-License-Identifier: BSD-3-Clause
#include <stddef.h>

#include "config_lab.h"
#include "config_types.h"
#include "json_reader.h"

struct everything {
	uint16_t small;
	uint32_t medium;
	uint64_t large;
	bool flag;
	uint8_t choice;
	struct weir_address address;
	uint8_t mac[6];
	bool has_mac;
	uint64_t seed;
	uint16_t cores[4];
	uint32_t core_count;
	int line;
};

#define FIELD(field) \
	.offset = offsetof(struct everything, field), \
	.bytes = sizeof(((struct everything *)0)->field)

static const struct weir_json_choice choices[] = {{"one", 1}, {"two", 200}, {0}};
static const struct weir_json_key keys[] = {
	{.key = "small", .type = &weir_json_type_integer, FIELD(small), .min = 2, .max = 65535},
	{.key = "medium",
		.type = &weir_json_type_integer,
		FIELD(medium),
		.max = UINT32_MAX,
		.fallback = "4294967295"},
	{.key = "large", .type = &weir_json_type_integer, FIELD(large), .max = 1e19},
	{.key = "flag", .type = &weir_json_type_boolean, FIELD(flag), .fallback = "true"},
	{.key = "choice", .type = &weir_json_type_choice, FIELD(choice), .choices = choices},
	{.key = "address", .type = &weir_config_type_address, FIELD(address)},
	{.key = "mac",
		.type = &weir_config_type_mac,
		FIELD(mac),
		.offset2 = offsetof(struct everything, has_mac),
		.nullable = true},
	{.key = "seed", .type = &weir_config_type_seed, FIELD(seed), .fallback = "\"0x10\""},
	{.key = "cores",
		.type = &weir_config_type_cores,
		FIELD(cores),
		.offset2 = offsetof(struct everything, core_count),
		.min = 1,
		.max = 4},
	{.key = "must", .type = &weir_json_type_ignored, .required = true},
};

struct seen {
	bool small_present, small_valid, medium_present, medium_valid, unknown;
};

static struct seen seen_last; // set by check_everything

static void check_everything(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	(void)reader;
	(void)place;
	(void)into;
	seen_last = (struct seen){weir_json_present(read, "small"), weir_json_valid(read, "small"),
		weir_json_present(read, "medium"), weir_json_valid(read, "medium"),
		weir_json_present(read, "nothing") || weir_json_valid(read, "nothing")};
}

static const char *const later[] = {"tomorrow", NULL};
static const struct weir_json_object object = {.name = "everything",
	.key = keys,
	.count = sizeof(keys) / sizeof(keys[0]),
	.bytes = sizeof(struct everything),
	.later = later,
	.has_line = true,
	.line_offset = offsetof(struct everything, line),
	.check = check_everything};

// Read a text into *into; errors are owned by the caller.
static void read_text(
	const char *text, struct everything *into, struct weir_config_errors *errors) {
	struct weir_json_index index;
	struct weir_json_reader reader = {.positions = &index, .errors = errors};
	const struct weir_json_place root = {0};
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(json);
	assert_int_equal(weir_json_index_init(&index, text, strlen(text)), 0);
	memset(into, 0, sizeof(*into));
	memset(errors, 0, sizeof(*errors));
	weir_json_read(&reader, &root, &object, json, into);
	assert_false(reader.out_of_memory);
	weir_json_index_fini(&index);
	json_decref(json);
}

TEST(reader_fills_every_kind) {
	static const uint8_t mac[6] = {0x0a, 0x0B, 0xfF, 0, 1, 2};
	struct weir_config_errors errors;
	struct everything all;

	read_text("\n {\"must\": \"x\", \"small\": 65535, \"medium\": 7, \"large\": "
		  "9223372036854775807,"
		  " \"flag\": false, \"choice\": \"two\", \"address\": \"2001:db8::5\","
		  " \"mac\": \"0a:0B:fF:00:01:02\", \"seed\": \"0xFFFFFFFFFFFFFFFF\","
		  " \"cores\": [0, 1023, 5]}",
		&all, &errors);
	assert_int_equal(errors.count, 0);
	assert_int_equal(all.small, 65535);
	assert_int_equal(all.medium, 7);
	assert_true(all.large == INT64_MAX);
	assert_false(all.flag);
	assert_int_equal(all.choice, 200);
	assert_int_equal(all.address.family, 6);
	assert_int_equal(all.address.bytes[15], 5);
	assert_memory_equal(all.mac, mac, 6);
	assert_true(all.has_mac);
	assert_true(all.seed == UINT64_MAX);
	assert_int_equal(all.core_count, 3);
	assert_int_equal(all.cores[1], 1023);
	assert_int_equal(all.line, 2);
}

TEST(reader_defaults_and_presence) {
	struct weir_config_errors errors;
	struct everything all;

	read_text(JSON({"must": "x", "small": 1}), &all, &errors);
	assert_int_equal(errors.count, 1);
	assert_string_equal(errors.error[0].reason, "1 is out of range; use 2 to 65535");
	assert_int_equal(all.small, 0);
	assert_true(all.medium == UINT32_MAX);
	assert_true(all.flag);
	assert_true(all.seed == 0x10);
	assert_false(all.has_mac);
	assert_true(seen_last.small_present && !seen_last.small_valid);
	assert_true(!seen_last.medium_present && seen_last.medium_valid);
	assert_false(seen_last.unknown);
	weir_config_errors_fini(&errors);
}

TEST(reader_reports_errors) {
	static const struct {
		const char *member, *path, *reason;
		int column;
	} cases[] = {
		{"\"small\": 1.0", "small", "not a number with a fraction", 25},
		{"\"small\": -5", "small", "-5 is out of range", 25},
		{"\"small\": 65536", "small", "65536 is out of range", 25},
		{"\"small\": true", "small", "must be an integer, not true or false", 25},
		{"\"small\": []", "small", "must be an integer, not an array", 25},
		{"\"flag\": 0", "flag", "must be true or false, not an integer", 24},
		{"\"flag\": \"true\"", "flag", "must be true or false, not a string", 24},
		{"\"choice\": \"three\"", "choice", "unknown value \"three\"; use one of: one, two",
			26},
		{"\"choice\": \"One\"", "choice", "unknown value \"One\"", 26},
		{"\"choice\": 1", "choice", "must be a string, not an integer", 26},
		{"\"address\": \"1.2.3\"", "address", "\"1.2.3\" is not an IP address", 27},
		{"\"mac\": \"02:00:00:00:00:0g\"", "mac", "is not a MAC address", 23},
		{"\"mac\": \"02:00:00:00:00:00:\"", "mac", "is not a MAC address", 23},
		{"\"mac\": \"\"", "mac", "is not a MAC address", 23},
		{"\"mac\": 5", "mac", "must be a string or null, not an integer", 23},
		{"\"seed\": \"0x\"", "seed", "is not a seed", 24},
		{"\"seed\": \"0x1 \"", "seed", "is not a seed", 24},
		{"\"seed\": \"1x12\"", "seed", "is not a seed", 24},
		{"\"seed\": \"\"", "seed", "is not a seed", 24},
		{"\"cores\": []", "cores", "list 1 to 4 CPU numbers", 25},
		{"\"cores\": [1,2,3,4,5]", "cores", "has 5 elements", 25},
		{"\"cores\": [1, 1024]", "cores[1]", "1024 is out of range; use 0 to 1023", 29},
		{"\"cores\": [null]", "cores[0]", "must be an integer, not null", 26},
		{"\"tomorrow\": 1", "tomorrow", "not supported by this version", 16},
		{"\"smal\": 3", "smal", "did you mean \"small\"?", 16},
		{"\"zebra\": 3", "zebra", "known keys: small, medium, large", 16},
		{"\"\": 3", "", "unknown key \"\"", 16},
	};
	char text[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_errors errors;
		struct everything all;

		snprintf(text, sizeof(text), JSON({ "must": "y", %s}), cases[i].member);
		read_text(text, &all, &errors);
		if (errors.count != 1 || strstr(errors.error[0].reason, cases[i].reason) == NULL ||
			strcmp(errors.error[0].path, cases[i].path) != 0 ||
			errors.error[0].column != cases[i].column || errors.error[0].line != 1) {
			fail_msg("case %zu: %u errors, %d: %s: %s", i, errors.count,
				errors.error[0].column, errors.error[0].path,
				errors.error[0].reason);
		}
		weir_config_errors_fini(&errors);
	}
}

TEST(reader_missing_key_and_wrong_type) {
	struct weir_config_errors errors;
	struct everything all;

	read_text("{}", &all, &errors);
	assert_int_equal(errors.count, 1);
	assert_string_equal(errors.error[0].reason, "\"must\" is missing; add it");
	weir_config_errors_fini(&errors);
	read_text("[]", &all, &errors);
	assert_int_equal(errors.count, 1);
	assert_string_equal(errors.error[0].reason, "must be an object, not an array");
	weir_config_errors_fini(&errors);
}

// A key may contain escape sequences. The positions of the keys after it must be correct.
TEST(reader_resolves_escaped_keys) {
	struct weir_config_errors errors;
	struct everything all;

	read_text(
		"{\"m\\u0075st\": \"\\\"}\", \"sm\\u0061ll\": 9,\n \"medium\": -1}", &all, &errors);
	assert_int_equal(all.small, 9);
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.error[0].line, 2);
	assert_int_equal(errors.error[0].column, 12);
	weir_config_errors_fini(&errors);
}
