// SPDX-License-Identifier: BSD-3-Clause
#include "config_lab.h"
#include "json_reader.h"

TEST(printable_hides_control_bytes_and_truncates) {
	char buffer[12];

	assert_string_equal(weir_printable("a\x1b[1m\n\xc3\xa9", buffer, 12), "a?[1m???");
	assert_string_equal(weir_printable("12345678901", buffer, 12), "12345678901");
	assert_string_equal(weir_printable("123456789012", buffer, 12), "12345678...");
	assert_string_equal(weir_printable("", buffer, 12), "");
}

TEST(errors_are_in_the_order_of_the_file) {
	struct weir_config_errors errors = {0};
	struct weir_json_reader reader = {.errors = &errors};

	weir_json_error_file(&reader, 7, 3, "third");
	weir_json_error_file(&reader, 7, 1, "second");
	weir_json_error_file(&reader, 2, 9, "first %d", 1);
	weir_json_finish(&reader);
	assert_int_equal(errors.count, 3);
	assert_string_equal(errors.error[0].reason, "first 1");
	assert_string_equal(errors.error[1].reason, "second");
	assert_string_equal(errors.error[2].reason, "third");
	weir_config_errors_fini(&errors);
	assert_null(errors.error);
}

TEST(too_many_errors_are_counted) {
	struct weir_config_errors errors = {0};
	struct weir_json_reader reader = {.errors = &errors};

	for (int i = 1; i <= WEIR_JSON_ERRORS_MAX + 50; i++) {
		weir_json_error_file(&reader, i, 1, "error %d", i);
	}
	weir_json_finish(&reader);
	assert_int_equal(errors.count, WEIR_JSON_ERRORS_MAX);
	assert_string_equal(errors.error[0].reason, "error 1");
	assert_string_equal(errors.error[WEIR_JSON_ERRORS_MAX - 1].reason,
		"51 more errors not shown; fix the entries above first");
	weir_config_errors_fini(&errors);
}

TEST(path_names_the_location) {
	struct weir_config_errors errors = {0};
	struct weir_json_reader reader = {.errors = &errors};
	const struct weir_json_place root = {.node = 0};
	const struct weir_json_place services = weir_json_place_member(&root, "services");
	const struct weir_json_place second = weir_json_place_element(&services, 1);
	const struct weir_json_place weird = weir_json_place_member(&second, "a\nb");

	weir_json_error(&reader, &root, "one");
	weir_json_error_at(&reader, &second, "name", "two");
	weir_json_error(&reader, &weird, "line\nbreak");
	assert_string_equal(errors.error[0].path, "");
	assert_string_equal(errors.error[1].path, "services[1].name");
	assert_string_equal(errors.error[2].path, "services[1].a?b");
	assert_string_equal(errors.error[2].reason, "line?break");
	weir_config_errors_fini(&errors);
}

TEST(long_paths_and_reasons_are_truncated) {
	struct weir_config_errors errors = {0};
	struct weir_json_reader reader = {.errors = &errors};
	struct weir_json_place chain[50];
	char text[1000];

	chain[0] = (struct weir_json_place){0};
	for (size_t i = 1; i < 50; i++) {
		chain[i] = (struct weir_json_place){
			.parent = &chain[i - 1], .key = "a_key_of_some_length"};
	}
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	weir_json_error(&reader, &chain[49], "%s", text);
	assert_int_equal(strlen(errors.error[0].path), sizeof(errors.error[0].path) - 1);
	assert_int_equal(strlen(errors.error[0].reason), sizeof(errors.error[0].reason) - 1);
	weir_config_errors_fini(&errors);
}

TEST(formatted_error_contains_only_what_is_known) {
	static const struct {
		struct weir_config_error error;
		const char *text;
	} cases[] = {
		{{.line = 3, .column = 7, .path = "a.b", .reason = "why"}, "f:3:7: a.b: why"},
		{{.line = 3, .column = 7, .reason = "why"}, "f:3:7: why"},
		// An error of jansson about an empty file has this position
		{{.line = 1, .reason = "why"}, "f:1: why"},
		{{.reason = "why"}, "f: why"},
	};
	char text[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(
			weir_config_error_format("f", &cases[i].error, text, sizeof(text)),
			cases[i].text);
	}
}
