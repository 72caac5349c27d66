// SPDX-License-Identifier: BSD-3-Clause
//
// Results of the control API as text: values, lines, and lists of any form.
#include "show_lab.h"

TEST(values) {
	static const struct {
		const char *json;
		enum weir_show_kind kind;
		const char *text;
	} cases[] = {
		{"null", WEIR_SHOW_NUMBER, "-"},
		{"12345678901", WEIR_SHOW_NUMBER, "12345678901"},
		{"-3", WEIR_SHOW_TEXT, "-3"},
		{"12.34", WEIR_SHOW_PERCENT, "12.3"},
		{"12", WEIR_SHOW_PERCENT, "12.0"},
		{"0.96", WEIR_SHOW_NUMBER, "1.0"},
		{"0.04", WEIR_SHOW_PERCENT, "0.04"},
		{"0.00303", WEIR_SHOW_PERCENT, "0.003"},
		{"-0.00303", WEIR_SHOW_PERCENT, "-0.003"},
		{"0.0", WEIR_SHOW_PERCENT, "0.0"},
		{"1e-300", WEIR_SHOW_PERCENT, "0.000000"},
		{"true", WEIR_SHOW_FLAG, "yes"},
		{"false", WEIR_SHOW_TEXT, "no"},
		{"\"a\\u001bb\"", WEIR_SHOW_TEXT, "a\\x1bb"},
		{"[]", WEIR_SHOW_TEXT, "-"},
		{"[\"a\", 1, null]", WEIR_SHOW_TEXT, "a, 1, -"},
		{"{\"k\": 1}", WEIR_SHOW_TEXT, "{\"k\":1}"},
	};
	char buffer[64];

	assert_string_equal(weir_show_value(NULL, WEIR_SHOW_TEXT, buffer, 64), "-");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);

		assert_string_equal(
			weir_show_value(json, cases[i].kind, buffer, 64), cases[i].text);
		json_decref(json);
	}
}

TEST(long_lists_show_the_number_of_omitted_rows) {
	json_t *list = json_array();
	char buffer[32];

	for (int i = 0; i < 100; i++) {
		json_array_append_new(list, json_string("198.51.100.10"));
	}
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, sizeof(buffer));
	assert_string_equal(buffer, "198.51.100.10, 99 more");
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, 8);
	// the buffer is too small for the first element
	assert_string_equal(buffer, "100 mor");
	json_array_clear(list);
	json_array_append_new(list, json_string("198.51.100.1"));
	json_array_append_new(list, json_string("198.51.100.255"));
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, sizeof(buffer));
	assert_string_equal(buffer, "198.51.100.1, 198.51.100.255"); // the text just fits
	json_decref(list);
}

// A daemon of another version, or a hostile daemon, must not crash the client.
TEST(results_of_another_form_are_shown_as_far_as_possible) {
	static const char *const odd[] = {"null", "7", "\"x\"", "{}", "[]", "[[]]", "[null]",
		"[{}]", "{\"changes\": 5}", "{\"changes\": [1]}", "{\"dataplane\": 3}",
		"{\"chosen_by_worker\": [1, {\"chosen\": 2}, {\"chosen\": \"a\"}]}",
		"[{\"last\": 5, \"binds\": {\"a\": []}, \"name\": [1, [2]]}]"};
	void (*const shows[])(const struct weir_cli *, json_t *) = {weir_show_record,
		weir_show_services, weir_show_backends, weir_show_change, weir_show_weight,
		weir_show_flow_count, weir_show_workers, weir_show_stealing, weir_show_ports,
		weir_show_changes, weir_show_waiting, weir_show_health, weir_show_version,
		weir_show_policy, weir_show_report, weir_show_flow_lookup, weir_show_steals,
		weir_show_audit, weir_show_history};
	const struct weir_cli_options options = {0};
	const char *word = "web";

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		for (size_t j = 0; j < sizeof(shows) / sizeof(shows[0]); j++) {
			for (int words = 0; words <= 1; words++) {
				json_t *result = json_loads(odd[i], JSON_DECODE_ANY, NULL);
				FILE *out = fopen("/dev/null", "w");
				struct weir_cli cli = {.options = &options,
					.out = out,
					.err = stderr,
					.words = &word,
					.count = words};

				shows[j](&cli, result);
				fclose(out);
				json_decref(result);
			}
		}
	}
}

