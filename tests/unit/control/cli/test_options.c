// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "test.h"

#define PARSE(environment, options, why, ...) \
	parse((char *[]){"weirctl", __VA_ARGS__, NULL}, environment, options, why)

static int parse(
	char **argv, const char *environment, struct weir_cli_options *options, char why[128]) {
	int argc = 0;

	while (argv[argc] != NULL) {
		argc++;
	}
	return weir_cli_options_parse(argc, argv, environment, options, why, 128);
}

TEST(options_defaults) {
	struct weir_cli_options options;
	char why[128];

	assert_int_equal(PARSE(NULL, &options, why, "version"), 0);
	assert_string_equal(options.run_dir, "/run/weir");
	assert_int_equal(options.timeout_ms, 5000);
	assert_int_equal(options.tables_ms, 60000);
	assert_int_equal(options.interval_ms, 0);
	assert_int_equal(options.count, 0);
	assert_false(options.json || options.line.help || options.line.version || options.watch);
	assert_true(options.line.given == 0);
	assert_null(options.service);
	assert_int_equal(options.line.operands, 1);
	assert_string_equal(options.line.operand[0], "version");
	assert_int_equal(PARSE(NULL, &options, why, "stats", "show", "--count", "2"), 0);
	assert_true(options.watch && options.interval_ms == 0 && options.count == 2);
	assert_int_equal(PARSE(NULL, &options, why, "stats", "show", "--interval", "1"), 0);
	assert_true(options.watch && options.interval_ms == 1000 && options.count == 0);
	assert_int_equal(PARSE(NULL, &options, why, "version", "--timeout", "70000"), 0);
	assert_int_equal(options.timeout_ms, 70000);
	assert_int_equal(options.tables_ms, 70000);
}

TEST(run_dir_from_option_environment_default) {
	struct weir_cli_options options;
	char why[128];

	assert_int_equal(PARSE("/a", &options, why, "x"), 0);
	assert_string_equal(options.run_dir, "/a");
	assert_int_equal(PARSE("", &options, why, "x"), 0);
	assert_string_equal(options.run_dir, "/run/weir");
	assert_int_equal(PARSE("/a", &options, why, "--run-dir", "/b", "x"), 0);
	assert_string_equal(options.run_dir, "/b");
	assert_int_equal(PARSE("/a", &options, why, "--run-dir=/c=d", "x"), 0);
	assert_string_equal(options.run_dir, "/c=d");
	assert_string_equal(options.usual_run_dir, "/a");
	assert_int_equal(PARSE(NULL, &options, why, "--run-dir=/a", "x"), 0);
	assert_string_equal(options.usual_run_dir, "/run/weir");
}

TEST(options_may_be_anywhere) {
	struct weir_cli_options options;
	char why[128];

	assert_int_equal(PARSE(NULL, &options, why, "--json", "stats", "--watch", "show",
				 "--interval", "0.25", "--count=3", "--timeout", "70", "--service",
				 "web", "--", "--json", "-"),
		0);
	assert_true(options.json && options.watch);
	assert_int_equal(options.interval_ms, 250);
	assert_int_equal(options.count, 3);
	assert_int_equal(options.timeout_ms, 70);
	assert_string_equal(options.service, "web");
	assert_int_equal(weir_cli_options_check(&options, WEIR_CLI_SERVICE | WEIR_CLI_WATCH,
				 "stats show", why, sizeof(why)),
		0);
	assert_int_equal(
		weir_cli_options_check(&options, WEIR_CLI_SERVICE, "flow count", why, sizeof(why)),
		-EINVAL);
	assert_string_equal(why, "--watch is not an option of flow count; leave it out");
	assert_int_equal(options.line.operands, 4);
	assert_string_equal(options.line.operand[2], "--json");
	assert_string_equal(options.line.operand[3], "-");
	assert_int_equal(PARSE(NULL, &options, why, "-h"), 0);
	assert_true(options.line.help);
	assert_int_equal(PARSE(NULL, &options, why, "--version"), 0);
	assert_true(options.line.version);
}

