// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl policy compare: the request that it sends, and its output.
#include "compare.h"

#include "show_lab.h"

#define POLICY(name, used, least, most) \
	"{\"policy\": \"" name "\", \"in_use\": " used ", \"flows\": 5000, \"spilled\": 0, " \
	"\"rejected\": 7, \"share_least_percent\": " least ", \"share_most_percent\": " most \
	", \"active_mean\": 2.5, \"active_most\": 5.0, \"spread\": 2.0}"
#define HEAD(flows, began, lost, omitted) \
	"{\"service\": \"web\", \"policy\": \"maglev\", \"durations\": \"scaled\", " \
	"\"recorded_ms\": 60000, \"flows\": " flows ", \"began\": " began ", \"lost\": " lost \
	", \"omitted\": " omitted ", \"policies\": [" POLICY("recorded", "false", "10.0", \
		"60.0") ", " POLICY("maglev", "true", "11.0", "59.0") "]"
#define BACKEND(name, recorded, maglev) \
	"{\"backend\": \"" name "\", \"weight\": 100, \"in_selection\": true, \"flows\": 9, " \
	"\"time_ms\": 12.25, \"shares\": {\"recorded\": " recorded ", \"maglev\": " maglev "}}"

TEST(policies_are_lines_and_backends_columns) {
	expect_shown(weir_compare_show, "web",
		HEAD("5000", "6000", "0", "0") ", \"backends\": [" BACKEND(
			"web-1", "40.0", "41.5") ", " BACKEND("web-2", "60.0", "58.5") "]}",
		"web, policy maglev: 5000 of 6000 flows that began within 1m00s were recorded\n"
		"Replayed: start of each flow, and its duration, scaled to the speed of the "
		"selected backend.\n"
		"Not simulated: slower responses under load, errors, changes to the backends.\n"
		"\n"
		"POLICY               SHARE-LEAST-%  SHARE-MOST-%  ACTIVE-MEAN  ACTIVE-MOST  "
		"SPREAD  SPILLED  REJECTED\n"
		"recorded (measured)           10.0          60.0          2.5          5.0   "
		"2.000        0         7\n"
		"maglev (in use)               11.0          59.0          2.5          5.0   "
		"2.000        0         7\n"
		"\n"
		"Flows per backend, in percent:\n"
		"BACKEND        web-1  web-2\n"
		"weight           100    100\n"
		"mean time, ms   12.2   12.2\n"
		"recorded        40.0   60.0\n"
		"maglev          41.5   58.5\n");
}

TEST(doubtful_results_are_marked) {
	const char *const parts[] = {("warning: 3 flows of all services not recorded: too many "
				      "flows ended simultaneously\n"),
		"warning: 4 flows were not replayed (recording full): use a shorter --for\n",
		"warning: most flows had not ended, or had no response: use a longer --for\n",
		"warning: few flows recorded: small differences between policies are random\n"};
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(HEAD("10", "6000", "3", "4") ", \"backends\": []}", 0, NULL);
	struct weir_cli cli = {.options = &options};
	char *text;
	size_t bytes;

	assert_non_null(result);
	cli.out = open_memstream(&text, &bytes);
	weir_compare_show(&cli, result);
	fclose(cli.out);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		expect_contains(text, parts[i]);
	}
	free(text);
	json_decref(result);
}

// If there are 10,000 backends, only the backends with the largest differences between policies are
// shown.
TEST(many_backends_are_reduced) {
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(HEAD("5000", "5000", "0", "0") "}", 0, NULL);
	struct weir_cli cli = {.options = &options};
	json_t *backends = json_array();
	char *text, name[16];
	size_t bytes;

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		json_array_append_new(
			backends, json_pack("{s:s, s:i, s:f, s:{s:f, s:f}}", "backend", name,
					  "weight", 1, "time_ms", 1.0, "shares", "recorded", 0.01,
					  "maglev", i == 777 ? 3.0 : 0.01));
	}
	json_object_set_new(result, "backends", backends);
	cli.out = open_memstream(&text, &bytes);
	weir_compare_show(&cli, result);
	fclose(cli.out);
	expect_contains(text, "Flows per backend, in percent, for the backends with the largest "
			      "differences:\nBACKEND        b777 ");
	expect_contains(text, "and 9992 more backends; --json prints all\n");
	free(text);
	json_decref(result);
}

TEST(answers_of_another_version_do_no_harm) {
	static const char *const strange[] = {"{}", "[]", "7",
		"{\"policies\": 3, \"backends\": {}}",
		"{\"policies\": [1, {}], \"backends\": [2, {\"shares\": 1}]}"};
	const struct weir_cli_options options = {0};
	struct weir_cli cli = {.options = &options};

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		json_t *result = json_loads(strange[i], JSON_DECODE_ANY, NULL);
		char *text;
		size_t bytes;

		cli.out = open_memstream(&text, &bytes);
		weir_compare_show(&cli, result);
		fclose(cli.out);
		free(text);
		json_decref(result);
	}
}

TEST(request_has_the_options) {
	static const struct server_answer answers[] = {
		{"policy.compare", "{\"ok\": true, \"result\": {}}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "policy", "compare", "web", "--for",
		"1.5s", "--durations", "measured", "--json");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.out, "{}\n");
	assert_string_equal(outcome.err, "");
	expect_contains(server_request(server), "\"for_ms\":1500");
	expect_contains(server_request(server), "\"durations\":\"measured\"");
	expect_contains(server_request(server), "\"service\":\"web\"");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "policy", "compare", "web");
	expect_contains(server_request(server), "\"for_ms\":60000");
	free_outcome(&outcome);
	server_stop(server);
}