TEST(empty_lists_are_reported) {
	expect_shown(weir_show_services, NULL, "[]", "no services\n");
	expect_shown(weir_show_backends, NULL, "[]", "no backends\n");
	expect_shown(weir_show_workers, NULL, "[]", "no workers\n");
	expect_shown(weir_show_stealing, NULL,
		JSON({"stealing": "on", "stealing_why": null}), "stealing on\n");
	expect_shown(weir_show_stealing, NULL,
		JSON({"stealing": "off", "stealing_why": "one\nworker"}),
			"stealing off: one\\x0aworker\n");
	expect_shown(weir_show_ports, NULL, "[]", "no ports\n");
	expect_shown(weir_show_changes, NULL,
		JSON({"changes": [], "file": "/a.json"}), "no changes in /a.json\n");
	expect_shown(weir_show_steals, NULL,
		JSON({"services": [], "recent": []}),
			"no service has \"steal\" in its configuration\n");
	expect_shown(weir_show_history, NULL, "[]",
		"no health changes since the start of weir-control\n");
	expect_shown(weir_show_audit, NULL, "[]", "no changes since the start of weir-control\n");
}

// Numbers are never truncated, because a truncated number looks like another number.
TEST(all_reasons_of_refused_steals_are_shown) {
	static const char *const names[] = {"running", "unsettled", "cookies", "no_listener",
		"cannot_tell", "off", "changed", "gone", "unusable", "limit", "late", "no_worker",
		"abandoned"};
	char result[2048] = "{\"services\": [{\"service\": \"web\", \"refused\": {",
	     reasons[1024] = "", expected[1200];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t at = strlen(result), used = strlen(reasons);

		snprintf(result + at, sizeof(result) - at, "%s\"%s\": 9223372036854775807",
			i > 0 ? ", " : "", names[i]);
		snprintf(reasons + used, sizeof(reasons) - used, "%s%s 9223372036854775807",
			i > 0 ? ", " : "", names[i]);
	}
	strcat(result, "}}]}");
	snprintf(expected, sizeof(expected),
		"SERVICE  ENABLED  RELIEVED  ASKED  MOVED  SILENT  REFUSED\n"
		"web      -        -             -      -       -  %s\n",
		reasons);
	expect_shown(weir_show_steals, NULL, result, expected);
}

TEST(flow_by_worker_is_a_line_for_each_backend) {
	expect_shown(weir_show_flow_lookup, NULL,
		JSON({"found": false, "chosen": null, "chosen_by_worker": [{"worker": 0,
			"chosen": "w-2"}, {"worker": 1, "chosen": "w-1"}, {"worker": 2,
			"chosen": null}, {"worker": 3, "chosen": "w-2"}]}),
				"found                 no\n"
				"chosen                -\n"
				"chosen_by_worker.w-2  0, 3\n"
				"chosen_by_worker.w-1  1\n"
				"chosen_by_worker.-    2\n");
	expect_shown(weir_show_flow_lookup, NULL,
		JSON({"chosen": "w-1", "chosen_by_worker": null}), "chosen  w-1\n");
}

TEST(one_by_name_is_a_record) {
	static const char one[] = JSON([{"name": "web", "binds": ["tcp a:1", "tcp b:2"],
		"panic": false, "inner": {"deep": 1.25}}]);

	expect_shown(weir_show_services, "web", one,
		"name        web\nbinds       tcp a:1, tcp b:2\npanic       no\ninner.deep  1.2\n");
}

// The longest name of a backend, in a nested field.
TEST(values_of_long_names_are_aligned) {
	const char name[] = "a23456789-123456789-123456789-123456789-123456789-123456789-123";
	json_t *object = json_pack("{s:i, s:{s:i}}", "a", 1, "chosen_by_worker", name, 2);
	char *text = NULL, *second;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_int_equal(strlen(name), 63);
	weir_show_fields(out, object);
	fclose(out);
	second = strchr(text, '\n') + 1;
	assert_int_equal(strchr(text, '1') - text, strrchr(second, '2') - second);
	free(text);
	json_decref(object);
}

TEST(continued_lines_are_marked) {
	static const struct {
		const char *line;
		uint32_t columns;
		const char *text;
	} cases[] = {{"a 125", 6, "a 125\033[K\n"}, {"a 125", 5, "a 125\n"},
		{"a 125", 4, "a >\033[K\n"}, {"a 125 6", 6, "a 125>\n"}, {"ab", 1, ">\n"},
		{"a 125", 1, ">\n"}, {"", 1, "\033[K\n"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		weir_show_line(out, cases[i].line, strlen(cases[i].line), cases[i].columns);
		fclose(out);
		assert_string_equal(text, cases[i].text);
		free(text);
	}
}