TEST(options_refused) {
	static const struct {
		char *first, *second;
		const char *why;
	} cases[] = {
		{"--jsn", NULL, "unknown option --jsn; did you mean --json?"},
		{"--frobnicate", NULL, "unknown option --frobnicate"},
		{"-x", NULL, "unknown option -x"},
		{"--\x1b[1m", NULL, "unknown option --\\x1b[1m"},
		{"--run-dir", NULL, "--run-dir needs a value"},
		{"--run-dir=", NULL, "--run-dir: is empty; use --run-dir DIR"},
		{"--json=yes", NULL, "--json takes no value"},
		{"--timeout", "0", "--timeout: \"0\" is out of range; use 1 to 3600000"},
		{"--timeout", "1s", "--timeout: \"1s\" is not a whole number"},
		{"--timeout", "99999999999999999999", "is out of range"},
		{"--timeout=", NULL, "--timeout: \"\" is not a whole number"},
		{"--interval", "0", "--interval: \"0\" is out of range; use 0.1 to 604800 seconds"},
		{"--interval", "nan",
			"is not a duration such as 500ms, 30s, 5m or 2h; use 0.1 to 604800 "
			"seconds"},
		{"--interval", "1e9",
			"is not a duration such as 500ms, 30s, 5m or 2h; use 0.1 to 604800 "
			"seconds"},
		{"--count", "-1", "--count: \"-1\" is not a whole number"},
	};
	struct weir_cli_options options = {.count = 77};
	char why[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(PARSE(NULL, &options, why, "stats", "show", cases[i].first,
					 cases[i].second),
			-EINVAL);
		if (strstr(why, cases[i].why) == NULL) {
			fail_msg("\"%s\" is not in \"%s\"", cases[i].why, why);
		}
		assert_int_equal(options.count, 77);
	}
	assert_int_equal(PARSE(NULL, &options, why, "1", "2", "3", "4", "5", "6", "7", "8", "9",
				 "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"),
		0);
	assert_int_equal(
		PARSE(NULL, &options, why, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11",
			"12", "13", "14", "15", "16", "17", "18", "19", "20", "21"),
		-EINVAL);
	assert_string_equal(why, "unexpected argument \"21\"");
}

TEST(endpoints) {
	static const struct {
		const char *text, *address;
		uint16_t port;
	} good[] = {
		{"192.0.2.1:80", "192.0.2.1", 80},
		{"192.0.2.1:0", "192.0.2.1", 0},
		{"[2001:db8::1]:65535", "2001:db8::1", 65535},
		{"[::]:1", "::", 1},
	};
	static const char *const bad[] = {"", ":", "80", "192.0.2.1",
		"192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:-1", "192.0.2.1: 80", "192.0.2.1:80x",
		"192.0.2.1:+1", "2001:db8::1:80", "[2001:db8::1]", "[2001:db8::1]80",
		"[192.0.2.1]:80", "[]:80", "[2001:db8::1:80", "localhost:80",
		"[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee]:1"};
	char address[64] = "untouched";
	uint16_t port = 4711;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_cli_endpoint_parse(bad[i], address, 64, &port), -EINVAL);
		assert_string_equal(address, "untouched");
		assert_int_equal(port, 4711);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(weir_cli_endpoint_parse(good[i].text, address, 64, &port), 0);
		assert_string_equal(address, good[i].address);
		assert_int_equal(port, good[i].port);
	}
	assert_int_equal(weir_cli_endpoint_parse("192.0.2.1:80", address, 9, &port), -EINVAL);
}

TEST(steps_of_a_canary) {
	static const char *const bad[] = {"", ",", "1,", ",1", "1,,2", "1 ,2", "1, 2", "nan", "inf",
		"1,nan", "-1", "+1", "0x10", "1e400", "101", "1,5%", "1;5",
		"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
	struct weir_cli_options options;
	char why[128];

	assert_int_equal(
		PARSE(NULL, &options, why, "canary", "start", "--steps", "0.5,5,20", "a", "b"), 0);
	assert_int_equal(options.canary.step_count, 3);
	assert_true(options.canary.steps[0] == 0.5 && options.canary.steps[2] == 20);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (PARSE(NULL, &options, why, "canary", "start", "--steps", (char *)bad[i]) !=
			-EINVAL) {
			fail_msg("accepted: %s", bad[i]);
		}
	}
	assert_non_null(strstr(why, "more than 16"));
	assert_int_equal(
		PARSE(NULL, &options, why, "canary", "start", "--max-error-ratio", "nan"), -EINVAL);
	assert_int_equal(
		PARSE(NULL, &options, why, "canary", "start", "--max-latency-ratio", "0.9"),
		-EINVAL);
	assert_int_equal(
		PARSE(NULL, &options, why, "canary", "start", "--every", "999ms"), -EINVAL);
	assert_int_equal(
		PARSE(NULL, &options, why, "canary", "start", "--min-requests", "0"), -EINVAL);
}
